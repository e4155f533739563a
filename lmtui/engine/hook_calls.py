"""Where an agent's hooks are called: before and after its tool calls, at its end, before room is made.

A hook makes things stricter, or answers what the mode alone would ask; it never lets through what somebody else forbids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING

from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import ROOT, ApprovalRequested, Envelope, Event, Level, MessageAdded, Notice
from lmtui.core.hooks import HookCall, HookEvent, HookRan, HookVerdict
from lmtui.core.messages import ToolCall
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Decision, Effect, Mode, Verdict
from lmtui.core.ports import PreparedCall, ToolResult
from lmtui.engine.agent import Agent
from lmtui.engine.permission_check import wants_network

if TYPE_CHECKING:
    from lmtui.engine.agent import Agent


MOST_HELD = 3
_ENOUGH = "A hook held up the end of this turn {count} times; now it ends all the same."
_END = "a hook ended the turn"


@dataclass(frozen=True, slots=True)
class Screened:
    """A call as hooks leave it: what they say of it, and what the model is told about what they changed."""

    prepared: PreparedCall
    verdict: HookVerdict
    note: str = ""


async def call_hooks(
    agent: Agent,
    event: HookEvent,
    facts: Mapping[str, object],
    *,
    subject: str = "",
    prepared: PreparedCall | None = None,
    call_id: str = "",
) -> HookVerdict:
    """Call the hooks of an event and tell what they did."""
    call = HookCall(event, facts, subject, mode=str(agent.state.mode), agent=agent.id)
    if prepared is not None:
        call = replace(call, subject=prepared.tool, arguments=dict(prepared.arguments), subjects=prepared.subjects)
    verdict = await agent.hooks.run(call)
    tell_runs(agent.emit, event, verdict, agent=agent.id, call_id=call_id)
    if verdict.ends_turn:
        agent.hooks.ended_by = f"{_END}: {verdict.end_reason}" if verdict.end_reason else _END
    return verdict


def tell_runs(emit: Callable[[Event], None], event: HookEvent, verdict: HookVerdict, *, agent: str, call_id: str = "") -> None:
    """Emit what hooks did and what they want the user to know."""
    for run in verdict.runs:
        emit(HookRan(agent=agent, event=str(event), call_id=call_id, **asdict(run)))
    for note in verdict.notes:
        emit(Notice(agent=agent, level=Level.INFO, text=f"A hook says: {note}"))


def tell_model(agent: Agent, text: str, turn_id: str) -> None:
    """Tell the model what hooks have to say to it."""
    if text:
        agent.emit(Reminder(agent=agent.id, text=f"From a hook of the user's: {text}", turn_id=turn_id))


async def screen(agent: Agent, call: ToolCall, prepared: PreparedCall) -> Screened:
    """Let hooks look at a call before anybody decides about it.

    Raises:
        ToolError: what they put in place of its arguments is not what the tool takes.
    """
    verdict = await call_hooks(agent, HookEvent.PRE_TOOL_USE, {"tool_use_id": call.id}, prepared=prepared, call_id=call.id)
    if agent.hooks.ended_by and not verdict.blocks:
        verdict = replace(verdict, permission=Verdict.DENY, reason=agent.hooks.ended_by)
    if verdict.changed is None or verdict.blocks:
        return Screened(prepared, verdict)
    given = json.dumps(dict(verdict.changed), ensure_ascii=False)
    changed = agent.services.toolbox.prepare(prepared.tool, given)
    told = json.dumps(dict(changed.arguments), ensure_ascii=False, default=str)[:500]
    return Screened(changed, verdict, f"[a hook of the user's changed the arguments to: {told}]\n")


def overruled(agent: Agent, screened: Screened, decision: Decision, behind: tuple[str, ...]) -> Decision:
    """Return what holds for a call: the permission function's decision, made stricter or answered by hooks."""
    said, reason = screened.verdict.permission, screened.verdict.reason.rstrip(".")
    match said, decision.verdict:
        case _, Verdict.DENY:
            return decision
        case Verdict.DENY, _:
            return Decision(Verdict.DENY, f"a hook said no: {reason}")
        case Verdict.ASK, Verdict.ALLOW:
            return Decision(Verdict.ASK, f"hooks ask: {reason}" if reason else "a hook asks", takes_no_rule=True)
        case Verdict.ASK, Verdict.ASK:
            why = f"{decision.why}; hooks ask too" + (f": {reason}" if reason else "")
            return replace(decision, why=why, takes_no_rule=True)
        case Verdict.ALLOW, Verdict.ASK if _only_mode_asks(agent, screened.prepared, behind):
            return Decision(Verdict.ALLOW, f"a hook allows it: {reason}" if reason else "a hook allows it")
        case _:
            return decision


def _only_mode_asks(agent: Agent, prepared: PreparedCall, behind: tuple[str, ...]) -> bool:
    """Tell whether nothing but the mode asks about a call: no rule, no doubt, no secret and no reduced sandbox."""
    mode = Mode.PLAN if agent.state.only_reads else Mode.AUTO
    rules = tuple(rule for rule in agent.all_rules() if rule.effect is not Effect.ALLOW)
    decision = decide_all(
        prepared.tool,
        prepared.access,
        (*prepared.subjects, *behind),
        mode,
        rules,
        asks_each_command=agent.state.sandbox.asks_each_command,
        is_read_only=agent.state.sandbox.is_read_only,
    )
    return decision.verdict is Verdict.ALLOW and not wants_network(prepared)


