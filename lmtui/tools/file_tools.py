"""File tools: read, write, list, make folders, look at images and tables; all through the sandbox, below the workspace."""

from __future__ import annotations

import json
import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.messages import MAX_IMAGE_BYTES, Image, sniff
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Access, Verdict, escape_glob
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.workspace import DirEntry, FileChange, FileChangeKind, FileContent, GrepMatch
from lmtui.tools.data_script import PROBLEM
from lmtui.tools.text import TextFile, decode, lines_of
from lmtui.tools.tool import Arguments, PathTool, Told, Tool, WorkspacePath, always, argument, listed, path_argument

_MAX_FILES = 200
_MAX_MATCHES = 200
_HUNKS_MAX_LINE_CHARS = 300
_MAX_PLACES = 20
_KINDS = {
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a ZIP archive (or an office document)",
    b"\x1f\x8b": "a gzip archive",
    b"SQLite format 3\0": "an SQLite database",
    b"\x7fELF": "an ELF program",
}


class GlobArguments(Arguments):
    """Which files."""

    pattern: str = argument(also=("glob", "query", "name"), doc="src/**/*.py")
    path: WorkspacePath = path_argument("", is_told=False)

    @property
    def whole(self) -> str:
        """Return the pattern from the root on."""
        return f"{escape_glob(self.path)}/{self.pattern.removeprefix('/')}" if self.path else self.pattern


class GrepArguments(Arguments):
    """What to find, and where."""

    pattern: str = argument(also=("query", "regex", "search"), doc="regular expression")
    path: WorkspacePath = path_argument("")
    paths: list[WorkspacePath] = argument([], also=("files", "directories"), is_told=False, max_length=_MAX_PLACES)
    glob: str = argument("", also=("include", "file_pattern"))
    ignore_case: bool = argument(default=False, also=("case_insensitive", "i"))
    context: int = argument(0, also=("context_lines",), ge=0, le=20)
    mode: Literal["content", "files", "count"] = argument("content", also=("output_mode",))

    @property
    def places(self) -> tuple[str, ...]:
        """Return where to search."""
        return tuple(dict.fromkeys((*((self.path,) if self.path or not self.paths else ()), *self.paths)))


async def _glob(arguments: GlobArguments, context: ToolContext) -> ToolResult:
    paths = await context.sandbox.glob(arguments.whole, _MAX_FILES)
    if not paths:
        return ToolResult(f"no files match {sanitize_line(arguments.whole)}. {await listed(context, arguments.path)}", "none")
    more = f"\n(the first {_MAX_FILES})" if len(paths) >= _MAX_FILES else ""
    count = pluralize(len(paths), "file")
    return ToolResult("\n".join(map(sanitize_line, paths)) + (more or _counted(context, count)), count)


async def _grep(arguments: GrepArguments, context: ToolContext) -> ToolResult:
    matches: list[GrepMatch] = []
    left_out: set[str] = set()
    seen: set[tuple[str, int]] = set()
    for place in arguments.places:
        found = await context.sandbox.grep(
            arguments.pattern,
            path=place,
            glob=arguments.glob,
            ignore_case=arguments.ignore_case,
            context_lines=arguments.context if arguments.mode == "content" else 0,
            max_matches=_MAX_MATCHES,
        )
        left_out |= {match.path for match in found if is_kept_back(match.path, place, context)}
        matches += [match for match in found if match.path not in left_out and (match.path, match.line) not in seen]
        seen |= {(match.path, match.line) for match in found}
    hits = [match for match in matches if not match.is_context]
    kept_back = (
        f"\n({pluralize(len(left_out), 'file')} with matches left out: secrets, or forbidden; read asks)" if left_out else ""
    )
    if not hits:
        places = " and ".join(place or "all text files" for place in arguments.places)
        which = f" ({arguments.glob} only)" if arguments.glob else ""
        return ToolResult(f"no matches in {places}{which}{kept_back}{_counted(context, '0 lines')}", "none")
    more = f"\n(the first {_MAX_MATCHES}){kept_back}" if len(hits) >= _MAX_MATCHES else kept_back
    files = Counter(match.path for match in hits)
    text, summary = _shown(arguments, matches, files), f"{len(hits)} in {pluralize(len(files), 'file')}"
    count = _counted(context, f"{pluralize(len(hits), 'matching line')} in {pluralize(len(files), 'file')}")
    return ToolResult(text + (more or count), summary)


