"""What an answer means for its turn: go on, tell the model something, or end, and why.  Pure: it looks and counts."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lmtui.core.agent_events import Wait, WaitSet, read_wait
from lmtui.core.budgets import ReportWritten
from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, TurnReason
from lmtui.core.messages import EXAMPLE_FILES, Completion, FinishReason, Role
from lmtui.core.model_events import LoopSuspected
from lmtui.core.permissions.rules import Mode, traits_of
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import files_in, missing, open_words, shown
from lmtui.core.times import LocalZone
from lmtui.engine.agent import Agent
from lmtui.engine.inbox import UserInput
from lmtui.engine.loop_detection import Loop
from lmtui.engine.model_roles import restore_model
from lmtui.engine.syntax import unparsed
from lmtui.engine.turn_outcome import reason_of

_MOST_NAMED = 5
_FAILED_CHARS, _RECENT = 120, 8
_ECHO_RUNS, _ECHO_SHARE, _REPEAT_SHARE = 6, 0.6, 0.8  # runs of three words
_TELLING_WORDS, _FEW_WORDS = 5, 3


_WAY = "Go on with it, and mark what is done. If it cannot be done, say why in a line that begins with BLOCKED:"


async def open_work(agent: Agent, text: str) -> tuple[str, int]:
    """Return what a turn that would end now leaves open, in words, and how much; files are looked for on the disk."""
    watch = agent.state.open_work
    todos, steps, left = watch.open_todos(), watch.open_steps(), watch.remaining()
    gone = await missing(agent.services.sandbox, watch.claims())
    broken = await unparsed(agent.services.sandbox, watch.written) if watch.written else {}
    task = watch.plan.task
    parts = [open_words(steps, "plan step"), open_words(todos, "todo")]
    if left and task is not None:
        following = f", next is {task.remaining_queue[0]}" if task.remaining_queue else ""
        parts.append(f"{task.processed_count:,} of {task.processed_count + left:,} processed{following}")
    if gone:
        parts.append(f"written, but not on the disk: {shown(list(map(sanitize_line, gone)))}")
    parts += [f"{sanitize_line(path)} does not parse ({why})" for path, why in list(broken.items())[:_MOST_NAMED]]
    has_echo = is_echo(agent, text)
    if has_echo:
        parts.append("the answer only repeats what it was told")
    unsupported = await _unsupported(agent, text) if agent.is_weak and not agent.state.depth else ""
    parts.append(unsupported)
    if watch.failed:
        parts.append(f"the last change failed ({_first_sentences(sanitize_line(watch.failed))})")
    amount = len(todos) + len(steps) + left + len(gone) + len(broken)
    amount += bool(watch.failed) + has_echo + bool(unsupported)
    return "; ".join(filter(None, parts)), amount


def _first_sentences(text: str) -> str:
    """Return the sentences of a text that fit, or the beginning of its first one."""
    head = text[:_FAILED_CHARS]
    ends = [match.end() for match in re.finditer(r"[.!?](?=\s)", head)]
    return text if head == text else head[: ends[-1]] if ends else f"{head.rstrip()}…"


async def _unsupported(agent: Agent, text: str) -> str:
    """Return what nothing of the turn bears out in a small model's answer, empty where all is.

    That is an answer about our worked example, or in the words of the task; where files are named and nothing is asked, one
    without a change, a command or words of the files; where something is asked, one with files that are not there, or, about
    named files, hardly more than a number that nothing showed.
    """
    task = agent.conversation.last_task
    if any(name in text and name not in task for name in EXAMPLE_FILES):
        return "the answer is about the example, not about the task"
    if agent.turn.files:
        return ""
    if _repeats(text, task):
        return "the answer only repeats the task"
    given, *results = _tool_results(agent, task)
    if not is_question(task):
        is_run = any(traits_of(tool).may_change_unseen for tool, _ in results)
        named = "" if is_run or _reports_on(text, task, [result for _, result in (given, *results)]) else shown(files_in(task))
        return f"the task names {named}, and nothing was changed" if named else ""
    if not results and not agent.conversation.has_files:
        return ""
    names = [name for name in files_in(text) if name not in task]
    if names and len(gone := await missing(agent.services.sandbox, names)) == len(names):
        return f"the answer names {shown(list(map(sanitize_line, gone)))}, which is not there"
    is_number = files_in(task) and len(_words(text) - _words(task)) < _FEW_WORDS
    numbers = _numbers(text) - _numbers(task)
    if is_number and numbers and not any(numbers & _numbers(result) for _, result in (given, *results)):
        return "no tool showed the number: compute it with shell (awk, wc -l, grep -c), and answer with what that says"
    return ""


def _repeats(text: str, task: str) -> bool:
    said = _runs_of_words(text)
    return len(said) >= _ECHO_RUNS and len(said & _runs_of_words(task)) > _REPEAT_SHARE * len(said)


def _reports_on(text: str, task: str, results: Iterable[str]) -> bool:
    """Tell whether an answer has words of what was shown that the task has not: it is what the task asks for, not a claim."""
    said, asked = _words(text), _words(task)
    new = {word for result in results for word in _words(result)} - asked
    return len(said & new) >= max(1, min(_TELLING_WORDS, len(new) // 4))


def _words(text: str) -> set[str]:
    pairs = re.findall(r"(?=([\u3040-\u30ff\u4e00-\u9fff]{2}))", text)  # of writing without spaces
    return {*pairs, *re.findall(r"\w{4,}", text.lower())}


def _tool_results(agent: Agent, task: str) -> list[tuple[str, str]]:
    """Return what came with the task, then the tools that ran since, each with its result without the numbers of lines."""
    found, tools = [("", "")], dict[str, str]()
    for message in agent.conversation.messages:
        tools |= {call.id: call.name for call in message.tool_calls}
        if message.role is Role.USER and task in message.text:
            found = [("", message.text)]
        elif message.role is Role.TOOL:
            found.append((tools.get(message.call_id, ""), _LINE_NUMBER.sub("", message.text)))
    return found


def _numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(text.replace(",", "")))


def is_question(task: str) -> bool:
    """Tell whether a task has a question mark, of any script."""
    return bool(_QUESTION.search(task))


def is_echo(agent: Agent, text: str) -> bool:
    """Tell whether an answer is mostly one of our own reminders, given back: no answer at all."""
    said, task = _runs_of_words(text), _runs_of_words(agent.conversation.last_task)
    if len(said) < _ECHO_RUNS:
        return False
    recent = (
        each.text
        for each in agent.conversation.messages[-_RECENT:]
        if each.role is Role.USER or (agent.is_weak and each.role is Role.TOOL and _FAILURE.search(each.text))
    )
    known = {run for words in recent for run in _runs_of_words(words)} - task
    return len(said & known) > _ECHO_SHARE * len(said)


def _runs_of_words(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return set(zip(words, words[1:], words[2:], strict=False))


async def check_end(agent: Agent, text: str) -> tuple[str, str]:
    """Return what the model is told before its turn may end, else what the user is told about open work; both may be empty.

    The model is told once; again only where it did some of it meanwhile.
    """
    is_question = agent.services.approvals.is_attended and text.rstrip().endswith("?")
    is_refused = agent.services.approvals.has_refused(agent.id)
    if is_question or is_refused or agent.state.mode is Mode.PLAN or reason_of(text) is not TurnReason.DONE:
        return "", ""
    work, amount = await open_work(agent, text)
    if not work:
        return "", ""
    if agent.turn.open_work_told is None or amount < agent.turn.open_work_told:
        agent.turn.open_work_told = amount
        way = "Call a tool now." if agent.is_weak else _WAY  # a weak model takes any way out that it is told
        return f"Not finished yet: {work}. {way}", ""
    return "", f"not finished: {work}"


LAST_STEPS = 3
_LEAST_STEPS = 10  # of so few none is worth a warning
_FINISH = "Finish and check what is begun, then say what is done and what is open."
_ENDINGS = {
    TurnReason.DONE: "done",
    TurnReason.LIMIT: TurnReason.LIMIT.words,
    TurnReason.UNFINISHED: "unfinished",
    TurnReason.BLOCKED: "blocked",
    TurnReason.ERROR: "stopped by an error",
}
_ENDINGS_USED_UP = {
    TurnReason.WAITING: "waiting, with the budget used up",
    TurnReason.INTERRUPTED: "stopped by you, with the budget used up",
}


def limit_reached(agent: Agent) -> str:
    """Return why no further request may be made in this turn, empty where one may."""
    limits = agent.services.limits
    if 0 < limits.max_iterations <= agent.state.task_steps.count:
        return f"the limit of {limits.max_iterations} steps was reached"
    return agent.services.spending.over()


def tell_what_is_left(agent: Agent) -> None:
    """Tell the model that the last steps begin, and model and user that most of the budget is used; each once."""
    limits = agent.services.limits
    if limits.max_iterations >= _LEAST_STEPS and limits.max_iterations - agent.state.task_steps.count == LAST_STEPS:
        agent.remind(f"Only {LAST_STEPS} more steps are allowed. {_FINISH}")
    if warning := agent.services.spending.warning():
        agent.notify(f"{warning[0].upper()}{warning[1:]}.")
        agent.remind(f"{warning}. Begin nothing new. {_FINISH}", "budget")


def close_turn(agent: Agent, reason: TurnReason) -> None:
    """End the turn's own model, and tell what work under a budget came to: once, until there is more work to tell of."""
    restore_model(agent)
    spending = agent.services.spending
    ending = _ENDINGS.get(reason) or (_ENDINGS_USED_UP.get(reason) if spending.over() else None)
    if agent.state.depth or not spending.budget or spending.is_reported or ending is None:
        return
    text = spending.work.report(agent.state.plan, spending.budget, spending.spent, ending)
    agent.emit(ReportWritten(agent=agent.id, text=text, turn_id=agent.turn.id))


