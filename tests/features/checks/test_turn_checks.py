"""What checks mean for a turn: what the model is told, when it ends, and what its changes are worth."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from lmtui.core.events import FilesChanged, Notice, TurnReason, TurnStarted
from lmtui.core.messages import StreamChunk
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Effect, Mode, Rule
from lmtui.core.ports import Sandbox
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.task_state import must_pass
from lmtui.core.verification import (
    CheckOutcome,
    CheckRan,
    Finding,
    Gate,
    GoalChanged,
    GoalState,
    ProjectCheck,
    ReviewWritten,
    Rung,
    Severity,
    VerificationTracker,
)
from lmtui.core.workspace import ExecResult
from lmtui.engine.review import read_review
from lmtui.features.checks.fixing import Edit, FixingLadder
from lmtui.features.checks.values import Ask, CheckRunner
from tests.engine.seen import call, ending, ran, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer
from tests.sets import for_each

SUITE = ProjectCheck(Rung.SUITE, "make test", "Makefile")
PASSED, FAILED, NOT_RUN = CheckOutcome.PASSED, CheckOutcome.FAILED, CheckOutcome.NOT_RUN


class Silent(FixingLadder):
    """Checks nothing."""

    gate = Gate.OFF
    is_on = False

    async def findings(self, runner: CheckRunner, changed: Sequence[str], task: str) -> Sequence[Finding]:
        return ()

    async def holds_with(self, runner: CheckRunner, command: str, files: Mapping[str, bytes | None]) -> CheckRan:
        return CheckRan(rung=Rung.GOAL, outcome=NOT_RUN, command=command)

    async def fixes(self, runner: CheckRunner, goal: str, ask: Ask) -> AsyncGenerator[Edit, None]:
        none: tuple[Edit, ...] = ()
        for edit in none:
            yield edit

    async def after_step(self, runner: CheckRunner, changed: Sequence[str]) -> None:
        pass

    async def at_end(self, runner: CheckRunner, changed: Sequence[str], passed: frozenset[str]) -> ProjectCheck | None:
        return None

    async def commands(self, runner: CheckRunner) -> Sequence[ProjectCheck]:
        return ()


class Scripted(Silent):
    """Says what it is told to: `steps` after steps, `ends` at the end, `goals` of the goal."""

    def __init__(self, *ends: CheckRan | None, steps: Sequence[CheckRan] = (), goals: Sequence[CheckRan] = ()) -> None:
        self.ends, self.steps, self.goals = list(ends), list(steps), list(goals)
        self.seen: list[tuple[str, ...]] = []
        self.met: list[str] = []

    async def after_step(self, runner: CheckRunner, changed: Sequence[str]) -> None:
        self.seen.append(tuple(changed))
        if self.steps:
            runner.tell(self.steps.pop(0))

    async def at_end(self, runner: CheckRunner, changed: Sequence[str], passed: frozenset[str]) -> ProjectCheck | None:
        said = self.ends.pop(0) if self.ends else None
        if said is not None:
            runner.tell(said)
        return SUITE if said is not None else None

    is_on = True

    async def meets(self, runner: CheckRunner, goal: str, *, may_write: bool = True) -> CheckRan:
        self.met.append(goal)
        return self.goals.pop(0) if len(self.goals) > 1 else self.goals[0]


def suite(outcome: CheckOutcome, text: str = "") -> CheckRan:
    return CheckRan(
        rung=Rung.SUITE, outcome=outcome, command="make test", exit_code=int(outcome is FAILED), text=text, decides=True
    )


def goal(outcome: CheckOutcome, text: str = "") -> CheckRan:
    return CheckRan(rung=Rung.GOAL, outcome=outcome, command="make", text=text, decides=True)


def write(path: str = "a.txt", content: str = "one\n") -> tuple[str, str]:
    return ("write", call(path=path, content=content))


def rig(provider: FakeProvider, checks: Scripted) -> Rig:
    sandbox = FakeSandbox()
    return Rig(provider, sandbox, checks=checks, checkpoints=FakeCheckpoints(sandbox))


async def at_goal(made: Rig, command: str = "make", task: str = "work") -> None:
    made.session.goals.set(command)
    await made.run(task)


def told(made: Rig) -> list[str]:
    return [event.text for event in seen(made, Reminder)]


@pytest.mark.parametrize(("call", "ends", "verified", "ran_checks"), [
    (("ls", "{}"), [suite(FAILED)], "none", []), (write(), [suite(PASSED)], "green", [("make test", 0)]),
    (write(), [], "unverified", []),
], ids=["nothing was changed", "green", "no check"])  # fmt: skip
async def test_an_end_that_is_none_to_be_repaired_is_done_and_costs_the_model_nothing(
    call: tuple[str, str], ends: Sequence[CheckRan], verified: str, ran_checks: list[tuple[str, int]]
) -> None:
    made = await ran(rig(FakeProvider(answer("", call), answer("Written.")), Scripted(*ends)))
    end = ending(made)
    assert (end.reason, end.verified, end.exit_code, told(made)) == (TurnReason.DONE, verified, 0, [])
    assert [(check.command, check.exit_code) for check in end.checks] == ran_checks


class WithHomes(FakeSandbox):
    """Tells what runs in a home of its own from what runs where commands do."""

    home = FakeSandbox()

    def fresh(self) -> Sandbox:
        return self.home


class Running(Scripted):
    """Runs the suite at the end, and says that it passed or why it did not run."""

    async def at_end(self, runner: CheckRunner, changed: Sequence[str], passed: frozenset[str]) -> ProjectCheck | None:
        ended = await runner.run("make test", limit_s=9)
        runner.tell(suite(NOT_RUN if ended.why_not else PASSED, ended.why_not))
        return SUITE


def running(sandbox: FakeSandbox, **options: Any) -> Rig:
    answers = answer("", write()), answer("Done."), answer("Done.")
    checkpoints = FakeCheckpoints(sandbox)
    return Rig(FakeProvider(*answers), sandbox, is_attended=False, checks=Running(), checkpoints=checkpoints, **options)


async def test_a_check_that_writes_runs_in_a_home_of_its_own() -> None:
    sandbox = WithHomes()
    await running(sandbox).run()
    assert (sandbox.home.ran, sandbox.ran) == (["make test"], [])


async def test_a_red_end_is_told_and_a_repair_makes_it_green_or_it_ends_red() -> None:
    checks = Scripted(suite(FAILED, "FAILED test_a\nE 1 != 2"), suite(PASSED))
    change = answer("", write("tests/test_a.py"))
    made = await ran(rig(FakeProvider(answer("", write()), answer("Done."), change, answer("Now.")), checks))
    assert ending(made).verified == "green"
    assert any("tests/test_a.py" in event.text for event in seen(made, Notice)), "a test that was changed while red"
    (nudge,) = told(made)
    assert "make test" in nudge
    assert "E 1 != 2" in nudge
    checks = Scripted(*[suite(FAILED, "FAILED test_a")] * 3)
    made = await ran(rig(FakeProvider(answer("", write()), answer("Done."), answer("It is done.")), checks))
    end = ending(made)
    assert (end.reason, end.verified, end.exit_code) == (TurnReason.UNFINISHED, "red", 2)
    assert "make test" in end.error
    assert len(told(made)) == 1
    checks = Scripted(*[suite(FAILED, f"FAILED test_{number}") for number in range(20)])
    steps = [piece for number in range(20) for piece in (answer("", write(content=f"{number}\n")), answer("Done."))]
    made = await ran(rig(FakeProvider(*steps), checks))
    assert (ending(made).reason, len(told(made))) == (TurnReason.UNFINISHED, 4)


async def test_what_fails_after_a_step_or_cannot_run_at_the_end_is_told_once() -> None:
    checks = Scripted(suite(NOT_RUN, "it needs a yes"), suite(NOT_RUN, "it needs a yes"))
    made = await ran(rig(FakeProvider(answer("", write()), answer("Done."), answer("I cannot run it.")), checks))
    end = ending(made)
    assert (end.reason, end.verified, end.exit_code) == (TurnReason.DONE, "unverified", 0)
    (nudge,) = told(made)
    assert "make test" in nudge
    assert "it needs a yes" in nudge
    red = CheckRan(rung=Rung.TESTS, outcome=FAILED, command="pytest t", text="FAILED t")
    checks = Scripted(steps=[red, red])
    provider = FakeProvider(answer("", write()), answer("", write("b.txt")), answer("BLOCKED: too hard"))
    made = await ran(rig(provider, checks))
    assert checks.seen == [("a.txt",), ("b.txt",)]
    (nudge,) = told(made)
    assert "FAILED t" in nudge
    assert (ending(made).reason, ending(made).verified) == (TurnReason.BLOCKED, "red")


async def test_a_goal_that_makes_no_progress_pauses_and_runs_again_only_where_something_may_have_changed() -> None:
    checks = Scripted(goals=[goal(FAILED, "error")])
    made = rig(FakeProvider(*[answer("Done.")] * 10), checks)
    await at_goal(made)
    assert ending(made).reason is TurnReason.UNFINISHED
    assert "no progress" in ending(made).error
    assert made.session.goals.listed() == (("make", GoalState.PAUSED),)
    assert len(made.provider.requests) <= 4
    checks = Scripted(goals=[goal(FAILED, "error")])
    looks, runs = answer("", ("ls", "{}")), answer("", ("shell", call(command="true")))
    made = rig(FakeProvider(answer("Done."), looks, answer("Done."), runs, *[answer("Done.")] * 3), checks)
    await at_goal(made)
    assert checks.met == ["make"] * 2  # before the first answer, and after the command
    assert ending(made).reason is TurnReason.UNFINISHED


async def test_goals_wait_in_a_row_survive_a_restart_and_are_paused_resumed_and_dropped() -> None:
    made = rig(FakeProvider(), Scripted(goals=[goal(PASSED)]))
    made.session.goals.set("one")
    made.session.goals.set("two")
    made.session.goals.pause()
    again = Rig(FakeProvider(answer("Done."), answer("Done.")), past=made.log.events, checks=Scripted(goals=[goal(PASSED)]))
    assert again.session.goals.listed() == (("one", GoalState.PAUSED), ("two", GoalState.WAITING))
    again.session.goals.resume()
    await again.run("go on")
    assert again.session.goals.listed() == ()
    again.session.goals.set("three")
    again.session.goals.clear()
    assert again.session.goals.listed() == ()


async def test_a_goal_is_run_where_nothing_can_be_changed_and_else_as_a_call_that_is_shown() -> None:
    sandbox = FakeSandbox(commands={"make": ExecResult(0, "ok", 2, 1)})

    class Running(Silent):
        async def meets(self, runner: CheckRunner, goal: str, *, may_write: bool = True) -> CheckRan:
            ended = await runner.run(goal, limit_s=9)
            return CheckRan(rung=Rung.GOAL, outcome=PASSED if ended.exit_code == 0 else FAILED, command=goal, decides=True)

    made = Rig(FakeProvider(answer("Done.")), sandbox, checks=Running())
    await at_goal(made)
    assert ending(made).reason is TurnReason.DONE
    assert sandbox.ran


def test_a_green_cheap_check_ends_its_own_failure_and_not_a_dearer_one() -> None:
    tracker = VerificationTracker().apply(TurnStarted(turn_id="t")).apply(FilesChanged(call_id="c", files=("a",)))
    red = tracker.apply(suite(FAILED, "x"))
    lint = CheckRan(rung=Rung.LINT, outcome=PASSED, command="ruff")
    assert (red.apply(lint).verified, red.apply(suite(CheckOutcome.KNOWN)).verified) == ("red", "green")
    assert tracker.apply(lint).verified == "unverified"


@for_each(("task", "command"), [
    ("Make `pytest -q tests` pass.", "pytest -q tests"), ("`npm test` fails; repair the code", "npm test"),
    ("Change it until `make check` is green", "make check"), ("Explain what `git status` works with", ""),
    ("Rename `parse` so that it works", ""), ("Run `python3 greet.py` and tell me what it prints", ""),
])  # fmt: skip
def test_the_command_that_a_task_says_has_to_pass(task: str, command: str) -> None:
    assert must_pass(task) == command


async def test_a_change_that_failed_last_is_missed_and_then_unfinished() -> None:
    edit = ("edit", call(path="a.txt", search="x", replace="y"))
    made = await ran(rig(FakeProvider(answer("", edit), answer("Changed."), answer("Changed.")), Scripted()), "change a.txt")
    assert ending(made).reason is TurnReason.UNFINISHED
    assert "edit" in ending(made).error
    again = rig(FakeProvider(answer("", edit), answer("", ("ls", "{}")), answer("There is no such file.")), Scripted())
    await again.run("change a.txt")
    assert ending(again).reason is TurnReason.DONE


async def test_a_command_that_the_task_names_is_run_first_and_decides_at_the_end() -> None:
    checks = Scripted(suite(PASSED), goals=[goal(FAILED, "error one"), goal(FAILED, "error one"), goal(PASSED)])
    made = rig(FakeProvider(answer("", write()), answer("Done."), answer("", write("b.txt")), answer("Done.")), checks)
    await made.run("Make `make test` pass.")
    assert ending(made).verified == "green"
    assert "error one" in told(made)[0]
    assert len(checks.ends) == 1  # the project's own suite was not asked
    red = rig(FakeProvider(*[answer("It is fine.")] * 3), Scripted(goals=[goal(FAILED, "error")]))
    await red.run("Make `make test` pass.")
    assert ending(red).reason is TurnReason.UNFINISHED


def diffed(checks: Scripted, *answers: list[StreamChunk]) -> Rig:
    sandbox = FakeSandbox()
    roles = {ModelRole.REVIEWER: RoleModel("large", top_p=0.8, max_completion=1_234)}
    return Rig(FakeProvider(*answers), sandbox, checks=checks, checkpoints=FakeCheckpoints(sandbox), roles=roles)


class Reviewed(Scripted):
    gate = Gate.STRICT


REJECTED = '{"verdict": "REJECTED", "findings": [{"severity": "major", "file": "a.txt", "line": 1, "message": "it says one"}]}'


async def test_a_review_is_a_note_by_default_and_is_not_asked_for_where_no_model_is_named() -> None:
    answers = answer("", write()), answer("Done."), answer(REJECTED)
    made = await ran(diffed(Scripted(), *answers), "write a.txt")
    assert (told(made), len(seen(made, ReviewWritten))) == ([], 1)
    without = rig(FakeProvider(*answers), Reviewed())
    await without.run("write a.txt")
    assert (seen(without, ReviewWritten), len(without.provider.requests)) == ([], 2)


@for_each(("text", "is_rejected", "findings"), [
    (REJECTED, True, ["major: a.txt:1: it says one"]),
    (f"I looked.\n```json\n{REJECTED}\n```\nSo.", True, ["major: a.txt:1: it says one"]),
    (f'<think>{{"verdict": "APPROVED"}}</think>{REJECTED}', True, ["major: a.txt:1: it says one"]),
    ('{"verdict": "REJECTED", "findings": []}', False, []),
    ('{"verdict": "REJECTED", "findings": [{"severity": "minor", "message": "a name"}]}', False, ["minor: a name"]),
    ('{"verdict": "APPROVED", "findings": "none"}', False, []),
    ('{"verdict": "REJECTED", "findings": [3, {"message": ""}, {"severity": "odd", "message": "x"}]}', False, ["minor: x"]),
    (f"{REJECTED}\n<think>no, wait", True, ["major: a.txt:1: it says one"]),
    (f"Here it is: {REJECTED} I hope that helps.", True, ["major: a.txt:1: it says one"]),
])  # fmt: skip
def test_a_review_is_read_from_what_models_write(text: str, is_rejected: bool, findings: list[str]) -> None:
    found = read_review(text)
    assert found is not None
    assert (found.is_rejected, list(map(str, found.findings))) == (is_rejected, findings)


async def test_a_reviewer_that_writes_prose_is_asked_three_times_and_then_it_is_a_note() -> None:
    prose = [answer("I like it.")] * 4
    made = await ran(diffed(Reviewed(), answer("", write()), answer("Done."), *prose), "write a.txt")
    (written,) = seen(made, ReviewWritten)
    assert written.line == "review: no usable answer"
    assert [request.model for request in made.provider.requests].count("large") == 3
    assert (told(made), ending(made).reason) == ([], TurnReason.DONE)


def test_a_review_says_how_sure_it_is_and_of_what_kind_a_finding_is_and_other_text_is_none() -> None:
    found = read_review(
        '{"verdict": "REJECTED", "findings": [{"severity": "major", "message": "x", "confidence": 7, "class": "lost data"},'
        ' {"severity": "minor", "message": "y", "confidence": "high"}]}'
    )
    assert found is not None
    assert [(each.confidence, each.issue_class) for each in found.findings] == [(1.0, "lost data"), (1.0, "")]
    for text in ("", "Looks good to me.", '<think>{"verdict": "REJECTED"}', '{"verdict": "REJECTED", "findings": ['):
        assert read_review(text) is None, text


UNSURE = REJECTED.replace('"line": 1', '"line": 1, "confidence": 0.4')
CRITICAL = REJECTED.replace("major", "critical")


@for_each(("gate", "said", "is_held"), [
    (Gate.STRICT, REJECTED, True), (Gate.STRICT, UNSURE, True), (Gate.STRICT, REJECTED.replace("REJECTED", "APPROVED"), False),
    (Gate.STANDARD, REJECTED, False), (Gate.OFF, REJECTED, False), (Gate.STANDARD, CRITICAL, True),
    (Gate.STANDARD, CRITICAL.replace("REJECTED", "APPROVED"), True), (Gate.OFF, CRITICAL, False),
])  # fmt: skip
async def test_findings_of_a_review_hold_a_turn_up_where_they_are_critical_or_a_strict_gate_rejects(
    gate: Gate, said: str, is_held: bool
) -> None:
    checks = Reviewed()
    checks.gate = gate
    made = diffed(checks, answer("", write()), answer("Done."), answer(said), answer("It has to be so."))
    await made.run("write a.txt")
    reason = TurnReason.UNFINISHED if is_held else TurnReason.DONE
    assert (len(told(made)), ending(made).reason) == (int(is_held), reason)


APPROVED = '{"verdict": "APPROVED", "findings": [], "summary": "fine"}'


STUB = Finding(Severity.MAJOR, "a.py", 3, "not implemented: pass", 0.8, "stub")


class Found(Scripted):
    """Finds what it is given, one end after the other."""

    def __init__(self, *found: Sequence[Finding]) -> None:
        super().__init__()
        self.found, self.gate, self.tasks = list(found), Gate.STANDARD, list[str]()

    async def findings(self, runner: CheckRunner, changed: Sequence[str], task: str) -> Sequence[Finding]:
        self.tasks.append(task)
        return self.found.pop(0)


async def test_what_the_validators_find_goes_to_the_model_twice_at_most_and_minor_findings_never() -> None:
    checks, again = Found((STUB,), ()), answer("", write(content="two\n"))
    made = await ran(rig(FakeProvider(answer("", write()), answer("Done."), again, answer("Now.")), checks), "write a.txt")
    assert ending(made).reason is TurnReason.DONE
    (nudge,) = told(made)
    assert "major: a.py:3: not implemented: pass" in nudge
    assert (len(nudge.splitlines()) <= 12, checks.tasks) == (True, ["write a.txt"] * 2)
    (written,) = seen(made, ReviewWritten)
    assert written.line.splitlines()[0] == "validators: 1 finding"
    made = rig(FakeProvider(answer("", write()), answer("Done."), answer("It is done.")), Found((STUB,)))
    await made.run("write a.txt")
    assert (ending(made).reason, ending(made).exit_code) == (TurnReason.UNFINISHED, 2)
    assert "a.py:3" in ending(made).error
    assert len(told(made)) == 1
    steps = [piece for number in range(5) for piece in (answer("", write(content=f"{number}\n")), answer("Done."))]
    made = await ran(rig(FakeProvider(*steps), Found(*[(STUB,)] * 5)), "write a.txt")
    assert (len(told(made)), ending(made).reason) == (2, TurnReason.UNFINISHED)
    minor = replace(STUB, severity=Severity.MINOR)
    made = await ran(rig(FakeProvider(answer("", write()), answer("Done.")), Found((minor,))), "write a.txt")
    assert ((told(made), ending(made).reason), len(made.of("review_written"))) == (([], TurnReason.DONE), 1)


@for_each("said", ["x: Read-only file system", "Error: EROFS: read-only file system, open 'out'"])
async def test_a_check_that_has_to_write_asks_and_a_no_ends_the_turn_unverified_without_a_word_to_the_model(said: str) -> None:
    sandbox = FakeSandbox(commands={"make test": ExecResult(1, said, 9, 1)}, has_read_only=True)
    made = await ran(running(sandbox, mode=Mode.NORMAL, rules=(Rule(Effect.ALLOW, "write"),)))
    assert (told(made), ending(made).verified, sandbox.ran) == ([], "unverified", ["make test"] * 2)
    assert sandbox.ran_read_only == sandbox.ran
    assert made.of("approval_requested")


@pytest.mark.parametrize("change", ["pause", "clear"])
async def test_a_goal_that_ends_while_a_turn_runs_is_told_to_the_model(change: str) -> None:
    made = rig(FakeProvider(answer("", write()), answer("Done.")), Scripted(goals=[goal(FAILED, "error")]))
    made.session.goals.set("make")
    made.session.subscribe(
        lambda envelope: getattr(made.session.goals, change)() if isinstance(envelope.event, FilesChanged) else None
    )
    await made.run("work")
    assert "lmtui does not run `make` when you end" in told(made)[-1]
    assert ending(made).reason is TurnReason.DONE
    assert [each.state for each in seen(made, GoalChanged)].count(GoalState.REACHED) == 0


async def test_a_goal_pauses_where_the_user_stops_the_turn_or_its_command_is_not_there() -> None:
    made = rig(FakeProvider([5.0, *answer("Late.")]), Scripted(goals=[goal(FAILED, "error")]))
    made.session.goals.set("make")
    made.session.submit("work")
    await made.until(lambda event: isinstance(event, Reminder))
    made.session.interrupt()
    await made.session.wait_idle()
    assert made.session.goals.listed() == (("make", GoalState.PAUSED),)
    made = rig(FakeProvider(answer("Hello.")), Scripted(goals=[goal(NOT_RUN, "mkae: command not found")]))
    await at_goal(made, "mkae", "hello")
    assert made.session.goals.listed() == (("mkae", GoalState.PAUSED),)
    assert (made.provider.requests, ending(made).reason) == ([], TurnReason.UNFINISHED)
    assert "mkae: command not found" in ending(made).error
    await made.run("hello")  # the goal is paused by now
    assert (told(made), ending(made).reason) == ([], TurnReason.DONE)
    made = rig(FakeProvider(answer("Hello.")), Scripted(goals=[goal(NOT_RUN, "./build: not found")]))
    await at_goal(made, "./build", "write it")
    assert ending(made).reason is TurnReason.DONE


@for_each(("rules", "asks"), [
    ((), False), ((Rule(Effect.ASK, "shell", "make test*"),), True), ((Rule(Effect.DENY, "shell", "make *"),), False),
])  # fmt: skip
async def test_a_rule_that_asks_is_asked_and_one_that_denies_holds(rules: tuple[Rule, ...], asks: bool) -> None:
    made = await ran(running(FakeSandbox(), rules=rules))
    assert bool(made.of("approval_requested")) is asks
    assert (made.sandbox.ran == ["make test"]) is (rules == ())
