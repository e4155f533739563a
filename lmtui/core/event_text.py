"""How the model is asked and what changed in that, in one line for the user; and the words by which the user changes it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from lmtui.core.agent_events import AgentFinished, AgentStarted, PlanDecided, PlanProposed
from lmtui.core.budgets import Budgets, BudgetSet, ReportWritten, SessionBudget, read_budget, whole_budget
from lmtui.core.errors import UsageError
from lmtui.core.events import Envelope, Event, OverlayChanged, TurnEnded
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
from lmtui.core.plan_mode import plan_event_words
from lmtui.core.prompt_parts import PromptPartsRead, parts_words
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.sessions import Calls

_REPORT_CHARS = 200
_DEEP_FORM = "/deep 3h 200 steps port the parser"


def budget_words(budgets: Budgets) -> str:
    """Return what a session may spend, and what it has spent."""
    budget, spent = budgets.in_force()
    if not budget:
        return f"no budget; {spent} used. To set one, type /budget 3h 200 steps."
    return f"budget: {budget}; {spent} used ({budget.used(spent):.0%})"


def set_budget(budgets: Budgets, words: str) -> None:
    """Set a session's budget by words, or with `off` take it away.

    Raises:
        UsageError: the words are not a budget.
    """
    budgets.give(SessionBudget() if words.strip() == "off" else whole_budget(words))


def begin_deep(budgets: Budgets, words: str) -> str:
    """Set the budget that the words begin with and return the task behind it.

    Raises:
        UsageError: no budget, or no task behind it.
    """
    if not words.strip():
        raise UsageError("/deep needs a budget and a task", f"Write it like {_DEEP_FORM}.")
    budget, task = read_budget(words)
    if not task:
        raise UsageError("no task behind the budget", f"Write it like {_DEEP_FORM}.")
    budgets.give(budget)
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
            return f"tools: {sanitize_line(tools)}" + (f", {sanitize_line(why)}" if why else "")
        case ModelLoaded(model=model, unloaded=unloaded, ok=True, elapsed_s=elapsed_s):
            instead = f"; unloaded {sanitize_line(', '.join(unloaded))}" if unloaded else ""
            return f"loaded {sanitize_line(model)} in {elapsed_s:.0f} s{instead}"
        case PlanProposed() | PlanDecided() | Reminder(topic="plan"):
            return plan_event_words(event)
        case Reminder(text=text):
            first = sanitize_line(text.strip().partition("\n")[0])
            sentence = found[0] if (found := _SENTENCE.match(first)) else first.rstrip(" :")
            return f"lmtui told the model: {sentence[:_MAX_CHARS]}{'…' if len(sentence) > _MAX_CHARS else ''}"
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
            return event.line


def calls_words(calls: Calls) -> str:
    """Return in which form the model calls tools, and why."""
    now = calls.in_use()
    return f"calls: {now.form}" + (f", {sanitize_line(now.why)}" if now.why else "")


def set_calls(calls: Calls, name: str) -> None:
    """Set the form of calls by its name; `auto` lets lmtui choose again.

    Raises:
        UsageError: no such form.
    """
    if name not in CALL_CHOICES:
        raise UsageError(f"no form of calls {sanitize_line(name)!r}", f"There are {', '.join(CALL_CHOICES)}.")
    calls.use(None if name == "auto" else ToolCallFormat(name))


def saved_patch(history: Sequence[Envelope]) -> str:
    """Return the patch with the unmerged changes of try mode when the session was closed after its last turn."""
    last = [each.event for each in history if isinstance(each.event, OverlayChanged | TurnEnded)][-1:]
    return "".join(event.patch for event in last if isinstance(event, OverlayChanged))
