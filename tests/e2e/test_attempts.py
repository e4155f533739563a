"""`lmtui run --attempts`: attempts in overlays, the choice among them, and what becomes real."""

from __future__ import annotations

import asyncio
import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.conftest import Program, Serve
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER

TEST = """import unittest
from calc import add, sub


class TestCalc(unittest.TestCase):
    def test_add(self):
        self.assertEqual(add(2, 1), 3)

    def test_sub(self):
        self.assertEqual(sub(2, 1), 1)


unittest.main()
"""
BROKEN = "def add(a, b):\n    return a * b\n\n\ndef sub(a, b):\n    return a * b\n"
GOOD = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a - b\n"
HALF = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n    return a * b\n"
OPTIONS = ("--attempts", "4", "--goal", "python3 test_calc.py", "--output", "json")


def scenario(content: str, seed: int | None, rate: float = 0.0) -> Scenario:
    """Return an attempt that writes a file through the shell and says that it is done, or gives up."""
    write = f"cat > calc.py <<'EOF'\n{content}EOF"
    calls = (ScriptedCall("shell", {"command": write}),)
    turns = (ScriptedTurn("I write it.", calls=calls, rate=rate), *[ScriptedTurn("It is done.", rate=rate)] * 6)
    return Scenario(turns, seed=seed, name=str(seed))


@pytest.fixture
def project(program: Program) -> Program:
    (program.workspace / "calc.py").write_text(BROKEN)
    (program.workspace / "test_calc.py").write_text(TEST)
    return program


def overlays(program: Program) -> list[Path]:
    return list(program.home.rglob("upper"))


async def attempted(
    project: Program, server: ScriptedServer, *more: str, sandbox: str = "bubblewrap"
) -> tuple[int, dict[str, Any], str]:
    result = await project.run("run", "--url", server.url, "--sandbox", sandbox, *OPTIONS, *more, "Repair calc.py.")
    assert result.out, result.err
    return result.code, result.json, result.err


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP, DOCKER])
async def test_one_slot_tries_until_one_is_green_and_keeps_that(project: Program, serve: Serve, sandbox: str) -> None:
    server = await serve(scenario(GOOD, 2), scenario(BROKEN, 3), scenario(HALF, None))
    code, told, err = await attempted(project, server, "--keep", sandbox=sandbox)
    listed = told["attempts"]
    assert [(each["verified"], each["failing"], each["chosen"], each["kept"]) for each in listed] == [
        ("red", 1, False, False),
        ("green", 0, True, True),
    ], err
    assert (code, told["session"], told["verified"]) == (0, listed[1]["session"], "green")
    assert (listed[1]["added"], listed[1]["removed"]) == (2, 2)
    assert (project.workspace / "calc.py").read_text() == GOOD
    assert not overlays(project)
    shown = await project.run("sessions")
    assert "attempt 2 of 4: Repair calc.py." in shown.out


async def test_without_keep_nothing_is_real_the_patch_applies_and_hooks_are_left_out_only_by_name(
    project: Program, serve: Serve
) -> None:
    (project.home / "config").mkdir(parents=True)
    entry = {"matcher": "", "hooks": [{"type": "command", "command": "touch ran"}]}
    (project.home / "config" / "hooks.json").write_text(json.dumps({"hooks": {"PreToolUse": [entry]}}))
    server = await serve(scenario(GOOD, None))
    refused = await project.run("run", "--url", server.url, "--sandbox", "bubblewrap", *OPTIONS, "Repair calc.py.")
    assert (refused.code, "--no-hooks" in refused.err, server.requests, overlays(project)) == (64, True, [], [])
    code, told, err = await attempted(project, server, "--no-hooks")
    assert (code, len(told["attempts"]), (project.workspace / "ran").exists()) == (0, 1, False)
    assert (project.workspace / "calc.py").read_text() == BROKEN
    (patch,) = (project.state / "patches").iterdir()
    assert patch.name == f"{told['session']}.patch"
    assert f"git apply {patch}" in err
    subprocess.run(["git", "apply", str(patch)], cwd=project.workspace, check=True)
    assert (project.workspace / "calc.py").read_text() == GOOD


async def test_what_a_kill_leaves_goes_at_the_next_start(project: Program, serve: Serve) -> None:
    server = await serve(scenario(GOOD, None, rate=0.5))
    process = await project.start("run", "--url", server.url, "--sandbox", "bubblewrap", *OPTIONS, "Repair calc.py.")
    while not server.open_streams:
        await asyncio.sleep(0.05)
    process.kill()
    await process.communicate()
    assert overlays(project)
    assert (await project.run("try", "--sandbox", "bubblewrap", "--drop", "--", "true")).code == 0
    assert not overlays(project)
    assert (project.workspace / "calc.py").read_text() == BROKEN


async def test_what_cannot_be_is_said_and_asks_no_model(project: Program, serve: Serve) -> None:
    (project.workspace.parent / "other").mkdir()
    server = await serve(scenario(GOOD, None))
    for arguments, words in (
        (("--keep",), "For example: --attempts 4 --keep"),
        (("--models", "a,b,c", "--attempts", "6"), "a number from 1 to 5 here"),
        (("--attempts", "3", "--continue"), "is for a new session"),
        (("--attempts", "3", "--sandbox", "landlock"), "attempts need overlays"),
        (("--attempts", "3", "--sandbox", "bubblewrap", "--mode", "plan"), "plan mode does not allow that"),
        (("--attempts", "3", "--sandbox", "bubblewrap", "--add-dir", "../other:rw"), "Add them without :rw."),
    ):
        result = await project.run("run", "--url", server.url, *arguments, "Repair calc.py.")
        assert (result.code, words in result.err) == (64, True), result.err
    assert not server.requests
