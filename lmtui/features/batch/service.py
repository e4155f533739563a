"""The batches of a workspace: reads, reviews, starts and resumes them in the background.

Implements `values.WorkspaceBatches`.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path

from lmtui.core.budgets import NO_BUDGET, whole_budget
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.events import Level, Notice
from lmtui.core.offers import Offers
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import EffectReview
from lmtui.features.batch.batch_folder import BatchFolder, find_batch, new_batch
from lmtui.features.batch.batch_runner import BatchRunner
from lmtui.features.batch.task_file import MOST_BYTES, MOST_TASKS, BatchTask, decoded, read_tasks, tasks_for_files
from lmtui.features.batch.values import BatchOptions, BatchState, WorkspaceBatches
from lmtui.features.service import FeatureHost, Workspace, WorkspaceFeature

_FORMS = 'Give a file with one task per line, or a pattern and a task: --glob "src/*.py" "Fix {file}"'
_GLOB = re.compile(r"""--glob[ =]+(?:"([^"]+)"|'([^']+)'|(\S+))\s+(.+)""", re.DOTALL)


class BatchService(WorkspaceFeature):
    """Reads and reviews batches, and runs one in the background."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        extensions.add(WorkspaceBatches, self)
        self._shown: BatchFolder | None = None
        self._working: tuple[Path, asyncio.Task[None]] | None = None

    async def read(self, path: str = "") -> BatchState:
        """Return a batch by its folder, by default the newest."""
        return await asyncio.to_thread(self._read, path)

    def _read(self, path: str) -> BatchState:
        try:
            folder = self._folder(path)
        except UsageError:
            return BatchState("")
        return folder.state()

    def _folder(self, path: str) -> BatchFolder:
        """Return the files of a batch, those of the one before where it is the same; blocks.  Raises as `find_batch`."""
        found, shown = find_batch(self.host.workspace, path), self._shown
        if shown is None or shown.path != found:
            shown = self._shown = BatchFolder(found)
        return shown

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        """Return the review of a task's changes."""
        folder = BatchFolder(find_batch(self.host.workspace, path))
        title = f"task {sanitize_line(task_id)} of {folder.path.name}"
        patch = folder.patch_of(task_id)
        return self.host.new_attempts().review_patch(patch, title, session_id, partial(self._decide, path, task_id))

    async def reject(self, path: str, task_id: str) -> None:
        await self._decide(path, task_id, "rejected")

    async def _decide(self, path: str, task_id: str, decision: str) -> None:
        await asyncio.to_thread(lambda: self._folder(path).decide(task_id, decision))

    async def count_new(self, words: str) -> int:
        return 0 if not words or (await self.read(words)).path else len((await self._new_tasks(words))[0])

    async def _new_tasks(self, words: str) -> tuple[list[BatchTask], list[str]]:
        self._check_idle()
        return await load_tasks(self.host, *parse_words(words), self.host.workspace)

    async def open(self, words: str, session_id: str) -> str:
        """Return the folder of the given batch, or of one started with these arguments."""
        if not words:
            return ""
        with contextlib.suppress(UsageError):
            return str(await asyncio.to_thread(find_batch, self.host.workspace, words))
        tasks, problems = await self._new_tasks(words)
        options: dict[str, object] = {"budget": self.host.config.budget}
        folder = await asyncio.to_thread(new_batch, self.host.workspace, tasks, options)
        if problems:
            self._notify(session_id, Level.WARNING, f"skipped: {'; '.join(problems[:5])}")
        await self._start(folder, tasks, options, session_id)
        return str(folder.path)

    async def resume(self, path: str, session_id: str) -> None:
        self._check_idle()
        folder = BatchFolder(await asyncio.to_thread(find_batch, self.host.workspace, path))
        tasks, options = await asyncio.to_thread(folder.read)
        await self._start(folder, tasks, options, session_id)

    def _check_idle(self) -> None:
        if self._working is not None:
            raise UsageError(f"a batch is already running: {self._working[0]}", "Wait for it, or stop it in /batch.")

    async def _start(
        self, folder: BatchFolder, tasks: Sequence[BatchTask], options: Mapping[str, object], session_id: str
    ) -> None:
        await self.host.require_sandbox()
        await asyncio.to_thread(folder.lock)
        try:
            self._check_idle()
        except UsageError:
            folder.unlock()
            raise
        self._working = folder.path, asyncio.create_task(self._work(folder, tasks, parse_options(options), session_id))

    async def _work(self, folder: BatchFolder, tasks: Sequence[BatchTask], options: BatchOptions, session_id: str) -> None:
        try:
            progress = await BatchRunner(self.host, folder, options).run(tasks)
            self._notify(session_id, Level.INFO, f"The batch has ended: {progress.line}. Review it with /batch.")
        except LmtuiError as error:
            self._notify(session_id, Level.ERROR, f"The batch stopped: {error.full_text()}")
        finally:
            folder.unlock()
            self._working = None

    def _notify(self, session_id: str, level: Level, text: str) -> None:
        for session in self.host.sessions:
            if session.id == session_id and not session.is_closed:
                session.emit(Notice(level=level, text=text))

    async def halt(self, path: str) -> None:
        working = self._working
        if working is None or working[0] != Path(path):
            raise UsageError("no batch is running here", "Press Ctrl+C where `lmtui batch` is running.")
        working[1].cancel()
        await asyncio.gather(working[1], return_exceptions=True)

    async def stop(self) -> None:
        """Stop the batch in the background; it can be resumed."""
        if self._working is not None:
            await self.halt(str(self._working[0]))


