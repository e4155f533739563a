"""Where the hooks of a session are called: at its start and end, before and after tool calls, before room is made.

A hook makes things stricter, or answers what the mode alone would ask; it never lets through what somebody else forbids.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import replace
from functools import partial

from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import ApprovalRequested, Envelope, Event, Level, MessageAdded, Notice
from lmtui.core.messages import ToolCall
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Decision, Effect, Mode, Verdict
from lmtui.core.ports import PreparedCall, ToolResult
from lmtui.engine.agent import Agent, CallReview, PromptHeld, TurnPoints
from lmtui.engine.call_permissions import wants_network
from lmtui.engine.session import EngineSession
from lmtui.features.hooks.values import HookCall, HookEvent, HookVerdict

MOST_HELD = 3
_ENOUGH = "A hook held up the end of this turn {count} times; now it ends all the same."
_END = "a hook ended the turn"
_END_S = 5.0


class HookPoints:
    """The hooks of one session.

    Args:
        wanted: what they wait for.
        run: calls those that an event is for; cancelled, it has ended them before it returns.
        problems: what of them cannot be read or does not hold.
    """

    def __init__(
        self,
        wanted: Collection[HookEvent],
        run: Callable[[HookCall], Awaitable[HookVerdict]],
        problems: Sequence[str] = (),
    ) -> None:
        self._wanted, self._run, self._problems = wanted, run, problems
        self._tasks: set[asyncio.Task[object]] = set()
        self._start: asyncio.Task[object] | None = None

    def register(self, points: TurnPoints) -> None:
        """Let the points be called that hooks wait for."""
        if HookEvent.SESSION_START in self._wanted:
            points.before_turn.append(self._begun)
        if HookEvent.USER_PROMPT_SUBMIT in self._wanted:
            points.before_message.append(self._pass_message)
        if HookEvent.PRE_TOOL_USE in self._wanted:
            points.before_call.append(self._review)
        if HookEvent.POST_TOOL_USE in self._wanted:
            points.after_call.append(self._look_back)
        if HookEvent.PRE_COMPACT in self._wanted:
            points.before_compaction.append(self._before_compaction)
        if {HookEvent.STOP, HookEvent.SUBAGENT_STOP} & set(self._wanted):
            points.turn_end.append(self._hold_up)

    def follow(self, session: EngineSession) -> None:
        """Say what does not hold, and call the hooks of the session's start; the first turn waits for them."""
        for problem in self._problems:
            session.emit(Notice(level=Level.WARNING, text=f"Hooks: {problem}"))
        if HookEvent.SESSION_START in self._wanted:
            self._start = self._spawn(self._started(session))
        if HookEvent.NOTIFICATION in self._wanted:
            _ = session.subscribe(partial(self._notify, session))
        session.before_close.append(partial(self._close, session))

    async def _begun(self) -> None:
        if self._start is not None and not self._start.done():
            _ = await asyncio.wait({self._start})

    async def _started(self, session: EngineSession) -> None:
        is_new = not any(isinstance(envelope.event, MessageAdded) for envelope in session.history())
        source = "startup" if is_new else "resume"
        verdict = await self._call_beside(session, HookEvent.SESSION_START, {"source": source}, source)
        if verdict.context:
            session.emit(Reminder(text=_to_model(verdict)))

    def _notify(self, session: EngineSession, envelope: Envelope) -> None:
        """Call the hooks that wait for what the user should know, where an event is such a thing."""
        match envelope.event:
            case ApprovalRequested(tool=tool):
                text, kind = f"lmtui needs your permission to use {tool}", "permission_prompt"
            case PlanProposed():
                text, kind = "lmtui has a plan for you to decide about", "plan_prompt"
            case _:
                return
        facts = {"message": text, "title": "lmtui", "notification_type": kind}
        _ = self._spawn(self._call_beside(session, HookEvent.NOTIFICATION, facts, kind))

    async def _close(self, session: EngineSession) -> None:
        """Call the hooks of the end, for a few seconds at most, and end what still runs."""
        if HookEvent.SESSION_END in self._wanted:
            _ = await self._call_beside(session, HookEvent.SESSION_END, {"reason": "other"}, "other", _END_S)
        tasks = tuple(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[object, object, object]) -> asyncio.Task[object]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _call(self, call: HookCall, emit: Callable[[Event], None], call_id: str = "") -> HookVerdict:
        """Call the hooks of an event; tell what they did and what they want the user to know."""
        verdict = await self._run(call)
        for run in verdict.runs:
            emit(replace(run, agent=call.agent, event=str(call.event), call_id=call_id))
        for note in verdict.notes:
            emit(Notice(agent=call.agent, level=Level.INFO, text=f"A hook says: {note}"))
        return verdict

    async def _call_beside(
        self, session: EngineSession, event: HookEvent, facts: Mapping[str, object], subject: str, limit_s: float = 0.0
    ) -> HookVerdict:
        return await self._call(HookCall(event, facts, subject, mode=str(session.mode), limit_s=limit_s), session.emit)

    async def _call_in_turn(
        self, agent: Agent, event: HookEvent, facts: Mapping[str, object], about: PreparedCall | str = "", call_id: str = ""
    ) -> HookVerdict:
        call = HookCall(event, facts, mode=str(agent.state.mode), agent=agent.id)
        if isinstance(about, str):
            call = replace(call, subject=about)
        else:
            call = replace(call, subject=about.tool, arguments=dict(about.arguments), subjects=about.subjects)
        verdict = await self._call(call, agent.emit, call_id)
        if verdict.ends_turn:
            agent.turn.ended_by = f"{_END}: {verdict.end_reason}" if verdict.end_reason else _END
        return verdict

    async def _pass_message(self, agent: Agent, text: str) -> str:
        verdict = await self._call_in_turn(agent, HookEvent.USER_PROMPT_SUBMIT, {"prompt": text})
        if verdict.blocks or verdict.ends_turn:
            agent.turn.ended_by = ""
            why = verdict.reason or verdict.end_reason or "it gave no reason"
            raise PromptHeld(f"a hook held your message back: {why}")
        return _to_model(verdict)

    async def _review(self, agent: Agent, call: ToolCall, prepared: PreparedCall) -> CallReview:
        """Look at a call before anybody decides about it.

        Raises:
            ToolError: what hooks put in place of its arguments is not what the tool takes.
        """
        facts = {"tool_use_id": call.id}
        verdict = await self._call_in_turn(agent, HookEvent.PRE_TOOL_USE, facts, prepared, call.id)
        if agent.turn.ended_by and not verdict.blocks:
            verdict = replace(verdict, permission=Verdict.DENY, reason=agent.turn.ended_by)
        note = ""
        if verdict.changed is not None and not verdict.blocks:
            given = json.dumps(dict(verdict.changed), ensure_ascii=False)
            prepared = agent.services.toolbox.prepare(prepared.tool, given)
            told = json.dumps(dict(prepared.arguments), ensure_ascii=False, default=str)[:500]
            note = f"[a hook of the user's changed the arguments to: {told}]\n"
        reason = verdict.reason.rstrip(".")
        refusal = f"a hook said no: {reason}" if verdict.blocks else ""

        def overrule(decision: Decision, behind: tuple[str, ...]) -> Decision:
            is_answer = verdict.permission is Verdict.ALLOW and decision.verdict is Verdict.ASK
            if is_answer and not _only_mode_asks(agent, prepared, behind):
                return decision
            return _overruled(verdict.permission, reason, decision)

        return CallReview(prepared, overrule, "hook", refusal, note)

    async def _look_back(self, agent: Agent, call: ToolCall, prepared: PreparedCall, result: ToolResult) -> ToolResult:
        """Look at what a call did, and return the result with what hooks say to the model."""
        response = {"output": result.text, "summary": result.summary, "success": result.ok}
        facts = {"tool_use_id": call.id, "tool_response": response}
        verdict = await self._call_in_turn(agent, HookEvent.POST_TOOL_USE, facts, prepared, call.id)
        told = "\n".join(part for part in (verdict.reason if verdict.blocks else "", verdict.context) if part)
        if not told:
            return result
        gap = "" if not result.text or result.text.endswith("\n") else "\n"
        return replace(result, text=f"{result.text}{gap}[a hook of the user's says: {told}]")

    async def _before_compaction(self, agent: Agent, trigger: str, focus: str) -> None:
        facts = {"trigger": trigger, "custom_instructions": focus}
        _ = await self._call_in_turn(agent, HookEvent.PRE_COMPACT, facts, trigger)
        agent.turn.ended_by = ""

    async def _hold_up(self, agent: Agent, text: str, _error: str) -> tuple[str, str]:
        """Return why an agent may not end yet, in words for it; empty where it may."""
        event = HookEvent.SUBAGENT_STOP if agent.state.depth else HookEvent.STOP
        if event not in self._wanted:
            return "", ""
        if agent.turn.held >= MOST_HELD:
            agent.notify(_ENOUGH.format(count=MOST_HELD))
            return "", ""
        facts = {"stop_hook_active": agent.turn.held > 0, "last_assistant_message": text}
        verdict = await self._call_in_turn(agent, event, facts)
        agent.turn.ended_by = ""  # it ends as it is
        if not verdict.blocks or verdict.ends_turn:
            return "", ""
        agent.turn.held += 1
        return f"A hook of the user's says that this is not the end: {verdict.reason}", ""


def _to_model(verdict: HookVerdict) -> str:
    return f"From a hook of the user's: {verdict.context}" if verdict.context else ""


def _overruled(said: Verdict | None, reason: str, decision: Decision) -> Decision:
    """Return what holds for a call: the permission function's decision, made stricter or answered by hooks."""
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
        case Verdict.ALLOW, Verdict.ASK:
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
