"""A turn: from the user's words to the model's last answer.  The loop at the heart of lmtui, meant to be read aloud."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from lmtui.core.errors import ContextOverflow, ProviderError, SessionFileError, WindowFull
from lmtui.core.events import TurnReason, TurnStarted
from lmtui.core.messages import Completion, ToolChoice, Usage
from lmtui.engine.agent import Agent, PromptHeld
from lmtui.engine.completion import request_completion
from lmtui.engine.inbox import UserInput
from lmtui.engine.planning import PlanModePolicy, tell_plan_mode
from lmtui.engine.stop_policy import (
    Continue,
    Done,
    Stop,
    StopPolicy,
    close_turn,
    detect_loop,
    judge_wait,
    limit_reached,
    may_end,
    may_report,
    tell_what_is_left,
)
from lmtui.engine.tool_runner import run_calls
from lmtui.engine.turn_outcome import reason_of, without_token
from lmtui.engine.user_input import add_user_message, held_words, take_steering

FAILED_INSIDE = "Internal error. Details are in lmtui.log (`lmtui doctor` shows the path)."


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


async def run_turn(agent: Agent, user_input: UserInput, turn_id: str) -> None:
    """Run one turn to its end.  However it ends, `TurnEnded` is the last event of it; a cancel passes on."""
    started = agent.services.monotonic()
    result = TurnResult()
    agent.begin(turn_id)
    try:
        await work(agent, result, partial(_begin, agent, user_input, turn_id))
    finally:
        with contextlib.suppress(SessionFileError):  # it was shown; the log's failure was told with what went before
            close_turn(agent, result.reason)
            for each in agent.services.points.after_turn:
                each(agent, result.reason)
            agent.end_turn(
                result.reason,
                started,
                text=result.text,
                usage=result.usage,
                iterations=result.iterations,
                error=result.error,
                fault=result.fault,
                verified=str(agent.state.verification.verified),
                checks=agent.state.verification.summaries(),
            )


async def _begin(agent: Agent, user_input: UserInput, turn_id: str) -> str:
    agent.emit(TurnStarted(agent=agent.id, turn_id=turn_id))
    for each in agent.services.points.before_turn:
        await each()
    await add_user_message(agent, user_input)
    return next(filter(None, [await each(agent) for each in agent.services.points.before_work]), "")


async def work(agent: Agent, result: TurnResult, begin: Callable[[], Awaitable[str | None]]) -> None:
    """Do what `begin` does, then ask the model and run what it calls; `result` tells how that ended.  A cancel passes on.

    What `begin` returns is why the model is not asked at all.
    """
    try:
        if lacks := await begin():
            result.end(TurnReason.UNFINISHED, lacks)
            return
        async with asyncio.timeout(agent.services.limits.timeout_s or None):
            await _steps(agent, result)
    except asyncio.CancelledError:
        result.end(TurnReason.INTERRUPTED)
        raise
    except TimeoutError:
        result.end(TurnReason.LIMIT, f"the time limit of {agent.services.limits.timeout_s:g} s was reached")
    except PromptHeld as held:
        result.end(TurnReason.BLOCKED, held_words(held))
    except (WindowFull, ContextOverflow) as error:
        result.end(TurnReason.LIMIT, error.full_text())
    except (ProviderError, SessionFileError) as error:
        result.fault = str(error.fault) if isinstance(error, ProviderError) else ""
        result.end(TurnReason.ERROR, error.full_text())


async def _steps(agent: Agent, result: TurnResult) -> None:
    """Ask the model and run what it calls, until it calls nothing more."""
    policy = StopPolicy(agent.conversation.last_task, has_files=agent.conversation.has_files)
    plans = PlanModePolicy(agent)
    for iteration in itertools.count(1):
        if limit := limit_reached(agent):
            result.end(TurnReason.LIMIT, limit)
            return
        tell_what_is_left(agent)
        await take_steering(agent)
        tell_plan_mode(agent)
        completion = await request_completion(agent)
        result.iterations, result.text = iteration, completion.message.text
        result.usage += completion.usage or Usage()
        await _run_step(agent, completion)
        if agent.turn.ended_by:
            result.end(TurnReason.BLOCKED, agent.turn.ended_by)
            return
        if agent.turn.report is not None and await may_report(agent, agent.turn.report.summary):
            result.end(TurnReason.DONE)
            return
        has_failed = agent.is_weak and agent.loops.has_failed
        is_unsure = agent.is_weak and agent.model.known.calling.is_unsure
        verdict = plans.judge(completion) or judge_wait(agent, completion)
        match verdict or policy.judge(completion, detect_loop(agent), has_failed=has_failed, is_unsure=is_unsure):
            case Continue(reminder=reminder, needs_call=needs_call):
                if reminder:
                    agent.remind(reminder)
                if agent.loops.needs_answer or needs_call:
                    agent.model.known.calling.hold_next(ToolChoice.LOOK if needs_call else ToolChoice.NONE)
            case Stop(reason=reason, error=error):
                is_blocked = reason is TurnReason.LIMIT and agent.services.approvals.has_refused(agent.id)
                result.end(TurnReason.BLOCKED if is_blocked else reason, error)
                return
            case Done(note=note):
                if note:
                    agent.notify(note)
                if not await take_steering(agent) and await _has_ended(agent, result):
                    return


async def _run_step(agent: Agent, completion: Completion) -> None:
    if calls := completion.message.tool_calls:
        await run_calls(agent, calls)
    for each in agent.services.points.after_step:
        await each(agent)


async def _has_ended(agent: Agent, result: TurnResult) -> bool:
    """Say how the turn ends, if it may; else the model is reminded of what it left open."""
    is_over, error = await may_end(agent, result.text)
    if is_over:
        result.text = without_token(result.text)
        reason = TurnReason.BLOCKED if agent.services.approvals.has_refused(agent.id) else reason_of(result.text)
        result.end(TurnReason.UNFINISHED if error else reason, error)
    return is_over
