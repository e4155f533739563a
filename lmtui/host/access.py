"""Who may use the API of a host: a token in a private file, and checks of every request before a route sees it.

Nothing here knows of sessions.  A token is never taken from an address and never written anywhere but into its file.
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import json
import logging
import os
import secrets
import stat
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmtui.core.errors import ConfigError

FILE_NAME = "host.token"
_LEAST_TOKEN_CHARS, _MOST_TOKEN_BYTES = 32, 4096
MOST_FAILURES, FAILURES_S = 10, 60.0
_MOST_CLIENTS = 4096
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HINT = "Send the header `Authorization: Bearer TOKEN`; `lmtui host status` names the file with the token."
Headers = list[tuple[bytes, bytes]]
Refusal = tuple[int, bytes, Headers]
"""The status, body and headers of an answer to a request that may not pass."""
_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


def ensure_token(folder: Path) -> str:
    """Return the token of this user's host, made on the first use: a file (0600) in a private folder (0700).

    Blocks (disk).

    Raises:
        ConfigError: the folder or the file cannot be made, belongs to another user, or can be read by others.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder, folder.lstat(), is_folder=True)
        with contextlib.suppress(FileExistsError):
            _make(path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}", "Make its folder writable.") from error


def read_token(path: Path) -> str:
    """Return the token in a file.  Blocks (disk).

    Raises:
        ConfigError: it cannot be read, holds no token, belongs to another user, or can be read by others.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Start the host: `lmtui host start`.") from error
    try:
        _check_private(path, os.fstat(descriptor), is_folder=False)
        token = os.read(descriptor, _MOST_TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < _LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} does not contain a token", "Delete it; the host makes a new one.")
    return token


def _make(path: Path) -> None:
    """Write a new token whole or not at all; one that is there stays.

    Raises:
        FileExistsError: there is one.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            _ = file.write(secrets.token_urlsafe(32) + "\n")
        path.hardlink_to(draft)  # fails where somebody was quicker
    finally:
        draft.unlink()


def _check_private(path: Path, found: os.stat_result, *, is_folder: bool) -> None:
    is_kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not is_kind:
        raise ConfigError(f"{path} is not a {'folder' if is_folder else 'regular file'}", "Remove it.")
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user", "Remove it, or set LMTUI_HOME to a folder of your own.")
    if found.st_mode & 0o077:
        raise ConfigError(
            f"{path} can be read by other users", f"Run `chmod {'700' if is_folder else '600'} {path}`, then delete the token."
        )


def is_same(text: str, secret: str) -> bool:
    """Compare in a time that tells nothing; what was sent may not be text."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


def error_body(kind: str, message: str, hint: str = "", **more: object) -> bytes:
    """Return the one form of errors, as JSON."""
    return json.dumps({"error": {"type": kind, "message": message, "hint": hint, **more}}, ensure_ascii=False).encode()


class Recent(OrderedDict[str, _Value]):
    """The values that were set last, at most so many."""

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: str, value: _Value) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self._most:
            _ = self.popitem(last=False)


class Failures:
    """Counts wrong tokens by client, for a minute each."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._counts = Recent[tuple[float, int]](_MOST_CLIENTS)

    def add(self, client: str) -> None:
        """Count one more."""
        now = self._clock()
        begun, count = self._counts.pop(client, (now, 0))
        self._counts[client] = (now, 1) if now - begun >= FAILURES_S else (begun, count + 1)

    def wait_s(self, client: str) -> float:
        """Return how long a client has to wait before its next attempt counts, 0 where it need not."""
        begun, count = self._counts.get(client, (0.0, 0))
        return max(0.0, begun + FAILURES_S - self._clock()) if count >= MOST_FAILURES else 0.0


