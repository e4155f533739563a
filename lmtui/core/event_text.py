"""The text of an event for every front end that prints lines; and the words by which the user sets budget and call form."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted, PlanDecided, PlanProposed, WaitSet
from lmtui.core.budgets import BudgetSet, ReportWritten, SessionBudget, read_budget, whole_budget
from lmtui.core.errors import UsageError
from lmtui.core.events import ApprovalRequested, Envelope, Event, OverlayChanged, PlanChanged, TurnEnded
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS
from lmtui.core.messages import ToolCallFormat
from lmtui.core.model_events import (
    CallFormChanged,
    Compacted,
    Compacting,
    LoopSuspected,
    ModelLoaded,
    Reminder,
    ToolSetChanged,
)
from lmtui.core.permissions.dangerous_commands import Danger, dangers
from lmtui.core.permissions.rules import MCP, FileEffect, traits_of
from lmtui.core.plan import TodoStatus
from lmtui.core.plan_mode import plan_event_words
from lmtui.core.prompt_parts import PromptPartsRead, parts_words
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize, sanitize_line, sanitize_path
from lmtui.core.sessions import Session, answer_words
from lmtui.core.task_state import done_words, shown
from lmtui.core.times import LocalZone, moment_text
from lmtui.core.workspace import EFFECT_TOOL, FileChange

INDENT = "  "
_MAX_RESULT_LINES, _MAX_FAILURE_LINES = 40, 5
_REPORT_CHARS = 200
_DEEP_FORM = "/deep 3h 200 steps port the parser"


def budget_words(session: Session) -> str:
    """Return what a session may spend, and what it has spent."""
    budget, spent = session.budget()
    if not budget:
        return f"no budget; {spent} used. To set one, type /budget 3h 200 steps."
    return f"budget: {budget}; {spent} used ({budget.used(spent):.0%})"


def set_budget(session: Session, words: str) -> None:
    """Set a session's budget by words, or with `off` take it away.

    Raises:
        UsageError: the words are not a budget.
    """
    session.set_budget(SessionBudget() if words.strip() == "off" else whole_budget(words))


def begin_deep(session: Session, words: str) -> str:
    """Set the budget that the words begin with and return the task behind it.

    Raises:
        UsageError: no budget, or no task behind it.
    """
    if not words.strip():
        raise UsageError("/deep needs a budget and a task", f"Write it like {_DEEP_FORM}.")
    budget, task = read_budget(words)
    if not task:
        raise UsageError("no task behind the budget", f"Write it like {_DEEP_FORM}.")
    session.set_budget(budget)
    return task


CALL_CHOICES = {
    "auto": "what works with this model, found out by its answers",
    "native": "by the server's own calls",
    "text": "as a block in its text",
    "schema": "as text that the server holds to a JSON schema",
}
_MAX_CHARS = 400
_SENTENCE = re.compile(r".*?[^\s.!?][.!?](?=\s|$)")


def model_words(event: Event) -> str:
    """Return the line, empty for an event that there is nothing to say of."""
    match event:
        case CallFormChanged(form=form, why=why):
            how = CALL_CHOICES.get(form) or sanitize_line(form)
            return f"from here on the model calls tools {how}" + (f": {sanitize_line(why)}" if why else "")
        case ToolSetChanged(tools=tools, why=why):
            return f"{'short' if tools in ('lean', 'long') else 'full'} tool list" + (f": {sanitize_line(why)}" if why else "")
        case ModelLoaded(model=model, unloaded=unloaded, ok=True, elapsed_s=elapsed_s):
            instead = f"; unloaded {sanitize_line(', '.join(unloaded))}" if unloaded else ""
            return f"loaded {sanitize_line(model)} in {elapsed_s:.0f} s{instead}"
        case PlanProposed() | PlanDecided() | Reminder(topic="plan"):
            return plan_event_words(event)
        case Reminder(text=text):
            first = sanitize_line(text.strip().partition("\n")[0])
            sentence = found[0] if (found := _SENTENCE.match(first)) else first.rstrip(" :")
            return f"sent to the model: {sentence[:_MAX_CHARS]}{'…' if len(sentence) > _MAX_CHARS else ''}"
        case PromptPartsRead(guidance=guidance):
            return parts_words(guidance)
        case LoopSuspected(what=what, is_over=is_over):
            return "" if is_over else f"this looks like a loop: {sanitize_line(what)}"  # how the turn ends says it too
        case Compacted():
            left_out = len(event.elided) + len(event.folded)
            parts = [f"{left_out} long {'result' if left_out == 1 else 'results'} shortened"] if left_out else []
            parts += ["what was said first summarised"] if event.kept_from else []
            what = " and ".join(parts) or "nothing left out"
            room = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
            return f"room was made: {what}, {room} ({sanitize_line(event.why)})"
        case _:
            return _long_words(event)


def _long_words(event: Event) -> str:
    """Return what an event says of long work."""
    match event:
        case AgentStarted(agent=agent, title=title, work=work):
            reads = ", only reading" if work == "explore" else ""
            return f"sub-agent {sanitize_line(agent)} begins{reads}: {sanitize_line(title)}"
        case AgentFinished(agent=agent, outcome=outcome, summary=summary):
            said = sanitize_line(summary)[:_REPORT_CHARS]
            return f"sub-agent {sanitize_line(agent)} ends: {sanitize_line(outcome)}" + (f", {said}" if said else "")
        case BudgetSet(budget=budget):
            return f"this session may spend {budget}" if budget else "this session has no budget any more"
        case ReportWritten(text=text):
            return sanitize(text)
        case Compacting():
            return "the model sums up what was said, to make room"
        case _:
            return sanitize(event.line)


def calls_words(session: Session) -> str:
    """Return in which form the model calls tools, and why."""
    now = session.call_form()
    return f"calls: {now.form}" + (f", {sanitize_line(now.why)}" if now.why else "")


def set_calls(session: Session, name: str) -> None:
    """Set the form of calls by its name; `auto` lets lmtui choose again.

    Raises:
        UsageError: no such form.
    """
    if name not in CALL_CHOICES:
        raise UsageError(f"no form of calls {sanitize_line(name)!r}", f"There are {', '.join(CALL_CHOICES)}.")
    session.use_call_form(None if name == "auto" else ToolCallFormat(name))


def saved_patch(history: Sequence[Envelope]) -> str:
    """Return the patch with the unmerged changes of try mode when the session was closed after its last turn."""
    last = [each.event for each in history if isinstance(each.event, OverlayChanged | TurnEnded)][-1:]
    return "".join(event.patch for event in last if isinstance(event, OverlayChanged))


class EventText:
    """Says what happens in a session line by line; it remembers the calls that are under way, and how many a turn made."""

    def __init__(self) -> None:
        self._calls: dict[str, events.ToolCallStarted] = {}
        self._call_count = 0

    def lines(self, event: Event) -> Iterator[str]:
        """Yield the lines of one event, the first words of a failed call's result with it."""
        match event:
            case events.TurnStarted():
                self._call_count = 0
            case events.ToolCallStarted(call_id=call_id):
                self._calls[call_id] = event
                self._call_count += 1
            case events.ToolCallFinished():
                yield from _call_lines(event, self._calls.pop(event.call_id, None))
            case events.TurnEnded(error=error):
                yield from [f"error: {sanitize_line(error)}"] if error else ()
                calls = pluralize(self._call_count, "tool call") if self._call_count else ""
                yield f"turn finished: {end_words(event, calls)}"
            case PlanChanged():
                yield from plan_lines(event)
            case _:
                text = event_line(event).rstrip("\n")
                yield from text.split("\n") if text else ()


