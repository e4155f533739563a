"""The ports of `core.sessions` on the other side of a connection: a front end uses them as if the sessions were here.

A call that returns at once waits for the answer of the host (a local socket answers within a millisecond); what is drawn often
is mirrored, so reading it costs nothing.  When the connection breaks, it is made again and what was missed is sent: the log has
every durable event.  Messages: `lmtui.host.rpc`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from lmtui.app.archive import decode_event
from lmtui.core import events
from lmtui.core.errors import HostError, LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.sessions import Extensions, Session, SessionHost, Subscriber
from lmtui.host import rpc
from lmtui.host.link import HostLink, Open, PassingNotice, bound_event
from lmtui.host.rpc import Kind, Member

# -- the ports -----------------------------------------------------------------------------------------------------------


_LOOK_S = 1.0
_RETRY_S = 0.2


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
    return _class_of(port)(link, on, path)


def _class_of(port: type) -> type[RemotePort]:
    if port not in _CLASSES:
        own = {name: _implemented(member) for name, member in rpc.members(port).items()}
        base = RemoteExtensions if port is Extensions else RemotePort
        _CLASSES[port] = type(f"Remote{port.__name__}", (base,), own)
    return _CLASSES[port]


def _implemented(member: Member) -> Any:
    """Return the method or property by which a remote object has a member of its port."""
    names = tuple(member.parameters)

    def given(args: tuple[Any, ...], kwargs: dict[str, Any]) -> dict[str, Any]:
        return {**dict(zip(names, args, strict=False)), **kwargs}

    match member.kind:
        case Kind.PORT:

            def nested(self: RemotePort) -> Any:
                path = f"{self._path}.{member.name}" if self._path else member.name
                assert member.returns is not None
                return remote_port(self._link, self._on, path, member.returns)

            return property(nested)
        case Kind.VALUE:

            def value(self: RemotePort) -> Any:
                return self._link.value(self._on, self._path, member)

            return property(value) if member.is_property else value
        case Kind.ASYNC:

            async def call_async(self: RemotePort, *args: Any, **kwargs: Any) -> Any:
                return await self._link.call_async(self._on, self._path, member, given(args, kwargs))

            return call_async
        case Kind.STREAM:

            def stream(self: RemotePort, *args: Any, **kwargs: Any) -> AsyncGenerator[Any, None]:
                return self._link.stream(self._on, self._path, member, given(args, kwargs))

            return stream
        case Kind.CALL:

            def call(self: RemotePort, *args: Any, **kwargs: Any) -> Any:
                return self._link.call(self._on, self._path, member, given(args, kwargs))

            return _NOTHING if member.name == "run_agents_in" else call


def _nothing(self: RemotePort, *args: Any) -> None:
    """Do nothing: agents run in the host."""


_NOTHING = _nothing


class RemoteSession:
    """A session of the host; what is not here is asked of the host by the port (`core.sessions.Session`)."""

    def __init__(self, link: HostLink, session_id: str) -> None:
        self._link, self._on = link, f"{rpc.SESSION}{session_id}"
        self._remote: Session = remote_port(link, self._on, "", Session)
        self._id = session_id
        self._history: list[Envelope] = []
        self._subscribers: list[Subscriber] = []
        self.seq = 0
        self._missed: list[Envelope] = []
        self._held: list[Envelope] | None = None  # what comes while the missed events are read
        self._early: list[Envelope] | None = []  # streamed before anybody listens; None from then on
        self.is_deleted = False
        link.sessions[session_id] = self

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    @property
    def id(self) -> str:
        """Return the session's id."""
        return self._id

    @property
    def changes(self) -> Any:
        """Return what it changed and the ways back, None where no checkpoints can be made."""
        if not hasattr(self, "_has_changes"):
            self._has_changes = self._link.wait(self._link.send(self._on, "", "has_changes", {}))
        return self._remote.changes if self._has_changes else None

    async def follow(self) -> None:
        """Get every durable event so far, and each later one from now on."""
        self._link.loop.use()
        parts: list[Sequence[str]] = []
        last = await asyncio.wrap_future(self._link.send(self._on, "", "follow", {"after": 0}, parts.append))
        past = await asyncio.to_thread(lambda: [decode_event(line) for part in (*parts, last) for line in part])
        early, self._history = self._history, past
        self.seq = past[-1].seq if past else 0
        for envelope in early:  # came while the past was read
            self.publish(envelope)

    def again(self) -> None:
        """Take up the session in a host that was started again, or that the connection broke to; not on the loop."""
        link = self._link
        held = self._held = []
        missed: list[Envelope] = []
        try:
            _ = link.wait(link.send(rpc.HOST, "", "open", {"session_id": self._id}))
            parts: list[Sequence[str]] = []
            last = link.wait(link.send(self._on, "", "follow", {"after": self.seq}, parts.append))
            missed = self._missed = [decode_event(line) for part in (*parts, last) for line in part]
        finally:
            link.loop.soon(lambda: self._catch_up(missed, held))

    def _catch_up(self, missed: Sequence[Envelope], held: list[Envelope]) -> None:
        """Publish what was missed before what came meanwhile, unless the connection broke again.  On the loop."""
        if self._held is not held:
            return
        self._held = None
        for envelope in (*missed, *held):
            self.publish(envelope)

    def known(self) -> Sequence[Envelope]:
        """Return the history with what was missed, which may not be told yet; from any thread."""
        return [*self._history, *self._missed]

    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing is queued, over every break of the connection."""
        while not self._link.is_closed and not self.is_deleted:
            try:
                await self._remote.wait_idle()
            except (HostError, UsageError):  # away, or there again and the session is not open in it yet
                await asyncio.sleep(_RETRY_S)
                _ = await asyncio.to_thread(self._link.is_there.wait, _LOOK_S)
            else:
                return

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
        if self._held is not None and not isinstance(envelope.event, PassingNotice):
            self._held.append(envelope)
            return
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
        notice = PassingNotice(level=level, text=text)
        self._link.loop.soon(bound_event(self.publish, Envelope(self.seq, now, self._id, notice)))

    async def close(self) -> None:
        """Stop following the session; it keeps running in the host."""
        self._link.sessions.pop(self._id, None)
        with contextlib.suppress(LmtuiError):
            await asyncio.wrap_future(self._link.send(self._on, "", "close", {}))


class RemoteHost:
    """A folder of a host; what is not here is asked of the host by the port (`core.sessions.SessionHost`).

    Closing it leaves its sessions at work.

    Args:
        open_channel: makes a connection to the host, for this folder.

    Raises:
        LmtuiError: no host runs, or it refuses.
    """

    def __init__(self, open_channel: Open) -> None:
        self._link = HostLink(open_channel, remote_port)
        self._remote: SessionHost = remote_port(self._link, rpc.HOST, "", SessionHost)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    @property
    def workspace(self) -> Path:
        """Return the folder that the agents work in."""
        return Path(self._link.welcome.folder)

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits until the connection is there again."""
        return self._link.has_waiting

    async def serve(self) -> None:
        """Wait: the host does it."""
        await asyncio.Event().wait()

    async def new_session(self) -> Session:
        """Open a fresh session."""
        return await self._opened("")

    async def open_session(self, session_id: str) -> Session:
        """Open an earlier session by its id, or a unique end of it."""
        return await self._opened(session_id)

    async def _opened(self, session_id: str) -> Session:
        link: HostLink = self._link
        link.loop.use()
        on = str(await asyncio.wrap_future(link.send(rpc.HOST, "", "open", {"session_id": session_id})))
        found = on.removeprefix(rpc.SESSION)
        known = link.sessions.get(found)
        session = known if isinstance(known, RemoteSession) and not known.is_deleted else RemoteSession(link, found)
        if not session.history():
            await session.follow()
        return cast("Session", session)

    async def start_demo(self) -> None:
        """Refuse: the demo's server belongs to one app."""
        raise UsageError("the demo does not run in a host", "Run `lmtui demo`.")

    async def close(self) -> None:
        """End the connection; the sessions go on in the host."""
        await asyncio.to_thread(self._link.close)
