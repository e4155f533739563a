"""An open session as a list shows it, from what is known of it right now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import datetime

from lmtui.core.clean import clean_line
from lmtui.core.events import TurnReason
from lmtui.core.sessions import SessionSummary
from lmtui.tui.facts import Facts
from lmtui.tui.router import Feed


def live_summary(feed: Feed, known: SessionSummary | None, now: datetime) -> SessionSummary:
    """Return the row of an open session; `known` is what its log said when it was read last."""
    facts = feed.facts
    history = feed.session.history()
    usage = facts.usage.usage if facts.usage is not None else None
    return SessionSummary(
        id=feed.session.id,
        title=facts.title,
        state=live_state(facts),
        model=facts.model,
        created=history[0].time if history else now,
        updated=now if facts.is_running else (history[-1].time if history else now),
        changed_files=len(facts.changes),
        last_line=waits_for(facts) or facts.last_line,
        is_open=True,
        tokens=usage.prompt_tokens + usage.completion_tokens if usage is not None else 0,
        match=known.match if known is not None else "",
        wakes=facts.wakes,
    )


def live_state(facts: Facts) -> str:
    """Return the state as a list names it."""
    if facts.waits:
        return "waits"
    if facts.is_running:
        return "writing"
    if facts.wakes is not None:
        return TurnReason.WAITING.value
    return facts.reason.value if facts.reason is not None else "new"


def waits_for(facts: Facts) -> str:
    """Return what a session waits for an answer to, empty for nothing."""
    if not facts.approvals:
        return f"plan: {clean_line(facts.proposal.proposal.title)}" if facts.proposal is not None and facts.waits else ""
    request = next(iter(facts.approvals.values()))
    return clean_line(f"{request.tool} {request.text.partition(chr(10))[0]}")


def in_order(
    found: Iterable[SessionSummary], feeds: Mapping[str, Feed], parked: Iterable[str], now: datetime
) -> list[SessionSummary]:
    """Return sessions, the open ones first, as they are at this moment: what waits, what works, the others by age.

    `parked` are open but not read yet.
    """
    known = {each.id: each for each in found}
    live = [live_summary(feeds[each], known[each], now) for each in sorted(feeds, reverse=True) if each in known]
    live.sort(key=lambda each: (each.state != "waits", each.state != "writing"))
    asleep = [replace(known[each], is_open=True) for each in sorted(parked, reverse=True) if each in known]
    first = {each.id for each in (*live, *asleep)}
    return [*live, *asleep, *(each for each in known.values() if each.id not in first)]