def event_line(event: Event) -> str:
    """Return what is said of an event by itself; empty for none."""
    match event:
        case events.Notice(level=level, text=text):
            return f"{'note' if level is events.Level.INFO else level}: {sanitize_line(text)}"
        case events.SandboxSelected(text=text, is_weaker=is_weaker, reason=reason):
            return f"sandbox: {sanitize_line(text)}" + (f" ({sanitize_line(reason)})" if is_weaker and reason else "")
        case events.RetryScheduled(attempt=attempt, attempts=attempts, wait_s=wait_s, reason=reason):
            again = f". Again in {pluralize(max(1, round(wait_s)), 'second')}" if wait_s else ""
            return f"{sanitize_line(reason)}{again}{f', attempt {attempt} of {attempts}' if attempt else ''}."
        case events.FilesChanged(changes=changes, files=files, is_tried=is_tried):
            where = " in the overlay" if is_tried else ""
            return f"changed{where}: {changes_text(changes) or ', '.join(map(sanitize_line, files))}"
        case events.FilesRestored(action=action, files=files):
            done = {"undo": "undone", "redo": "done again"}.get(action, "put back")
            return f"{done}: {shown(list(map(sanitize_path, files))) or 'no file changed'}"
        case events.Rewound():
            return "the conversation continues from before that"
        case events.HostReached(host=host, why_not=why_not):
            return f"kept from reaching {sanitize_line(host)}: {sanitize_line(why_not)}" if why_not else ""
        case events.ApprovalResolved(by=by):
            return f"the question was answered: {sanitize_line(answer_words(event))}" if by != "user" else ""
        case ReportWritten(text=text):
            return sanitize(text).replace("**", "")
        case _:
            return _setting_line(event)


