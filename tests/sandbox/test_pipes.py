from __future__ import annotations

import asyncio
import fcntl
import json
import os
import selectors
import socket
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from lmtui.core.errors import LmtuiError
from lmtui.core.plan import Plan
from lmtui.core.ports import Sandbox, ToolContext
from lmtui.sandbox.guest.jobs import OutputPipe
from lmtui.tools.registry import ToolRegistry
from tests.sandbox.conftest import BUBBLEWRAP
from tests.sets import few
from tests.waiting import PATIENCE_S

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
async def test_no_tool_waits_for_a_pipe_or_a_socket(sandbox: Sandbox, workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(workspace)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as server:
        server.bind("socket")
    for name in PATHS[:-1]:
        os.mkfifo(workspace / name)
    registry = ToolRegistry(str(workspace))
    context = ToolContext(sandbox, Plan(), lambda _: None, lambda _: None, lambda: datetime.now(UTC))
    assert set(CALLS) <= set(registry.names())
    for tool, arguments in CALLS.items():
        for path in few(PATHS):
            given = {key: path if value == "" else [path] if value == [""] else value for key, value in arguments.items()}
            async with asyncio.timeout(PATIENCE_S):
                with suppress(LmtuiError):
                    await registry.prepare(tool, json.dumps(given)).run(context)


def test_what_is_left_in_a_pipe_is_read_and_what_comes_without_end_is_not() -> None:
    sizes: list[int] = []

    def take(piece: bytes) -> None:
        sizes.append(len(piece))
        assert len(sizes) < 100

    reading, writing = os.pipe()
    room = fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, 1 << 20)
    os.set_blocking(writing, False)
    assert os.write(writing, bytes(2 * room)) == room
    with selectors.PollSelector() as selector:
        OutputPipe(selector, reading, take).end()
        assert sum(sizes) == room
        endless = OutputPipe(selector, os.open("/dev/zero", os.O_RDONLY), take)
        endless.end()
        assert endless.fd == -1
    os.close(writing)