async def look_back(agent: Agent, call: ToolCall, prepared: PreparedCall, result: ToolResult) -> ToolResult:
    """Let hooks look at what a call did, and return the result with what they say to the model."""
    response = {"output": result.text, "summary": result.summary, "success": result.ok}
    facts = {"tool_use_id": call.id, "tool_response": response}
    verdict = await call_hooks(agent, HookEvent.POST_TOOL_USE, facts, prepared=prepared, call_id=call.id)
    said = [verdict.reason] if verdict.blocks else []
    told = "\n".join(part for part in (*said, verdict.context) if part)
    if not told:
        return result
    gap = "" if not result.text or result.text.endswith("\n") else "\n"
    return replace(result, text=f"{result.text}{gap}[a hook of the user's says: {told}]")


async def held_up(agent: Agent, text: str) -> str:
    """Ask the hooks whether an agent may end, and return why not in words for it; empty where it may."""
    event = HookEvent.SUBAGENT_STOP if agent.state.depth else HookEvent.STOP
    if not agent.hooks.wants(event):
        return ""
    if agent.hooks.held >= MOST_HELD:
        agent.emit(Notice(agent=agent.id, level=Level.WARNING, text=_ENOUGH.format(count=MOST_HELD)))
        return ""
    facts = {"stop_hook_active": agent.hooks.held > 0, "last_assistant_message": text}
    verdict = await call_hooks(agent, event, facts)
    agent.hooks.ended_by = ""  # it ends as it is
    if not verdict.blocks or verdict.ends_turn:
        return ""
    agent.hooks.held += 1
    return f"A hook of the user's says that this is not the end: {verdict.reason}"


async def before_room(agent: Agent, trigger: str, focus: str = "") -> None:
    """Tell the hooks that room is made in the window; what they say of it goes to the user."""
    if agent.hooks.wants(HookEvent.PRE_COMPACT):
        facts = {"trigger": trigger, "custom_instructions": focus}
        _ = await call_hooks(agent, HookEvent.PRE_COMPACT, facts, subject=trigger)
        agent.hooks.ended_by = ""


_END_S = 5.0


class SessionHookCalls:
    """Calls them.

    Args:
        agent: the root agent.
        emit: takes events from outside a turn; must not raise.
        history: returns the session's events.
    """

    def __init__(self, agent: Agent, emit: Callable[[Event], None], history: Callable[[], Sequence[Envelope]]) -> None:
        self._agent = agent
        self._emit = emit
        self._history = history
        self._tasks: set[asyncio.Task[None]] = set()
        self._start: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Say what does not hold, and call the hooks of the session's start; the first turn waits for them."""
        agent = self._agent
        for problem in agent.hooks.problems():
            self._emit(Notice(level=Level.WARNING, text=f"Hooks: {problem}"))
        if agent.hooks.wants(HookEvent.SESSION_START):
            self._start = self._spawn(self._started())

    async def begun(self) -> None:
        """Wait until the hooks of the start have ended."""
        if self._start is not None and not self._start.done():
            _ = await asyncio.wait({self._start})

    def follow(self, envelope: Envelope) -> None:
        """Call the hooks that wait for what the user should know, where an event is such a thing."""
        if not self._agent.hooks.wants(HookEvent.NOTIFICATION):
            return
        match envelope.event:
            case ApprovalRequested(tool=tool):
                text, kind = f"lmtui needs your permission to use {tool}", "permission_prompt"
            case PlanProposed():
                text, kind = "lmtui has a plan for you to decide about", "plan_prompt"
            case _:
                return
        facts: dict[str, object] = {"message": text, "title": "lmtui", "notification_type": kind}
        _ = self._spawn(self._beside(HookEvent.NOTIFICATION, facts, kind))

    async def close(self, reason: str = "other") -> None:
        """Call the hooks of the end, for a few seconds at most, and end what still runs."""
        if self._agent.hooks.wants(HookEvent.SESSION_END):
            _ = await self._call(HookEvent.SESSION_END, {"reason": reason}, reason, limit_s=_END_S)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _started(self) -> None:
        is_new = not any(isinstance(envelope.event, MessageAdded) for envelope in self._history())
        source = "startup" if is_new else "resume"
        verdict = await self._call(HookEvent.SESSION_START, {"source": source}, source)
        tell_model(self._agent, verdict.context, "")

    async def _beside(self, event: HookEvent, facts: dict[str, object], subject: str) -> None:
        _ = await self._call(event, facts, subject)

    async def _call(self, event: HookEvent, facts: dict[str, object], subject: str, limit_s: float = 0.0) -> HookVerdict:
        agent = self._agent
        call = HookCall(event, facts, subject, mode=str(agent.state.mode), agent=ROOT, limit_s=limit_s)
        verdict = await agent.hooks.run(call)
        tell_runs(self._emit, event, verdict, agent=ROOT)
        return verdict

    def _spawn(self, work: Coroutine[object, object, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
