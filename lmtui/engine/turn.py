"""A turn: from the user's words to the model's last answer.  The loop at the heart of lmtui, meant to be read aloud."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from lmtui.core.errors import ContextOverflow, ProviderError, SessionFileError, WindowFull
from lmtui.core.events import Level, Notice, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import Completion, ToolChoice, Usage
from lmtui.core.model_events import LoopSuspected, Reminder
from lmtui.engine.agent_context import AgentContext
from lmtui.engine.call_batches import run_calls
from lmtui.engine.completion import request_completion
from lmtui.engine.context_fit import compact_now
from lmtui.engine.hook_calls import held_up
from lmtui.engine.inbox import UserInput
from lmtui.engine.loop_detection import Loop
from lmtui.engine.model_roles import restore_model
from lmtui.engine.planning import PlanModePolicy, tell_plan_mode
from lmtui.engine.stop_policy import (
    Continue,
    Done,
    Stop,
    StopPolicy,
    check_end,
    judge_wait,
    limit_reached,
    tell_what_is_left,
    write_report,
)
from lmtui.engine.turn_outcome import EXIT_CODES, reason_of, without_token
from lmtui.engine.user_input import PromptHeld, accept_steering, add_user_message, held_words

FAILED_INSIDE = "lmtui failed inside; lmtui.log, in the state folder that `lmtui doctor` names, says where"


@dataclass(slots=True)
class TurnResult:
    """What an agent's work has come to so far."""

    reason: TurnReason = TurnReason.ERROR
    error: str = FAILED_INSIDE
    text: str = ""
    usage: Usage = field(default_factory=Usage)
    iterations: int = 0
    fault: str = ""

    def end(self, reason: TurnReason, error: str = "") -> None:
        """Say how it ends."""
        self.reason, self.error = reason, error


async def run_turn(desk: AgentContext, said: UserInput, turn_id: str) -> None:
    """Run one turn to its end.  However it ends, `TurnEnded` is the last event of it; a cancel passes on."""
    started = desk.monotonic()
    tally = TurnResult()
    desk.begin(turn_id)
    try:
        await work(desk, tally, partial(_begin, desk, said, turn_id))
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            restore_model(desk)
            write_report(desk, tally.reason)
            desk.emit(_ended(desk, turn_id, tally, desk.monotonic() - started))


async def _begin(desk: AgentContext, said: UserInput, turn_id: str) -> None:
    desk.emit(TurnStarted(agent=desk.agent, turn_id=turn_id))
    await desk.hooking.begun()
    await add_user_message(desk, said, turn_id)


async def work(desk: AgentContext, tally: TurnResult, begin: Callable[[], Awaitable[None]]) -> None:
    """Do what `begin` does, then ask the model and run what it calls; `tally` tells how that ended.  A cancel passes on."""
    try:
        await begin()
        async with asyncio.timeout(desk.limits.timeout_s or None):
            await _steps(desk, desk.turn_id, tally)
    except asyncio.CancelledError:
        tally.end(TurnReason.INTERRUPTED)
        raise
    except TimeoutError:
        tally.end(TurnReason.LIMIT, f"the time limit of {desk.limits.timeout_s:g} s was reached")
    except PromptHeld as held:
        tally.end(TurnReason.BLOCKED, held_words(held))
    except (WindowFull, ContextOverflow) as error:
        tally.end(TurnReason.LIMIT, error.full_text())
    except (ProviderError, SessionFileError) as error:
        tally.fault = str(error.fault) if isinstance(error, ProviderError) else ""
        tally.end(TurnReason.ERROR, error.full_text())


