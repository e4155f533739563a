"""A process that is killed while it makes, uses or keeps an overlay: all of the effect is kept or none, and nothing is left."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from lmtui.paths import kept_dir
from tests.sandbox.conftest import OpenSandbox

RUNS = int(os.environ.get("LMTUI_EFFECT_RUNS", "4"))
FILES = 12
LIFE = """
import asyncio, sys
from pathlib import Path
from lmtui.sandbox.select import select_sandbox

async def main():
    sandbox = await select_sandbox(Path(sys.argv[1]), backend="bubblewrap")
    await sandbox.status()
    print("ready", flush=True)
    for _ in range(3):
        overlay = sandbox.overlay()
        await overlay.sandbox.run_command("sed -i s/old/new/ f*; rm gone; mkdir -p made/deep; echo 1 > made/deep/x; sleep 0.05")
        effect = await overlay.effect()
        await overlay.keep(effect, None, ())
        await overlay.close()
    print("over", flush=True)
    await asyncio.sleep(60)

asyncio.run(main())
"""


def fill(workspace: Path) -> None:
    for number in range(FILES):
        (workspace / f"f{number}").write_text(f"old {number}\n" * 200)
    (workspace / "gone").write_text("gone\n")


def state(workspace: Path) -> dict[str, str]:
    files = (each for each in workspace.rglob("*") if each.is_file() and ".lmagent" not in each.parts)
    return {str(each.relative_to(workspace)): each.read_text() for each in files}


def killed(workspace: Path, after_s: float) -> None:
    """Kill a life after a while."""
    command = [sys.executable, "-c", LIFE, str(workspace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(after_s)
        os.kill(process.pid, signal.SIGKILL)


@pytest.mark.bubblewrap
@pytest.mark.full
async def test_a_kill_leaves_all_of_an_effect_or_none(workspace: Path, open_sandbox: OpenSandbox) -> None:
    (workspace / "README.md").unlink(missing_ok=True)
    ends = set()
    for number in range(RUNS):
        fill(workspace)
        before = state(workspace)
        after = {path: text.replace("old", "new") for path, text in before.items() if path != "gone"} | {"made/deep/x": "1\n"}
        await asyncio.to_thread(killed, workspace, random.Random(number).random() * 0.9)
        sandbox = await open_sandbox("bubblewrap")
        await sandbox.status()
        found = state(workspace)
        assert found in (before, after), (
            number,
            {path for path in found.keys() | after.keys() if found.get(path) != after.get(path)},
        )
        ends.add(found == after)
        await sandbox.close()
        assert not [*kept_dir("overlays", workspace).iterdir()], number
        for path in ("made/deep/x",):
            (workspace / path).unlink(missing_ok=True)
    if RUNS > 50:
        assert ends == {True, False}
