"""What speaks against the end of a turn: checks that fail, goals that are not reached, findings.

The commands are run as the permissions have it, told to the model, and counted.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from lmtui.core.errors import SandboxError
from lmtui.core.events import TurnReason, Verified
from lmtui.core.messages import Message, ModelRequest, Role, ToolCall
from lmtui.core.permissions.rules import Decision, Verdict
from lmtui.core.roles import ModelRole, RoleModel
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import must_pass
from lmtui.core.verification import (
    CheckOutcome,
    CheckRan,
    CheckStarted,
    GoalChanged,
    GoalState,
    ProjectCheck,
    ReviewWritten,
    Rung,
    bounded,
)
from lmtui.engine.accounting import answer_outside
from lmtui.engine.agent import Agent, TurnPoints
from lmtui.engine.call_permissions import decide, learn_sandbox, mask_files
from lmtui.engine.review import RoleRequests, blocking_findings
from lmtui.engine.syntax import parse_check, unparsed
from lmtui.engine.tool_runner import run_call
from lmtui.engine.turn_outcome import reason_of
from lmtui.features.checks.fixing import FixingLadder
from lmtui.features.checks.values import CheckRunner, CommandEnded

_MOST_ROUNDS = 4
_MOST_STUCK, _MOST_SAME = 2, 6  # the same words again; the same first line
_MOST_NAMED = 5
_MOST_REVIEWS = 2
_EXIT = re.compile(r"exit (\d+)")
_TEST_FILE = re.compile(
    r"(?:^|/)(?:tests?|__tests__|spec)/|(?:^|/)(?:test_[^/]*|tests?)\.py$|_test\.\w+$|\.(?:test|spec)\.\w+$"
)
_ABOUT_TESTS = re.compile(
    r"\b(?:updat|chang|adapt|rewrit|edit|remov|delet|mov|renam)\w*\b[^.\n]{0,40}\btests?\b", re.IGNORECASE
)
_TOLD = "The check `{command}` fails:\n{text}\n"
_REPAIR = (
    "Not finished: {told}Repair the code, and leave tests as they are unless the task is about them. "
    "If it cannot be done, say why in a line that begins with BLOCKED:"
)
_UNRUN = (
    "Not checked yet: `{command}` decides whether the change is right, and it was not run ({why}). "
    "Run it if you can; else say what you did and what is not checked."
)
_FIXER = "You repair Python code. You answer with one corrected definition in a code block."
_NO_COMMAND = re.compile(r"\bnot found\b")
_NEVER = "the goal `{goal}` cannot be checked: {why}. Set one that runs here, or install the program and use /goal resume."
_DRAW_TEMPERATURE, _DRAW_TOKENS = 0.7, 1_200
_FOUND = "{who} found this in your change:\n{findings}\nFix what is valid, then say what you did."


@dataclass(slots=True)
class CheckProgress:
    """How far the checks of a turn are.

    `checked` is the number of the last change that was checked after its step, `red_told` the failure that the model was told
    last, `red_state` the change and the failure of the last end that was held up, after `red_rounds` attempts; `stuck` of them
    in a row said the same, `same_name` failed at the same place.  `reviews` is how often a model reviewed the turn, `reviewed`
    the last change that was looked at; findings held it up `held_rounds` times, and `left` says what is still to be repaired.
    `goal_told` is the goal that the model was told of at the beginning; `is_told_off`: and that it is paused or dropped by now.
    """

    checked: int = 0
    red_told: str = ""
    red_state: tuple[int, str] = (-1, "")
    red_rounds: int = 0
    stuck: int = 0
    same_name: int = 0
    is_told_unchecked: bool = False
    reviews: int = 0
    reviewed: int = -1
    held_rounds: int = 0
    left: str = ""
    goal_told: str = ""
    is_told_off: bool = False


class AgentCheckRunner(CheckRunner):
    """Runs the checks of one agent.

    `failed` are the checks that failed in its hands; `was_refused`: a command needed an approval and did not get it.
    """

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.services.sandbox)
        self._agent = agent
        self._runs = 0
        self.was_refused = False
        self.failed: list[CheckRan] = []

    async def _begin(self, command: str, limit_s: int) -> tuple[Decision, bool]:
        """Prepare a command; one that a rule asks about, or that features review, passes them in any case."""
        agent = self._agent
        agent.emit(CheckStarted(agent=agent.id, command=command.rpartition("\n")[2]))  # what is before it makes a copy
        mask_files(agent)
        await learn_sandbox(agent)
        call = self._call(command, limit_s)
        decision = decide(agent, agent.services.toolbox.prepare(call.name, call.arguments))
        is_asked = (decision.verdict is Verdict.ASK and bool(decision.rule)) or bool(agent.services.points.before_call)
        return decision, bool(agent.state.sandbox.has_read_only) and not is_asked

    def _call(self, command: str, limit_s: int) -> ToolCall:
        return ToolCall(self.next_id(), "shell", json.dumps({"command": command, "timeout": limit_s}))

    async def _run_writing(self, command: str, limit_s: int, decision: Decision) -> CommandEnded:
        """Run a command that changes files: asked about, with a checkpoint, and shown as any call."""
        del decision  # it is made again
        agent, call = self._agent, self._call(command, limit_s)
        began = agent.services.monotonic()
        result = await run_call(agent, call, by="check")
        self.was_refused |= result.summary == "refused"
        if result.summary in ("refused", "not understood", "failed", "stopped"):
            return CommandEnded(why_not=result.text.partition("\n")[0])
        found = _EXIT.search(result.summary)
        is_timed_out = "timed out" in result.summary
        code = 0 if result.ok else int(found[1]) if found else 124 if is_timed_out else 1
        return CommandEnded(code, result.text, agent.services.monotonic() - began, is_timed_out)

    def next_id(self) -> str:
        """Return a fresh call id."""
        self._runs += 1
        return f"check_{self._agent.turn.id}_{len(self._agent.state.verification.ran)}_{self._runs}"

    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        """Return files as the checkpoint before the turn's first change has them."""
        base, checkpoints = self._agent.state.verification.base, self._agent.services.checkpoints
        if not base or checkpoints is None:
            return None
        with contextlib.suppress(SandboxError):
            return {path: await checkpoints.read(base, path) for path in paths}
        return None

    def tell(self, check: CheckRan) -> None:
        self._agent.emit(replace(check, agent=self._agent.id, turn_id=self._agent.turn.id))
        if check.outcome is CheckOutcome.FAILED:
            self.failed.append(check)


