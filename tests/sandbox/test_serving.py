from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.programs import Launch, Served
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import CONFINED, ISOLATED, LANDLOCK, WITH_SHELL, OpenSandbox, launcher_of
from tests.waiting import PATIENCE_S, until


class Server:
    """One program in a instance of a sandbox, and what it said beside its output."""

    def __init__(self, sandbox: WorkspaceSandbox) -> None:
        self._launcher = launcher_of(sandbox)
        self.errors = bytearray()
        self.process: Served | None = None
        self.opened: list[Served] = []

    async def open(self, *arguments: str, **more: Any) -> Served:
        launch = replace(Launch(arguments), **more)
        self.process = await self._launcher.open(launch, self.errors.extend)
        self.opened.append(self.process)
        return self.process

    async def output(self) -> bytes:
        assert self.process is not None
        pieces: list[bytes] = []
        async with asyncio.timeout(PATIENCE_S):
            while piece := await self.process.read():
                pieces.append(piece)
        return b"".join(pieces)

    async def take(self, count: int) -> bytes:
        assert self.process is not None
        got = b""
        async with asyncio.timeout(PATIENCE_S):
            while len(got) < count:
                got += await self.process.read()
        return got


Serve = Callable[[str], Awaitable[Server]]


@pytest.fixture
async def serve(open_sandbox: OpenSandbox) -> AsyncIterator[Serve]:
    servers: list[Server] = []

    async def open_one(backend: str) -> Server:
        servers.append(Server(await open_sandbox(backend)))
        return servers[-1]

    yield open_one
    for process in (process for server in servers for process in server.opened):
        await process.close()


@pytest.mark.parametrize("backend", WITH_SHELL)
async def test_what_is_written_is_its_input_and_its_output_comes_whole_and_all_ends_with_it(
    backend: str, serve: Serve, mark: str
) -> None:
    server = await serve(backend)
    process = await server.open("bash", "-c", f"setsid sleep {mark} & exec cat")
    big = bytes(range(256)) * 12_000
    writing = asyncio.ensure_future(process.write(big))
    assert await server.take(len(big)) == big
    await writing
    await process.close()
    assert await process.read() == b""
    with pytest.raises(SandboxError, match="ended"):
        await process.write(b"more")
    assert [each for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])] == []


@pytest.mark.full
@pytest.mark.parametrize("backend", WITH_SHELL)
async def test_output_that_nobody_reads_yet_is_not_lost(backend: str, serve: Serve) -> None:
    server = await serve(backend)
    await server.open("bash", "-c", "head -c 8000000 /dev/zero; echo said >&2; exit 3")
    assert len(await server.output()) == 8_000_000
    assert server.errors.decode().splitlines() == ["said", "lmtui: it ended (exit, exit code 3)"]


@pytest.mark.parametrize("backend", CONFINED)
@pytest.mark.full
async def test_one_that_says_more_than_anybody_reads_is_ended_and_that_is_said_once(backend: str, serve: Serve) -> None:
    server = await serve(backend)
    process = await server.open("cat", "/dev/zero")
    await until(lambda: b"too much output" in server.errors)
    await process.close()
    with pytest.raises(SandboxError, match="ended"):
        await process.write(b"more")
    assert server.errors.count(b"ended by lmtui") == 1


@pytest.mark.parametrize("backend", ISOLATED)
@pytest.mark.full
async def test_a_server_finds_its_home_again_and_no_other_does(backend: str, serve: Serve) -> None:
    server = await serve(backend)
    for keeps, can_write in (("a", True), ("a", False), ("b", True), ("", True)):
        await server.open("bash", "-c", "cat ~/kept; echo $HOME >> ~/kept", keeps=keeps, can_write=can_write)
        assert await server.output() == (b"/opt/lmtui/home\n" if not can_write else b"")
    whole, half = "~/.npm/_npx/whole/node_modules", "~/.npm/_npx/half/node_modules"  # as a killed npx leaves it
    await server.open("bash", "-c", f"mkdir -p {whole} {half}; touch {whole}/.package-lock.json", keeps="a")
    await server.output()
    await server.open("npx", "-c", "ls ~/.npm/_npx", keeps="a", program="npx")
    await server.output()
    await server.open("ls", "/opt/lmtui/home/.npm/_npx", keeps="a")
    assert await server.output() == b"whole\n"


@pytest.mark.parametrize("backend", ISOLATED)
async def test_it_gets_named_variables_its_own_path_of_the_workspace_and_no_network(
    backend: str, serve: Serve, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTUI_TEST_SECRET", "canary")
    server = await serve(backend)
    await server.open("env", variables={"TOKEN": "named"})
    seen = (await server.output()).decode()
    assert ("TOKEN=named" in seen, "canary" in seen) == (True, False)
    await server.open("cat", f"{workspace}/README.md", folder="src")
    assert await server.output() == b"hello\n"
    script = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' '; echo x >> .lmagent/config.toml; echo x > made; echo end"
    process = await server.open("bash", "-c", script)
    assert (await server.output()).decode().split() == ["lo", "end"]
    assert "no network" in process.place
    assert (workspace / ".lmagent/config.toml").read_text() == "# settings\n"
    assert (workspace / "made").exists()
    await server.open("bash", "-c", "echo x > new; echo x > README.md; cat src/main.py", can_write=False)
    assert await server.output() == b"print('hello')\n"
    assert ((workspace / "README.md").read_text(), (workspace / "new").exists()) == ("hello\n", False)
    await server.open("no-such-server")
    assert (await server.output(), b"the program no-such-server is not there" in server.errors) == (b"", True)


async def test_on_the_host_it_runs_only_where_the_user_named_that(serve: Serve) -> None:
    server = await serve("process")
    process = await server.open("echo", "named", on_host=True)
    assert await server.output() == b"named\n"
    assert process.place == "this machine, no sandbox"


@pytest.mark.parametrize("backend", [LANDLOCK])
async def test_where_there_is_no_proxy_hosts_are_refused(backend: str, serve: Serve) -> None:
    server = await serve(backend)
    with pytest.raises(SandboxUnavailable, match="no proxy"):
        await server.open("cat", hosts=("example.org",))


@pytest.mark.skipif(shutil.which("python3") is None, reason="needs Python where commands look for it")
@pytest.mark.parametrize("backend", ISOLATED)
async def test_hosts_that_are_not_named_are_refused(backend: str, serve: Serve) -> None:
    server = await serve(backend)
    connect = "import socket; s=socket.create_connection(('127.0.0.1', 3128)); s.sendall"
    ask = connect + "(b'CONNECT other.example:443 HTTP/1.1\\r\\n\\r\\n')"
    process = await server.open("python3", "-c", f"{ask}; print(s.recv(99).split()[1].decode())", hosts=("allowed.example",))
    assert (await server.output()).strip() == b"403"
    assert "1 host" in process.place
