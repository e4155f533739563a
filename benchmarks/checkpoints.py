"""What undo costs: a snapshot of 10,000 files with nothing changed beside `git status`, an undo of 200 files beside `cp`.

`python -m benchmarks checkpoints`, or this file by its path.  A backend that does not work here is left out with its reason.
"""

from __future__ import annotations

import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.report import Figure, table
from lmtui.core.errors import SandboxUnavailable
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_BACKENDS = ("docker", "bubblewrap")
_FOLDERS, _FILES = 100, 100
_CHANGED = 200
_ROUNDS = 9
_TEXT = "".join(f"line {number} of a file that is like others\n" for number in range(100))
_STATUS_RATIO = 2.0
_COPY_RATIO = 3.0


def figures() -> list[Figure]:
    """Measure every backend that works here."""
    return asyncio.run(_figures())


async def _figures() -> list[Figure]:
    found: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="lmtui-bench-") as name:
        os.environ["LMTUI_HOME"] = str(Path(name, "home"))
        workspace = Path(name, "repository")
        _make_repository(workspace)
        status = _median_ms(lambda: _run(["git", "status", "--porcelain"], workspace))
        copy = _median_ms(lambda: _copy(workspace, Path(name, "copy")))
        found += [Figure("git status of 10,000 files", status, "ms"), Figure(f"cp of {_CHANGED} files", copy, "ms")]
        for backend in _BACKENDS:
            try:
                found += await _measure(backend, workspace, status, copy)
            except SandboxUnavailable as reason:
                print(f"{backend}: not here: {reason}")
    return found


async def _measure(backend: str, workspace: Path, status: float, copy: float) -> list[Figure]:
    sandbox = await select_sandbox(workspace, backend=backend)
    try:
        await sandbox.status()
        first = await _once_ms(sandbox.checkpoints.snapshot)
        again = statistics.median([await _once_ms(sandbox.checkpoints.snapshot) for _ in range(_ROUNDS)])
        undo = statistics.median([await _undo_ms(sandbox, workspace, number) for number in range(_ROUNDS)])
    finally:
        await sandbox.close()
    return [
        Figure(f"{backend}: the first snapshot of 10,000 files, its instance's start included", first, "ms"),
        Figure(f"{backend}: a snapshot with nothing changed ÷ git status", again / status, "×", _STATUS_RATIO),
        Figure(f"{backend}: an undo of {_CHANGED} files ÷ cp", undo / copy, "×", _COPY_RATIO),
    ]


async def _undo_ms(sandbox: WorkspaceSandbox, workspace: Path, number: int) -> float:
    checkpoints = sandbox.checkpoints
    before = await checkpoints.snapshot()
    for path in _changed(workspace):
        path.write_text(f"{number}\n{_TEXT}")
    after = await checkpoints.snapshot()
    paths = [change.path for change in await checkpoints.changes(before.id, after.id)]
    assert len(paths) == _CHANGED
    elapsed = await _once_ms(lambda: checkpoints.restore(before.id, paths, expected=after.id))
    assert (await checkpoints.snapshot()).id == before.id
    return elapsed


def _make_repository(workspace: Path) -> None:
    for folder in range(_FOLDERS):
        (workspace / f"folder{folder}").mkdir(parents=True)
        for number in range(_FILES):
            (workspace / f"folder{folder}" / f"file{number}.txt").write_text(f"{folder} {number}\n{_TEXT}")
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b"]
    for arguments in (["init", "-q"], ["add", "-A"], ["commit", "-qm", "all"]):
        _run([*git, *arguments], workspace)


def _changed(workspace: Path) -> list[Path]:
    return [workspace / f"folder{number % _FOLDERS}" / f"file{number // _FOLDERS}.txt" for number in range(_CHANGED)]


def _copy(workspace: Path, target: Path) -> None:
    target.mkdir(exist_ok=True)
    names = [str(path.relative_to(workspace)) for path in _changed(workspace)]
    _run(["cp", "--parents", "-t", str(target), *names], workspace)


def _run(arguments: list[str], folder: Path) -> None:
    subprocess.run(arguments, cwd=folder, check=True, stdout=subprocess.DEVNULL)


def _median_ms(work: Callable[[], None]) -> float:
    times = []
    for _ in range(_ROUNDS):
        started = time.perf_counter()
        work()
        times.append((time.perf_counter() - started) * 1000)
    return statistics.median(times)


async def _once_ms(work: Callable[[], Awaitable[object]]) -> float:
    started = time.perf_counter()
    await work()
    return (time.perf_counter() - started) * 1000


if __name__ == "__main__":
    print(table(figures()))
