"""What speaks against the end of a turn: work that is open, checks that fail, features that want more.

The feature `checks` knows the commands; here they are run as the permissions have it, told to the model, and counted.
"""

from __future__ import annotations

import contextlib
import json
import posixpath
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from lmtui.core.check_values import (
    CheckOutcome,
    CheckRan,
    Checks,
    CheckStarted,
    CommandEnded,
    GoalChanged,
    GoalState,
    ProjectCheck,
    Rung,
    VerificationTracker,
    bounded,
    wants_to_write,
)
from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.events import Event, TurnReason, Verified
from lmtui.core.messages import Message, ModelRequest, Role, ToolCall
from lmtui.core.permissions.rules import Verdict
from lmtui.core.ports import Sandbox
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import must_pass
from lmtui.engine.accounting import answer_outside
from lmtui.engine.agent import Agent
from lmtui.engine.permission_check import decide, learn_sandbox, mask_files
from lmtui.engine.review import held_by_findings
from lmtui.engine.stop_policy import check_end
from lmtui.engine.syntax import parse_check, unparsed
from lmtui.engine.tool_runner import run_call
from lmtui.engine.turn_outcome import reason_of

_MAX_BYTES = 1_000_000
_MOST_ROUNDS = 4
_MOST_STUCK, _MOST_SAME = 2, 6  # the same words again; the same first line
_MOST_NAMED = 5
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
_GOAL = "The goal is not reached: `{command}` has to exit with 0.\n{text}\nGo on with the code; leave tests as they are."


class WorkspaceReader:
    """The part of a `core.check_values.CheckRunner` that reads; what cannot be read is not there."""

    def __init__(self, sandbox: Sandbox) -> None:
        self._files = sandbox

    async def read(self, path: str) -> bytes | None:
        """Return a file, None where it cannot be read or is large."""
        try:
            content = await self._files.read_file(path, _MAX_BYTES)
        except SandboxError:
            return None
        return content.data if content.size_bytes <= len(content.data) else None

    async def search(self, pattern: str, glob: str) -> Sequence[str]:
        """Return the files whose text matches."""
        try:
            found = await self._files.grep(pattern, glob=glob)
        except SandboxError:
            return ()
        return tuple(dict.fromkeys(match.path for match in found))

    async def glob(self, pattern: str) -> Sequence[str]:
        """Return the files that match."""
        try:
            return await self._files.glob(pattern)
        except SandboxError:
            return ()


class AgentCheckRunner(WorkspaceReader):
    """Implements `core.check_values.CheckRunner` for one agent.

    `failed` are the checks that failed in its hands; `was_refused`: a command needed an approval and did not get it.
    """

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent.services.sandbox)
        self._agent = agent
        self._runs = 0
        self.was_refused = False
        self.failed: list[CheckRan] = []

    async def run(self, command: str, *, limit_s: int, may_write: bool = True) -> CommandEnded:
        """Run a command in the read-only instance, if there is one and the command has enough of that; else as any command.

        A rule that asks, and features that review calls, get to see it in any case.
        """
        agent = self._agent
        agent.emit(CheckStarted(agent=agent.id, command=command.rpartition("\n")[2]))  # what is before it makes a copy
        try:
            mask_files(agent)
            await learn_sandbox(agent)
            call = ToolCall(self.next_id(), "shell", json.dumps({"command": command, "timeout": limit_s}))
            decision = decide(agent, agent.services.toolbox.prepare(call.name, call.arguments))
            if decision.verdict is Verdict.DENY:
                return CommandEnded(why_not=decision.why)
            is_asked = (decision.verdict is Verdict.ASK and bool(decision.rule)) or agent.services.points.before_call
            if agent.state.sandbox.has_read_only and not is_asked:
                ended = await agent.services.sandbox.read_only().run_command(command, timeout_s=limit_s)
                if ended.exit_code == 0 or not wants_to_write(ended.output) or not may_write:
                    return CommandEnded(ended.exit_code, ended.output, ended.elapsed_ms / 1000, ended.is_timed_out)
        except (SandboxError, ToolError) as error:
            return CommandEnded(why_not=error.full_text())
        if not may_write:
            return CommandEnded(why_not="it needs a read-only sandbox")
        return await self._run_writing(call)

    async def _run_writing(self, call: ToolCall) -> CommandEnded:
        """Run a command that changes files: asked about, with a checkpoint, and shown as any call."""
        agent = self._agent
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
        try:
            return {path: await checkpoints.read(base, path) for path in paths}
        except SandboxError:
            return None

    def tell(self, check: CheckRan) -> None:
        self._agent.emit(replace(check, agent=self._agent.id, turn_id=self._agent.turn.id))
        if check.outcome is CheckOutcome.FAILED:
            self.failed.append(check)


