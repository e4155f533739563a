"""A server that answers each path as the test says: with JSON, with a fault, slowly, or never."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

Reply = tuple[int, bytes]
Answer = Reply | None | Callable[[dict[str, Any]], Reply | None]
Serve = Callable[..., Awaitable["FakeServer"]]
Started = TypeVar("Started", bound="FakeServer")
NO_ROUTE: Reply = (404, b'{"error": "no such route"}')


def ok(value: object) -> Reply:
    """Return a good answer."""
    return 200, json.dumps(value).encode()


def failed(status: int, message: str) -> Reply:
    """Return an error as OpenAI's API gives it."""
    return status, json.dumps({"error": {"message": message, "code": status}}).encode()


def listing(*items: dict[str, Any]) -> dict[str, Any]:
    """Return a list of models in OpenAI's form."""
    return {"object": "list", "data": list(items)}


@dataclass
class FakeServer:
    """Answers each path with its reply (or what a function of the request's body gives), everything else with `otherwise`.

    None hangs.  With `drip_s` the body comes one byte at a time.
    """

    answers: dict[str, Answer] = field(default_factory=dict)
    otherwise: Answer = NO_ROUTE
    url: str = ""
    location: str = "/"
    content_type: str = "application/json"
    drip_s: float = 0.0
    asked: list[str] = field(default_factory=list)
    posted: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    keys: set[str] = field(default_factory=set)
    sent_bytes: int = 0
    ends: int = 0

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the requests of one connection."""
        try:
            while head := (await reader.readuntil(b"\r\n\r\n")).decode("latin-1"):
                lines = head.split("\r\n")
                fields = {line.partition(": ")[0].lower(): line.partition(": ")[2] for line in lines[1:]}
                path = lines[0].split(" ", 2)[1]
                body = json.loads(await reader.readexactly(int(fields.get("content-length", "0"))) or b"{}")
                self.asked.append(path)
                if lines[0].startswith("POST"):
                    self.posted.append((path, body))
                self.keys.add(fields.get("authorization", ""))
                answer = self.answers.get(path, self.answers.get(path.partition("?")[0], self.otherwise))
                reply = answer(body) if callable(answer) else answer
                if reply is None:
                    await reader.read()  # until the other side hangs up
                    return
                await self._send(writer, *reply)
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.ends += 1
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, status: int, body: bytes) -> None:
        extra = f"Location: {self.location}\r\n" if status == 302 else ""
        head = f"HTTP/1.1 {status} X\r\n{extra}Content-Type: {self.content_type}\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode())
        step = 1 if self.drip_s else 1 << 18
        for start in range(0, len(body), step):
            writer.write(body[start : start + step])
            await writer.drain()
            self.sent_bytes += step
            if self.drip_s:
                await asyncio.sleep(self.drip_s)


@asynccontextmanager
async def listening(fake: Started) -> AsyncIterator[Started]:
    """Let a server listen on a loopback port of its own."""
    tasks: set[asyncio.Task[None]] = set()
    server = await asyncio.start_server(lambda *ends: tasks.add(asyncio.ensure_future(fake.serve(*ends))), "127.0.0.1", 0)
    fake.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    yield fake
    server.close()
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