def is_kept_back(found: str, asked_for: str, context: ToolContext) -> bool:
    """Tell whether what is in a file is not shown: it may hold secrets and was not named, or a rule forbids to read it."""
    verdict = context.on_reading(found)
    is_unnamed = is_secret_path(found) and not is_secret_path(asked_for)
    return verdict is Verdict.DENY or (is_unnamed and verdict is Verdict.ASK)


def _shown(arguments: GrepArguments, matches: Sequence[GrepMatch], files: Counter[str]) -> str:
    """Return what is asked for.

    Lines are under the name of their file; `:` marks a match, `-` a line around it.
    """
    if arguments.mode != "content":
        ends = {path: f": {count}" for path, count in files.items()} if arguments.mode == "count" else {}
        return "\n".join(sanitize_line(path) + ends.get(path, "") for path in files)
    lines: list[str] = []
    path = ""
    for match in matches:
        if match.path != path:
            path = match.path
            lines.append(sanitize_line(path))
        text = sanitize_line(match.text.rstrip("\n"))
        lines.append(f"{match.line:>5}{'-' if match.is_context else ':'} {text[:_HUNKS_MAX_LINE_CHARS]}")
    return "\n".join(lines)


GLOB = Tool(
    name="glob",
    description="Find files by name, newest first.",
    arguments=GlobArguments,
    run=_glob,
    access=always(Access.READ),
    subject=lambda arguments: arguments.whole,
    aliases=("find_files", "file_search"),
)
GREP = Tool(
    name="grep",
    description="Search file contents.",
    arguments=GrepArguments,
    run=_grep,
    access=always(Access.READ),
    subject=lambda arguments: tuple(place or "." for place in arguments.places),
    title=lambda arguments: " ".join((arguments.pattern, *arguments.places)).strip(),
    aliases=("grep_search", "search", "search_file_content", "ripgrep"),
)


MAX_READ_BYTES = 8 * 1024 * 1024
_MAX_LINE_CHARS = 1000
_DEFAULT_LINES, _MOST_LINES = 400, 5000


class ReadArguments(Arguments):
    """What to read."""

    path: WorkspacePath = path_argument()
    offset: int = argument(1, also=("start_line", "startLine", "line"), doc="first line; negative counts from the end")
    limit: int = argument(_DEFAULT_LINES, also=("max_lines", "lines", "num_lines"), ge=1, le=_MOST_LINES)
    end_line: int = argument(0, also=("end", "last_line"), is_told=False, ge=0)

    @property
    def is_part(self) -> bool:
        return (self.offset, self.limit) != (1, _DEFAULT_LINES)


class LsArguments(Arguments):
    """What to list."""

    path: WorkspacePath = path_argument("")
    depth: int = argument(1, also=("max_depth",), ge=1, le=6)


class MkdirArguments(Arguments):
    """What to make."""

    path: WorkspacePath = path_argument()


async def read_text(context: ToolContext, path: str) -> tuple[FileContent, TextFile]:
    """Return a file and its text.

    Raises:
        ToolError: it is binary or too large; the text says which and what to do.
    """
    content = await context.sandbox.read_file(path, MAX_READ_BYTES)
    if content.size_bytes > len(content.data):
        raise ToolError(
            f"{path} has {content.size_bytes:,} bytes; files of more than {MAX_READ_BYTES:,} are not read whole",
            "Use grep, or shell with head, tail or sed -n.",
        )
    text = decode(content.data)
    if text is None:
        kind = sniff(content.data) or next((_KINDS[each] for each in _KINDS if content.data.startswith(each)), "a binary file")
        raise ToolError(f"{path} is {kind} of {content.size_bytes:,} bytes, not text")
    return content, text


