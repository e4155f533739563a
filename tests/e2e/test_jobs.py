from __future__ import annotations

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve


async def test_a_job_that_nobody_may_finish_is_told_by_the_exit_code(program: Program, serve: Serve) -> None:
    write = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "a.txt", "content": "x"}),))
    server = await serve(write, ScriptedTurn("It was refused."))
    assert (await program.run("submit", "write a.txt")).code == 0
    ended = await program.run("scheduler", "--once", "--url", server.url)
    assert (ended.code, "1 job ran" in ended.err.splitlines()[-1]) == (1, True), ended.err
