"""The routes of the HTTP API as a table, and what their handlers share.

From the table come both what Starlette serves and the OpenAPI page.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from inspect import Parameter, signature
from itertools import chain
from pathlib import Path
from typing import Any, Literal, TypeVar, get_type_hints

from pydantic import BaseModel, TypeAdapter, ValidationError, create_model
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from lmtui import __version__
from lmtui.app.host import Runtime
from lmtui.core import errors
from lmtui.core.errors import LmtuiError
from lmtui.core.messages import Image
from lmtui.core.sessions import Session
from lmtui.host import wire
from lmtui.host.access import JSON, Recent, error_body, parse_json
from lmtui.host.feed import EVENT_STREAM, HEARTBEAT_S, EventFeed
from lmtui.host.hub import SessionHub
from lmtui.host.wire import SESSION_ID, ErrorBody, Wire

BODY_TIMEOUT_S = 30.0
JSON_BYTES = 2_000_000
UPLOAD_BYTES, MOST_UPLOADS, UPLOAD_S = 5_000_000, 20, 3600.0
_MOST_KEYS, _MOST_CONVERSATIONS = 10_000, 1_000
_IN_A_THREAD_BYTES = 100_000
_LINGER_S, _LINGER_BYTES = 1.0, 16_000_000
KINDS = {
    400: "bad_request",
    401: "unauthorized",
    403: "forbidden",
    404: "not_found",
    405: "method_not_allowed",
    408: "timeout",
    409: "conflict",
    413: "too_large",
    415: "unsupported_media_type",
    422: "invalid_request",
    429: "rate_limited",
    500: "internal_error",
    502: "model_server_error",
    503: "closing",
}
_BUSY = (errors.SessionFileError, errors.JobsError, errors.ToolError, errors.SandboxError)
_STATUS = ((errors.NotFound, 404), (errors.ProviderError, 502), (_BUSY, 409), (errors.ConfigError, 500))
_NONE = Parameter.empty
_Adapters = list[tuple[str, Literal["validation", "serialization"], TypeAdapter[Any]]]
_Handler = TypeVar("_Handler", bound=Callable[..., Any])


class ApiError(LmtuiError):
    """A request that is answered with an error; `more` are further fields of it."""

    def __init__(self, status: int, message: str, hint: str = "", **more: object) -> None:
        super().__init__(message, hint)
        self.status = status
        self.more = more


@dataclass(frozen=True, slots=True)
class Uploaded:
    """What a client sent, to be attached to a message: a picture, or a text."""

    info: wire.Upload
    content: Image | str


class ApiContext:
    """What the handlers share; ends with the host.

    Args:
        hub: the sessions.
        heartbeat_s: between heartbeats.
    """

    def __init__(self, hub: SessionHub, *, heartbeat_s: float = HEARTBEAT_S) -> None:
        self.hub, self.heartbeat_s = hub, heartbeat_s
        self.feed = EventFeed(hub)
        self.begun = time.monotonic()
        self.uploads = Recent[Uploaded](MOST_UPLOADS)
        self.conversations = Recent[tuple[str, int]](_MOST_CONVERSATIONS)  # a session and its last event, by what was said
        self.done = Recent[None](_MOST_KEYS)

    async def runtime(self, folder: str = "") -> Runtime:
        """Return the runtime of a folder that clients may use; without a name that of the first.

        Raises:
            LmtuiError: there is none, or it cannot be opened.
        """
        return await self.hub.runtime(self.folder(folder))

    async def new_session(self, runtime: Runtime) -> Session:
        """Open a new session; without a model server in the settings, the first one that is found is used.

        Raises:
            LmtuiError: there is none, or the session cannot be opened.
        """
        if runtime.setup_note:
            _ = await runtime.choose_server()
        return await runtime.new_session()

    def folder(self, folder: str = "") -> Path:
        """Return a folder that clients may use; without a name the first.

        Raises:
            LmtuiError: it is none of those.
        """
        if folder:
            return self.hub.allowed(folder)
        if not self.hub.folders:
            hint = "Run `lmtui attach` in one, or add it to the setting host_folders."
            raise ApiError(422, "no folder is open to clients", hint)
        return self.hub.folders[0]

    def take(self, ids: Sequence[str]) -> list[Uploaded]:
        """Return uploads, which are gone then.

        Raises:
            ApiError: one is not there; none is gone.
        """
        if missing := [each for each in ids if each not in self.uploads]:
            raise ApiError(404, f"no upload {missing[0][:40]}", "Upload it again: `POST /v1/uploads`.")
        return [self.uploads.pop(each) for each in dict.fromkeys(ids)]

    def is_first(self, key: str) -> bool:
        """Tell whether something with this key was not done before, and remember it."""
        is_first = key not in self.done
        self.done[key] = None
        return is_first


class Endpoint(Route):
    """One method of one path, carried out by a handler.

    The handler is given what its parameters name: `api`, `request`, the `session` of the path or another part of it, and the
    `body` or its `data`; those with a default are parameters of the query.  Its types say what these have to be, and what it
    answers.  The first line of its docstring is the summary.  A name of Python's own gets a `_` behind it.

    Args:
        answer: the type of what comes back where the handler returns a whole response.
        also: another status with which it may come back then.
        media: the type of an answer that is neither JSON nor a stream of events.
        most_bytes: the limit of the body.
    """

    def __init__(
        self,
        method: str,
        path: str,
        handle: Callable[..., Awaitable[Any]],
        *,
        answer: Any = None,
        status: int = 200,
        also: int = 0,
        media: str = "",
        most_bytes: int = JSON_BYTES,
    ) -> None:
        super().__init__(path, self.answer_request, methods=[method])
        hints = get_type_hints(handle, include_extras=True)
        returned, given = hints.pop("return"), signature(handle).parameters
        in_query: dict[str, Any] = {
            name.rstrip("_"): (hints[name], given[name].default) for name in hints if given[name].default is not _NONE
        }
        self.method, self.most_bytes = method, most_bytes
        self.operation = re.sub(r"\W+", "_", f"{method.lower()}{path}").strip("_")
        self.summary = str(handle.__doc__).partition("\n")[0].rstrip(".")
        self.query = create_model("Query", __base__=Wire, **in_query)
        self.body: type[BaseModel] | None = hints.get("body")
        self.has_data = "data" in hints
        answer = answer if returned in (Response, type(None)) else returned
        self.answer = TypeAdapter(answer) if answer is not None else None
        self.media = media or (JSON if self.answer else EVENT_STREAM)
        self.status = 204 if returned is type(None) else status
        self.statuses = {self.status, also or self.status}
        self._handle, self._takes = handle, {name: name.rstrip("_") for name in hints}

    async def answer_request(self, request: Request) -> Response:
        """Check a request, have it handled and return the answer."""
        api: ApiContext = request.app.state.api
        try:
            given: dict[str, Any] = {"api": api, "request": request, **await self._read(request)}
            if "session" in self._takes:
                given["session"] = await api.hub.session(given["id"])
            found = await self._handle(**{name: given[told] for name, told in self._takes.items()})
        except ClientDisconnect:
            return Response(status_code=499)
        if isinstance(found, Response):
            return found
        if self.answer is None:
            return Response(status_code=self.status)
        return Response(self.answer.dump_json(found), self.status, media_type=JSON)

    async def _read(self, request: Request) -> dict[str, Any]:
        found: dict[str, Any] = {**request.path_params}
        if "id" in found and not re.fullmatch(SESSION_ID, found["id"]):
            raise ApiError(404, "no such session", "`GET /v1/sessions` lists them.")
        pairs = request.query_params.multi_items()
        if len({name for name, _ in pairs}) != len(pairs):
            raise ApiError(422, "a parameter is given twice")
        try:
            found |= dict(self.query.model_validate(dict(pairs)))
            if self.has_data:
                found["data"] = await read_body(request, self.most_bytes)
            elif self.body is not None:
                found["body"] = self.body.model_validate(await _read_json(request, self.most_bytes))
        except ValidationError as error:
            raise ApiError(422, validation_text(error), "See /openapi.json for the accepted values.") from error
        return found


def route(routes: list[Endpoint], method: str, path: str, **more: Any) -> Callable[[_Handler], _Handler]:
    """Add a handler to the routes; `more` goes to `Endpoint`."""

    def add(handler: _Handler) -> _Handler:
        routes.append(Endpoint(method, path, handler, **more))
        return handler

    return add


def validation_text(error: ValidationError) -> str:
    """Return what is wrong with a request, without the values and the branches of unions."""
    found = error.errors(include_url=False, include_context=False, include_input=False)[:5]
    told = [([at for at in map(str, each["loc"]) if "[" not in at], each["msg"]) for each in found]
    return "; ".join(f"{'.'.join(names) or 'body'}: {text}" for names, text in told)[:1_000]


async def _read_json(request: Request, most_bytes: int) -> Any:
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != JSON:
        raise ApiError(415, "the body must be JSON", "Send `Content-Type: application/json`.")
    data = await read_body(request, most_bytes)
    try:
        return await asyncio.to_thread(parse_json, data) if len(data) > _IN_A_THREAD_BYTES else parse_json(data)
    except ValueError as error:
        raise ApiError(422, f"could not read the body as JSON: {str(error)[:200]}") from error


async def read_body(request: Request, most_bytes: int) -> bytes:
    """Return the body; one that is too large is not read to its end."""
    too_large = ApiError(413, f"the body is larger than {most_bytes:,} bytes")
    if int(request.headers.get("content-length", 0)) > most_bytes:  # h11 takes nothing but a number of 20 digits
        raise too_large
    data = bytearray()
    try:
        async with asyncio.timeout(BODY_TIMEOUT_S):
            async for part in request.stream():
                data += part
                if len(data) > most_bytes:
                    raise too_large
    except TimeoutError:
        raise ApiError(408, f"the body did not arrive within {BODY_TIMEOUT_S:.0f} s") from None
    return bytes(data)


async def tell_error(request: Request, error: Exception) -> Response:
    """Return the answer to an error that a handler raised."""
    headers: dict[str, str] = {}
    if isinstance(error, HTTPException):
        if error.status_code == 405:  # Starlette names the methods of one route only
            paths = [each for each in request.app.routes if isinstance(each, Route)]
            methods = (each.methods or () for each in paths if each.path_regex.match(request.url.path))
            headers["allow"] = ", ".join(sorted({*chain(*methods)}))
        error = ApiError(error.status_code, str(error.detail))
    elif not isinstance(error, LmtuiError):
        error = ApiError(500, "something went wrong inside lmtui", "Its log has more.")
    elif not isinstance(error, ApiError):
        status = next((status for kinds, status in _STATUS if isinstance(error, kinds)), 422)
        error = ApiError(status, str(error), error.hint)
    status, more = error.status, error.more
    kind_of_error = KINDS.get(status, "error")
    if request.url.path == "/v1/chat/completions":
        more = {"param": None, "code": kind_of_error, **more}
    body = error_body(kind_of_error, str(error), error.hint, **more)
    kind = _EarlyResponse if status in (408, 413) else Response
    return kind(body, status_code=status, headers=headers, media_type=JSON)


class _EarlyResponse(Response):
    """An answer to a request whose body has not come to its end: the rest is not wanted, and the connection ends.

    A little more of it is taken and dropped, so that a client that is still sending gets to read the answer.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        headers = [*self.raw_headers, (b"connection", b"close")]
        await send({"type": "http.response.start", "status": self.status_code, "headers": headers})
        await send({"type": "http.response.body", "body": self.body, "more_body": True})
        size = 0
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LINGER_S):
                while size < _LINGER_BYTES and (message := await receive()).get("more_body"):
                    size += len(message["body"])
        await send({"type": "http.response.body", "body": b"", "more_body": False})


