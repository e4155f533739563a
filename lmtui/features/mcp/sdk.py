"""The adapter of the official SDK: the only module that opens connections.  Heavy: imported in a thread, never at the start."""

from __future__ import annotations

import asyncio
import base64
import binascii
import contextlib
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import anyio
import httpx2
from mcp import Client, MCPError, types
from mcp.client import ClientRequestContext
from mcp.client.auth import OAuthFlowError
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.client.subscriptions import ListenNotSupportedError, SubscriptionLost, ToolsListChanged
from mcp.shared.message import SessionMessage
from mcp_types import CONNECTION_CLOSED, jsonrpc_message_adapter
from pydantic import FileUrl, ValidationError

from lmtui import __version__
from lmtui.core.errors import McpError, SandboxError
from lmtui.core.messages import MAX_IMAGE_BYTES, MAX_IMAGES, Image, sniff
from lmtui.core.ports import OutputSink, ToolResult
from lmtui.core.programs import Served
from lmtui.core.sanitize import Redactor, sanitize, sanitize_line, sanitize_path
from lmtui.core.tool_servers import Form, Resource, is_web_address
from lmtui.features.mcp.login import login_of
from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.tool_names import MAX_TOOLS, RawTool, harmless, server_key, told_name
from lmtui.features.mcp.values import ConnectionHooks, LinkBroken, McpPrompt, ServerAddress

_NOTHING = "(the tool returned nothing)"
_EMPTY = "(it is empty)"
_MOST_CHARS = 1_000_000
_MOST_BLOCKS = 200
_Contents = types.TextResourceContents | types.BlobResourceContents


def as_result(tool: str, found: types.CallToolResult) -> ToolResult:
    """Return a result; what the server calls an error is one."""
    texts, images = _parts(tool, [("", block) for block in found.content])
    text = "\n".join(texts)
    text = sanitize("\n".join(filter(None, (text, _structured(found, text))))) or _NOTHING
    summary = sanitize_line(next((line for line in text.splitlines() if line.strip()), ""))[:80]
    return ToolResult(text, summary, ok=not found.is_error, images=tuple(images))


def _joined(name: str, parts: Sequence[tuple[str, types.ContentBlock | _Contents]]) -> ToolResult:
    texts, images = _parts(name, parts[:_MOST_BLOCKS])
    if len(parts) > _MOST_BLOCKS:
        texts.append(f"[left out: {len(parts) - _MOST_BLOCKS:,} more parts]")
    text = "\n".join(texts)
    left = len(text) - _MOST_CHARS
    text = sanitize(text[:_MOST_CHARS]) + (f"\n[left out: {left:,} more characters]" if left > 0 else "")
    return ToolResult(text or _EMPTY, sanitize_line(text[:80]), images=tuple(images))


def _parts(name: str, parts: Sequence[tuple[str, types.ContentBlock | _Contents]]) -> tuple[list[str], list[Image]]:
    """Return parts in words, each behind who says it, and the pictures that can be shown."""
    texts: list[str] = []
    images: list[Image] = []
    for who, part in parts:
        text, image = _block(name, part, len(images))
        texts.append(f"{who}{text}")
        images += [image] if image is not None else []
    return texts, images


def _structured(found: types.CallToolResult, text: str) -> str:
    """Return the structured content, unless a text says the same (servers repeat it there for older clients)."""
    content = found.structured_content
    values = [str(value).strip() for value in content.values()] if isinstance(content, dict) else []
    is_said = content is None or (values == [text.strip()] and "result" in content)
    with contextlib.suppress(ValueError, RecursionError):
        is_said = is_said or json.loads(text) == content
    return "" if is_said else json.dumps(content, ensure_ascii=False)


def _block(tool: str, block: types.ContentBlock | _Contents, shown: int) -> tuple[str, Image | None]:
    """Return a block in words, and its picture where it is one that can be shown."""
    if isinstance(block, types.TextContent):
        return block.text, None
    if isinstance(block, types.ImageContent):
        return _picture(tool, block.data, block.mime_type, shown)
    if isinstance(block, types.AudioContent):
        return f"[a sound, {block.mime_type}, {_size(block.data):,} bytes: it cannot be played here]", None
    if isinstance(block, types.ResourceLink):
        about = f": {block.description}" if block.description else ""
        return f"[resource {block.uri} ({block.name}){about}]", None
    if isinstance(block, types.EmbeddedResource):
        return _resource(tool, block.resource, shown, is_named=True)
    return _resource(tool, block, shown)


