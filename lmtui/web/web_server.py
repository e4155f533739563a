"""`lmtui serve`: the full-screen app in a browser; all tabs are clients of the host, and live in this process."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import getpass
import hmac
import json
import os
import secrets
import signal
import socket
import sys
import time
from collections.abc import Awaitable, Callable, MutableMapping
from html import escape
from pathlib import Path
from urllib.parse import urlsplit

import textual_serve
from aiohttp import web

from lmtui.app.key_protection import read_secret_file
from lmtui.core.errors import UsageError
from lmtui.core.hosts import is_loopback
from lmtui.tui.tab_driver import Tab

MakeTab = Callable[[Callable[[bytes], None], tuple[int, int]], Tab]
"""Makes the app of a tab from what its terminal gets, and its size in cells."""


class TabSocket:
    """The websocket of one tab: frames for its terminal one way, what is typed the other way.

    Args:
        websocket: the tab's.
        make_tab: makes its app.
        size: of its terminal.
    """

    def __init__(self, websocket: web.WebSocketResponse, make_tab: MakeTab, size: tuple[int, int]) -> None:
        self._websocket = websocket
        self._frames: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._tab = make_tab(self._frames.put_nowait, size)

    async def run(self) -> None:
        """Run the app until it is left or the tab is closed."""
        writing = asyncio.create_task(self._write())
        running = asyncio.create_task(self._tab.run(), context=contextvars.Context())  # each app has a context of its own
        running.add_done_callback(lambda _: self._frames.put_nowait(None))
        try:
            async for message in self._websocket:
                if message.type is web.WSMsgType.TEXT:
                    await self._take(message.data)
        finally:
            self._tab.leave()
            _ = await asyncio.wait({running}, timeout=_LEAVE_LIMIT_S)
            for task in (running, writing):
                _ = task.cancel()
            await asyncio.gather(running, writing, return_exceptions=True)

    async def _write(self) -> None:
        """Send what the app draws, all that waits in one frame; at its end close the tab."""
        while (data := await self._frames.get()) is not None:
            while not self._frames.empty() and (more := self._frames.get_nowait()) is not None:
                data += more
            await self._websocket.send_bytes(data)
        await self._websocket.close()

    async def _take(self, text: str) -> None:
        """Take a message of the page; one that cannot be read is dropped."""
        driver = self._tab.driver
        try:
            match json.loads(text):
                case ["ping", data]:
                    await self._websocket.send_json(["pong", data])
                case ["stdin", str(typed)] if driver is not None:
                    driver.type(typed)
                case ["resize", {"width": int(width), "height": int(height)}] if driver is not None:
                    driver.resize(width, height)
                case ["focus" | "blur" as change, *_] if driver is not None:
                    driver.focus(is_in_front=change == "focus")
                case _:
                    pass
        except (ValueError, RecursionError):
            return


_LEAVE_LIMIT_S = 5.0
LEAST_PIN = 6
MOST_TRIES, LOCKED_S = 5, 60.0
COOKIE = "lmtui-key"


class AccessControl:
    """Lets in who has the link or the PIN.

    Args:
        names: what the host may be called in a request, with its port.
        pin: opens as often as it is given; without one the link alone opens, and each link once.
    """

    def __init__(self, names: frozenset[str], pin: str = "", clock: Callable[[], float] = time.monotonic) -> None:
        self._names = names
        self._pin = pin
        self._clock = clock
        self._keys: set[str] = set()
        self._wrong = 0
        self._locked_until = 0.0
        self.token = secrets.token_urlsafe(24)

    @property
    def has_pin(self) -> bool:
        """Tell whether a PIN opens."""
        return bool(self._pin)

    @property
    def is_locked(self) -> bool:
        """Tell whether too many wrong keys were tried a moment ago."""
        return self._clock() < self._locked_until

    def is_known_host(self, host: str) -> bool:
        """Tell whether a request was sent to a name of ours."""
        return host.lower() in self._names

    def is_own_origin(self, origin: str) -> bool:
        """Tell whether a request comes from a page of ours."""
        try:
            return urlsplit(origin).netloc.lower() in self._names
        except ValueError:
            return False

    def try_key(self, text: str) -> str:
        """Return the cookie for a token or a PIN, an empty text for a wrong one; a token is used up by that."""
        if self.is_locked:
            return ""
        is_token = _is_same(text, self.token)
        is_pin = bool(self._pin) and _is_same(text, self._pin)
        if not (is_token or is_pin):
            self._wrong += 1
            if self._wrong >= MOST_TRIES:
                self._wrong, self._locked_until = 0, self._clock() + LOCKED_S
            return ""
        self._wrong = 0
        if is_token:
            self.token = secrets.token_urlsafe(24)
        key = secrets.token_urlsafe(32)
        self._keys.add(key)
        return key

    def is_open_to(self, cookie: str) -> bool:
        """Tell whether a cookie is one that was given."""
        return any(_is_same(cookie, key) for key in self._keys)


def _is_same(text: str, secret: str) -> bool:
    """Compare in a time that tells nothing; what a browser sent may not be text."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; img-src 'self' data:; "
    "connect-src 'self' {sockets}; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
