"""Serves the application of a host with uvicorn, on sockets that are open already: quiet while idle, hard to wear out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from lmtui.core.errors import UsageError
from lmtui.core.hosts import is_loopback
from lmtui.host.feed import ABORT

HEADERS_TIMEOUT_S = 10.0
MOST_HALF_OPEN, MOST_CONNECTIONS = 384, 400
_ACCEPTED_AT_ONCE = 64  # far less than may be half open: who sends its headers at once is read before it could be dropped
_LISTEN_BACKLOG = 1024
_MOST_HEADER_BYTES, _MOST_FRAME_BYTES = 32_768, 33_554_432  # pictures that an attached app sends are in a frame
_GRACE_S = 1
_ENCRYPT = "Set host_certificate, or serve on 127.0.0.1 and connect with `ssh -L`."


def check_address(host: str, *, is_allowed: bool, way: str = _ENCRYPT) -> None:
    """Make sure that an address may be served on; the token is needed everywhere.

    Args:
        host: a name or address.
        is_allowed: other machines may reach it: it is encrypted, or the user asked for this address.
        way: the hint.

    Raises:
        UsageError: other machines can reach it, and read what is sent.
    """
    if not is_allowed and not is_loopback(host):
        raise UsageError(f"{host} can be reached from other machines, which could read what is sent", way)


def open_tcp(address: str, *, is_allowed: bool, way: str = _ENCRYPT) -> socket.socket:
    """Return a socket that listens on `HOST:PORT`; see `check_address`.  Blocks (looks up names).

    Raises:
        UsageError: it is not an address, may not be served on, or is taken.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{address[:80]!r} is not HOST:PORT", "Write it like 127.0.0.1:8765.")
    bare = host.strip("[]")
    check_address(bare, is_allowed=is_allowed, way=way)
    try:
        family, kind, protocol, _, where = socket.getaddrinfo(bare, int(port), type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(where)
            listener.listen(128)
        except OSError:
            listener.close()
            raise
    except OSError as error:
        raise UsageError(f"{address} cannot be served: {error.strerror}", "Choose another address.") from error
    return listener


class _HalfOpen:
    """Connections that have not sent their headers yet; with too many the oldest goes."""

    def __init__(self) -> None:
        self._waiting: dict[_Http, asyncio.TimerHandle] = {}

    def add(self, connection: _Http) -> None:
        """Wait for the headers of a connection."""
        if connection in self._waiting:
            return
        self._waiting[connection] = connection.loop.call_later(HEADERS_TIMEOUT_S, self._drop, connection)
        if len(self._waiting) > MOST_HALF_OPEN:
            self._drop(next(iter(self._waiting)))

    def done(self, connection: _Http) -> None:
        """Wait no longer."""
        if (timer := self._waiting.pop(connection, None)) is not None:
            timer.cancel()

    def _drop(self, connection: _Http) -> None:
        self.done(connection)
        connection.transport.abort()


class _Abortable:
    """A protocol of uvicorn, with an application that can drop its connection, whatever waits to be sent on it."""

    app: ASGIApp
    transport: Any

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        app = self.app

        async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
            scope.setdefault("extensions", {})[ABORT] = self.transport.abort
            await app(scope, receive, send)

        self.app = with_abort


class _WebSocket(_Abortable, WebSocketsSansIOProtocol):
    """The protocol of WebSockets."""


class _Http(_Abortable, H11Protocol):
    """The protocol of HTTP, with a limit for headers."""

    def __init__(self, half_open: _HalfOpen, **more: Any) -> None:
        super().__init__(**more)
        self._half_open = half_open

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._half_open.add(self)

    def data_received(self, data: bytes) -> None:
        before: Any = self.cycle
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is not before or self not in self.connections:  # a request has begun, or it is a WebSocket now
            self._half_open.done(self)
        elif cycle is None or cycle.response_complete:
            self._half_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._half_open.done(self)
        super().connection_lost(exc)


class _Server(uvicorn.Server):
    """uvicorn's server without its clock, and without signal handlers: who runs it has those."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event, end: Callable[[], object]) -> None:
        super().__init__(config)
        self._stop, self._end = stop, end

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; who begins an encrypted connection has as long to finish that as others have for their headers."""
        half_open, self.servers = _HalfOpen(), []

        def connect() -> asyncio.Protocol:
            return _Http(half_open, config=self.config, server_state=self.server_state, app_state={})

        for each in sockets or ():
            context = self.config.ssl if each.family != socket.AF_UNIX else None
            limits: dict[str, Any] = {"ssl": context, "ssl_handshake_timeout": HEADERS_TIMEOUT_S} if context else {}
            listening = asyncio.get_running_loop().create_server(connect, sock=each, backlog=_ACCEPTED_AT_ONCE, **limits)
            self.servers.append(await listening)
            each.listen(_LISTEN_BACKLOG)
        self.started = True

    async def main_loop(self) -> None:
        """Wait for the end, and end the streams, so that their connections do not hold it up; nothing wakes up in between."""
        _ = await self._stop.wait()
        _ = self._end()


async def serve(
    app: Starlette, sockets: Sequence[socket.socket], *, stop: asyncio.Event, certificate: Path | None = None
) -> None:
    """Serve until `stop` is set, then end streams and close within two seconds.

    Args:
        app: an application; `app.state.end` ends its streams.
        sockets: they listen already and are closed at the end; a certificate is used on those of TCP.
        stop: ends it.
        certificate: a PEM file with the certificate and its key.
    """
    config = uvicorn.Config(
        app,
        http=_Http,
        ws=_WebSocket,
        loop="none",
        interface="asgi3",
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        limit_concurrency=MOST_HALF_OPEN + MOST_CONNECTIONS,
        timeout_keep_alive=15,
        timeout_graceful_shutdown=_GRACE_S,
        h11_max_incomplete_event_size=_MOST_HEADER_BYTES,
        ws_max_size=_MOST_FRAME_BYTES,
        ws_ping_interval=20.0,
        ws_ping_timeout=20.0,
        ws_per_message_deflate=False,
        ssl_certfile=certificate,
    )
    await _Server(config, stop, app.state.end).serve(list(sockets))
