"""Runs the tasks of a batch, as many at once as the servers have slots; each is retried until its checks pass."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TextIO

from lmtui.core.budgets import NO_BUDGET, SessionBudget
from lmtui.core.errors import Fault, SandboxError
from lmtui.engine.tasks import to_the_end, together
from lmtui.features.attempt_values import Attempt
from lmtui.features.batch.batch_folder import BatchFolder
from lmtui.features.batch.cluster import Cluster
from lmtui.features.batch.progress import BatchProgress, ProgressReport
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import GOOD, BatchOptions, TaskResult
from lmtui.features.service import FeatureHost

_UNREACHABLE = frozenset({Fault.UNREACHABLE, Fault.BUSY, Fault.LOADING, Fault.TIMEOUT, Fault.CUT, Fault.SERVER_ERROR})
_ABORTED = frozenset({Fault.TIMEOUT, Fault.CUT, Fault.SERVER_ERROR})
"""Faults after a server accepted the request; the task itself may cause them."""
_MOST_ABORTED = 5
_TASK_S = 7_200.0
_FIRST_WAIT_S, _LONGEST_WAIT_S = 5.0, 300.0
_MORE_WORKERS = 32
_RANKS = {status: rank for rank, status in enumerate(("failed", "red", "unchanged", "unverified", "green"))}


class BatchRunner:
    """Runs one batch.

    Args:
        host: of the workspace.
        folder: where results go.
        options: see `BatchOptions`.
        stream: gets the progress; see `ProgressReport`.
        cluster: runs the tasks instead of this machine.
    """

    def __init__(
        self,
        host: FeatureHost,
        folder: BatchFolder,
        options: BatchOptions,
        stream: TextIO | None = None,
        cluster: Cluster | None = None,
    ) -> None:
        self._host, self._folder, self._options, self._cluster = host, folder, options, cluster
        self._report = ProgressReport(folder, host.servers.pool, stream)
        self.progress = BatchProgress()
        self._queue: deque[BatchTask] = deque()
        self._sent = 0
        self._aborted: Counter[str] = Counter()

    async def run(self, tasks: Sequence[BatchTask], *, retries_failed: bool = False) -> BatchProgress:
        """Run until every task has ended.  After a cancellation, the next run does the unfinished tasks.

        Raises:
            LmtuiError: the batch cannot continue (no overlays, a full disk).
        """
        known = await asyncio.to_thread(self._folder.results)
        progress = self.progress
        self._queue.extend(progress.begin(tasks, known, retries_failed=retries_failed))
        if self._cluster is not None:
            workers = 2 * self._cluster.slots + _MORE_WORKERS  # leaves room for workers that join later
        else:
            workers = self._options.workers or max(1, await self._host.slot_count())
        progress.began_s = time.monotonic()
        async with self._report.following(progress):
            await together(self._work() for _ in range(min(workers, max(1, len(self._queue)))))
        return progress

    async def _work(self) -> None:
        wait_s = _FIRST_WAIT_S
        while self._queue:
            if self._cluster is not None:
                await self._cluster.free(self.progress.running)  # those whose worker died are sent again first
            if not self._queue or self.is_spent:
                return
            task = self._queue.popleft()
            self.progress.running[task.id] = time.time()
            self._sent += 1
            try:
                result, patch = await (self._cluster.run(task, self._sent) if self._cluster else self._do(task))
            finally:
                self.progress.running.pop(task.id, None)
            result = await to_the_end(asyncio.to_thread(self._folder.add, result, patch))
            self.progress.add(result)
            self._report.ended(result, self.progress)
            if result.status == "unreachable":
                self._queue.append(task)
                await asyncio.sleep(wait_s)
                wait_s = min(2 * wait_s, _LONGEST_WAIT_S)
            else:
                wait_s = _FIRST_WAIT_S

    @property
    def is_spent(self) -> bool:
        """Tell whether the budget of this run is used up."""
        progress = self.progress
        spent = SessionBudget(progress.tokens, progress.steps, progress.elapsed_s)
        return bool(self._options.total) and self._options.total.used(spent) >= 1

    async def _do(self, task: BatchTask) -> tuple[TaskResult, bytes]:
        """Try a task until it succeeds, and return the best result with its patch."""
        best, patch = TaskResult(task.id, "failed", task.title, tries=0), b""
        budget = replace(self._options.budget, seconds=self._options.budget.seconds or _TASK_S)
        spent, tokens, began_s = NO_BUDGET, 0, time.monotonic()
        try:
            for number in range(self._options.tries):
                attempts = self._host.new_attempts(_left(budget, spent))
                try:
                    found = await attempts.try_task(task.text, task.title, task.checks, number)
                    cost = attempts.spent_of(found)
                finally:
                    await to_the_end(attempts.close())
                tokens, spent = tokens + found.tokens, spent + cost
                self.progress.steps += cost.steps
                result, data = _result(task, found, number + 1), await asyncio.to_thread(_taken, found.patch)
                self._aborted[task.id] += found.end is not None and found.end.fault in _ABORTED
                if result.status == "unreachable" and self._aborted[task.id] >= _MOST_ABORTED:
                    result = replace(result, status="failed")
                if result.status == "unreachable" or not best.tries or _RANKS[result.status] > _RANKS[best.status]:
                    best, patch = result, data
                if best.status in GOOD or result.status == "unreachable" or budget.used(spent) >= 1:
                    break
        except SandboxError as error:
            best = best if best.tries else replace(best, tries=1, error=error.full_text())
        return replace(best, tokens=tokens, elapsed_s=round(time.monotonic() - began_s, 1)), patch


def _left(budget: SessionBudget, spent: SessionBudget) -> SessionBudget:
    """Return the rest of a budget, at least 1 of each limit."""
    return SessionBudget(
        budget.tokens and max(1, budget.tokens - spent.tokens),
        budget.steps and max(1, budget.steps - spent.steps),
        budget.seconds and max(0.1, budget.seconds - spent.seconds),
    )


def _taken(patch: str) -> bytes:
    """Return the content of a patch, and delete the file.  Blocks."""
    if not patch:
        return b""
    file = Path(patch)
    data = file.read_bytes()
    file.unlink(missing_ok=True)
    return data


def _failure(found: Attempt) -> str:
    """Return the verdict of a failed attempt, with the checks that failed when they last ran."""
    codes = {each.command: each.exit_code for each in found.end.checks} if found.end is not None else {}
    failing = ", ".join(command for command, code in codes.items() if code > 0)
    return f"{found.verdict}: {failing}" if failing else found.verdict


def _result(task: BatchTask, found: Attempt, tries: int) -> TaskResult:
    end, effect = found.end, found.effect
    if end is not None and end.fault in _UNREACHABLE:
        status = "unreachable"
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
        error=(end.error if end is not None else "") or found.problem or ("" if found.is_good else _failure(found)),
    )
