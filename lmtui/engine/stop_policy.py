"""What an answer means for its turn: go on, tell the model something, or end, and why.  Pure: it looks and counts."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lmtui.core.agent_events import Wait, WaitSet, read_wait
from lmtui.core.budgets import ReportWritten
from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, TurnReason
from lmtui.core.messages import EXAMPLE_FILES, Completion, FinishReason, Role
from lmtui.core.model_events import LoopSuspected
from lmtui.core.permissions.rules import Mode, traits_of
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import files_in, missing, open_words, shown, without_files
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

    That is an answer about our worked example, or in the words of the task; a change that was asked for and not made, or made
    where a question was asked; a file that is not there; a number that no tool showed where one was to be computed.
    """
    task = agent.conversation.last_task
    if any(name in text and name not in task for name in EXAMPLE_FILES):
        return "the answer is about the example, not about the task"
    if not agent.turn.files and _repeats(text, task):
        return "the answer only repeats the task"
    if not _QUESTION.search(task):
        is_due = files_in(task) and _ASKS_CHANGE.search(without_files(task)) and not _IF.search(task) and not agent.turn.files
        return "the task asks for a change, and nothing was changed" if is_due else ""
    return await _unanswered(agent, task, text) if is_about_files(task) else ""


def _repeats(text: str, task: str) -> bool:
    said = _runs_of_words(text)
    return len(said) >= _ECHO_RUNS and len(said & _runs_of_words(task)) > _REPEAT_SHARE * len(said)


async def _unanswered(agent: Agent, task: str, text: str) -> str:
    """Return why an answer to a question about files is none, empty where it may be one."""
    if agent.turn.files and not _ASKS_WORK.search(task):
        return f"the task is a question, and {shown(list(map(sanitize_line, agent.turn.files)))} was changed; answer it"
    names = [name for name in files_in(text) if name not in task]
    if _WHICH.search(task) and names and len(gone := await missing(agent.services.sandbox, names)) == len(names):
        return f"the answer names {shown(list(map(sanitize_line, gone)))}, which is not there"
    if _WHICH_FILE.match(task) and not names and not _NONE.search(text):
        return "the task asks for a file, and the answer names none"
    if asks_to_count(task) or asks_to_compute(task):
        said = _NONE.sub("0", text.replace(",", ""))
        numbers = set(_NUMBER.findall(said))
        if not numbers - set(_NUMBER.findall(task)) or not numbers & _shown_numbers(agent, computed=not asks_to_count(task)):
            return "no command computed the answer: compute it with shell (awk, wc -l, grep -c), and answer with what that says"
    return ""


def _shown_numbers(agent: Agent, *, computed: bool) -> set[str]:
    """Return the numbers that tools showed since the task was given, or only those that commands `computed`.

    The numbers of lines are none of them.
    """
    found: set[str] = set()
    tools: dict[str, str] = {}
    for message in agent.conversation.messages:
        tools |= {call.id: call.name for call in message.tool_calls}
        if message.role is Role.USER and agent.conversation.last_task in message.text:
            lines = "" if computed else "\n".join(line for line in message.text.splitlines() if _COUNTED.search(line))
            found = set(_NUMBER.findall(lines))
        elif message.role is Role.TOOL and (not computed or traits_of(tools.get(message.call_id, "")).may_change_unseen):
            found.update(_NUMBER.findall(_LINE_NUMBER.sub("", message.text)))
    return found


def asks_to_count(task: str) -> bool:
    """Tell whether a task asks how many there are of something."""
    return bool(_COUNT.search(task))


