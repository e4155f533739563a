"""What an approval says: exactly what would run or change, under which conditions, and what may be granted."""

from __future__ import annotations

import hashlib

from lmtui.core.clean import reveal
from lmtui.core.events import ApprovalRequested
from lmtui.core.offers import offered_rules
from lmtui.core.permissions import Access, Decision
from lmtui.core.ports import PreparedCall, ToolContext
from lmtui.engine.desk import Desk
from lmtui.engine.hosts import lacks_network


async def question(
    desk: Desk, call_id: str, prepared: PreparedCall, context: ToolContext, decision: Decision, *, behind: tuple[str, ...] = ()
) -> ApprovalRequested:
    """Return the request for one call; `behind` are the real paths behind its links.

    Raises:
        ToolError: the call cannot succeed, so there is nothing to ask about.
    """
    preview = await prepared.preview(context)
    is_outside = prepared.access is not Access.EXECUTE and any(
        subject.startswith(("/", "../")) for subject in prepared.subjects
    )
    offers = () if decision.takes_no_rule or is_outside else offered_rules(prepared.tool, prepared.access, prepared.subjects)
    if not desk.approvals.is_attended and lacks_network(desk, prepared):
        offers = ("Network(*)",)  # nobody can say yes to this one command
    is_command = prepared.access is Access.EXECUTE
    writes = prepared.access is Access.WRITE
    changed = [path for path in (*prepared.subjects, *behind) if writes and path.startswith("/")]
    return ApprovalRequested(
        agent=desk.agent,
        approval_id=desk.approvals.next_id(),
        call_id=call_id,
        tool=prepared.tool,
        text=reveal(preview.text),
        diff=reveal(preview.diff),
        path=preview.path,
        why=decision.why if not changed else f"{decision.why}; undo does not cover {reveal(', '.join(changed))}",
        suggested_rule=offers[0] if offers else "",
        offered_rules=offers,
        cwd=desk.sandbox_folder if is_command else "",
        sandbox=desk.sandbox_text,
        limits=preview.limits,
        uncovered=tuple(map(reveal, decision.uncovered)),
        commands=decision.commands,
        hunks=preview.hunks,
        digest=hashlib.sha256(preview.text.encode("utf-8", "surrogatepass")).hexdigest(),
    )
