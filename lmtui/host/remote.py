"""The ports of `core.sessions` on the other side of a connection: a front end uses them as if the sessions were here.

A call that returns at once waits for the answer of the host (a local socket answers within a millisecond); what is drawn often
is mirrored, so reading it costs nothing.  When the connection breaks, it is made again and what was missed is sent: the log has
every durable event.  Messages: `lmtui.host.rpc`.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from lmtui.core.errors import HostError, LmtuiError, UsageError
from lmtui.core.sessions import Extensions, Session, SessionHost
from lmtui.host import rpc
from lmtui.host.link import HostLink, LinkedSession, Open
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
        return getattr(self._link, _METHODS[member.kind])(self._on, self._path, member, given)

    match member.kind:
        case Kind.PORT:
            return property(nested)
        case Kind.VALUE:
            return property(value) if member.is_property else value
        case _:
            return (lambda *_: None) if member.name == "run_agents_in" else call  # agents run in the host


_METHODS = {Kind.CALL: "call", Kind.ASYNC: "call_async", Kind.STREAM: "stream"}


class RemoteSession(LinkedSession):
    """A session of the host; what is not here is asked of the host by the port (`core.sessions.Session`)."""

    def __init__(self, link: HostLink, session_id: str) -> None:
        super().__init__(link, session_id)
        self._remote: Session = remote_port(link, self._on, "", Session)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._remote, name)

    @property
    def changes(self) -> Any:
        """Return what it changed and the ways back, None where no checkpoints can be made."""
        if not hasattr(self, "_has_changes"):
            self._has_changes = self._link.wait(self._link.send(self._on, "", "has_changes", {}))
        return self._remote.changes if self._has_changes else None

    async def wait_idle(self) -> None:
        """Wait until no turn runs and nothing is queued, over every break of the connection."""
        while not self._link.is_closed.is_set() and not self.is_deleted:
            try:
                await self._remote.wait_idle()
            except (HostError, UsageError):  # away, or there again and the session is not open in it yet
                await asyncio.sleep(_RETRY_S)
                _ = await asyncio.to_thread(self._link.is_there.wait, _LOOK_S)
            else:
                return

    async def close(self) -> None:
        """Stop following the session; it keeps running in the host."""
        self._link.sessions.pop(self.id, None)
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
        return Path(self._link.folder)

    @property
    def has_waiting(self) -> bool:
        """Tell whether something waits until the connection is there again."""
        return self._link.has_waiting

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
