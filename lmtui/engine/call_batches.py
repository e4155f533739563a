"""The calls of one message: those that only read run in parallel, all others one by one, in order.

A call that may change something waits for all earlier calls and delays all later ones.  If hooks see the calls, none run in
parallel: a hook's answer to one may concern the next.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import takewhile

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.hooks import HookEvent
from lmtui.core.messages import ToolCall
from lmtui.core.permissions.decide import Access, Verdict
from lmtui.core.permissions.rules import FileEffect, traits_of
from lmtui.core.ports import PreparedCall, ToolResult
from lmtui.engine.agent import Agent
from lmtui.engine.entries import check_copied
from lmtui.engine.loop_detection import TOO_MANY_CALLS
from lmtui.engine.permission_check import PendingCall, ask, behind_links, decide_in_time, learn_sandbox
from lmtui.engine.tool_runner import begin, end_unrun, refuse_call, run_call, run_side_by_side

_FEWEST = 2


async def batch_approvals(agent: Agent, calls: Sequence[ToolCall], turn_id: str, asked: dict[str, PendingCall]) -> None:
    """Ask about the calls that can be asked ahead, if they are two or more; `asked` takes them, by call id, as they begin."""
    if agent.hooks.wants(HookEvent.PRE_TOOL_USE):
        return
    if not agent.services.approvals.is_attended or len({call.id for call in calls}) != len(calls) or len(calls) < _FEWEST:
        return
    candidates = [(call, prepared) for call, prepared in _independent(agent, calls) if prepared.access is not Access.NONE]
    if any(prepared.access is Access.EXECUTE for _, prepared in candidates):
        try:
            await learn_sandbox(agent)
        except SandboxError:
            return  # each call says so when its turn comes
    try:
        placed = [(call, each, await behind_links(agent, each)) for call, each in candidates]
    except SandboxError:
        return
    decided = [(item, await decide_in_time(agent, item[1], item[2])) for item in placed]
    asking = [item for item, decision in decided if decision.verdict is Verdict.ASK]
    if len(asking) < _FEWEST:
        return
    for call, prepared, behind in asking:
        begin(agent, call, prepared, turn_id)
        asked[call.id] = PendingCall(prepared, problem="stopped before it was asked about")
        try:
            asked[call.id] = await ask(agent, call, prepared, behind=behind)
        except (ToolError, SandboxError) as error:
            asked[call.id] = PendingCall(prepared, problem=error.full_text())


def give_up(agent: Agent, asked: dict[str, PendingCall], calls: Sequence[ToolCall]) -> None:
    """End the calls that were asked about and not reached any more."""
    for call in calls:
        if call.id in asked:
            end_unrun(agent, call, asked[call.id])


def _independent(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PreparedCall]]:
    found: list[tuple[ToolCall, PreparedCall]] = []
    touched: set[str] = set()
    is_after_command = False
    for call in calls:
        try:
            check_copied(call)
            prepared = agent.services.toolbox.prepare(call.name, call.arguments)
        except ToolError:
            continue  # it says so when its turn comes
        is_command = prepared.access is Access.EXECUTE
        if is_command or not (is_after_command or touched & set(prepared.subjects)):
            found.append((call, prepared))
        is_after_command = is_after_command or is_command
        touched |= set(prepared.subjects)
    return found


async def run_calls(agent: Agent, calls: Sequence[ToolCall], turn_id: str) -> None:
    """Run the calls of one message; refuse those beyond the limit of a message."""
    allowed = calls[: agent.services.limits.max_calls_per_message]
    asked: dict[str, PendingCall] = {}
    try:
        await batch_approvals(agent, allowed, turn_id, asked)
        at = 0
        while at < len(allowed) and not agent.hooks.ended_by:
            reading = await _reading(agent, list(takewhile(lambda call: call.id not in asked, allowed[at:])))
            if len(reading) >= _FEWEST:
                await run_side_by_side(agent, reading, turn_id)
                at += len(reading)
            else:
                await run_call(agent, allowed[at], turn_id, agent.turn.files, asked.pop(allowed[at].id, None))
                at += 1
    finally:
        give_up(agent, asked, allowed)
    if agent.hooks.ended_by:
        return
    most = agent.services.limits.max_calls_per_message
    text = f"Not run: at most {most} calls in one message. Call it again if you still need it."
    for call in calls[len(allowed) :]:
        refuse_call(agent, call, turn_id, ToolResult(text, TOO_MANY_CALLS, ok=False))


async def _reading(agent: Agent, calls: Sequence[ToolCall]) -> list[tuple[ToolCall, PendingCall]]:
    """Return the leading calls that only read and need no approval, with their decisions."""
    found: list[tuple[ToolCall, PendingCall]] = []
    is_hooked = any(map(agent.hooks.wants, (HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE)))
    if is_hooked or len(calls) < _FEWEST or len({call.id for call in calls}) != len(calls):
        return found
    for call in calls:
        asked = await _as_reading(agent, call)
        if asked is None:
            break
        found.append((call, asked))
    return found


async def _as_reading(agent: Agent, call: ToolCall) -> PendingCall | None:
    """Return the decision about a call that only reads and needs no approval, else None."""
    try:
        check_copied(call)
        prepared = agent.services.toolbox.prepare(call.name, call.arguments)
        if not _may_only_read(prepared):
            return None
        if prepared.access is Access.EXECUTE:
            await learn_sandbox(agent)
        behind = await behind_links(agent, prepared)
    except (ToolError, SandboxError):
        return None  # it says so when its turn comes
    decision = await decide_in_time(agent, prepared, behind)
    is_safe = decision.is_read_only if prepared.access is Access.EXECUTE else True
    return PendingCall(prepared, decision, behind=behind) if decision.verdict is Verdict.ALLOW and is_safe else None


def _may_only_read(prepared: PreparedCall) -> bool:
    """Tell whether a call may only read (files, a page, a command).  Tools of MCP servers are unknown."""
    traits = traits_of(prepared.tool)
    match prepared.access:
        case Access.READ:
            return traits.file_effect in (FileEffect.SHOWS, FileEffect.LISTS) and not traits.is_for_work
        case Access.WEB:
            return prepared.tool == "fetch"
        case Access.EXECUTE:
            return prepared.tool == "shell"
        case _:
            return False
