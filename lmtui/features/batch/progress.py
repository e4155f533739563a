"""The progress of a batch, in its folder and line by line on standard error.  Functions that write block only briefly."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, field
from typing import TextIO

from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import PoolRow, pool_cells
from lmtui.core.times import time_text
from lmtui.features.batch.batch_folder import FINAL, BatchFolder
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import DONE, FAILED, TaskResult, counts_text

_WRITE_S, _LINE_S = 2.0, 10.0
_SIGNS = {"green": "✓", "unverified": "✓", "unchanged": "–", "red": "✗", "failed": "✗", "unreachable": "…"}


@dataclass(slots=True)
class BatchProgress:
    """The progress of a batch: ended tasks by status (including earlier runs), and `running` as in `BatchState`.

    `ended`, `tokens`, `steps` and the time count this run only.
    """

    total: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    ended: int = 0
    tokens: int = 0
    steps: int = 0
    running: dict[str, float] = field(default_factory=dict)
    began_s: float = field(default_factory=time.monotonic)

    def begin(
        self, tasks: Sequence[BatchTask], known: dict[str, TaskResult], *, retries_failed: bool = False
    ) -> list[BatchTask]:
        """Count the tasks that ended in earlier runs, and return the others."""
        final = DONE if retries_failed else FINAL
        ended = {task.id: known[task.id].status for task in tasks if task.id in known and known[task.id].status in final}
        self.total, self.statuses = len(tasks), Counter(ended.values())
        return [task for task in tasks if task.id not in ended]

    def add(self, result: TaskResult) -> None:
        """Count a task that ended in this run, or will be retried."""
        self.tokens += result.tokens
        if result.status in FINAL:
            self.statuses[result.status] += 1
            self.ended += 1

    @property
    def open(self) -> int:
        """Return how many tasks have not ended."""
        return self.total - self.statuses.total()

    @property
    def failed(self) -> int:
        """Return how many tasks failed, or are red."""
        return sum(self.statuses[status] for status in FAILED)

    @property
    def elapsed_s(self) -> float:
        """Return the duration of this run so far."""
        return time.monotonic() - self.began_s

    @property
    def left_s(self) -> float | None:
        """Return the estimated seconds left at the speed of this run, None until its first task ends."""
        return self.elapsed_s / self.ended * self.open if self.ended else None

    @property
    def line(self) -> str:
        """Return the progress and the estimated time left, in one line."""
        return self.ending + (f" · about {time_text(self.left_s)} left" if self.left_s else "")

    @property
    def ending(self) -> str:
        """Return the progress, in one line."""
        text = counts_text(self.statuses, self.total, len(self.running))
        return f"{text} · {self.tokens:,} tokens" if self.tokens else text


def result_line(result: TaskResult) -> str:
    """Return the result of a task, in one line."""
    about = [f"{result.elapsed_s:.0f} s"] if result.elapsed_s else []
    about += [f"+{result.added} −{result.removed}"] if result.diff else []
    about += [f"try {result.tries}"] if result.tries > 1 else []
    about += [result.decision] if result.decision else []
    about += [sanitize_line(result.error)[:120]] if result.error else []
    sign, task = _SIGNS.get(result.status, "○"), sanitize_line(result.task)[:60]
    return f"{sign} {result.id:>5}  {result.status:<11} {task}  {' · '.join(about)}".rstrip()


def _server_line(row: PoolRow) -> str:
    address = sanitize_line(row.url.removeprefix("http://").removesuffix("/v1"))
    return f"{'●' if row.is_up else '○'} {address}  {pool_cells(row)}"


class ProgressReport:
    """Reports the progress of a batch in its folder, and on a stream if there is one.

    Args:
        folder: the batch folder.
        pool: returns the servers with their state.
        stream: gets a line whenever a task ends, and one with the progress from time to time.
    """

    def __init__(self, folder: BatchFolder, pool: Callable[[], Sequence[PoolRow]], stream: TextIO | None = None) -> None:
        self._folder, self._pool, self._stream = folder, pool, stream
        self._told, self._told_s = "", 0.0

    @contextlib.asynccontextmanager
    async def following(self, progress: BatchProgress) -> AsyncIterator[None]:
        """Report the progress while the batch runs, and the final result at the end."""
        ticking = asyncio.create_task(self._tick(progress))
        try:
            yield
        finally:
            ticking.cancel()
            await asyncio.gather(ticking, return_exceptions=True)
            self._print(progress.ending)

    async def _tick(self, progress: BatchProgress) -> None:
        while True:
            text, running = "\n".join([progress.line, *self.server_lines()]), dict(progress.running)
            await asyncio.to_thread(self._folder.write_progress, text, running)
            self._tell(progress)
            await asyncio.sleep(_WRITE_S)

    def ended(self, result: TaskResult, progress: BatchProgress) -> None:
        """Report the result of a task."""
        self._print(result_line(result))
        if progress.open:
            self._tell(progress)

    def server_lines(self) -> list[str]:
        return [_server_line(row) for row in self._pool()]

    def _tell(self, progress: BatchProgress) -> None:
        """Print the progress if it is another than before, and the last time was some seconds ago."""
        if progress.ending != self._told and time.monotonic() - self._told_s >= _LINE_S:
            self._told, self._told_s = progress.ending, time.monotonic()
            self._print(f"  {progress.line}")

    def _print(self, line: str) -> None:
        if self._stream is not None:
            with contextlib.suppress(OSError, ValueError):  # the reader has closed it
                _ = self._stream.write(f"{line}\n")
                self._stream.flush()
