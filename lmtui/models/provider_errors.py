"""What went wrong at a model server, in words that name it and the way out."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, replace

from lmtui.core.errors import ContextOverflow, Fault, ProviderError
from lmtui.core.messages import RetryChunk, StreamChunk
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import KEY_HINT

PASSING = frozenset({Fault.UNREACHABLE, Fault.BUSY, Fault.LOADING, Fault.SERVER_ERROR, Fault.CUT})
"""Faults that pass by themselves: the request may be sent again."""

_OWN_LIMIT = re.compile(r"max_(?:completion_|new_|output_)?tokens|(?:completion|output|new) tokens", re.IGNORECASE)
_FIELD = re.compile(r" \(field [^)]*\)$")  # that a value does not fit in says nothing of the window
_CODES = re.compile(r'"(?:code|type)"\s*:\s*"([^"]+)"')
_UNIT = (
    r"(?:context|tokens?\b|window|prompt(?! cache key)|n ctx|n positions|inputs?\b(?! should| image)|上下文|(?:输入|最大)长度"
    r"|(?:model|seq\w*|session|query|current|total) len|kontext|contesto|контекст|コンテキスト|컨텍스트)"
)
_OVER = (
    r"(?:exceed(?!\w* (?:the )?(?:time|deadline|\d+ ?m?s\b))|overflow|too (?:long|large|many|big)|(?:long|larg|great)er than"
    r"|(?:not|n't) fit|surpass|\bover (?:the )?(?=\d)|no room|超过|超出|超限|[过太]长"
    r"|\bvoll\b|überschr|supera|dépass|превы|超え|초과)"
)
_LIMIT = (
    r"(?:(?:more|less|fewer) than|at most|(?:support|allow)s? up to|max|limit|not enough|[<>]=?|only|\[\d+,"
    r"|too (?:long|large|big) for|context (?:size|length|is)|n ctx|n positions|not possible)"
)
_FULL = r"reduce the length|beyond.{0,40}n positions|(?:kv ?cache|context|window)\D{0,20}\bfull\b"
_OTHER = re.compile(r"quota|afford|credits?\b|billing|rate limit|per (?:second|minute|hour|day)|\btop [kp]\b", re.I)
_OF_REQUEST = re.compile(r"context|prompt|input|window|messages|length|request", re.I)
_NO_LIMIT = r"(?<![\d.])(?<!by )(?<!prompt of )"
_TOKENS = rf"{_NO_LIMIT}(\d{{1,3}}(?:,\d{{3}})+|\d{{3,8}})(?![\d,]*(?: ?(?:m?s|sec\w*|\w?i?b|bytes?|char\w*)\b| ?>|\d))"
_OVERFLOW = re.compile(rf"{_UNIT}.{{0,40}}{_OVER}|{_OVER}.{{0,40}}{_UNIT}|{_FULL}", re.IGNORECASE)
_NEAR_LIMIT = re.compile(
    rf"{_UNIT}.{{0,80}}{_LIMIT}\D{{0,60}}{_TOKENS}|{_LIMIT}\D{{0,60}}{_TOKENS}.{{0,80}}{_UNIT}", re.IGNORECASE
)
_WINDOW = re.compile(rf"(?:{_OVER}|{_LIMIT})(?<!too long)(?<!too large)(?<!no room)(?<!voll)\D{{0,60}}{_TOKENS}", re.IGNORECASE)
_PAIR = re.compile(rf"{_TOKENS} ?/ ?{_TOKENS}")
_NO_MODEL = re.compile(r"model.{0,80}(?:not found|does not exist|not loaded|no such|unknown|invalid)|no models? loaded", re.I)
_LOADING = re.compile(r"loading|is starting|not ready", re.IGNORECASE)
_NO_MEMORY = re.compile(
    r"insufficient (?:system )?resources|not enough (?:resources|memory)|out of memory|requires more system memory"
    r"|(?:unable|failed) to allocate|cudaMalloc|ErrorOutOfDeviceMemory",
    re.IGNORECASE,
)
_TEMPLATE = re.compile(r"jinja|chat template|roles must alternate", re.IGNORECASE)  # it will refuse the same again
_TITLE = re.compile(r"<title[^>]*>([^<]+)", re.IGNORECASE)
_TAG = re.compile(r"<[^<>]*>")
_NO_TOOLS = re.compile(r"does not support tools|requires --jinja|--enable-auto-tool-choice", re.IGNORECASE)


def unreachable(url: str, why: str) -> ProviderError:
    """Return the error for a server that does not answer at all."""
    return ProviderError(
        Fault.UNREACHABLE,
        f"no model server answers at {url} ({why})",
        "Start it, or name another with --url; `lmtui models` shows what is running, `lmtui demo` needs none.",
    )


def not_a_server(url: str, content_type: str, start: str) -> ProviderError:
    """Return the error for something that answers but is not a model server."""
    kind = content_type.partition(";")[0] or "no content type"
    return ProviderError(
        Fault.NOT_A_MODEL_SERVER,
        f"{url} answers, but not as a model server (it sent {kind}: {sanitize_line(start[:60])!r})",
        "Check the address: it should be like http://127.0.0.1:1234/v1.",
    )


def status_error(url: str, model: str, status: int, body: str, content_type: str = "") -> ProviderError:
    """Return the error for an HTTP status of 400 and above."""
    said = error_text(body)
    if status in (408, 409, 429):
        return ProviderError(Fault.BUSY, f"{url} is busy (HTTP {status}: {said})", "Wait a little and try again.")
    if status == 503 and _LOADING.search(said):
        return ProviderError(Fault.LOADING, f"{url} is still loading the model", "A large model takes minutes to load.")
    if status not in (401, 402, 403, 404) and (full := overflow(said, body, is_too_large=status == 413)):
        return full
    if _NO_TOOLS.search(said):
        hint = "Set call_form to text, or start the server with tool calls."
        return ProviderError(Fault.NO_TOOLS, f"{url} takes no tools for {model or 'its model'}: {said}", hint)
    if "html" in content_type and (status < 500 or status == 501):
        return not_a_server(url, content_type, body.strip())
    if status in (401, 403):
        return ProviderError(Fault.KEY_REFUSED, f"{url} requires a valid API key (HTTP {status})", KEY_HINT)
    if _NO_MODEL.search(said) or (status == 404 and "model" in said.lower()):
        hint = "`lmtui models` lists what the server has; choose with --model."
        return ProviderError(Fault.UNKNOWN_MODEL, f"{url} has no model {model!r}: {said}", hint)
    if status == 404:
        return not_a_server(url, content_type or "HTTP 404", said)
    if status >= 500 and not _TEMPLATE.search(said):  # what a gateway says whose model server is away will pass
        fault = Fault.BUSY if status in (502, 503, 504) else Fault.SERVER_ERROR
        return ProviderError(fault, f"{url} failed (HTTP {status}: {said})", "Look at the server's log.")
    return ProviderError(Fault.REJECTED, f"{url} rejects the request (HTTP {status}: {said})", "Look at the server's log.")


def load_failed(url: str, model: str, status: int, body: str, *, verb: str = "load") -> ProviderError:
    """Return the error for a model that could not be loaded or unloaded; `status` 0: no answer came, `body` says why."""
    said = error_text(body)
    if not status:
        return unreachable(url, said)
    if _NO_MEMORY.search(said):
        hint = "Unload another model, or ask for a smaller window."
        return ProviderError(Fault.REJECTED, f"{url} has no memory for {model}: {said}", hint)
    if status in (401, 403):
        hint = f"{KEY_HINT} In LM Studio, the key also needs permission to load models."
        return ProviderError(Fault.KEY_REFUSED, f"{url} requires a valid API key (HTTP {status})", hint)
    if status == 404 or _NO_MODEL.search(said):
        hint = "Look again to see what it has."
        return ProviderError(Fault.UNKNOWN_MODEL, f"{url} has no model {model!r} to {verb}: {said}", hint)
    return ProviderError(Fault.SERVER_ERROR, f"{url} could not {verb} {model}: {said}", "Look at the server's log.")


def stream_error(error: object) -> ProviderError:
    """Return the error for an error object inside a stream that had begun well."""
    said = error_text(json.dumps({"error": error}, default=str))
    if full := overflow(said, json.dumps(error, default=str)):
        return full
    return ProviderError(Fault.STREAM_ERROR, f"the server broke off with an error: {said}", "Look at the server's log.")


def overflow(said: str, body: str, *, is_too_large: bool = False) -> ContextOverflow | None:
    """Return the error for a request that is larger than the window, None where a text does not speak of that.

    Each server says it otherwise, and in each version: what counts is a word for what is full close to one for too much, or
    to a limit in tokens.  The number behind the limit is the window, and the smaller one of `5000/4096`.
    """
    text, own_limits = _OWN_LIMIT.subn("", " ".join((_FIELD.sub("", said), *_CODES.findall(body))))
    text = text.replace("_", " ")
    match = re.search(r'"n_ctx"\s*:\s*(\d{1,9})\b', body)
    is_other = _OTHER.search(text) or (own_limits and not _OF_REQUEST.search(text))
    if not match and not is_too_large and (is_other or not (_OVERFLOW.search(text) or _NEAR_LIMIT.search(text))):
        return None
    match = match or _PAIR.search(text) or _WINDOW.search(text)
    window = min(int(each.replace(",", "")) for each in match.groups()) if match else 0
    size = f" of {window:,} tokens" if window else ""
    return ContextOverflow(
        f"the request does not fit the model's window{size}: {said}",
        "Start a new session, or load the model with a larger context.",
        window,
    )


def error_text(body: str) -> str:
    """Return the message inside an error body of any server, cleaned, at most 300 characters."""
    try:
        value: object = json.loads(body)
    except (ValueError, RecursionError):
        value = body
    for key in ("error", "message", "detail"):
        if isinstance(value, dict) and value.get(key):
            value = value[key]
            if isinstance(value, dict):  # with what a gateway was told, and the field that is meant
                behind = value["metadata"] if isinstance(value.get("metadata"), dict) else {}
                found = " ".join(each for each in (value.get("message"), behind.get("raw")) if isinstance(each, str))
                param = value.get("param")
                value = f"{found} (field {param})" if isinstance(param, str) and param not in found else found or value
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if text.lstrip()[:1] == "<":  # a page: its title, else its words without the tags
        title = _TITLE.search(text)
        text = title[1] if title and title[1].strip() else _TAG.sub(" ", text)
    return sanitize_line(" ".join(text.split()))[:300] or "no reason given"


_GONE_DELAY_S = 3.0


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How faults that pass are waited for.

    `retries` counts attempts after the first; the wait doubles from `first_delay_s` to `max_delay_s`, or is what the server
    asks for.  A server that loads a model is asked every `loading_delay_s` up to `loading_limit_s`, whatever `retries` says;
    one that has answered before and is gone (it is being restarted) up to `gone_limit_s`.
    """

    retries: int = 3
    first_delay_s: float = 0.5
    max_delay_s: float = 20.0
    loading_delay_s: float = 1.0
    loading_limit_s: float = 900.0
    gone_limit_s: float = 0.0

    def for_known_server(self) -> RetryPolicy:
        """Return how long a server is waited for that has answered before; without retries at all it is not."""
        return replace(self, gone_limit_s=self.loading_limit_s) if self.retries else self


