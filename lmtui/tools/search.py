"""Finding files by name and lines by content."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from enum import StrEnum

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.globs import escape
from lmtui.core.permissions import Access, Verdict
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.secrets import is_secret_path
from lmtui.core.workspace import GrepMatch
from lmtui.tools.tool import Arguments, Tool, WorkspacePath, always, argument, path_argument

_MAX_FILES = 200
_MAX_MATCHES = 200
_MAX_LINE_CHARS = 300
_MAX_PLACES = 20


class GrepMode(StrEnum):
    """What grep tells."""

    CONTENT = "content"
    FILES = "files"
    COUNT = "count"


class GlobArguments(Arguments):
    """Which files."""

    pattern: str = argument(also=("glob", "query", "name"), doc="for example src/**/*.py")
    path: WorkspacePath = path_argument("", is_told=False)

    @property
    def whole(self) -> str:
        """Return the pattern from the root on."""
        return f"{escape(self.path)}/{self.pattern.removeprefix('/')}" if self.path else self.pattern


class GrepArguments(Arguments):
    """What to find, and where."""

    pattern: str = argument(also=("query", "regex", "search"), doc="regular expression")
    path: WorkspacePath = path_argument("")
    paths: list[WorkspacePath] = argument([], also=("files", "directories"), is_told=False, max_length=_MAX_PLACES)
    glob: str = argument("", also=("include", "file_pattern"), doc="only these files")
    ignore_case: bool = argument(False, also=("case_insensitive", "i"))  # noqa: FBT003  (a default)
    context: int = argument(0, also=("context_lines",), ge=0, le=20)
    mode: GrepMode = argument(GrepMode.CONTENT, also=("output_mode",))

    @property
    def places(self) -> tuple[str, ...]:
        """Return where to search."""
        return tuple(dict.fromkeys((*((self.path,) if self.path or not self.paths else ()), *self.paths)))


async def _glob(arguments: GlobArguments, context: ToolContext) -> ToolResult:
    paths = await context.sandbox.glob(arguments.whole, _MAX_FILES)
    if not paths:
        return ToolResult("no files match", "none")
    more = f"\n(the first {_MAX_FILES})" if len(paths) >= _MAX_FILES else ""
    return ToolResult("\n".join(map(clean_line, paths)) + more, counted(len(paths), "file"))


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
            context_lines=arguments.context if arguments.mode is GrepMode.CONTENT else 0,
            max_matches=_MAX_MATCHES,
        )
        left_out |= {match.path for match in found if _is_kept_back(match.path, place, context)}
        matches += [match for match in found if match.path not in left_out and (match.path, match.line) not in seen]
        seen |= {(match.path, match.line) for match in found}
    hits = [match for match in matches if not match.is_context]
    kept_back = (
        f"\n({counted(len(left_out), 'file')} with matches left out: secrets, or forbidden; read asks)" if left_out else ""
    )
    if not hits:
        return ToolResult(f"no matches{kept_back}", "none")
    more = f"\n(the first {_MAX_MATCHES}){kept_back}" if len(hits) >= _MAX_MATCHES else kept_back
    files = Counter(match.path for match in hits)
    text = _shown(arguments.mode, matches, files)
    return ToolResult(text + more, f"{len(hits)} in {counted(len(files), 'file')}")


def _is_kept_back(found: str, asked_for: str, context: ToolContext) -> bool:
    """Tell whether matches in a file are not shown: it may hold secrets and was not named, or a rule forbids to read it."""
    is_named = is_secret_path(asked_for)
    return (is_secret_path(found) and not is_named) or context.on_reading(found) is Verdict.DENY


def _shown(mode: GrepMode, matches: Sequence[GrepMatch], files: Counter[str]) -> str:
    match mode:
        case GrepMode.FILES:
            return "\n".join(map(clean_line, files))
        case GrepMode.COUNT:
            return "\n".join(f"{clean_line(path)}: {count}" for path, count in files.items())
        case GrepMode.CONTENT:
            return _content(matches)


def _content(matches: Sequence[GrepMatch]) -> str:
    """Return the lines under the name of their file; `:` marks a match, `-` a line around it."""
    lines: list[str] = []
    path = ""
    for match in matches:
        if match.path != path:
            path = match.path
            lines.append(clean_line(path))
        text = clean_line(match.text.rstrip("\n"))
        lines.append(f"{match.line:>5}{'-' if match.is_context else ':'} {text[:_MAX_LINE_CHARS]}")
    return "\n".join(lines)


GLOB = Tool(
    name="glob",
    description="Find files by name, newest first.",
    arguments=GlobArguments,
    run=_glob,
    access=always(Access.READ),
    subject=lambda arguments: arguments.whole,
    title=lambda arguments: arguments.whole,
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
