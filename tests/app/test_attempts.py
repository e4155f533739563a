"""The choice among attempts, their settings, and patches of what they did."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.attempts import config_of, plans_of
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.attempt_values import Attempt, AttemptState, ranked, reason
from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.events import CheckSummary, FilesChanged, Notice, TurnEnded, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.core.project_checks import CheckOutcome, Rung
from lmtui.core.roles import ModelRole, parse_roles
from lmtui.core.workspace import CommandEffect, FileChange, FileChangeKind
from lmtui.engine.session import EngineSession
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.app.conftest import DONE, WRITE, Open, Serve
from tests.sets import for_each


def attempt(
    number: int, *, verified: str, failing: int = 0, lines: int | None = 1, code: int = 0, has_checks: bool = False,
    digest: str = "",
) -> Attempt:  # fmt: skip
    check = CheckSummary("make test", -1, 0.0)
    end = TurnEnded(
        turn_id="t", reason=TurnReason.DONE, exit_code=code, verified=verified, checks=(check,) if has_checks else ()
    )
    changes = (FileChange("a", FileChangeKind.MODIFIED, lines, 0, ""),) if lines else ()
    effect = None if lines is None else CommandEffect("b", "a", changes)
    return Attempt(number, state=AttemptState.OVER, end=end, failing=failing, effect=effect, digest=digest)


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


def test_the_first_is_as_configured_and_each_other_has_a_seed_of_its_own() -> None:
    drawn = [config_of(Config(temperature=0.2), number) for number in (1, 2, 3)]
    assert [(each.temperature, each.seed) for each in drawn] == [(0.2, -1), (0.7, 2), (0.7, 3)]
    assert {each.mode for each in drawn} == {"auto"}
    assert config_of(Config(temperature=0.9, seed=40), 3).seed == 42
    assert config_of(Config(temperature=0.9, seed=40), 3).temperature == 0.9


def test_each_fourth_is_by_another_model_that_a_role_names_and_a_role_s_temperature_does_not_undo_the_heat() -> None:
    config = Config(model="main", roles=("planner: big", "title: small", "coder: main temperature=0.1"))
    plans = plans_of(config, 8)
    assert [each.model for each in plans] == ["", "", "", "big", "", "", "", "big"]
    coders = [parse_roles(each.config.roles)[ModelRole.CODER] for each in plans]
    assert [(each.temperature, each.seed) for each in coders[:3]] == [(0.1, None), (0.7, 2), (0.7, 3)]
    assert {each.model for each in plans_of(Config(model="main", roles=("planner: main",)), 8)} == {""}


def test_where_no_check_says_anything_the_change_that_most_made_wins_then_the_smallest() -> None:
    small, first, second = (
        attempt(number, verified="unverified", lines=lines, digest=digest)
        for number, lines, digest in ((1, 2, "x"), (2, 9, "y"), (3, 8, "y"))
    )
    assert [each.number for each in ranked([small, first, second])] == [3, 2, 1]
    assert reason([small, first, second], second) == "no checks ran; 2 of 3 attempts made the same change"
    assert ranked([small, first])[0] is small, "two are too few to agree"
    unknown = [replace(each, digest="") for each in (small, first, second)]
    assert ranked(unknown)[0].number == 1, "what nobody has seen is no agreement"
    green = attempt(4, verified="green", lines=90, digest="z")
    assert ranked([small, first, second, green])[0] is green


def test_of_two_that_are_green_the_one_that_repairs_what_failed_before_wins() -> None:
    small = replace(attempt(1, verified="green", lines=1), checks={Rung.SUITE: CheckOutcome.KNOWN})
    whole = replace(attempt(2, verified="green", lines=9), checks={Rung.SUITE: CheckOutcome.PASSED})
    assert ranked([small, whole])[0] is whole
    assert reason([small, whole], whole) == "all checks pass"
    assert reason([small], small) == "nothing fails that did not fail before"


@for_each(
    "attempts, words",
    [
        ([attempt(1, verified="green"), attempt(2, verified="green", lines=9)], "all checks pass with the smallest change"),
        ([attempt(1, verified="green")], "all checks pass"),
        ([attempt(1, verified="red", failing=2, code=2)], "none is green; fewest failing tests (2)"),
        ([attempt(1, verified="unverified")], "no checks ran; it is the smallest change"),
        ([attempt(1, verified="unverified", lines=0)], "no attempt changed anything"),
        ([attempt(1, verified="green", lines=None)], "no attempt can be used"),
    ],
)
def test_the_reason_is_said(attempts: list[Attempt], words: str) -> None:
    assert reason(attempts, ranked(attempts)[0]) == words


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


async def begun(runtime: Runtime, count: int = 2) -> EngineSession:
    """Open a session and try a task in the background of it until all attempts are over."""
    session = await runtime.new_session()
    await runtime.attempts.begin("write it", count, session.id)
    while runtime.attempts.is_running or not notices(session):
        await asyncio.sleep(0.02)
    return session


def notices(session: EngineSession) -> list[str]:
    return [each.event.text for each in session.history() if isinstance(each.event, Notice) and "ttempt" in each.event.text]


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


async def test_attempts_in_the_background_end_with_a_notice_and_the_used_one_is_a_step_that_undo_takes_back(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    server = await serve(WRITE, DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    session = await begun(runtime, 3)
    assert notices(session) == [
        "All attempts are done: attempt 1 of 3 is best, no checks ran; 3 of 3 attempts made the same change."
        " /attempts shows them."
    ]
    assert (workspace / "a.txt").read_text() == "zero\n"
    assert list(await runtime.attempts.use(2, session.id)) == []
    assert (workspace / "a.txt").read_text() == "one\n"
    assert runtime.attempts.listed()[1].state is AttemptState.USED
    (changed,) = [each.event for each in session.history() if isinstance(each.event, FilesChanged)]
    assert (changed.files, bool(changed.before), bool(changed.after)) == (("a.txt",), True, True)
    assert session.changes is not None
    plan = await session.changes.plan_undo()
    await session.changes.apply(plan)
    assert (workspace / "a.txt").read_text() == "zero\n"
    session.submit("go on")
    await session.wait_idle()
    told = str(server.requests[-1].body["messages"])
    assert "The user kept these changes of attempt 2 at this task: write it" in told


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
    while len(server.requests) < 2:
        await asyncio.sleep(0.02)
    await runtime.attempts.stop(1)
    while runtime.attempts.is_running:
        await asyncio.sleep(0.02)
    first, second = runtime.attempts.listed()
    assert (first.number, first.verdict, first.effect is not None and first.effect.paths) == (1, "stopped", ("a.txt",))
    assert (second.verdict, second.session) == ("not run", "")


async def test_the_end_of_the_program_ends_attempts_and_leaves_no_overlay(home: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(replace(WRITE, rate=1.0), DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    session = await runtime.new_session()
    await runtime.attempts.begin("write it", 2, session.id)
    while not server.open_streams:
        await asyncio.sleep(0.02)
    await runtime.close()
    assert not list(home.rglob("upper"))


@pytest.mark.full
async def test_what_is_used_is_a_step_of_the_session_that_began_and_is_undone_before_another_is_used(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    (workspace / "a.txt").write_text("zero\n")
    write = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "echo $RANDOM$RANDOM > a.txt"}),))
    server = await serve(write, DONE)
    runtime = open_one(server.url, sandbox="bubblewrap", verify="off")
    session = await begun(runtime)
    other = await runtime.open_session(runtime.attempts.ended[0].session)
    assert session.changes is not None
    assert other.changes is not None
    for _ in range(2):
        await runtime.attempts.use(1, other.id)
        assert [step.is_undone for step in session.changes.steps()][-1:] == [False]
        assert [step.tool for step in other.changes.steps()] == ["shell"]
        with pytest.raises(SandboxError, match="attempt 1 is in use: /undo it first"):
            await runtime.attempts.use(2, session.id)
        await session.changes.apply(await session.changes.plan_undo())
    await runtime.attempts.use(2, session.id)
    assert len(session.changes.steps()) == 3
