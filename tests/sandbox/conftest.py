"""Sandboxes of every backend; one that cannot work here is skipped with its reason, or fails where CI says so."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.workspace import CommandLimits
from lmtui.sandbox.instance_programs import InstanceLauncher
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

DOCKER = pytest.param("docker", marks=pytest.mark.docker)
BUBBLEWRAP = pytest.param("bubblewrap", marks=pytest.mark.bubblewrap)
ISOLATED = [DOCKER, BUBBLEWRAP]
LANDLOCK = pytest.param("landlock", marks=pytest.mark.landlock)
CONFINED = [*ISOLATED, LANDLOCK]
WITH_SHELL = ALL = [*CONFINED, pytest.param("process", marks=pytest.mark.full)]

LIMITS = CommandLimits(memory_mb=1024, processes=128, tmp_mb=256, file_mb=256)

OpenSandbox = Callable[..., Awaitable[WorkspaceSandbox]]


def fill(folder: Path, files: Mapping[str, str | bytes]) -> None:
    """Write files, with the folders that they need; a name that ends in `/` is a folder."""
    for name, content in files.items():
        path = folder / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True, exist_ok=True)
        if not name.endswith("/"):
            path.write_bytes(content.encode() if isinstance(content, str) else content)


def git(folder: Path, *arguments: str) -> None:
    """Run the user's own git in a folder."""
    who = ("-c", "user.name=a", "-c", "user.email=a@b", "-c", "protocol.file.allow=always")
    subprocess.run(["git", *who, "-C", str(folder), *arguments], check=True, capture_output=True)


def launcher_of(sandbox: WorkspaceSandbox) -> InstanceLauncher:
    assert sandbox.launcher is not None
    return sandbox.launcher


class Gate:
    """Answers what a command's gate is asked, and writes down what it is asked and told."""

    def __init__(self, *allowed: str, forbidden: str = "", shows: bool = False) -> None:
        self.allowed, self.forbidden, self.shows = allowed, forbidden, shows
        self.asked: list[str] = []
        self.listed: list[str] = []
        self.folders: list[tuple[str, str]] = []
        self.told: list[tuple[str, int, int, str]] = []
        self.warnings: list[str] = []

    async def may_show(self, folder: str, why: str) -> bool:
        self.folders.append((folder, why))
        return self.shows

    async def may_reach(self, host: str, *, is_listed: bool = False, what: str = "") -> bool:
        (self.listed if is_listed else self.asked).append(host)
        return host != self.forbidden if is_listed else host in self.allowed

    def reached(self, host: str, sent_bytes: int, received_bytes: int, why_not: str) -> None:
        self.told.append((host, sent_bytes, received_bytes, why_not))

    def warn(self, text: str) -> None:
        self.warnings.append(text)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "workspace"
    files = {".lmagent/config.toml": "# settings\n", "README.md": "hello\n", "src/main.py": "print('hello')\n"}
    fill(folder, files)
    return folder


@pytest.fixture
def mark() -> str:
    """Return a number of seconds by which this test's sleeping processes are told from all others."""
    return f"71.{secrets.randbelow(1_000_000_000):09d}"


def sleepers(mark: str) -> int:
    """Return how many of a test's sleeping processes there are, in containers too."""
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += process.name() == "sleep" and mark in process.cmdline()
    return count


def unavailable(reason: SandboxUnavailable) -> None:
    """Skip a test whose backend does not work here; fail it where every one has to work, or one works and isolates badly."""
    if os.environ.get("LMTUI_REQUIRE_SANDBOX") == "1" or "self-test" in reason.full_text():
        pytest.fail(reason.full_text())
    pytest.skip(reason.full_text())


@pytest.fixture
async def open_sandbox(workspace: Path) -> AsyncIterator[OpenSandbox]:
    opened: list[WorkspaceSandbox] = []

    async def open_one(backend: str, folder: Path | None = None, **options: Any) -> WorkspaceSandbox:
        sandbox = await select_sandbox(folder or workspace, backend=backend, **options)
        opened.append(sandbox)
        try:
            await sandbox.status()
        except SandboxUnavailable as reason:
            unavailable(reason)
        return sandbox

    yield open_one
    for sandbox in opened:
        await sandbox.close()


@pytest.fixture
async def sandbox(request: pytest.FixtureRequest, open_sandbox: OpenSandbox) -> WorkspaceSandbox:
    """Return a started sandbox of the backend that the test is parametrised with."""
    return await open_sandbox(request.param, limits=LIMITS)
