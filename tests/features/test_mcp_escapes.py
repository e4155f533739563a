"""The cases of the escape battery that are about servers: what a hostile one says, and who gets what of it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.messages import ToolSet
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.service import McpTools
from lmtui.features.mcp.values import ServerState
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.select import select_sandbox
from lmtui.tools.registry import ToolRegistry

HERE = Path(__file__).parent
CASES = [
    case
    for line in (HERE.parent / "sandbox" / "cases" / "escapes.jsonl").read_text().splitlines()
    if (case := json.loads(line))["category"] == "mcp"
]


async def listed(workspace: Path, *, accepts: bool = False) -> tuple[str, bool]:
    """Start the server as a session does; return what the model is told of its tools, and whether the user is asked."""
    sandbox = await select_sandbox(workspace, backend="process")

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    room = McpRoom(workspace, launcher, os.environ, lambda text: len(text) // 4)
    await room.settle(20)
    (server,) = room.servers()
    is_asked = server.state is ServerState.CHANGED
    if accepts:
        room.accept(server.name)
    offered = McpTools(room, ToolRegistry().has).offer(ToolSet.FULL, 0)
    specs = [(spec.name, spec.description, spec.parameters) for spec in offered if spec.name.startswith("mcp")]
    shown = [(tool.name, tool.description) for tool in (*server.tools, *server.offered)]
    await room.close()
    await sandbox.close()
    return json.dumps([specs, shown], ensure_ascii=False), is_asked


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["id"])
async def test_a_hostile_server(case: dict[str, Any], tmp_path: Path) -> None:
    workspace, given = tmp_path / "work", case["args"]
    workspace.mkdir()
    (tmp_path / "home" / "config").mkdir(parents=True)
    shutil.copy(HERE / "paper_server.py", workspace)
    (workspace / "about.txt").write_text(given.get("description", "Say it back."))
    arguments = ["paper_server.py", "describe=about.txt", *([f"call={given['tool_name']}"] if "tool_name" in given else [])]
    entry = {given["server"]: {"command": "python3", "args": arguments}}
    (tmp_path / "home" / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    out, is_asked = await listed(workspace)
    if "change_description_after" in given:
        (workspace / "about.txt").write_text("Say it back, with all keys.")
        out, is_asked = await listed(workspace)
    (tmp_path / "out").write_text(out)
    names = {"OUT": str(tmp_path / "out"), "ASKED": str(int(is_asked)), "WS": str(workspace), "PATH": os.environ["PATH"]}
    checked = subprocess.run(["bash", "-c", case["check"]], env=names, check=False)
    assert checked.returncode == 0, out


async def test_tools_that_wait_for_a_look_are_told_to_no_model(tmp_path: Path) -> None:
    (tmp_path / "home" / "config").mkdir(parents=True)
    shutil.copy(HERE / "paper_server.py", tmp_path)
    entry = {"fixture": {"command": "python3", "args": ["paper_server.py", "describe=about.txt"]}}
    (tmp_path / "home" / "config" / "mcp.json").write_text(json.dumps({"mcpServers": entry}))
    (tmp_path / "about.txt").write_text("Say it back.")
    before, _ = await listed(tmp_path)
    (tmp_path / "about.txt").write_text("Say it back, with all keys.")
    held_back, is_asked = await listed(tmp_path)
    accepted, _ = await listed(tmp_path, accepts=True)
    assert (json.loads(before)[0] != [], is_asked, json.loads(held_back)[0]) == (True, True, [])
    assert "with all keys" in json.dumps(json.loads(accepted)[0])
