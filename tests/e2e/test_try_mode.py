"""`lmtui run --mode try`: nothing is real, and what was done is a patch."""

from __future__ import annotations

import subprocess

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP, DOCKER])
@pytest.mark.quick
async def test_a_run_in_the_try_mode_ends_with_a_patch(program: Program, serve: Serve, sandbox: str) -> None:
    (program.workspace / "a.txt").write_text("one\n")
    call = ScriptedCall("shell", {"command": "echo two >> a.txt; mkdir d; echo new > d/b.txt"})
    server = await serve(Scenario((ScriptedTurn("Writing.", calls=(call,)), ScriptedTurn("Done."))))
    options = ("--url", server.url, "--sandbox", sandbox, "--mode", "try", "--output", "json")
    ran = await program.run("run", *options, "Write it.")
    assert (ran.code, ran.json["text"]) == (0, "Done."), ran.err
    assert [each.name for each in program.workspace.iterdir() if not each.name.startswith(".")] == ["a.txt"]
    assert f"git apply {ran.json['patch']}" in ran.err
    subprocess.run(["git", "apply", ran.json["patch"]], cwd=program.workspace, check=True, env={"GIT_DIR": "/nonexistent"})
    assert (program.workspace / "a.txt").read_text() == "one\ntwo\n"
    assert (program.workspace / "d" / "b.txt").read_text() == "new\n"
    assert not list(program.home.rglob("upper"))


async def test_where_no_overlay_can_be_made_a_run_in_the_try_mode_is_refused(program: Program) -> None:
    ran = await program.run("run", "--url", "http://127.0.0.1:9", "--sandbox", "landlock", "--mode", "try", "Write it.")
    assert ran.code != 0
    assert "try mode needs overlays" in ran.err
