"""The host process: takes its lock and its socket, serves clients, and ends when nothing is left to do."""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import os
import signal
import socket as sockets
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from time import monotonic, sleep
from typing import TextIO

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route, WebSocketRoute

from lmtui import __version__
from lmtui.config import Config
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.host import connect, routes
from lmtui.host.access import ApiAccess
from lmtui.host.attach import AttachEndpoint, is_unix
from lmtui.host.endpoints import ApiContext, openapi_page, tell_error
from lmtui.host.http_server import open_tcp, serve
from lmtui.host.hub import SessionHub
from lmtui.host.web import pages
from lmtui.host.websocket import serve_websocket
from lmtui.registry import features

_LOOK_S = 15.0
_CLOSE_LIMIT_S = 20.0
_LOCK_LIMIT_S = 0.5

ENDPOINTS = (
    *routes.ROUTES,
    *(each for feature in features() if feature.routes for each in feature.load(feature.routes)),
)


_EARLIER = (("/v1/sessions/{id}/messages", "/api/chat/{id}"), ("/v1/jobs", "/api/cron"), ("/v1/", "/api/"))
"""How paths of ours begin, and those of an earlier program for the same."""


def _earlier(path: str) -> str:
    ours, theirs = next(each for each in _EARLIER if path.startswith(each[0]))
    return path.replace(ours, theirs, 1)


def build_app(hub: SessionHub, access: ApiAccess, own: Sequence[BaseRoute] = (), **options: float) -> Starlette:
    """Return the application of a host; `own` routes join those of the table behind the same access checks.

    `options` go to `ApiContext`.  `app.state.api` is what the handlers share.  `app.state.end` has
    streams end and further requests refused: the server calls it before it closes.  It follows the
    hub from now on.
    """
    api = ApiContext(hub, **options)

    async def tell_page(_: Request) -> Response:
        return JSONResponse(openapi_page(ENDPOINTS))

    app = Starlette(
        routes=[
            *ENDPOINTS,
            *(Route(_earlier(each.path), each.answer_request, methods=[each.method]) for each in ENDPOINTS),
            Route("/openapi.json", tell_page),
            *(WebSocketRoute(path, serve_websocket) for path in ("/v1/ws", "/ws/{id}")),
            *own,
        ],
        middleware=[Middleware(access.guard)],
        exception_handlers={HTTPException: tell_error, LmtuiError: tell_error, Exception: tell_error},
    )
    leave = hub.follow(api.feed.take)

    def end() -> None:
        access.is_closing = True
        api.feed.end()
        leave()

    app.state.api, app.state.end = api, end
    return app


@contextlib.contextmanager
def host_lock() -> Iterator[TextIO]:
    """Be the user's only host; the file is unlocked however the process ends.

    Raises:
        UsageError: another one runs.
    """
    connect.host_folder().mkdir(parents=True, exist_ok=True, mode=0o700)
    with os.fdopen(os.open(connect.host_folder() / "host.json", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+") as file:
        until = monotonic() + _LOCK_LIMIT_S  # whoever looks for a host locks the file for a moment, too
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if monotonic() > until:
                    raise UsageError("a host is already running", "`lmtui host status` shows it.") from error
                sleep(0.01)
        _ = file.truncate()  # what the last host said of itself: its process id may be another program's by now
        yield file


def local_socket() -> sockets.socket:
    """Return the socket for clients of this machine; what a killed host left there is removed.

    Raises:
        LmtuiError: it cannot be made, or its folder is another user's.
    """
    path = connect.socket_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        connect.check_socket_folder()
        path.unlink(missing_ok=True)
        made = sockets.socket(sockets.AF_UNIX, sockets.SOCK_STREAM)
        before = os.umask(0o177)
        try:
            made.bind(str(path))
        finally:
            _ = os.umask(before)
        made.listen(128)
    except OSError as error:
        raise LmtuiError(f"could not create the socket {path}: {error}") from error
    return made


class HostProcess:
    """What one host does next to serving.

    Args:
        hub: the sessions.
        idle_s: how long it stays when nobody is attached and nothing is left to do.
    """

    def __init__(self, hub: SessionHub, idle_s: float = 600.0) -> None:
        self._hub, self._idle_s = hub, idle_s
        self.attach = AttachEndpoint(hub)
        self.stop = asyncio.Event()
        self._look_now = asyncio.Event()
        self.attach.when_left = self._look_now.set

    async def status(self, request: Request) -> JSONResponse:
        """Say how many are attached and what there is to do; end the host on request."""
        if request.method == "DELETE":
            if not is_unix(request.scope):
                return JSONResponse({"error": "a client on the network does not stop the host"}, 403)
            self.stop.set()
        return JSONResponse({"clients": len(self.attach.attached), "busy": list(self._hub.busy())})

    async def watch(self) -> None:
        """Close what nobody looks at, and end the process when nothing is left to do."""
        idle_since: float | None = None
        while not self.stop.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    _ = await self._look_now.wait()
            self._look_now.clear()
            await self._hub.tidy()
            if self.attach.attached or self.attach.greetings or self._hub.watchers or self._hub.busy():
                idle_since = None
                continue
            idle_since = monotonic() if idle_since is None else idle_since
            if monotonic() - idle_since >= self._idle_s:
                self.stop.set()


def _user_path(text: str) -> Path:
    return Path(text).expanduser()


async def run_host(file: TextIO, config: Config, http: str = "", *, allows_plain: bool = False) -> None:
    """Serve clients until there is nothing left to do, or until a signal.

    Args:
        file: the locked file of the host, which gets what it says of itself.
        config: the user's own settings.
        http: the address of the HTTP API, empty for none.
        allows_plain: the user asked for http without encryption on an address that other machines reach.

    Raises:
        LmtuiError: the address cannot be served.
    """
    certificate = _user_path(config.host_certificate) if config.host_certificate else None
    origins = [each for each in config.host_names if "://" in each]
    names = [each for each in config.host_names if each not in origins]
    access = ApiAccess(connect.ensure_token(connect.host_folder()), names=names, origins=origins)
    hub = SessionHub(map(Path, config.host_folders))
    process = HostProcess(hub)
    tcp = [open_tcp(http, is_allowed=certificate is not None or allows_plain)] if http else []
    own = [
        WebSocketRoute(connect.ATTACH, process.attach),
        Route(connect.STATUS, process.status, methods=["GET", "DELETE"]),
        Route(connect.PAGES, partial(pages, hub=hub), methods=["POST"]),
    ]
    app = build_app(hub, access, own)
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, process.stop.set)
    loop.add_signal_handler(signal.SIGHUP, lambda: None)  # the end of a terminal is none of ours
    watching = asyncio.create_task(process.watch())
    listening = [local_socket(), *tcp]
    at = "".join(f"{http.rpartition(':')[0]}:{each.getsockname()[1]}" for each in tcp)  # port 0 is a free one
    shown = f"{'https' if certificate else 'http'}://{at}" if at else ""
    connect.write_info(file, connect.HostInfo(os.getpid(), __version__, datetime.now(UTC).isoformat(timespec="seconds"), shown))
    try:
        await serve(app, listening, stop=process.stop, certificate=certificate)
    finally:
        process.stop.set()
        _ = watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_LIMIT_S):
                await hub.close()
        connect.socket_file().unlink(missing_ok=True)
