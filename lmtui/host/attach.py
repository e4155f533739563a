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
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket, WebSocketDisconnect

from lmtui import __version__
from lmtui.app.archive import encode_event
from lmtui.app.host import Runtime
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.offers import Offers
from lmtui.core.prompt_text import FilledPrompt
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import Answer, Session
from lmtui.core.workspace import EffectReview, Restoration
from lmtui.host import rpc
from lmtui.host.hub import GivenSettings, SessionHub
from lmtui.host.rpc import Kind, Member

_LOG = logging.getLogger(__name__)
_MOST_WAITING_BYTES = 64 * 1024 * 1024
_PART_BYTES = 256 * 1024
_LISTS = ("Archive.find", "Archive.sessions", "Archive.look_up")
_ANSWER_LIMIT_S = 24 * 3600.0
# Values that a client shows and gives back unchanged; it does not make them.
_HANDED_OUT = (Restoration, FilledPrompt)


class SlowClient(Exception):
    """The client does not read what it is sent."""


class LineCache:
    """Writes each event once, however many clients get it."""

    def __init__(self) -> None:
        self._last: tuple[Envelope, str] | None = None

    def line(self, envelope: Envelope) -> str:
        """Return the line of an event."""
        if self._last is None or self._last[0] is not envelope:
            self._last = envelope, encode_event(envelope)
        return self._last[1]


@dataclass(slots=True)
class Outbox:
    """Messages that wait to be sent, in order; `wake` is set when there are some."""

    messages: list[str] = field(default_factory=list)
    size: int = 0
    wake: asyncio.Event = field(default_factory=asyncio.Event)

    def put(self, message: Mapping[str, Any], first: bool = False) -> None:
        """Add a message; raise `SlowClient` where too much waits."""
        text = json.dumps(message, separators=(",", ":"))
        self.size += len(text)
        if self.size > _MOST_WAITING_BYTES:
            raise SlowClient
        self.messages.insert(0, text) if first else self.messages.append(text)

    def take(self) -> str:
        """Return everything as one frame."""
        frame = f"[{','.join(self.messages)}]"
        self.messages, self.size = [], 0
        self.wake.clear()
        return frame


@dataclass(frozen=True, slots=True)
class AttachedClient:
    """Who is attached: `name` is shown to others where it answers; `gone` is called when it does not read.

    One that `is_local` came through the local socket; others may call what is open to the network.
    """

    name: str
    gone: Callable[[], None]
    is_local: bool


