"""The client that the official conformance suite drives: lmtui's own servers, with a browser that says yes by itself.

The suite puts the server's address behind the command, and says in the environment which scenario is played.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import tempfile
from collections.abc import Mapping
from operator import methodcaller
from pathlib import Path
from typing import Any

import httpx2

from lmtui.core.tool_servers import Form
from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.server import RunningServer, ServerEnvironment
from lmtui.features.mcp.server_trust import Memory
from lmtui.features.mcp.tool_names import told_tools
from lmtui.features.mcp.values import McpTool, ServerState
from tests.waiting import PATIENCE_S

SCENARIO = os.environ.get("MCP_CONFORMANCE_SCENARIO", "")
CONTEXT: dict[str, Any] = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
METADATA = "https://conformance-test.local/client-metadata.json"


async def browse(url: str) -> None:
    """Go where a browser would go, and back to us."""
    async with httpx2.AsyncClient(follow_redirects=True) as client:
        await client.get(url)


async def fill_in(form: Form) -> Mapping[str, object]:
    """Answer a form with its defaults, as a user does who only says yes."""
    properties = form.schema.get("properties")
    assert isinstance(properties, dict)
    return {name: value["default"] for name, value in properties.items() if "default" in value}


def arguments_of(tool: McpTool) -> dict[str, object]:
    """Return arguments that fit a tool's schema."""
    values: dict[str, object] = {"integer": 2, "number": 2, "string": "x", "boolean": True, "array": [], "object": {}}
    properties = tool.parameters.get("properties")
    assert isinstance(properties, dict)
    return {name: values[value.get("type", "string")] for name, value in properties.items()}


async def reach_ready(server: RunningServer) -> None:
    """Start it, and log in as often as it wants."""
    server.begin()
    while server.state in (ServerState.STARTING, ServerState.LOGIN):
        await server.settle()
        if server.state is ServerState.LOGIN:
            server.accept()
            await asyncio.sleep(0)
            await server.settle()
    if server.state is not ServerState.READY:
        sys.exit(f"{server.state}: {server.problem}")


async def keep_logging_in(server: RunningServer) -> None:
    """Say yes to a login that is wanted in the middle of a call."""
    while True:
        await asyncio.sleep(0.05)
        if server.state is ServerState.LOGIN:
            server.accept()


def entry_of(url: str) -> ServerEntry:
    oauth = {name: str(CONTEXT[name]) for name in ("client_id", "client_secret") if CONTEXT.get(name)}
    if not oauth:
        oauth = {"client_metadata_url": METADATA}
    return ServerEntry("suite", "conformance", is_own=True, kind="http", url=url, oauth=tuple(oauth.items()), timeout_s=20.0)


async def play(url: str) -> None:
    async def no_launcher() -> None:
        return None

    workspace = Path(tempfile.mkdtemp(prefix="lmtui-conformance-"))
    os.environ["LMTUI_HOME"] = str(workspace / "home")
    around = ServerEnvironment(workspace, no_launcher, os.environ, browse=browse, ask=fill_in)
    entry = entry_of(url)
    server = RunningServer(Memory(workspace, entry), around)
    async with asyncio.timeout(PATIENCE_S):
        await reach_ready(server)
        clicking = asyncio.create_task(keep_logging_in(server))
        for tool in told_tools("suite", server.tools, set()):
            call = methodcaller("call", tool.own_name, arguments_of(tool), lambda _: None)
            result = await server.use(call)
            print(tool.name, result.text[:200], file=sys.stderr)
        clicking.cancel()
        await server.close()


if __name__ == "__main__":
    asyncio.run(play(sys.argv[-1]))
