"""Fake model servers on loopback ports of their own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.models.fake_server import NO_ROUTE, Answer, FakeServer, Serve, ok


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    running: list[asyncio.Server] = []
    tasks: set[asyncio.Task[None]] = set()

    async def start(answers: dict[str, Any] | None = None, otherwise: Answer = NO_ROUTE, **options: Any) -> FakeServer:
        made: dict[str, Answer] = {
            path: answer if answer is None or callable(answer) or isinstance(answer, tuple) else ok(answer)
            for path, answer in (answers or {}).items()
        }
        fake = FakeServer(made, otherwise, **options)

        def accept(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            task = asyncio.get_running_loop().create_task(fake.serve(reader, writer))
            tasks.add(task)

        server = await asyncio.start_server(accept, "127.0.0.1", 0)
        running.append(server)
        fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return fake

    yield start
    for server in running:
        server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
