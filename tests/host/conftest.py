"""A host on loopback with the real engine and a scripted model server, and clients of it."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import httpx2
import pytest
from starlette.applications import Starlette
from starlette.routing import WebSocketRoute

from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.host.access import ApiAccess, Failures
from lmtui.host.attach import AttachEndpoint
from lmtui.host.connect import ATTACH
from lmtui.host.endpoints import ApiContext
from lmtui.host.host_process import build_app
from lmtui.host.http_server import serve
from lmtui.host.hub import GivenSettings, SessionHub
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.waiting import PATIENCE_S

TOKEN = "test-token-of-32-characters-or-more"
WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")


@dataclasses.dataclass
class Host:
    """A host that runs; `url` is where it serves."""

    hub: SessionHub
    app: Starlette
    api: ApiContext
    folder: Path
    url: str
    port: int
    stop: asyncio.Event
    serving: asyncio.Task[None]
    model: ScriptedServer
    client: httpx2.AsyncClient

    async def call(self, method: str, path: str, **more: Any) -> Any:
        """Call a route and return its JSON; anything but 2xx fails."""
        answer = await self.client.request(method, path, **more)
        assert answer.status_code < 300, answer.text
        return answer.json() if answer.content else None

    async def new_session(self, **body: Any) -> str:
        """Open a session and return its id."""
        return str((await self.call("POST", "/v1/sessions", json=body))["id"])

    async def idle(self, session_id: str) -> None:
        """Wait until a session has nothing to do."""
        async with asyncio.timeout(PATIENCE_S):
            await (await self.hub.session(session_id)).wait_idle()

    async def approval(self, session_id: str) -> dict[str, Any]:
        """Wait for a question."""
        async with asyncio.timeout(PATIENCE_S):
            while not (found := (await self.call("GET", f"/v1/sessions/{session_id}/approvals"))["approvals"]):
                await asyncio.sleep(0.01)
        return dict(found[0])


Start = Callable[..., Awaitable[Host]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """Return a function that starts a host whose model plays these turns."""
    async with contextlib.AsyncExitStack() as stack:

        async def run(
            *turns: ScriptedTurn,
            options: dict[str, float] | None = None,
            access: ApiAccess | None = None,
            failures: Failures | None = None,
            scenario: dict[str, Any] | None = None,
            **settings: Any,
        ) -> Host:
            folder = tmp_path / "work"
            folder.mkdir(exist_ok=True)
            model = await stack.enter_async_context(ScriptedServer(Scenario(turns, **(scenario or {}))))
            config = dataclasses.replace(Config(sandbox="process", max_retries=0), **{"url": model.url, **settings})

            def open_one(at: Path, given: GivenSettings) -> Runtime:
                del given
                return Runtime(at, config, is_attended=True)

            hub = SessionHub([folder], open_one)
            attach = WebSocketRoute(ATTACH, AttachEndpoint(hub))
            app = build_app(hub, access or ApiAccess(TOKEN, failures=failures), [attach], **(options or {}))
            listener = socket.create_server(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            stop = asyncio.Event()
            serving = asyncio.ensure_future(serve(app, [listener], stop=stop))
            url = f"http://127.0.0.1:{port}"
            client = httpx2.AsyncClient(base_url=url, headers={"Authorization": f"Bearer {TOKEN}"}, timeout=30)
            host = Host(hub, app, app.state.api, folder, url, port, stop, serving, model, client)
            stack.push_async_callback(_end, host)
            return host

        yield run


async def _end(host: Host) -> None:
    await host.client.aclose()
    host.stop.set()
    async with asyncio.timeout(PATIENCE_S):
        await host.serving
    await host.hub.close()


async def read_blocks(
    host: Host, path: str, *, last: str = "", until: Callable[[dict[str, Any]], bool], timeout_s: float = PATIENCE_S
) -> list[bytes]:
    """Read a stream to the first event for which `until` holds; return its whole blocks, comments included."""
    headers = {"Last-Event-ID": last} if last else {}
    blocks: list[bytes] = []
    async with asyncio.timeout(timeout_s), host.client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200
        rest = b""
        async for data in answer.aiter_raw():
            *whole, rest = (rest + data).split(b"\n\n")
            for block in whole:
                blocks.append(block + b"\n\n")
                if (event := event_of(block)) is not None and until(event):
                    return blocks
    return blocks


def event_of(block: bytes) -> dict[str, Any] | None:
    """Return the event of a block, None for a comment."""
    lines = [line.removeprefix(b"data: ") for line in block.splitlines() if line.startswith(b"data: ")]
    return dict(json.loads(lines[0])) if lines else None


def is_end(event: dict[str, Any]) -> bool:
    """Tell whether a turn of the root agent ended."""
    return bool(event["kind"] == "turn_ended" and event["agent"] == "root")