def asks_to_compute(task: str) -> bool:
    """Tell whether a task asks for a number that has to be computed from others."""
    return bool(_SUM.search(task)) and bool(_QUESTION.search(task))


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
_WORKS = r"(?:creat|updat|chang|fix|add|writ|wrote|read|delet|remov|renam|mov|replac|sav|copi|run|ran|execut|install|commit)"
_CLAIMS = re.compile(rf"\b(?:I|we)(?: have|['’]ve) (?:now )?{_WORKS}", re.IGNORECASE)
_PASSIVE_CLAIMS = re.compile(r"\b(?:has|have) been (?:\w+ed|written|made|put)\b", re.IGNORECASE)
_PLANS = re.compile(rf"\b(?:I|we)(?: will|'ll| would) (?:now )?(?:use|{_WORKS})", re.IGNORECASE)
_PASSIVE_PLANS = re.compile(r"\b(?:is|are) now\b", re.IGNORECASE)
_ABOUT_FILES = re.compile(r"\b(?:files?|folders?|lines?|scripts?)\b|\w\.[a-z]\w{0,4}\b", re.IGNORECASE)
_ASKS_WORK = re.compile(rf"\b(?:{_WORKS}|make|edit|append|refactor|implement|convert|put|set)\w*\b", re.IGNORECASE)
_GENERAL = re.compile(
    r"\s*(?:please )?(?:(?:can|could) you (?:please )?)?(?:(?:tell me|explain|describe),? )?"
    r"(?:how (?:do|does|can|could|would|should|to|is|are)|wh(?:at|ich) (?:is|are|'s) (?:an?|the (?:difference|purpose|meaning))"
    r"|why|explain|when (?:do|does|should|is))\b",
    re.IGNORECASE,
)
_ASKS_CHANGE = re.compile(
    r"(?:\A|[.,;:]\s+|\b(?:and|then|please)\s+)(?:please\s+)?(?:creat|updat|chang|fix|add|writ|delet|remov|renam|replac|edit|append"
    r"|refactor|implement|set|put|insert|correct|repair)\w{0,3}\b",
    re.IGNORECASE,
)
_IF = re.compile(r"\b(?:if|unless|whether|where needed|as needed)\b", re.IGNORECASE)
_WHICH_FILE = re.compile(r"\s*(?:which|what) files?\b", re.IGNORECASE)
_QUESTION = re.compile(r"\?(?:\s|\Z)")
_WHICH = re.compile(r"\b(?:which|what) files?\b|\bwhere\b", re.IGNORECASE)
_COUNT = re.compile(r"\bhow many\b|\b(?:number|count) of\b", re.IGNORECASE)
_SUM = re.compile(r"\b(?:sum|total|average|mean|median|maximum|minimum) of\b", re.IGNORECASE)
_NUMBER = re.compile(r"\d+(?:\.\d+)?")
_NONE = re.compile(r"\b(?:no|none|zero)\b", re.IGNORECASE)
_LINE_NUMBER = re.compile(r"^ +\d+[ :]", re.MULTILINE)
_COUNTED = re.compile(r"\d lines?\b")
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
_LOOP = "the model goes round in a circle ({what}); say what it should do instead, or “go on” to let it try again"


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


def is_about_files(task: str) -> bool:
    """Tell whether a task needs a look at files; a general question can be answered by words, whatever it names."""
    return bool(_ABOUT_FILES.search(task)) and not _GENERAL.match(task)


class StopPolicy:
    """Judges the answers of one turn, one after the other.

    Args:
        task: what the user asked for.
        trusts_words: the model is known to call tools; what it says it would do is not a reason to ask again.
        has_files: what the task is about came with it, so that a question can be answered at once.
    """

    def __init__(self, task: str = "", *, trusts_words: bool = False, has_files: bool = False) -> None:
        self.trusts_words = trusts_words
        self._is_general = _GENERAL.match(task) is not None
        self._asks_work = bool(_ASKS_WORK.search(task)) and not self._is_general
        self._is_about_files = is_about_files(task) and not (has_files and _QUESTION.search(task) and not self._asks_work)
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
            is_unsure: it may not be able to call: words without a call are asked about once where the task is about files; of
                others, and of general questions, only words that say that something was, or would be, done.
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
        doubt = self._doubt(completion.message.text, has_failed=has_failed, is_unsure=is_unsure)
        found = self._without_calls(completion, doubt, is_cut=is_cut, is_unsure=is_unsure)
        return _looped(loop) if isinstance(found, Continue) and loop is not None and loop.is_over else found

    def _without_calls(self, completion: Completion, doubt: str, *, is_cut: bool, is_unsure: bool) -> Continue | Done | Stop:
        if completion.problem:
            self._malformed += 1
            is_enough = self._malformed > _MOST_MALFORMED
            return Stop(TurnReason.ERROR, _NO_CALL) if is_enough else Continue(completion.problem)
        if is_cut:
            return Stop(TurnReason.LIMIT, "the answer was cut at the length limit; say “go on” for the rest")
        if completion.message.text.strip():
            if doubt in self._doubts:
                self._doubts.discard(doubt)
                return Continue(doubt, needs_call=is_unsure and doubt is _NOTHING_DONE)
            is_claim = not self._has_called and self._claims(completion.message.text)
            return Done(_ONLY_WORDS if is_claim else "")
        self._empty += 1
        return Stop(TurnReason.ERROR, _EMPTY) if self._empty >= _MOST_EMPTY else Continue(_EMPTY_NUDGE)

    def _doubt(self, text: str, *, has_failed: bool, is_unsure: bool) -> str:
        """Return why an answer may not be the end, empty where it may."""
        if self._has_called:
            return _FAILED if has_failed else ""
        is_said = self._claims(text) or (not self.trusts_words and self._plans(text))
        return _NOTHING_DONE if is_said or (is_unsure and self._is_about_files) else ""

    def _claims(self, text: str) -> bool:
        """Tell whether an answer claims that something was done."""
        return bool(_CLAIMS.search(text) or (self._asks_work and _PASSIVE_CLAIMS.search(text)))

    def _plans(self, text: str) -> bool:
        plans = (found[0] for found in _PLANS.finditer(text))
        is_plan = any(not (self._is_general and " would" in plan) for plan in plans)  # "I would" answers "how would you"
        return is_plan or bool(self._asks_work and _PASSIVE_PLANS.search(text))


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
