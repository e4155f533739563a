"""Finding files in the workspace: listings of any length, git's view of them, and search by name and content.

A listing is a text of NUL-ended records, as raw as the disk has it.  ripgrep, where it is on PATH, never sees a path from
outside: it is started in a folder that was opened below the root, or reads an open file.
"""

from __future__ import annotations

import base64
import codecs
import json
import os
import re
import shutil
import stat
import subprocess
import tempfile
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TextIO

from . import beneath, execute, files
from .beneath import Refused, Root
from .git_calls import git_command, git_environment, place
from .protocol import Message, pack
from .settings import Settings

_SKIPPED = frozenset((".git", ".lmagent", "node_modules", ".venv", "venv", "__pycache__", ".mypy_cache", ".tox"))
_OPTIONS = "--no-config --hidden --no-messages --no-ignore-dot --no-require-git --no-ignore-global"
_BASE = (*_OPTIONS.split(), *(f"--glob=!{name}" for name in _SKIPPED))
_FOLDER = os.O_RDONLY | os.O_DIRECTORY
_MAX_LINE = 500
_CODECS = [codecs.lookup(name) for name in ("utf-16", "utf-8-sig")]  # before confinement
_PIECE_CHARS = 1_048_576  # a longer line is searched in pieces
_MAX_FILES = 100_000
_Line = tuple[str, int, str, bool]  # the path as the disk has it, the number, the text, and whether it is context
_MAX_RESULT_BYTES = 600_000  # as it travels: letters beyond ASCII are six bytes each


def glob(root: Root, expression: str, max_results: int) -> Message:
    """Return files whose path matches a regular expression, newest first.

    Raises:
        Refused: the names that are asked for do not fit into one answer.
    """
    matches = re.compile(expression).match
    with root.opened("", _FOLDER) as (folder, _):
        dated: list[tuple[float, str]] = []
        for path in _files(folder):
            if matches(path) and not beneath.is_protected(path):
                with suppress(OSError):
                    dated.append((os.stat(path, dir_fd=folder, follow_symlinks=False).st_mtime, path))
    dated.sort(key=lambda item: (-item[0], item[1]))
    paths = [beneath.shown(path) for _, path in dated[:max_results]]
    if len(json.dumps(paths)) > _MAX_RESULT_BYTES:
        raise Refused(f"the names of {len(paths):,} files are too much for one answer: use a pattern that matches fewer")
    return {"paths": paths}


def grep(root: Root, query: Message) -> Message:
    """Return matching lines as [path, line number, text, is context].

    `query` has the `pattern`, `is_literal`, `ignore_case`, the `path` to search in, a `glob` (a regular expression over paths,
    already translated, or empty), `context_lines` and `max_matches`.  What has a NUL in its text is binary and not searched.
    """
    if "\0" in query["pattern"]:
        raise Refused("the pattern contains a NUL, and files that contain one are not searched")
    lines = _grep_by_rg(root, query) if shutil.which("rg") else _grep_by_python(root, query)
    found: list[_Line] = []
    matches = size = 0
    for path, number, text, is_context in lines:
        line = (beneath.shown(path), number, text, is_context)
        matches += not is_context
        size += len(json.dumps(line))
        if matches > query["max_matches"] or size > _MAX_RESULT_BYTES:
            break
        found.append(line)
    return {"matches": found}


def _files(folder: int) -> Iterator[str]:
    if not shutil.which("rg"):
        yield from walk(folder, "")
        return
    with _start(["--files", "--null", *_BASE], folder) as process:
        assert process.stdout is not None
        rest = b""
        while piece := process.stdout.read(65536):
            *names, rest = (rest + piece).split(b"\0")
            for name in names:
                yield os.path.normpath(os.fsdecode(name))


_Rule = tuple[re.Pattern[str], bool, bool]  # what it matches, whether that is not ignored, whether only folders
_LONE_STARS = re.compile(r"(?<=[^/])\*{2,}|\*{2,}(?=[^/*])")  # these are one star to git
_MAX_IGNORE_BYTES = 262_144