def _setting_line(event: Event) -> str:
    match event:
        case events.ModeChanged(mode=mode):
            return f"mode: {sanitize_line(mode)}"
        case events.ModelChanged(model=model, url=url, role=role):
            part = f" ({sanitize_line(role)})" if role else ""
            return f"model: {sanitize_line(model) or 'the one that the server chooses'}{part}, at {sanitize_line(url)}"
        case events.RuleRevoked(rule=rule):
            return f"rule revoked: {sanitize_line(rule)}"
        case WaitSet(until=until, why=why):
            when = moment_text(until, datetime.now(UTC), LocalZone())
            return f"waits until {when}: {sanitize_line(why)} (lmtui or `lmtui scheduler` resumes it then)"
        case _:
            return model_words(event)


def _call_lines(event: events.ToolCallFinished, call: events.ToolCallStarted | None) -> Iterator[str]:
    name = call_words(call) if call is not None else sanitize_line(event.tool)
    who = f"{sanitize_line(event.agent)}, " if event.agent != events.ROOT else ""
    recovered = ", a recovered call" if call is not None and call.recovered else ""
    yield f"tool: {who}{name}{recovered} ... {result_words(event)}"
    most = _MAX_RESULT_LINES if call is not None and call.by else 0 if event.ok else _MAX_FAILURE_LINES
    lines = quoted(event.result.rstrip().lstrip("\n")) if event.result.strip() and most else []
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {pluralize(len(lines) - most, 'more line')}"


def call_words(call: events.ToolCallStarted) -> str:
    """Return a call: its tool, and what it is about."""
    return f"{sanitize_line(call.tool)} {sanitize_path(call.title)}".strip()


def result_words(event: events.ToolCallFinished) -> str:
    """Return how a call ended, and how long it took."""
    state, summary = "ok" if event.ok else "failed", sanitize_line(event.summary)
    summary = re.sub(r"\+(\d+) [−-](\d+)", lambda found: more_and_fewer(int(found[1]), int(found[2])), summary)
    return ", ".join(dict.fromkeys(filter(None, (state, summary, duration(event.elapsed_ms)))))


def end_words(end: TurnEnded, *more: str) -> str:
    """Return how a turn ended, with `more` of it, what it changed and how long it took."""
    files = f"{pluralize(len(end.files_changed), 'file')} changed" if end.files_changed else ""
    return ", ".join(filter(None, (end.reason.words, end.doubt, *more, files, duration(round(end.elapsed_s * 1000)))))