def _resource(tool: str, resource: _Contents, shown: int, *, is_named: bool = False) -> tuple[str, Image | None]:
    if isinstance(resource, types.TextResourceContents):
        return f"[resource {resource.uri}]\n{resource.text}" if is_named else resource.text, None
    if (resource.mime_type or "").startswith("image/"):
        return _picture(tool, resource.blob, resource.mime_type or "", shown)
    return f"[resource {resource.uri}, {resource.mime_type or 'no type'}, {_size(resource.blob):,} bytes of data]", None


def _picture(tool: str, packed: str, mime_type: str, shown: int) -> tuple[str, Image | None]:
    try:
        data = base64.b64decode(packed, validate=True)
    except (binascii.Error, ValueError):
        return "[a picture that cannot be read: its data is not base64]", None
    media_type = sniff(data)
    if not media_type:
        return f"[a picture of a kind that cannot be shown ({mime_type}, {len(data):,} bytes)]", None
    if len(data) > MAX_IMAGE_BYTES or shown >= MAX_IMAGES:
        return f"[a picture that is left out: {len(data):,} bytes, or more than {MAX_IMAGES} of them]", None
    return f"[picture {shown + 1}, {media_type}, {len(data):,} bytes]", Image(f"{tool} {shown + 1}", media_type, data)


def _size(packed: str) -> int:
    return len(packed) * 3 // 4


_log = logging.getLogger(__name__)
T = TypeVar("T")
_MAX_LINE_BYTES, _MOST_WAITING = 33_554_432, 64  # messages wait where a server does not read; nobody waits with them
_MAX_PAGES = 50
_ANSWER_ID = re.compile(r'"id"\s*:\s*(\d+|"[^"\\]*")')
_HTTP_S = 30.0
_CLOSED = ("Connection closed", "SSE stream ")  # so the SDK's own errors begin where a connection breaks off
_BREAKS = (httpx2.TransportError, ConnectionError, SandboxError, anyio.ClosedResourceError)
_FAILURES = (*_BREAKS, MCPError, OAuthFlowError, OSError, httpx2.HTTPError, RuntimeError, ValueError)


@contextlib.asynccontextmanager
async def connect(entry: ServerEntry, address: ServerAddress, hooks: ConnectionHooks) -> AsyncIterator[SdkConnection]:
    """Open a connection and keep it until the block ends; it must be left by the task that entered it.

    Raises:
        McpError: there is none, or it breaks in a way that ends it.
    """
    try:
        async with contextlib.AsyncExitStack() as parts:
            client = await parts.enter_async_context(await _client(entry, address, hooks, parts))
            tasks = await parts.enter_async_context(anyio.create_task_group())
            parts.callback(tasks.cancel_scope.cancel)
            tasks.start_soon(_follow_lists, client, hooks)
            yield SdkConnection(client, entry)
    except (*_FAILURES, ExceptionGroup) as error:
        raise McpError(_words(error)) from error


async def _client(
    entry: ServerEntry, address: ServerAddress, hooks: ConnectionHooks, parts: contextlib.AsyncExitStack
) -> Client:
    async def on_message(message: types.ServerNotification | Exception) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            hooks.on_change("tools")
        elif isinstance(message, types.PromptListChangedNotification | types.ResourceListChangedNotification):
            hooks.on_change("offers")

    async def list_roots(context: ClientRequestContext) -> types.ListRootsResult:
        _log.debug("%s asked for the folders, request %s", entry.name, context.request_id)
        return types.ListRootsResult(roots=[types.Root(uri=FileUrl(address.root.as_uri()), name=address.root.name)])

    async def elicit(context: ClientRequestContext, params: types.ElicitRequestParams) -> types.ElicitResult:
        _log.debug("%s asked the user, request %s", entry.name, context.request_id)
        return await _elicited(entry.name, params, hooks)

    auth = await login_of(address, hooks.visit) if address.token_file else None
    if address.process is not None:
        transport = _over_pipes(address.process, hooks)
    elif entry.kind == "sse":
        transport = sse_client(address.url, headers=dict(address.headers), timeout=_HTTP_S, auth=auth)
    else:
        timeout = httpx2.Timeout(_HTTP_S, read=entry.timeout_s)
        client = httpx2.AsyncClient(headers=dict(address.headers), timeout=timeout, auth=auth)
        http = await parts.enter_async_context(client)
        transport = streamable_http_client(address.url, http_client=http)
    return Client(
        transport,
        client_info=types.Implementation(name="lmtui", version=__version__),
        message_handler=on_message,
        list_roots_callback=list_roots,
        elicitation_callback=elicit,
        cache=None,
    )