def walk(folder: int, prefix: str, max_entries: int = _MAX_FILES) -> Iterator[str]:
    """Yield files in an open folder, from `prefix` on, without following links, what is never meant, and what git ignores."""
    left = max_entries
    above = [f"{prefix[:at]}/.gitignore" for at, char in enumerate(prefix) if char == "/"]
    rules = [rule for name in (".git/info/exclude", ".gitignore", *above) for rule in _ignore_rules(folder, name)]
    queue = [(prefix, rules)]
    while queue and left > 0:
        here, rules = queue.pop()
        try:
            fd = os.open(here or ".", _FOLDER | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
        except OSError:
            continue
        try:
            with os.scandir(fd) as found:
                entries = sorted(found, key=lambda entry: entry.name)
        finally:
            os.close(fd)
        if here and any(entry.name == ".gitignore" for entry in entries):
            rules = [*rules, *_ignore_rules(folder, f"{here}/.gitignore")]
        for entry in entries:
            left -= 1
            path = f"{here}/{entry.name}" if here else entry.name
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name in _SKIPPED or _is_ignored(path, rules, is_folder=is_folder):
                continue
            if is_folder:
                queue.append((path, rules))
            elif entry.is_file(follow_symlinks=False):
                yield path


def _ignore_rules(folder: int, name: str) -> list[_Rule]:
    """Return the rules of an ignore file, as gitignore(5) describes them; none where it cannot be read."""
    try:
        with os.fdopen(os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb") as file:
            lines = os.fsdecode(file.read(_MAX_IGNORE_BYTES)).splitlines()
    except OSError:
        return []
    base = name.rpartition("/")[0] if name.endswith("/.gitignore") else ""
    rules: list[_Rule] = []
    for line in lines:
        text = re.sub(r"(?<!\\) +\Z", "", line)
        pattern = text.removeprefix("!").rstrip("/")
        if pattern and not text.startswith("#"):
            start = (re.escape(base) + "/" if base else "") + ("" if "/" in pattern else "(?:.*/)?")
            with suppress(Refused):
                source = start + glob_expression(_LONE_STARS.sub("*", pattern.removeprefix("/")), has_braces=False)
                rules.append((re.compile(source, re.DOTALL), text.startswith("!"), text.endswith("/")))
    return rules


_GLOB_TOKEN = re.compile(r"\\(.)|\[([!^]?+)(.[^\]]*)\]|\*{2,}/?|.", re.DOTALL)
_BRACES = {"{": ("(?:", 1), ",": ("|", 0), "}": (")", -1)}


def glob_expression(pattern: str, *, has_braces: bool = True) -> str:
    r"""Return a regular expression for a glob with `*`, `**`, `?`, `[a-z]`, `[!a]`, `{a,b}` and `\` before a literal.

    Raises:
        Refused: it has an unclosed brace, or an invalid character set.
    """
    source, depth = "", 0
    for token in _GLOB_TOKEN.finditer(pattern):
        text, literal, negation, members = token[0], *token.groups()
        if members:
            members = re.sub(r"([\\[^&~|])", r"\\\1", members).replace("--", r"-\-")
            source += f"(?!/)[{'^' if negation else ''}{members}]"
        elif text[0] == "*":
            source += "[^/]*" if text == "*" else "(?:.*/)?" if text[-1] == "/" else ".*"
        elif (has_braces and text == "{") or (depth and text in _BRACES):
            source, depth = source + _BRACES[text][0], depth + _BRACES[text][1]
        else:
            source += "[^/]" if text == "?" else re.escape(literal or text)
    if depth:
        raise Refused(f"the glob {pattern} has an unclosed brace")
    try:
        re.compile(source)
    except re.error as error:
        raise Refused(f"the glob {pattern} has an invalid character set: {error}") from error
    return source


def _is_ignored(path: str, rules: list[_Rule], *, is_folder: bool) -> bool:
    """Tell whether the last rule that matches a path ignores it."""
    for expression, is_kept, only_folders in reversed(rules):
        if (is_folder or not only_folders) and expression.fullmatch(path):
            return not is_kept
    return False


_ONLY_RG = re.compile(r"\\[npPz]|\[\[:")  # these mean something else in Python


def _grep_by_rg(root: Root, query: Message) -> Iterator[_Line]:
    arguments = ["--json", "--crlf", "--sort=path", *_BASE, f"--context={query['context_lines']}", "-e", query["pattern"]]
    arguments += ["--ignore-case"] * query["ignore_case"] + ["--fixed-strings"] * query["is_literal"]
    with root.opened(query["path"], os.O_RDONLY) as (place, real):
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        if not is_folder and not stat.S_ISREG(os.fstat(place).st_mode):
            raise Refused(f"{query['path']} is not a regular file")
        if not is_folder:
            _ = next(_texts(root, query), None)  # refuses a binary one
        with _start(arguments, place) as process:
            yield from _read_rg(process, real, is_folder, query)


def _read_rg(process: subprocess.Popen[bytes], real: str, is_folder: bool, query: Message) -> Iterator[_Line]:
    assert process.stdout is not None
    matches = re.compile(query["glob"]).match  # an empty one matches anything
    most = query["max_matches"] * (2 * query["context_lines"] + 1)
    held: list[_Line] = []  # of a file, until it is known to be text
    for raw in process.stdout:
        event = json.loads(raw)
        kind, data = event["type"], event["data"]
        if kind in ("match", "context"):
            name = _text(data["path"], "surrogateescape")
            path = os.path.normpath(f"{real}/{name}").lstrip("/") if is_folder else real
            if not beneath.is_protected(path) and matches(path):
                held.append((path, data["line_number"], _shown(_text(data["lines"], "replace")), kind == "context"))
        if kind == "end" or len(held) > most:
            yield from held if data.get("binary_offset") is None else ()
            held = []
    if process.wait() == 2 and process.stderr and (reason := process.stderr.read(2000).decode("utf-8", "replace").strip()):
        raise Refused(f"the search failed: {reason}")


def _grep_by_python(root: Root, query: Message) -> Iterator[_Line]:
    if not query["is_literal"] and (other := _ONLY_RG.search(query["pattern"])):
        raise Refused(f"the search failed: {other[0]} in a pattern needs ripgrep")
    try:
        source = re.escape(query["pattern"]) if query["is_literal"] else query["pattern"]
        expression = re.compile(source, re.IGNORECASE if query["ignore_case"] else 0)
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        raise Refused(f"the search failed: not a regular expression: {error}") from error
    for path, file in _texts(root, query):
        yield from _grep_file(path, file, expression, query["context_lines"])


def _texts(root: Root, query: Message) -> Iterator[tuple[str, TextIO]]:
    """Yield the files to search with their text, as ripgrep reads it; no binary ones."""
    with root.opened(query["path"], os.O_RDONLY) as (place, real):
        is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
        names = list(walk(root.fd, real)) if is_folder else [real]
    names = list(filter(re.compile(query["glob"]).match, names))
    for path in sorted(names, key=lambda name: os.fsencode(name).split(b"/")):
        try:
            fd, _ = root.open_file(path)
        except Refused:
            continue
        encoding = "utf-16" if os.pread(fd, 2, 0) in (b"\xff\xfe", b"\xfe\xff") else "utf-8-sig"
        with open(fd, encoding=encoding, errors="replace", newline="\n") as file:
            if not any("\0" in piece for piece in iter(partial(file.read, _PIECE_CHARS), "")):
                file.seek(0)
                yield path, file
            elif not is_folder:
                raise Refused(f"{path} is binary, or in an encoding without a mark, and is not searched: use a command")


def _grep_file(path: str, file: TextIO, expression: re.Pattern[str], around: int) -> Iterator[_Line]:
    held: deque[_Line] = deque(maxlen=around + 1)
    number, left = 1, 0
    for text in iter(partial(file.readline, _PIECE_CHARS), ""):
        is_hit = expression.search(text.removesuffix("\n").removesuffix("\r"))
        held.append((path, number, _shown(text), not is_hit))
        left = around + 1 if is_hit else max(left - 1, 0)
        if left:
            yield from held
            held.clear()
        number += text.endswith("\n")


def _start(arguments: list[str], place: int) -> subprocess.Popen[bytes]:
    """Start ripgrep in an open folder, or on an open file as its standard input: no name is looked up a second time."""
    is_folder = stat.S_ISDIR(os.fstat(place).st_mode)
    if is_folder:
        os.fchdir(place)  # the keeper is a process of its own
    return subprocess.Popen(
        ["rg", *arguments, "./" if is_folder else "-"],
        stdin=subprocess.DEVNULL if is_folder else place,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={"PATH": os.environ.get("PATH", os.defpath)},
    )


def _text(value: dict[str, str], errors: str) -> str:
    """Return what ripgrep tells: text, or bytes that are no UTF-8."""
    return value["text"] if "text" in value else base64.b64decode(value["bytes"]).decode("utf-8", errors)


def _shown(line: str) -> str:
    return line.removesuffix("\n").removesuffix("\r")[:_MAX_LINE]


MAX_BYTES = 16_777_216
MAX_RESULT_BYTES = 24_000_000  # as it travels
_GIT_S = 15.0
_FILES = ["ls-files", "-z", "--cached", "--others", "--exclude-standard", "--deduplicate"]
_OBJECTS = ["rev-list", "--objects", "--all"]
_HISTORY_S = 3.0
_STATUS = ["status", "--porcelain=v1", "-z", "--ignored=matching", "--untracked-files=normal", "--ignore-submodules=dirty"]


def answer(root: Root, message: Message, settings: Settings) -> Message:
    """Return the listing that a message asks for.

    Raises:
        Refused: no such folder, or no such listing.
    """
    match message["what"]:
        case "folder":
            return _packed(_folder(root, str(message["path"]), int(message["depth"]), int(message["max_entries"])))
        case "paths":
            listed = _git(_FILES, settings)
            return _packed(_walk(root, int(message["max_paths"])) if listed is None else _records(listed))
        case "status":
            start = os.fsencode(place(settings))
            found = _records(_git(_STATUS, settings) or b"")
            return _packed(each[:3] + each[3:].removeprefix(start) for each in found)
        case "secrets":  # wherever in the repository, now or in its history; so is what takes too long to know
            is_secret = re.compile(os.fsencode(str(message["expression"]))).match
            listed = _git(_OBJECTS, settings, _HISTORY_S)
            names = (line.partition(b" ")[2] for line in (listed or b"").split(b"\n"))
            is_cut = listed is None or len(listed) >= MAX_BYTES or any(map(is_secret, names))
            return {**_packed(()), "is_cut": is_cut}
        case _:
            raise Refused("no such listing")


def _packed(records: Iterable[bytes]) -> Message:
    kept: list[bytes] = []
    room = MAX_BYTES
    for record in records:
        room -= len(record) + 1
        if room < 0:
            break
        kept.append(record)
    return {"is_cut": room < 0, "data": pack(b"\0".join(kept))}


def _records(listed: bytes) -> list[bytes]:
    return listed.removesuffix(b"\0").split(b"\0") if listed else []


def _folder(root: Root, path: str, depth: int, max_entries: int) -> Iterator[bytes]:
    """Yield a letter for the kind (d, f, l, o), the size and the path of entries, folders first, each followed by its own.

    A depth of 0 is the folder alone, and names instead of paths.
    """
    with root.opened(path, os.O_RDONLY | os.O_DIRECTORY) as (folder, real):
        for inner, kind, entry in islice(files.entries(folder, real if depth else "", depth), max_entries):
            size = 0
            with suppress(OSError):  # its folder may be read, but not entered
                size = entry.stat(follow_symlinks=False).st_size if kind == "file" else 0
            yield os.fsencode(f"{kind[0]}{size} {inner}")


def _walk(root: Root, max_paths: int) -> Iterator[bytes]:
    with root.opened("", os.O_RDONLY | os.O_DIRECTORY) as (folder, _):
        yield from map(os.fsencode, islice(walk(folder, "", 10 * max_paths), max_paths + 1))


def _git(arguments: list[str], settings: Settings, limit_s: float = _GIT_S) -> bytes | None:
    """Return what git prints, None where it is not there, or the folder is not a repository."""
    if not settings.git_dir and not (Path(settings.root) / ".git").exists():
        return None
    try:
        whole, environment = git_command(arguments, settings)
        environment = git_environment(environment, whole[0], arguments, settings)
    except Refused:
        return None
    with tempfile.TemporaryFile() as output:
        fd = os.dup(output.fileno())
        ended = execute.run(whole, environment, limit_s, settings, (-1, fd, -1), is_read=True)
        if ended["exit"] != 0:
            return None
        output.seek(0)
        return output.read(MAX_BYTES)