FOCUS_SCRIPT = """
const wait = setInterval(() => {
  const area = document.querySelector(".xterm-helper-textarea");
  if (area && document.body.classList.contains("-first-byte")) { clearInterval(wait); area.blur(); area.focus(); }
}, 50);
"""
FONTS = ("/static/fonts/RobotoMono-VariableFont_wght.ttf", "/static/fonts/RobotoMono-Italic-VariableFont_wght.ttf")
_FACES = f"""
@font-face {{ font-family: "Roboto Mono"; src: url("{FONTS[0]}"); }}
@font-face {{ font-family: "Roboto Mono"; font-style: italic; src: url("{FONTS[1]}"); }}
"""
_STYLE = (
    _FACES
    + """
html, body { background: #14181d; color: #d6dae0; font-family: "Roboto Mono", Menlo, monospace; margin: 0; height: 100%; }
.door, .closed p { max-width: 34rem; margin: 1rem auto; padding: 0 1rem; line-height: 1.5; }
.door { padding-top: 20vh; }
.closed { display: none; position: absolute; inset: 0; z-index: 10; background: #14181d; padding-top: 20vh; }
body.-closed .closed { display: block; }
input, button { font: inherit; color: inherit; background: #222931; border: 1px solid #959eab; padding: .4rem .8rem; }
a { color: #74b3f0; }
"""
)


def terminal_page(title: str, socket_url: str, font_size: int) -> str:
    """Return the page with the terminal in it; the script and its marks are textual-serve's."""
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{escape(title)}</title>
<link rel="stylesheet" href="/static/css/xterm.css"><style>{_STYLE}</style>
<script src="/static/js/textual.js"></script><script src="/focus.js" defer></script></head>
<body>
<div class="closed"><p>lmtui has ended here. What was done is saved; the session can be resumed.</p>
<p><a href="/">Open it again</a></p></div>
<div id="terminal" class="textual-terminal"
  data-session-websocket-url="{escape(socket_url)}" data-font-size="{font_size}"></div>
</body></html>
"""


def door_page(*, has_pin: bool, is_locked: bool, was_wrong: bool) -> str:
    """Return the page for who has no key yet."""
    if is_locked:
        words = "Too many wrong keys. Wait a minute."
    elif was_wrong:
        words = "That is not the key."
    else:
        words = "Enter the key"
    hint = (
        "the PIN that lmtui serve was started with" if has_pin else "the newest link that lmtui serve printed; each works once"
    )
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>lmtui</title><style>{_STYLE}</style></head>
<body><form class="door" method="post" action="/key"><p><b>lmtui</b></p><p>{words}</p><p>It takes {hint}.</p>
<p><input name="key" type="password" autofocus autocomplete="off"> <button>Open</button></p></form></body></html>
"""


_STATIC = Path(textual_serve.__file__).parent / "static"
MOST_KEY_CHARS = 200
FONT_SIZES = range(8, 41)
HEARTBEAT_S = 15
PIN_VARIABLE = "LMTUI_PIN"
OPEN_PATHS = frozenset(("/", "/key", *FONTS))
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
_MOST_PORT = 65_535


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


