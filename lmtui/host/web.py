"""`lmtui serve`: the app in the tabs of a browser, on the host's HTTP server and with textual-serve's script and protocol.

The apps of all tabs live in the process of `lmtui serve` and are clients of the host.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import getpass
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Callable, MutableMapping
from html import escape
from ipaddress import ip_address
from pathlib import Path
from typing import Any
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

from lmtui.app.key_protection import read_secret_file
from lmtui.core.errors import UsageError
from lmtui.core.hosts import is_loopback
from lmtui.host.access import LOCAL_NAMES, bracketed, guarded, is_known_name, is_same, refused
from lmtui.host.endpoints import ApiError, read_body, tell_error
from lmtui.host.feed import until_one_ends
from lmtui.host.http_server import open_tcp
from lmtui.host.http_server import serve as serve_http

MakeTab = Callable[[Callable[[bytes], None], tuple[int, int]], Any]
"""Makes the app of a tab (a `tui.tab_driver.Tab`) from what its terminal gets, and its size in cells."""

_LEAVE_LIMIT_S = 5.0
LEAST_PIN = 6
MOST_TRIES, LOCKED_S = 5, 60.0
MOST_KEY_CHARS, MOST_FORM_BYTES = 200, 4_096
FONT_SIZES = range(8, 41)
PIN_VARIABLE = "LMTUI_PIN"


class TabSocket:
    """The websocket of one tab: frames for its terminal one way, what is typed the other way.

    Args:
        websocket: the tab's.
        make_tab: makes its app.
        size: of its terminal.
    """

    def __init__(self, websocket: WebSocket, make_tab: MakeTab, size: tuple[int, int]) -> None:
        self._websocket = websocket
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._tab = make_tab(self._frames.put_nowait, size)

    async def run(self) -> None:
        """Run the app until it is left or the tab is closed."""
        running = asyncio.create_task(self._tab.run(), context=contextvars.Context())  # each app has a context of its own
        running.add_done_callback(lambda _: self._frames.put_nowait(None))
        writing = asyncio.create_task(self._write())
        try:
            await until_one_ends(self._read(), asyncio.shield(writing))
        finally:  # what the app draws last is still sent
            self._tab.leave()
            _ = await asyncio.wait({running}, timeout=_LEAVE_LIMIT_S)
            for task in (running, writing):
                _ = task.cancel()
            await asyncio.gather(running, writing, return_exceptions=True)

    async def _write(self) -> None:
        """Send what the app draws, all that waits in one frame; at its end close the tab."""
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            while (data := await self._frames.get()) is not None:
                while not self._frames.empty() and (more := self._frames.get_nowait()) is not None:
                    data += more
                await self._websocket.send_bytes(data)
            await self._websocket.close()

    async def _read(self) -> None:
        while (message := await self._websocket.receive())["type"] != "websocket.disconnect":
            await self._take(message.get("text") or "")

    async def _take(self, text: str) -> None:
        """Take a message of the page; one that cannot be read is dropped."""
        driver = self._tab.driver
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(text):
                case ["ping", data]:
                    await self._websocket.send_json(["pong", data])
                case ["stdin", str(typed)] if driver is not None:
                    driver.type(typed)
                case ["resize", {"width": int(width), "height": int(height)}] if driver is not None:
                    driver.resize(width, height)
                case ["focus" | "blur" as change, *_] if driver is not None:
                    driver.focus(is_in_front=change == "focus")


class AccessControl:
    """Lets in who has the link or the PIN.

    Args:
        pin: opens as often as it is given; without one the link alone opens, and each link once.
    """

    def __init__(self, pin: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self.pin, self._clock = pin, clock
        self._keys: set[str] = set()
        self._wrong = 0
        self._locked_until = 0.0
        self.token = secrets.token_urlsafe(24)

    @property
    def is_locked(self) -> bool:
        """Tell whether too many wrong keys were tried a moment ago."""
        return self._clock() < self._locked_until

    def try_key(self, text: str) -> str:
        """Return the cookie for a token or a PIN, an empty text for a wrong one; a token is used up by that."""
        if self.is_locked:
            return ""
        is_token = is_same(text, self.token)
        if not is_token and not (self.pin and is_same(text, self.pin)):
            self._wrong += 1
            if self._wrong >= MOST_TRIES:
                self._wrong, self._locked_until = 0, self._clock() + LOCKED_S
            return ""
        self._wrong = 0
        if is_token:
            self.token = secrets.token_urlsafe(24)
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
        make_tab: makes the app of a tab.
        login: lets browsers in.
        url: where this is served: it is known by that name, by loopback names and by the address of a request.
    """

    def __init__(self, make_tab: MakeTab, login: AccessControl, url: str, tell: Callable[[str], None]) -> None:
        self._make_tab, self._login, self._url, self._tell = make_tab, login, url, tell
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
        size = _number(request, "fontsize", 16)
        address = escape(f"ws://{request.headers['host']}/ws")
        return HTMLResponse(_TERMINAL.format(socket=address, font_size=size if size in FONT_SIZES else 16))

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
        size = _number(websocket, "width", 80), _number(websocket, "height", 24)
        await TabSocket(websocket, self._make_tab, size).run()

    def _tell_link(self) -> None:
        self._tell(f"{self._url}/?token={self._login.token}")


