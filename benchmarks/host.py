"""What clients of a host cost it: CPU of the host's own thread by step, alone and with sessions and clients; the idle host.

The scripted model server and the clients run in threads of their own, whose CPU does not count.  Ratios are taken within one
run.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import os
import socket
import statistics
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from benchmarks.report import Figure
from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.sessions import Session
from lmtui.host.access import ApiAccess
from lmtui.host.host_process import build_app
from lmtui.host.http_server import serve
from lmtui.host.hub import GivenSettings, SessionHub
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

_TOKEN = "benchmark-token-of-32-characters-or-more"
_STEPS = 12
_STEP = ScriptedTurn(
    "A few words before each call, as models have them. " * 2, calls=(ScriptedCall("read", {"path": "a.txt"}),)
)


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home, _home(home), _model_server() as url:
        return asyncio.run(_measure(url))


@contextmanager
def _home(home: str) -> Iterator[None]:
    before = os.environ.get("LMTUI_HOME")
    os.environ["LMTUI_HOME"] = home
    try:
        yield
    finally:
        _ = os.environ.pop("LMTUI_HOME", None) if before is None else os.environ.update(LMTUI_HOME=before)


@contextmanager
def _model_server() -> Iterator[str]:
    """Run a scripted server in a thread; yield its address."""
    scenario = Scenario((*[_STEP] * _STEPS, ScriptedTurn("Done.")))
    ready, found = threading.Event(), list[str]()
    stop: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    async def run() -> None:
        over = asyncio.Event()
        async with ScriptedServer(scenario) as server:
            found.append(server.url)
            stop.append((asyncio.get_running_loop(), over))
            ready.set()
            _ = await over.wait()

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    _ = ready.wait(30)
    try:
        yield found[0]
    finally:
        loop, over = stop[0]
        _ = loop.call_soon_threadsafe(over.set)
        thread.join(10)


@contextmanager
def _clients(port: int, paths: Sequence[str]) -> Iterator[None]:
    """Read streams, one connection each, in threads that throw away what comes."""
    sockets = [socket.create_connection(("127.0.0.1", port)) for _ in paths]
    for one, path in zip(sockets, paths, strict=True):
        head = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {_TOKEN}\r\n\r\n"
        one.sendall(head.encode())

    def read(one: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while one.recv(262_144):
                pass

    threads = [threading.Thread(target=read, args=(one,), daemon=True) for one in sockets]
    for thread in threads:
        thread.start()
    try:
        yield
    finally:
        for one in sockets:
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()


@dataclasses.dataclass
class _Host:
    hub: SessionHub
    folder: Path
    port: int

    async def step_ms(self, sessions: int, clients: int) -> float:
        """Return the CPU of the host by step: `sessions` run at once, and `clients` follow each of them."""
        runtime = await self.hub.runtime(self.folder)
        opened: list[Session] = [await runtime.new_session() for _ in range(sessions)]
        await asyncio.sleep(0.3)
        with _clients(self.port, [f"/v1/sessions/{each.id}/events" for each in opened for _ in range(clients)]):
            await asyncio.sleep(0.3)
            before = time.thread_time()
            for each in opened:
                each.submit("read it again and again")
            for each in opened:
                await each.wait_idle()
            spent = time.thread_time() - before
            await asyncio.sleep(0.1)
        for each in opened:
            await each.close()
        return 1000 * spent / (_STEPS * sessions)

    async def idle_percent(self, clients: int, seconds: float = 20.0) -> float:
        """Return the CPU of a host that nobody has opened a folder in, with clients that follow all sessions."""
        with _clients(self.port, ["/v1/activity"] * clients):
            await asyncio.sleep(1)
            before = time.thread_time()
            await asyncio.sleep(seconds)
            return 100 * (time.thread_time() - before) / seconds


def _filled(name: str) -> Path:
    folder = Path(name).resolve()
    (folder / "a.txt").write_text("one\n" * 20)
    return folder


@asynccontextmanager
async def _host(url: str) -> AsyncIterator[_Host]:
    with tempfile.TemporaryDirectory() as name:
        folder = _filled(name)
        config = dataclasses.replace(Config(sandbox="process", mode="auto"), url=url)

        def open_one(at: Path, given: GivenSettings) -> Runtime:
            del given
            return Runtime(at, config)

        hub = SessionHub([folder], open_one)
        listener = socket.create_server(("127.0.0.1", 0))
        stop = asyncio.Event()
        port = int(listener.getsockname()[1])
        serving = asyncio.ensure_future(serve(build_app(hub, ApiAccess(_TOKEN)), [listener], stop=stop))
        try:
            yield _Host(hub, folder, port)
        finally:
            stop.set()
            await serving
            await hub.close()


async def _measure(url: str, rounds: int = 3) -> list[Figure]:
    async with _host(url) as host:
        idle = await host.idle_percent(10)
        _ = await host.step_ms(2, 1)
        alone: list[float] = []
        ten: list[float] = []
        watched: list[float] = []
        for _ in range(rounds):
            alone.append(await host.step_ms(1, 0))
            ten.append(await host.step_ms(10, 1))
            watched.append(await host.step_ms(1, 10))
    base = statistics.median(alone)
    return [
        Figure("step of a session alone: CPU", base, "ms"),
        Figure("step with 10 sessions and 10 clients ÷ alone", statistics.median(ten) / base, "×", 1.5),
        Figure("step of a session with 10 clients ÷ alone", statistics.median(watched) / base, "×", 1.5),
        Figure("idle host with 10 clients: CPU", idle, "%", 0.05),
    ]
