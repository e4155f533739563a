"""What a sandbox costs: a start, a command beyond plain bash, a file read, an interrupt, a flood; medians of one run.

`python -m benchmarks sandbox`, or this file by its path.  A backend that does not work here is left out with its reason.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import Figure, table
from lmtui.core.errors import SandboxUnavailable
from lmtui.core.ports import Sandbox
from lmtui.sandbox.select import select_sandbox

_BACKENDS = ("docker", "bubblewrap", "landlock", "process")
_WITH_OVERLAYS = ("docker", "bubblewrap")
_FILES, _OVERLAYS, _BETWEEN_S = 10_000, 12, 1.5
_ROUNDS = 60
_STARTS = 7
_INTERRUPTS = 20
_COMMAND = "echo hi; cat README.md; true"
_STUBBORN = "trap '' TERM INT; (setsid sleep 99 &); sleep 99 & echo up; while :; do sleep 99; done"
_START_MS = {"docker": 800.0, "bubblewrap": 150.0}
_COMMAND_MS = {"docker": 15.0, "bubblewrap": 12.0}
# Where installers keep programs and what they fetched, below a home folder, and the files of a project that use them.
_PROGRAMS = (
    ".cargo/bin/cargo", ".nvm/versions/node/v22.1.0/bin/node", ".local/share/uv/tools/uv/bin/uv", "sdk/go1.22/bin/go",
    ".sdkman/candidates/java/21/bin/java", ".rbenv/versions/3.3.0/bin/ruby", ".pyenv/versions/3.99.1/bin/python3",
    ".local/share/pipx/venvs/poetry/bin/poetry",
)  # fmt: skip
_FOLDERS = (
    ".rustup/toolchains", ".cargo/registry", ".m2/repository", "go/pkg/mod", ".cache/uv",
    ".pyenv/versions/3.99.1/lib/python3.99",
)  # fmt: skip
_MARKERS = ("package.json", "Cargo.toml", "go.mod", "pom.xml", "uv.lock", "Gemfile", "poetry.lock")
_TOOLS_MS = 150.0
_READ_MS = 1.5
_GONE_MS = 250.0
_FLOOD_MB = 20.0


def figures() -> list[Figure]:
    """Measure every backend that works here."""
    return asyncio.run(_figures())


async def _figures() -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lmtui-bench-") as name:
        workspace = Path(name)
        (workspace / "README.md").write_text("x" * 4096)
        plain = _plain_ms(workspace)
        found.append(Figure("plain bash, a command", plain, "ms"))
        for backend in _BACKENDS:
            try:
                found += await _measure(backend, workspace, plain)
            except SandboxUnavailable as reason:
                print(f"{backend}: not here: {reason}")
        for backend in _WITH_OVERLAYS:
            with contextlib.suppress(SandboxUnavailable):
                found += await _in_overlays(backend, Path(name) / "many")
        with contextlib.suppress(SandboxUnavailable):
            times = await _start_with_tools(Path(name))
            found.append(Figure("bubblewrap: ready, eight toolchains shown", statistics.median(times), "ms", _TOOLS_MS))
    return found


async def _start_with_tools(base: Path) -> list[float]:
    """Return how long starts take in a project that uses eight tools of the home folder, in milliseconds."""
    home, workspace = base / "home", base / "project"
    for program in _PROGRAMS:
        (home / program).parent.mkdir(parents=True)
        (home / program).write_text("#!/bin/sh\n")
        (home / program).chmod(0o755)
    for folder in _FOLDERS:
        (home / folder).mkdir(parents=True)
    (workspace / ".venv").mkdir(parents=True)
    (workspace / ".venv/pyvenv.cfg").write_text(f"home = {home}/.pyenv/versions/3.99.1/bin\nversion = 3.99.1\n")
    for marker in _MARKERS:
        (workspace / marker).write_text("{}")
    before = dict(os.environ)
    path = ":".join(str((home / program).parent) for program in _PROGRAMS)
    os.environ.update(HOME=str(home), PATH=f"{path}:{before['PATH']}")
    try:
        sandbox = await select_sandbox(workspace, backend="bubblewrap")
        shown = [fact for fact in (await sandbox.status()).facts if fact.startswith("shown: ")]
        await sandbox.close()
        assert len(shown) >= len(_PROGRAMS), shown
        return [await _start_ms("bubblewrap", workspace) for _ in range(_STARTS)][1:]
    finally:
        os.environ.clear()
        os.environ.update(before)


async def _measure(backend: str, workspace: Path, plain: float) -> list[Figure]:
    started = [await _start_ms(backend, workspace) for _ in range(_STARTS)]
    sandbox = await select_sandbox(workspace, backend=backend)
    try:
        await sandbox.status()
        command = await _median_ms(lambda: sandbox.run_command(_COMMAND), _ROUNDS)
        read = await _median_ms(lambda: sandbox.read_file("README.md"), _ROUNDS)
        gone = [await _interrupt_ms(sandbox) for _ in range(_INTERRUPTS)]
        flood_s, grown_mb = await _flood(sandbox)
    finally:
        await sandbox.close()
    return [
        Figure(f"{backend}: ready, self-test included", statistics.median(started[1:]), "ms", _START_MS.get(backend, 0)),
        Figure(f"{backend}: a command, beyond plain bash", command - plain, "ms", _COMMAND_MS.get(backend, 0)),
        Figure(f"{backend}: read 4 KB", read, "ms", _READ_MS),
        Figure(f"{backend}: an interrupted tree is gone (the slowest of {_INTERRUPTS})", max(gone), "ms", _GONE_MS),
        Figure(f"{backend}: 1 GB of output", flood_s, "s"),
        Figure(f"{backend}: memory that 1 GB of output leaves", grown_mb, "MB", _FLOOD_MB),
    ]


def _fill(workspace: Path) -> None:
    for number in range(_FILES):
        folder = workspace / f"d{number // 100}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"f{number}.txt").write_text("some text\n")


async def _in_overlays(backend: str, workspace: Path) -> list[Figure]:
    """Measure commands in overlays over 10,000 files, made ahead of each as between the calls of a model."""
    _fill(workspace)
    sandbox = await select_sandbox(workspace, backend=backend)
    times: dict[str, list[float]] = {"make": [], "run": [], "look": []}
    try:
        await sandbox.status()
        await sandbox.checkpoints.snapshot()
        plain = await _median_ms(lambda: sandbox.run_command("true"), _OVERLAYS)
        for number in range(_OVERLAYS):
            began = time.perf_counter()
            overlay = sandbox.overlay()
            made = time.perf_counter()
            await overlay.sandbox.run_command("true" if number % 2 else f"echo new > d1/f{100 + number}.txt")
            ran = time.perf_counter()
            await overlay.effect()
            looked = time.perf_counter()
            await overlay.close()
            times["make"].append((made - began) * 1000)
            times["run"].append((ran - made) * 1000)
            if number % 2 == 0:
                times["look"].append((looked - ran) * 1000)
            await asyncio.sleep(_BETWEEN_S)
    finally:
        await sandbox.close()
    make, run, look = (statistics.median(each) for each in times.values())
    return [
        Figure(f"{backend}: an overlay, made", make, "ms", 50.0),
        Figure(f"{backend}: a command in an overlay, beyond a sandboxed one", run - plain, "ms", 30.0),
        Figure(f"{backend}: a look at what it changed, 10,000 files", look, "ms"),
    ]


async def _start_ms(backend: str, workspace: Path) -> float:
    sandbox = await select_sandbox(workspace, backend=backend)
    began = time.perf_counter()
    try:
        await sandbox.status()
        return (time.perf_counter() - began) * 1000
    finally:
        await sandbox.close()


async def _interrupt_ms(sandbox: Sandbox) -> float:
    up = asyncio.Event()
    task = asyncio.create_task(sandbox.run_command(_STUBBORN, on_output=lambda _text: up.set()))
    await up.wait()
    began = time.perf_counter()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    return (time.perf_counter() - began) * 1000


async def _median_ms(call: Callable[[], Awaitable[object]], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        await call()
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


async def _flood(sandbox: Sandbox) -> tuple[float, float]:
    """Return how long a gigabyte of output takes, in seconds, and what memory it leaves, in megabytes."""
    process = psutil.Process()
    before = process.memory_info().rss
    began = time.perf_counter()
    await sandbox.run_command("head -c 1000000000 /dev/zero", timeout_s=60, on_output=lambda _text: None)
    return time.perf_counter() - began, (process.memory_info().rss - before) / 1e6


def _plain_ms(workspace: Path) -> float:
    times = []
    for _ in range(_ROUNDS):
        began = time.perf_counter()
        subprocess.run(["bash", "-c", _COMMAND], cwd=workspace, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times)


if __name__ == "__main__":
    measured = figures()
    print(table(measured))
    sys.exit(int(any(not figure.is_reached for figure in measured)))
