"""Who may use the API of a host: checks of every request.  Nothing here knows of sessions."""

from __future__ import annotations

import hmac
import ipaddress
import json
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Any, TypeVar

from pydantic_core import from_json
from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lmtui.core.errors import ConfigError
from lmtui.host.connect import LEAST_TOKEN_CHARS

MOST_FAILURES, FAILURES_S = 10, 60.0
_MOST_CLIENTS = 4096
LOCAL_NAMES = ("localhost", "127.0.0.1", "[::1]")
_HINT = "Send the header `Authorization: Bearer TOKEN`; `lmtui host status` names the file with the token."
JSON = "application/json"
_log = logging.getLogger(__name__)
_Value = TypeVar("_Value")


def is_same(text: str, secret: str) -> bool:
    """Compare in a time that tells nothing; what was sent may not be text."""
    return hmac.compare_digest(text.encode("utf-8", "surrogatepass"), secret.encode("utf-8", "surrogatepass"))


def error_body(kind: str, message: str, hint: str = "", **more: object) -> bytes:
    """Return the one form of errors, as JSON."""
    return json.dumps({"error": {"type": kind, "message": message, "hint": hint, **more}}, ensure_ascii=False).encode()


def refused(status: int, kind: str, message: str, hint: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """Return the answer to a request that may not pass."""
    return Response(error_body(kind, message, hint), status, headers, JSON)


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

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_FAILURES) -> None:
        self._clock, self._most = clock, most
        self._counts = Recent[tuple[float, int]](_MOST_CLIENTS)

    def add(self, client: str) -> None:
        """Count one more."""
        now = self._clock()
        begun, count = self._counts.pop(client, (now, 0))
        self._counts[client] = (now, 1) if now - begun >= FAILURES_S else (begun, count + 1)

    def wait_s(self, client: str) -> float:
        """Return how long a client has to wait before its next attempt counts, 0 for not at all."""
        begun, count = self._counts.get(client, (0.0, 0))
        return max(0.0, begun + FAILURES_S - self._clock()) if count >= self._most else 0.0


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
        if len(token) < LEAST_TOKEN_CHARS:
            raise ConfigError("the token of the API is too short", f"Use at least {LEAST_TOKEN_CHARS} characters.")
        self._token = token
        self._names = frozenset(each.lower() for each in (*LOCAL_NAMES, *map(bracketed, names)))
        self._origins = frozenset(each.lower().rstrip("/") for each in origins)
        self._failures = failures or Failures()
        self.is_closing = False

    def guard(self, app: ASGIApp) -> ASGIApp:
        """Return an application that checks each request before another one sees it."""
        return guarded(app, self._refusal, lambda scope: _cors(_single(scope["headers"]).get(b"origin", "")))

    def _refusal(self, scope: Scope) -> Response | None:
        """Return how a request is refused, None where it may pass."""
        headers = _single(scope["headers"])
        host, origin = headers.get(b"host", ""), headers.get(b"origin", "")
        if not is_known_name(host, scope, self._names):
            return refused(403, "forbidden", "this host is not known by that name", "Add the name to the setting host_names.")
        if origin and origin.lower().rstrip("/") not in self._origins:
            text = "this request comes from a web page that is not allowed"
            return refused(403, "forbidden", text, "Add its origin to the setting host_names.")
        if origin and scope.get("method") == "OPTIONS" and b"access-control-request-method" in headers:
            return Response(status_code=204, headers={**_cors(origin), **_PREFLIGHT})
        if (found := self._check_token(headers.get(b"authorization", ""), scope)) is not None:
            return found
        if self.is_closing:
            return refused(503, "closing", "the host is closing", "Try again once it runs.", {"retry-after": "2"})
        return None

    def _check_token(self, given: str, scope: Scope) -> Response | None:
        scheme, _, token = given.partition(" ")
        if scheme.lower() == "bearer" and is_same(token.strip(), self._token):
            return None
        asks = {"www-authenticate": 'Bearer realm="lmtui"'}
        if not given:
            return refused(401, "unauthorized", "missing token", _HINT, asks)
        client = scope["client"][0] if scope.get("client") else "local"
        if wait_s := self._failures.wait_s(client):
            seconds = str(int(wait_s) + 1)
            return refused(429, "rate_limited", "too many wrong tokens", f"Wait {seconds} s.", {"retry-after": seconds})
        self._failures.add(client)
        return refused(401, "unauthorized", "wrong token", _HINT, asks)


def is_known_name(host: str, scope: Scope, names: Collection[str]) -> bool:
    """Tell whether a request was sent to one of these names, or to the address that it came in at."""
    name = host.lower()
    bare, _, port = name.rpartition(":")
    if bare and port.isdecimal() and (":" not in bare or bare.startswith("[")):
        name = bare
    bound = scope["server"][0] if scope.get("server") else ""
    return name in names or (_is_address(bound) and name == bracketed(bound))


_SAFE = {
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'",
    "referrer-policy": "no-referrer",
}


def guarded(
    app: ASGIApp, refusal_of: Callable[[Scope], Response | None], headers_of: Callable[[Scope], Mapping[str, str]]
) -> ASGIApp:
    """Return an application that another one's requests go through.

    Args:
        app: sees those that are not refused.
        refusal_of: says how a request is refused, None where it may pass.
        headers_of: returns what each answer has next to the safe headers, of which it may replace one as the answer may.
    """

    async def guard(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] not in ("http", "websocket"):
            await app(scope, receive, send)
            return
        if (refusal := refusal_of(scope)) is not None:
            _log.info("refused %s %s: %s", scope.get("method", "WS"), scope["path"][:100], refusal.status_code)
            await _refuse(scope, receive, send, refusal)
            return
        added = {**_SAFE, **headers_of(scope)}

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.update({name: value for name, value in added.items() if name not in headers})
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


def _cors(origin: str) -> dict[str, str]:
    return {"access-control-allow-origin": origin, "vary": "Origin"} if origin else {}


_PREFLIGHT = {
    "access-control-allow-methods": "GET, POST, PATCH, DELETE",
    "access-control-allow-headers": "Authorization, Content-Type, Last-Event-ID, X-Session-Id",
    "access-control-max-age": "600",
}


def _single(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    """Return the headers by name; of one that is there twice a text that is nothing."""
    found: dict[bytes, str] = {}
    for name, value in headers:
        found[name] = "?" if name in found else value.decode("latin-1")
    return found


async def _refuse(scope: Scope, receive: Receive, send: Send, refusal: Response) -> None:
    """Answer a request that may not pass; its body is not read, so the connection ends with it."""
    refusal.headers.update(_SAFE)
    if scope["type"] == "http":
        refusal.headers["connection"] = "close"
    else:
        _ = await receive()
    await refusal(scope, receive, send)


def parse_json(data: bytes) -> Any:
    """Return what JSON says.

    Raises:
        ValueError: it is not JSON, not UTF-8, or nested more than 200 deep.
    """
    return from_json(data, allow_inf_nan=False)