class ApiAccess:
    """Lets requests through that have the token and come from nowhere else.

    A right token always passes: who guesses wrong is slowed down, and locks nobody else out who has the same address.

    Args:
        token: what clients send.
        names: what this machine may be called in requests, next to its loopback names; without ports.
        origins: the web pages that may use the API; all others are refused, with or without a token.
    """

    def __init__(
        self, token: str, *, names: Iterable[str] = (), origins: Iterable[str] = (), failures: Failures | None = None
    ) -> None:
        if len(token) < _LEAST_TOKEN_CHARS:
            raise ConfigError("the token of the API is too short", f"Use at least {_LEAST_TOKEN_CHARS} characters.")
        self._token = token
        self._names = frozenset(each.lower() for each in (*LOCAL_NAMES, *map(bracketed, names)))
        self._origins = frozenset(each.lower().rstrip("/") for each in origins)
        self._failures = failures or Failures()
        self.is_closing = False

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return an application that checks each request before another one sees it."""
        return guarded(app, self._refusal, lambda scope: _cors(_single(scope["headers"]).get(b"origin", "")))

    def _refusal(self, scope: Scope) -> Refusal | None:
        """Return how a request is refused, None where it may pass."""
        headers = _single(scope["headers"])
        host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
        if not is_known_name(host, scope, self._names):
            text = "this host is not known by that name"
            return 403, error_body("forbidden", text, "Add the name to the setting host_names."), []
        if origin and origin.lower().rstrip("/") not in self._origins:
            text = "this request comes from a web page that is not allowed"
            return 403, error_body("forbidden", text, "Add its origin to the setting host_names."), []
        if origin and scope.get("method") == "OPTIONS" and b"access-control-request-method" in headers:
            return 204, b"", _preflight(origin)
        if (refused := self._check_token(headers.get(b"authorization", ""), scope)) is not None:
            return refused
        if self.is_closing:
            return 503, error_body("closing", "the host is closing", "Try again once it runs."), [(b"retry-after", b"2")]
        return None

    def _check_token(self, given: str, scope: Scope) -> Refusal | None:
        scheme, _, token = given.partition(" ")
        if scheme.lower() == "bearer" and is_same(token.strip(), self._token):
            return None
        asks = [(b"www-authenticate", b'Bearer realm="lmtui"')]
        if not given:
            return 401, error_body("unauthorized", "missing token", _HINT), asks
        client = scope["client"][0] if scope.get("client") else "local"
        if wait_s := self._failures.wait_s(client):
            seconds = str(int(wait_s) + 1)
            body = error_body("rate_limited", "too many wrong tokens", f"Wait {seconds} s.")
            return 429, body, [(b"retry-after", seconds.encode())]
        self._failures.add(client)
        return 401, error_body("unauthorized", "wrong token", _HINT), asks


def is_known_name(host: str, scope: Scope, names: Collection[str]) -> bool:
    """Tell whether a request was sent to one of these names, or to the very address that it came in at."""
    name = host.lower()
    bare, _, port = name.rpartition(":")
    if bare and port.isdecimal() and (":" not in bare or bare.startswith("[")):
        name = bare
    bound = scope["server"][0] if scope.get("server") else ""
    return name in names or (_is_address(bound) and name == bracketed(bound))


_SAFE = [
    (b"cache-control", b"no-store"),
    (b"x-content-type-options", b"nosniff"),
    (b"content-security-policy", b"default-src 'none'; frame-ancestors 'none'"),
    (b"referrer-policy", b"no-referrer"),
]


def guarded(app: ASGIApp, refusal_of: Callable[[Scope], Refusal | None], headers_of: Callable[[Scope], Headers]) -> ASGIApp:
    """Return an application that another one's requests go through.

    Args:
        app: sees those that are not refused.
        refusal_of: says how a request is refused, None where it may pass.
        headers_of: returns what each answer has next to the safe headers, of which it may replace one.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        if (refusal := refusal_of(scope)) is not None:
            _log.info("refused %s %s: %s", scope.get("method", "WS"), scope["path"][:100], refusal[0])
            await _refuse(scope, receive, send, refusal)
            return
        more = headers_of(scope)
        names = dict(more)
        added = [*(each for each in _SAFE if each[0] not in names), *more]

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", ()), *added]}
            await send(message)

        await app(scope, receive, answer)

    return guard


def _is_address(name: str) -> bool:
    try:
        _ = ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def bracketed(name: str) -> str:
    """Return an address as it is written in a URL."""
    return f"[{name}]" if ":" in name and not name.startswith("[") else name


def _cors(origin: str) -> Headers:
    return [(b"access-control-allow-origin", origin.encode("latin-1")), (b"vary", b"Origin")] if origin else []


def _preflight(origin: str) -> Headers:
    return [
        *_cors(origin),
        (b"access-control-allow-methods", b"GET, POST, PATCH, DELETE"),
        (b"access-control-allow-headers", b"Authorization, Content-Type, Last-Event-ID, X-Session-Id, X-Folder"),
        (b"access-control-max-age", b"600"),
    ]


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers by name; of one that is there twice a text that is nothing."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        found[name] = "?" if name in found else value.decode("latin-1")
    return found


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Refusal) -> None:
    """Answer a request that may not pass; its body is not read, so the connection ends with it."""
    status, body, headers = refusal
    kind: Headers = [(b"content-type", b"application/json")] if body else []
    all_headers = [*headers, *kind, (b"content-length", str(len(body)).encode()), (b"connection", b"close"), *_SAFE]
    start, rest = "http.response.start", "http.response.body"
    if scope["type"] == "websocket":
        _ = await receive()
        if "websocket.http.response" not in scope.get("extensions", {}):
            await send({"type": "websocket.close", "code": 1008})
            return
        start, rest = f"websocket.{start}", f"websocket.{rest}"
        all_headers = [each for each in all_headers if each[0] != b"connection"]
    await send({"type": start, "status": status, "headers": all_headers})
    await send({"type": rest, "body": body})


def parse_json(data: bytes, most_depth: int = 32) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested too deeply.
    """
    value = from_json(data, allow_inf_nan=False)  # refuses more than 200 levels by itself
    if _depth(value) > most_depth:
        raise ValueError(f"nested more than {most_depth} deep")
    return value


def _depth(value: Any) -> int:
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else None
    return 0 if inner is None else 1 + max(map(_depth, inner), default=0)