class SdkConnection:
    """An open connection; all that asks raises `McpError` where the server refuses or is gone."""

    def __init__(self, client: Client, entry: ServerEntry) -> None:
        self._client, self._entry = client, entry

    @property
    def version(self) -> str:
        info = self._client.server_info
        about = f"{info.name} {info.version}, " if info is not None else ""
        return sanitize_line(f"{about}protocol {self._client.protocol_version}")[:120]

    async def list_tools(self) -> Sequence[RawTool]:
        if self._client.server_capabilities.tools is None:
            return ()
        tools = await _listed("tools", self._client.list_tools, MAX_TOOLS, is_needed=True)
        return [RawTool(tool.name, tool.description or tool.title or "", tool.input_schema) for tool in tools]

    async def list_offers(self) -> tuple[Sequence[McpPrompt], Sequence[Resource], bool]:
        """Return the prompts and resources, and whether it answers for resources, listed or not."""
        can, client, name = self._client.server_capabilities, self._client, self._entry.name
        prompts: list[types.Prompt] = []
        resources: list[types.Resource | types.ResourceTemplate] = []
        if can.prompts is not None:
            prompts = await _listed("prompts", client.list_prompts, MAX_PROMPTS)
        if can.resources is not None:
            resources = await _listed("resources", client.list_resources, MAX_RESOURCES)
            resources += await _listed("resource templates", client.list_resource_templates, MAX_RESOURCES)
        return _listed_prompts(name, prompts), _listed_resources(name, resources), can.resources is not None

    async def get_prompt(self, name: str, arguments: Mapping[str, str]) -> ToolResult:
        """Return what a prompt says; where the model speaks in it too, who says what is before it."""
        found = (await _asked(self._client.get_prompt(name, dict(arguments)))).messages
        is_talk = any(each.role == "assistant" for each in found)
        return _joined(name, [(f"[{each.role}] " if is_talk else "", each.content) for each in found])

    async def read_resource(self, uri: str) -> ToolResult:
        found = await _asked(self._client.read_resource(uri))
        return _joined(uri, [("", each) for each in found.contents])

    async def call(self, tool: str, arguments: Mapping[str, object], on_output: OutputSink) -> ToolResult:
        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            share = f"{progress:g} of {total:g}" if total else f"{progress:g}"
            on_output(f"{share}{f': {sanitize_line(message)}' if message else ''}\n")

        limit_s = self._entry.timeout_s
        call = self._client.call_tool(tool, dict(arguments), read_timeout_seconds=limit_s, progress_callback=on_progress)
        return as_result(tool, await _asked(call))


async def _asked(answer: Awaitable[T]) -> T:
    """Return a server's answer.

    Raises:
        McpError: it refuses; a `LinkBroken` where it is gone.
    """
    try:
        return await answer
    except (*_FAILURES, ExceptionGroup) as error:
        is_broken = isinstance(error, _BREAKS)
        if isinstance(error, MCPError):  # a server's own error may have the code too
            is_broken = error.code == CONNECTION_CLOSED and error.message.startswith(_CLOSED)
        raise (LinkBroken if is_broken else McpError)(_words(error)) from error


