"""Ten MCP servers, two broken and one hanging: what they cost the first frame, when the others are there; and 200 tools."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from benchmarks.fullscreen import PROMPT, ROOT, Pty
from benchmarks.report import Figure
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.service import search, search_spec
from lmtui.features.mcp.values import ServerState
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from lmtui.models.tokens import count_tokens
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.select import select_sandbox

_PAPER = ROOT / "tests" / "features" / "paper_server.py"
_PAIRS = 17
_LIMIT_S = 30.0
_WORKING = 7


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    with tempfile.TemporaryDirectory() as home, tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as folder:
        shutil.copy(_PAPER, folder)
        _configure(Path(home), _ten_servers())
        ratio = asyncio.run(_first_frame(home, empty, folder))
        os.environ["LMTUI_HOME"] = home
        ready_s = asyncio.run(_all_there(Path(folder)))
        _configure(Path(home), {"shop": _paper("tools=188")})
        tokens, search_ms = asyncio.run(_two_hundred(Path(folder)))
    return [
        Figure("first frame with ten servers, CPU ÷ with none", ratio, "×", 1.05),
        Figure("the seven of ten servers that work are there", ready_s, "s", 5),
        Figure("prompt with 200 tools more", tokens, "tokens", 300),
        Figure("search among 200 tools", search_ms, "ms", 20),
    ]


def _paper(*options: str) -> dict[str, object]:
    return {"command": "python3", "args": ["paper_server.py", *options]}


def _ten_servers() -> dict[str, object]:
    broken = {"missing": {"command": "no-such-program"}, "crashing": {"command": "false"}}
    return {**{f"paper{i}": _paper() for i in range(_WORKING)}, **broken, "hanging": _paper("hang=start")}


def _configure(home: Path, servers: Mapping[str, object]) -> None:
    (home / "config").mkdir(exist_ok=True)
    (home / "config" / "mcp.json").write_text(json.dumps({"mcpServers": servers}))


async def _first_frame(home: str, empty: str, folder: str) -> float:
    """Return the median of CPU with servers ÷ without, each pair measured one behind the other."""
    async with ScriptedServer(Scenario((ScriptedTurn("hello"),))) as server:
        environ = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        environ |= {"PYTHONPATH": str(ROOT), "TERM": "xterm-256color", "COLORTERM": "truecolor"}
        command = [sys.executable, "-m", "lmtui", "--url", server.url, "--sandbox", "process"]
        ratios: list[float] = []
        for number in range(_PAIRS):
            order = (empty, home) if number % 2 else (home, empty)
            costs = {each: await asyncio.to_thread(_start, command, environ | {"LMTUI_HOME": each}, folder) for each in order}
            ratios += [costs[home] / costs[empty]] if number else []
    return statistics.median(ratios)


def _start(command: list[str], environ: dict[str, str], folder: str) -> float:
    program = Pty(command, environ, folder)
    try:
        return program.until(PROMPT)
    finally:
        program.close()


async def _all_there(folder: Path) -> float:
    """Return the seconds until every server that works is ready."""
    sandbox = await select_sandbox(folder, backend="bubblewrap")

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    room = McpRoom(folder, launcher, os.environ, count_tokens)
    began = time.monotonic()
    are_there = asyncio.Event()

    def look() -> None:
        if sum(server.state is ServerState.READY for server in room.servers()) == _WORKING:
            are_there.set()

    _ = room.listen(look)
    await room.loaded()
    async with asyncio.timeout(_LIMIT_S):
        await are_there.wait()
    elapsed_s = time.monotonic() - began
    await room.close()
    await sandbox.close()
    return elapsed_s


async def _two_hundred(folder: Path) -> tuple[float, float]:
    """Return what 200 tools cost in the prompt, and how long a search among them takes."""
    sandbox = await select_sandbox(folder, backend="process")

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    room = McpRoom(folder, launcher, os.environ, count_tokens)
    await room.settle(_LIMIT_S)
    tools = room.tools()
    spec = search_spec(room.servers())
    told = {"name": spec.name, "description": spec.description, "parameters": spec.parameters}
    times: list[float] = []
    for _ in range(20):
        began = time.perf_counter()
        found = search("archive a photo", tools)
        times.append((time.perf_counter() - began) * 1000)
        assert found[0].own_name == "archive_photo"
    await room.close()
    await sandbox.close()
    assert len(tools) == 200
    return float(count_tokens(json.dumps({"type": "function", "function": told}))), statistics.median(times)
