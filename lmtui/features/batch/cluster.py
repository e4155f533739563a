"""Runs the tasks of a batch on a Dask cluster: local workers, or those of a running scheduler.

Dask starts and watches processes and transports calls; the head (this process) assigns tasks and alone stores results.  If a
worker dies, another repeats its task; if the scheduler dies, `lmtui batch resume` does.  (https://distributed.dask.org)
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import io
import json
import logging
import os
import platform
import secrets
import signal
import stat
import tarfile
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import CancelledError as FutureCancelled
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from lmtui import __version__
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.sanitize import sanitize_line
from lmtui.features.batch.batch_folder import parse_result
from lmtui.features.batch.cluster_worker import (
    MAX_PATCH_BYTES,
    WorkerAnswer,
    WorkerTask,
    check_worker,
    run_task,
)
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import BatchOptions, TaskResult
from lmtui.paths import PROTECTED_NAMES, install_hint
from lmtui.plain_files import NotPlain, plain_stat, read_plain
from lmtui.settings import Config

SLOT = "slot"
MOST_FILES = 100_000
RESUME = "Continue with `lmtui batch resume`."
_MAX_FILE_BYTES, _MAX_ALL_BYTES = 64_000_000, 1_000_000_000
_CONNECT_S, _LOOK_S, _NO_WORKER_S, _CANCEL_S = 20, 1.0, 60.0, 5.0
_ASK_S, _TASK_S, _SPARE_S = 600.0, 86_400.0, 300.0
_MOST_DEATHS = 3


def pack(workspace: Path, paths: Sequence[str]) -> bytes:
    """Return the files of a workspace as an archive.

    Leaves out files with secrets and those of git and lmtui.  Blocks.

    Raises:
        UsageError: the files are too large.
    """
    if len(paths) > MOST_FILES:
        raise UsageError(f"the workspace has more than {MOST_FILES:,} files", "Have git ignore those that no task needs.")
    packed, total = io.BytesIO(), 0
    with tarfile.open(fileobj=packed, mode="w:gz", compresslevel=3) as archive:
        for path in sorted(paths):
            if is_secret_path(path) or path.partition("/")[0] in PROTECTED_NAMES:
                continue
            try:
                data = read_plain(workspace, path, _MAX_FILE_BYTES + 1)
            except (NotPlain, OSError):
                continue
            if data is None or (found := plain_stat(workspace, path)) is None:
                continue
            total += len(data)
            if len(data) > _MAX_FILE_BYTES or total > _MAX_ALL_BYTES:
                raise UsageError(f"{sanitize_line(path)} makes the workspace too large to send", "Add it to .gitignore.")
            about = tarfile.TarInfo(path)
            about.size, about.mode = len(data), 0o755 if found.st_mode & stat.S_IXUSR else 0o644
            archive.addfile(about, io.BytesIO(data))
    return packed.getvalue()


def config_flags(config: Config) -> tuple[str, ...]:
    """Return the settings that differ from the defaults as flags, without keys, because each worker has its own."""
    flags: list[str] = []
    for each in fields(Config):
        value = getattr(config, each.name)
        is_left_out = each.metadata["is_secret"] or each.name in ("workspace", "add_dirs", "theme", "pass_env")
        if not is_left_out and value != each.default:
            flags += ["-c", f"{each.name}={json.dumps(value, ensure_ascii=False)}"]
    return tuple(flags)


def validate_result(task: BatchTask, answer: WorkerAnswer) -> tuple[TaskResult, bytes]:
    """Validate a worker's result; the id, title and diff path never come from the worker."""
    problem = TaskResult(task.id, "failed", task.title)
    try:
        result = replace(parse_result(answer.result), id=task.id, task=task.title, diff="", decision="")
    except ValueError:
        return replace(problem, error="the worker returned an invalid result"), b""
    if len(answer.patch) > MAX_PATCH_BYTES:
        return replace(problem, error=f"the changes are larger than {MAX_PATCH_BYTES // 1_000_000} MB"), b""
    return result, answer.patch


