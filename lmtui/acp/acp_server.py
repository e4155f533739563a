"""Runs the agent on standard input and output until the editor is gone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import os
import signal
import stat
import sys
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from typing import Any, get_type_hints

from acp import schema
from acp.connection import Connection
from acp.exceptions import RequestError
from acp.meta import AGENT_METHODS
from pydantic import BaseModel, TypeAdapter, ValidationError

from lmtui import __version__
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.registry import load

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND, INVALID_PARAMS = -32700, -32600, -32601, -32602
INTERNAL, CANCELLED = -32603, -32800
MAX_LINE_BYTES = MAX_WAITING_BYTES = 64 * 1024 * 1024
_PARENT_EVERY_S = 1.0
_CLOSE_S, _FLUSH_S = 1.2, 0.3
_log = logging.getLogger(__name__)

_AGENT = "lmtui.acp.acp_agent:AcpAgent"
# The requests that a task answers, and that it sent last.
_REQUEST_ID: ContextVar[int | str | None] = ContextVar("_REQUEST_ID", default=None)
_SENT_ID: ContextVar[int | str | None] = ContextVar("_SENT_ID", default=None)
PROTOCOL_VERSION = 1
FIND_SERVER, SETUP = "find-model-server", "setup"
_FIND_TEXT = "Use the first model server that answers on this machine: LM Studio, Ollama, llama.cpp, vLLM …"
_CAPABILITIES = {
    "loadSession": True,
    "promptCapabilities": {"image": True, "embeddedContext": True},
    "mcpCapabilities": {"http": True, "sse": True},
    "sessionCapabilities": {name: {} for name in ("list", "delete", "additionalDirectories", "fork", "resume", "close")},
}


class EditorTransport(asyncio.BaseProtocol):
    """The transport of the SDK's connection: one JSON-RPC message a line.

    What is not a message is answered with an error.  Nothing waits for an editor that is slow; one that
    does not read at all is lost.

    Args:
        reader: what the editor sends.
    """

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self.lost = asyncio.Event()

    def connection_made(self, transport: Any) -> None:
        self._pipe: asyncio.WriteTransport = transport

    def connection_lost(self, _: Exception | None) -> None:
        self.lost.set()

    async def receive(self) -> dict[str, Any] | None:
        """Return the next message, None at the end of input or behind a line that is too long."""
        try:
            while line := await self._reader.readline():  # the last one may have no end
                if line.strip() and (message := self._parsed(line)) is not None:
                    _REQUEST_ID.set(message.get("id"))
                    return message
        except ValueError:
            self._refuse(PARSE_ERROR, "Parse error: the line is too long")
        return None

    def _parsed(self, line: bytes) -> dict[str, Any] | None:
        problem = PARSE_ERROR, "Parse error: not a JSON message"
        with contextlib.suppress(ValueError, RecursionError):
            match json.loads(line):
                case (
                    {"method": str()} | {"id": int() | str() | None, "result": _} | {"id": int() | str() | None, "error": {}}
                ) as message:
                    return dict(message)
                case {"result": _} | {"error": _}:
                    return None  # an answer that is none is not answered
            problem = INVALID_REQUEST, "Invalid request: not a JSON-RPC message"
        self._refuse(*problem)
        return None

    def _refuse(self, code: int, message: str) -> None:
        self.post({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}})

    async def send(self, message: dict[str, Any]) -> None:
        if "method" in message:
            _SENT_ID.set(message.get("id"))
        self.post(message)

    def post(self, message: dict[str, Any]) -> None:
        """Send a message without waiting for anything."""
        text = json.dumps(message, ensure_ascii=False, separators=(",", ":"))
        self._pipe.write(f"{text}\n".encode("utf-8", "replace"))  # a lone surrogate is no JSON for most readers
        if self._pipe.get_write_buffer_size() > MAX_WAITING_BYTES:
            self._pipe.abort()

    async def close(self) -> None:
        """Write what waits, for a third of a second at most."""
        self._pipe.close()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.lost.wait(), _FLUSH_S)


async def editor_transport(source: int, target: int) -> EditorTransport:
    """Return the transport over two pipes.

    Raises:
        UsageError: they are not pipes.
    """
    for number in (source, target):
        if not (stat.S_ISFIFO(mode := os.fstat(number).st_mode) or stat.S_ISSOCK(mode) or os.isatty(number)):
            raise UsageError("standard input or output is not a pipe", "An editor starts `lmtui acp`: see docs/editors.md.")
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(MAX_LINE_BYTES)
    _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(source, "rb"))
    _, transport = await loop.connect_write_pipe(lambda: EditorTransport(reader), os.fdopen(target, "wb"))
    if stat.S_ISSOCK(os.fstat(target).st_mode):  # input by the same socket is no sign of its end
        _ = loop.remove_reader(target)
    return transport


def dumped(model: BaseModel | None) -> dict[str, Any]:
    """Return a value of the protocol as it is sent."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True) if model is not None else {}


