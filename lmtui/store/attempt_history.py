"""Results of attempts by model: the user's own table, a JSON Lines file at user level."""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median

from pydantic import TypeAdapter, ValidationError

from lmtui.paths import state_dir
from lmtui.store.state_files import write_whole

_log = logging.getLogger(__name__)
_MOST_RESULTS, _MOST_FILE_BYTES = 5_000, 4_000_000


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """The result of one attempt.

    `run` is the same for all attempts at a task that ran together.  `task` is a digest of its text, `kind` the most frequent
    ending of the names of changed files (`py`).  `lines` were added or removed, `seconds` is wall time.  `won`: it was chosen.
    """

    time: str
    run: str
    task: str
    kind: str
    model: str
    green: bool
    lines: int
    seconds: float
    won: bool


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """The results of one model.  It won `won` of the `rounds` in which other models tried the same task."""

    model: str
    attempts: int
    green: int
    rounds: int
    won: int
    lines: int
    seconds: float


def history_file() -> Path:
    """Return the file."""
    return state_dir() / "attempts.jsonl"


def add_results(results: Sequence[AttemptResult], file: Path | None = None) -> None:
    """Append results, dropping the oldest beyond a limit.  A failed write is logged.  Blocks (disk)."""
    file = file or history_file()
    lines = "".join(f"{json.dumps(asdict(each), ensure_ascii=False)}\n" for each in results)
    try:
        file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with file.open("a", encoding="utf-8", errors="backslashreplace") as target:
            target.write(lines)
        if file.stat().st_size > _MOST_FILE_BYTES:
            kept = file.read_text(encoding="utf-8", errors="replace").splitlines(keepends=True)[-_MOST_RESULTS // 2 :]
            write_whole(file, "".join(kept))
    except OSError as error:
        _log.warning("%s cannot be written: %s", file, error)


def read_results(file: Path | None = None) -> list[AttemptResult]:
    """Return the results in the file, oldest first; unreadable lines are skipped.  Blocks (disk)."""
    file = file or history_file()
    try:
        lines = file.read_text(encoding="utf-8", errors="replace").splitlines()[-_MOST_RESULTS:]
    except OSError:
        return []
    adapter, found = TypeAdapter(AttemptResult), list[AttemptResult]()
    for line in lines:
        with contextlib.suppress(ValidationError, ValueError, RecursionError):
            found.append(adapter.validate_python(json.loads(line)))
    return found


def records(results: Sequence[AttemptResult]) -> list[ModelRecord]:
    """Return the table: the model that wins most often against others first, then the one that is green most often."""
    models_of: dict[str, set[str]] = {}
    for each in results:
        models_of.setdefault(each.run, set()).add(each.model)
    found: list[ModelRecord] = []
    for model in dict.fromkeys(each.model for each in results):
        own = [each for each in results if each.model == model]
        rounds = {each.run for each in own if len(models_of[each.run]) > 1}
        won = {each.run for each in own if each.won} & rounds
        green = sum(each.green for each in own)
        lines, seconds = median(each.lines for each in own), median(each.seconds for each in own)
        found.append(ModelRecord(model, len(own), green, len(rounds), len(won), round(lines), round(seconds, 1)))

    def order(record: ModelRecord) -> tuple[float, float, str]:
        return -record.won / max(1, record.rounds), -record.green / record.attempts, record.model

    return sorted(found, key=order)