_MOST_MALFORMED = 3
_MOST_EMPTY = 5
_EMPTY_NUDGE = "Your last answer was empty. Go on with the task, or say that it is done."
_NOTHING_DONE = (
    "No tool was called, so nothing was looked at or changed. "
    "If the task needs that, call a tool now; if it does not, give your answer again."
)
_QUESTION = re.compile(r"[؟？]|\?(?:\W|\Z)")
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_LINE_NUMBER = re.compile(r"^ +\d+[ :]", re.MULTILINE)
_FAILURE = re.compile(r"does not exist|nothing was (?:changed|written)|is empty\. Give")
_ONLY_WORDS = "No tool ran in this turn: whatever the answer says, nothing was read or changed."
_FAILED = (
    "The last call failed, so nothing came of it. "
    "Try another way with a tool now; if there is none, tell the user what did not work."
)
_EMPTY = f"the model answered with nothing, {_MOST_EMPTY} times in a row; try again or another model"
_NO_CALL = (
    "the model tried to call a tool four times, and none of the calls could be read; "
    "try another model, or another form of calls (/calls, `lmtui models --exam NAME`)"
)
_CUT_CALLS = (
    "two answers in a row were cut at the length limit inside a tool call; "
    "raise LLM_MAX_TOKENS or the server's limit, or ask for smaller steps"
)
_LOOP = "the model is repeating itself ({what}); say what it should do instead, or “go on” to let it try again"