async def _read(arguments: ReadArguments, context: ToolContext) -> ToolResult:
    content, file = await read_text(context, arguments.path)
    lines = [line.rstrip("\r\n") for line in lines_of(file.text)]
    total = len(lines)
    if total == 0:
        return ToolResult("(empty file)", "0 lines")
    first = max(1, total + arguments.offset + 1) if arguments.offset < 0 else max(1, arguments.offset)
    past = f"\n({arguments.path} has {pluralize(total, 'line')}; line {first} is past its end)" if first > total else ""
    first = min(first, total)
    last = min(total, first + _count(arguments, first) - 1)
    shown = "\n".join(f"{number:>5}  {_cut(lines[number - 1])}" for number in range(first, last + 1))
    counts = _counted(
        context,
        f"{pluralize(total, 'line')}, {pluralize(len(file.text.split()), 'word')}, {pluralize(content.size_bytes, 'byte')}",
    )
    rest = past or (counts if last == total and first == 1 else f"\n(lines {first}–{last} of {total})")
    return ToolResult(sanitize(shown) + rest, f"{first}–{last} of {total}")


def _count(arguments: ReadArguments, first: int) -> int:
    """Return how many lines to read from `first` on: the fewer, if both a number and an end are given.

    Raises:
        ToolError: the end is before the first line.
    """
    if not arguments.end_line:
        return arguments.limit
    if arguments.end_line < first:
        raise ToolError(f"end_line {arguments.end_line} is before line {first}", "Give offset and limit, or a later end_line.")
    most = arguments.limit if "limit" in arguments.model_fields_set else _MOST_LINES
    return min(arguments.end_line - first + 1, most)


def _cut(line: str) -> str:
    if len(line) <= _MAX_LINE_CHARS:
        return line
    return f"{line[:_MAX_LINE_CHARS]}… ({len(line) - _MAX_LINE_CHARS} characters more)"


async def _ls(arguments: LsArguments, context: ToolContext) -> ToolResult:
    path = arguments.path.strip() or "."
    try:
        entries = await context.sandbox.list_directory("" if path == "." else path, arguments.depth, 500)
    except SandboxError:
        found = await context.sandbox.glob(escape_glob(path), 1)
        if not found:
            raise
        return ToolResult(f"{path} is a file. Read it to see what is in it.", "a file")
    if not entries:
        return ToolResult("(empty folder)", "empty")
    kinds = Counter(entry.kind for entry in entries)
    count = f"{pluralize(kinds['file'], 'file')}, {pluralize(kinds['dir'], 'folder')}"
    more = "\n(the first 500)" if len(entries) >= 500 else _counted(context, count)
    return ToolResult("\n".join(_entry_line(entry) for entry in entries) + more, f"{len(entries)} entries")


def _counted(context: ToolContext, text: str) -> str:
    """Return what there is so many of, for a model that would count wrong."""
    return f"\n({text})" if context.is_doubted else ""


def _entry_line(entry: DirEntry) -> str:
    name = sanitize(entry.path).replace("\n", "⏎")
    if entry.kind == "dir":
        return f"{name}/"
    return f"{name}  {entry.size_bytes}" if entry.kind == "file" else f"{name}  ({entry.kind})"


async def _mkdir(arguments: MkdirArguments, context: ToolContext) -> ToolResult:
    is_new = await context.sandbox.make_directory(arguments.path)
    if not is_new:
        return ToolResult("ok, it was there", "was there")
    return ToolResult("ok", "made", changes=(FileChange(arguments.path.rstrip("/") + "/", FileChangeKind.ADDED),))


