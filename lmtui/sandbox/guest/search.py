"""Finding files by name and by content: ripgrep where it is on PATH, plain Python elsewhere.  Runs in a keeper.

ripgrep never sees a path from outside: it is started in a folder that was opened below the root, or reads an open file.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterator
from typing import NamedTuple

from . import beneath
from .beneath import Refused, Root
from .protocol import Message

_BASE = ("--no-config", "--hidden", "--no-messages", "--glob=!.git", "--glob=!.lmagent")
_SKIPPED = frozenset((".git", ".lmagent", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".tox"))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MAX_LINE = 500
_MAX_FILE_BYTES = 4_194_304
_MAX_FILES = 100_000
_MAX_RESULT_BYTES = 600_000  # as it travels: letters beyond ASCII are six bytes each


class Query(NamedTuple):
    """What to search for; `glob` is a regular expression over paths, already translated, or empty."""

    pattern: str
    path: str
    glob: str
    ignore_case: bool
    is_literal: bool
    context_lines: int
    max_matches: int


def glob(root: Root, expression: str, max_results: int) -> Message:
    """Return files whose path matches a regular expression, newest first; `total` counts them all.

    Raises:
        Refused: the names that are asked for do not fit into one answer.
    """
    matches = re.compile(expression).match
    with root.opened("", _FOLDER) as (folder, _):
        dated: list[tuple[float, str]] = []
        for path in _files(folder):
            if matches(path) and not beneath.is_protected(path):
                try:
                    info = os.stat(path, dir_fd=folder, follow_symlinks=False)
                except OSError:
                    continue
                dated.append((info.st_mtime, path))
    dated.sort(key=lambda item: (-item[0], item[1]))
    paths = [path for _, path in dated[:max_results]]
    if len(json.dumps(paths)) > _MAX_RESULT_BYTES:
        raise Refused(f"the names of {len(paths):,} files are too much for one answer: use a pattern that matches fewer")
    return {"paths": paths, "total": len(dated)}


def grep(root: Root, query: Query) -> Message:
    """Return matching lines as [path, line number, text, is context]."""
    lines = _grep_by_rg(root, query) if shutil.which("rg") else _grep_by_python(root, query)
    found: list[list[object]] = []
    matches = size = 0
    for line in lines:
        matches += not line[3]
        size += len(json.dumps(line))
        if matches > query.max_matches or size > _MAX_RESULT_BYTES:
            return {"matches": found, "is_cut": True}
        found.append(line)
    return {"matches": found, "is_cut": False}


def _files(folder: int) -> Iterator[str]:
    program = shutil.which("rg")
    if program is None:
        yield from walk(folder, "")
        return
    with _start([program, "--files", "--null", *_BASE], folder) as process:
        assert process.stdout is not None
        rest = b""
        while piece := process.stdout.read(65536):
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                yield name.decode("utf-8", "replace")


def walk(folder: int, prefix: str, max_entries: int = _MAX_FILES) -> Iterator[str]:
    """Yield files below an open folder, without following links and without what is never meant."""
    left = max_entries
    queue = [prefix]
    while queue and left > 0:
        here = queue.pop()
        try:
            fd = os.open(here or ".", _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue
        try:
            with os.scandir(fd) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        finally:
            os.close(fd)
        for entry in entries:
            left -= 1
            path = f"{here}/{entry.name}" if here else entry.name
            if entry.name in _SKIPPED:
                continue
            if entry.is_dir(follow_symlinks=False):
                queue.append(path)
            elif entry.is_file(follow_symlinks=False):
                yield os.fsencode(path).decode("utf-8", "replace")


def _grep_by_rg(root: Root, query: Query) -> Iterator[list[object]]:
    program = shutil.which("rg")
    assert program is not None
    arguments = [program, "--json", "--sort=path", *_BASE, f"--context={query.context_lines}"]
    arguments += ["--ignore-case"] if query.ignore_case else []
    arguments += ["--fixed-strings"] if query.is_literal else []
    arguments += ["-e", query.pattern]
    fd, real = root.open(query.path, os.O_RDONLY)
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        if not is_folder:
            os.close(fd)
            fd, real = root.open_file(query.path)
        # A single file is read as standard input: its name is not looked up a second time.
        with _start([*arguments, "./" if is_folder else "-"], fd if is_folder else None, None if is_folder else fd) as process:
            yield from _read_rg(process, real, is_folder, query)
    finally:
        os.close(fd)


def _read_rg(process: subprocess.Popen[bytes], real: str, is_folder: bool, query: Query) -> Iterator[list[object]]:
    assert process.stdout is not None
    matches = re.compile(query.glob).match if query.glob else None
    for raw in process.stdout:
        event = json.loads(raw)
        if event["type"] not in ("match", "context"):
            continue
        data = event["data"]
        name = _text(data["path"])
        path = os.path.normpath(f"{real}/{name}").lstrip("/") if is_folder else real
        if beneath.is_protected(path) or (matches and not matches(path)):
            continue
        yield [path, data["line_number"], _text(data["lines"]).rstrip("\n")[:_MAX_LINE], event["type"] == "context"]
    if process.wait() == 2 and process.stderr is not None:
        reason = process.stderr.read(2000).decode("utf-8", "replace").strip()
        if reason:
            raise Refused(f"the search failed: {reason}")


def _grep_by_python(root: Root, query: Query) -> Iterator[list[object]]:
    try:
        source = re.escape(query.pattern) if query.is_literal else query.pattern
        expression = re.compile(source, re.IGNORECASE if query.ignore_case else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise Refused(f"the search failed: not a regular expression: {error}") from error
    matches = re.compile(query.glob).match if query.glob else None
    fd, real = root.open(query.path, os.O_RDONLY)
    try:
        is_folder = stat.S_ISDIR(os.fstat(fd).st_mode)
        names = [f"{real}/{name}" if real else name for name in walk(fd, "")] if is_folder else [real]
    finally:
        os.close(fd)
    for path in sorted(names):
        if not matches or matches(path):
            yield from _grep_file(root, path, expression, query.context_lines)


def _grep_file(root: Root, path: str, expression: re.Pattern[str], around: int) -> Iterator[list[object]]:
    try:
        fd, _ = root.open_file(path)
    except Refused:
        return
    with os.fdopen(fd, "rb") as file:
        data = file.read(_MAX_FILE_BYTES)
    if b"\0" in data[:8192]:
        return
    lines = [line.removesuffix("\r") for line in data.decode("utf-8", "replace").removesuffix("\n").split("\n")]
    hits = {number for number, line in enumerate(lines) if expression.search(line)}
    wanted = {near for hit in hits for near in range(max(0, hit - around), min(len(lines), hit + around + 1))}
    for number in sorted(wanted):
        yield [path, number + 1, lines[number][:_MAX_LINE], number not in hits]


def _start(arguments: list[str], folder: int | None, source: int | None = None) -> subprocess.Popen[bytes]:
    """Start ripgrep in an open folder."""
    if folder is not None:
        os.fchdir(folder)  # the keeper is a process of its own
    return subprocess.Popen(
        arguments,
        stdin=subprocess.DEVNULL if source is None else source,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )


def _text(value: dict[str, str]) -> str:
    if "text" in value:
        return value["text"]
    return os.fsdecode(value.get("bytes", "")).encode("ascii", "replace").decode("ascii")
