"""Several calls of one message that will all ask are asked about at once, so that they can be answered together.

They still run one after the other.  Only calls whose question cannot depend on what runs before them are asked ahead:
commands, and changes of files that no earlier call of the message is about.  Where
hooks look at calls, none is: they come first.
"""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.hooks import HookEvent
from lmtui.core.messages import ToolCall
from lmtui.core.permissions import Access, Verdict
from lmtui.core.ports import PreparedCall
from lmtui.engine.deciding import Asked, ask, behind_links, decide_in_time, learn_sandbox
from lmtui.engine.desk import Desk
from lmtui.engine.old_calls import check_copied
from lmtui.engine.tool_runner import begin, end_unrun

_FEWEST = 2


async def ask_ahead(desk: Desk, calls: Sequence[ToolCall], turn_id: str, asked: dict[str, Asked]) -> None:
    """Ask about the calls that can be asked ahead, if they are two or more; `asked` takes them, by call id, as they begin."""
    if desk.hooking.wants(HookEvent.PRE_TOOL_USE):
        return
    if not desk.approvals.is_attended or len({call.id for call in calls}) != len(calls) or len(calls) < _FEWEST:
        return
    candidates = [(call, prepared) for call, prepared in _independent(desk, calls) if prepared.access is not Access.NONE]
    if any(prepared.access is Access.EXECUTE for _, prepared in candidates):
        try:
            await learn_sandbox(desk)
        except SandboxError:
            return  # each call says so when its turn comes
    try:
        placed = [(call, each, await behind_links(desk, each)) for call, each in candidates]
    except SandboxError:
        return
    decided = [(item, await decide_in_time(desk, item[1], item[2])) for item in placed]
    asking = [item for item, decision in decided if decision.verdict is Verdict.ASK]
    if len(asking) < _FEWEST:
        return
    for call, prepared, behind in asking:
        begin(desk, call, prepared, turn_id)
        asked[call.id] = Asked(prepared, problem="stopped before it was asked about")
        try:
            asked[call.id] = await ask(desk, call, prepared, behind=behind)
        except (ToolError, SandboxError) as error:
            asked[call.id] = Asked(prepared, problem=error.full_text())


def give_up(desk: Desk, asked: dict[str, Asked], calls: Sequence[ToolCall]) -> None:
    """End the calls that were asked about and not reached any more."""
    for call in calls:
        if call.id in asked:
            end_unrun(desk, call, asked[call.id])


def _independent(desk: Desk, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PreparedCall]]:
    found: list[tuple[ToolCall, PreparedCall]] = []
    touched: set[str] = set()
    is_after_command = False
    for call in calls:
        try:
            check_copied(call)
            prepared = desk.toolbox.prepare(call.name, call.arguments)
        except ToolError:
            continue  # it says so when its turn comes
        is_command = prepared.access is Access.EXECUTE
        if is_command or not (is_after_command or touched & set(prepared.subjects)):
            found.append((call, prepared))
        is_after_command = is_after_command or is_command
        touched |= set(prepared.subjects)
    return found