class SessionGoals:
    """Implements `core.check_values.Goals` for a session.

    Args:
        agent: the root agent.
        emit: takes the events by which goals change; must not raise.
    """

    def __init__(self, agent: Agent, emit: Callable[[Event], None]) -> None:
        self._agent, self._emit = agent, emit

    def listed(self) -> Sequence[tuple[str, GoalState]]:
        return self._agent.state.verification.goals

    def set(self, command: str) -> None:
        self._emit(GoalChanged(command=command))

    def pause(self) -> None:
        if goal := self._agent.state.verification.goal:
            self._emit(GoalChanged(command=goal, state=GoalState.PAUSED))

    def resume(self) -> None:
        paused = [command for command, state in self.listed() if state is GoalState.PAUSED]
        if paused:
            self._emit(GoalChanged(command=paused[0]))

    def clear(self) -> None:
        self._emit(GoalChanged(command=""))


async def begin_goal(agent: Agent) -> str:
    """Run the command of the goal before the first answer, so that the model sees what fails.

    A model that is weak is asked for one definition at a time first; see `core.check_values.Checks.fixes`.

    Returns:
        Why the turn should end before it begins: no such command can ever decide.  Else empty.
    """
    is_set = bool(agent.state.verification.goal)
    goal = agent.state.verification.goal or _named(agent)
    if not goal or agent.state.depth or agent.state.only_reads or Checks not in agent.services.features:
        return ""
    runner, checks = AgentCheckRunner(agent), agent.services.features[Checks]
    check = await checks.meets(runner, goal, may_write=is_set)
    runner.tell(check)
    if check.outcome is CheckOutcome.FAILED and agent.is_weak and await _fix(agent, runner, goal):
        check = await checks.meets(runner, goal, may_write=is_set)
        runner.tell(check)
    agent.turn.checking.checked = agent.state.verification.version
    if check.outcome is CheckOutcome.NOT_RUN:
        if is_set:
            agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
        is_hopeless = is_set and "/" not in goal.split()[0] and _NO_COMMAND.search(check.text)
        return _NEVER.format(goal=sanitize_line(goal), why=check.text) if is_hopeless else ""
    says = "exits with 0 now" if check.outcome is CheckOutcome.PASSED else f"says now:\n{check.text}"
    agent.remind(f"The work is done when `{goal}` exits with 0; lmtui runs it when you end. It {says}", "checks")
    agent.turn.checking.goal_told = goal if is_set else ""
    return ""


def tell_goal(agent: Agent) -> None:
    """Tell the model that the goal which it was told of is paused or dropped by now."""
    if (goal := _goal_off(agent)) and not agent.turn.checking.is_told_off:
        agent.turn.checking.is_told_off = True
        what = "paused" if agent.state.verification.goals else "dropped"
        agent.remind(
            f"The user {what} the goal: lmtui does not run `{goal}` when you end, and it need not exit with 0.", "checks"
        )


def _goal_off(agent: Agent) -> str:
    """Return the goal that the model was told of, if the user has paused or dropped it since."""
    told, goals = agent.turn.checking.goal_told, dict(agent.state.verification.goals)
    return told if not goals or goals.get(told) is GoalState.PAUSED else ""


def _named(agent: Agent) -> str:
    """Return the command that the task says has to pass."""
    checks = agent.services.features.get(Checks)
    return must_pass(agent.conversation.last_task) if checks is not None and checks.is_on else ""


def pause_goal(agent: Agent, reason: TurnReason) -> None:
    """Pause the goal that was worked at where the user stopped the turn."""
    if reason is TurnReason.INTERRUPTED and not agent.state.depth and (goal := agent.state.verification.goal):
        agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))


