"""Serves the application of a host with uvicorn, on sockets that are open already: quiet while idle, hard to wear out."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from lmtui.core.errors import UsageError
from lmtui.core.hosts import is_loopback
from lmtui.host.streams import ABORT

HEADERS_TIMEOUT_S = 10.0
MOST_HALF_OPEN, MOST_CONNECTIONS = 384, 400
_ACCEPTED_AT_ONCE = 64  # far less than may be half open: who sends its headers at once is read before it could be dropped
_LISTEN_BACKLOG = 1024
_MOST_HEADER_BYTES, _MOST_FRAME_BYTES = 32_768, 33_554_432  # pictures that an attached app sends are in a frame
_GRACE_S = 1


def check_address(host: str, *, has_certificate: bool, allows_plain: bool = False) -> None:
    """Make sure that an address may be served on; the token is needed everywhere.

    Args:
        host: a name or address.
        has_certificate: the connection is encrypted.
        allows_plain: the user asked for http on this address by name.

    Raises:
        UsageError: other machines can reach it, and read what is sent.
    """
    if has_certificate or allows_plain or is_loopback(host):
        return
    hint = "Set host_certificate, or serve on 127.0.0.1 and connect with `ssh -L`."
    raise UsageError(f"{host} can be reached from other machines, which could read the token", hint)


def open_tcp(address: str, *, has_certificate: bool, allows_plain: bool = False) -> socket.socket:
    """Return a socket that listens on `HOST:PORT`.  Blocks (a name may be looked up).

    Raises:
        UsageError: it is not an address, may not be served on, or is taken.
    """
    host, _, port = address.rpartition(":")
    if not host or not port.isdecimal() or int(port) > 65_535:
        raise UsageError(f"{address[:80]!r} is not HOST:PORT", "Write it like 127.0.0.1:8765.")
    bare = host.strip("[]")
    check_address(bare, has_certificate=has_certificate, allows_plain=allows_plain)
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
        self._waiting: OrderedDict[_Http, asyncio.TimerHandle] = OrderedDict()

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


class _Http(H11Protocol):
    """uvicorn's protocol with a limit for headers, and an application that can drop its connection."""

    half_open: _HalfOpen

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.app = _with_abort(self.app, self)

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self.half_open.add(self)

    def data_received(self, data: bytes) -> None:
        before: Any = self.cycle
        super().data_received(data)
        cycle: Any = self.cycle
        if cycle is not before or self not in self.connections:  # a request has begun, or it is a WebSocket now
            self.half_open.done(self)
        elif cycle is None or cycle.response_complete:
            self.half_open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self.half_open.done(self)
        super().connection_lost(exc)


class _WebSocket(WebSocketsSansIOProtocol):
    """uvicorn's protocol, with an application that can drop its connection."""

    def __init__(self, *given: Any, **more: Any) -> None:
        super().__init__(*given, **more)
        self.app = _with_abort(self.app, self)


def _with_abort(app: ASGIApp, protocol: _Http | _WebSocket) -> ASGIApp:
    """Return an application whose scopes have the extension that drops the connection, whatever waits to be sent on it."""

    async def with_abort(scope: Scope, receive: Receive, send: Send) -> None:
        scope.setdefault("extensions", {})[ABORT] = protocol.transport.abort
        await app(scope, receive, send)

    return with_abort


class _Server(uvicorn.Server):
    """uvicorn's server without its clock, and without signal handlers: who runs it has those."""

    def __init__(self, config: uvicorn.Config, stop: asyncio.Event, protocol: type[_Http]) -> None:
        super().__init__(config)
        self._stop = stop
        self._protocol = protocol

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen; who begins an encrypted connection has as long to finish that as others have for their headers."""
        config, loop = self.config, asyncio.get_running_loop()

        def connect() -> asyncio.Protocol:
            return self._protocol(config=config, server_state=self.server_state, app_state={})

        limit_s = HEADERS_TIMEOUT_S if config.ssl is not None else None
        self.servers = []
        for each in sockets or ():
            self.servers.append(
                await loop.create_server(
                    connect, sock=each, ssl=config.ssl, backlog=_ACCEPTED_AT_ONCE, ssl_handshake_timeout=limit_s
                )
            )
            each.listen(_LISTEN_BACKLOG)
        self.started = True

    async def main_loop(self) -> None:
        """Wait for the end; nothing wakes up in between."""
        _ = await self._stop.wait()


async def serve(
    app: Starlette,
    sockets: Sequence[socket.socket],
    *,
    stop: asyncio.Event,
    certificate: Path | None = None,
) -> None:
    """Serve until `stop` is set, then end streams and close within two seconds.

    Args:
        app: the application of `build_app`.
        sockets: they listen already and are closed at the end; a certificate is used on those of TCP.
        stop: ends it.
        certificate: a PEM file with the certificate and its key.
    """
    half_open = _HalfOpen()
    http: type[_Http] = type("_BoundHttp", (_Http,), {"half_open": half_open})
    local = [each for each in sockets if each.family == socket.AF_UNIX]
    remote = [each for each in sockets if each.family != socket.AF_UNIX]
    groups = [(local, None), (remote, certificate)] if certificate is not None else [([*local, *remote], None)]
    servers = [_Server(_config(app, http, pem), stop, http).serve(list(group)) for group, pem in groups if group]
    ending = asyncio.ensure_future(_end(app, stop))
    try:
        _ = await asyncio.gather(*servers)
    finally:
        _ = ending.cancel()
        _ = await asyncio.gather(ending, return_exceptions=True)


def _config(app: ASGIApp, http: type[_Http], certificate: Path | None) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=http,
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


async def _end(app: Starlette, stop: asyncio.Event) -> None:
    """End the streams once it is over, so that their connections do not hold it up."""
    _ = await stop.wait()
    app.state.end()