async def _listed(
    what: str, list_page: Callable[..., Awaitable[Any]], most: int, *, is_needed: bool = False
) -> list[Any]:  # Any: the SDK's pages have no type of their own in common
    """Return what a server lists, page by page, up to a bearable number.

    One that announces it and does not list it has none (templates are often left out).

    Raises:
        McpError: it does not list what `is_needed`.
    """
    found: list[Any] = []
    cursor: str | None = None
    try:
        for _ in range(_MAX_PAGES):
            page = await list_page(cursor=cursor)
            found += getattr(page, what.replace(" ", "_"))
            cursor = page.next_cursor
            if not cursor or len(found) >= most:
                break
    except _FAILURES as error:
        problem = f"it does not list its {what}: {_words(error)}"
        if is_needed:
            raise McpError(problem) from error
        _log.info("an MCP server: %s", problem)
        return []
    return found[:most]


MAX_PROMPTS = 200
MAX_RESOURCES = 1000
_MAX_ARGUMENTS = 20
_MAX_WORDS_CHARS = 120
_PLAIN_URI = re.compile(r'[^\s"]{1,2000}')
_ARGUMENT = re.compile(r"[^\s=<>\[\]]{1,64}")


def _listed_prompts(server: str, prompts: Sequence[types.Prompt]) -> Sequence[McpPrompt]:
    """Return a server's prompts under names that can be typed; one that wants what cannot be typed is left out."""
    found: list[McpPrompt] = []
    taken: set[str] = set()
    for prompt in sorted(prompts, key=lambda prompt: prompt.name):
        wanted = [(each.name, bool(each.required)) for each in prompt.arguments or ()]
        arguments = tuple(each for each in wanted[:_MAX_ARGUMENTS] if _can_be_listed(each[0], _ARGUMENT))
        if any(is_needed for _, is_needed in {*wanted} - {*arguments}):
            continue
        name = told_name(server, prompt.name, taken)
        taken.add(name)
        about = harmless(prompt.description or prompt.title or "", _MAX_WORDS_CHARS)
        found.append(McpPrompt(name, server, prompt.name, about, arguments))
    return found


def _listed_resources(server: str, resources: Sequence[types.Resource | types.ResourceTemplate]) -> Sequence[Resource]:
    """Return a server's resources; what hides something in its address, or cannot be typed, is left out."""
    found: list[Resource] = []
    for each in resources:
        uri, is_template = (each.uri_template, True) if isinstance(each, types.ResourceTemplate) else (each.uri, False)
        if _can_be_listed(uri, _PLAIN_URI):
            title = harmless(each.title or each.name, _MAX_WORDS_CHARS)
            found.append(Resource(server_key(server), uri, title, is_template))
    return found[:MAX_RESOURCES]


def _can_be_listed(text: str, pattern: re.Pattern[str]) -> bool:
    return pattern.fullmatch(text) is not None and sanitize_path(text) == text


async def _follow_lists(client: Client, hooks: ConnectionHooks) -> None:
    """Hear of other tools, prompts and resources where that has to be asked for (protocol 2026-07-28 and later)."""
    can = client.server_capabilities
    tools, prompts, resources = (bool(each and each.list_changed) for each in (can.tools, can.prompts, can.resources))
    if not (tools or prompts or resources):
        return
    try:
        async with client.listen(
            tools_list_changed=tools, prompts_list_changed=prompts, resources_list_changed=resources
        ) as events:
            async for event in events:
                hooks.on_change("tools" if isinstance(event, ToolsListChanged) else "offers")
    except (ListenNotSupportedError, SubscriptionLost, MCPError, TimeoutError):
        return  # an older server says so by itself; one that lost it is asked again at its next start


async def _elicited(server: str, asked: types.ElicitRequestParams, hooks: ConnectionHooks) -> types.ElicitResult:
    if isinstance(asked, types.ElicitRequestURLParams):
        form = Form(server, sanitize_line(asked.message)[:1000], url=sanitize_line(str(asked.url))[:2000])
        if not is_web_address(form.url):  # file:, or whatever programs of this machine listen for
            return types.ElicitResult(action="decline")
    else:
        form = Form(server, sanitize_line(asked.message)[:1000], asked.requested_schema)
    given = await hooks.ask(form)
    if given is None:
        return types.ElicitResult(action="decline")
    content: dict[str, Any] = dict(given)  # Any: the SDK's own type of JSON values
    return types.ElicitResult(action="accept", content=content if not form.url else None)


