from __future__ import annotations

import asyncio
import json
import os
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.errors import LmtuiError
from lmtui.core.plan import Plan
from lmtui.core.ports import Sandbox, ToolContext
from lmtui.tools.registry import ToolRegistry
from tests.sandbox.conftest import BUBBLEWRAP

PATHS = ("pipe", "pipe.csv", "pipe.json", "pipe.parquet", "pipe.png", "socket")
CALLS: dict[str, dict[str, object]] = {
    "read": {"path": ""},
    "look": {"path": ""},
    "data_view": {"path": ""},
    "write": {"path": "", "content": "x"},
    "edit": {"path": "", "search": "a", "replace": "b"},
    "ls": {"path": ""},
    "glob": {"pattern": "*", "path": ""},
    "grep": {"pattern": "a", "path": ""},
    "git_status": {},
    "git_diff": {"path": ""},
    "git_add": {"paths": [""]},
}


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP], indirect=True)
@pytest.mark.parametrize("tool", CALLS)
async def test_no_tool_waits_for_a_pipe_or_a_socket(
    sandbox: Sandbox, workspace: Path, tool: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(workspace)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in PATHS[:-1]:
        os.mkfifo(workspace / name)
    registry = ToolRegistry(str(workspace))
    if tool not in registry.names():
        pytest.fail(f"no tool {tool}: {registry.names()}")
    for path in PATHS:
        given = {key: path if value == "" else [path] if value == [""] else value for key, value in CALLS[tool].items()}
        context = ToolContext(sandbox, Plan(), lambda _: None, lambda _: None, lambda: datetime.now(UTC))
        async with asyncio.timeout(10):
            with suppress(LmtuiError):
                await registry.prepare(tool, json.dumps(given)).run(context)
