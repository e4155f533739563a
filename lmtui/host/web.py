"""`lmtui serve`: the app in the tabs of a browser, with textual-serve's page, protocol and processes.

The pages have their own address and login; the API is not there.  The app of a tab is a client of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import secrets
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Callable
from html import escape
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import textual_serve
from starlette.applications import Starlette
from starlette.middleware import Middleware
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Mount, Route, WebSocketRoute
from starlette.staticfiles import StaticFiles
from starlette.types import Scope
from starlette.websockets import WebSocket, WebSocketDisconnect
from textual_serve.app_service import AppService
from textual_serve.download_manager import DownloadManager

from lmtui.app.process import ENVIRONMENT_SOCKET, environment_at_start
from lmtui.core.errors import UsageError
from lmtui.host.access import LOCAL_NAMES, Failures, bracketed, guarded, is_known_name, is_same, refused
from lmtui.host.attach import is_unix
from lmtui.host.connect import give_environment, read_token, token_file
from lmtui.host.endpoints import JSON_BYTES, ApiError, read_body, tell_error
from lmtui.host.feed import EventStream, until_one_ends
from lmtui.host.http_server import open_tcp
from lmtui.host.http_server import serve as serve_http
from lmtui.host.hub import SessionHub
from lmtui.host.wire import Wire

_LEAVE_LIMIT_S = 5.0
_LARGEST_CELLS = 1000
LEAST_PIN = 6
MOST_TRIES = 5
MOST_KEY_CHARS, MOST_FORM_BYTES = 200, 4_096
_BROWSER = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
_OF_THE_TERMINAL = ("TMUX", "SSH_CONNECTION", "SSH_TTY", "NO_COLOR", "ACCESSIBLE")


class PagesWanted(Wire):
    """Where the pages are served, and how the app of a tab begins: its command line and environment."""

    host: str
    port: int
    pin: str
    arguments: list[str]
    folder: str
    environment: dict[str, str]


class Tab(AppService):
    """The process of one tab; it gets its environment as a host does, so that no other process reads keys there."""

    def __init__(self, websocket: WebSocket, wanted: PagesWanted) -> None:
        send, say = websocket.send_bytes, websocket.send_text
        super().__init__("", write_bytes=send, write_str=say, close=websocket.close, download_manager=DownloadManager())
        self._websocket, self._wanted = websocket, wanted

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        given = {name: text for name, text in self._wanted.environment.items() if name not in _OF_THE_TERMINAL}
        given |= _BROWSER | {"COLUMNS": str(_cells(width)), "ROWS": str(_cells(height))}
        here, there = socket.socketpair()
        with here:
            with there:
                command = sys.executable, "-P", "-m", "lmtui", *self._wanted.arguments
                environ = {**environment_at_start(given), ENVIRONMENT_SOCKET: str(there.fileno())}
                process = await asyncio.create_subprocess_exec(
                    *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environ, cwd=self._wanted.folder,
                    pass_fds=(there.fileno(),),
                )  # fmt: skip
            await asyncio.to_thread(give_environment, here, given)
        self._process, self._stdin = process, process.stdin
        return process

    async def run_for(self, width: int, height: int) -> None:
        """Run the app until it is left or the tab is closed."""
        await self.start(width, height)
        assert self._task is not None
        assert self._process is not None
        try:
            await until_one_ends(self._read(), asyncio.shield(self._task))
        finally:  # what the app draws last is still sent
            with contextlib.suppress(WebSocketDisconnect, RuntimeError, TimeoutError):
                async with asyncio.timeout(_LEAVE_LIMIT_S):
                    await self.stop()
                    _ = await self._process.wait()
            if self._process.returncode is None:
                self._process.kill()
        with contextlib.suppress(RuntimeError):
            await self._websocket.close()

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            await self._take(message.get("text") or "")

    async def _take(self, text: str) -> None:
        """Take a message of the page; one that cannot be read is dropped."""
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(text):
                case ["ping", data]:
                    await self._websocket.send_json(["pong", data])
                case ["stdin", str(typed)]:
                    _ = await self.send_bytes(typed.encode("utf-8", "replace"))
                case ["resize", {"width": int(width), "height": int(height)}]:
                    await self.set_terminal_size(_cells(width), _cells(height))
                case ["focus", *_]:
                    await self.focus()
                case ["blur", *_]:
                    await self.blur()


def _cells(count: int) -> int:
    return min(max(count, 1), _LARGEST_CELLS)


class AccessControl:
    """Lets in who has the link or the PIN.

    Args:
        pin: opens as often as it is given; without one the link alone opens, and each link once.
        api_token: the token of the API, which opens as often as it is given.
    """

    def __init__(self, pin: str = "", api_token: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.pin, self._lasting = pin, [each for each in (pin, api_token) if each]
        self._keys: set[str] = set()
        self._wrong = Failures(clock, MOST_TRIES)
        self.token = secrets.token_urlsafe(24)

    @property
    def is_locked(self) -> bool:
        """Tell whether too many wrong keys were tried a moment ago."""
        return self._wrong.wait_s("") > 0

    def try_key(self, text: str) -> str:
        """Return the cookie for a token or a PIN, an empty text for a wrong one; a token is used up by that."""
        if self.is_locked:
            return ""
        if is_same(text, self.token):
            self.token = secrets.token_urlsafe(24)
        elif not any(is_same(text, each) for each in self._lasting):
            self._wrong.add("")
            return ""
        self._keys.add(key := secrets.token_urlsafe(32))
        return key

    def is_open_to(self, cookie: str) -> bool:
        """Tell whether a cookie is one that was given."""
        return any(is_same(cookie, key) for key in self._keys)


_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self' ws://{host}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
_FOLDER = Path(__file__).with_name("pages")
_TERMINAL, _LOGIN = ((_FOLDER / name).read_text(encoding="utf-8") for name in ("terminal.html", "login.html"))
_OPEN_PATHS = ("/", "/key", "/pages/page.css")  # without a key


class WebPages:
    """The pages, behind a login; `tell` gets each new link.

    Args:
        wanted: how the app of a tab begins.
        login: lets browsers in.
        url: where this is served: it is known by that name, by loopback names and by the address of a request.
    """

    def __init__(self, wanted: PagesWanted, login: AccessControl, url: str, tell: Callable[[str], object]) -> None:
        self._wanted, self._login, self._url, self._tell = wanted, login, url, tell
        self._names = (*LOCAL_NAMES, urlsplit(url).netloc.lower().rpartition(":")[0])
        self._cookie = f"lmtui-key-{urlsplit(url).port}"  # cookies know no ports: two servers would take each other's
        self._tell_link()

    def app(self) -> Starlette:
        """Return the application."""
        app = Starlette(
            routes=[
                Route("/", self._index),
                Route("/key", self._try_key, methods=["POST"]),
                WebSocketRoute("/ws", self._tab),
                Mount("/pages", StaticFiles(directory=_FOLDER)),
                Mount("/static", StaticFiles(directory=Path(textual_serve.__file__).parent / "static")),
            ],
            middleware=[Middleware(guarded, self._refusal, _policy)],
            exception_handlers={ApiError: tell_error},
        )
        app.state.end = lambda: None
        return app

    def _refusal(self, scope: Scope) -> Response | None:
        """Return how a request is refused that names another host, comes from another origin or has no key."""
        request = HTTPConnection(scope)
        host, origin = request.headers.get("host", ""), request.headers.get("origin", "")
        if not is_known_name(host, scope, self._names):
            problem = "this server is not known by that name"
        elif (origin or scope["type"] == "websocket") and origin.lower() != f"http://{host.lower()}":
            problem = "this request comes from another site"
        elif not self._is_open_to(request) and scope["path"] not in _OPEN_PATHS:
            problem = "open / first"
        else:
            return None
        return refused(403, "forbidden", problem)

    def _is_open_to(self, request: HTTPConnection) -> bool:
        return self._login.is_open_to(request.cookies.get(self._cookie, ""))

    async def _index(self, request: Request) -> Response:
        if token := request.query_params.get("token", ""):
            return self._let_in(token)
        if not self._is_open_to(request):
            return self._ask_for_key()
        return HTMLResponse(_TERMINAL.format(socket=escape(f"ws://{request.headers['host']}/ws")))

    async def _try_key(self, request: Request) -> Response:
        form = parse_qs((await read_body(request, MOST_FORM_BYTES)).decode("utf-8", "replace"))
        return self._let_in(form.get("key", [""])[0].strip().rpartition("token=")[2])

    def _let_in(self, key: str) -> Response:
        before = self._login.token
        cookie = self._login.try_key(key[:MOST_KEY_CHARS])
        if not cookie:
            return self._ask_for_key("That is not the key. ")
        if self._login.token != before:
            self._tell_link()
        response = RedirectResponse("/", 303)
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="strict")
        return response

    def _ask_for_key(self, words: str = "") -> Response:
        words = "Too many wrong keys. Wait a minute. " if self._login.is_locked else words
        words += "Enter the PIN." if self._login.pin else "Paste the newest link that lmtui serve printed; each works once."
        return HTMLResponse(_LOGIN.format(words=words), 403)

    async def _tab(self, websocket: WebSocket) -> None:
        await websocket.accept()
        await Tab(websocket, self._wanted).run_for(_number(websocket, "width", 80), _number(websocket, "height", 24))

    def _tell_link(self) -> None:
        self._tell(f"{self._url}/?token={self._login.token}")


def _policy(scope: Scope) -> dict[str, str]:
    host = HTTPConnection(scope).headers.get("host", "")
    return {"content-security-policy": _POLICY.format(host=host)}


def _number(request: HTTPConnection, name: str, default: int) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 6 else default


def page_listener(wanted: PagesWanted) -> socket.socket:
    """Return a socket that listens at the address.

    Raises:
        UsageError: it is taken, others can reach it and there is no PIN, or the PIN is too short.
    """
    if 0 < len(wanted.pin) < LEAST_PIN:
        raise UsageError(f"the PIN has {len(wanted.pin)} characters", f"Use at least {LEAST_PIN}.")
    way = "Use --pin or --pin-file, or serve on 127.0.0.1 and connect with `ssh -L`."
    return open_tcp(f"{bracketed(wanted.host)}:{wanted.port}", is_allowed=bool(wanted.pin), way=way)


def linked_name(host: str, listener: socket.socket) -> str:
    """Return what a link has for the host that is served on: this machine's own address where all of them are."""
    if ip_address(listener.getsockname()[0]).is_unspecified:
        with contextlib.suppress(OSError), socket.socket(listener.family, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: the system only chooses the address to send from (RFC 5737)
            return str(probe.getsockname()[0])
    return bracketed(host)


async def pages(request: Request, hub: SessionHub) -> Response:
    """Serve the pages for as long as the answer is read, whose lines are the links.

    Raises:
        ApiError: it is a client on the network.
        UsageError: the address may not be served on, or the port is taken.
    """
    if not is_unix(request.scope):
        raise ApiError(403, "clients on the network cannot serve pages")
    wanted = PagesWanted.model_validate_json(await read_body(request, JSON_BYTES))
    listener = page_listener(wanted)
    url = f"http://{linked_name(wanted.host, listener)}:{listener.getsockname()[1]}"
    made: asyncio.Queue[str] = asyncio.Queue()
    app = WebPages(wanted, AccessControl(wanted.pin, read_token(token_file())), url, made.put_nowait).app()

    async def links() -> AsyncGenerator[bytes, None]:
        stop = asyncio.Event()
        serving = asyncio.create_task(serve_http(app, [listener], stop=stop))
        hub.watch(url)  # the host stays
        try:
            while True:
                yield f"{await made.get()}\n".encode()
        finally:
            hub.unwatch(url)
            stop.set()
            await serving

    return EventStream(links())