class TurnChecks:
    """The checks of one session, at the points of its turns."""

    def __init__(self, ladder: Callable[[], FixingLadder]) -> None:
        self.ladder = ladder
        self._progress = CheckProgress()

    def register(self, points: TurnPoints) -> None:
        """Let the points be called at which work is checked."""
        points.before_work.append(self._begin_goal)
        points.before_request.append(self._tell_goal)
        points.after_step.append(self._check_step)
        points.turn_end.insert(0, self._may_end)  # others may hold up what is right
        points.after_turn.append(_pause_goal)

    async def _begin_goal(self, agent: Agent) -> str:
        """Run the command of the goal before the first answer, so that the model sees what fails.

        A model that is weak is asked for one definition at a time first; see `FixingLadder.fixes`.

        Returns:
            Why the turn should end before it begins: no such command can ever decide.  Else empty.
        """
        if agent.state.depth:
            return ""
        self._progress = CheckProgress()
        is_set = bool(agent.state.verification.goal)
        goal = agent.state.verification.goal or self._named(agent)
        if not goal or agent.state.only_reads:
            return ""
        runner, progress = AgentCheckRunner(agent), self._progress
        ladder = self.ladder()
        check = await ladder.meets(runner, goal, may_write=is_set)
        runner.tell(check)
        if check.outcome is CheckOutcome.FAILED and agent.is_weak and await _fix(agent, ladder, runner, goal):
            check = await ladder.meets(runner, goal, may_write=is_set)
            runner.tell(check)
        progress.checked = agent.state.verification.version
        if check.outcome is CheckOutcome.NOT_RUN:
            if is_set:
                agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
            is_hopeless = is_set and "/" not in goal.split()[0] and _NO_COMMAND.search(check.text)
            return _NEVER.format(goal=sanitize_line(goal), why=check.text) if is_hopeless else ""
        says = "exits with 0 now" if check.outcome is CheckOutcome.PASSED else f"says now:\n{check.text}"
        agent.remind(f"The work is done when `{goal}` exits with 0; lmtui runs it when you end. It {says}", "checks")
        progress.goal_told = goal if is_set else ""
        return ""

    def _tell_goal(self, agent: Agent) -> None:
        """Tell the model that the goal which it was told of is paused or dropped by now."""
        if not agent.state.depth and (goal := self._goal_off(agent)) and not self._progress.is_told_off:
            self._progress.is_told_off = True
            what = "paused" if agent.state.verification.goals else "dropped"
            agent.remind(
                f"The user {what} the goal: lmtui does not run `{goal}` when you end, and it need not exit with 0.", "checks"
            )

    def _goal_off(self, agent: Agent) -> str:
        """Return the goal that the model was told of, if the user has paused or dropped it since."""
        told, goals = self._progress.goal_told, dict(agent.state.verification.goals)
        return told if not goals or goals.get(told) is GoalState.PAUSED else ""

    def _named(self, agent: Agent) -> str:
        """Return the command that the task says has to pass."""
        return must_pass(agent.conversation.last_task) if self.ladder().is_on else ""

    async def _check_step(self, agent: Agent) -> None:
        """Check what the step just done changed; the model is told what fails, each failure once."""
        if agent.state.depth or agent.state.only_reads:
            return
        tracker, progress = agent.state.verification, self._progress
        changed = [path for path, version in tracker.touched.items() if version > progress.checked]
        progress.checked = tracker.version
        if not changed:
            return
        runner = AgentCheckRunner(agent)
        await self.ladder().after_step(runner, changed)
        for check in runner.failed[:1]:
            if check.text != progress.red_told:
                progress.red_told = check.text
                agent.remind(_TOLD.format(command=check.command or check.rung, text=check.text), "checks")

    async def _may_end(self, agent: Agent, text: str, error: str) -> tuple[str, str]:
        """Check the whole of a turn that would end; return what the model is told, else what the user is told."""
        is_asking = agent.services.approvals.is_attended and text.rstrip().endswith("?")
        is_done = reason_of(text) is TurnReason.DONE and not is_asking
        if error or not is_done or agent.state.depth or agent.state.only_reads:
            return "", ""
        if goal := agent.state.verification.goal:
            nudge, error = await self._pursue(agent, goal)
        else:
            named = self._named(agent)
            nudge, error = await self._check_all(agent, named) if named or agent.state.verification.touched else ("", "")
        return (nudge, error) if nudge or error else await self._held_by_findings(agent)

    async def _check_all(self, agent: Agent, named: str) -> tuple[str, str]:
        """Run the command that decides: the one that the task names as having to pass, else the project's own."""
        runner, tracker, progress = AgentCheckRunner(agent), agent.state.verification, self._progress
        is_parse = tracker.red is not None and tracker.red.rung is Rung.PARSE
        if is_parse and not await unparsed(agent.services.sandbox, tracker.touched):
            runner.tell(parse_check({}))  # what a command deleted is not always known
        decides: ProjectCheck | None
        if named:
            check = await self._meets(agent, runner, named, may_write=False)
            runner.tell(replace(check, source="your task"))
            decides = ProjectCheck(check.rung, named)
        elif tracker.red is not None and tracker.red.decides and tracker.known(tracker.red.command) is not None:
            decides = ProjectCheck(tracker.red.rung, tracker.red.command)
        else:
            decides = await self.ladder().at_end(runner, tuple(tracker.touched), tracker.passed)
        tracker = agent.state.verification
        if tracker.verified is Verified.GREEN or (tracker.red is None and not tracker.touched):
            _tell_changed_tests(agent)
            return "", ""
        if (red := tracker.red) is not None:
            return self._told_red(agent, red) if red.command != self._goal_off(agent) else ("", "")
        if decides is None or runner.was_refused or progress.is_told_unchecked:
            return "", ""
        progress.is_told_unchecked = True
        why = next((check.text for check in reversed(tracker.ran) if check.outcome is CheckOutcome.NOT_RUN), "it could not be")
        return _UNRUN.format(command=decides.command, why=bounded([why])), ""

    def _told_red(self, agent: Agent, red: CheckRan) -> tuple[str, str]:
        """Tell the model what fails, as long as it does something about it."""
        progress, name = self._progress, red.command or str(red.rung)
        state = (agent.state.verification.version, red.text)
        if state == progress.red_state or progress.red_rounds >= _MOST_ROUNDS:
            return "", f"not finished: the check `{sanitize_line(name)}` fails: {red.text.partition(chr(10))[0]}"
        progress.red_state, progress.red_told = state, red.text
        progress.red_rounds += 1
        return _REPAIR.format(told=_TOLD.format(command=name, text=red.text)), ""

    async def _pursue(self, agent: Agent, goal: str) -> tuple[str, str]:
        """Run the command of a goal: reached, worked at again, or given up where nothing changes any more."""
        runner, progress = AgentCheckRunner(agent), self._progress
        check = await self._meets(agent, runner, goal)
        runner.tell(check)
        if check.outcome is CheckOutcome.PASSED:
            agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.REACHED))
            _tell_changed_tests(agent)
            following = agent.state.verification.goal
            told = f"The goal is reached. The next goal: work until `{following}` exits with 0."
            return (told, "") if following else ("", "")
        if check.outcome is CheckOutcome.NOT_RUN:
            agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
            return "", f"not finished: the goal `{sanitize_line(goal)}` could not be checked: {check.text}"
        first, before = check.text.partition("\n")[0], progress.red_state[1]
        progress.stuck = progress.stuck + 1 if check.text == before else 0
        progress.same_name = progress.same_name + 1 if first == before.partition("\n")[0] else 0
        progress.red_state = (agent.state.verification.version, check.text)
        if progress.stuck >= _MOST_STUCK or progress.same_name >= _MOST_SAME:
            agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
            count = max(progress.stuck, progress.same_name) + 1
            return "", f"not finished: no progress on the goal `{sanitize_line(goal)}` in {count} attempts: {first}"
        told = f"The goal is not reached: `{goal}` has to exit with 0.\n{check.text}\n"
        return f"{told}Go on with the code; leave tests as they are.", ""

    async def _meets(self, agent: Agent, runner: AgentCheckRunner, command: str, *, may_write: bool = True) -> CheckRan:
        """Return what a command that has to pass says, also with the tests as they were.

        If these were changed so that it passes now, it counts with the tests as they were; a task that is about the tests may
        change them, and new tests are welcome.
        """
        known = agent.state.verification.known(command)
        check = known or await self.ladder().meets(runner, command, may_write=may_write)
        tests = [path for path in agent.state.verification.touched if _TEST_FILE.search(path)]
        if check.outcome is CheckOutcome.FAILED or not tests or _ABOUT_TESTS.search(agent.conversation.last_task):
            return check
        before = {path: data for path, data in (await runner.before(tests) or {}).items() if data is not None}
        again = await self.ladder().holds_with(runner, check.command, before) if before else check
        if again.outcome is not CheckOutcome.FAILED:
            return check
        named = ", ".join(before)
        return replace(again, text=bounded([f"It fails with the tests as they were ({named}):", *again.text.splitlines()]))

    async def _held_by_findings(self, agent: Agent) -> tuple[str, str]:
        """Look for problems in the turn's changes; return what the model is told, else what the user is told.

        The reviewer is asked only if the validators block nothing.  What blocks and is not followed by a change is unfinished
        work.
        """
        tracker, progress, gate = agent.state.verification, self._progress, self.ladder().gate
        if progress.reviewed == tracker.version or not tracker.touched:
            return "", progress.left
        progress.reviewed = tracker.version
        task, changed = agent.conversation.last_task, tuple(tracker.touched)
        found = tuple(await self.ladder().findings(AgentCheckRunner(agent), changed, task))
        blocking = [each for each in found if gate.blocks(each)]
        if found:
            agent.emit(ReviewWritten(agent=agent.id, findings=found, is_rejected=bool(blocking), by="validators"))
        who = "lmtui" if blocking else "A reviewer"
        has_reviewer = agent.model.roles.get(ModelRole.REVIEWER, RoleModel()).model and progress.reviews < _MOST_REVIEWS
        if not blocking and has_reviewer and (diff := await _diff(agent)):
            progress.reviews += 1
            blocking = blocking_findings(await RoleRequests(agent).review(task, diff), gate)
        progress.left = f"not finished: {blocking[0]}" if blocking else ""
        if not blocking or progress.held_rounds >= _MOST_REVIEWS:
            return "", progress.left
        progress.held_rounds += 1
        return _FOUND.format(who=who, findings=bounded([str(each) for each in blocking])), ""


