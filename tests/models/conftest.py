"""Fake model servers on loopback ports of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from tests.models.fake_server import NO_ROUTE, Answer, FakeServer, Serve, listening, ok


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    async with AsyncExitStack() as stack:

        async def start(answers: dict[str, Any] | None = None, otherwise: Answer = NO_ROUTE, **options: Any) -> FakeServer:
            made: dict[str, Answer] = {
                path: answer if answer is None or callable(answer) or isinstance(answer, tuple) else ok(answer)
                for path, answer in (answers or {}).items()
            }
            return await stack.enter_async_context(listening(FakeServer(made, otherwise, **options)))

        yield start
