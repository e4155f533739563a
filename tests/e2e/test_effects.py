"""Effects of real commands: `lmtui try`, a run that asks about what a command did, and one in the try mode."""

from __future__ import annotations

import json

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP, DOCKER])
@pytest.mark.quick
async def test_try_shows_what_a_command_would_change_and_keeps_it_if_asked(program: Program, sandbox: str) -> None:
    (program.workspace / "a.txt").write_text("one\n")
    command = ("--sandbox", sandbox, "--", "echo two >> a.txt; echo said; exit 3")
    shown = await program.run("try", "--diff", *command)
    assert (shown.code, shown.out.split("\n")[:2]) == (3, ["said", "changes a.txt  +1 -0"]), shown.err
    assert "+two" in shown.out
    assert shown.out.endswith("Nothing was kept.\n")
    assert (program.workspace / "a.txt").read_text() == "one\n"
    kept = await program.run("try", "--keep", "--json", *command)
    assert json.loads(kept.out)["changes"] == [{"path": "a.txt", "kind": "changed", "added": 1, "removed": 0}]
    assert (program.workspace / "a.txt").read_text() == "one\ntwo\n"


async def test_a_run_without_anybody_runs_what_changes_nothing_and_drops_the_rest(program: Program, serve: Serve) -> None:
    quiet = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "sort a.txt | awk '{n++} END {print n \" lines\"}'"}),))
    loud = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "sort -o a.txt a.txt && echo sorted"}),))
    (program.workspace / "a.txt").write_text("two\none\n")
    server = await serve(quiet, loud, ScriptedTurn("Nothing more."))
    result = await program.run("run", "--url", server.url, "--sandbox", "bubblewrap", "--output", "json", "sort it")
    said = json.dumps(server.requests[-1].body)
    assert "2 lines" in said
    assert "sorted" in said
    assert "none of this was kept: changes a.txt" in said
    assert (program.workspace / "a.txt").read_text() == "two\none\n"
    assert json.loads(result.out)["status"] == "blocked"


@pytest.mark.bubblewrap
async def test_try_keeps_words_whole_and_shows_all_of_the_output(program: Program) -> None:
    done = await program.run("try", "--keep", "--sandbox", "bubblewrap", "--", "touch", "a b", "c")
    assert done.code == 0, done.err
    assert sorted(path.name for path in program.workspace.iterdir() if path.name[0] != ".") == ["a b", "c"]
    told = await program.run("try", "--drop", "--sandbox", "bubblewrap", "--", "echo before; sleep 0.005; echo after")
    assert told.out == "before\nafter\nIt changed nothing.\n"
