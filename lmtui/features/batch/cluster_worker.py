"""What runs on cluster workers: checks of the machine, and tasks.

A task is `lmtui batch` in a copy of the files.  It is stopped when the worker, the scheduler or the head dies.  The head
imports this module for the functions that it sends; nothing here imports Dask before a task runs.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import os
import platform
import runpy
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from lmtui import __version__
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.batch.batch_folder import BatchFolder, find_batch
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import TaskResult
from lmtui.paths import state_dir, without_keys, workspace_state_dir

MAX_PATCH_BYTES = 64_000_000
_CHECK_S, _GIT_S, _LOOK_S, _STOP_S = 300, 300, 0.5, 20
_LEAST_FREE_BYTES = 50_000_000
_STRONG = ("docker", "podman", "bubblewrap")
_GIT = ("git", "-c", "user.name=lmtui", "-c", "user.email=lmtui@localhost", "-c", "core.hooksPath=/dev/null")


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What a worker gets with each task; `limit_s` is the time limit."""

    limit_s: float
    flags: tuple[str, ...]
    task: BatchTask


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker returns: a result as JSON with its patch, or why it refuses tasks."""

    result: str = ""
    patch: bytes = b""
    refused: str = ""


async def check_worker(version: str, python: str, sandbox: str) -> str:
    """Return why this worker cannot run tasks, empty if it can."""
    return await asyncio.to_thread(_check, version, python, sandbox)


def _check(version: str, python: str, sandbox: str) -> str:
    if version != __version__:
        return f"it has lmtui {__version__}, the head has {version}"
    if platform.python_version_tuple()[:2] != tuple(python.split(".")[:2]):
        return f"it has Python {platform.python_version()}, the head has {python}"
    try:
        if full := _full_disk():
            return full
        wanted = _STRONG if sandbox == "auto" else tuple({sandbox} & set(_STRONG))
        run = [sys.executable, "-P", "-m", "lmtui", "sandbox", "check", "--json"]
        found = subprocess.run(run, capture_output=True, text=True, check=False, timeout=_CHECK_S, cwd=Path.home())
        if any(each["name"] in wanted and each["works"] for each in json.loads(found.stdout)):
            return ""
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return f"its sandbox cannot be checked: {error}"
    return "no sandbox with overlays works there (run `lmtui sandbox check` there for details)"


def _full_disk() -> str:
    """Return which disk is full, empty if none is."""
    state_dir().mkdir(parents=True, exist_ok=True, mode=0o700)
    for folder in (Path(tempfile.gettempdir()), state_dir()):
        free = shutil.disk_usage(folder).free
        if free < _LEAST_FREE_BYTES:
            return f"its disk is full: {free // 1_000_000} MB free in {folder}, {_LEAST_FREE_BYTES // 1_000_000} MB needed"
    return ""


def run_task(sent: WorkerTask, archive: bytes) -> WorkerAnswer:
    """Run one task in a copy of the workspace.  Blocks; returns early without a result if it is cancelled."""
    try:
        if full := _full_disk():
            return WorkerAnswer(refused=full)
        with tempfile.TemporaryDirectory(prefix="lmtui-batch-", ignore_cleanup_errors=True) as place:
            answer = _do(sent, archive, Path(place))
            if '"failed"' in answer.result:
                answer = WorkerAnswer(refused=full) if (full := _full_disk()) else answer
            return answer
    except (OSError, tarfile.TarError, EOFError) as error:
        return WorkerAnswer(refused=f"its disk: {getattr(error, 'strerror', None) or error}")


def _do(sent: WorkerTask, archive: bytes, place: Path) -> WorkerAnswer:
    work, tasks, log, environ = place / "work", place / "task.jsonl", place / "log", without_keys(os.environ)
    work.mkdir()
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
        files.extractall(work, filter="data")
    for command in (("init", "-q"), ("add", "-A"), ("commit", "-q", "--allow-empty", "-m", "the workspace")):
        with contextlib.suppress(FileNotFoundError, subprocess.TimeoutExpired):  # git is optional
            _ = subprocess.run((*_GIT, *command), cwd=work, capture_output=True, check=False, timeout=_GIT_S, env=environ)
    tasks.write_text(json.dumps(asdict(sent.task)), encoding="utf-8")
    run = [sys.executable, "-P", "-m", __name__, "batch", str(tasks), "--workers", "1", *sent.flags]
    try:
        with log.open("wb") as errors:
            problem = _run_process(run, work, errors.fileno(), sent.limit_s)
        with contextlib.suppress(UsageError):  # it never began
            out = BatchFolder(find_batch(work.resolve()))
            if result := out.results().get(sent.task.id):
                patch = out.patch_of(sent.task.id)
                return WorkerAnswer(json.dumps(asdict(result)), patch.read_bytes() if patch.exists() else b"")
    finally:
        shutil.rmtree(workspace_state_dir(work.resolve()), ignore_errors=True)
    if problem is None:
        return WorkerAnswer()
    lines = log.read_text(encoding="utf-8", errors="replace")[-4_000:].strip().splitlines()
    why = problem or sanitize_line(lines[-1] if lines else "lmtui ended without a result")[:300]
    return WorkerAnswer(json.dumps(asdict(TaskResult(sent.task.id, "failed", sent.task.title, error=why))))


def _run_process(run: list[str], work: Path, errors: int, limit_s: float) -> str | None:
    """Run lmtui; return why it was stopped, None if the task was cancelled, empty if it ended normally."""
    is_active, until_s = _watch(), time.monotonic() + limit_s
    process = subprocess.Popen(
        run, cwd=work, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors, start_new_session=True
    )
    assert process.stdin is not None
    try:
        while process.poll() is None:
            if not is_active():
                return None
            if time.monotonic() > until_s:
                return f"timed out after {limit_s:,.0f} s"
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_LOOK_S)
        return f"lmtui was killed by signal {-process.returncode} (out of memory?)" if process.returncode < 0 else ""
    finally:
        process.stdin.close()  # tells `main` to stop
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_STOP_S)
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _watch() -> Callable[[], bool]:
    """Return a function that tells whether the task of this thread is still active."""
    distributed = importlib.import_module("distributed")  # deferred: only workers need it
    try:
        worker = distributed.get_worker()
        key = worker.get_current_task()
    except (ValueError, KeyError):  # not run by a Dask worker
        return lambda: True

    def is_active() -> bool:
        task = worker.state.tasks.get(key)
        is_going = worker.status.name in ("running", "paused", "closing_gracefully")
        return is_going and task is not None and task.state not in ("cancelled", "released", "forgotten")

    return is_active


def main() -> None:
    """Run lmtui with the arguments of this process until standard input closes, because the worker stopped it or died."""

    def stop() -> None:
        while os.read(0, 1):
            pass
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(_STOP_S)
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=stop, daemon=True).start()
    _ = runpy.run_module("lmtui", run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
