from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HANDLER = '''
async def count_letters(_context: CommandContext, words: str) -> Output:
    """Say how many letters the words have."""
    return Output((f"{len(words)} letters",))


SESSIONS: tuple[Command, ...] = (
    Command(
        "words.count", Scope.WORKBENCH, "Count letters", "Say how many letters some words have.",
        slash=("letters",), argument="WORDS", handler=count_letters,
    ),
'''
PROGRAM = """
import asyncio, io, json
from lmtui.commands.table import command_table
from lmtui.headless.run import read_task
from tests.plain.test_console import talk
from tests.tui.driving import running
from tests.tui.fakes import FakeHost

async def on_screen():
    async with running() as driver:
        await driver.type("/letters four")
        typed = driver.text("#say")
        await driver.press("/", "l", "e", "t")
        offered = driver.text("#completions")
        await driver.press("escape", *["backspace"] * 4, "f1")
        await driver.until_screen("Help")
        from lmtui.tui.controllers.command_controller import every_key
        helped = "\\n".join(f"{row.text} {row.note} {row.words}" for row in every_key())
        await driver.press("escape", "ctrl+p")
        await driver.until_screen("Picker")
        await driver.press(*"count letters")
        return {"typed": typed, "offered": offered, "help": helped, "palette": driver.text()}

async def headless():
    return (await read_task(FakeHost(), "/letters three", ())).lines

shown = asyncio.run(on_screen())
plain = "\\n".join(talk("/letters six", "/help", "/quit")[0].said)
from docs.make_keys import page
names = command_table().names
print(json.dumps({**shown, "plain": plain, "headless": asyncio.run(headless()), "names": names, "docs": page()}))
"""


@pytest.mark.full
def test_one_edit_in_one_file_adds_a_command_everywhere(tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    for name in ("lmtui", "tests", "docs", "themes"):
        shutil.copytree(ROOT / name, copy / name, ignore=shutil.ignore_patterns("__snapshots__", "corpus"))
    file = copy / "lmtui" / "commands" / "session_commands.py"
    text = file.read_text(encoding="utf-8")
    assert text.count("\nSESSIONS: tuple[Command, ...] = (\n") == 1
    file.write_text(text.replace("\nSESSIONS: tuple[Command, ...] = (\n", HANDLER), encoding="utf-8")
    environment = {**os.environ, "PYTHONPATH": str(copy), "HOME": str(copy), "XDG_STATE_HOME": str(copy / "state")}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], env=environment, cwd=copy, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout.splitlines()[-1])
    lacking = [(where, words) for where, words in (
        ("typed", "4 letters"), ("offered", "/letters WORDS"), ("help", "/letters WORDS"), ("palette", "Count letters"),
        ("plain", "3 letters"), ("plain", "/letters WORDS: Say how many letters some words have."), ("headless", "5 letters"),
        ("names", "letters"), ("docs", "| `words.count` |"),
    ) if words not in seen[where]]  # fmt: skip
    assert lacking == []