async def _fix(agent: Agent, runner: AgentCheckRunner, goal: str) -> bool:
    """Let drafts of single definitions be tried, and make those edits that helped; tell whether there was one."""
    has_helped = False

    async def ask(text: str) -> str:
        return await _draw(agent, text)

    async with contextlib.aclosing(agent.services.features[Checks].fixes(runner, goal, ask)) as edits:
        async for edit in edits:
            words = json.dumps({"path": edit.path, "search": edit.old, "replace": edit.new})
            result = await run_call(agent, ToolCall(runner.next_id(), "edit", words), by="check")
            if not result.ok:
                break
            has_helped = True
            agent.remind(f"lmtui replaced {edit.name} in {edit.path} by a draft of yours: more tests pass with it.", "checks")
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


async def check_step(agent: Agent) -> None:
    """Check what the step just done changed; the model is told what fails, each failure once."""
    tracker, first = agent.state.verification, agent.turn.checking.checked
    agent.turn.checking.checked = tracker.version
    changed = [path for path, version in tracker.touched.items() if version > first]
    if not changed or agent.state.depth or agent.state.only_reads or Checks not in agent.services.features:
        return
    runner = AgentCheckRunner(agent)
    await agent.services.features[Checks].after_step(runner, changed)
    for check in runner.failed[:1]:
        if check.text != agent.turn.checking.red_told:
            agent.turn.checking.red_told = check.text
            agent.remind(_TOLD.format(command=check.command or check.rung, text=check.text), "checks")


async def may_end(agent: Agent, text: str) -> tuple[bool, str]:
    """Tell whether a turn may end with this answer, and what it leaves open; else the model is reminded of that."""
    nudge, error = await check_end(agent, text)
    if not nudge and not error:
        nudge, error = await _verify(agent, text)
    if not nudge and not error and not _is_unchecked(agent, text):
        nudge, error = await held_by_findings(agent, AgentCheckRunner(agent))
    nudge = nudge or await _held_up(agent, text)
    if nudge:
        agent.remind(nudge)
    return not nudge, error


async def may_report(agent: Agent, summary: str) -> bool:
    """Tell whether a sub-agent's report ends its work; a feature may want more of it."""
    if words := await _held_up(agent, summary):
        agent.turn.report = None
        agent.remind(words)
    return not words


async def _held_up(agent: Agent, text: str) -> str:
    """Return why features do not let a turn end yet."""
    for each in agent.services.points.turn_end:
        if words := await each(agent, text):
            return words
    return ""


def _is_unchecked(agent: Agent, text: str) -> bool:
    """Tell whether nobody looks at what a turn did that ends so: it asks, gave up, or is a sub-agent's."""
    is_asking = agent.services.approvals.is_attended and text.rstrip().endswith("?")
    return bool(agent.state.depth) or agent.state.only_reads or is_asking or reason_of(text) is not TurnReason.DONE


async def _verify(agent: Agent, text: str) -> tuple[str, str]:
    """Check the whole of a turn that would end, and the goal: what the model is told, else what the user is told."""
    if _is_unchecked(agent, text) or Checks not in agent.services.features:
        return "", ""
    if goal := agent.state.verification.goal:
        return await _pursue(agent, goal)
    named = _named(agent)
    if not agent.state.verification.touched and not named:
        return "", ""
    return await _check_all(agent, named)


async def _check_all(agent: Agent, named: str) -> tuple[str, str]:
    """Run the command that decides: the one that the task names as having to pass, else the project's own."""
    runner, tracker, checks = AgentCheckRunner(agent), agent.state.verification, agent.services.features[Checks]
    is_parse = tracker.red is not None and tracker.red.rung is Rung.PARSE
    if is_parse and not await unparsed(agent.services.sandbox, tracker.touched):  # what a command deleted is not always known
        runner.tell(parse_check({}))
    decides: ProjectCheck | None
    if named:
        check = await _meets(agent, runner, named, may_write=False)
        runner.tell(replace(check, source="your task"))
        decides = ProjectCheck(check.rung, named)
    elif tracker.red is not None and tracker.red.decides and tracker.known(tracker.red.command) is not None:
        decides = ProjectCheck(tracker.red.rung, tracker.red.command)
    else:
        decides = await checks.at_end(runner, tuple(tracker.touched), tracker.passed)
    tracker = agent.state.verification
    if tracker.verified is Verified.GREEN or (tracker.red is None and not tracker.touched):
        _tell_changed_tests(agent, tracker)
        return "", ""
    if (red := tracker.red) is not None and red.command == _goal_off(agent):
        return "", ""
    if red is not None:
        return _told_red(agent, tracker, red)
    if decides is None or runner.was_refused or agent.turn.checking.is_told_unchecked:
        return "", ""
    agent.turn.checking.is_told_unchecked = True
    why = next((check.text for check in reversed(tracker.ran) if check.outcome is CheckOutcome.NOT_RUN), "it could not be")
    return _UNRUN.format(command=decides.command, why=bounded([why])), ""


