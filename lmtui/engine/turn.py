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
from lmtui.core.messages import Completion, Hold, Usage
from lmtui.core.model_events import LoopSuspected, Reminder
from lmtui.engine.call_batches import run_calls
from lmtui.engine.completion import ask_model
from lmtui.engine.context_fit import make_room_now
from lmtui.engine.desk import Desk
from lmtui.engine.hook_calls import held_up
from lmtui.engine.inbox import Said
from lmtui.engine.loop_detection import Loop
from lmtui.engine.planning import PlanWatch, tell_plan_mode
from lmtui.engine.roles import give_back
from lmtui.engine.stop_policy import (
    AnswerWatch,
    Finished,
    GoOn,
    Stopped,
    check_end,
    judge_wait,
    limit_reached,
    tell_what_is_left,
    write_report,
)
from lmtui.engine.turn_outcome import EXIT_CODES, reason_of, without_token
from lmtui.engine.user_input import PromptHeld, accept, accept_steering, held_words

FAILED_INSIDE = "lmtui failed inside; lmtui.log, in the state folder that `lmtui doctor` names, says where"


@dataclass(slots=True)
class Tally:
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


async def run_turn(desk: Desk, said: Said, turn_id: str) -> None:
    """Run one turn to its end.  However it ends, `TurnEnded` is the last event of it; a cancel passes on."""
    started = desk.monotonic()
    tally = Tally()
    desk.begin(turn_id)
    try:
        await work(desk, tally, partial(_begin, desk, said, turn_id))
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            give_back(desk)
            write_report(desk, tally.reason)
            desk.emit(_ended(desk, turn_id, tally, desk.monotonic() - started))


async def _begin(desk: Desk, said: Said, turn_id: str) -> None:
    desk.emit(TurnStarted(agent=desk.agent, turn_id=turn_id))
    await desk.hooking.begun()
    await accept(desk, said, turn_id)


async def work(desk: Desk, tally: Tally, begin: Callable[[], Awaitable[None]]) -> None:
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


async def _steps(desk: Desk, turn_id: str, tally: Tally) -> None:
    """Ask the model and run what it calls, until it calls nothing more."""
    watch = AnswerWatch(
        desk.conversation.last_task,
        most_empty=desk.limits.max_empty_iterations,
        trusts_words=not desk.model.calling.is_unsure,
    )
    plans = PlanWatch(desk, turn_id)
    for iteration in itertools.count(1):
        if limit := limit_reached(desk, tally.usage):
            tally.end(TurnReason.LIMIT, limit)
            return
        tell_what_is_left(desk)
        await _take_steering(desk, turn_id)
        tell_plan_mode(desk, turn_id)
        completion = await ask_model(desk, turn_id)
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
            case GoOn(reminder=reminder, needs_call=needs_call):
                if reminder:
                    desk.emit(Reminder(agent=desk.agent, text=reminder, turn_id=turn_id))
                if desk.loops.needs_answer or needs_call:
                    desk.model.calling.hold_next(Hold.CALL if needs_call else Hold.ANSWER)
            case Stopped(reason=reason, error=error):
                is_blocked = reason is TurnReason.LIMIT and desk.approvals.has_refused(desk.agent)
                tally.end(TurnReason.BLOCKED if is_blocked else reason, error)
                return
            case Finished(note=note):
                if note:
                    desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=note))
                if not await _take_steering(desk, turn_id) and await _may_end(desk, turn_id, tally):
                    return


def _seen_loop(desk: Desk, turn_id: str) -> Loop | None:
    """End the step for the one that watches for loops; what it finds is told to the user too."""
    loop = desk.loops.judge()
    if loop is not None:
        event = LoopSuspected(agent=desk.agent, what=loop.what, count=loop.count, is_over=loop.is_over, turn_id=turn_id)
        desk.emit(event)
    return loop


async def _may_end(desk: Desk, turn_id: str, tally: Tally) -> bool:
    """Say how the turn ends, if it may; else the model is told what it left open."""
    nudge, error = await check_end(desk, tally.text)
    nudge = nudge or await held_up(desk, tally.text)
    if nudge:
        desk.emit(Reminder(agent=desk.agent, text=nudge, turn_id=turn_id))
        return False
    tally.text = without_token(tally.text)
    tally.end(TurnReason.LIMIT if error else _reason(desk, tally), error)
    return True


async def _has_reported(desk: Desk, turn_id: str, tally: Tally) -> bool:
    """End the work of a sub-agent that gave its report, unless a hook wants more of it."""
    assert desk.report is not None
    if words := await held_up(desk, desk.report.summary):
        desk.report = None
        desk.emit(Reminder(agent=desk.agent, text=words, turn_id=turn_id))
        return False
    tally.end(TurnReason.DONE)
    return True


async def _take_steering(desk: Desk, turn_id: str) -> bool:
    """Put what the user said meanwhile into the conversation; True where there was something.

    One after the other: what an interrupt finds still waiting stays in the inbox.
    """
    is_any = False
    inbox = desk.inbox  # a session that is closed meanwhile has another one, and what waits here is to wait again
    while (said := inbox.take_steering()) is not None:
        is_any = True
        try:
            take = make_room_now if said.is_compaction else accept_steering
            await take(desk, said, turn_id)
        finally:
            desk.emit(inbox.as_event(desk.agent))
    return is_any


def _count(tally: Tally, completion: Completion, iteration: int) -> None:
    tally.iterations = iteration
    tally.text = completion.message.text
    tally.usage += completion.usage or Usage()


def _reason(desk: Desk, tally: Tally) -> TurnReason:
    return TurnReason.BLOCKED if desk.approvals.has_refused(desk.agent) else reason_of(tally.text)


def _ended(desk: Desk, turn_id: str, tally: Tally, elapsed_s: float) -> TurnEnded:
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