READ = PathTool(
    name="read",
    description="Read a text file with line numbers.",
    arguments=ReadArguments,
    run=_read,
    title=lambda arguments: arguments.path + (f" from {arguments.offset}" if arguments.is_part else ""),
    aliases=("read_file", "view", "view_file", "open_file", "cat"),
)
LS = Tool(
    name="ls",
    description="List a folder with sizes.",
    arguments=LsArguments,
    run=_ls,
    access=always(Access.READ),
    subject=lambda arguments: arguments.path or ".",
    aliases=("list_directory", "list_dir", "list_files", "list"),
)
MKDIR = PathTool(
    name="mkdir",
    description="Make a folder and its parents.",
    arguments=MkdirArguments,
    run=_mkdir,
    access=always(Access.WRITE),
    aliases=("make_directory", "create_directory", "create_folder"),
    told=Told.NEVER,
)


_FORMATS = "JPEG, PNG, GIF and WebP"


class LookArguments(Arguments):
    """What to look at."""

    path: WorkspacePath = path_argument()


async def _look(arguments: LookArguments, context: ToolContext) -> ToolResult:
    path = arguments.path
    if not context.sees:
        raise ToolError("you see no pictures: the model in use is not made for them", "Tell the user so.")
    content = await context.sandbox.read_file(path, MAX_IMAGE_BYTES)
    media_type = sniff(content.data)
    if not media_type:
        raise ToolError(f"{path} is not a picture that can be shown ({_FORMATS} can)", "Use read for text.")
    if content.size_bytes > MAX_IMAGE_BYTES:
        raise ToolError(
            f"{path} has {content.size_bytes:,} bytes; pictures of more than {MAX_IMAGE_BYTES:,} are not sent",
            "Make a smaller copy and look at that.",
        )
    kind = media_type.removeprefix("image/")
    name = path.rpartition("/")[2]
    text = f"The picture {path} ({kind}, {content.size_bytes:,} bytes) is attached."
    return ToolResult(text, f"{kind}, {content.size_bytes:,} bytes", images=(Image(name, media_type, content.data),))


LOOK = PathTool(
    name="look",
    description="Look at a picture.",
    arguments=LookArguments,
    run=_look,
    aliases=("view_image", "read_image", "look_at_image", "vision"),
)


MAX_ROWS = 50
_TIME_S, _MEMORY_MB = 120, 1024


class DataViewArguments(Arguments):
    """Which file, how many rows of each end, and which columns."""

    path: WorkspacePath = path_argument()
    rows: int = argument(5, also=("n", "limit", "head"), is_told=False, ge=0, le=MAX_ROWS)
    columns: tuple[str, ...] = argument((), also=("cols", "select"), is_told=False)


async def _view(arguments: DataViewArguments, context: ToolContext) -> ToolResult:
    script = Path(__file__).with_name("data_script.py").read_text(encoding="utf-8")
    command = shlex.join(
        ("python3", "-I", "-X", "utf8", "-c", script, arguments.path, str(arguments.rows), json.dumps(arguments.columns))
    )
    result = await context.sandbox.run_command(command, timeout_s=_TIME_S, memory_mb=_MEMORY_MB)
    if result.is_timed_out:
        raise ToolError(f"{arguments.path} is not read through within {_TIME_S} s", "Use python or shell on a part of it.")
    text = sanitize(result.output)
    if result.exit_code == PROBLEM:
        raise ToolError(f"{arguments.path}: {sanitize_line(text)}")
    if result.exit_code != 0:
        raise ToolError(f"{arguments.path} could not be looked into (exit code {result.exit_code}): {text[:300]}")
    return ToolResult(text, text.partition("\n")[0].rpartition(", ")[2])


DATA_VIEW = PathTool(
    name="data_view",
    description="Look into a CSV, JSONL or Parquet file.",
    arguments=DataViewArguments,
    run=_view,
    aliases=("view_data", "csv_head", "read_csv", "data_head", "dataframe", "table_view"),
    told=Told.SELDOM,
)