def _told_red(agent: Agent, tracker: VerificationTracker, red: CheckRan) -> tuple[str, str]:
    """Tell the model what fails, as long as it does something about it."""
    turn, name = agent.turn.checking, red.command or str(red.rung)
    state = (tracker.version, red.text)
    if state == turn.red_state or turn.red_rounds >= _MOST_ROUNDS:
        return "", f"not finished: the check `{sanitize_line(name)}` fails: {red.text.partition(chr(10))[0]}"
    turn.red_state, turn.red_told = state, red.text
    turn.red_rounds += 1
    return _REPAIR.format(told=_TOLD.format(command=name, text=red.text)), ""


async def _pursue(agent: Agent, goal: str) -> tuple[str, str]:
    """Run the command of a goal: reached, worked at again, or given up where nothing changes any more."""
    runner, turn = AgentCheckRunner(agent), agent.turn.checking
    check = await _meets(agent, runner, goal)
    runner.tell(check)
    if check.outcome is CheckOutcome.PASSED:
        agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.REACHED))
        _tell_changed_tests(agent, agent.state.verification)
        following = agent.state.verification.goal
        return (f"The goal is reached. The next goal: work until `{following}` exits with 0.", "") if following else ("", "")
    if check.outcome is CheckOutcome.NOT_RUN:
        agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
        return "", f"not finished: the goal `{sanitize_line(goal)}` could not be checked: {check.text}"
    first, before = check.text.partition("\n")[0], turn.red_state[1]
    turn.stuck = turn.stuck + 1 if check.text == before else 0
    turn.same_name = turn.same_name + 1 if first == before.partition("\n")[0] else 0
    turn.red_state = (agent.state.verification.version, check.text)
    if turn.stuck >= _MOST_STUCK or turn.same_name >= _MOST_SAME:
        agent.emit(GoalChanged(agent=agent.id, command=goal, state=GoalState.PAUSED))
        count = max(turn.stuck, turn.same_name) + 1
        return "", f"not finished: no progress on the goal `{sanitize_line(goal)}` in {count} attempts: {first}"
    return _GOAL.format(command=goal, text=check.text), ""


async def _meets(agent: Agent, runner: AgentCheckRunner, command: str, *, may_write: bool = True) -> CheckRan:
    """Return what a command that has to pass says, also with the tests as they were."""
    known = agent.state.verification.known(command)
    if known is not None and known.outcome is CheckOutcome.FAILED:
        return known
    checks = agent.services.features[Checks]
    return await _with_old_tests(agent, runner, known or await checks.meets(runner, command, may_write=may_write))


async def _with_old_tests(agent: Agent, runner: AgentCheckRunner, check: CheckRan) -> CheckRan:
    """Return a check, or what came of it with the tests as they were, if they were changed so that it passes now.

    A task that is about the tests may change them.
    """
    tests = [path for path in agent.state.verification.touched if _TEST_FILE.search(path)]
    if check.outcome is CheckOutcome.FAILED or not tests or _ABOUT_TESTS.search(agent.conversation.last_task):
        return check
    before = {path: data for path, data in (await runner.before(tests) or {}).items() if data is not None}
    if not before:
        return check  # new tests are welcome
    again = await agent.services.features[Checks].holds_with(runner, check.command, before)
    if again.outcome is not CheckOutcome.FAILED:
        return check
    named = ", ".join(before)
    return replace(again, text=bounded([f"It fails with the tests as they were ({named}):", *again.text.splitlines()]))


def _tell_changed_tests(agent: Agent, tracker: VerificationTracker) -> None:
    """Tell the user which tests were changed while a check failed: green may mean that only the test gave in."""
    tests = [path for path in tracker.changed_while_red if _TEST_FILE.search(path)]
    if tests:
        named = ", ".join(sanitize_line(posixpath.normpath(path)) for path in tests[:_MOST_NAMED])
        text = f"The checks pass now, but tests were changed after they had failed: {named}. Look at them in /changes."
        agent.notify(text)