def names_of(host: str, port: int) -> frozenset[str]:
    """Return what browsers may call the host, with its port."""
    names = {host, "localhost", "127.0.0.1", "[::1]"} if is_loopback(host) else {host}
    if host in ("0.0.0.0", "::"):  # noqa: S104  (what it stands for, not a binding)
        names |= {"localhost", "127.0.0.1", "[::1]", *_own_addresses()}
    return frozenset(name if port == 80 else f"{name}:{port}" for name in (each.lower() for each in names))


class WebServer:
    """Serves our pages and the apps of all tabs, behind the door; `tell` gets each new link.

    The script of the page is that of textual-serve.
    """

    def __init__(self, make_tab: MakeTab, host: str, port: int, door: AccessControl, tell: Callable[[str], None]) -> None:
        shown = f"[{host}]" if ":" in host else host
        self.host, self.port, self.public_url = host, port, f"http://{shown}:{port}"
        self._make_tab = make_tab
        self._door = door
        self._tell = tell
        self._cookie = f"{COOKIE}-{port}"  # cookies know no ports: two of these servers would take each other's

    async def run(self) -> None:
        """Serve until a signal comes."""
        runner = web.AppRunner(await self._make_app(), access_log=None)
        await runner.setup()
        try:
            try:
                await web.TCPSite(runner, self.host, self.port).start()
            except OSError as error:
                hint = "Choose another with --port."
                raise UsageError(f"port {self.port} on {self.host} cannot be served: {error.strerror}", hint) from error
            self._tell_link()
            stop = asyncio.Event()
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(NotImplementedError):
                    asyncio.get_running_loop().add_signal_handler(number, stop.set)
            await stop.wait()
        finally:
            await runner.cleanup()

    async def handle_websocket(self, request: web.Request) -> web.WebSocketResponse:
        """Run an app for as long as its tab is open."""
        websocket = web.WebSocketResponse(heartbeat=HEARTBEAT_S)
        await websocket.prepare(request)
        size = _cells(request, "width", 80), _cells(request, "height", 24)
        await TabSocket(websocket, self._make_tab, size).run()
        return websocket

    async def _make_app(self) -> web.Application:
        app = web.Application(middlewares=[self._guard])
        app.add_routes(
            [
                web.get("/", self._index),
                web.post("/key", self._try_key),
                web.get("/ws", self.handle_websocket, name="websocket"),
                web.get("/favicon.ico", _no_icon),
                web.get("/focus.js", _focus_script),
                web.static("/static", _STATIC),
            ]
        )
        return app

    @web.middleware
    async def _guard(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Refuse other hosts and origins, ask for a key where there is none, and add the headers that keep the page alone."""
        origin = request.headers.get("Origin", "")
        if not self._door.is_known_host(request.host):
            raise web.HTTPForbidden(text=f"unknown host name: {request.host[:100]}")
        if (origin or request.path == "/ws") and not self._door.is_own_origin(origin):
            raise web.HTTPForbidden(text="this request comes from another site")
        is_open = self._door.is_open_to(request.cookies.get(self._cookie, ""))
        if not is_open and request.path not in OPEN_PATHS:
            raise web.HTTPForbidden(text="open / first")
        response = await handler(request)
        if not response.prepared:
            sockets = " ".join(f"ws://{name}" for name in (request.host,))
            response.headers["Content-Security-Policy"] = POLICY.format(sockets=sockets)
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["X-Content-Type-Options"] = "nosniff"
            response.headers["Cache-Control"] = "no-store"
        return response

    async def _index(self, request: web.Request) -> web.StreamResponse:
        token = request.query.get("token", "")
        if token:
            return self._let_in(token)
        if not self._door.is_open_to(request.cookies.get(self._cookie, "")):
            return self._ask_for_key()
        size = request.query.get("fontsize", "")
        font_size = int(size) if size.isdecimal() and int(size) in FONT_SIZES else 16
        page = terminal_page("lmtui", f"ws://{request.host}/ws", font_size)
        return web.Response(text=page, content_type="text/html")

    async def _try_key(self, request: web.Request) -> web.StreamResponse:
        found = (await request.post()).get("key", "")
        text = found.strip()[:MOST_KEY_CHARS] if isinstance(found, str) else ""
        return self._let_in(text.rpartition("token=")[2])

    def _let_in(self, key: str) -> web.StreamResponse:
        before = self._door.token
        cookie = self._door.try_key(key[:MOST_KEY_CHARS])
        if not cookie:
            return self._ask_for_key(was_wrong=True)
        if self._door.token != before:
            self._tell_link()
        response = web.HTTPSeeOther("/")
        response.set_cookie(self._cookie, cookie, httponly=True, samesite="Strict", path="/")
        return response

    def _ask_for_key(self, *, was_wrong: bool = False) -> web.Response:
        page = door_page(has_pin=self._door.has_pin, is_locked=self._door.is_locked, was_wrong=was_wrong)
        return web.Response(text=page, content_type="text/html", status=403)

    def _tell_link(self) -> None:
        self._tell(f"{self.public_url}/?token={self._door.token}")


def read_pin(environ: MutableMapping[str, str], file: str, *, asks: bool) -> str:
    """Return the PIN from a file that only its owner can read, from a prompt or from the environment, else an empty text.

    Remove it from the environment, so that neither apps nor commands get it.

    Raises:
        ConfigError: the file cannot be used.
        UsageError: nothing was typed.
    """
    found = environ.pop(PIN_VARIABLE, "").strip()
    if file:
        return read_secret_file(file)
    if not asks:
        return found
    typed = getpass.getpass("PIN: ") if sys.stdin.isatty() else sys.stdin.readline()
    if not typed.strip():
        raise UsageError("no PIN was entered", f"Type one at the prompt, use --pin-file, or set {PIN_VARIABLE}.")
    return typed.strip()


def serve(make_tab: MakeTab, workspace: Path, host: str, port: int, pin: str) -> int:
    """Serve the app on a workspace until a signal comes.  Return the exit code.

    Raises:
        UsageError: the address may not be served on, or the port is taken.
    """
    check_address(host, pin)
    if not 0 <= port <= _MOST_PORT:
        raise UsageError(f"no port {port}", f"It is a number up to {_MOST_PORT}; 0 takes a free one.")
    port = port or _free_port(host)
    os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
    for name in ("TMUX", "SSH_CONNECTION", "SSH_TTY", "NO_COLOR"):  # the browser is another terminal than this one
        os.environ.pop(name, None)
    links = 0

    def tell(link: str) -> None:
        nonlocal links
        links += 1
        words = "One link, for one browser:" if links == 1 else "For another browser:"
        print(words, link, flush=True, file=sys.__stdout__)  # an app that runs has taken sys.stdout

    print(f"lmtui on {workspace}; ctrl+c stops it. Each tab has its own screen; sessions keep running in the host.", flush=True)
    server = WebServer(make_tab, host, port, AccessControl(names_of(host, port), pin), tell)
    asyncio.run(server.run())
    return 0


def _cells(request: web.Request, name: str, default: int) -> int:
    given = request.query.get(name, "")
    return int(given) if given.isdecimal() and len(given) < 6 else default


def _free_port(host: str) -> int:
    """Return a port that is free now, as the link and the door have to name one before it is served on."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        with socket.socket(family) as probe:
            probe.bind((host, 0))
            return int(probe.getsockname()[1])
    except OSError as error:
        raise UsageError(f"nothing can be served on {host}: {error.strerror}", "Choose another with --host.") from error


async def _no_icon(_: web.Request) -> web.Response:
    return web.Response(status=204)


async def _focus_script(_: web.Request) -> web.Response:
    return web.Response(text=FOCUS_SCRIPT, content_type="text/javascript")


def _own_addresses() -> list[str]:
    import psutil  # noqa: PLC0415  (only who serves to other machines needs it)

    found = [each.address for addresses in psutil.net_if_addrs().values() for each in addresses]
    return [f"[{each}]" if ":" in each else each for each in (address.partition("%")[0] for address in found)]
