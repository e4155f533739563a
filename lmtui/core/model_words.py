"""How the model is asked and what changed in that, in one line for the user; and the words by which the user changes it."""

from __future__ import annotations

from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.events import Event
from lmtui.core.guidance import GuidanceRead, guidance_words
from lmtui.core.hooks import HookRan, hook_words
from lmtui.core.long_words import long_words
from lmtui.core.messages import CallForm
from lmtui.core.model_events import CallFormChanged, Compacted, LoopSuspected, Reminder, ToolSetChanged
from lmtui.core.plan_events import PlanDecided, PlanProposed
from lmtui.core.proposal_words import plan_event_words
from lmtui.core.sessions import Calls
from lmtui.core.skill_words import skill_used_words
from lmtui.core.skills import SkillUsed

_FORMS = {
    CallForm.NATIVE: "by the server's own calls",
    CallForm.TEXT: "in its text",
    CallForm.SCHEMA: "in an answer held to a JSON schema",
}
CALL_CHOICES = {
    "auto": "what works with this model, found out by its answers",
    "native": "by the server's own calls",
    "text": "as a block in its text",
    "schema": "as text that the server holds to a JSON schema",
}
_MAX_CHARS = 120


def model_words(event: Event) -> str:
    """Return the line, empty for an event that there is nothing to say of."""
    match event:
        case CallFormChanged(form=form, why=why):
            how = _FORMS[CallForm(form)] if form in tuple(CallForm) else clean_line(form)
            return f"from here on the model calls tools {how}" + (f": {clean_line(why)}" if why else "")
        case ToolSetChanged(tools=tools, why=why, edits=edits):
            without = " without edit" if edits == "whole" else ""
            return f"tools: {clean_line(tools)}{without}" + (f", {clean_line(why)}" if why else "")
        case PlanProposed() | PlanDecided() | Reminder(topic="plan"):
            return plan_event_words(event)
        case Reminder(text=text):
            first = clean_line(text.strip().partition("\n")[0])
            return f"lmtui told the model: {first[:_MAX_CHARS]}{'…' if len(first) > _MAX_CHARS else ''}"
        case HookRan():
            return hook_words(event)
        case SkillUsed():
            return skill_used_words(event)
        case GuidanceRead(guidance=guidance):
            return guidance_words(guidance)
        case LoopSuspected(what=what, is_over=is_over):
            return "" if is_over else f"this looks like a loop: {clean_line(what)}"  # how the turn ends says it too
        case Compacted():
            left_out = len(event.elided) + len(event.folded)
            parts = [f"{left_out} long {'result' if left_out == 1 else 'results'} shortened"] if left_out else []
            parts += ["what was said first summarised"] if event.kept_from else []
            what = " and ".join(parts) or "nothing left out"
            room = f"{event.tokens_before:,} → {event.tokens_after:,} tokens"
            return f"room was made: {what}, {room} ({clean_line(event.why)})"
        case _:
            return long_words(event)


def calls_words(calls: Calls) -> str:
    """Return in which form the model calls tools, and why."""
    now = calls.in_use()
    return f"calls: {now.form}, {clean_line(now.why) or 'nothing speaks against it'}"


def set_calls(calls: Calls, name: str) -> None:
    """Set the form of calls by its name; `auto` lets lmtui choose again.

    Raises:
        UsageError: there is no such form.
    """
    if name not in CALL_CHOICES:
        raise UsageError(f"no form of calls {clean_line(name)!r}", f"There are {', '.join(CALL_CHOICES)}.")
    calls.use(None if name == "auto" else CallForm(name))