class Editor:
    """The client at the other end.

    Args:
        connection: carries requests.
        post: sends what needs no answer, in the same order.
    """

    def __init__(self, connection: Connection, post: Callable[[dict[str, Any]], None]) -> None:
        self._connection, self._post = connection, post
        self.capabilities = schema.ClientCapabilities()

    def initialize(self, request: schema.InitializeRequest) -> schema.InitializeResponse:
        """Take what the editor can do, and say what this agent can do."""
        self.capabilities = request.client_capabilities or schema.ClientCapabilities()
        methods: list[schema.EnvVarAuthMethod | schema.TerminalAuthMethod | schema.AuthMethodAgent] = [
            schema.AuthMethodAgent(id=FIND_SERVER, name="Find a model server", description=_FIND_TEXT)
        ]
        auth = self.capabilities.auth
        if auth is not None and auth.terminal is True:
            text = "Choose the server and the model in a terminal"
            terminal = schema.TerminalAuthMethod(
                type="terminal", id=SETUP, name="Choose a model server", description=text, args=["--setup"]
            )
            methods.append(terminal)
        return schema.InitializeResponse(
            protocol_version=PROTOCOL_VERSION,
            agent_info=schema.Implementation(name="lmtui", title="lmtui", version=__version__),
            auth_methods=methods,
            agent_capabilities=schema.AgentCapabilities.model_validate(_CAPABILITIES),
        )

    def update(self, session_id: str, update: BaseModel) -> None:
        """Tell what changed in a session."""
        params = {"sessionId": session_id, "update": dumped(update)}
        self._post({"jsonrpc": "2.0", "method": "session/update", "params": params})

    async def request(self, method: str, params: Mapping[str, Any]) -> Any:
        """Ask something.  Where the asking is cancelled, the editor is told that its answer is no longer needed.

        Raises:
            RequestError: the editor refuses.
            ConnectionError: it is gone.
        """
        try:
            return await self._connection.send_request(method, params)
        except asyncio.CancelledError:
            cancel = {"requestId": _SENT_ID.get()}
            self._post({"jsonrpc": "2.0", "method": "$/cancel_request", "params": cancel})
            raise


class Dispatcher:
    """Gives each message of the editor to the agent; what it asks may be cancelled while it is worked on.

    The agent is loaded only once the editor was answered for the first time: that takes as long as all before.

    Args:
        transport: leads to the editor.
        flags: settings from the command line.
    """

    def __init__(self, transport: EditorTransport, flags: Mapping[str, object]) -> None:
        self.connection = Connection(self, transport, listening=False)
        self._editor, self._flags = Editor(self.connection, transport.post), flags
        self._loading: asyncio.Task[Any] | None = None
        self._running: dict[int | str | None, asyncio.Task[Any] | None] = {}

    def load(self) -> asyncio.Task[Any]:
        """Load the agent (`acp_agent.AcpAgent`), once."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="acp agent")
        return self._loading

    async def _load(self) -> Any:
        make = await asyncio.to_thread(load, _AGENT)
        return make(self._editor, self._flags)

    async def close(self) -> None:
        """Close the agent."""
        if self._loading is not None:
            await (await self._loading).close()

    async def __call__(self, method: str, params: Any, is_notification: bool) -> dict[str, Any] | None:
        if is_notification:
            with contextlib.suppress(ValidationError):  # nobody is there to answer
                self._notified(method, params)
            return None
        request_id, task = _REQUEST_ID.get(), asyncio.current_task()
        self._running[request_id] = task
        try:
            return dumped(await self._answer(method, params or {}))
        except asyncio.CancelledError as error:
            raise RequestError(CANCELLED, "Request cancelled") from error
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)[:3]
            words = sanitize_line("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found))
            raise RequestError(INVALID_PARAMS, f"Invalid params: {words}") from error
        except LmtuiError as error:
            raise RequestError(INTERNAL, sanitize_line(error.full_text())) from error
        finally:
            _ = self._running.pop(request_id, None)

    async def _answer(self, method: str, params: Any) -> BaseModel | None:
        if method == "initialize":
            _ = self.load()
            return self._editor.initialize(schema.InitializeRequest.model_validate(params))
        name = next((name for name, each in AGENT_METHODS.items() if each == method), "")
        handler = getattr(await self.load(), name, None) if name else None
        if handler is None:
            raise RequestError(METHOD_NOT_FOUND, f"Method not found: {sanitize_line(method)[:100]}")
        found: BaseModel | None = await handler(TypeAdapter(get_type_hints(handler)["request"]).validate_python(params))
        return found

    def _notified(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            session_id = schema.CancelNotification.model_validate(params).session_id
            if self._loading is not None and self._loading.done():
                self._loading.result().cancel(session_id)
        elif method == "$/cancel_request":
            cancelled = schema.CancelRequestNotification.model_validate(params).request_id
            if (task := self._running.get(cancelled)) is not None:
                _ = task.cancel()


def run(flags: Mapping[str, object]) -> int:
    """Serve the editor that started this process and return the exit code."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what anything prints goes to standard error: standard output is the protocol's
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="lmtui acp: %(message)s")
    with asyncio.Runner() as runner:
        try:
            runner.run(_serve(source, target, flags))
        finally:
            if (problem := sys.exception()) is not None:
                _log.error("%s", problem, exc_info=not isinstance(problem, LmtuiError))
            sys.stderr.flush()
            os._exit(problem is not None)  # nothing waits for threads that wait for pipes


async def _serve(source: int, target: int, flags: Mapping[str, object]) -> None:
    transport = await editor_transport(source, target)
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, transport.lost.set)
    agent = Dispatcher(transport, flags)
    ends = agent.connection.main_loop(), transport.lost.wait(), _parent_ended()
    _ = await asyncio.wait([asyncio.ensure_future(each) for each in ends], return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await agent.close()
    await transport.close()


async def _parent_ended() -> None:
    """Wait for the end of the process that started this one: others may still hold its end of the pipe."""
    parent = os.getppid()
    while os.getppid() == parent:  # noqa: ASYNC110  (nothing tells it)
        await asyncio.sleep(_PARENT_EVERY_S)
