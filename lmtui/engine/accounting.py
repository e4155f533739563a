"""What a request costs: told as an estimate when it is sent, and as it was once its answer is there."""

from __future__ import annotations

import contextlib

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.events import Level, PrefillProgress, UsageUpdated
from lmtui.core.messages import Completion, ModelRequest, Usage
from lmtui.core.ports import Provider
from lmtui.core.servers import window_fix
from lmtui.core.window import bytes_by_four
from lmtui.engine.agent import Agent
from lmtui.engine.context_budget import Comparison, PromptCacheUsage

_CUT_SHARE, _FIRST_CUT_SHARE = 0.7, 0.5
_LEAST_COUNT = 128  # a count below is none: system prompt and tools alone are more
_SLOW_BY, _SLOW_S = 2.0, 1.0
_NEWS_SHARE = 0.05


def announce(agent: Agent, request: ModelRequest) -> None:
    """Tell that the model reads a request that is about to be sent: how much of it again, and about how long that takes."""
    book = agent.model.window
    anew = _anew(agent, book.ledger.begin(request, agent.conversation.change))
    seconds = round(book.budget.read_s(anew), 1)
    agent.emit(PrefillProgress(agent=agent.id, tokens=anew, estimate_s=seconds))


def _anew(agent: Agent, now: Comparison) -> int:
    """Return how many tokens the server is expected to read again."""
    budget = agent.model.window.budget
    return max(0, budget.estimate(now.total) - (budget.estimate(now.common) if now.common else 0))


def show_usage(agent: Agent, completion: Completion) -> None:
    """Tell what the request that brought this answer cost, and learn from it."""
    book = agent.model.window
    now = book.ledger.now
    guess = book.budget.estimate(now.total)
    counted = completion.usage.prompt_tokens if completion.usage else 0
    usage = completion.usage
    if usage is None or counted == 0:
        usage = Usage(guess, book.budget.scaled(book.budget.size(completion.message)))
    reading = _reading(agent, completion, usage)
    book.budget.learn_speed(completion, reading.anew)
    if counted and not _is_cut(agent, now, guess, counted):
        book.budget.learn_size(now.total, counted)
    book.steps += 1
    _keep(agent)
    has_rate = completion.decode_s > 0 and usage.completion_tokens > 1
    timings = completion.timings
    agent.emit(
        UsageUpdated(
            agent=agent.id,
            usage=usage,
            window_tokens=agent.state.model.window_tokens,
            tokens_per_s=round((usage.completion_tokens - 1) / completion.decode_s, 1) if has_rate else 0.0,
            first_token_s=round(completion.first_token_s, 3),
            is_estimate=counted == 0,
            reused_tokens=reading.reused,
            reread_tokens=reading.reread,
            is_cache_told=reading.is_told,
            miss=reading.miss,
            read_s=round(timings.read_s if timings and timings.read_s else completion.first_token_s, 3),
            turn_id=agent.turn.id,
            model=agent.state.model.settings.model,
            elapsed_s=_elapsed_s(completion),
        )
    )


def usage_beside(agent: str, request: ModelRequest, answer: Completion) -> UsageUpdated:
    """Return what a request next to the conversation cost: as the server counted it, else by size.  Nothing is learned."""
    return UsageUpdated(
        agent=agent,
        usage=answer.usage
        or Usage(sum(bytes_by_four(message.text) for message in request.messages), bytes_by_four(answer.message.text)),
        is_estimate=answer.usage is None,
        model=request.model,
        elapsed_s=_elapsed_s(answer),
    )


def _elapsed_s(completion: Completion) -> float:
    return round(completion.first_token_s + completion.decode_s, 3)


async def completed(provider: Provider, request: ModelRequest) -> Completion:
    """Return the whole answer to a request.

    Raises:
        ProviderError: there is none.
    """
    async with contextlib.aclosing(provider.stream(request)) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                return piece
    raise ProviderError(Fault.CUT, "the answer has no end")


async def answer_outside(agent: Agent, work: str, request: ModelRequest) -> str | None:
    """Return the answer to a request outside the conversation, its cost told as that of `work`; None if it fails."""
    with contextlib.suppress(ProviderError):
        answer = await completed(agent.services.provider, request)
        agent.emit(usage_beside(work, request, answer))
        return answer.message.text
    return None


def _reading(agent: Agent, completion: Completion, usage: Usage) -> PromptCacheUsage:
    budget, timings = agent.model.window.budget, completion.timings
    told = usage.cached_tokens if completion.usage else None
    if timings is not None and timings.read_s:
        told = timings.cached_tokens

    def is_slow(tokens: int) -> bool:
        expected_s = budget.read_s(tokens)
        whole_s = budget.read_s(usage.prompt_tokens)
        return expected_s > 0 and max(expected_s * _SLOW_BY, whole_s / 2) + _SLOW_S < completion.first_token_s

    return agent.model.window.ledger.settle(usage.prompt_tokens, told, is_slow)


def _is_cut(agent: Agent, now: Comparison, guess: int, counted: int) -> bool:
    """Tell whether the server dropped a part of the prompt without a word, or counted only what it read again.

    Said once it is sure: at the second request that is far too short, or the first where that is shorter still.
    """
    book = agent.model.window
    least, is_sure = book.budget.least(now.total - now.pictures * book.budget.image_tokens)
    share = counted / max(1, least)
    if counted < _LEAST_COUNT:
        return True
    if share >= (_CUT_SHARE if is_sure else _FIRST_CUT_SHARE):
        book.short_counts = 0
        return False
    anew = max(1, _anew(agent, now))
    if now.common and _CUT_SHARE < counted / anew < 1 / _CUT_SHARE:
        return True
    book.short_counts += 1
    if book.short_counts == (2 if is_sure else 1):
        fix = window_fix(agent.model.known.served.server if agent.model.known.served else "")
        text = f"The server reads only a part of what it is sent: it counted {counted:,} of about {guess:,} tokens"
        agent.notify(f"{text}, so the model does not see the beginning. {fix}", Level.ERROR)
    return is_sure


def _keep(agent: Agent) -> None:
    """Keep what was learned of the model for the next time, where it is news."""
    budget, known = agent.model.window.budget, agent.model.known.profile
    learned = {
        "token_ratio": budget.kept_ratio,
        "read_tokens_per_s": round(budget.read_tokens_per_s, 1),
        "write_tokens_per_s": round(budget.write_tokens_per_s, 1),
    }
    news = {
        name: value
        for name, value in learned.items()
        if value and abs(value - float(getattr(known, name))) > _NEWS_SHARE * value
    }
    if news:
        agent.model.known.keep(**news)
