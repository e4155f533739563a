"""The tasks of a batch: JSON lines, a glob with `{file}` in the prompt, or lines of text.  No I/O."""

from __future__ import annotations

import difflib
import io
import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line

MOST_TASKS = 10_000
MOST_BYTES = 67_108_864
_MOST_CHARS = 100_000
_KEYS = frozenset({"id", "task", "prompt", "text", "files", "checks"})
_ID = re.compile(r"[A-Za-z0-9][\w.-]{0,60}")
_FORM = 'A line is text, or an object such as {"task": "Fix a.py", "checks": ["pytest -q"]}.'


@dataclass(frozen=True, slots=True)
class BatchTask:
    """One task: its prompt, the files it concerns, and check commands that must exit with 0."""

    id: str
    text: str
    files: tuple[str, ...] = ()
    checks: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """Return its first line, shortened."""
        return sanitize_line(self.text.strip().partition("\n")[0])[:80]


def read_tasks(text: str) -> tuple[list[BatchTask], list[str]]:
    """Parse JSON lines or plain lines; return the tasks, and an error for each invalid line.

    Raises:
        UsageError: too many tasks.
    """
    found: list[BatchTask] = []
    problems: list[str] = []
    used: set[str] = set()
    for number, line in enumerate(io.StringIO(text, newline=None), 1):
        if not line.strip():
            continue
        if len(found) > MOST_TASKS:
            break
        try:
            task = _task(line)
            if task.id and task.id in used:
                raise ValueError(f"another task has the id {task.id}")
            used.add(task.id)
            found.append(task)
        except ValueError as error:
            problems.append(f"line {number}: {error}")
    return _limited(_numbered(found)), problems


def _numbered(tasks: Sequence[BatchTask]) -> Iterator[BatchTask]:
    """Yield tasks; those without an id are numbered by their place, or past the last if another task has that number."""
    used = {task.id for task in tasks}
    spare = (name for name in map(str, itertools.count(len(tasks) + 1)) if name not in used)
    for place, task in enumerate(tasks, 1):
        yield task if task.id else replace(task, id=str(place) if str(place) not in used else next(spare))


def decoded(data: bytes, name: str) -> str:
    """Decode a task file.

    Raises:
        UsageError: it is too large, or not text.
    """
    if len(data) > MOST_BYTES:
        raise UsageError(f"{name} is larger than {MOST_BYTES // 1_048_576} MiB", "Split it into several batches.")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"{name} is not UTF-8 text", "Give a file with one task per line.") from error
    if "\0" in text:
        raise UsageError(f"{name} is not a text file", "Give a file with one task per line.")
    return text


def tasks_for_files(words: str, files: Sequence[str]) -> list[BatchTask]:
    """Return a task for each file; `{file}` in the prompt is its path.

    Raises:
        UsageError: the prompt has no `{file}`, or no files match, or too many.
    """
    if "{file}" not in words:
        raise UsageError("the task does not contain {file}", 'Put {file} where the path belongs: "Add types to {file}".')
    if not files:
        raise UsageError("no file matches the pattern", "Check the pattern. In a shell, quote it.")
    return _limited(BatchTask(str(number), words.replace("{file}", file), (file,)) for number, file in enumerate(files, 1))


def _limited(tasks: Iterable[BatchTask]) -> list[BatchTask]:
    found = [*tasks]
    if len(found) > MOST_TASKS:
        raise UsageError(f"more than {MOST_TASKS:,} tasks", "Split them into several batches.")
    return found


def _task(line: str) -> BatchTask:
    """Parse one line.

    Raises:
        ValueError: it is not a task; the text says why.
    """
    if line.lstrip()[:1] not in ("{", "[", '"'):
        return BatchTask("", _text(line.strip()))
    try:
        given = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError(f"not valid JSON. {_FORM}") from None
    if isinstance(given, str):
        return BatchTask("", _text(given))
    if not isinstance(given, Mapping):
        raise ValueError(_FORM)
    for key in given.keys() - _KEYS:
        if meant := difflib.get_close_matches(key, _KEYS, 1, 0.8):
            raise ValueError(f"unknown key {sanitize_line(key)[:20]!r}; did you mean {meant[0]!r}?")
    name = "" if given.get("id") is None else str(given["id"])
    if given.get("id") is not None and not _ID.fullmatch(name):
        raise ValueError(f"the id {name[:20]!r} may only contain letters, digits, dots, dashes and underscores")
    text = next((given[key] for key in ("task", "prompt", "text") if given.get(key)), "")
    return BatchTask(name, _text(text), _texts(given, "files"), _texts(given, "checks"))


def _text(given: object) -> str:
    if not isinstance(given, str) or not given.strip():
        raise ValueError(f"no task text. {_FORM}")
    if len(given) > _MOST_CHARS:
        raise ValueError(f"the task has {len(given):,} characters; the limit is {_MOST_CHARS:,}")
    return given


def _texts(given: Mapping[str, object], key: str) -> tuple[str, ...]:
    value = given.get(key, ())
    texts = [value] if isinstance(value, str) else value
    if not isinstance(texts, list | tuple) or not all(isinstance(each, str) for each in texts):
        raise ValueError(f"{key} must be a list of strings")
    return tuple(texts)
