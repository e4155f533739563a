from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

# Loaded by every Python that lmtui starts with its environment: writes down each program that it starts.
_TRACE = """
import os, shutil, sys

def note(event, arguments):
    if event in ("subprocess.Popen", "os.exec", "os.posix_spawn", "os.system", "os.startfile", "pty.spawn"):
        program = os.fsdecode(arguments[0])
        program = program if "/" in program else shutil.which(program) or program  # libraries know names only
        with open(os.environ["LMTUI_TRACED"], "a") as file:
            print(program, file=file)

sys.addaudithook(note)
"""


@pytest.mark.parametrize("mode", ["auto", "normal", "plan"])
async def test_every_program_that_lmtui_starts_is_the_system_s(
    program: Program, serve: Serve, tmp_path: Path, mode: str
) -> None:
    traced, ran = tmp_path / "traced", tmp_path / "ran"
    (tmp_path / "site").mkdir()
    (tmp_path / "site" / "sitecustomize.py").write_text(_TRACE)
    for folder in (".venv/bin", "venv/bin", "node_modules/.bin", "."):
        (program.workspace / folder).mkdir(parents=True, exist_ok=True)
        for name in ("bash", "sh", "git", "rg", "bwrap", "docker", "python3", "env", "uname", "less", "node", "mkdir"):
            path = program.workspace / folder / name
            path.write_text(f'#!/bin/sh\necho "$0" >> {ran}; echo "$0" >> {program.workspace}/ran-inside\nexit 1\n')
            path.chmod(0o755)
    place = program.workspace
    folders = f"{place}/.venv/bin:.:{place}/node_modules/.bin"
    program.environ |= {
        "PYTHONPATH": f"{tmp_path}/site:{Path(__file__).parents[2]}",
        "LMTUI_TRACED": str(traced),
        "PATH": f"{folders}:{os.environ['PATH']}",
    }
    looks = (
        ScriptedCall("git_status", {}),
        ScriptedCall("glob", {"pattern": "**/*.py"}),
        ScriptedCall("grep", {"pattern": "x"}),
    )
    subprocess.run(["git", "init", "-q", str(place)], check=True)
    server = await serve(ScriptedTurn("Looking.", calls=looks), ScriptedTurn("Done."))
    result = await program.run("run", "--url", server.url, "--mode", mode, "--output", "json", "look around")
    assert result.code == 0, result.err
    started = traced.read_text().split("\n")[:-1]
    assert started
    for name in started:
        assert name.startswith("/"), name
        assert not Path(name).resolve().is_relative_to(program.workspace.resolve()), name
    assert not ran.exists()
    assert not (program.workspace / "ran-inside").exists()
