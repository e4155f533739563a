"""The routes of folders and of the host: files, tools, models, uploads."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import os
import secrets
import time
from collections.abc import Iterable
from functools import partial
from mimetypes import guess_type
from pathlib import Path
from typing import Annotated

from pydantic import Field
from starlette.responses import Response

from lmtui import __version__
from lmtui.app.host import Runtime
from lmtui.core.errors import SandboxError
from lmtui.core.messages import Image, ToolSpec, sniff
from lmtui.core.servers import ServerFound
from lmtui.core.workspace import FileContent
from lmtui.host import wire
from lmtui.host.endpoints import UPLOAD_BYTES, UPLOAD_S, ApiContext, ApiError, Endpoint, Uploaded, route
from lmtui.host.session_routes import last_seq, needs_answer
from lmtui.host.wire import Words

ROUTES: list[Endpoint] = []
_route = partial(route, ROUTES)
AGENT = "lmtui"
_FileName = Annotated[str, Field(max_length=200)]
_MOST_TEXT_BYTES, _MOST_FILE_BYTES, _MOST_FOUND = 262_144, 1_048_576, 200
_FIND_TIMEOUT_S = 10.0
_ALONE = {
    "content-security-policy": "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; "
    "style-src 'unsafe-inline'; img-src data:"
}


@_route("GET", "/v1/status")
async def status(api: ApiContext) -> wire.Status:
    """Return the state of the host."""
    sessions = api.hub.sessions
    return wire.Status(
        version=__version__,
        pid=os.getpid(),
        uptime_s=round(time.monotonic() - api.begun, 1),
        folders=[str(each) for each in api.hub.folders],
        sessions=len(sessions),
        running=sum(each.is_running for each in sessions),
        waiting=sum(needs_answer(each) for each in sessions),
        busy=list(api.hub.busy()),
    )


@_route("GET", "/v1/files")
async def folder_listed(api: ApiContext, folder: Words = "", path: Words = "") -> wire.FolderListing:
    """List a folder of the workspace."""
    runtime, path = await api.runtime(folder), _inside(path)
    try:
        found = await runtime.files.list(path)
    except SandboxError as error:
        raise ApiError(404, str(error)) from error
    return wire.FolderListing(folder=str(runtime.workspace), path=path, entries=list(found))


@_route("GET", "/v1/files/content")
async def file_read(api: ApiContext, folder: Words = "", path: Words = "") -> wire.FileBody:
    """Read a file of the workspace."""
    runtime, path, found = await _read(api, folder, path)
    is_text = True
    try:
        content = found.data.decode()
    except UnicodeDecodeError:
        is_text, content = False, base64.b64encode(found.data).decode()
    return wire.FileBody(
        folder=str(runtime.workspace),
        path=path,
        size_bytes=found.size_bytes,
        is_cut=found.size_bytes > len(found.data),
        encoding="utf-8" if is_text else "base64",
        content=content,
    )


@_route("GET", "/v1/serve", media="text/html")
async def page_served(api: ApiContext, folder: Words = "", path: Words = "index.html") -> Response:
    """Return a file of the workspace as a browser shows it.

    A page has no origin, and reaches neither this API nor any other address.
    """
    _, path, found = await _read(api, folder, path)
    return Response(found.data, media_type=guess_type(path)[0] or "text/plain", headers=_ALONE)


async def _read(api: ApiContext, folder: str, path: str) -> tuple[Runtime, str, FileContent]:
    runtime, path = await api.runtime(folder), _inside(path)
    try:
        return runtime, path, await runtime.files.read(path, _MOST_FILE_BYTES)
    except SandboxError as error:
        raise ApiError(404, str(error)) from error


def _inside(path: str) -> str:
    """Return a path that stays in its folder; the sandbox would refuse others too.

    Raises:
        ApiError: it does not.
    """
    if "\0" in path or path.startswith(("/", "~")) or ".." in path.split("/"):
        raise ApiError(422, "this path leads out of the folder", "Name it relative to the folder.")
    return path.strip("/")


@_route("GET", "/v1/tools")
async def tools(api: ApiContext, folder: Words = "") -> dict[str, list[ToolSpec]]:
    """Return the tools of lmtui's own."""
    return {"tools": list((await api.runtime(folder)).tools())}


@_route("GET", "/v1/models")
async def models(api: ApiContext, search: Words = "") -> wire.ModelList:
    """Return agents and the models of servers, in OpenAI's form."""
    agents = [wire.ModelInfo(id=name, created=0, owned_by=AGENT) for name in agent_folders(api)]
    found: Iterable[ServerFound] = ()
    if api.hub.folders:
        runtime = await api.runtime()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIND_TIMEOUT_S):
                found = await runtime.servers.find()
    served = [
        wire.filled(wire.ModelInfo, model, id=model.name, created=0, owned_by=server.kind, url=server.url)
        for server in found
        for model in server.chat_models
    ]
    words = search.lower().split()
    rows = [each for each in (*agents, *served) if all(word in each.id.lower() for word in words)]
    return wire.ModelList(data=rows[:_MOST_FOUND])


def agent_folders(api: ApiContext) -> dict[str, Path]:
    """Return the folders that clients may use by the name of their agent, of those of one name the first.

    The first of all is also the agent without a folder.
    """
    found: dict[str, Path] = {}
    for folder in api.hub.folders:
        found.setdefault(AGENT, folder)
        found.setdefault(f"{AGENT}@{folder.name}", folder)
    return found


@_route("POST", "/v1/models/select")
async def model_selected(api: ApiContext, body: wire.SelectModel) -> wire.Receipt:
    """Use another model."""
    session = await api.hub.session(body.session) if body.session else None
    runtime = await (api.hub.find_runtime(session.id) if session else api.runtime(body.folder))
    await api.hub.switch_model(runtime, body.session or "", body.url, body.model)
    return wire.Receipt(seq=last_seq(session) if session else 0, is_running=bool(session and session.is_running))


@_route("POST", "/v1/uploads", status=201, most_bytes=UPLOAD_BYTES)
async def uploaded(api: ApiContext, data: bytes, name: _FileName = "") -> wire.Upload:
    """Keep a picture or a text until a message names it."""
    name = Path(name or "upload").name
    if not data or not name.isprintable():
        raise ApiError(422, "the body is empty" if not data else "the name has characters that cannot be shown")
    if kind := sniff(data):
        content: Image | str = Image(name, kind, data)
    else:
        kind, content = "text/plain", _text(data)
    info = wire.Upload(id=secrets.token_urlsafe(12), name=name, media_type=kind, size_bytes=len(data))
    api.uploads[info.id] = Uploaded(info, content)
    asyncio.get_running_loop().call_later(UPLOAD_S, api.uploads.pop, info.id, None)
    return info


def _text(data: bytes) -> str:
    if len(data) > _MOST_TEXT_BYTES:
        raise ApiError(413, f"a text may have {_MOST_TEXT_BYTES:,} bytes, a picture {UPLOAD_BYTES:,}")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise ApiError(415, "this is neither a picture (PNG, JPEG, GIF, WebP) nor text in UTF-8") from error
