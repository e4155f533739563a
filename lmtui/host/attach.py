"""What a host does for one attached client: calls, values that are kept the same on both sides, and events in their order.

The client reads the same ports as a front end in this process; see `lmtui.host.rpc` for the messages.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from lmtui import __version__
from lmtui.app.archive import encode_event
from lmtui.app.host import Runtime
from lmtui.core.errors import HostError, LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.offers import Offers
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Answer, Session
from lmtui.core.workspace import EffectReview, Restoration
from lmtui.host import rpc
from lmtui.host.feed import ABORT
from lmtui.host.hub import GivenSettings, SessionHub
from lmtui.host.rpc import Kind, Member

_LOG = logging.getLogger(__name__)
_MOST_WAITING_BYTES = 64 * 1024 * 1024
_LISTS = ("Archive.find", "Archive.sessions", "Archive.look_up")
_ANSWER_LIMIT_S = 24 * 3600.0
# Values that a client shows and gives back unchanged; it does not make them.
_HANDED_OUT = (Restoration, FilledPrompt)


@dataclass(slots=True)
class Outbox:
    """Messages that wait to be sent, in order; `wake` is set when there are some."""

    messages: list[str] = field(default_factory=list)
    size: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: Mapping[str, Any], first: bool = False) -> bool:
        """Add a message; tell whether there was room for it."""
        text = json.dumps(message, separators=(",", ":"))
        self.size += len(text)
        if self.size > _MOST_WAITING_BYTES:
            return False
        self.messages.insert(0 if first else len(self.messages), text)
        return True

    def take(self) -> str:
        """Return everything as one frame."""
        frame = f"[{','.join(self.messages)}]"
        self.messages, self.size = [], 0
        self.wake.clear()
        return frame


class Attachment:
    """What is kept for one client.

    Args:
        hub: the sessions.
        runtime: that of the client's folder.
        name: who the client is; shown to others where it answers.
        gone: is called when it does not read.
        is_local: it came through the local socket; others may call what is open to the network.
    """

    def __init__(self, hub: SessionHub, runtime: Runtime, name: str, gone: Callable[[], object], *, is_local: bool) -> None:
        self._hub, self._runtime = hub, runtime
        self._name, self._gone, self._is_local = name, gone, is_local
        self._handed_out: set[bytes] = set()
        self.outbox = Outbox()
        self._sessions: dict[str, Session] = {}
        self._reviews: dict[str, EffectReview] = {}  # by the name under which a client calls them
        self._leave: dict[object, Callable[[], None]] = {}  # by the number of the client's function, or the followed session
        self._mirrored: dict[tuple[str, str, str], str] = {}
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._questions = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_dirty = False
        self._is_due = False

    # -- sending ---------------------------------------------------------------------------------------------------------

    def _send(self, message: Mapping[str, Any], *, changes: bool = True) -> None:
        """Send a message behind those before it; one that `changes` something sends the mirrored values before."""
        self._is_dirty = self._is_dirty or changes
        if not self.outbox.put(message):
            _ = self._gone()
        elif not self._is_due:
            self._is_due = True
            _ = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        """Send what waits, and before it the mirrored values that are others now: nobody sees an event before them."""
        is_dirty, self._is_dirty, self._is_due = self._is_dirty, False, False
        try:
            for (on, path, name), last in list(self._mirrored.items()) if is_dirty else ():
                with contextlib.suppress(LmtuiError):
                    target, port = self._target(on, path)
                    value = rpc.encode(_call(target, rpc.members(port)[name], {}))
                    if (text := json.dumps(value)) != last:
                        self._mirrored[on, path, name] = text
                        _ = self.outbox.put({"set": [on, path, name], "value": value}, first=True)
        finally:
            self.outbox.wake.set()

    # -- receiving -------------------------------------------------------------------------------------------------------

    def take(self, frame: str | bytes) -> None:
        """Take up the messages of a frame.

        Raises:
            UsageError: it is none.
        """
        for message in rpc.loads(frame):
            if "call" in message:
                on, path, name = (str(message.get(key, "")) for key in ("on", "port", "call"))
                self._run(_number(message.get("id")), rpc.RemoteCall(on, path, name, message.get("with") or {}))
            elif "re" in message:
                rpc.settle(self._asked.pop(_number(message["re"]), None), message)
            elif "leave" in message:
                leave = self._leave.pop(_number(message["leave"]), None)
                if leave is not None:
                    leave()
            else:
                raise UsageError("unknown kind of message")

    def _run(self, number: int, call: rpc.RemoteCall) -> None:
        """Do a call in a task; one that returns at once waits for nothing, so such calls are done in their order."""
        task = asyncio.get_running_loop().create_task(self._do(number, call))
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        """Answer a call that failed; by a bug in the engine, too, and the log says which."""
        self._tasks.discard(task)
        if task.cancelled() or (error := task.exception()) is None:
            return
        if not isinstance(error, LmtuiError):
            _LOG.error("a call of a client failed", exc_info=error)
            error = LmtuiError("internal error of the host", "Details are in lmtui.log (`lmtui doctor` shows the path).")
        self._send({"re": number, "error": rpc.encode_error(error)})

    async def _do(self, number: int, call: rpc.RemoteCall) -> None:
        """Do a call and answer it."""
        if not isinstance(call.given, dict):
            raise UsageError("arguments are not an object")
        session_id = call.on.removeprefix(rpc.SESSION)
        match "" if call.path else call.name:
            case "open" if call.on == rpc.HOST:
                await self._open(number, str(call.given.get("session_id", "")))
            case "follow" if call.on.startswith(rpc.SESSION):
                self._follow(number, session_id, _number(call.given.get("after")))
            case "has_changes" if call.on.startswith(rpc.SESSION):
                self._send({"re": number, "ok": self._target(call.on, "")[0].changes is not None})
            case "close" if call.on.startswith(rpc.SESSION):
                self._drop(session_id)  # it is closed when nobody looks and nothing is left to do in it
                self._send({"re": number, "ok": None})
            case _:
                await self._do_member(number, call)

    async def _do_member(self, number: int, call: rpc.RemoteCall) -> None:
        target, port = self._target(call.on, call.path)
        member = rpc.members(port).get(call.name)
        if member is None or not member.may_be_called(is_local=True):
            raise UsageError(f"a client cannot call {sanitize_line(f'{call.path}.{call.name}')[:80]}")
        given = self._arguments(member, call.given)
        if not self._is_local:
            rpc.check_network(member, given)
        if isinstance(session_id := given.get("session_id"), str):
            target, _ = self._target(call.on, call.path, self._hub.runtime_of(session_id))
        value = await self._value(member, target, given)
        if member.kind is Kind.VALUE:
            self._mirrored[call.on, call.path, call.name] = json.dumps(rpc.encode(value))
        self._send({"re": number, "ok": self._answer(call, member, value)})

    async def _value(self, member: Member, target: Any, given: Mapping[str, Any]) -> Any:
        """Return what a member returns; what would take the place of what another client set is done for all of them."""
        match member.full_name:
            case "SessionHost.switch_model" if not self._is_local:
                return await self._hub.switch_model(target, **given)
            case "Files.watch":
                return self._hub.shared(self._runtime).watch_folders(self, given["folders"])
            case _ if member.name == "answer_with":
                return self._hub.shared(self._runtime).ask_with(self, given["ask"])
            case _ if member.kind is Kind.ASYNC:
                return await getattr(target, member.name)(**given)
            case _ if "in_thread" in member.marks:
                value = await asyncio.to_thread(_call, target, member, given)
                return self._hub.as_seen_here(value) if member.full_name in _LISTS else value
            case _:
                return _call(target, member, given)

    def _answer(self, call: rpc.RemoteCall, member: Member, value: Any) -> Any:
        """Return what a client is sent of a value; a function ends what it was given, an object is addressed by a name."""
        if member.returns is not None:
            if value is None:
                return None
            self._reviews[name := f"{rpc.REVIEW}{len(self._reviews)}"] = value
            return name
        if rpc.is_function(member.result):
            self._leave[_number(next(iter(call.given.values())))] = value
            return None
        if isinstance(value, _HANDED_OUT):
            self._handed_out.add(rpc.digest(value))
        return rpc.encode(value)

    # -- objects ---------------------------------------------------------------------------------------------------------

    def _target(self, on: str, path: str, runtime: Runtime | None = None) -> tuple[Any, type]:
        """Return an object of the host, and its port; what is about a session is its own runtime's."""
        target: Any
        if on == rpc.HOST:
            target, root = runtime or self._runtime, rpc.ROOTS[rpc.HOST]
            rpc.learn_ports(target.extensions.ports)
        elif (session := self._sessions.get(on.removeprefix(rpc.SESSION))) and self._hub.find(session.id) is session:
            target, root = session, rpc.ROOTS[rpc.SESSION]
        elif (review := self._reviews.get(on)) is not None:
            target, root = review, EffectReview
        else:
            text = f"{sanitize_line(on)[:60]} is not open in the host: it was deleted, or the host was restarted."
            raise HostError(text, "Open it again.")
        port = rpc.resolve(root, path)
        for name in path.split(".") if path else ():
            if isinstance(target, Offers):
                target = target[next(each for each in target.ports if each.__name__ == name)]
            else:
                target = getattr(target, name) if target is not None else None
        if target is None:
            raise UsageError(f"{sanitize_line(path)[:60]} is not available here")
        return target, port

    def _arguments(self, member: Member, given: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments of a call, each read as what the port says."""
        found: dict[str, Any] = {}
        for name, value in given.items():
            if name not in member.parameters:
                raise UsageError(f"{member.full_name} has no {sanitize_line(str(name))[:40]}")
            hint = member.parameters[name]
            found[name] = self._function(_number(value), hint) if rpc.is_function(hint) else rpc.decode(hint, value)
        for value in found.values() if not self._is_local else ():
            if isinstance(value, _HANDED_OUT) and rpc.digest(value) not in self._handed_out:
                raise UsageError(f"{member.full_name} takes only what this host has returned before", "Ask for it again.")
        if isinstance(answer := found.get("answer"), Answer):
            found["answer"] = replace(answer, by=self._name)
        if "by" in member.parameters:
            found["by"] = self._name
        missing = [each for each in member.required if each not in found]
        if missing:
            raise UsageError(f"{member.full_name} needs {', '.join(missing)}")
        return found

    def _function(self, number: int, hint: Any) -> Callable[..., Any]:
        """Return a function that calls one of the client."""
        _, returns = rpc.function_types(hint)
        if returns is None:
            return lambda *args: self._send({"fn": number, "args": rpc.encode(args)})

        async def ask(*args: Any) -> Any:
            future = asyncio.get_running_loop().create_future()
            self._asked[number_of := next(self._questions)] = future
            self._send({"fn": number, "args": rpc.encode(args), "id": number_of})
            try:
                async with asyncio.timeout(_ANSWER_LIMIT_S):
                    return rpc.decode(returns, await future)
            finally:
                _ = self._asked.pop(number_of, None)

        return ask

    # -- sessions --------------------------------------------------------------------------------------------------------

    async def _open(self, number: int, session_id: str) -> None:
        """Open a session, a new one without id."""
        runtime = self._hub.runtime_of(session_id, self._runtime.workspace) or self._runtime
        with self._hub.opening():
            session = await (runtime.open_session(session_id) if session_id else runtime.new_session())
            if self._sessions.get(session.id) is not session:
                self._drop(session.id)
                self._sessions[session.id] = session
                self._hub.watch(session.id)
        self._send({"re": number, "ok": f"{rpc.SESSION}{session.id}"})

    def _follow(self, number: int, session_id: str, after: int) -> None:
        """Send the durable events behind one, and then every event there is."""
        session, _ = self._target(f"{rpc.SESSION}{session_id}", "")
        if (leave := self._leave.pop(session_id, None)) is not None:
            leave()
        past = [encode_event(each) for each in session.history() if each.seq > after]
        self._leave[session_id] = session.subscribe(partial(self._tell, f"{rpc.SESSION}{session_id}"))
        self._send({"re": number, "ok": past})
        for envelope in self._hub.streamed.of(session_id) if after == 0 else ():  # later it has the beginning already
            self._tell(f"{rpc.SESSION}{session_id}", envelope)

    def _tell(self, on: str, envelope: Envelope) -> None:
        self._send({"event": on, "line": encode_event(envelope)}, changes=envelope.event.durable)

    def _drop(self, session_id: str) -> None:
        with contextlib.suppress(LookupError):
            self._leave.pop(session_id)()
        if self._sessions.pop(session_id, None) is not None:
            for key in [each for each in self._mirrored if each[0] == f"{rpc.SESSION}{session_id}"]:
                del self._mirrored[key]
            self._hub.unwatch(session_id)

    async def close(self) -> None:
        """Let go of everything: the client is gone."""
        self._hub.shared(self._runtime).leave(self)
        for session_id in list(self._sessions):
            self._drop(session_id)
        for leave in self._leave.values():
            leave()
        self._leave.clear()
        for future in self._asked.values():
            _ = future.cancel()
        for task in list(self._tasks):
            _ = task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def _call(target: Any, member: Member, given: Mapping[str, Any]) -> Any:
    if member.is_property:
        return getattr(target, member.name)
    value = getattr(target, member.name)(**given)
    return list(value) if isinstance(value, Iterator) else value


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0


# -- the socket ----------------------------------------------------------------------------------------------------------


class AttachEndpoint:
    """The WebSocket `/v1/attach`, an ASGI application behind the check of the token.

    The first frame of a client says who it is: the version of the messages, its name, the folder, and (through the local
    socket only) the settings that it brings.
    """

    def __init__(self, hub: SessionHub) -> None:
        self._hub = hub
        self.attached: set[Attachment] = set()
        self.greetings = 0  # clients that are being let in
        self.when_left: Callable[[], None] = lambda: None

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        socket = WebSocket(scope, receive, send)
        await socket.accept()
        try:
            self.greetings += 1
            attachment = await self._greeted(socket)
            self.attached.add(attachment)
        except LmtuiError as error:
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.send_text(rpc.dumps([{"refused": rpc.encode_error(error)}]))
                await socket.close(_REFUSED)
            return
        except (WebSocketDisconnect, TimeoutError):
            return
        finally:
            self.greetings -= 1
        writing = asyncio.create_task(_write(socket, attachment.outbox))
        try:
            while True:
                attachment.take(await _frame(socket))
        except (WebSocketDisconnect, RuntimeError):
            pass
        except UsageError as error:
            _LOG.warning("a client sent what cannot be read: %s", error)
            with contextlib.suppress(WebSocketDisconnect, RuntimeError):
                await socket.close(_MALFORMED)
        finally:
            self.attached.discard(attachment)
            _ = writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            await attachment.close()
            self.when_left()

    async def _greeted(self, socket: WebSocket) -> Attachment:
        """Read the first frame, and answer it."""
        async with asyncio.timeout(_GREETING_LIMIT_S):
            first = rpc.loads(await _frame(socket))
        hello = rpc.decode(rpc.Hello, first[0].get("hello") if first else None)
        if hello.protocol != rpc.PROTOCOL:
            raise UsageError(
                f"host (lmtui {__version__}) and client (lmtui {sanitize_line(hello.version)[:20]}) do not match",
                "Use the same version on both sides; `lmtui host stop` ends an older host.",
            )
        is_local, folder, given = is_unix(socket.scope), hello.folder, GivenSettings()
        if is_local:  # an empty variable hides that of the host, which another command started
            environment = {key: each for key, each in hello.environment.items() if each or key in os.environ}
            given = GivenSettings(hello.flags, environment)
        else:
            folder = str(self._hub.allowed(folder) if folder else next(iter(self._hub.folders), ""))
        runtime = self._hub.runtime_of(hello.session) if hello.session else None
        if runtime is None and hello.session and not is_local:
            runtime = await self._hub.find_runtime(hello.session)
        if runtime is None and not folder:
            raise UsageError(
                "clients may not open any folder yet", "Start a session on that machine, or set host_folders there."
            )
        runtime = runtime or await self._hub.runtime(Path(folder), given)
        if is_local and folder:
            self._hub.allow(Path(folder))
        name = sanitize_line(hello.name or "a client")[:60]
        attachment = Attachment(self._hub, runtime, name, socket.scope["extensions"][ABORT], is_local=is_local)
        welcome = {"version": __version__, "folder": str(runtime.workspace), "sessions": [each.id for each in runtime.sessions]}
        await socket.send_text(rpc.dumps([{"welcome": welcome}]))
        return attachment


_REFUSED, _MALFORMED = 4001, 4002
_GREETING_LIMIT_S = 10.0


async def _frame(socket: WebSocket) -> str:
    """Return the next frame.

    Raises:
        UsageError: it is not text.
    """
    try:
        return await socket.receive_text()
    except KeyError as error:
        raise UsageError("a frame is not text") from error


def is_unix(scope: Scope) -> bool:
    """Tell whether a request came through the local socket, which only this user can open."""
    server = scope.get("server")
    return server is not None and server[1] is None


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    """Send what waits, whenever there is something."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await outbox.wake.wait()
            await socket.send_text(outbox.take())
