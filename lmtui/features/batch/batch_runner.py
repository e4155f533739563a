"""Works on the tasks of a batch, as many at once as the servers have slots; each is tried until its checks pass."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmtui.core.attempt_values import Attempt
from lmtui.core.budgets import NO_BUDGET, SessionBudget
from lmtui.core.errors import Fault, SandboxError
from lmtui.engine.file_changes import to_the_end, together
from lmtui.engine.session import EngineSession
from lmtui.features.batch.batch_folder import FINAL, GOOD, BatchFolder, TaskResult
from lmtui.features.batch.cluster import Cluster
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.service import Begin, FeatureHost
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_AWAY = frozenset({Fault.UNREACHABLE, Fault.BUSY, Fault.LOADING, Fault.TIMEOUT, Fault.CUT, Fault.SERVER_ERROR})
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 300.0
_MORE_WORKERS = 32


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """How a batch is worked on: `workers` tasks at once (0: by slots), `tries` for each, budgets for one and for all."""

    workers: int = 0
    tries: int = 2
    budget: SessionBudget = NO_BUDGET
    total: SessionBudget = NO_BUDGET


@dataclass(slots=True)
class BatchProgress:
    """How far a batch is."""

    total: int = 0
    results: dict[str, TaskResult] = field(default_factory=dict)
    running: dict[str, str] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)
    ended: int = 0

    @property
    def done(self) -> int:
        """Return how many ended well."""
        return sum(each.status in GOOD for each in self.results.values())

    @property
    def failed(self) -> int:
        """Return how many ended otherwise."""
        return sum(each.status in FINAL - GOOD for each in self.results.values())

    @property
    def left_s(self) -> float | None:
        """Return how many seconds the rest will take at the speed so far, None before the first end."""
        left = self.total - self.done - self.failed
        return (time.monotonic() - self.began_s) / self.ended * left if self.ended else None

    @property
    def line(self) -> str:
        """Return how far it is, in one line."""
        parts = [f"{self.done} of {self.total} done", f"{self.failed} failed", f"{len(self.running)} running"]
        left_s = self.left_s
        parts += [f"about {left_s / 60:.0f} min left"] if left_s and left_s >= 60 else []
        return " · ".join(parts)

    @property
    def tokens(self) -> int:
        """Return how many tokens were computed."""
        return sum(each.tokens for each in self.results.values())


class BatchRunner:
    """Works on one batch.

    Args:
        host: of the workspace.
        folder: where results go.
        options: see `BatchOptions`.
        tell: called with each end of a task, and the progress.
        cluster: does the tasks in place of this machine.
    """

    def __init__(
        self,
        host: FeatureHost,
        folder: BatchFolder,
        options: BatchOptions,
        tell: Callable[[TaskResult, BatchProgress], None],
        cluster: Cluster | None = None,
    ) -> None:
        self._host, self._folder, self._options, self._tell, self._cluster = host, folder, options, tell, cluster
        self.progress = BatchProgress()
        self._queue: deque[BatchTask] = deque()
        self._sent = 0

    async def run(self, tasks: Sequence[BatchTask], *, retries_failed: bool = False) -> BatchProgress:
        """Work until every task has ended.  Cancelled, what is under way is done by the next run.

        Raises:
            LmtuiError: the work cannot go on at all (no overlays, a full disk).
        """
        progress = self.progress
        known = await asyncio.to_thread(self._folder.results)
        keep = GOOD | {"unchanged"} if retries_failed else FINAL
        progress.results = {name: each for name, each in known.items() if each.status in keep}
        progress.total = len(tasks)
        self._queue.extend(each for each in tasks if each.id not in progress.results)
        if self._cluster is not None:
            workers = 2 * self._cluster.slots + _MORE_WORKERS  # workers that join later are used too
        else:
            workers = self._options.workers or max(1, await self._host.slot_count())
        await together(self._work() for _ in range(min(workers, max(1, len(self._queue)))))
        return progress

    async def _work(self) -> None:
        wait_s = _FIRST_WAIT_S
        while self._queue:
            async with self._cluster.turn() if self._cluster else contextlib.nullcontext():
                if not self._queue or self._is_spent():
                    return
                task = self._queue.popleft()
                result, patch = await (self._do(task) if self._cluster is None else self._send(task, self._cluster))
            result = await to_the_end(asyncio.to_thread(self._folder.add, result, patch))
            if result.status == "away":
                self._queue.append(task)
                self._tell(result, self.progress)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
                continue
            wait_s = _FIRST_WAIT_S
            self.progress.results[task.id] = result
            self.progress.ended += 1
            self._tell(result, self.progress)

    def _is_spent(self) -> bool:
        spent = SessionBudget(self.progress.tokens, 0, time.monotonic() - self.progress.began_s)
        return bool(self._options.total) and self._options.total.used(spent) >= 1

    async def _send(self, task: BatchTask, cluster: Cluster) -> tuple[TaskResult, bytes]:
        """Have a worker of the cluster do a task."""
        self.progress.running[task.id] = task.title
        self._sent += 1
        try:
            return await cluster.run(task, self._sent)
        finally:
            self.progress.running.pop(task.id, None)

    async def _do(self, task: BatchTask) -> tuple[TaskResult, bytes]:
        """Try a task until it ends well, and return the best result with its patch."""
        self.progress.running[task.id] = task.title
        best, patch = TaskResult(task.id, "failed", task.title, tries=0), b""
        tokens, began_s = 0, time.monotonic()
        try:
            for number in range(self._options.tries):
                attempts = self._host.new_attempts(self._options.budget)
                try:
                    found = await attempts.try_task(task.text, task.title, 1, number, _beginning(task))
                finally:
                    await to_the_end(attempts.close())
                tokens += found.tokens
                result, data = _result(task, found, number + 1), await asyncio.to_thread(_taken, found.patch)
                if not best.tries or _rank(result) > _rank(best):
                    best, patch = result, data
                if best.status in GOOD or result.status == "away":
                    break
        except SandboxError as error:
            best = best if best.tries else replace(best, tries=1, error=error.full_text())
        finally:
            self.progress.running.pop(task.id, None)
        return replace(best, tokens=tokens, elapsed_s=round(time.monotonic() - began_s, 1)), patch


def _taken(patch: str) -> bytes:
    """Return what is in a patch, which the batch keeps from now on.  Blocks."""
    if not patch:
        return b""
    file = Path(patch)
    data = file.read_bytes()
    file.unlink(missing_ok=True)
    return data


def _beginning(task: BatchTask) -> Begin:
    async def begin(session: EngineSession, sandbox: WorkspaceSandbox) -> None:
        del sandbox
        if task.checks:
            session.goals.set(" && ".join(f"({each})" if len(task.checks) > 1 else each for each in task.checks))
        session.submit(task.text)

    return begin


_RANKS = ("away", "failed", "red", "unchanged", "unverified", "green")


def _rank(result: TaskResult) -> int:
    return _RANKS.index(result.status)


def _result(task: BatchTask, found: Attempt, tries: int) -> TaskResult:
    end, effect = found.end, found.effect
    if end is not None and end.fault in _AWAY:
        status = "away"
    elif not found.is_good:
        status = "red" if (end is not None and end.exit_code == 0) or found.failing else "failed"
    elif effect is None or not effect.changes:
        status = "unchanged"
    else:
        status = "green" if found.is_green else "unverified"
    added, removed = found.lines
    return TaskResult(
        task.id,
        status,
        task.title,
        tuple(effect.paths) if effect is not None else (),
        added,
        removed,
        session=found.session,
        model=found.model,
        tries=tries,
        tokens=found.tokens,
        checks={str(rung): str(outcome) for rung, outcome in found.checks.items()},
        error=(end.error if end is not None else "") or found.problem,
    )