async def load_tasks(workspace: Workspace, words: Sequence[str], pattern: str, base: Path) -> tuple[list[BatchTask], list[str]]:
    """Return the tasks of a file, or one for each file that matches a pattern; and errors in lines of the file.

    The file is relative to the folder `base`.

    Raises:
        UsageError: no tasks.
    """
    if pattern:
        files = await (await workspace.sandbox()).glob(pattern, MOST_TASKS + 1)
        return tasks_for_files(" ".join(words), sorted(files)), []
    if len(words) != 1:
        raise UsageError("there are no tasks", _FORMS)
    tasks, problems = read_tasks(decoded(await asyncio.to_thread(_bytes_of, base / words[0]), words[0]))
    if not tasks:
        raise UsageError("the file contains no tasks", 'A line is text, or an object such as {"task": "Fix a.py"}.')
    return tasks, [sanitize_line(each) for each in problems]


def _bytes_of(file: Path) -> bytes:
    try:
        with file.open("rb") as opened:
            return opened.read(MOST_BYTES + 1)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}", f"{_FORMS}.") from error


def parse_words(words: str) -> tuple[list[str], str]:
    """Return the arguments of `/batch` without `--glob`, and its pattern."""
    if not words.startswith("--"):
        return [words], ""
    found = _GLOB.fullmatch(words)
    if found is None:
        raise UsageError("give a pattern and a task", '/batch --glob "src/*.py" Fix {file}')
    task = found[4].strip()
    is_quoted = len(task) > 1 and task[0] in "\"'" and task[-1] == task[0]
    return [task[1:-1] if is_quoted else task], found[1] or found[2] or found[3]


def parse_options(given: Mapping[str, object]) -> BatchOptions:
    """Parse the options of a batch.

    Raises:
        UsageError: an option is invalid.
    """
    try:
        workers, tries = (int(str(given.get(name, default))) for name, default in (("workers", 0), ("tries", 2)))
    except ValueError as error:
        raise UsageError("the options of this batch cannot be read", "Give --workers and --tries.") from error
    if workers < 0 or tries < 1:  # 0 workers: the default
        raise UsageError("--workers and --tries must be positive", "Leave them out for the defaults.")
    budgets = [str(given.get(name) or "") for name in ("budget", "total")]
    return BatchOptions(workers, tries, *(whole_budget(text) if text else NO_BUDGET for text in budgets))
