from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import McpError
from lmtui.core.ports import ToolResult
from lmtui.core.tool_servers import Ask, Form, ask_nobody
from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.server import RunningServer, ServerEnvironment
from lmtui.features.mcp.server_trust import Memory
from lmtui.features.mcp.values import ServerState
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.select import select_sandbox
from tests.features.real_servers import node, package, python_server
from tests.waiting import PATIENCE_S

pytestmark = pytest.mark.full


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / "a.txt").write_text("hello\n")
    return tmp_path / "work"


Start = Callable[..., Awaitable[RunningServer]]


@pytest.fixture
async def start(workspace: Path) -> AsyncIterator[Start]:
    servers: list[RunningServer] = []
    sandbox = await select_sandbox(workspace, backend="process")

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    async def start_one(*command: str, ask: Ask = ask_nobody) -> RunningServer:
        entry = ServerEntry("real", "test", is_own=True, command=command, on_host=True)
        server = RunningServer(Memory(workspace, entry), ServerEnvironment(workspace, launcher, {}, ask=ask))
        servers.append(server)
        server.begin()
        await server.settle()
        assert server.state is ServerState.READY, (server.problem, server.memory.log.path.read_text())
        return server

    yield start_one
    for server in servers:
        await server.close()
    await sandbox.close()


async def call(server: RunningServer, tool: str, **arguments: Any) -> ToolResult:
    return await server.use(lambda it: it.call(tool, arguments, lambda _: None))


async def test_server_everything(start: Start) -> None:
    asked: list[Form] = []

    async def fill_in_once(form: Form) -> Mapping[str, object] | None:
        asked.append(form)
        return {"name": "Ada", "check": True} if len(asked) == 1 else None

    server = await start(node(), package("server-everything"), ask=fill_in_once)
    assert (await call(server, "echo", message="hi")).text == "Echo: hi"
    assert "5" in (await call(server, "get-sum", a=2, b=3)).text
    picture = await call(server, "get-tiny-image")
    assert [image.media_type for image in picture.images] == ["image/png"]
    assert '"conditions"' in (await call(server, "get-structured-content", location="New York")).text
    assert "[resource " in (await call(server, "get-resource-links", count=2)).text
    assert not (await call(server, "echo")).ok, "arguments that the server refuses are an error that the model gets"
    said: list[str] = []
    steps = {"duration": 1, "steps": 2}
    assert (await server.use(lambda it: it.call("trigger-long-running-operation", steps, said.append))).ok
    assert [line.split()[0] for line in said] == ["1", "2"]
    prompts = {prompt.own_name: prompt for prompt in server.prompts}
    assert prompts["args-prompt"].name == "mcp__real__args-prompt"
    assert ("city", True) in prompts["args-prompt"].arguments
    assert "Berlin" in (await server.use(lambda it: it.get_prompt("args-prompt", {"city": "Berlin"}))).text
    uri = next(each.uri for each in server.resources if not each.is_template)
    assert (await server.use(lambda it: it.read_resource(uri))).text
    assert any(each.is_template for each in server.resources)
    with pytest.raises(McpError):
        await server.use(lambda it: it.read_resource("nothing://here"))
    assert "Ada" in (await call(server, "trigger-elicitation-request")).text
    assert "name" in str(asked[0].schema)
    assert "declin" in (await call(server, "trigger-elicitation-request")).text


async def test_server_time(start: Start) -> None:
    server = await start(python_server("mcp-server-time"))
    found = await call(server, "get_current_time", timezone="Europe/Berlin")
    assert "Europe/Berlin" in found.text
    assert not (await call(server, "get_current_time", timezone="Nowhere/None")).ok


@pytest.mark.parametrize(("mode", "kind", "path"), [("streamableHttp", "http", "/mcp"), ("sse", "sse", "/sse")])
async def test_server_everything_behind_an_address(workspace: Path, mode: str, kind: str, path: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = [node(), package("server-everything"), mode]
    environ = {"PORT": str(port), "PATH": os.environ["PATH"]}
    quiet = asyncio.subprocess.DEVNULL
    process = await asyncio.create_subprocess_exec(*words, env=environ, stdout=quiet, stderr=quiet)
    entry = ServerEntry("real", "test", is_own=True, kind=kind, url=f"http://127.0.0.1:{port}{path}")

    async def no_launcher() -> None:
        return None

    server = RunningServer(Memory(workspace, entry), ServerEnvironment(workspace, no_launcher, {}))
    try:
        async with asyncio.timeout(PATIENCE_S):
            while server.state is not ServerState.READY:
                await server.close()
                server.begin()
                await server.settle()
        assert (await call(server, "echo", message="hi")).text == "Echo: hi"
        process.kill()
        await process.wait()
        with pytest.raises(McpError):
            await call(server, "echo", message="hi")
    finally:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        await server.close()
