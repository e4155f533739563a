"""The ports of `core.sessions` on the other side of a connection: a front end uses them as if the sessions were here.

A call that returns at once waits for the answer of the host (a local socket answers within a millisecond); what is drawn often
is mirrored, so reading it costs nothing.  When the connection breaks, it is made again and what was missed is sent: the log has
every durable event.  A thread reads; what the front end is told comes on its own loop.  Messages: `lmtui.host.rpc`.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import contextvars
import itertools
import logging
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, cast

from websockets.exceptions import ConnectionClosed, WebSocketException
from websockets.frames import CloseCode
from websockets.sync.client import ClientConnection

from lmtui.app.archive import decode_event
from lmtui.core import events
from lmtui.core.errors import ClosedToNetwork, HostError, LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.messages import Role
from lmtui.core.sessions import Extensions, Session, SessionHost, Subscriber
from lmtui.host import rpc
from lmtui.host.rpc import Kind, Member

_LOG = logging.getLogger(__name__)
CALL_LIMIT_S = 10.0
_LOOK_S = 1.0
_RETRY_S = 0.2
_TRIES = 25
_AWAY = "The host does not answer."
_STOPPED = "The host was stopped. Run `lmtui host start`; this window then reconnects."
_LONGEST_PAUSE_S = 5.0
_TOLD_AT = 3  # by then the host is not just starting
_AWAY_HINT = "Wait, or run `lmtui host status`. Saved work is not lost."
BROKEN = (WebSocketException, OSError)
_ENDS = (CloseCode.GOING_AWAY, CloseCode.SERVICE_RESTART)


Open = Callable[..., tuple[ClientConnection, str]]
"""Makes a connection, and again when one breaks; returns its folder, too.  A host is started for it if `may_start`.

Raises:
    LmtuiError: no host runs, or it refuses.
"""


class PassingNotice(events.Notice):
    """A notice of the connection; it is not part of the session."""

    durable: ClassVar[bool] = False


class RemoteSession:
    """A session of the host; what is not here is asked of the host by its port, `Session`."""

    def __init__(self, link: HostLink, session_id: str) -> None:
        self._link, self._on, self.id = link, f"{rpc.SESSION}{session_id}", session_id
        self._history: list[Envelope] = []
        self._subscribers: list[Subscriber] = []
        self.seq = 0
        self._early: list[Envelope] | None = []  # streamed before anybody listens; None from then on
        self._remote: Session = remote_port(link, self._on, "", Session)
        link.sessions[session_id] = self

    async def follow(self) -> None:
        """Get every durable event so far, and each later one from now on."""
        self._link.loop.use()
        await asyncio.wrap_future(self._ask_past())

    def _ask_past(self) -> concurrent.futures.Future[Any]:
        """Ask for the durable events behind the last one that is known."""
        return self._link.send(rpc.RemoteCall(self._on, "", "follow", {"after": self.seq}), self._take_past)

    def _take_past(self, answer: concurrent.futures.Future[Any]) -> None:
        """Publish what was asked for.  The thread that reads calls this before it reads on."""
        past = [decode_event(line) for line in answer.result()] if answer.exception() is None else []

        def publish() -> None:
            for envelope in past:
                self.publish(envelope)

        self._link.loop.soon(publish)

    def again(self) -> Sequence[Envelope]:
        """Take up the session in a host that was started again, or that the connection broke to; not on the loop.

        Return what was missed, which is published soon.
        """
        _ = self._link.wait(self._link.send(rpc.RemoteCall(rpc.HOST, "", "open", {"session_id": self.id})))
        return [decode_event(line) for line in self._link.wait(self._ask_past())]

    def history(self) -> Sequence[Envelope]:
        """Return every durable event so far, oldest first."""
        return self._history

    def subscribe(self, subscriber: Subscriber) -> Callable[[], None]:
        """Call `subscriber` with each later event; the returned function ends it."""
        self._subscribers.append(subscriber)
        if self._early is not None:
            self._link.loop.soon(self._tell_early)

        def leave() -> None:
            with contextlib.suppress(ValueError):
                self._subscribers.remove(subscriber)

        return leave

    def _tell_early(self) -> None:
        early, self._early = self._early, None
        for envelope in early or ():
            for subscriber in tuple(self._subscribers):
                subscriber(envelope)

    def publish(self, envelope: Envelope) -> None:
        """Give an event to who listens; one that was there already is passed over.  On the loop."""
        if self._early is not None:
            if self._subscribers:
                self._tell_early()
            elif envelope.event.durable:
                self._early.clear()
            else:
                self._early.append(envelope)
        if envelope.event.durable:
            if envelope.seq <= self.seq:
                return
            self.seq = envelope.seq
            self._history.append(envelope)
        for subscriber in tuple(self._subscribers):
            subscriber(envelope)

    def tell(self, level: events.Level, text: str) -> None:
        """Show a line that is not part of the session; from any thread."""
        now = self._history[-1].time if self._history else datetime.now(UTC)
        envelope = Envelope(self.seq, now, self.id, PassingNotice(level=level, text=text))
        self._link.loop.soon(partial(self.publish, envelope))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    @property
    def changes(self) -> Any:
        """Return what it changed and the ways back, None where no checkpoints can be made."""
        if not hasattr(self, "_has_changes"):
            self._has_changes = self._link.wait(self._link.send(rpc.RemoteCall(self._on, "", "has_changes", {})))
        return self._remote.changes if self._has_changes else None

    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing is queued, over every break of the connection."""
        tries = 0
        while not self._link.is_closed.is_set() and tries < _TRIES:
            try:
                await self._remote.wait_idle()
            except (HostError, UsageError):  # away, or there again and the session is not open in it, maybe not yet
                tries += self._link.is_there.is_set()
                await asyncio.sleep(_RETRY_S)
                _ = await asyncio.to_thread(self._link.is_there.wait, _LOOK_S)
            else:
                return

    async def close(self) -> None:
        """Stop following the session; it keeps running in the host."""
        self._link.sessions.pop(self.id, None)
        with contextlib.suppress(LmtuiError):
            await asyncio.wrap_future(self._link.send(rpc.RemoteCall(self._on, "", "close", {})))