@dataclass(slots=True)
class _Worker:
    """A worker that gets tasks, with the files that it has, its slots and how many are in use.

    `options` are those of a task for it; `gone` is done when it has left the scheduler.
    """

    address: str
    files: Any  # a future of the SDK
    slots: int
    options: Mapping[str, Any]
    running: int = 0
    gone: asyncio.Future[object] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Cluster:
    """The workers of a Dask cluster as the head sees them.  Created by `open_cluster`.

    Args:
        client: an asynchronous `distributed.Client`.
        archive: the workspace files, from `pack`.
        config: the settings of this process.
        options: those of the batch.
        tell: called with notes for the user.
    """

    def __init__(
        self,
        client: Any,  # an SDK without types
        archive: bytes,
        config: Config,
        options: BatchOptions,
        tell: Callable[[str], None],
    ) -> None:
        tries, seconds = options.tries, options.budget.seconds
        self._client, self._archive, self._tell = client, archive, tell
        self._name = f"lmtui-{secrets.token_hex(4)}"
        flags = [*config_flags(config), "--tries", str(tries)]
        if budget := options.budget:  # 0 is no limit
            flags += ["--budget", f"{seconds:.0f}s {budget.steps} steps {budget.tokens} tokens"]
        limit_s = tries * 1.2 * seconds + _SPARE_S if seconds else _TASK_S
        self._machine = (__version__, platform.python_version(), config.sandbox)
        self._task = WorkerTask(limit_s, tuple(flags), BatchTask("", ""))
        self._workers: dict[str, _Worker] = {}
        self._refused: set[str] = set()
        self._joining: dict[str, asyncio.Task[None]] = {}
        self._watcher: asyncio.Task[None] | None = None
        self._changed = asyncio.Event()
        self._lost = ""

    @property
    def slots(self) -> int:
        """Return how many tasks its workers can run at once."""
        return sum(worker.slots for worker in self._workers.values())

    async def begin(self) -> None:
        """Check every worker and send it the files; workers can also join later.

        Raises:
            LmtuiError: no worker can run tasks.
        """
        await self._look()
        await asyncio.gather(*self._joining.values())
        if not self._workers:
            raise UsageError(
                "no worker of the cluster can run tasks", "Start workers with lmtui and a sandbox (docs/batch.md)."
            )
        self._watcher = asyncio.create_task(self._watch())

    async def close(self) -> None:
        """Stop watching the workers."""
        tasks = [*self._joining.values(), *([self._watcher] if self._watcher else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _watch(self) -> None:
        try:
            while not self._lost:
                await asyncio.sleep(_LOOK_S)
                await self._look()
        except (OSError, LmtuiError) as error:
            self._lose(str(error))

    def _lose(self, why: str) -> None:
        self._lost = self._lost or f"lost the cluster: {sanitize_line(why)}"
        self._notify()

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _look(self) -> None:
        """Remove workers that have left, and add new ones."""
        found: Mapping[str, int] = await self._asked(self._client.scheduler.ncores())
        for address in self._workers.keys() - found.keys():
            self._drop(address)
        self._refused &= found.keys()
        for address in found.keys() - self._workers.keys() - self._refused - self._joining.keys():
            self._joining[address] = asyncio.create_task(self._take(address))
        self._notify()

    def _drop(self, address: str) -> None:
        """Forget a worker that left, or lost the files; if it is there still, it is taken again."""
        if (worker := self._workers.pop(address, None)) is not None:
            self._tell(f"worker {address} was lost")
            worker.gone.set_result(None)

    async def _asked(self, question: Awaitable[Any]) -> Any:
        """Return the scheduler's answer to a request.

        Raises:
            OSError: it does not answer.
        """
        if self._client.status != "running":
            raise OSError("lost the connection to the scheduler")
        async with asyncio.timeout(_CONNECT_S):
            return await question

    async def _take(self, address: str) -> None:
        """Check a worker, send it the files, and use it."""
        try:
            why = await self._ask(address, check_worker, *self._machine)
            info: Mapping[str, Any] = (await self._asked(self._client.scheduler.identity(n_workers=-1)))["workers"]
            if address not in info:
                return
            if why:
                self._refuse(address, why)
                return
            async with asyncio.timeout(_ASK_S):
                files = await self._client.scatter(self._archive, workers=[address], hash=False)
            slots = int(info[address].get("resources", {}).get(SLOT, 0))
            options = {"resources": {SLOT: 1}} if slots else {}
            self._workers[address] = _Worker(address, files, slots or int(info[address]["nthreads"]), options)
        except OSError as error:
            self._lose(str(error))
        finally:
            self._joining.pop(address, None)
            self._notify()

    def _refuse(self, address: str, why: str) -> None:
        if address not in self._refused:
            self._tell(f"worker {address} gets no tasks: {sanitize_line(why)[:300]}")
        self._refused.add(address)
        self._workers.pop(address, None)
        self._notify()

    async def _ask(self, address: str, function: Callable[..., Awaitable[Any]], *arguments: object) -> Any:
        """Run a function on a worker next to its tasks; errors are returned as text."""
        try:
            async with asyncio.timeout(_ASK_S):
                found = await self._client.run(function, *arguments, workers=[address], on_error="return")
        except OSError as error:
            return f"it does not answer: {error}"
        answer = found.get(address, "it does not answer")
        return f"{type(answer).__name__}: {answer}" if isinstance(answer, Exception) else answer

    async def free(self, before: Collection[str] = ()) -> None:
        """Wait for a free slot, behind the tasks under way that come `before`; who runs a task at once has it.

        Raises:
            LmtuiError: no worker is left, or the scheduler is lost.
        """
        none_since_s = 0.0
        while True:
            if self._lost:
                raise LmtuiError(self._lost, RESUME)
            if len(before) < self.slots and any(worker.running < worker.slots for worker in self._workers.values()):
                return
            none_since_s = 0.0 if self._workers or self._joining else none_since_s or time.monotonic()
            if none_since_s and time.monotonic() - none_since_s > _NO_WORKER_S:
                raise LmtuiError("no worker of the cluster is left", "Start one, then run `lmtui batch resume`.")
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._changed.wait(), _LOOK_S)

    async def run(self, task: BatchTask, number: int) -> tuple[TaskResult, bytes]:
        """Run a task on a worker, and on another one if that one refuses it or dies.

        Raises:
            LmtuiError: no worker is left, or the scheduler is lost.
        """
        deaths = 0
        while deaths < _MOST_DEATHS:
            await self.free()
            worker = min(self._workers.values(), key=lambda each: (each.running / each.slots, each.address))
            worker.running += 1
            try:
                answer = await self._answer(worker, task, f"{self._name}-{task.id}-{number}-{deaths}-{worker.address}")
            finally:
                worker.running -= 1
                self._notify()
            if isinstance(answer, Exception):
                why = sanitize_line(f"{type(answer).__name__}: {answer}")[:300]
                return TaskResult(task.id, "failed", task.title, error=f"the worker failed: {why}"), b""
            if isinstance(answer, WorkerAnswer) and answer.refused:
                self._refuse(worker.address, answer.refused)
            elif isinstance(answer, WorkerAnswer) and answer.result:
                return validate_result(task, answer)
            else:
                deaths += 1
        why = f"{_MOST_DEATHS} workers died while running it (out of memory?)"
        return TaskResult(task.id, "failed", task.title, tries=deaths, error=why), b""

    async def _answer(self, worker: _Worker, task: BatchTask, key: str) -> object:
        """Return the answer of a worker, the exception that ended the task, or None if the worker is lost.

        Raises:
            LmtuiError: the scheduler is lost.
        """
        sent, where = replace(self._task, task=task), [worker.address]
        future = self._client.submit(run_task, sent, worker.files, key=key, pure=False, workers=where, **worker.options)
        waiting = asyncio.ensure_future(_outcome(future))
        try:
            await asyncio.wait({waiting, worker.gone}, return_when=asyncio.FIRST_COMPLETED)
            return waiting.result() if waiting.done() else None
        except (OSError, FutureCancelled) as error:
            if self._client.status != "running":
                self._lose(str(error) if isinstance(error, OSError) else "lost the connection to the scheduler")
                raise LmtuiError(self._lost, RESUME) from error
            self._drop(worker.address)
            return None
        finally:
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            if self._client.status == "running":  # the worker stops the task, or drops its result
                with contextlib.suppress(OSError, TimeoutError):
                    await asyncio.wait_for(self._client.cancel([future]), _CANCEL_S)


async def _outcome(future: Any) -> object:  # Any: a future of the SDK
    """Return the result of a task, or the exception that ended it."""
    error = await future.exception()
    return error if error is not None else await future


@contextlib.contextmanager
def _ignoring_interrupts() -> Iterator[None]:
    """Have processes that start meanwhile ignore Ctrl+C, which reaches all of a terminal: this one stops them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        _ = signal.signal(signal.SIGINT, before)


@contextlib.asynccontextmanager
async def open_cluster(
    address: str, archive: bytes, config: Config, options: BatchOptions, tell: Callable[[str], None]
) -> AsyncIterator[Cluster]:
    """Yield the checked workers of a scheduler, or local ones (`local`); see `Cluster` for the other arguments.

    Raises:
        LmtuiError: Dask is not installed, no scheduler answers, or no worker can run tasks.
    """
    try:
        distributed = await asyncio.to_thread(importlib.import_module, "distributed")
    except ImportError as error:
        raise UsageError("--cluster needs Dask", install_hint("batch")) from error
    logging.getLogger("distributed").setLevel(logging.CRITICAL)  # lmtui reports lost connections itself
    async with contextlib.AsyncExitStack() as stack:
        target: Any = address
        if address == "local":
            with _ignoring_interrupts():
                target = await stack.enter_async_context(
                    distributed.LocalCluster(
                        n_workers=options.workers or max(1, (os.cpu_count() or 2)),
                        threads_per_worker=1,
                        resources={SLOT: 1},
                        asynchronous=True,
                        dashboard_address="127.0.0.1:0",  # any free port: a second batch gets no warning
                        silence_logs=logging.CRITICAL,
                    )
                )
        try:
            client = await stack.enter_async_context(distributed.Client(target, asynchronous=True, timeout=_CONNECT_S))
        except (OSError, TimeoutError, ValueError) as error:
            hint = "Start one with `dask scheduler`, and name it like tcp://10.0.0.1:8786."
            raise UsageError(f"no Dask scheduler answers at {sanitize_line(address)}", hint) from error
        cluster = Cluster(client, archive, config, options, tell)
        stack.push_async_callback(cluster.close)
        await cluster.begin()
        yield cluster