def _pause_goal(agent: Agent, reason: TurnReason) -> None:
    """Pause the goal that was worked at where the user stopped the turn."""
    if reason is TurnReason.INTERRUPTED and not agent.state.depth and (goal := agent.state.verification.goal):
        agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))


async def _fix(agent: Agent, ladder: FixingLadder, runner: AgentCheckRunner, goal: str) -> bool:
    """Let drafts of single definitions be tried, and make those edits that helped; tell whether there was one."""
    has_helped = False
    async with contextlib.aclosing(ladder.fixes(runner, goal, partial(_draw, agent))) as edits:
        async for old, new in edits:
            words = json.dumps({"path": old.path, "search": old.source, "replace": new})
            if not (await run_call(agent, ToolCall(runner.next_id(), "edit", words), by="check")).ok:
                break
            has_helped = True
            text = f"lmtui replaced {old.name} in {old.path} by a draft of yours: more tests pass with it."
            agent.remind(text, "checks")
    return has_helped


async def _draw(agent: Agent, text: str) -> str:
    """Return one answer outside the conversation, empty if the server fails."""
    settings = agent.state.model.settings
    request = ModelRequest(
        (Message(Role.SYSTEM, _FIXER), Message(Role.USER, text)),
        (),
        settings.model,
        temperature=_DRAW_TEMPERATURE,
        max_tokens=_DRAW_TOKENS,
        urgency=agent.priority,
        is_attended=False,
    )
    return await answer_outside(agent, "fix", request) or ""


async def _diff(agent: Agent) -> str:
    """Return the difference between the state before the turn's first change and now."""
    base, checkpoints = agent.state.verification.base, agent.services.checkpoints
    if not base or checkpoints is None:
        return ""
    with contextlib.suppress(SandboxError):
        now = await checkpoints.snapshot()
        changes = await checkpoints.changes(base, now.id, is_now=True)
        return "\n".join(change.diff or f"{change.kind} {change.path}" for change in changes)
    return ""


def _tell_changed_tests(agent: Agent) -> None:
    """Tell the user which tests were changed while a check failed: green may mean that only the test gave in."""
    tests = [path for path in agent.state.verification.changed_while_red if _TEST_FILE.search(path)]
    if tests:
        named = ", ".join(sanitize_line(posixpath.normpath(path)) for path in tests[:_MOST_NAMED])
        text = f"The checks pass now, but tests were changed after they had failed: {named}. Look at them in /changes."
        agent.notify(text)
