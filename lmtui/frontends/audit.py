"""What ran, who let it and how long it took: one row for each tool call of a session, from its events alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from lmtui.core.clean import clean_line
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Envelope,
    ModeChanged,
    Outcome,
    RuleRevoked,
    ToolCallFinished,
    ToolCallStarted,
)
from lmtui.core.file_events import FilesChanged, FilesRestored
from lmtui.core.host_events import HostReached
from lmtui.core.hosts import COMMAND_QUESTIONS
from lmtui.core.plan_events import PlanDecided, PlanOutcome


@dataclass(slots=True)
class AuditRow:
    """One call: who asked for it, what it was, how it was decided (`decision`, `rule`, `by`), the outcome, milliseconds.

    `hunks` says how many of a change were accepted, where not all were; `asked_ms` is how long the question was open, -1 where
    nobody was asked; `ok` is None while it is not over.
    """

    time: datetime
    agent: str
    tool: str
    what: str
    decision: str = ""
    rule: str = ""
    why: str = ""
    by: str = ""
    scope: str = ""
    edited: str = ""
    hunks: str = ""
    asked_ms: int = -1
    ok: bool | None = None
    outcome: str = ""
    elapsed_ms: int = -1
    files: tuple[str, ...] = field(default=())


def audit_rows(events: Sequence[Envelope]) -> Iterator[AuditRow]:
    """Yield a row for each call, in the order in which they began, and for what the user changed between them."""
    rows: list[AuditRow] = []
    calls: dict[str, AuditRow] = {}
    asked: dict[str, AuditRow] = {}
    hunks: dict[str, int] = {}
    for envelope in events:
        match envelope.event:
            case ToolCallStarted() as event:
                row = AuditRow(envelope.time, event.agent, event.tool, event.title)
                calls[event.call_id] = row
                rows.append(row)
            case ApprovalRequested(tool=tool) as event if tool in COMMAND_QUESTIONS:
                asked[event.approval_id] = row = AuditRow(envelope.time, event.agent, tool, event.text)
                rows.append(row)
            case HostReached() as event:
                rows.append(_reached(envelope.time, event))
            case ApprovalRequested() as event if event.call_id in calls:
                asked[event.approval_id] = calls[event.call_id]
                calls[event.call_id].what, hunks[event.approval_id] = event.text, event.hunks
            case ApprovalResolved() as event if event.approval_id in asked:
                row = asked[event.approval_id]
                row.by, row.scope, row.edited, row.asked_ms = event.by, event.scope, event.edited, event.elapsed_ms
                row.decision, row.rule = str(event.outcome), event.rule
                row.hunks = f"{len(event.hunks)} of {hunks.get(event.approval_id, 0)} hunks" if event.hunks else ""
                row.ok = event.outcome is not Outcome.NO if row.tool in COMMAND_QUESTIONS else row.ok
            case FilesChanged() as event if event.call_id in calls:
                calls[event.call_id].files = event.files
            case ToolCallFinished() as event if event.call_id in calls:
                _finish(calls[event.call_id], event)
            case other:
                rows += _by_the_user(envelope.time, other)
    yield from rows


def as_audit_text(events: Sequence[Envelope]) -> str:
    """Return the rows as a person reads them, one line each and what matters beside it."""
    lines: list[str] = []
    for row in audit_rows(events):
        took = f"{row.elapsed_ms} ms" if row.elapsed_ms >= 0 else "–"
        sign = {True: "✓", False: "✗", None: "…"}[row.ok]
        lines.append(
            f"{row.time:%Y-%m-%d %H:%M:%S}  {clean_line(row.agent)}  {sign} {clean_line(row.tool)}  "
            f"{clean_line(row.what)[:200]}  {took}  {clean_line(row.outcome)}"
        )
        decided = ", ".join(part for part in (_decided(row), clean_line(row.rule), clean_line(row.why)) if part)
        lines += [f"    decided: {decided}"] if decided else []
        lines += [f"    run instead: {clean_line(row.edited)}"] if row.edited else []
        lines += [f"    changed: {', '.join(map(clean_line, row.files[:20]))}"] if row.files else []
    return "\n".join(lines) or "nothing was run in this session"


def _finish(row: AuditRow, event: ToolCallFinished) -> None:
    row.ok, row.outcome, row.elapsed_ms = event.ok, event.summary, event.elapsed_ms
    row.why = event.why
    if not row.by:
        row.decision, row.rule = event.decision, event.rule


def _reached(time: datetime, event: HostReached) -> AuditRow:
    moved = f"sent {event.sent_bytes} bytes, received {event.received_bytes}"
    return AuditRow(time, event.agent, "connection", event.host, ok=not event.why_not, outcome=event.why_not or moved)


def _by_the_user(time: datetime, event: object) -> list[AuditRow]:
    match event:
        case FilesRestored():
            what = ", ".join(event.files)
            return [AuditRow(time, event.agent, event.action, what, by="user", ok=True, outcome="put back", files=event.files)]
        case ModeChanged(mode=mode):
            return [AuditRow(time, event.agent, "mode", mode, by="user", ok=True)]
        case PlanDecided(outcome=outcome, by=by, feedback=feedback) as decided:
            rules = ", ".join(decided.rules)
            return [
                AuditRow(time, decided.agent, "plan", feedback, str(outcome), rules, by=by, ok=outcome is PlanOutcome.APPROVED)
            ]
        case RuleRevoked(rule=rule):
            return [AuditRow(time, event.agent, "revoke", rule, by="user", ok=True)]
        case _:
            return []


def _decided(row: AuditRow) -> str:
    asked = f" after {row.asked_ms / 1000:.1f} s" if row.asked_ms >= 0 else ""
    by = f" by {row.by}{asked}" if row.by else ""
    scope = f" ({row.scope})" if row.scope else ""
    return f"{row.hunks or row.decision}{scope}{by}".strip()
