"""Approvals and plans as permission requests.  A change with several hunks can be answered hunk by hunk, one request each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from acp import schema
from acp.exceptions import RequestError
from acp.helpers import update_tool_call
from pydantic import ValidationError

from lmtui.acp.acp_server import Editor, dumped
from lmtui.acp.projection import ToolContent, diff_parts, hunks_of, kind_of, text_content
from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import ROOT, ApprovalRequested, Outcome
from lmtui.core.plan_mode import proposal_lines
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.core.sessions import Answer
from lmtui.core.workspace import EffectKind, EffectPart, units_of

_TITLE_CHARS = 200
CANNOT_ASK = "the editor cannot ask the user"
APPROVE, APPROVE_WITH_GRANTS = "approve", "approve_with_grants"


def option(option_id: str, name: str, kind: schema.PermissionOptionKind) -> schema.PermissionOption:
    """Return one answer that the user may choose."""
    return schema.PermissionOption(option_id=option_id, name=name, kind=kind)


@dataclass(frozen=True, slots=True)
class _Unit:
    """One hunk, or a file that is all or nothing, of what is asked about."""

    path: str
    content: list[ToolContent]
    places: list[schema.ToolCallLocation]


class PermissionRequests:
    """Asks the user of one session.

    Args:
        editor: who asks.
        workspace: the folder of the session.
        session_id: the session's id.
    """

    def __init__(self, editor: Editor, workspace: Path, session_id: str) -> None:
        self._editor, self._workspace, self._session_id = editor, workspace, session_id

    async def approval(self, event: ApprovalRequested, call_id: str) -> Answer | None:
        """Return the answer to an approval, None where the user dismissed it: that stops the turn."""
        units = self._units(event)
        places = [place for unit in units for place in unit.places]
        if not places and event.path:
            places = diff_parts(self._workspace, event.path, event.diff)[1]
        call = _call(call_id, _title(event), kind_of(event.tool), self._content(event, units), places)
        chosen = await self._choose(call, list(_options(event, is_divisible=len(units) > 1)))
        if chosen == "parts":
            return await self._by_parts(event, call_id, units)
        return _answer(chosen)

    async def plan(self, event: PlanProposed, *, grants: Sequence[str]) -> str:
        """Return which answer the user gave to a plan: `APPROVE`, `APPROVE_WITH_GRANTS`, or an empty string."""
        options = [option(APPROVE, "Approve the plan", "allow_once")]
        if grants:
            text = f"Approve the plan and what it names ({len(grants)} rules for this session)"
            options.append(option(APPROVE_WITH_GRANTS, text, "allow_always"))
        options.append(option("no", "Keep planning", "reject_once"))
        lines = [*proposal_lines(event.proposal), *(f"allow {escape_invisible_line(rule)}" for rule in grants)]
        content = text_content("\n".join(lines))
        call = _call(f"{event.proposal_id}-answer", "Approve this plan?", "switch_mode", [content])
        chosen = await self._choose(call, options)
        return chosen if chosen in (APPROVE, APPROVE_WITH_GRANTS) else ""

    async def pick(self, title: str, text: str, options: Sequence[schema.PermissionOption]) -> str:
        """Return the id of the option that the user picked, empty where they picked none."""
        content = [text_content(text)] if text else []
        return await self._choose(_call(f"question-{abs(hash((title, text)))}", title, "other", content), list(options)) or ""

    async def _choose(self, call: schema.ToolCallUpdate, options: list[schema.PermissionOption]) -> str | None:
        """Return the id of what was chosen, empty where it was dismissed, None where the editor cannot ask."""
        asked = schema.RequestPermissionRequest(session_id=self._session_id, tool_call=call, options=options)
        try:
            answer = await self._editor.request("session/request_permission", dumped(asked))
            found = schema.RequestPermissionResponse.model_validate(answer).outcome
        except (RequestError, ConnectionError, ValidationError):
            return None
        chosen = found.option_id if isinstance(found, schema.AllowedOutcome) else ""
        return chosen if chosen in {each.option_id for each in options} else ""

    async def _by_parts(self, event: ApprovalRequested, call_id: str, units: Sequence[_Unit]) -> Answer | None:
        kept: list[int] = []
        for number, unit in enumerate(units):
            where = escape_invisible_line(unit.path)
            title = f"{where}: change {number + 1} of {len(units)}"
            call = _call(call_id, title, kind_of(event.tool), unit.content, unit.places)
            options = [option("yes", "Accept this change", "allow_once"), option("no", "Reject this change", "reject_once")]
            if number + 1 < len(units):
                options.insert(1, option("rest", "Accept this and all others", "allow_once"))
                options.append(option("end", "Reject this and all others", "reject_once"))
            chosen = await self._choose(call, options)
            if not chosen:
                return _answer(chosen)
            kept += [number] if chosen == "yes" else range(number, len(units)) if chosen == "rest" else []
            if chosen in ("rest", "end"):
                break
        if not kept:
            return Answer(Outcome.NO)
        return Answer(Outcome.ONCE, hunks=None if len(kept) == len(units) else tuple(kept))

    def _units(self, event: ApprovalRequested) -> list[_Unit]:
        """Return what can be answered one by one, by its number."""
        if event.parts:
            return [unit for part, own in zip(event.parts, units_of(event.parts), strict=True) for unit in self._of(part, own)]
        contents, places = diff_parts(self._workspace, event.path, event.diff)
        if len(contents) != event.hunks or event.hunks < 2:
            return []
        return [_Unit(event.path, [content], [place]) for content, place in zip(contents, places, strict=True)]

    def _of(self, part: EffectPart, own: range) -> Iterator[_Unit]:
        contents, places = diff_parts(self._workspace, part.path, part.diff, is_new=part.kind is EffectKind.CREATED)
        if len(own) == len(contents) > 1:
            yield from (_Unit(part.path, [each], [place]) for each, place in zip(contents, places, strict=True))
            return
        words = text_content(f"{part.kind}: {escape_invisible_line(part.path)}")
        yield from (_Unit(part.path, [*contents] or [words], places[:1]) for _ in own)

    def _content(self, event: ApprovalRequested, units: Sequence[_Unit]) -> list[ToolContent]:
        lines = [event.text] if event.text.strip() and not event.diff else []
        lines += [f"Why: {sanitize_line(event.why)}"] if event.why else []
        lines += [f"Not covered by your rules: {'; '.join(event.uncovered)}"] if event.uncovered else []
        told = ", ".join(part for part in (event.limits, event.sandbox) if part)
        lines += [sanitize_line(told)] if told else []
        diffs: list[ToolContent] = [each for unit in units for each in unit.content]
        if not diffs and event.diff:
            is_new = not any(hunk.old for hunk in hunks_of(event.diff))
            diffs = [*diff_parts(self._workspace, event.path, event.diff, is_new=is_new)[0]] or [text_content(event.diff)]
        return [*([text_content("\n".join(lines))] if lines else []), *diffs]


def _answer(chosen: str | None) -> Answer | None:
    """Return the answer that was chosen; None where the question was dismissed."""
    if chosen is None:
        return Answer(Outcome.NO, feedback=CANNOT_ASK)
    return Answer(Outcome(chosen)) if chosen else None


def _call(
    call_id: str,
    title: str,
    kind: schema.ToolKind,
    content: Sequence[ToolContent],
    places: Sequence[schema.ToolCallLocation] = (),
) -> schema.ToolCallUpdate:
    return update_tool_call(
        call_id, title=title, kind=kind, status="pending", content=[*content] or None, locations=[*places] or None
    )


def _title(event: ApprovalRequested) -> str:
    what = escape_invisible_line(event.path or event.text.partition("\n")[0])
    who = "" if event.agent == ROOT else f"{sanitize_line(event.agent)}: "
    verb = "keep what the command changed" if event.parts else sanitize_line(event.tool)
    return f"{who}{verb}: {what}"[:_TITLE_CHARS] if what and not event.parts else f"{who}{verb}"


def _options(event: ApprovalRequested, *, is_divisible: bool) -> Iterator[schema.PermissionOption]:
    deleted = any(part.kind is EffectKind.DELETED for part in event.parts)
    yield option("once", ("Keep all, deletions too" if deleted else "Keep all") if event.parts else "Allow once", "allow_once")
    if is_divisible:
        yield option("parts", "Choose change by change", "allow_once")
    if event.suggested_rule:
        rule = escape_invisible_line(event.suggested_rule)
        yield option("session", f"Allow in this session: {rule}", "allow_always")
        yield option("always", f"Always allow in this folder: {rule}", "allow_always")
    if event.can_try:
        yield option("try", "Run in an overlay, then ask about its effect", "allow_once")
    yield option("no", "Drop all" if event.parts else "Reject", "reject_once")