async def with_retries(
    attempt: Callable[[], AsyncGenerator[StreamChunk, None]], policy: RetryPolicy
) -> AsyncGenerator[StreamChunk, None]:
    """Yield the pieces of the first attempt that succeeds, and a `RetryChunk` before each further one.

    Raises:
        ProviderError: the last attempt's, or the first that no waiting repairs.
    """
    failures = 0
    loading_s = gone_s = 0.0
    while True:
        pieces = attempt()
        try:
            async with contextlib.aclosing(pieces):
                async for piece in pieces:
                    yield piece
            return
        except ProviderError as error:
            if error.fault not in PASSING:
                raise
            if error.fault is Fault.UNREACHABLE and gone_s < policy.gone_limit_s:
                wait_s = min(policy.first_delay_s + gone_s / 2, _GONE_DELAY_S)
                gone_s += wait_s
                retry = RetryChunk(0, 0, wait_s, f"waiting for the server: {error}")
            else:
                if error.fault is Fault.LOADING and loading_s < policy.loading_limit_s:
                    wait_s = error.retry_after_s or policy.loading_delay_s
                    loading_s += wait_s
                elif failures < policy.retries:
                    wait_s = error.retry_after_s or min(policy.first_delay_s * 2**failures, policy.max_delay_s)
                    failures += 1
                else:
                    raise
                retry = RetryChunk(failures, policy.retries, wait_s, str(error))
        yield retry
        await asyncio.sleep(retry.wait_s)
