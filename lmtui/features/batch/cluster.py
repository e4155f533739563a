"""Runs the tasks of a batch on a Dask cluster: workers here (`local`), or those of a scheduler that runs somewhere.

A worker gets the files of the workspace once, by their content, and runs `lmtui batch` with one task in a copy of them: it does
what this machine would do.  Results are kept by the head alone; what is lost with a worker or a scheduler is done again.
(https://distributed.dask.org)
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import importlib
import io
import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from lmtui import __version__
from lmtui.core.errors import UsageError
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.sanitize import sanitize_line
from lmtui.features.batch.batch_folder import BatchFolder, TaskResult
from lmtui.features.batch.task_file import BatchTask
from lmtui.paths import PROTECTED_NAMES, state_dir
from lmtui.plain_files import NotPlain, is_executable, read_plain
from lmtui.settings import Config

SLOT = "slot"
MOST_FILES = 100_000
EXTRA = "Install it with `pip install 'lmtui[batch]'`."
_MAX_FILE_BYTES, _MAX_ALL_BYTES = 64_000_000, 1_000_000_000
_CONNECT_S, _CHECK_S, _TASK_S = 20, 300, 86_400
_STRONG = ("docker", "podman", "bubblewrap")
_GIT = ("git", "-c", "user.name=lmtui", "-c", "user.email=lmtui@localhost", "-c", "core.hooksPath=/dev/null")


@dataclass(frozen=True, slots=True)
class WorkerTask:
    """What a worker gets with each task: the task, the settings as flags, and who sends it."""

    task: BatchTask
    flags: tuple[str, ...]
    digest: str
    version: str = __version__
    python: str = platform.python_version()
    sandbox: str = "auto"


@dataclass(frozen=True, slots=True)
class WorkerAnswer:
    """What a worker returns: the result and its patch, or why it does no tasks."""

    result: TaskResult | None = None
    patch: bytes = b""
    refused: str = ""


def pack(workspace: Path, paths: Sequence[str]) -> tuple[bytes, str]:
    """Return the files of a workspace as an archive, and the digest of their names and contents.

    Files with secrets and those of git and lmtui stay here.  Blocks.

    Raises:
        UsageError: they are too large.
    """
    packed, digest, total = io.BytesIO(), hashlib.sha256(), 0
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as archive:
        for path in sorted(paths):
            if is_secret_path(path) or path.partition("/")[0] in PROTECTED_NAMES:
                continue
            try:
                data = read_plain(workspace, path, _MAX_FILE_BYTES + 1)
                mode = 0o755 if is_executable(workspace, path) else 0o644
            except (NotPlain, OSError):
                continue
            if data is None:
                continue
            total += len(data)
            if len(data) > _MAX_FILE_BYTES or total > _MAX_ALL_BYTES:
                raise UsageError(f"{sanitize_line(path)} makes the workspace too large to be sent", "Have git ignore it.")
            about = tarfile.TarInfo(path)
            about.size, about.mode = len(data), mode
            archive.addfile(about, io.BytesIO(data))
            digest.update(f"{path}\0{mode}\0{hashlib.sha256(data).hexdigest()}\n".encode("utf-8", "surrogateescape"))
    return packed.getvalue(), digest.hexdigest()[:32]


def flags_of(config: Config) -> tuple[str, ...]:
    """Return the settings that differ from the defaults as flags, without keys: a worker has its own."""
    flags: list[str] = []
    for each in fields(Config):
        value = getattr(config, each.name)
        is_left_out = each.metadata["is_secret"] or each.name in ("workspace", "add_dirs", "theme", "pass_env")
        if not is_left_out and value != each.default:
            flags += ["-c", f"{each.name}={json.dumps(value, ensure_ascii=False)}"]
    return tuple(flags)


def check_worker(version: str, python: str, sandbox: str) -> str:
    """Return why this worker can do no tasks, empty where it can.  Runs on a worker; blocks."""
    if version != __version__:
        return f"it has lmtui {__version__}, the head has {version}"
    if platform.python_version_tuple()[:2] != tuple(python.split(".")[:2]):
        return f"it has Python {platform.python_version()}, the head has {python}"
    wanted = _STRONG if sandbox == "auto" else tuple({sandbox} & set(_STRONG))
    run = [sys.executable, "-m", "lmtui", "sandbox", "check", "--json"]
    try:
        found = subprocess.run(run, capture_output=True, text=True, check=False, timeout=_CHECK_S, cwd=Path.home())
        backends = json.loads(found.stdout)
        if any(each["name"] in wanted and each["works"] for each in backends):
            return ""
    except (OSError, ValueError, KeyError, TypeError, subprocess.TimeoutExpired) as error:
        return f"its sandbox cannot be checked: {error}"
    return "no sandbox with overlays works there (`lmtui sandbox check` says why)"


_CHECKED: dict[tuple[str, str, str], str] = {}


def run_task(sent: WorkerTask, archive: bytes) -> WorkerAnswer:
    """Do one task in a copy of the workspace.  Runs on a worker; blocks."""
    key = (sent.version, sent.python, sent.sandbox)
    if key not in _CHECKED:
        _CHECKED[key] = check_worker(*key)
    if _CHECKED[key]:
        return WorkerAnswer(refused=_CHECKED[key])
    try:
        with tempfile.TemporaryDirectory(prefix="lmtui-batch-") as place:
            return _do(sent, _unpacked(sent.digest, archive), Path(place))
    except OSError as error:
        return WorkerAnswer(refused=f"its disk: {error.strerror}")


def _unpacked(digest: str, archive: bytes) -> Path:
    """Return the folder with the files of a digest, unpacked once on each machine."""
    folder = state_dir() / "cluster" / digest
    if not folder.is_dir():
        draft = Path(tempfile.mkdtemp(prefix=f".{digest}-", dir=_made(folder.parent)))
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as files:
            files.extractall(draft, filter="data")
        with contextlib.suppress(OSError):  # another worker was quicker
            draft.rename(folder)
        shutil.rmtree(draft, ignore_errors=True)
    return folder


def _made(folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder


def _do(sent: WorkerTask, files: Path, place: Path) -> WorkerAnswer:
    work, out, tasks = place / "work", place / "out", place / "task.jsonl"
    shutil.copytree(files, work, symlinks=True)
    for command in (
        (*_GIT, "init", "-q"),
        (*_GIT, "add", "-A"),
        (*_GIT, "commit", "-q", "--allow-empty", "-m", "the workspace"),
    ):
        with contextlib.suppress(FileNotFoundError):  # without git, tasks do without it
            _ = subprocess.run(command, cwd=work, capture_output=True, check=False, timeout=_CHECK_S)
    about = {name: value for name, value in asdict(sent.task).items() if name != "text"}
    tasks.write_text(json.dumps(about | {"task": sent.task.text}), encoding="utf-8")
    run = [sys.executable, "-m", "lmtui", "batch", str(tasks), "--out", str(out), "--workers", "1", *sent.flags]
    try:
        ended = subprocess.run(
            run, cwd=work, capture_output=True, text=True, check=False, timeout=_TASK_S, env={**os.environ}, errors="replace"
        )
    except subprocess.TimeoutExpired:
        return WorkerAnswer(TaskResult(sent.task.id, "failed", sent.task.title, error="it took more than a day"))
    result = BatchFolder(out).results().get(sent.task.id)
    if result is None:
        why = sanitize_line(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else f"exit {ended.returncode}")
        return WorkerAnswer(TaskResult(sent.task.id, "failed", sent.task.title, error=why[:300]))
    patch = BatchFolder(out).patch_of(sent.task.id)
    return WorkerAnswer(result, patch.read_bytes() if patch.exists() else b"")


class Cluster:
    """The workers of a Dask cluster, from the head's side.

    Args:
        client: a `distributed.Client` that is asynchronous.
        packed: the files of the workspace, from `pack`.
        config: the settings of the head.
        tries: how often a task is tried.
        tell: takes notes for the user.
    """

    def __init__(self, client: Any, packed: tuple[bytes, str], config: Config, tries: int, tell: Callable[[str], None]) -> None:
        self._client, (self._archive, self._digest) = client, packed  # Any: an SDK without types
        self._flags, self._sandbox, self._tell = (*flags_of(config), "--tries", str(tries)), config.sandbox, tell
        self._bad: dict[str, str] = {}
        self._sent: Any = None
        self.slots = 1

    async def begin(self) -> None:
        """Send the files, and check every worker.

        Raises:
            UsageError: none can do tasks.
        """
        found: Mapping[str, str] = await self._client.run(check_worker, __version__, platform.python_version(), self._sandbox)
        self._bad = {worker: why for worker, why in found.items() if why}
        for worker, why in self._bad.items():
            self._tell(f"worker {worker} gets no tasks: {sanitize_line(why)}")
        good = [worker for worker in found if worker not in self._bad]
        if not good:
            raise UsageError("no worker of the cluster can do tasks", "Start workers with lmtui and a sandbox (docs/batch.md).")
        info = await self._workers()
        self.slots = sum(int(info[worker].get("resources", {}).get(SLOT, info[worker]["nthreads"])) for worker in good)
        self._has_slots = any(info[worker].get("resources", {}).get(SLOT) for worker in good)
        self._sent = await self._client.scatter(self._archive, broadcast=False, hash=True)

    async def _workers(self) -> Mapping[str, Any]:
        """Return what the scheduler says of each worker, by address."""
        found: Mapping[str, Any] = (await self._client.scheduler.identity(n_workers=-1))["workers"]
        return found

    async def run(self, task: BatchTask, number: int) -> tuple[TaskResult, bytes]:
        """Do a task on a worker; one that refuses it is left out from then on.

        Raises:
            UsageError: no worker is left, or the scheduler is gone.
        """
        sent = WorkerTask(task, self._flags, self._digest, sandbox=self._sandbox)
        while True:
            options: dict[str, Any] = {"resources": {SLOT: 1}} if self._has_slots else {}
            if self._bad:
                good = [worker for worker in await self._workers() if worker not in self._bad]
                if not good:
                    raise UsageError("no worker of the cluster is left", "Start one, then `lmtui batch resume`.")
                options["workers"] = good
            future = self._client.submit(
                run_task,
                sent,
                self._sent,
                key=f"lmtui-{self._digest[:8]}-{task.id}-{number}-{len(self._bad)}",
                pure=False,
                **options,
            )
            try:
                answer: WorkerAnswer = await future
            except (OSError, RuntimeError, asyncio.CancelledError) as error:
                if isinstance(error, asyncio.CancelledError) and (running := asyncio.current_task()) and running.cancelling():
                    raise
                raise UsageError(
                    f"the cluster is gone: {sanitize_line(str(error))}", "Continue with `lmtui batch resume`."
                ) from error
            if answer.result is not None:
                return answer.result, answer.patch
            worker = next(iter((await self._client.who_has([future])).values()), ("",))
            for each in worker or ("",):
                self._bad[each] = answer.refused
                self._tell(f"worker {each} gets no tasks: {sanitize_line(answer.refused)}")


@contextlib.asynccontextmanager
async def open_client(address: str, workers: int) -> AsyncIterator[Any]:
    """Yield a client of a scheduler, or (`local`) of workers that are started here.

    Raises:
        UsageError: Dask is not installed, or no scheduler answers.
    """
    try:
        distributed = await asyncio.to_thread(importlib.import_module, "distributed")
    except ImportError as error:
        raise UsageError("--cluster needs Dask", EXTRA) from error
    async with contextlib.AsyncExitStack() as stack:
        target: Any = address
        if address == "local":
            count = workers or max(1, (os.cpu_count() or 2))
            target = await stack.enter_async_context(
                distributed.LocalCluster(
                    n_workers=count,
                    threads_per_worker=1,
                    resources={SLOT: 1},
                    asynchronous=True,
                    dashboard_address=None,
                    silence_logs="ERROR",
                )
            )
        try:
            client = await stack.enter_async_context(distributed.Client(target, asynchronous=True, timeout=_CONNECT_S))
        except (OSError, TimeoutError, ValueError) as error:
            raise UsageError(
                f"no Dask scheduler answers at {sanitize_line(address)}", "Start one with `dask scheduler`."
            ) from error
        yield client