class Attachment:
    """What is kept for one client.

    Args:
        hub: the sessions.
        runtime: that of the client's folder.
        client: who it is.
        lines: writes events.
    """

    def __init__(self, hub: SessionHub, runtime: Runtime, client: AttachedClient, lines: LineCache) -> None:
        self._hub, self._runtime, self._client, self._lines = hub, runtime, client, lines
        self._handed_out: set[bytes] = set()
        self.outbox = Outbox()
        self._sessions: dict[str, Session] = {}
        self._reviews: list[EffectReview] = []
        self._leave: dict[int, Callable[[], None]] = {}  # by the number of the client's function
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
        try:
            self.outbox.put(message)
        except SlowClient:
            self._client.gone()
            return
        if not self._is_due:
            self._is_due = True
            _ = asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._is_due = False
        try:
            if self._is_dirty:
                self._is_dirty = False
                self._refresh()
        finally:
            self.outbox.wake.set()

    def _refresh(self) -> None:
        """Send the mirrored values that are others now, before everything that waits: nobody sees an event before them."""
        for (on, path, name), last in list(self._mirrored.items()):
            try:
                target, port = self._target(on, path)
                value = _get(target, rpc.members(port)[name])
            except LmtuiError:
                continue
            text = json.dumps(rpc.encode(value))
            if text != last:
                self._mirrored[on, path, name] = text
                with contextlib.suppress(SlowClient):
                    self.outbox.put({"set": [on, path, name], "value": json.loads(text)}, first=True)

    # -- receiving -------------------------------------------------------------------------------------------------------

    def take(self, frame: str | bytes) -> None:
        """Take up the messages of a frame.

        Raises:
            UsageError: it is none.
        """
        for message in rpc.loads(frame):
            if "call" in message:
                self._called(message)
            elif "re" in message:
                self._answered(message)
            elif "leave" in message:
                leave = self._leave.pop(_number(message["leave"]), None)
                if leave is not None:
                    leave()
            else:
                raise UsageError("unknown kind of message")

    def _answered(self, message: Mapping[str, Any]) -> None:
        future = self._asked.pop(_number(message["re"]), None)
        if future is None or future.done():
            return
        if "error" in message:
            future.set_exception(rpc.decode_error(message["error"]))
        else:
            future.set_result(message.get("ok"))

    def _called(self, message: Mapping[str, Any]) -> None:
        number = _number(message.get("id"))
        on, path, name = (str(message.get(key, "")) for key in ("on", "port", "call"))
        try:
            if not isinstance(message.get("with") or {}, dict):
                raise UsageError("arguments are not an object")
            if (own := None if path else self._own_call(on, name, message)) is not None:
                self._run(number, own)
                return
            target, port = self._target(on, path)
            member = rpc.members(port).get(name)
            if member is None or not member.may_be_called(is_local=True):
                raise UsageError(f"a client cannot call {sanitize_line(f'{path}.{name}')[:80]}")
            given = self._arguments(member, message.get("with"))
            if not self._client.is_local:
                rpc.check_network(member, given)
            if isinstance(session_id := given.get("session_id"), str):
                target, _ = self._target(on, path, self._hub.runtime_of(session_id))
            if member.kind is Kind.STREAM:
                self._run(number, self._stream(number, getattr(target, name)(**given)))
            elif member.full_name == "SessionHost.switch_model" and not self._client.is_local:
                self._run(number, self._awaited(number, member, self._hub.switch_model(target, **given)))
            elif member.kind is Kind.ASYNC:
                self._run(number, self._awaited(number, member, getattr(target, name)(**given)))
            elif "in_thread" in member.marks:
                self._run(number, self._awaited(number, member, asyncio.to_thread(_call, target, member, given)))
            else:
                self._run(number, self._at_once(member, target, given, message))
        except LmtuiError as error:
            self._send({"re": number, "error": rpc.encode_error(error)})

    async def _at_once(self, member: Member, target: Any, given: Mapping[str, Any], message: Mapping[str, Any]) -> None:
        """Do a call that returns at once; it waits for nothing, so calls are done in their order."""
        value = None if self._shared(member, given) else _call(target, member, given)
        if member.kind is Kind.VALUE:
            on, path, name = (str(message.get(key, "")) for key in ("on", "port", "call"))
            self._mirrored[on, path, name] = json.dumps(rpc.encode(value))
        self._reply(_number(message.get("id")), member, value, message)

    def _shared(self, member: Member, given: Mapping[str, Any]) -> bool:
        """Do what would take the place of what another client set; tell whether it was that."""
        match member.port.__name__, member.name:
            case "Files", "watch":
                self._hub.shared(self._runtime).watch_folders(self, given["folders"])
            case _, "answer_with":
                self._hub.shared(self._runtime).ask_with(self, given["ask"])
            case _:
                return False
        return True

    def _own_call(self, on: str, name: str, message: Mapping[str, Any]) -> Awaitable[None] | None:
        """Return the work of a call that is not a method of a port."""
        number = _number(message.get("id"))
        session_id = on.removeprefix(rpc.SESSION)
        if on == rpc.HOST and name == "open":
            return self._open(number, str((message.get("with") or {}).get("session_id", "")))
        if on.startswith(rpc.SESSION) and name == "follow":
            return self._follow(number, session_id, _number((message.get("with") or {}).get("after")))
        if on.startswith(rpc.SESSION) and name == "has_changes":
            return self._tell_changes(number, on)
        if on.startswith(rpc.SESSION) and name == "close":
            return self._close_session(number, session_id)
        return None

    def _run(self, number: int, work: Awaitable[None]) -> None:
        async def guarded() -> None:
            try:
                await work
            except LmtuiError as error:
                self._send({"re": number, "error": rpc.encode_error(error)})

        task = asyncio.get_running_loop().create_task(guarded())
        self._tasks.add(task)
        task.add_done_callback(partial(self._ended, number))

    def _ended(self, number: int, task: asyncio.Task[None]) -> None:
        """Answer a call that failed by a bug in the engine, too; the log says which."""
        self._tasks.discard(task)
        if not task.cancelled() and (bug := task.exception()) is not None:
            _LOG.error("a call of a client failed", exc_info=bug)
            error = LmtuiError("internal error of the host", "Details are in lmtui.log (`lmtui doctor` shows the path).")
            self._send({"re": number, "error": rpc.encode_error(error)})

    async def _awaited(self, number: int, member: Member, work: Awaitable[Any]) -> None:
        value = await work
        if member.full_name in _LISTS:
            value = self._hub.as_seen_here(value)
        self._reply(number, member, value, {})

    async def _stream(self, number: int, items: Any) -> None:
        async with contextlib.aclosing(items):
            async for each in items:
                self._send({"re": number, "part": rpc.encode(each)})
        self._send({"re": number, "ok": None})

    def _reply(self, number: int, member: Member, value: Any, message: Mapping[str, Any]) -> None:
        if member.returns is not None:
            self._send({"re": number, "ok": self._kept(value)})
        elif rpc.is_function(member.result):
            self._leave[_number(next(iter((message.get("with") or {}).values())))] = value
            self._send({"re": number, "ok": None})
        else:
            if isinstance(value, _HANDED_OUT):
                self._handed_out.add(rpc.digest(value))
            self._send({"re": number, "ok": rpc.encode(value)})

    # -- objects ---------------------------------------------------------------------------------------------------------

    def _target(self, on: str, path: str, runtime: Runtime | None = None) -> tuple[Any, type]:
        """Return an object of the host, and its port; what is about a session is its own runtime's."""
        target: Any
        if on == rpc.HOST:
            target, root = runtime or self._runtime, rpc.ROOTS[rpc.HOST]
        elif on.startswith(rpc.SESSION) and (session := self._sessions.get(on.removeprefix(rpc.SESSION))):
            target, root = session, rpc.ROOTS[rpc.SESSION]
        elif on.startswith(rpc.REVIEW) and (at := on.removeprefix(rpc.REVIEW)).isdecimal() and int(at) < len(self._reviews):
            target, root = self._reviews[int(at)], EffectReview
        else:
            raise UsageError(f"{sanitize_line(on)[:60]} is not open", "Open it again.")
        if on == rpc.HOST:
            rpc.learn_ports(target.extensions.ports)
        port = rpc.resolve(root, path)
        for name in path.split(".") if path else ():
            if isinstance(target, Offers):
                target = target[next(each for each in target.ports if each.__name__ == name)]
            else:
                target = getattr(target, name) if target is not None else None
        if target is None:
            raise UsageError(f"{sanitize_line(path)[:60]} is not available here")
        return target, port

    def _kept(self, value: Any) -> str | None:
        """Return how the client addresses an object."""
        if value is None:
            return None
        self._reviews.append(value)
        return f"{rpc.REVIEW}{len(self._reviews) - 1}"

    def _arguments(self, member: Member, given: Mapping[str, Any] | None) -> dict[str, Any]:
        """Return the arguments of a call, each read as what the port says."""
        found: dict[str, Any] = {}
        for name, value in (given or {}).items():
            if name not in member.parameters:
                raise UsageError(f"{member.full_name} has no {sanitize_line(str(name))[:40]}")
            hint = member.parameters[name]
            found[name] = self._function(_number(value), hint) if rpc.is_function(hint) else rpc.decode(hint, value)
        for value in found.values() if not self._client.is_local else ():
            if isinstance(value, _HANDED_OUT) and rpc.digest(value) not in self._handed_out:
                raise UsageError(f"{member.full_name} takes only what this host has returned before", "Ask for it again.")
        if isinstance(answer := found.get("answer"), Answer):
            found["answer"] = replace(answer, by=self._client.name)
        if "by" in member.parameters:
            found["by"] = self._client.name
        missing = [each for each in rpc.required(member) if each not in found]
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
                self._sessions[session.id] = session
                self._hub.watch(session.id)
                session.when_closed.append(self._drop_closed)
                self._leave[hash((session.id, "closed"))] = partial(_discard, session.when_closed, self._drop_closed)
        self._send({"re": number, "ok": f"{rpc.SESSION}{session.id}"})

    def _drop_closed(self) -> None:
        """Let go of a session that somebody else deleted, and tell the client."""
        for session_id in [each for each in self._sessions if self._hub.runtime_of(each) is None]:
            self._drop(session_id)
            self._send({"closed": f"{rpc.SESSION}{session_id}"}, changes=False)

    async def _follow(self, number: int, session_id: str, after: int) -> None:
        """Send the durable events behind one, and then every event there is."""
        session = self._sessions.get(session_id)
        if session is None:
            raise UsageError(f"session {sanitize_line(session_id)[:60]} is not open", "Open it again.")
        key = -hash(session_id)
        if (leave := self._leave.pop(key, None)) is not None:
            leave()
        past = [each for each in session.history() if each.seq > after]
        self._leave[key] = session.subscribe(partial(self._tell, f"{rpc.SESSION}{session_id}"))
        part: list[str] = []
        size = 0
        for envelope in past:
            part.append(encode_event(envelope))
            size += len(part[-1])
            if size > _PART_BYTES:
                self._send({"re": number, "part": part})
                part, size = [], 0
        self._send({"re": number, "ok": part})
        for envelope in self._hub.streamed.of(session_id) if after == 0 else ():  # later it has the beginning already
            self._tell(f"{rpc.SESSION}{session_id}", envelope)

    async def _tell_changes(self, number: int, on: str) -> None:
        session, _ = self._target(on, "")
        self._send({"re": number, "ok": session.changes is not None})

    def _tell(self, on: str, envelope: Envelope) -> None:
        self._send({"event": on, "line": self._lines.line(envelope)}, changes=envelope.event.durable)

    async def _close_session(self, number: int, session_id: str) -> None:
        """Stop looking at a session; it is closed when nobody looks and nothing is left to do in it."""
        self._drop(session_id)
        self._send({"re": number, "ok": None})

    def _drop(self, session_id: str) -> None:
        for at in (-hash(session_id), hash((session_id, "closed"))):
            if (leave := self._leave.pop(at, None)) is not None:
                leave()
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


