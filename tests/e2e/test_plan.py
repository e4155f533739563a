from __future__ import annotations

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

STEPS = [
    {"id": 1, "description": "Write a.txt", "files": ["a.txt"], "commands": ["cat a.txt"], "verification": "it says one"},
    {"id": 2, "description": "Write b.txt", "files": ["b.txt"], "depends_on": [1]},
]
PLAN = {"title": "Two files", "steps": STEPS}
PROPOSE = ScriptedTurn("This is what I would do.", calls=(ScriptedCall("propose_plan", {"plan": PLAN}),))
FIRST = ScriptedTurn(
    "Step one.",
    calls=(
        ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),
        ScriptedCall("read", {"path": "a.txt"}),
        ScriptedCall("plan_complete_step", {"step_id": 1, "verification_notes": "it says one"}),
    ),
)
SECOND = ScriptedTurn(
    "Step two.",
    calls=(
        ScriptedCall("write", {"path": "b.txt", "content": "two\n"}),
        ScriptedCall("plan_complete_step", {"step_id": 2, "verification_notes": "written"}),
    ),
)
DONE = ScriptedTurn("Both files are there.")
FILES_ONLY = ("--sandbox", "process")


def session_of(program: Program) -> str:
    logs = sorted((program.workspace / ".lmagent/sessions").glob("*.jsonl"))
    return logs[-1].stem


def files_of(program: Program) -> list[str]:
    return sorted(path.name for path in program.workspace.iterdir() if path.is_file())


@pytest.mark.quick
async def test_approved_by_the_command_line_it_is_carried_out(program: Program, serve: Serve) -> None:
    server = await serve(PROPOSE, FIRST, SECOND, DONE)
    result = await program.run("plan", "--url", server.url, *FILES_ONLY, "--approve", "--allow-named", "two files")
    assert (result.code, result.out) == (0, "Both files are there.\n")
    assert "allow Write(a.txt)" in result.err
    assert files_of(program) == ["a.txt", "b.txt"]


async def test_a_model_that_brings_no_plan_ends_as_not_finished(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("I would just write two files, that is easy."))
    result = await program.run("plan", "--url", server.url, *FILES_ONLY, "two files")
    assert (result.code, "proposed no plan" in result.err, "that is easy" in result.out) == (2, True, True)


async def test_a_resumed_session_shows_its_plan_and_carries_it_out_once_approved(program: Program, serve: Serve) -> None:
    server = await serve(PROPOSE, FIRST, SECOND, DONE)
    await program.run("plan", "--url", server.url, "--mode", "auto", *FILES_ONLY, "two files")
    session = session_of(program)
    shown = await program.run("resume", "--url", server.url, *FILES_ONLY, session)
    assert (shown.code, shown.out.splitlines()[0]) == (3, "plan: Two files")
    assert len(server.requests) == 1
    done = await program.run("resume", "--url", server.url, *FILES_ONLY, "--approve", session)
    assert (done.code, done.out) == (0, "Both files are there.\n")
    assert files_of(program) == ["a.txt", "b.txt"]
    again = await program.run("resume", "--url", server.url, *FILES_ONLY, "--approve", session, "and now?")
    assert again.code == 0