def openapi_page(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the OpenAPI 3.1 page of the endpoints."""
    adapters: _Adapters = [("error", "serialization", TypeAdapter(ErrorBody))]
    adapters += [(each.operation, "serialization", each.answer) for each in endpoints if each.answer is not None]
    adapters += [(each.operation, "validation", TypeAdapter(each.body)) for each in endpoints if each.body is not None]
    refs, schemas = TypeAdapter.json_schemas(adapters, ref_template="#/components/schemas/{model}")
    paths: dict[str, dict[str, Any]] = {}
    for each in endpoints:
        paths.setdefault(each.path, {})[each.method.lower()] = _operation(each, refs)
    return {
        "openapi": "3.1.0",
        "info": {"title": "lmtui host", "version": __version__},
        "security": [{"token": []}],
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas.get("$defs", {}),
        },
    }


def _operation(endpoint: Endpoint, refs: Mapping[Any, Any]) -> dict[str, Any]:
    """Return what the page says of one endpoint."""
    schema = refs.get((endpoint.operation, "serialization"), {"type": "string"})
    content = {} if endpoint.status == 204 else {"content": {endpoint.media: {"schema": schema}}}
    error = {"content": {JSON: {"schema": refs["error", "serialization"]}}}
    answers = {str(status): {"description": kind, **error} for status, kind in KINDS.items()}
    text, session_id = {"type": "string", "maxLength": 100}, {"type": "string", "pattern": SESSION_ID}
    in_path = {name: session_id if name == "id" else text for name in endpoint.param_convertors}
    in_query = endpoint.query.model_json_schema().get("properties", {})
    found: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.operation,
        "parameters": [
            {"name": name, "in": place, "required": place == "path", "schema": schema}
            for place, schemas in (("path", in_path), ("query", in_query))
            for name, schema in schemas.items()
        ],
        "responses": {**{str(status): {"description": "Done", **content} for status in endpoint.statuses}, **answers},
    }
    if endpoint.body is not None:
        found["requestBody"] = {"required": True, "content": {JSON: {"schema": refs[endpoint.operation, "validation"]}}}
    elif endpoint.has_data:
        found["requestBody"] = {"required": True, "content": {"application/octet-stream": {}}}
    return found
