"""How long a server may be silent before its first token: attended sessions warn, unattended ones end the request."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator
from typing import Any

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import SilencePiece


class Patience:
    """Measures the silence of one request; keep-alive lines do not end it.

    Args:
        url: the server's address, for the error.
        limit_s: the longest silence in seconds; 0: no limit.
        is_attended: a user is present who can stop the wait.
    """

    def __init__(self, url: str, limit_s: float, *, is_attended: bool) -> None:
        self._url, self._limit_s, self._is_attended = url, limit_s, is_attended
        self._silent_since = self._told_at = time.monotonic()

    def heard(self) -> None:
        """Restart the count after the server sent something."""
        self._silent_since = self._told_at = time.monotonic()

    async def until(self, task: asyncio.Future[Any]) -> AsyncGenerator[SilencePiece, None]:
        """Wait for a task and cancel it at the end; yield a piece each time the silence reaches the limit.

        Raises:
            ProviderError: the silence is too long and the session is unattended.
        """
        try:
            while not task.done():
                left_s = max(0.0, self._told_at + self._limit_s - time.monotonic()) if self._limit_s > 0 else None
                if (await asyncio.wait({task}, timeout=left_s))[0]:
                    break
                self._told_at = time.monotonic()
                if not self._is_attended:
                    raise ProviderError(
                        Fault.TIMEOUT,
                        f"{self._url} has not answered for {self._limit_s:g} s",
                        "Check the server. If the model needs longer to read the prompt, raise LLM_TIMEOUT (0: no limit).",
                    )
                yield SilencePiece(self._told_at - self._silent_since)
        finally:
            if not task.done():
                task.cancel()
                await asyncio.wait({task})