@dataclass(frozen=True, slots=True)
class Continue:
    """Ask the model again; `reminder` is told to it before, if there is one.  `needs_call`: it should call a tool now."""

    reminder: str = ""
    needs_call: bool = False


@dataclass(frozen=True, slots=True)
class Done:
    """The model has said its last word, unless the user said something meanwhile; `note` is what the user should know of it."""

    note: str = ""


@dataclass(frozen=True, slots=True)
class Stop:
    """The turn ends here, though the model did not end it."""

    reason: TurnReason
    error: str


class StopPolicy:
    """Judges the answers of one turn, one after the other.

    Args:
        task: what the user asked for.
        has_files: what the task is about came with it, so that a question can be answered at once.
    """

    def __init__(self, task: str = "", *, has_files: bool = False) -> None:
        self._needs_look = bool(files_in(task)) and not (has_files and is_question(task))
        self._empty = self._cut = self._malformed = 0
        self._doubts = {_NOTHING_DONE, _FAILED}
        self._has_called = False

    def judge(
        self, completion: Completion, loop: Loop | None = None, *, has_failed: bool = False, is_unsure: bool = False
    ) -> Continue | Done | Stop:
        """Return what follows from an answer whose calls were run.

        Args:
            completion: the answer.
            loop: the circle that the model was found to go round in.
            has_failed: the last call of the turn did, and the model is one that takes that for done: it is asked once.
            is_unsure: it may not be able to call: words without a call are asked about once where the task names files.
        """
        calls = completion.message.tool_calls
        is_cut = completion.finish_reason is FinishReason.LENGTH
        self._cut = self._cut + 1 if is_cut else 0
        if completion.finish_reason is FinishReason.CONTENT_FILTER:
            return Stop(TurnReason.ERROR, "the server's content filter stopped the answer")
        if calls and loop is not None and loop.is_over:
            return _looped(loop)
        if (calls or completion.problem) and self._cut > 1:
            return Stop(TurnReason.LIMIT, _CUT_CALLS)
        if calls:
            self._empty = self._malformed = 0
            self._has_called = True
            return Continue("\n".join(filter(None, (completion.problem, loop.advice if loop else ""))))
        has_doubt, doubt = (has_failed, _FAILED) if self._has_called else (is_unsure and self._needs_look, _NOTHING_DONE)
        found = self._without_calls(completion, doubt if has_doubt else "", is_cut=is_cut)
        return _looped(loop) if isinstance(found, Continue) and loop is not None and loop.is_over else found

    def _without_calls(self, completion: Completion, doubt: str, *, is_cut: bool) -> Continue | Done | Stop:
        if completion.problem:
            self._malformed += 1
            is_enough = self._malformed > _MOST_MALFORMED
            return Stop(TurnReason.ERROR, _NO_CALL) if is_enough else Continue(completion.problem)
        if is_cut:
            return Stop(TurnReason.LIMIT, "the answer was cut at the length limit; say “go on” for the rest")
        if completion.message.text.strip():
            if doubt in self._doubts:
                self._doubts.discard(doubt)
                return Continue(doubt, needs_call=doubt is _NOTHING_DONE)
            return Done(_ONLY_WORDS if _NOTHING_DONE not in self._doubts and not self._has_called else "")
        self._empty += 1
        return Stop(TurnReason.ERROR, _EMPTY) if self._empty >= _MOST_EMPTY else Continue(_EMPTY_NUDGE)


