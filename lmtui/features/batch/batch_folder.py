"""A batch on disk: `batch.json`, `tasks.jsonl`, `results.jsonl` (a line whenever a task ends) and `diffs/ID.patch`.

Results are append-only: a kill loses at most the line that was being written.  All functions block.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import json
import os
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path

from pydantic import TypeAdapter

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.batch.task_file import BatchTask, read_tasks
from lmtui.features.batch.values import DONE, FAILED, BatchState, TaskResult, overlaps_of
from lmtui.paths import batches_dir
from lmtui.store.session_logs import is_in_use
from lmtui.store.state_files import locked

TASKS, RESULTS, OPTIONS, DIFFS, PROGRESS = "tasks.jsonl", "results.jsonl", "batch.json", "diffs", "progress.json"
FINAL = DONE | FAILED
_LOCK_S = 0.5
_RESULT = TypeAdapter(TaskResult)


def parse_result(line: bytes | str) -> TaskResult:
    """Parse a line of JSON.

    Raises:
        ValueError: it is not a result.
    """
    try:
        result = _RESULT.validate_python(json.loads(line))
    except RecursionError as error:
        raise ValueError("it is not a result") from error
    if result.status not in FINAL | {"unreachable"}:
        raise ValueError("it has an unknown status")
    return result


class BatchFolder:
    """The files of one batch.

    Args:
        path: the batch folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = contextlib.ExitStack()
        self._tasks: list[TaskResult] = []  # as long as they have not ended
        self._results: dict[str, TaskResult] = {}
        self._read_to = (0, 0)  # inode, and bytes read
        self._reading = threading.Lock()  # a cancelled read continues in its thread

    def begin(self, tasks: Sequence[BatchTask], options: Mapping[str, object]) -> None:
        """Create the folder and write the tasks.

        Raises:
            UsageError: it cannot be written.
        """
        try:
            (self.path / DIFFS).mkdir(parents=True, exist_ok=True)
            (self.path / OPTIONS).write_text(json.dumps(options, indent=1), encoding="utf-8")
            (self.path / RESULTS).touch()
            lines = "".join(json.dumps(asdict(task)) + "\n" for task in tasks)  # in ASCII: names of files may be any bytes
            draft = self.path / f".{TASKS}"
            draft.write_text(lines, encoding="utf-8")
            draft.replace(self.path / TASKS)  # last: a batch exists once it has this file
        except OSError as error:
            raise _unwritable(self.path, error) from error

    def exists(self) -> bool:
        """Tell whether the folder contains a batch; the path may be any text."""
        try:
            return (self.path / TASKS).exists()
        except (OSError, ValueError):  # too long for a path, or none
            return False

    def read(self) -> tuple[list[BatchTask], dict[str, object]]:
        """Return the tasks and the options.

        Raises:
            UsageError: the batch does not exist or cannot be read.
        """
        try:
            tasks, problems = read_tasks((self.path / TASKS).read_text(encoding="utf-8"))
            options = json.loads((self.path / OPTIONS).read_text(encoding="utf-8"))
        except FileNotFoundError as error:
            raise UsageError(
                f"{self.path} does not contain a batch", 'Start one: lmtui batch --glob "src/*.py" "Fix {file}"'
            ) from error
        except (OSError, ValueError, RecursionError) as error:
            raise UsageError(f"{self.path} cannot be read: {error}", "Start a new batch.") from error
        if problems:
            raise UsageError(f"{self.path / TASKS} cannot be read: {sanitize_line(problems[0])}", "Start a new batch.")
        return tasks, options if isinstance(options, dict) else {}

    def results(self) -> dict[str, TaskResult]:
        """Return the last result of each task; skips incomplete lines, and reads only what was appended since the last call."""
        with self._reading:
            return self._read_results()

    def _read_results(self) -> dict[str, TaskResult]:
        try:
            with (self.path / RESULTS).open("rb") as file:
                about = os.fstat(file.fileno())
                inode, start = self._read_to
                if inode != about.st_ino or about.st_size < start:
                    self._results, start = {}, 0
                _ = file.seek(start)
                data = file.read()
        except OSError:
            return {}
        data = data[: data.rfind(b"\n") + 1]
        self._read_to = (about.st_ino, start + len(data))
        for line in data.splitlines():
            with contextlib.suppress(ValueError):
                result = parse_result(line.decode("utf-8", "replace"))
                self._results[result.id] = result
        return dict(self._results)

    def state(self) -> BatchState:
        """Return the batch as it is now; a task that has not changed is the same object as before.

        Raises:
            UsageError: the batch cannot be read.
        """
        if not self._tasks or not self.exists():
            self._tasks = [TaskResult(task.id, "", task.title) for task in self.read()[0]]
        results, (progress, started) = self.results(), self.read_progress()
        rows = tuple(results.get(task.id, task) for task in self._tasks)
        running = {row.id: started[row.id] for row in rows if row.id in started and row.status in ("", "unreachable")}
        return BatchState(str(self.path), rows, progress, running, overlaps_of(rows))

    def decide(self, task_id: str, decision: str) -> None:
        """Record the user's decision about the changes of a task.

        Raises:
            UsageError: the task has not ended.
        """
        result = self.results().get(task_id)
        if result is None:
            raise UsageError(f"task {sanitize_line(task_id)} has not ended", "`lmtui batch status` shows the progress.")
        _ = self.add(replace(result, decision=decision))

    def add(self, result: TaskResult, patch: bytes = b"") -> TaskResult:
        """Append the result of a task with its patch, and return it as written.

        Raises:
            UsageError: the disk is full or the folder is gone.
        """
        try:
            diff = result.diff
            if patch:
                diff = f"{DIFFS}/{result.id}.patch"
                _ = (self.path / diff).write_bytes(patch)
            line = json.dumps(asdict(result) | {"diff": diff}, ensure_ascii=False)
            with (self.path / RESULTS).open("ab+") as file:
                fcntl.flock(file, fcntl.LOCK_EX)  # other tasks and decisions are written concurrently
                if file.seek(0, os.SEEK_END) and (file.seek(-1, os.SEEK_END), file.read(1))[1] != b"\n":
                    file.write(b"\n")  # the previous line is incomplete after a kill or a full disk
                file.write(f"{line}\n".encode("utf-8", "replace"))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            is_full = error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
            hint = "Free some space, then `lmtui batch resume`." if is_full else "Was it deleted? Start a new batch."
            raise UsageError(f"{self.path} cannot be written: {error.strerror}", hint) from error
        return replace(result, diff=diff)

    def patch_of(self, task_id: str) -> Path:
        """Return the file with the changes of a task; the id may be any text."""
        return self.path / DIFFS / f"{Path(task_id).name}.patch"

    def write_progress(self, text: str, running: Mapping[str, float]) -> None:
        """Write the progress and when each running task started (seconds since 1970), for other processes."""
        draft = self.path / f".{PROGRESS}"
        with contextlib.suppress(OSError):
            draft.write_text(json.dumps({"text": text, "running": running}), encoding="utf-8")
            draft.replace(self.path / PROGRESS)

    def read_progress(self) -> tuple[str, dict[str, float]]:
        """Return the progress and when each running task started; empty if no process is working on the batch."""
        if not self.is_locked():
            return "", {}
        try:
            found = json.loads((self.path / PROGRESS).read_text(encoding="utf-8"))
            return str(found["text"])[:4_000], {str(name): float(since) for name, since in found["running"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError, RecursionError):
            return "", {}

    def is_locked(self) -> bool:
        """Tell whether a process is working on the batch."""
        return is_in_use(self.path / ".lock")

    def lock(self) -> None:
        """Keep other processes from working on the batch.

        Raises:
            UsageError: another process is working on it.
        """
        until = time.monotonic() + _LOCK_S  # readers hold the lock for a moment
        while True:
            try:
                self._lock.enter_context(locked(self.path / ".lock", waits=False))
                return
            except BlockingIOError as error:
                if time.monotonic() >= until:
                    text = f"another lmtui process is working on {self.path}"
                    raise UsageError(text, "Wait for it, or stop it.") from error
                time.sleep(0.02)
            except OSError as error:
                raise _unwritable(self.path, error) from error

    def unlock(self) -> None:
        """Release the lock."""
        self._lock.close()


def _unwritable(path: Path, error: OSError) -> UsageError:
    return UsageError(f"{path} cannot be written: {error.strerror}", "Free some disk space, or check the folder's permissions.")


def new_batch(workspace: Path, tasks: Sequence[BatchTask], options: Mapping[str, object]) -> BatchFolder:
    """Create a batch in a folder named after the current time.  Blocks.

    Raises:
        UsageError: it cannot be written.
    """
    folder = batches_dir(workspace) / f"{datetime.now(UTC):%Y%m%d_%H%M%S_%f}"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        folder.mkdir()
    except OSError as error:
        raise _unwritable(folder, error) from error
    found = BatchFolder(folder)
    found.begin(tasks, options)
    return found


def find_batch(workspace: Path, name: str = "") -> Path:
    """Return the batch of a workspace with this name (or the path of its folder), by default the newest.  Blocks.

    Raises:
        UsageError: there is none; batches are only in the user's state folder, so none comes with a workspace.
    """
    folders = batches_dir(workspace)
    found = [folders / name] if name else [each.parent for each in sorted(folders.glob("*/tasks.jsonl"))[-1:]]
    if not found or found[0].parent != folders or not BatchFolder(found[0]).exists():
        what = f"this folder has no batch {sanitize_line(name)[:60]}" if name else "this folder has no batch"
        raise UsageError(what, 'Start one: lmtui batch --glob "src/*.py" "Fix {file}"')
    return found[0]
