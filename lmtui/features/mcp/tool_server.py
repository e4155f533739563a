"""`lmtui mcp serve`: lmtui's tools for another agent, over the protocol on standard input and output.

Imports the SDK, so it is loaded by its place, once it is needed.  Every call runs in a session of the folder, which is its
audit; nobody is there to ask, so what needs approval is refused.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import json
import logging
import os
import shlex
import signal
import sys
from collections.abc import Sequence
from typing import Any, NoReturn

from mcp import MCPError, types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel.server import Server
from mcp.server.stdio import stdio_server
from mcp_types import INVALID_PARAMS

from lmtui import __version__
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.events import ApprovalRequested, Envelope
from lmtui.core.messages import ToolCall, ToolSet, ToolSpec
from lmtui.core.permissions.rules import FileEffect, Mode, traits_of
from lmtui.core.ports import Policy, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.core.subagents import ChildKind
from lmtui.engine.session import EngineSession
from lmtui.features.service import CommandCall, FeatureHost
from lmtui.tools.registry import ToolRegistry, child_tools, without_agents

BY = "mcp"
_READS = (FileEffect.SHOWS, FileEffect.LISTS)
_SERVED = (*_READS, FileEffect.CHANGES, FileEffect.RUNS, FileEffect.GIT)
_ADDS_ONLY = ("git_add", "git_commit")
_NO_CHILD = "report_result"
_MAX_ARGUMENT_CHARS = 8_000_000
_PROGRESS_S = 2.0
_END_S = 1.0
_LAST_WORDS_S = 0.3
_log = logging.getLogger(__name__)


def served_tools(root: str, wanted: str) -> tuple[ToolSpec, ...]:
    """Return the tools that are offered: those that only `read`, `all`, or some by their names.

    Tools that belong to a conversation (plans, todos, sub-agents, skills) are never among them.

    Raises:
        UsageError: a tool is unknown, or cannot be served.
    """
    every = {
        spec.name: spec
        for spec in ToolRegistry(root, without_agents()).specs(ToolSet.ALL, sees=True)
        if traits_of(spec.name).file_effect in _SERVED and not traits_of(spec.name).is_for_work
    }
    reading = [spec.name for spec in child_tools(root, ChildKind.EXPLORE, can_send=False).specs() if spec.name != _NO_CHILD]
    names = [name for each in wanted.split(",") if (name := each.strip())]
    chosen = {"read": reading, "all": [*every]}.get(wanted.strip(), names)
    hint = f"Use read, all, or some of: {', '.join(every)}."
    if unknown := [name for name in chosen if name not in every]:
        raise UsageError(f"tool {unknown[0][:40]!r} is unknown or cannot be served", hint)
    if not chosen:
        raise UsageError("no tools are named", hint)
    return tuple(spec for name, spec in every.items() if name in chosen)


def as_tool(spec: ToolSpec) -> types.Tool:
    """Return a tool as the protocol has it."""
    effect = traits_of(spec.name).file_effect
    only_reads = effect in _READS
    return types.Tool(
        name=spec.name,
        description=spec.description,
        input_schema={"type": "object", **spec.parameters},
        annotations=types.ToolAnnotations(
            read_only_hint=only_reads,
            destructive_hint=not only_reads and spec.name not in _ADDS_ONLY,
            open_world_hint=effect is FileEffect.RUNS,
        ),
    )


def as_content(result: ToolResult, hint: str = "") -> types.CallToolResult:
    """Return a result as the protocol has it."""
    text = f"{result.text}\n{hint}" if hint else result.text
    pictures = [
        types.ImageContent(data=base64.b64encode(each.data).decode(), mime_type=each.media_type) for each in result.images
    ]
    return types.CallToolResult(content=[types.TextContent(text=text), *pictures], is_error=not result.ok)


class ToolServer:
    """Answers one client.  The session is opened with the first call, so that one who only lists tools leaves no log."""

    def __init__(self, host: FeatureHost, specs: Sequence[ToolSpec]) -> None:
        self._host = host
        self._tools = [as_tool(spec) for spec in specs]
        self._session: asyncio.Task[EngineSession] | None = None
        self._hints: dict[str, str] = {}  # how to allow what was refused because nobody is there, by call
        self._numbers = itertools.count(1)
        self._running: set[asyncio.Task[ToolResult]] = set()

    def server(self) -> Server[Any]:
        """Return what the SDK serves."""
        return Server("lmtui", version=__version__, on_list_tools=self._list, on_call_tool=self._call)

    async def stop(self) -> None:
        """Stop the calls that still run."""
        tasks: set[asyncio.Task[Any]] = {*self._running, *([self._session] if self._session is not None else [])}
        for task in tasks:
            _ = task.cancel()
        if tasks:
            _ = await asyncio.wait(tasks)

    async def _list(self, _: ServerRequestContext, __: types.PaginatedRequestParams | None) -> types.ListToolsResult:
        return types.ListToolsResult(tools=self._tools)

    async def _call(self, context: ServerRequestContext, params: types.CallToolRequestParams) -> types.CallToolResult:
        """Run a call to its end, outside of the scope that the SDK cancels again and again: it cleans up in peace."""
        if params.name not in {tool.name for tool in self._tools}:
            raise MCPError(INVALID_PARAMS, f"Unknown tool: {sanitize_line(params.name)[:80]}")
        arguments = json.dumps(params.arguments or {}, ensure_ascii=False)
        if len(arguments) > _MAX_ARGUMENT_CHARS:
            text = f"{params.name} was not run: its arguments have {len(arguments):,} characters, at most 8,000,000 are taken."
            return as_content(ToolResult(text, ok=False))
        call = ToolCall(f"{BY}_{next(self._numbers)}", params.name, arguments)
        task = asyncio.create_task(self._run(call))
        self._running.add(task)
        task.add_done_callback(self._forget)
        try:
            elapsed_s = 0.0
            while not (await asyncio.wait({task}, timeout=_PROGRESS_S))[0]:
                elapsed_s += _PROGRESS_S
                await context.session.report_progress(elapsed_s, message=f"{params.name} has run for {elapsed_s:.0f} s")
            return as_content(task.result(), self._hints.pop(call.id, ""))
        except LmtuiError as error:
            return as_content(ToolResult(error.full_text(), ok=False))
        finally:
            _ = task.cancel()

    def _forget(self, task: asyncio.Task[ToolResult]) -> None:
        self._running.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            _log.warning("a call failed: %s", error)

    async def _run(self, call: ToolCall) -> ToolResult:
        if self._session is None:
            self._session = asyncio.create_task(self._open())
        try:
            session = await asyncio.shield(self._session)
        except LmtuiError:
            self._session = None  # the next call tries again
            raise
        return await session.outside_calls.run(call, BY)

    async def _open(self) -> EngineSession:
        session = await self._host.new_session(Policy(is_attended=False), has_model=False)
        session.rename("Calls over MCP")
        _ = session.subscribe(self._note_refusal)
        return session

    def _note_refusal(self, envelope: Envelope) -> None:
        event = envelope.event
        if not isinstance(event, ApprovalRequested) or not event.call_id:
            return
        ways = [f"--allow {shlex.quote(event.suggested_rule)}"] if event.suggested_rule else []
        ways += ["--mode auto"] if self._host.config.mode != Mode.AUTO else []
        text = f"To allow it, the user can start `lmtui mcp serve` with {' or '.join(ways)}." if ways else ""
        self._hints[event.call_id] = text or "No rule or mode can allow it here. Ask the user to do it."


async def serve(call: CommandCall) -> NoReturn:
    """Serve tools until the input ends, or a signal says so; then end the process.

    Raises:
        UsageError: a tool cannot be served.
    """
    specs = served_tools(str(call.workspace.workspace), call.arguments.tools or "read")
    if sys.stdin.isatty():
        print("Waiting for an MCP client on standard input; docs/mcp.md shows how to configure one.", file=sys.stderr)
    async with call.open_host() as host:
        tools, ended = ToolServer(host, specs), asyncio.Event()
        serving = asyncio.create_task(_serve(tools, ended))
        for each in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(each, ended.set)
        _ = await ended.wait()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_END_S):
                await tools.stop()
        _ = await asyncio.wait({serving}, timeout=_LAST_WORDS_S)
    logging.shutdown()
    os._exit(0)  # what is left is a thread that reads the input, or one that waits for a client who reads nothing


async def _serve(tools: ToolServer, ended: asyncio.Event) -> None:
    """Serve until the input ends, or the client is gone; what it has not read by then is not waited for."""
    server = tools.server()
    try:
        async with stdio_server() as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())
            ended.set()
    except* (ConnectionError, BrokenPipeError):
        _log.info("the client has gone")
    finally:
        ended.set()
