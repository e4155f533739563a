"""Sending a request again after a fault that passes: visible, bounded, and cancelled like any other wait."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import ModelPiece, RetryPiece
from lmtui.providers.faults import PASSING

_GONE_DELAY_S = 3.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How faults that pass are waited for.

    `retries` counts attempts after the first; the wait doubles from `first_delay_s` to `max_delay_s`, or is what the server
    asks for.  A server that loads a model is asked every `loading_delay_s` up to `loading_limit_s`, whatever `retries` says;
    one that has answered before and is gone (it is being restarted) up to `gone_limit_s`.
    """

    retries: int = 3
    first_delay_s: float = 0.5
    max_delay_s: float = 20.0
    loading_delay_s: float = 1.0
    loading_limit_s: float = 900.0
    gone_limit_s: float = 0.0

    def for_known_server(self) -> RetryPolicy:
        """Return how long a server is waited for that has answered before; without retries at all it is not."""
        return replace(self, gone_limit_s=self.loading_limit_s) if self.retries else self


async def with_retries(
    attempt: Callable[[], AsyncGenerator[ModelPiece, None]], policy: RetryPolicy
) -> AsyncGenerator[ModelPiece, None]:
    """Yield the pieces of the first attempt that succeeds, and a `RetryPiece` before each further one.

    Raises:
        ProviderError: the last attempt's, or the first that no waiting mends.
    """
    failures = 0
    loading_s = gone_s = 0.0
    while True:
        pieces = attempt()
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
            return
        except ProviderError as error:
            if error.fault not in PASSING:
                raise
            if error.fault is Fault.LOADING and loading_s < policy.loading_limit_s:
                wait_s = error.retry_after_s or policy.loading_delay_s
                loading_s += wait_s
                retry = RetryPiece(failures, policy.retries, wait_s, str(error))
            elif error.fault is Fault.UNREACHABLE and gone_s < policy.gone_limit_s:
                wait_s = min(policy.first_delay_s + gone_s / 2, _GONE_DELAY_S)
                gone_s += wait_s
                retry = RetryPiece(0, 0, wait_s, f"the server is waited for: {error}")
            elif failures < policy.retries:
                wait_s = error.retry_after_s or min(policy.first_delay_s * 2**failures, policy.max_delay_s)
                failures += 1
                retry = RetryPiece(failures, policy.retries, wait_s, str(error))
            else:
                raise
        yield retry
        await asyncio.sleep(retry.wait_s)