@dataclass(frozen=True, slots=True)
class _Function:
    """A function that the host calls, what it takes, and the call that gives it to the host again."""

    function: Callable[..., Any]
    takes: Sequence[Any]
    again: rpc.RemoteCall


# What is sent once the connection is there again: done twice it does no harm, or the log tells that it was done.
_SENT_LATER = frozenset({
    "Session.submit", "Session.steer", "Session.answer", "Session.set_mode", "Session.set_model", "Session.rename",
    "Session.revoke", "Goals.set", "Goals.clear", "Goals.pause", "Goals.resume", "Files.watch", "Waiting.go_on",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Later:
    """A call that waits for the connection; `seq` is the last event that its session had then."""

    call: rpc.RemoteCall
    seq: int

    def is_done(self, history: Sequence[Envelope]) -> bool:
        """Tell whether the log has what a user said: the call arrived before the connection broke."""
        if self.call.name not in ("submit", "steer"):
            return False
        text = str(self.call.given.get("text", "")).strip()
        for event in (each.event for each in history if each.seq > self.seq):
            match event:
                case events.MessageAdded(role=Role.USER, text=said) if _is_said(text, said):
                    return True
                case events.InboxChanged(queued=queued) if any(_is_said(text, each) for each in queued):
                    return True
        return False


def _is_said(text: str, said: str) -> bool:
    """Tell whether a message is this text, with attached files behind it or not."""
    return said.strip() == text or said.lstrip().startswith(f"{text}\n")


class LoopCalls:
    """Calls functions of a front end on its own loop, from any thread; without a loop none is called."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._context: contextvars.Context | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    def use(self) -> None:
        """Call functions on the loop that runs now."""
        self._loop = asyncio.get_running_loop()
        self._context = self._context or contextvars.copy_context()  # Textual finds the app of a callback in it

    def soon(self, todo: Callable[[], object]) -> None:
        """Call a function soon, in the order of calls."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody is there any more
                _ = self._loop.call_soon_threadsafe(todo, context=self._context)

    def keep(self, work: Awaitable[None]) -> None:
        """Do some work in a task.  On the loop."""
        task = asyncio.ensure_future(work)
        self._tasks = {each for each in (*self._tasks, task) if not each.done()}


class HostLink:
    """The connection of one front end, with everything that is made again when it breaks.

    Args:
        open_channel: makes a connection.
    """

    def __init__(self, open_channel: Open) -> None:
        self._open_channel = open_channel
        self.loop = LoopCalls()
        self._numbers = itertools.count(1)
        self._taking_up = threading.Lock()  # held while what a break left is sent again
        self._waiting: dict[int, concurrent.futures.Future[Any]] = {}
        self._breaks = 0  # how often the connection broke
        self._functions: dict[int, _Function] = {}
        self._mirrored: dict[tuple[str, str, str], Any] = {}
        self.sessions: dict[str, RemoteSession] = {}
        self.later: list[_Later] = []
        self.is_there = threading.Event()
        self.is_there.set()
        self._is_given_up = False
        self.is_closed = threading.Event()  # the front end has ended the connection
        self._channel, self.folder = open_channel()
        threading.Thread(target=self._read, name="host", daemon=True).start()

    # -- calls -----------------------------------------------------------------------------------------------------------

    def send(
        self, call: rpc.RemoteCall, then: Callable[[concurrent.futures.Future[Any]], None] | None = None
    ) -> concurrent.futures.Future[Any]:
        """Call something and return its future result; `then` gets it before what is read next."""
        number, future = next(self._numbers), concurrent.futures.Future[Any]()
        if then is not None:
            future.add_done_callback(then)
        self._waiting[number] = future
        self._put({"id": number, "on": call.on, "port": call.path, "call": call.name, "with": call.given}, future)
        return future

    def _session(self, on: str) -> RemoteSession | None:
        return self.sessions.get(on.removeprefix(rpc.SESSION))

    def _put(self, message: Mapping[str, Any], future: concurrent.futures.Future[Any] | None = None) -> None:
        try:
            self._channel.send(rpc.dumps([message]))
        except BROKEN:
            if future is not None and not future.done():
                future.set_exception(HostError(_AWAY, _AWAY_HINT))

    def wait(self, future: concurrent.futures.Future[Any]) -> Any:
        """Return a result; this thread does nothing else until it is there.

        Raises:
            LmtuiError: the call failed, or the host does not answer in time.
        """
        try:
            return future.result(CALL_LIMIT_S)
        except TimeoutError as error:
            raise HostError(_AWAY, _AWAY_HINT) from error

    def call(self, on: str, path: str, member: Member, given: Mapping[str, Any]) -> Any:
        """Call a method that returns at once."""
        call, number = self._sent(on, path, member, given)
        future = self.send(call)
        try:
            result = self.wait(future)
        except HostError:
            return self._without_host(call, member, future)
        if rpc.is_function(member.result):
            return lambda: self._forget(number)
        value = self._result(member, result)
        return self._mirrored.setdefault((on, path, member.name), value) if member.kind is Kind.VALUE else value

    def _without_host(self, call: rpc.RemoteCall, member: Member, future: concurrent.futures.Future[Any]) -> Any:
        """Do a call later, or once more; if both fail, the front end continues and the user is told."""
        if future.done() and isinstance(closed := future.exception(), ClosedToNetwork):
            if member.returns is not None or member.result is not type(None):
                raise closed
            self._tell(events.Level.WARNING, closed.full_text())
            return None
        session, problem = self._session(call.on), str(future.exception()) if future.done() else _AWAY
        if member.full_name in _SENT_LATER:
            later = _Later(call, session.seq if session is not None else 0)
            self.later.append(later)
            if self.is_there.is_set() and future.done():
                self._tell(events.Level.WARNING, f"{problem} This is sent once it is open again.")
            future.add_done_callback(lambda done: self._answered_late(later, done))
            return None
        if member.result is not type(None) and self._waits_for_host():
            with contextlib.suppress(HostError):
                return self._result(member, self.wait(self.send(call)))
        if member.kind is Kind.CALL:
            self._tell(events.Level.ERROR, f"{problem} Nothing was done ({member.full_name}).")
        return _nothing_of(member)

    def _answered_late(self, later: _Later, future: concurrent.futures.Future[Any]) -> None:
        """Do not send a call again that a slow host has done after all."""
        if future.exception() is None:
            with contextlib.suppress(ValueError):
                self.later.remove(later)

    def _waits_for_host(self) -> bool:
        """Wait for a broken connection to be made again, once; tell whether it was."""
        if not self._is_given_up:
            self._is_given_up = not self.is_there.wait(CALL_LIMIT_S)
        return not self._is_given_up

    async def call_async(self, on: str, path: str, member: Member, given: Mapping[str, Any]) -> Any:
        """Call a method and wait for its end; a cancelled wait leaves the call alone."""
        self.loop.use()
        call, number = self._sent(on, path, member, given)
        try:
            return self._result(member, await asyncio.wrap_future(self.send(call)))
        finally:
            self._functions.pop(number, None)

    def _sent(self, on: str, path: str, member: Member, given: Mapping[str, Any]) -> tuple[rpc.RemoteCall, int]:
        """Return a call as it is sent, and the number of the function among its arguments, of which no port takes two."""
        found: dict[str, Any] = {}
        number = 0
        for name, value in given.items():
            hint = member.parameters[name]
            if not rpc.is_function(hint):
                found[name] = rpc.encode(value)
            elif value is not None:
                found[name] = number = next(self._numbers)
                takes, again = rpc.function_types(hint)[0], rpc.RemoteCall(on, path, member.name, {name: number})
                self._functions[number] = _Function(value, takes, again)
                with contextlib.suppress(RuntimeError):
                    self.loop.use()
        return rpc.RemoteCall(on, path, member.name, found), number

    def _result(self, member: Member, result: Any) -> Any:
        if member.returns is not None:
            return None if result is None else remote_port(self, str(result), "", member.returns)
        return rpc.decode(member.result, result)

    def _forget(self, number: int) -> None:
        if self._functions.pop(number, None) is not None:
            self._put({"leave": number})

    def value(self, on: str, path: str, member: Member) -> Any:
        """Return a value that is mirrored; the first time the host is asked."""
        key = (on, path, member.name)
        return self._mirrored[key] if key in self._mirrored else self.call(on, path, member, {})

    # -- the thread that reads -------------------------------------------------------------------------------------------

    def _read(self) -> None:
        while not self.is_closed.is_set():
            try:
                self._take(self._channel.recv())
            except BROKEN as error:
                self._fail()
                if not self.is_closed.is_set():  # nobody but the user starts another host where this one ended itself
                    told = error.rcvd if isinstance(error, ConnectionClosed) else None
                    self._again(is_stopped=told is not None and told.code in _ENDS)
            except LmtuiError:
                _LOG.exception("a frame of the host cannot be read")

    def _again(self, *, is_stopped: bool) -> None:
        """Make the connection again, wait longer each time, and take up every session where it was."""
        self.is_there.clear()
        self._tell(events.Level.WARNING, _STOPPED if is_stopped else "Lost the connection to the host; reconnecting …")
        for attempt in itertools.count():
            try:
                self._channel, self.folder = self._open_channel(may_start=not is_stopped)
                break
            except LmtuiError as error:
                if attempt == _TOLD_AT and not is_stopped:
                    self._tell(events.Level.WARNING, f"Could not reach the host: {error}")
            if self.is_closed.wait(pause_s(attempt)):
                return
        threading.Thread(target=self._take_up_again, args=(self._breaks,), name="host again", daemon=True).start()

    def _take_up_again(self, breaks: int) -> None:
        """Take up everything, once what an earlier break began is over: it puts back what it could not send.

        Runs while another thread reads.
        """
        with self._taking_up:
            problem = self._take_up()
        if breaks == self._breaks:
            self._is_given_up = False
            self.is_there.set()
            self._tell(events.Level.WARNING if problem else events.Level.INFO, problem or "Reconnected to the host.")

    def _take_up(self) -> str:
        """Open the sessions again and give the host the functions that it had; return the first problem."""
        problem, missed = "", dict[str, Sequence[Envelope]]()
        for session in list(self.sessions.values()):
            try:
                missed[session.id] = session.again()
            except LmtuiError as error:
                problem = problem or f"A session could not be opened again: {error.full_text()}"
        later, self.later = self.later, []
        for each in later:
            known = self._session(each.call.on)
            if known is not None and each.is_done([*known.history(), *missed.get(known.id, ())]):
                continue
            try:
                _ = self.wait(self.send(each.call))
            except HostError:  # it broke again, or the session is not open: sent the next time
                self.later.append(each)
            except LmtuiError as error:
                problem = problem or error.full_text()
        for function in list(self._functions.values()):
            with contextlib.suppress(LmtuiError):
                _ = self.wait(self.send(function.again))
        for on, path, name in list(self._mirrored):
            with contextlib.suppress(LmtuiError):
                self._set(on, path, name, self.wait(self.send(rpc.RemoteCall(on, path, name, {}))))
        for listener in [each.function for each in self._functions.values() if not each.takes]:
            self.loop.soon(listener)  # what it is told of may have changed meanwhile
        return problem

    def _tell(self, level: events.Level, text: str) -> None:
        for session in list(self.sessions.values()):
            session.tell(level, text)

    def _take(self, frame: str | bytes) -> None:
        for message in rpc.loads(frame):
            try:
                self._taken(message)
            except LmtuiError:  # of a newer host; what comes with it in the frame is read all the same
                _LOG.exception("a message of the host cannot be read")

    def _taken(self, message: Mapping[str, Any]) -> None:
        """Take a message; what the front end is told comes on its loop."""
        if "event" in message:
            if (session := self._session(str(message["event"]))) is not None:
                self.loop.soon(partial(session.publish, decode_event(str(message["line"]))))
        elif "re" in message:
            rpc.settle(self._waiting.pop(message["re"], None), message)
        elif "set" in message:
            on, path, name = map(str, message["set"])
            self._set(on, path, name, message.get("value"))
        elif (function := self._functions.get(message.get("fn", 0))) is not None:
            self._call_function(function, message)

    def _set(self, on: str, path: str, name: str, value: Any) -> None:
        root = rpc.ROOTS[rpc.SESSION if on.startswith(rpc.SESSION) else rpc.HOST]
        member = rpc.members(rpc.resolve(root, path)).get(name)
        if member is not None:
            self._mirrored[on, path, name] = rpc.decode(member.result, value)

    def _call_function(self, function: _Function, message: Mapping[str, Any]) -> None:
        """Call a function of the front end, and send what it returns where the host asks for that."""
        args = [rpc.decode(hint, each) for hint, each in zip(function.takes, message.get("args", ()), strict=False)]
        if "id" not in message:
            self.loop.soon(partial(function.function, *args))
            return

        async def answer() -> None:
            try:
                reply = {"ok": rpc.encode(await function.function(*args))}
            except LmtuiError as error:
                reply = {"error": rpc.encode_error(error)}
            self._put({"re": message["id"], **reply})

        self.loop.soon(lambda: self.loop.keep(answer()))

    def _fail(self) -> None:
        """Let all calls fail that wait for an answer: the connection is broken."""
        self._breaks += 1
        waiting, self._waiting = list(self._waiting.values()), {}
        for future in waiting:
            if not future.done():
                future.set_exception(HostError("Lost the connection to the host.", _AWAY_HINT))

    def close(self) -> None:
        """End the connection; idempotent."""
        self.is_closed.set()
        with contextlib.suppress(*BROKEN):
            self._channel.close()
        self._fail()


def pause_s(attempt: int) -> float:
    """Return the seconds to wait after an attempt to connect, counted from 0."""
    return min(_LONGEST_PAUSE_S, 0.2 * 2.0 ** min(attempt, 10))


def _nothing_of(member: Member) -> Any:
    """Return an empty value of what a member returns.

    Raises:
        HostError: there is none.
    """
    if rpc.is_function(member.result):
        return lambda: None
    if member.returns is not None:
        return None
    empty: object
    for empty in (None, [], "", 0, {}):
        with contextlib.suppress(UsageError):
            return rpc.decode(member.result, empty)
    raise HostError(_AWAY, _AWAY_HINT)


# -- the ports -----------------------------------------------------------------------------------------------------------


class RemotePort:
    """An object of the host; its methods are those of the port it was made for."""

    def __init__(self, link: HostLink, on: str, path: str) -> None:
        self._link, self._on, self._path = link, on, path


class RemoteExtensions(RemotePort):
    """What a workspace brings, in the host."""

    names: Sequence[str]

    def __contains__(self, port: type) -> bool:
        return port.__name__ in self.names

    def __getitem__(self, port: type) -> Any:
        rpc.learn_ports((port,))
        return remote_port(self._link, self._on, f"{self._path}.{port.__name__}", port)


_CLASSES: dict[type, type[RemotePort]] = {}


def remote_port(link: HostLink, on: str, path: str, port: type) -> Any:  # Any: the port, which only the caller knows
    """Return an object that implements a port by calling the host."""
    if port not in _CLASSES:
        own = {name: _implemented(member) for name, member in rpc.members(port).items()}
        base = RemoteExtensions if port is Extensions else RemotePort
        _CLASSES[port] = type(f"Remote{port.__name__}", (base,), own)
    return _CLASSES[port](link, on, path)


def _implemented(member: Member) -> Any:
    """Return the method or property by which a remote object has a member of its port."""
    names = tuple(member.parameters)

    def nested(self: RemotePort) -> Any:
        path = f"{self._path}.{member.name}" if self._path else member.name
        assert member.returns is not None
        return remote_port(self._link, self._on, path, member.returns)

    def value(self: RemotePort) -> Any:
        return self._link.value(self._on, self._path, member)

    def call(self: RemotePort, *args: Any, **kwargs: Any) -> Any:
        given = {**dict(zip(names, args, strict=False)), **kwargs}
        method = self._link.call_async if member.kind is Kind.ASYNC else self._link.call
        return method(self._on, self._path, member, given)

    match member.kind:
        case Kind.PORT:
            return property(nested)
        case Kind.VALUE:
            return property(value) if member.is_property else value
        case _:
            return (lambda *_: None) if member.name == "run_agents_in" else call  # agents run in the host


class RemoteHost:
    """A folder of a host; what is not here is asked of the host by the port (`core.sessions.SessionHost`).

    Closing it leaves its sessions at work.

    Args:
        open_channel: makes a connection to the host, for this folder.

    Raises:
        LmtuiError: no host runs, or it refuses.
    """

    def __init__(self, open_channel: Open) -> None:
        self._link = HostLink(open_channel)
        self._remote: SessionHost = remote_port(self._link, rpc.HOST, "", SessionHost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    @property
    def workspace(self) -> Path:
        """Return the folder that the agents work in."""
        return Path(self._link.folder)

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits until the connection is there again."""
        return bool(self._link.later)

    async def serve(self) -> None:
        """Wait: the host does it."""
        await asyncio.Event().wait()

    async def new_session(self) -> Session:
        """Open a fresh session."""
        return await self.open_session("")

    async def open_session(self, session_id: str) -> Session:
        """Open an earlier session by its id, or a unique end of it."""
        link: HostLink = self._link
        link.loop.use()
        on = str(await asyncio.wrap_future(link.send(rpc.RemoteCall(rpc.HOST, "", "open", {"session_id": session_id}))))
        found = on.removeprefix(rpc.SESSION)
        session = link.sessions.get(found) or RemoteSession(link, found)
        if not session.history():
            await session.follow()
        return cast("Session", session)

    async def start_demo(self) -> None:
        """Refuse: the demo's server belongs to one app."""
        raise UsageError("the demo does not run in a host", "Run `lmtui demo`.")

    async def close(self) -> None:
        """End the connection; the sessions go on in the host."""
        await asyncio.to_thread(self._link.close)
