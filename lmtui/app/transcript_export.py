"""A session as a text, as Markdown and as one HTML page.  All of it is foreign text: cleaned, and escaped where it must be."""

from __future__ import annotations

import html
import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from lmtui.core.agent_events import PlanDecided, PlanProposed
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Envelope,
    Level,
    MessageAdded,
    Notice,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from lmtui.core.messages import Role
from lmtui.core.plan_mode import plan_event_words, proposal_lines
from lmtui.core.sanitize import sanitize, sanitize_line, sanitize_path
from lmtui.core.sessions import answer_words
from lmtui.store.codec import encode
from lmtui.store.session_logs import load

_MAX_RESULT_LINES = 12


def as_text(events: Sequence[Envelope]) -> str:
    """Return the transcript as a person reads it in a terminal."""
    return "\n".join(_lines(events))


def as_json(events: Sequence[Envelope]) -> str:
    """Return the events as one JSON list."""
    return json.dumps([json.loads(encode(envelope)) for envelope in events], ensure_ascii=False, indent=1)


def as_markdown(events: Sequence[Envelope]) -> str:
    """Return the transcript as Markdown, tool results in fences longer than any inside them."""
    out = [f"# {_title(events)}", ""]
    for envelope in events:
        match envelope.event:
            case MessageAdded(role=role, text=text) if text.strip():
                out += [f"## {_name(role)}  {envelope.time:%Y-%m-%d %H:%M}", "", sanitize(text), ""]
            case ToolCallStarted(tool=tool, title=title):
                out += [f"**{_code(tool)}** {_code(title)}", ""]
            case ToolCallFinished(result=result):
                shown = sanitize(result)
                fence = _fence(shown)
                out += [fence, shown, fence, ""]
            case PlanProposed(proposal=proposal):
                shown = "\n".join(proposal_lines(proposal))
                fence = _fence(shown)
                out += ["**plan**", "", fence, shown, fence, ""]
            case PlanDecided() as event:
                out += [f"> {plan_event_words(event)}", ""]
            case TurnEnded(error=error) if error:
                out += [f"> {sanitize_line(error)}", ""]
            case _:
                pass
    return "\n".join(out)


def as_html(events: Sequence[Envelope]) -> str:
    """Return the transcript as one page that loads nothing."""
    body: list[str] = []
    for envelope in events:
        match envelope.event:
            case MessageAdded(role=role, text=text) if text.strip():
                body.append(f'<section class="{role}"><h2>{_name(role)}</h2><pre>{html.escape(sanitize(text))}</pre></section>')
            case ToolCallStarted(tool=tool, title=title):
                body.append(f"<h3>{html.escape(sanitize_line(tool))} <code>{html.escape(sanitize_path(title))}</code></h3>")
            case ToolCallFinished(result=result, ok=ok):
                sign = "✓" if ok else "✗"
                body.append(f"<details><summary>{sign} result</summary><pre>{html.escape(sanitize(result))}</pre></details>")
            case PlanProposed(proposal=proposal):
                body.append(f"<h3>plan</h3><pre>{html.escape(chr(10).join(proposal_lines(proposal)))}</pre>")
            case PlanDecided() as event:
                body.append(f"<p><em>{html.escape(plan_event_words(event))}</em></p>")
            case TurnEnded(error=error) if error:
                body.append(f"<p><em>{html.escape(sanitize_line(error))}</em></p>")
            case _:
                pass
    title = html.escape(_title(events))
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{title}</title>\n<style>{_CSS}</style>\n"
        f"<h1>{title}</h1>\n" + "\n".join(body) + "\n</html>"
    )


_CSS = (
    "body{font:16px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}"
    "pre{white-space:pre-wrap;overflow-wrap:anywhere}.user{background:#8881;padding:.1rem 1rem}"
    "h2{font-size:1rem}h3{font-size:.9rem}"
)


def _lines(events: Sequence[Envelope]) -> Iterator[str]:
    hunks: dict[str, int] = {}
    for envelope in events:
        time = f"{envelope.time.astimezone():%H:%M}"
        match envelope.event:
            case SessionOpened(workspace=workspace):
                date = f"{envelope.time.astimezone():%Y-%m-%d}"
                yield f"session {sanitize_line(envelope.session)}  {sanitize_line(workspace)}  {date} {time}"
            case MessageAdded(role=role, text=text) if text.strip():
                yield f"\n{_name(role)}  {time}\n{sanitize(text)}"
            case ToolCallStarted(tool=tool, title=title):
                yield f"● {sanitize_line(tool)}  {sanitize_path(title)}"
            case ToolCallFinished() as event:
                yield from _result_lines(event)
            case PlanProposed(proposal=proposal):
                yield from proposal_lines(proposal)
            case PlanDecided() as event:
                yield f"    {plan_event_words(event)}"
            case ApprovalRequested() as event:
                hunks[event.approval_id] = event.hunks
            case ApprovalResolved() as event:
                part = f"{len(event.hunks)} of {hunks.get(event.approval_id, 0)} hunks by" if event.hunks else ""
                yield f"    {sanitize_line(answer_words(event, part))}"
            case Notice(level=level, text=text) if level is not Level.INFO:
                yield f"{level}: {sanitize_line(text)}"
            case TurnEnded(reason=reason, error=error, elapsed_s=elapsed_s):
                yield f"\n[{reason} in {elapsed_s:.1f} s]" + (f" {sanitize_line(error)}" if error else "")
            case _:
                pass


def _result_lines(event: ToolCallFinished) -> Iterator[str]:
    lines = sanitize(event.result).splitlines()
    for line in lines[:_MAX_RESULT_LINES]:
        yield f"    {line}"
    more = f"{len(lines) - _MAX_RESULT_LINES} more lines, " if len(lines) > _MAX_RESULT_LINES else ""
    summary = f"{sanitize_line(event.summary)}, " if event.summary else ""
    yield f"  {'✓' if event.ok else '✗'} {more}{summary}{event.elapsed_ms} ms"


def _name(role: Role) -> str:
    return "you" if role is Role.USER else "lmtui"


def _title(events: Sequence[Envelope]) -> str:
    titles = [envelope.event.title for envelope in events if isinstance(envelope.event, SessionRenamed)]
    return sanitize_line(titles[-1]) if titles else "Session"


def _code(text: str) -> str:
    line = sanitize_line(text)
    fence = "`"
    while fence in line:
        fence += "`"
    return f"{fence} {line} {fence}" if line else ""


def _fence(text: str) -> str:
    fence = "```"
    while fence in text:
        fence += "`"
    return fence


def exported(log: Path, form: str) -> str:
    """Return a session's log as a whole file of a form: `md`, `html` or `jsonl` (the log itself).

    Raises:
        SessionFileError: it cannot be read.
    """
    events = load(log).events
    match form:
        case "jsonl":
            return log.read_text(encoding="utf-8", errors="replace")
        case "html":
            return as_html(events) + "\n"
        case _:
            return as_markdown(events) + "\n"
