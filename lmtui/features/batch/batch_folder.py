"""A batch on disk: `batch.json`, `tasks.jsonl`, `results.jsonl` (one line for each end of a task) and `diffs/ID.patch`.

Results are only ever appended, so that a kill loses at most the line that was being written.  All functions block.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path

from lmtui.core.errors import UsageError
from lmtui.features.batch.task_file import BatchTask, checked

TASKS, RESULTS, OPTIONS, DIFFS, PROGRESS = "tasks.jsonl", "results.jsonl", "batch.json", "diffs", "progress.txt"
FINAL = frozenset({"green", "unverified", "unchanged", "red", "failed"})
GOOD = frozenset({"green", "unverified"})


@dataclass(frozen=True, slots=True)
class TaskResult:
    """How a task ended.

    `status` is `green` (its checks pass), `unverified` (done, there are no checks), `unchanged`, `red`, `failed` (the turn
    ended badly) or `away` (no model answered; it is tried again).  `diff` is its patch, relative to the folder of the batch,
    `decision` what the user said of it: `kept`, `kept in part` or `rejected`.
    """

    id: str
    status: str
    task: str = ""
    files: tuple[str, ...] = ()
    added: int = 0
    removed: int = 0
    diff: str = ""
    session: str = ""
    model: str = ""
    tries: int = 1
    tokens: int = 0
    elapsed_s: float = 0.0
    checks: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    decision: str = ""


class BatchFolder:
    """The files of one batch.

    Args:
        path: its folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = -1

    def begin(self, tasks: Sequence[BatchTask], options: Mapping[str, object]) -> None:
        """Make the folder and write down the tasks.

        Raises:
            UsageError: there is a batch already, or it cannot be written.
        """
        if (self.path / TASKS).exists():
            raise UsageError(f"{self.path} has a batch already", f"Continue it: lmtui batch resume {self.path}")
        try:
            (self.path / DIFFS).mkdir(parents=True, exist_ok=True)
            (self.path / OPTIONS).write_text(json.dumps(options, indent=1), encoding="utf-8")
            (self.path / RESULTS).touch()
            lines = "".join(json.dumps(asdict(task), ensure_ascii=False) + "\n" for task in tasks)
            draft = self.path / f".{TASKS}"
            draft.write_text(lines, encoding="utf-8", errors="replace")
            draft.replace(self.path / TASKS)  # last: with it the batch is whole
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}", "Name another with --out.") from error

    def read(self) -> tuple[list[BatchTask], dict[str, object]]:
        """Return the tasks and the options.

        Raises:
            UsageError: there is no batch, or it cannot be read.
        """
        try:
            lines = (self.path / TASKS).read_text(encoding="utf-8").splitlines()
            options = json.loads((self.path / OPTIONS).read_text(encoding="utf-8"))
            given = [json.loads(line) for line in lines]
            tasks = [
                BatchTask(str(g["id"]), str(g["task" if "task" in g else "text"]), (*g["files"],), (*g["checks"],))
                for g in given
            ]
        except FileNotFoundError as error:
            raise UsageError(f"{self.path} has no batch", 'Begin one: lmtui batch --glob "src/*.py" "Fix {file}"') from error
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UsageError(f"{self.path} cannot be read: {error}", "Begin another batch.") from error
        return checked(tasks), options if isinstance(options, dict) else {}

    def results(self) -> dict[str, TaskResult]:
        """Return the last result of each task; a torn line is left out."""
        found: dict[str, TaskResult] = {}
        names = {each.name for each in fields(TaskResult)}
        try:
            text = (self.path / RESULTS).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return found
        for line in text.splitlines():
            try:
                given = json.loads(line)
                result = TaskResult(**{key: value for key, value in given.items() if key in names})
            except (ValueError, TypeError, AttributeError):
                continue
            found[result.id] = result
        return found

    def add(self, result: TaskResult, patch: bytes = b"") -> TaskResult:
        """Write down the end of a task, with its patch, and return it as written.

        Raises:
            UsageError: the disk is full or the folder is gone.
        """
        try:
            diff = result.diff
            if patch:
                diff = f"{DIFFS}/{result.id}.patch"
                (self.path / diff).write_bytes(patch)
            line = json.dumps(asdict(result) | {"diff": diff}, ensure_ascii=False)
            with (self.path / RESULTS).open("a", encoding="utf-8", errors="replace") as file:
                file.write(f"{line}\n")
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise UsageError(f"{self.path} cannot be written: {error.strerror}", "Free some space, then resume.") from error
        return replace(result, diff=diff)

    def patch_of(self, task_id: str) -> Path:
        """Return the file with the changes of a task."""
        return self.path / DIFFS / f"{task_id}.patch"

    def tell(self, text: str) -> None:
        """Say how the work goes, for who looks at the batch meanwhile."""
        with contextlib.suppress(OSError):
            (self.path / PROGRESS).write_text(text, encoding="utf-8")

    def told(self) -> str:
        """Return how the work goes, empty where nobody works on it."""
        if not (self.path / ".lock").exists():
            return ""
        try:
            self.lock()
        except UsageError:
            with contextlib.suppress(OSError):
                return (self.path / PROGRESS).read_text(encoding="utf-8")[:2_000]
            return ""
        self.unlock()
        return ""

    def lock(self) -> None:
        """Keep other processes from working on the batch.

        Raises:
            UsageError: another does.
        """
        self._lock = os.open(self.path / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            os.close(self._lock)
            raise UsageError(f"another lmtui works on {self.path}", "Wait for it, or stop it.") from error

    def unlock(self) -> None:
        """Let others work on it."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1
