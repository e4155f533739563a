"""The choice among attempts, their settings, and patches of what they did."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import CheckSummary, Notice, TurnEnded, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.core.workspace import CommandEffect, FileChange, FileChangeKind
from lmtui.engine.session import EngineSession
from lmtui.features.attempt_values import Attempt, AttemptState, ranked
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.app.conftest import DONE, WRITE, Open, Serve
from tests.sets import for_each
from tests.waiting import until


def attempt(
    number: int, *, verified: str, failing: int = 0, lines: int | None = 1, code: int = 0, has_checks: bool = False
) -> Attempt:  # fmt: skip
    check = CheckSummary("make test", -1, 0.0)
    end = TurnEnded(
        turn_id="t", reason=TurnReason.DONE, exit_code=code, verified=verified, checks=(check,) if has_checks else ()
    )
    changes = (FileChange("a", FileChangeKind.MODIFIED, lines, 0, ""),) if lines else ()
    effect = None if lines is None else CommandEffect("b", "a", changes)
    return Attempt(number, state=AttemptState.OVER, end=end, failing=failing, effect=effect)


@for_each(
    "attempts, best, is_green, is_good",
    [
        ([attempt(1, verified="red", failing=1, code=2), attempt(2, verified="green", lines=90)], 2, True, True),
        ([attempt(1, verified="green", lines=9), attempt(2, verified="green", lines=3)], 2, True, True),
        ([attempt(1, verified="red", failing=3, code=2), attempt(2, verified="red", failing=2, lines=99)], 2, False, False),
        ([attempt(1, verified="none", lines=0), attempt(2, verified="unverified", lines=40)], 2, False, True),
        ([attempt(1, verified="unverified", has_checks=True), attempt(2, verified="unverified", lines=7)], 2, False, True),
        ([attempt(1, verified="unverified", has_checks=True), attempt(2, verified="green", lines=None)], 1, False, False),
        ([attempt(2, verified="green"), attempt(1, verified="green")], 1, True, True),
    ],
)
def test_green_wins_then_the_fewest_failing_then_the_smallest(
    attempts: list[Attempt], best: int, *, is_green: bool, is_good: bool
) -> None:
    chosen = ranked(attempts)[0]
    assert (chosen.number, chosen.is_green, chosen.is_good) == (best, is_green, is_good)


async def test_a_kept_attempt_can_be_undone_and_a_change_of_the_users_is_not_overwritten(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    server = await serve(WRITE, DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    attempts = runtime.attempts
    chosen = await attempts.run("write it", 2, (), lambda session: session.submit("write it"))
    assert (len(attempts.ended), (workspace / "a.txt").read_text()) == (2, "zero\n")
    (workspace / "a.txt").write_text("mine\n")
    with pytest.raises(SandboxError, match=r"a\.txt"):
        await attempts.keep(chosen, None, ())
    assert (workspace / "a.txt").read_text() == "mine\n"
    (workspace / "a.txt").write_text("zero\n")
    await attempts.keep(chosen, None, ())
    await attempts.close()
    assert (workspace / "a.txt").read_text() == "one\n"
    session = await runtime.open_session(chosen.session)
    assert session.mode is Mode.NORMAL
    assert session.changes is not None
    await session.changes.apply(await session.changes.plan_undo())
    assert (workspace / "a.txt").read_text() == "zero\n"


async def begun(runtime: Runtime) -> EngineSession:
    """Open a session and try a task in the background of it until all attempts are over."""
    session = await runtime.new_session()
    await runtime.attempts.begin("write it", 3, session.id)
    await until(lambda: not runtime.attempts.is_running and notices(session))
    return session


def notices(session: EngineSession) -> list[str]:
    return [each.event.text for each in session.history() if isinstance(each.event, Notice) and "ttempt" in each.event.text]


@pytest.mark.full
async def test_commands_of_attempts_run_in_their_overlay_where_paths_are_denied_and_keep_refuses_them(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "keep").mkdir()
    both = ScriptedTurn("Running.", calls=(ScriptedCall("shell", {"command": "echo 1 > made.txt; echo 2 > keep/it.txt"}),))
    server = await serve(both, DONE)
    attempts = open_one(server.url, sandbox="bubblewrap", verify="off", deny=("Write(keep/**)",)).attempts
    chosen = await attempts.run("make it", 2, (), lambda session: session.submit("make it"))
    assert chosen.effect is not None
    assert sorted(chosen.effect.paths) == ["keep/it.txt", "made.txt"]
    with pytest.raises(SandboxError, match=r"your rule Write\(keep/\*\*\) forbids it"):
        await attempts.keep(chosen, None, ())
    await attempts.close()
    assert not [*(workspace / "keep").iterdir()]


@pytest.mark.full
async def test_a_stopped_attempt_keeps_what_it_did_and_one_that_waits_is_not_begun(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    server = await serve(WRITE, replace(DONE, text="word " * 200, rate=20.0))
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    session = await runtime.new_session()
    await runtime.attempts.begin("write it", 2, session.id)
    with pytest.raises(UsageError, match="still running"):
        await runtime.attempts.begin("another", 2, session.id)
    await runtime.attempts.stop(2)
    await until(lambda: len(server.requests) >= 2)
    await runtime.attempts.stop(1)
    await until(lambda: not runtime.attempts.is_running)
    first, second = runtime.attempts.listed()
    assert (first.number, first.verdict, first.effect is not None and first.effect.paths) == (1, "stopped", ("a.txt",))
    assert (second.verdict, second.session) == ("not run", "")


async def test_the_end_of_the_program_ends_attempts_and_leaves_no_overlay(home: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(replace(WRITE, rate=1.0), DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    session = await runtime.new_session()
    await runtime.attempts.begin("write it", 2, session.id)
    await until(lambda: server.open_streams)
    await runtime.close()
    assert not list(home.rglob("upper"))


@pytest.mark.full
async def test_what_is_used_is_a_step_of_the_session_that_began_and_is_undone_before_another_is_used(
    workspace: Path, open_one: Open
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    other_text = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "echo longer > a.txt; echo 2 > b.txt"}),))
    async with ScriptedServer(Scenario((other_text, DONE), seed=2), Scenario((WRITE, DONE))) as server:
        runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
        session = await begun(runtime)
        assert notices(session) == [
            "All attempts are done: attempt 1 of 3 is best, no checks ran; it is the smallest change. /attempts shows them."
        ]
        other = await runtime.open_session(runtime.attempts.ended[0].session)
        assert session.changes is not None
        assert other.changes is not None
        for _ in range(2):
            assert (workspace / "a.txt").read_text() == "zero\n"
            assert list(await runtime.attempts.use(1, other.id)) == []
            used = next(each for each in runtime.attempts.listed() if each.number == 1)
            assert ((workspace / "a.txt").read_text(), used.state) == ("one\n", AttemptState.USED)
            assert [step.is_undone for step in session.changes.steps()][-1:] == [False]
            assert [step.tool for step in other.changes.steps()] == ["write"]
            with pytest.raises(SandboxError, match="change"):
                await runtime.attempts.use(2, session.id)
            await session.changes.apply(await session.changes.plan_undo())
        await runtime.attempts.use(2, session.id)
        assert len(session.changes.steps()) == 3
        session.submit("go on")
        await session.wait_idle()
        told = str(server.requests[-1].body["messages"])
    assert "The user kept these changes of attempt 2 at this task: write it" in told
