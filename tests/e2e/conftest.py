"""The installed program as a process of its own, against a scripted server on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.e2e.forking import FORKS
from tests.waiting import PATIENCE_S

ROOT = Path(__file__).parents[2]


@dataclass
class Result:
    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        assert self.out, (self.code, self.err)
        return json.loads(self.out)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]


@dataclass
class Program:
    """lmtui in one workspace with a home of its own."""

    workspace: Path
    home: Path
    environ: dict[str, str] = field(default_factory=dict)
    _started: list[asyncio.subprocess.Process] = field(default_factory=list)

    @property
    def state(self) -> Path:
        """Where lmtui keeps its state of the workspace."""
        return self.home / "state/workspaces" / hashlib.sha256(os.fsencode(self.workspace.resolve())).hexdigest()[:24]

    def full_environ(self) -> dict[str, str]:
        names = ("PATH", "LANG", "HOME", "TMPDIR", "GIT_CONFIG_GLOBAL")
        kept = {name: os.environ[name] for name in names if name in os.environ}
        return kept | {"LMTUI_HOME": str(self.home), "PYTHONPATH": str(ROOT), "TERM": "xterm-256color"} | self.environ

    async def start(self, *arguments: str, launcher: tuple[str, ...] = ()) -> asyncio.subprocess.Process:
        return await self.start_python("-m", "lmtui", *arguments, launcher=launcher)

    async def start_python(self, *arguments: str, launcher: tuple[str, ...] = ()) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *launcher,
            sys.executable,
            *arguments,
            cwd=self.workspace,
            env=self.full_environ(),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        self._started.append(process)
        return process

    async def close(self) -> None:
        """End what still runs and read its pipes to their ends: they must not outlive the loop."""
        for process in self._started:
            if process.returncode is None:
                process.kill()
            async with asyncio.timeout(PATIENCE_S):
                _ = await process.communicate()

    async def run(self, *arguments: str, stdin: str = "") -> Result:
        """Run it to its end, in a fork of a process that has loaded it; another copy of the program, in its own process."""
        if "PYTHONPATH" in self.environ:
            process = await self.start(*arguments)
            async with asyncio.timeout(PATIENCE_S):
                out, err = await process.communicate(stdin.encode())
            assert process.returncode is not None
            return Result(process.returncode, out.decode(), err.decode())
        return Result(*await asyncio.to_thread(FORKS.run, arguments, self.workspace, self.full_environ(), stdin, 60))


@pytest.fixture
async def program(tmp_path: Path) -> AsyncIterator[Program]:
    (tmp_path / "work").mkdir()
    program = Program(tmp_path / "work", tmp_path / "home")
    yield program
    await program.close()


@pytest.fixture(scope="session", autouse=True)
def _forks() -> Iterator[None]:
    yield
    FORKS.close()


Serve = Callable[..., Awaitable[ScriptedServer]]


@pytest.fixture
async def serve() -> AsyncIterator[Serve]:
    servers: list[ScriptedServer] = []

    async def start(*script: ScriptedTurn | Scenario, key: str = "", **options: Any) -> ScriptedServer:
        turns = tuple(each for each in script if isinstance(each, ScriptedTurn))
        scenarios = [each for each in script if isinstance(each, Scenario)] or [Scenario(turns, **options)]
        server = await ScriptedServer(*scenarios, key=key).__aenter__()
        servers.append(server)
        return server

    yield start
    for server in servers:
        await server.__aexit__(None, None, None)