def _discard(told: list[Callable[[], object]], function: Callable[[], object]) -> None:
    with contextlib.suppress(ValueError):
        told.remove(function)


def _get(target: Any, member: Member) -> Any:
    value = getattr(target, member.name)
    return value if member.is_property else value()


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
        self._lines = LineCache()
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
        hello = first[0].get("hello") if first else None
        if not isinstance(hello, dict):
            raise UsageError("the first message is not a greeting")
        if hello.get("protocol") != rpc.PROTOCOL:
            raise UsageError(
                f"host (lmtui {__version__}) and client (lmtui {sanitize_line(str(hello.get('version')))[:20]}) do not match",
                "Use the same version on both sides; `lmtui host stop` ends an older host.",
            )
        is_local = is_unix(socket.scope)
        folder, given = str(hello.get("folder") or ""), GivenSettings()
        if is_local:
            flags, environment = hello.get("flags"), hello.get("environment")
            given = GivenSettings(flags if isinstance(flags, dict) else {}, _texts(environment))
        else:
            folder = str(self._hub.allowed(folder) if folder else next(iter(self._hub.folders), ""))
        session_id = str(hello.get("session") or "")
        runtime = self._hub.runtime_of(session_id) if session_id else None
        if runtime is None and session_id and not is_local:
            runtime = await self._hub.find_runtime(session_id)
        if runtime is None and not folder:
            raise UsageError(
                "clients may not open any folder yet", "Start a session on that machine, or set host_folders there."
            )
        runtime = runtime or await self._hub.runtime(Path(folder), given)
        if is_local and folder:
            self._hub.allow(Path(folder))
        name = sanitize_line(str(hello.get("name") or "a client"))[:60]
        client = AttachedClient(name, lambda: _close_soon(socket), is_local)
        attachment = Attachment(self._hub, runtime, client, self._lines)
        welcome = {"version": __version__, "folder": str(runtime.workspace), "sessions": [each.id for each in runtime.sessions]}
        await socket.send_text(rpc.dumps([{"welcome": welcome}]))
        return attachment


_REFUSED, _MALFORMED, _TOO_SLOW = 4001, 4002, 4003
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


def _texts(value: object) -> dict[str, str]:
    """Return the variables of a client; an empty one hides that of the host, which another command started."""
    found = value.items() if isinstance(value, dict) else ()
    return {key: each for key, each in found if isinstance(key, str) and isinstance(each, str) and (each or key in os.environ)}


async def _write(socket: WebSocket, outbox: Outbox) -> None:
    """Send what waits, whenever there is something."""
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await outbox.wake.wait()
            await socket.send_text(outbox.take())


def _close_soon(socket: WebSocket) -> None:
    """End the connection of a client that does not read; it comes again and is sent what it missed."""
    closing = asyncio.get_running_loop().create_task(_close(socket))
    _CLOSING.add(closing)
    closing.add_done_callback(_CLOSING.discard)


_CLOSING: set[asyncio.Task[None]] = set()


async def _close(socket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        await socket.close(_TOO_SLOW)
