"""The one way out of a sandbox with `network = proxy`: HTTP CONNECT (RFC 9110 §9.3.6) over a unix socket, host by host.

Only port 443, only names that are allowed or that the user allows when asked, only public addresses (the user's own
configuration may name a host with a private one), and the address that was looked up is the one that is connected to.
Nothing is decrypted.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import socket
import tempfile
from collections.abc import Awaitable, Callable, Iterable, Iterator
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.core.hosts import HostApproval, is_covered, is_public, parse_host


class NetworkApprovals:
    """The gates of the commands under way."""

    def __init__(self) -> None:
        self._open: list[HostApproval | None] = []

    @contextlib.contextmanager
    def open(self, gate: HostApproval | None) -> Iterator[None]:
        """Let a command's gate be asked while it runs."""
        self._open.append(gate)
        try:
            yield
        finally:
            self._open.remove(gate)

    def current(self) -> HostApproval | None:
        """Return the gate to ask, None where no command runs."""
        return next((gate for gate in reversed(self._open) if gate is not None), None)


_REQUEST = re.compile(rb"CONNECT ([!-~]{1,300}):443 HTTP/1\.[01]\r\n")
_MAX_HEAD_BYTES = 8192
_HEAD_S = 10.0
_LOOKUP_S = 10.0
_CONNECT_S = 15.0
_IDLE_S = 300
_ENDED_IDLE_S = 10
_CHUNK_BYTES = 65_536
_MAX_CONNECTIONS = 64
_FORBIDDEN = "HTTP/1.1 403 Forbidden\r\nContent-Type: text/plain\r\nConnection: close\r\n\r\n"
SOCKET_NAME = "s"

Resolve = Callable[[str], Awaitable[list[str]]]
Connect = Callable[[str], Awaitable[tuple[asyncio.StreamReader, asyncio.StreamWriter]]]
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Refused(Exception):
    """A request is not let through; the text goes to the program inside and to the log."""


class Proxy:
    """Serves one sandbox.

    Args:
        hosts: patterns that are allowed without asking, unless a rule says otherwise.
        gate: returns who decides about hosts and is told about all, None where no command runs: then nothing gets through.
        resolve: returns the addresses of a host name.
        connect: opens a connection to an address, port 443.
        named: hosts that may have private addresses.
    """

    def __init__(
        self,
        hosts: Iterable[str],
        gate: Callable[[], HostApproval | None],
        resolve: Resolve | None = None,
        connect: Connect | None = None,
        *,
        named: frozenset[str] = frozenset(),
    ) -> None:
        self._hosts = tuple(hosts)
        self._named = named
        self._gate = gate
        self._look_up = resolve or _look_up
        self._connect = connect or _open
        self._server: asyncio.Server | None = None
        self._folder: Path | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def start(self, owner: os.stat_result) -> Path:
        """Listen, and return the folder that holds the socket, which only `owner` (who owns the workspace) can enter."""
        if self._folder is None:
            self._folder = Path(tempfile.mkdtemp(prefix="lmtui-proxy-"))
            path = self._folder / SOCKET_NAME
            self._server = await asyncio.start_unix_server(self._accept, path, limit=_MAX_HEAD_BYTES)
            if os.geteuid() == 0:
                os.chown(path, owner.st_uid, owner.st_gid)
                os.chown(self._folder, owner.st_uid, owner.st_gid)
        return self._folder

    async def close(self) -> None:
        """End every connection and remove the socket; idempotent."""
        if self._server is not None:
            self._server.close()
        tasks = tuple(self._connections)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        try:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
                await self._serve(reader, writer)  # an end goes away, or the proxy is closed: nobody waits for this task
        finally:
            self._connections.discard(task)
            writer.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        gate = self._gate()  # of the command that runs now; another may when the connection ends
        host = ""
        try:
            if len(self._connections) > _MAX_CONNECTIONS:
                raise _Refused("too many connections at once")
            host = await _requested(reader)
            if gate is None or not await gate.may_reach(host, is_listed=is_covered(host, self._hosts)):
                raise _Refused(f"{host} is not allowed")
            outside = await self._reach(host)
        except _Refused as refusal:
            _tell(gate, host, why=str(refusal))
            writer.write(f"{_FORBIDDEN}lmtui: {refusal}\n".encode())
            await writer.drain()
            return
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        sent, received = await _join((reader, writer), outside)
        _tell(gate, host, sent, received)

    async def _reach(self, host: str) -> Streams:
        try:
            async with asyncio.timeout(_LOOKUP_S):
                addresses = await self._look_up(host)
        except (OSError, TimeoutError) as error:
            raise _Refused(f"{host} cannot be looked up") from error
        if not addresses or not (host in self._named or all(map(is_public, addresses))):
            raise _Refused(f"{host} has an address that is not public")
        for address in addresses[:4]:
            with contextlib.suppress(OSError, TimeoutError):
                async with asyncio.timeout(_CONNECT_S):
                    return await self._connect(address)
        raise _Refused(f"{host} does not answer")


def _tell(gate: HostApproval | None, host: str, sent: int = 0, received: int = 0, why: str = "") -> None:
    if gate is not None and host:
        gate.reached(host, sent, received, why)


async def _requested(reader: asyncio.StreamReader) -> str:
    """Read a request's head and return the host that it names.

    Raises:
        _Refused: it is not CONNECT to port 443 of a host name.
    """
    try:
        async with asyncio.timeout(_HEAD_S):
            head = await reader.readuntil(b"\r\n\r\n")
    except (asyncio.LimitOverrunError, asyncio.IncompleteReadError, TimeoutError) as error:
        raise _Refused("the request has no end") from error
    match = _REQUEST.match(head)
    if match is None:
        raise _Refused("only CONNECT to port 443 of a host is possible")
    try:
        return parse_host(match[1].decode("ascii"))
    except UsageError as error:
        raise _Refused(str(error)) from error


async def _join(inside: Streams, outside: Streams) -> tuple[int, int]:
    """Carry bytes both ways until both ends are done or nothing moves any more; return how many went out and came in.

    Once the inside has ended (its command may be gone) the outside is not waited for long.
    """
    try:
        async with asyncio.TaskGroup() as group:
            sent = group.create_task(_carry(inside[0], outside[1], lambda: False))
            received = group.create_task(_carry(outside[0], inside[1], sent.done))
    finally:
        outside[1].close()
    return sent.result(), received.result()


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, has_ended: Callable[[], bool]) -> int:
    total = still_s = 0
    with contextlib.suppress(OSError):
        while still_s < (_ENDED_IDLE_S if has_ended() else _IDLE_S):
            try:
                async with asyncio.timeout(_ENDED_IDLE_S):
                    piece = await reader.read(_CHUNK_BYTES)
            except TimeoutError:
                still_s += _ENDED_IDLE_S
                continue
            if not piece:
                break
            total, still_s = total + len(piece), 0
            writer.write(piece)
            await writer.drain()
        writer.write_eof()
    return total


async def _look_up(host: str) -> list[str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, 443, type=socket.SOCK_STREAM)
    return list(dict.fromkeys(str(address[4][0]) for address in found))


async def _open(address: str) -> Streams:
    return await asyncio.open_connection(address, 443)
