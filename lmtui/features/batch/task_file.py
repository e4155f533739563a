"""The tasks of a batch: JSON lines, a glob with `{file}` in the words, or lines of text.  Pure but for reading a file."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line

MOST_TASKS = 10_000
MOST_BYTES = 67_108_864
_MOST_CHARS = 100_000
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_FORM = 'A line is a text, or an object such as {"task": "Fix a.py", "checks": ["pytest -q"]}.'


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task: what is to be done, which files it is about, and commands that have to exit with 0 at its end."""

    id: str
    text: str
    files: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return its first line, shortened."""
        return sanitize_line(self.text.strip().partition("\n")[0])[:80]


def read_tasks(text: str) -> tuple[list[BatchTask], list[str]]:
    """Return the tasks of a file of JSON lines or plain lines, and what is wrong with other lines.

    Raises:
        UsageError: there are too many.
    """
    found: list[BatchTask] = []
    problems: list[str] = []
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip():
            continue
        if len(found) > MOST_TASKS:
            break
        try:
            found.append(_task(line, len(found) + 1))
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    return checked(found), problems


def decoded(data: bytes, name: str) -> str:
    """Return the text of a file of tasks.

    Raises:
        UsageError: it is too large, or not text.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name} is larger than {MOST_BYTES // 1_048_576} MiB", "Split it into several batches.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not text in UTF-8", "Name a file with one task a line.") from error
    if "\0" in text:
        raise UsageError(f"{name} is not a text file", "Name a file with one task a line.")
    return text


def tasks_for_files(words: str, files: Sequence[str]) -> list[BatchTask]:
    """Return a task for each file; `{file}` in the words is its path.

    Raises:
        UsageError: the words name no file, or there are none or too many files.
    """
    if "{file}" not in words:
        raise UsageError("the task does not name its file", 'Write {file} where its path belongs: "Add types to {file}".')
    if not files:
        raise UsageError("no file matches the pattern", "Quote it, so that the shell does not replace it.")
    return checked(BatchTask(str(number), words.replace("{file}", file), (file,)) for number, file in enumerate(files, 1))


def checked(tasks: Iterable[BatchTask]) -> list[BatchTask]:
    """Return tasks whose ids are unique.

    Raises:
        UsageError: two have the same id, or there are too many.
    """
    found: dict[str, BatchTask] = {}
    for task in tasks:
        if task.id in found:
            raise UsageError(f"two tasks have the id {task.id}", "Give each its own, or none.")
        found[task.id] = task
    if len(found) > MOST_TASKS:
        raise UsageError(f"these are more than {MOST_TASKS:,} tasks", "Split them into several batches.")
    return [*found.values()]


def _task(line: str, number: int) -> BatchTask:
    """Return the task of one line.

    Raises:
        ValueError: it is none; the text says why.
    """
    if line.lstrip()[:1] not in ("{", "[", '"'):
        return BatchTask(str(number), _text(line.strip()))
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"not valid JSON. {_FORM}") from None
    if isinstance(given, str):
        return BatchTask(str(number), _text(given))
    if not isinstance(given, Mapping):
        raise ValueError(_FORM)
    name = str(given.get("id", number))
    if not _ID.fullmatch(name):
        raise ValueError(f"the id {name[:20]!r} may have letters, digits, dots, dashes and underscores only")
    text = next((given[key] for key in ("task", "prompt", "text") if given.get(key)), "")
    return BatchTask(name, _text(text), _texts(given, "files"), _texts(given, "checks"))


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"there is no task in it. {_FORM}")
    if len(given) > _MOST_CHARS:
        raise ValueError(f"the task has {len(given):,} characters, {_MOST_CHARS:,} are allowed")
    return given


def _texts(given: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = given.get(key, ())
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{key} has to be a list of texts")
    return tuple(texts)