async def may_end(agent: Agent, text: str) -> tuple[bool, str]:
    """Tell whether a turn may end with this answer, and what it leaves open; else the model is reminded of that."""
    nudge, error = await check_end(agent, text)
    for each in agent.services.points.turn_end:
        if nudge:
            break
        nudge, left = await each(agent, text, error)
        error = error or left
    if nudge:
        agent.remind(nudge)
    return not nudge, error


async def may_report(agent: Agent, summary: str) -> bool:
    """Tell whether a sub-agent's report ends its work; a feature may want more of it."""
    for each in agent.services.points.turn_end:
        nudge, _ = await each(agent, summary, "")
        if nudge:
            agent.turn.report = None
            agent.remind(nudge)
            return False
    return True


def _looped(loop: Loop) -> Stop:
    return Stop(TurnReason.LIMIT, _LOOP.format(what=loop.what))


def detect_loop(agent: Agent) -> Loop | None:
    """End the step for the loop detector; the user is told what it finds."""
    loop = agent.loops.judge()
    if loop is not None:
        turn = agent.turn.id
        agent.emit(LoopSuspected(agent=agent.id, what=loop.what, count=loop.count, is_over=loop.is_over, turn_id=turn))
    return loop


def judge_wait(agent: Agent, completion: Completion) -> Continue | Stop | None:
    """Return what follows where an answer whose calls were run says something of waiting; only the root agent waits."""
    if agent.id != ROOT:
        return None
    wait = agent.turn.wanted_wait
    try:
        if wait is None and not completion.message.tool_calls and "WAIT:" in completion.message.text:
            wait = read_wait(completion.message.text, agent.services.now())
    except UsageError as error:  # the model is told once in a turn
        agent.turn.refused_waits += 1
        return Continue(f"You do not wait: {error.full_text()}") if agent.turn.refused_waits == 1 else None
    if wait is None:
        return None
    agent.emit(WaitSet(until=wait.until, why=wait.why, turn_id=agent.turn.id))
    return Stop(TurnReason.WAITING, "")


class SessionSleep:
    """The wait of one session as the scheduler sees it.

    Args:
        agent: the root agent.
        put: takes something up as a turn.
    """

    def __init__(self, agent: Agent, put: Callable[[UserInput], None]) -> None:
        self._agent = agent
        self._put = put

    @property
    def wait(self) -> Wait | None:
        return self._agent.state.task_steps.wait

    def wake(self) -> bool:
        """Go on; False where the session does not wait any more."""
        wait = self.wait
        if wait is None:
            return False
        now = self._agent.services.now().astimezone(LocalZone()).isoformat(timespec="seconds")
        self.remind(f"It is now {now}. You waited for: {wait.why or 'this time'}. Go on with the task.")
        return True

    def remind(self, text: str) -> None:
        """Let a turn begin with words of lmtui's own."""
        self._put(UserInput(text, is_reminder=True))

    def attend(self) -> None:
        """Ask from now on: somebody is there."""
        self._agent.services.approvals.attend()