SHELL = "shell"
_VERBS = {"write": "Write", "mkdir": "Create", "delete": "Delete", "move": "Move"}
_QUESTIONS = {
    SHELL: "Run this command?", EFFECT_TOOL: "Apply these effects?",
    SHOWN_TOOLS: "Show this folder of tools to commands, read-only?",
    "background": "Run this command in the background?", "python": "Run this Python code?", "git_commit": "Commit?",
    "git_branch": "Change the branch?", "delegate": "Start this sub-agent?", "explore": "Start this sub-agent?",
    "fetch": "Fetch this page?", "web_search": "Search the web for this?",
    "memory_append": "Keep this note?", "memory_forget": "Forget these notes?", "pipeline": "Change the work on the plan?",
    "promote_skill": "Make this function a tool?",
}  # fmt: skip
MODE_ASKS = re.compile(r"(\w+) mode asks (before changes|for everything)(.*)", re.DOTALL)


def question_text(request: ApprovalRequested) -> str:
    """Return what an approval asks."""
    if request.tool == NETWORK_TOOL:
        first, _, own = request.text.partition("\n")
        host = escape_invisible_line(first)
        name, colon, port = host.rpartition(":")
        who = "lmtui" if own else "a command"
        return f"Let {who} reach {name if colon and port == '443' else host}?"
    if request.tool in _QUESTIONS:
        return _QUESTIONS[request.tool]
    if request.tool == "git_add":
        listed = request.text.partition("\n\n")[2].splitlines()
        return f"Stage {pluralize(len(listed), 'file')}?"
    if request.tool.startswith(MCP):
        server, _, name = request.tool.removeprefix(MCP).partition("__")
        return f"Use {escape_invisible_line(name)} of {escape_invisible_line(server)}?"
    is_read = traits_of(request.tool).file_effect is FileEffect.SHOWS
    verb = "Read" if is_read else _VERBS.get(request.tool, "Edit")
    return f"{verb} {escape_invisible_line(request.path)}?" if request.path else f"Use {escape_invisible_line(request.tool)}?"


def dangers_of(request: ApprovalRequested) -> tuple[Danger, ...]:
    """Return what is dangerous about a command."""
    return dangers(request.text, request.cwd or "/workspace") if request.tool == SHELL else ()


def why_text(request: ApprovalRequested) -> str:
    """Return which rule or mode asks."""
    why = sanitize_line(request.why)
    found = MODE_ASKS.fullmatch(why)
    if found is None:
        return f"{why[:1].upper()}{why[1:]}"
    what = "for everything" if found[2] == "for everything" else "before commands" if request.tool == SHELL else "before edits"
    return f"Mode {found[1]} asks {what}{found[3]}"


def duration(elapsed_ms: int) -> str:
    """Return a time as it should be read aloud."""
    if elapsed_ms < 1000:
        return f"{elapsed_ms} ms"
    if elapsed_ms < 10_000:
        return f"{elapsed_ms / 1000:.1f} seconds"
    minutes, seconds = divmod(round(elapsed_ms / 1000), 60)
    return f"{pluralize(minutes, 'minute')} {pluralize(seconds, 'second')}" if minutes else pluralize(seconds, "second")


def quoted(text: str) -> list[str]:
    """Return what somebody else wrote as lines: indented, so that it cannot pass for what lmtui says itself."""
    return [f"{INDENT}{line}".rstrip() for line in sanitize(text).split("\n")]


def plan_lines(changed: PlanChanged) -> Iterator[str]:
    """Return where the plan and the todos are."""
    for name, items in (("plan", changed.plan.steps), ("todos", changed.plan.todos)):
        if items:
            now = next((item.text for item in items if item.status is TodoStatus.IN_PROGRESS), "")
            yield f"{name}: {done_words(items)}" + (f", now: {sanitize_line(now)}" if now else "")
    task = changed.plan.task
    if task is not None:
        total = f" of {task.total_count:,}" if task.total_count else ""
        left = f", {task.remaining_count:,} left" if task.remaining_count else ""
        yield f"task: {task.processed_count:,}{total} processed{left}"


def more_and_fewer(added: int, removed: int) -> str:
    """Return how many lines were added and removed, as it is read aloud."""
    return f"{pluralize(added, 'line')} more, {removed} fewer"


def changes_text(changes: Sequence[FileChange]) -> str:
    """Return files and what happened to each, in words."""
    return "; ".join(
        f"{sanitize_path(change.path)} {change.kind.value}, {more_and_fewer(change.added_lines, change.removed_lines)}"
        for change in changes
    )