def _policy(scope: Scope) -> dict[str, str]:
    host = HTTPConnection(scope).headers.get("host", "")
    return {"content-security-policy": _POLICY.format(host=host)}


def _number(request: HTTPConnection, name: str, default: int) -> int:
    given = request.query_params.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 6 else default


def check_address(host: str, pin: str) -> None:
    """Make sure that an address may be served on.

    Raises:
        UsageError: it is not this machine's own and there is no PIN, or the PIN is too short.
    """
    if pin and len(pin) < LEAST_PIN:
        raise UsageError(f"the PIN has {len(pin)} characters", f"Use at least {LEAST_PIN}.")
    if not pin and not is_loopback(host):
        hint = "Use --pin or --pin-file, or serve on 127.0.0.1 and connect with `ssh -L`."
        raise UsageError(f"{host} can be reached from other machines, and there is no PIN", hint)


def read_pin(environ: MutableMapping[str, str], file: str, *, asks: bool) -> str:
    """Return the PIN from a file that only its owner can read, from a prompt or from the environment, else an empty text.

    Remove it from the environment, so that neither apps nor commands get it.

    Raises:
        ConfigError: the file cannot be used.
        UsageError: nothing was typed.
    """
    found = environ.pop(PIN_VARIABLE, "").strip()
    if file or not asks:
        return read_secret_file(file) if file else found
    typed = getpass.getpass("PIN: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not typed.strip():
        raise UsageError("no PIN was entered", f"Type one at the prompt, use --pin-file, or set {PIN_VARIABLE}.")
    return typed.strip()


def linked_name(host: str, listener: socket.socket) -> str:
    """Return what a link has for the host that is served on: this machine's own address where all of them are."""
    if ip_address(listener.getsockname()[0]).is_unspecified:
        with contextlib.suppress(OSError), socket.socket(listener.family, socket.SOCK_DGRAM) as probe:
            probe.connect(("192.0.2.1", 9))  # nothing is sent: the system only chooses the address to send from (RFC 5737)
            return str(probe.getsockname()[0])
    return bracketed(host)


def serve(make_tab: MakeTab, workspace: Path, host: str, port: int, pin: str) -> int:
    """Serve the app on a workspace until a signal comes.  Return the exit code.

    Raises:
        UsageError: the address may not be served on, or the port is taken.
    """
    check_address(host, pin)
    listener = open_tcp(f"{bracketed(host)}:{port}", has_certificate=False, allows_plain=True)
    port = listener.getsockname()[1]
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    for name in ("TMUX", "SSH_CONNECTION", "SSH_TTY", "NO_COLOR"):  # the browser is another terminal than this one
        os.environ.pop(name, None)
    print(f"lmtui on {workspace}; ctrl+c stops it. Each tab has its own screen; sessions keep running in the host.", flush=True)
    words = ["For another browser:", "One link, for one browser:"]

    def tell(link: str) -> None:
        print(words.pop() if words[1:] else words[0], link, flush=True, file=sys.__stdout__)  # sys.stdout is the app's

    pages = WebPages(make_tab, AccessControl(pin), f"http://{linked_name(host, listener)}:{port}", tell)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_http(pages.app(), [listener], stop=stop)

    asyncio.run(run())
    return 0
