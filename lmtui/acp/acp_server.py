"""Runs the agent on standard input and output until the editor is gone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Mapping
from typing import Any, get_type_hints

from acp import schema
from acp.connection import Connection
from acp.exceptions import RequestError
from pydantic import BaseModel, TypeAdapter, ValidationError

from lmtui.acp.editor_client import Editor, dumped
from lmtui.acp.editor_pipe import REQUEST_ID, EditorPipe
from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize_line
from lmtui.registry import load

METHOD_NOT_FOUND, INVALID_PARAMS, INTERNAL, CANCELLED = -32601, -32602, -32603, -32800
_PARENT_EVERY_S = 1.0
_CLOSE_S = 1.2
_log = logging.getLogger(__name__)

_AGENT = "lmtui.acp.acp_agent:AcpAgent"
_SETUP = "lmtui.acp.acp_agent:choose_model"


class Dispatcher:
    """Gives each message of the editor to the agent; what it asks may be cancelled while it is worked on.

    The agent is loaded only once the editor was answered for the first time: that takes as long as all before.

    Args:
        pipe: leads to the editor.
        flags: settings from the command line.
    """

    def __init__(self, pipe: EditorPipe, flags: Mapping[str, object]) -> None:
        self.connection = Connection(self, pipe, listening=False)
        self._editor, self._flags = Editor(self.connection, pipe), flags
        self._loading: asyncio.Task[Any] | None = None
        self._running: dict[int | str | None, asyncio.Future[BaseModel | None]] = {}

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
        try:
            if is_notification:
                await self._notified(method, params)
                return None
            if method == "initialize":
                self._editor.after_answer(self.load)
                return dumped(self._editor.initialize(schema.InitializeRequest.model_validate(params or {})))
            handler = (await self.load()).routes.get(method)
            if handler is None:
                raise RequestError(METHOD_NOT_FOUND, f"Method not found: {sanitize_line(method)[:100]}")
            request = TypeAdapter(get_type_hints(handler)["request"]).validate_python(params or {})
            return dumped(await self._worked_on(handler(request)))
        except ValidationError as error:
            found = error.errors(include_url=False, include_context=False, include_input=False)[:3]
            words = sanitize_line("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found))
            if is_notification:
                _log.warning("the editor's %s cannot be read: %s", sanitize_line(method), words)
                return None
            raise RequestError(INVALID_PARAMS, f"Invalid params: {words}") from error
        except LmtuiError as error:
            raise RequestError(INTERNAL, sanitize_line(error.full_text())) from error

    async def _worked_on(self, work: Awaitable[BaseModel | None]) -> BaseModel | None:
        """Wait for an answer; a request that is cancelled ends with the error that says so."""
        task, request_id = asyncio.ensure_future(work), REQUEST_ID.get()
        self._running[request_id] = task
        try:
            _ = await asyncio.wait((task,))
            if task.cancelled():
                raise RequestError(CANCELLED, "Request cancelled")
            return task.result()
        finally:
            _ = task.cancel()
            if self._running.get(request_id) is task:
                del self._running[request_id]

    async def _notified(self, method: str, params: Any) -> None:
        if method == "session/cancel":
            session_id = schema.CancelNotification.model_validate(params).session_id
            await asyncio.sleep(0)  # a prompt that came just before is taken up now
            if self._loading is not None and self._loading.done():
                self._loading.result().cancel(session_id)
        elif method == "$/cancel_request":
            cancelled = schema.CancelRequestNotification.model_validate(params).request_id
            if cancelled is not None and (task := self._running.get(cancelled)) is not None:
                task.cancel()


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
            if (bug := sys.exception()) is not None:
                _log.error("failed inside", exc_info=bug)
            sys.stderr.flush()
            os._exit(bug is not None)  # nothing waits for threads that wait for pipes


async def _serve(source: int, target: int, flags: Mapping[str, object]) -> None:
    over = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, over.set)
    pipe = EditorPipe(source, target, over.set)
    agent = Dispatcher(pipe, flags)
    reading, ending = asyncio.ensure_future(agent.connection.main_loop()), asyncio.ensure_future(over.wait())
    watching = asyncio.ensure_future(_watch_parent(over))
    _ = await asyncio.wait((reading, ending), return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await agent.close()
    for each in (reading, ending, watching):
        each.cancel()
    await pipe.close()


async def _watch_parent(over: asyncio.Event) -> None:
    """End this once the process that started it has ended: something else may still hold its end of the pipe."""
    parent = os.getppid()
    while not over.is_set():
        await asyncio.sleep(_PARENT_EVERY_S)
        if os.getppid() != parent:
            over.set()


def run_setup(flags: Mapping[str, object]) -> int:
    """Let the user choose a model in this terminal and return the exit code: 0 once one is chosen."""
    return int(asyncio.run(load(_SETUP)(flags)))
