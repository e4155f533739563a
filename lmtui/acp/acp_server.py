"""Runs the agent on standard input and output until the editor is gone, and leaves nothing behind."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, Protocol

from acp import schema
from acp.connection import Connection
from acp.exceptions import RequestError
from pydantic import BaseModel, ValidationError

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

Handler = Callable[[Any], Awaitable[BaseModel]]


class AgentMethods(Protocol):
    """The agent, which is loaded only once the editor was answered for the first time: that takes as long as all before."""

    def route(self, method: str, params: Any) -> tuple[type[BaseModel], Handler] | None:
        """Return what a request's parameters are and what answers it, None where the method is not known."""

    def cancel(self, session_id: str) -> None:
        """Stop what runs in a session."""

    async def close(self) -> None:
        """Close everything."""


class Dispatcher:
    """Gives each message of the editor to the agent; what it asks may be cancelled while it is worked on.

    Args:
        editor: answers `initialize`, before the rest of the program is loaded.
        flags: settings from the command line.
    """

    def __init__(self, editor: Editor, flags: Mapping[str, object]) -> None:
        self._editor, self._flags = editor, flags
        self._loading: asyncio.Task[AgentMethods] | None = None
        self._running: dict[int | str, asyncio.Future[BaseModel]] = {}

    def load(self) -> asyncio.Task[AgentMethods]:
        """Load the agent, once."""
        if self._loading is None:
            self._loading = asyncio.create_task(self._load(), name="acp agent")
        return self._loading

    def begin_loading(self) -> None:
        """Load the agent while the editor reads what it can do."""
        _ = self.load()

    async def _load(self) -> AgentMethods:
        make: Callable[[Editor, Mapping[str, object]], AgentMethods] = await asyncio.to_thread(load, _AGENT)
        return make(self._editor, self._flags)

    async def close(self) -> None:
        """Close the agent."""
        if self._loading is not None:
            await (await self._loading).close()

    async def __call__(self, method: str, params: Any, is_notification: bool) -> dict[str, Any] | None:
        if is_notification:
            await self._notified(method, params)
            return None
        try:
            if method == "initialize":
                self._editor.after_answer(self.begin_loading)
                return dumped(self._editor.initialize(schema.InitializeRequest.model_validate(params or {})))
            route = (await self.load()).route(method, params)
            if route is None:
                raise RequestError(METHOD_NOT_FOUND, f"Method not found: {sanitize_line(method)[:100]}")
            model, handler = route
            return dumped(await self._worked_on(handler(model.model_validate(params or {}))))
        except ValidationError as error:
            raise RequestError(INVALID_PARAMS, f"Invalid params: {_words(error)}") from error
        except LmtuiError as error:
            raise RequestError(INTERNAL, sanitize_line(error.full_text())) from error

    async def _worked_on(self, work: Awaitable[BaseModel]) -> BaseModel:
        """Wait for an answer; a request that is cancelled ends with the error that says so."""
        task, request_id = asyncio.ensure_future(work), REQUEST_ID.get()
        if request_id is not None:
            self._running[request_id] = task
        try:
            return await task
        except asyncio.CancelledError:
            if task.cancelled() and not _is_cancelled():
                raise RequestError(CANCELLED, "Request cancelled") from None
            task.cancel()
            raise
        finally:
            if request_id is not None and self._running.get(request_id) is task:
                del self._running[request_id]

    async def _notified(self, method: str, params: Any) -> None:
        try:
            if method == "session/cancel":
                session_id = schema.CancelNotification.model_validate(params).session_id
                await asyncio.sleep(0)  # a prompt that came just before is taken up now
                if self._loading is not None and self._loading.done():
                    self._loading.result().cancel(session_id)
            elif method == "$/cancel_request":
                cancelled = schema.CancelRequestNotification.model_validate(params).request_id
                if cancelled is not None and (task := self._running.get(cancelled)) is not None:
                    task.cancel()
        except ValidationError as error:
            _log.warning("the editor's %s cannot be read: %s", sanitize_line(method), _words(error))


def _is_cancelled() -> bool:
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _words(error: ValidationError) -> str:
    found = error.errors(include_url=False, include_context=False, include_input=False)
    return sanitize_line("; ".join(f"{'.'.join(map(str, each['loc']))}: {each['msg']}" for each in found[:3]))


def run(flags: Mapping[str, object]) -> int:
    """Serve the editor that started this process and return the exit code."""
    source, target = os.dup(0), os.dup(1)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)  # what anything prints goes to standard error: standard output is the protocol's
    logging.basicConfig(stream=sys.stderr, level=logging.ERROR, format="lmtui acp: %(message)s")
    with asyncio.Runner() as runner:
        runner.run(_serve(source, target, flags))
        sys.stderr.flush()
        os._exit(0)  # nothing waits for threads that wait for pipes


async def _serve(source: int, target: int, flags: Mapping[str, object]) -> None:
    over = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
        loop.add_signal_handler(number, over.set)
    pipe = EditorPipe(source, target, over.set)
    routes: list[Dispatcher] = []

    async def handle(method: str, params: Any, is_notification: bool) -> dict[str, Any] | None:
        return await routes[0](method, params, is_notification)

    connection = Connection(handle, pipe, listening=False)
    routes.append(Dispatcher(Editor(connection, pipe), flags))
    waits: list[asyncio.Task[Any]] = [
        asyncio.create_task(connection.main_loop(), name="acp"),
        asyncio.create_task(over.wait(), name="acp end"),
        asyncio.create_task(_watch_parent(over), name="acp parent"),
    ]
    await asyncio.wait(waits[:2], return_when=asyncio.FIRST_COMPLETED)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(_CLOSE_S):
            await routes[0].close()
    for each in waits:
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
    choose: Callable[[Mapping[str, object]], Coroutine[Any, Any, int]] = load(_SETUP)
    return asyncio.run(choose(flags))