async def _steps(desk: AgentContext, turn_id: str, tally: TurnResult) -> None:
    """Ask the model and run what it calls, until it calls nothing more."""
    watch = StopPolicy(
        desk.conversation.last_task,
        most_empty=desk.limits.max_empty_iterations,
        trusts_words=not desk.model.calling.is_unsure,
    )
    plans = PlanModePolicy(desk, turn_id)
    for iteration in itertools.count(1):
        if limit := limit_reached(desk, tally.usage):
            tally.end(TurnReason.LIMIT, limit)
            return
        tell_what_is_left(desk)
        await _take_steering(desk, turn_id)
        tell_plan_mode(desk, turn_id)
        completion = await request_completion(desk, turn_id)
        _count(tally, completion, iteration)
        await run_calls(desk, completion.message.tool_calls, turn_id)
        if desk.hooking.ended_by:
            tally.end(TurnReason.BLOCKED, desk.hooking.ended_by)
            return
        if desk.report is not None and await _has_reported(desk, turn_id, tally):
            return
        has_failed, is_unsure = desk.is_weak and desk.loops.has_failed, desk.is_weak and desk.model.calling.is_unsure
        verdict = plans.judge(completion) or judge_wait(desk, completion, turn_id)
        match verdict or watch.judge(completion, _seen_loop(desk, turn_id), has_failed=has_failed, is_unsure=is_unsure):
            case Continue(reminder=reminder, needs_call=needs_call):
                if reminder:
                    desk.emit(Reminder(agent=desk.agent, text=reminder, turn_id=turn_id))
                if desk.loops.needs_answer or needs_call:
                    desk.model.calling.hold_next(ToolChoice.REQUIRED if needs_call else ToolChoice.NONE)
            case Stop(reason=reason, error=error):
                is_blocked = reason is TurnReason.LIMIT and desk.approvals.has_refused(desk.agent)
                tally.end(TurnReason.BLOCKED if is_blocked else reason, error)
                return
            case Done(note=note):
                if note:
                    desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=note))
                if not await _take_steering(desk, turn_id) and await _may_end(desk, turn_id, tally):
                    return


def _seen_loop(desk: AgentContext, turn_id: str) -> Loop | None:
    """End the step for the one that watches for loops; what it finds is told to the user too."""
    loop = desk.loops.judge()
    if loop is not None:
        event = LoopSuspected(agent=desk.agent, what=loop.what, count=loop.count, is_over=loop.is_over, turn_id=turn_id)
        desk.emit(event)
    return loop


async def _may_end(desk: AgentContext, turn_id: str, tally: TurnResult) -> bool:
    """Say how the turn ends, if it may; else the model is told what it left open."""
    nudge, error = await check_end(desk, tally.text)
    nudge = nudge or await held_up(desk, tally.text)
    if nudge:
        desk.emit(Reminder(agent=desk.agent, text=nudge, turn_id=turn_id))
        return False
    tally.text = without_token(tally.text)
    tally.end(TurnReason.LIMIT if error else _reason(desk, tally), error)
    return True


async def _has_reported(desk: AgentContext, turn_id: str, tally: TurnResult) -> bool:
    """End the work of a sub-agent that gave its report, unless a hook wants more of it."""
    assert desk.report is not None
    if words := await held_up(desk, desk.report.summary):
        desk.report = None
        desk.emit(Reminder(agent=desk.agent, text=words, turn_id=turn_id))
        return False
    tally.end(TurnReason.DONE)
    return True


async def _take_steering(desk: AgentContext, turn_id: str) -> bool:
    """Put what the user said meanwhile into the conversation; True where there was something.

    One after the other: what an interrupt finds still waiting stays in the inbox.
    """
    is_any = False
    inbox = desk.inbox  # a session that is closed meanwhile has another one, and what waits here is to wait again
    while (said := inbox.take_steering()) is not None:
        is_any = True
        try:
            take = compact_now if said.is_compaction else accept_steering
            await take(desk, said, turn_id)
        finally:
            desk.emit(inbox.as_event(desk.agent))
    return is_any


def _count(tally: TurnResult, completion: Completion, iteration: int) -> None:
    tally.iterations = iteration
    tally.text = completion.message.text
    tally.usage += completion.usage or Usage()


def _reason(desk: AgentContext, tally: TurnResult) -> TurnReason:
    return TurnReason.BLOCKED if desk.approvals.has_refused(desk.agent) else reason_of(tally.text)


def _ended(desk: AgentContext, turn_id: str, tally: TurnResult, elapsed_s: float) -> TurnEnded:
    return TurnEnded(
        agent=desk.agent,
        turn_id=turn_id,
        reason=tally.reason,
        status=str(tally.reason),
        exit_code=EXIT_CODES[tally.reason],
        text=tally.text,
        files_changed=tuple(desk.files),
        usage=tally.usage,
        iterations=tally.iterations,
        elapsed_s=round(elapsed_s, 3),
        sandbox=desk.sandbox_name,
        error=tally.error,
        fault=tally.fault,
    )