@contextlib.asynccontextmanager
async def _over_pipes(
    process: Served, hooks: ConnectionHooks
) -> AsyncIterator[Any]:  # Any: the SDK's pair of streams is private
    """Carry messages, a line each, to and from a program; what it says that is not a message is passed over and logged."""
    to_client, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
    outgoing, from_client = anyio.create_memory_object_stream[SessionMessage](_MOST_WAITING)
    asked: types.RequestId = 0  # what is answered next, as far as one can tell

    async def read() -> None:
        async with to_client:
            buffer = bytearray()
            while piece := await process.read():
                buffer += piece
                if b"\n" in piece:
                    *lines, buffer = buffer.split(b"\n")
                    for line in lines:
                        if (message := _message(bytes(line), hooks.redactor)) is not None:
                            await to_client.send(message)
                if len(buffer) > _MAX_LINE_BYTES:
                    _log.warning("an MCP server sent a line without end")
                    await to_client.send(_failed_answer(asked, f"it has over {_MAX_LINE_BYTES:,} bytes"))
                    break
        hooks.on_change("gone")

    async def write() -> None:
        nonlocal asked
        async with from_client:
            async for message in from_client:
                asked = message.message.id if isinstance(message.message, types.JSONRPCRequest) else asked
                line = message.message.model_dump_json(by_alias=True, exclude_unset=True)
                try:
                    await process.write(line.encode() + b"\n")
                except (SandboxError, OSError):
                    break  # it has ended: the reader says so

    async with anyio.create_task_group() as tasks:
        tasks.start_soon(_until_closed, read)
        tasks.start_soon(_until_closed, write)
        try:
            yield incoming, outgoing
        finally:
            tasks.cancel_scope.cancel()
    for stream in (to_client, incoming, outgoing, from_client):
        stream.close()


async def _until_closed(work: Any) -> None:  # Any: a function of the transport above
    with contextlib.suppress(anyio.ClosedResourceError, anyio.BrokenResourceError):
        await work()


def _message(line: bytes, redactor: Redactor) -> SessionMessage | None:
    """Return a message of a line, whatever its bytes; an answer that is no JSON is an error of the call that waits for it."""
    text = line.decode("utf-8", "replace").strip("\ufeff\0 \t\r")
    if not text:
        return None
    for form in (str, _as_repaired):
        with contextlib.suppress(ValueError, RecursionError):
            message = jsonrpc_message_adapter.validate_json(form(text), by_name=False)
            tools = message.result.get("tools") if isinstance(message, types.JSONRPCResponse) else None
            for tool in tools if isinstance(tools, list) else ():
                if isinstance(tool, dict) and isinstance(tool.get("inputSchema"), dict):
                    tool["inputSchema"].setdefault("type", "object")  # many programs leave it out
            return SessionMessage(message)
    said = sanitize_line(redactor.text(text)[:200])
    _log.info("an MCP server sent a line that is not a message: %s", said)
    is_answer = '"method"' not in text and any(word in text for word in ('"jsonrpc"', '"result"', '"error"'))
    found = _ANSWER_ID.search(text) if is_answer else None
    return _failed_answer(json.loads(found[1]), f"it is not a valid message: {said}") if found is not None else None


def _failed_answer(asked: types.RequestId, why: str) -> SessionMessage:
    error = types.ErrorData(code=types.PARSE_ERROR, message=f"the answer cannot be read: {why}")
    return SessionMessage(types.JSONRPCError(jsonrpc="2.0", id=asked, error=error))


def _as_repaired(text: str) -> bytes:
    """Return a JSON text with escaped control characters, without halves of pairs."""
    return json.dumps(json.loads(text, strict=False), ensure_ascii=False).encode("utf-8", "replace")


def _words(error: BaseException) -> str:
    """Return an error in words; of a group the first that says something."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False)[0]
        problem = f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        return f"its answer breaks the protocol: {sanitize_line(problem)[:200]}"
    if isinstance(error, httpx2.HTTPStatusError):  # its own words have the whole address, which may have a key in it
        return f"{error.request.url.host} answers {error.response.status_code}"
    if isinstance(error, TimeoutError | asyncio.TimeoutError):
        return "it did not answer in time"
    return sanitize_line(str(error))[:500] or type(error).__name__
