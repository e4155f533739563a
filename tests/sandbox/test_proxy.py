from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.backend import Options
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.proxy import SOCKET_NAME, NetworkApprovals, Proxy
from lmtui.sandbox.select import choose, make_backend
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ISOLATED, Gate, unavailable
from tests.sets import for_each

PUBLIC = "93.184.216.34"


class Internet:
    """A name service in a dict, and one server on the loopback behind every public address: it echoes in capitals."""

    def __init__(self, names: Mapping[str, Sequence[str]]) -> None:
        self.names = names
        self.looked_up: list[str] = []
        self.reached: list[str] = []
        self._port = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[Internet]:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError):
                while piece := await reader.read(65536):
                    writer.write(piece.upper())
                    await writer.drain()
            writer.close()

        server = await asyncio.start_server(echo, "127.0.0.1", 0)
        self._port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()

    async def resolve(self, host: str) -> list[str]:
        self.looked_up.append(host)
        if host not in self.names:
            raise OSError("no such host")
        return list(self.names[host])

    async def connect(self, address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        self.reached.append(address)
        return await asyncio.open_connection("127.0.0.1", self._port)


@pytest.fixture
async def internet() -> AsyncIterator[Internet]:
    names = {
        "allowed.example.com": [PUBLIC],
        "asked.example.com": [PUBLIC],
        "inside.example.com": ["10.0.0.1"],
        "rebound.example.com": [PUBLIC, "127.0.0.1"],
        "files.hosted.example.com": [PUBLIC],
    }
    async with Internet(names).running() as found:
        yield found


async def request(proxy: Proxy, head: bytes, body: bytes = b"", folder: Path | None = None) -> bytes:
    """Send a request to a proxy's socket and return all that comes back."""
    folder = await proxy.start(Path.cwd().stat())
    reader, writer = await asyncio.open_unix_connection(folder / SOCKET_NAME)
    writer.write(head)
    answer = await reader.readuntil(b"\r\n\r\n")
    writer.write(body)
    writer.write_eof()  # so that a connection ends that should not have been made
    answer += await reader.read()
    writer.close()
    return answer


@pytest.fixture
async def proxy(internet: Internet) -> AsyncIterator[tuple[Proxy, Gate]]:
    gate = Gate("asked.example.com")
    found = Proxy(["allowed.example.com", ".hosted.example.com"], lambda: gate, internet.resolve, internet.connect)
    yield found, gate
    await found.close()


def connect(host: str, port: int = 443) -> bytes:
    return f"CONNECT {host}:{port} HTTP/1.1\r\nHost: {host}\r\n\r\n".encode()


async def test_an_unknown_host_is_asked_about(proxy: tuple[Proxy, Gate], internet: Internet) -> None:
    assert (await request(proxy[0], connect("asked.example.com"), b"x")).endswith(b"X")
    assert (await request(proxy[0], connect("other.example.com"))).startswith(b"HTTP/1.1 403")
    assert proxy[1].asked == ["asked.example.com", "other.example.com"]
    assert proxy[1].told[-1] == ("other.example.com", 0, 0, "other.example.com is not allowed")
    assert internet.looked_up == ["asked.example.com"]
    for host in ("ALLOWED.example.com", "files.hosted.example.com"):
        assert (await request(proxy[0], connect(host), b"hello")).endswith(b"\r\n\r\nHELLO")
        assert (len(proxy[1].asked), proxy[1].told[-1]) == (2, (host.lower(), 5, 5, ""))


@for_each(("host", "gate"), [
    ("inside.example.com", Gate("inside.example.com")),  # its address is not public
    ("rebound.example.com", Gate("rebound.example.com")),  # one of them is not
    ("asked.example.com", None),  # no command runs
    ("allowed.example.com", None),
    ("files.hosted.example.com", Gate(forbidden="files.hosted.example.com")),  # a rule forbids what the settings name
])  # fmt: skip
async def test_a_host_is_refused_whoever_names_it(host: str, gate: Gate | None, internet: Internet) -> None:
    proxy = Proxy(["allowed.example.com", ".hosted.example.com"], lambda: gate, internet.resolve, internet.connect)
    answer = await request(proxy, connect(host))
    await proxy.close()
    assert answer.startswith(b"HTTP/1.1 403")
    assert internet.reached == []


@for_each(
    "head",
    [
        connect("allowed.example.com", 80),
        connect("allowed.example.com", 22),
        b"GET http://allowed.example.com/ HTTP/1.1\r\n\r\n",
        b"CONNECT 127.0.0.1:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.example.com\0.evil.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.example.com@evil.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT evil.com#allowed.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT evilallowed.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT hosted.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.example.com.:443 HTTP/1.1\r\n\r\n",
        b"CONNECT  allowed.example.com:443 HTTP/1.1\r\n\r\n",
        b"CONNECT allowed.example.com:443:443 HTTP/1.1\r\n\r\n",
        b"\x05\x01\x00\r\n\r\n",
        b"CONNECT allowed.example.com:443 HTTP/1.1\r\nX: " + b"y" * 20_000 + b"\r\n\r\n",
    ],
)
async def test_nothing_else_gets_through(head: bytes, proxy: tuple[Proxy, Gate], internet: Internet) -> None:
    answer = await request(proxy[0], head)
    assert answer.startswith(b"HTTP/1.1 403")
    assert internet.reached == []


async def test_a_connection_is_told_to_the_command_that_began_it(internet: Internet) -> None:
    first, second = Gate(), Gate()
    gates = [first]
    proxy = Proxy(["allowed.example.com"], lambda: gates[-1], internet.resolve, internet.connect)
    reader, writer = await asyncio.open_unix_connection(await proxy.start(Path.cwd().stat()) / SOCKET_NAME)
    writer.write(connect("allowed.example.com"))
    await reader.readuntil(b"\r\n\r\n")
    gates.append(second)
    writer.write_eof()
    await reader.read()
    writer.close()
    await proxy.close()
    assert first.told == [("allowed.example.com", 0, 0, "")]
    assert second.told == []


_CLIENT = """
import os, socket, sys
def ask(host, body):
    address = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
    with socket.create_connection((address[0], int(address[1])), timeout=20) as s:
        s.sendall(f"CONNECT {host}:443 HTTP/1.1\\r\\n\\r\\n".encode())
        head = s.recv(4096)
        if b" 200 " not in head:
            return head.decode().splitlines()[0]
        s.sendall(body); s.shutdown(socket.SHUT_WR)
        total = b""
        while piece := s.recv(65536):
            total += piece
        return f"{len(total)} {total[:5].decode()}"
print(ask("allowed.example.com", b"hello" * 100_000))
print(ask("asked.example.com", b"x"))
print(ask("other.example.com", b"x"))
for family, address in ((socket.AF_INET, ("93.184.216.34", 443)), (socket.AF_INET, ("10.0.0.1", 53))):
    try:
        socket.create_connection(address, timeout=2)
        print("reached", address)
    except OSError:
        print("unreachable")
try:
    socket.getaddrinfo("allowed.example.com", 443)
    print("resolved")
except OSError:
    print("no names")
"""


@pytest.mark.parametrize("backend", ISOLATED)
async def test_commands_reach_allowed_hosts_and_nothing_else(backend: str, workspace: Path, internet: Internet) -> None:
    gate, gates = Gate("asked.example.com"), NetworkApprovals()
    proxy = Proxy(["allowed.example.com"], gates.current, internet.resolve, internet.connect)
    options = Options("proxy")
    candidates = [make_backend(backend, workspace, options, proxy)]
    pool = SandboxPool(workspace, partial(choose, candidates, workspace, options), gates, proxy)
    sandbox = WorkspaceSandbox(pool, lambda pool: pool.close())
    (workspace / "client.py").write_text(_CLIENT)
    try:
        status = await sandbox.status()
        result = await sandbox.run_command("python3 client.py", gate=gate, timeout_s=60)
        folder = await proxy.start(workspace.stat())
    except SandboxUnavailable as reason:
        unavailable(reason)
        return
    finally:
        await sandbox.close()
    assert (status.network, status.text) == ("proxy: asks for each host", f"{backend}, proxy: asks for each host")
    assert result.output.splitlines() == [
        "500000 HELLO", "1 X", "HTTP/1.1 403 Forbidden", "unreachable", "unreachable", "no names",
    ]  # fmt: skip
    assert ("allowed.example.com", 500_000, 500_000, "") in gate.told
    assert not folder.exists()
