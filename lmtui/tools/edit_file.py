"""The edit tool: one place of a file changed, the rest byte for byte what it was."""

from __future__ import annotations

import asyncio
import difflib
import re
from collections import Counter
from dataclasses import dataclass

from lmtui.core.errors import ToolError
from lmtui.core.permissions.decide import Access, Verdict
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.workspace import FileContent
from lmtui.tools.file_tools import counts, read_text, write_accepted
from lmtui.tools.text import TextFile, describe_change, hunk_count, lines_of
from lmtui.tools.tool import Arguments, Tool, WorkspacePath, always, argument, path_argument

_MAX_PLACES = 8
_SMALL_LINES, _SMALL_CHARS = 40, 1500
_UNLIKE = "Nothing in the file is like it."


@dataclass(frozen=True, slots=True)
class Edited:
    """The new text, how often it was changed, and a word on how the place was found where it was not exact."""

    text: str
    count: int
    remark: str = ""


def apply_edit(text: str, search: str, replace: str, *, is_all: bool = False, newline: str = "\n") -> Edited:
    """Return the text with `search` replaced.

    Args:
        text: the file, with its own line ends.
        search: what to find; its line ends are taken as the file's.
        replace: what to put there.
        is_all: every place, where there are several.
        newline: the file's line end.

    Raises:
        ToolError: not found (the text shows the nearest region with line numbers), found in several places, or no change.
    """
    if not search:
        raise ToolError("the text to replace is empty", "Give some lines of the file, or use write for a whole file.")
    if search == replace:
        raise ToolError("search and replace are the same; nothing to change")
    wanted, instead = _with_newline(search, newline), _with_newline(replace, newline)
    for needle, substitute in dict.fromkeys([(wanted, instead), (search, replace)]):
        count = text.count(needle)
        if count == 1 or (count and is_all):
            return Edited(text.replace(needle, substitute), count)
        if count:
            raise ToolError(_ambiguous(_exact_lines(text, needle)), "Add more lines around it, or set all to true.")
    return _tolerant(text, wanted, instead, newline, is_all=is_all)


def _with_newline(text: str, newline: str) -> str:
    return re.sub(r"\r\n|\r|\n", newline, text)


def _exact_lines(text: str, needle: str) -> list[int]:
    lines: list[int] = []
    start = text.find(needle)
    while start >= 0:
        lines.append(text.count("\n", 0, start) + 1)
        start = text.find(needle, start + len(needle))
    return lines


def _ambiguous(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_MAX_PLACES])) + (" …" if len(lines) > _MAX_PLACES else "")
    return f"the text is there {len(lines)} times (lines {shown}); nothing was changed"


def _tolerant(text: str, search: str, replace: str, newline: str, *, is_all: bool) -> Edited:
    """Compare line by line without trailing white space, then without indentation; the match must be of whole lines."""
    lines = lines_of(text)
    wanted = _bare(search)
    while wanted and not wanted[0].strip():
        wanted = wanted[1:]
    while wanted and not wanted[-1].strip():
        wanted = wanted[:-1]
    if not wanted:
        raise ToolError("the text to replace is only white space and is not in the file")
    bare = _bare(text)
    for remark, form in (("ignoring white space at line ends", str.rstrip), ("ignoring indentation", str.strip)):
        places = _places([form(line) for line in bare], [form(line) for line in wanted])
        if len(places) > 1 and not is_all:
            raise ToolError(_ambiguous([place + 1 for place in places]), "Add more lines around it, or set all to true.")
        if places:
            for place in reversed(places):
                found = bare[place : place + len(wanted)]
                block = _bare(_reindented(replace, wanted, found).strip("\r\n")) if replace.strip() else []
                ending = lines[place + len(wanted) - 1]
                last = ending[len(ending.rstrip("\r\n")) :]
                lines[place : place + len(wanted)] = _joined(block, newline, last)
            return Edited("".join(lines), len(places), remark)
    raise ToolError(f"the text is not in the file; nothing was changed. {nearest_region(bare, wanted)}")


def _bare(text: str) -> list[str]:
    """Return the lines of a text without their ends."""
    return [line.rstrip("\r\n") for line in lines_of(text)]


def _joined(block: list[str], newline: str, last: str) -> list[str]:
    return [line + (newline if number < len(block) - 1 else last) for number, line in enumerate(block)]


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    """Return where the wanted lines begin, places that overlap counted once."""
    places: list[int] = []
    size, first = len(wanted), wanted[0]
    for place in range(len(lines) - size + 1):
        is_free = not places or place >= places[-1] + size
        if is_free and lines[place] == first and lines[place : place + size] == wanted:
            places.append(place)
    return places


def _reindented(replace: str, wanted: list[str], found: list[str]) -> str:
    """Return the replacement moved to the indentation of the place, where all lines moved by the same."""
    pairs = [(_indent(want), _indent(have)) for want, have in zip(wanted, found, strict=True) if want.strip()]
    shifts = {(want, have) for want, have in pairs}
    if all(want == have for want, have in shifts):
        return replace
    added = {have.removesuffix(want) for want, have in shifts if have.endswith(want)}
    if len(added) == 1 and all(have.endswith(want) for want, have in shifts):
        extra = next(iter(added))
        return "".join(extra + line if line.strip() else line for line in lines_of(replace))
    dropped = {want.removesuffix(have) for want, have in shifts if want.endswith(have)}
    if len(dropped) == 1 and all(want.endswith(have) for want, have in shifts):
        less = next(iter(dropped))
        return "".join(line.removeprefix(less) for line in lines_of(replace))
    mapping = dict(pairs)
    return "".join(mapping.get(_indent(line), _indent(line)) + line.lstrip(" \t") for line in lines_of(replace))


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def nearest_region(lines: list[str], wanted: list[str]) -> str:
    """Return the part of a file that is most like the wanted lines, with line numbers, or words that nothing is like it.

    Windows are ranked by shared lines first and by characters among the best, so that the work stays linear in the file.
    """
    size = min(len(wanted), len(lines)) or 1
    stripped = [line.strip() for line in lines]
    words = [frozenset(re.findall(r"\w+", line)) for line in stripped]
    target = Counter(word for line in wanted for word in re.findall(r"\w+", line))
    if not target or not lines:
        return _UNLIKE
    scores = [sum(word in target for word in line) for line in words]
    window = sum(scores[:size])
    ranked = [(window, 0)]
    for start in range(1, len(lines) - size + 1):
        window += scores[start + size - 1] - scores[start - 1]
        ranked.append((window, start))
    best = sorted(ranked, key=lambda pair: -pair[0])[:12]
    text = "\n".join(line.strip() for line in wanted)
    ratio, start = max((_likeness(text, "\n".join(stripped[start : start + size])), start) for _, start in best)
    if ratio < 0.4:
        is_small = len(lines) <= _SMALL_LINES and sum(map(len, lines)) <= _SMALL_CHARS
        return f"{_UNLIKE} The whole file:\n{_numbered(lines, 0, len(lines))}" if is_small else f"{_UNLIKE} Read it again."
    return f"The nearest is lines {start + 1}–{start + size}:\n{_numbered(lines, start, min(start + size, start + 30))}"


def _numbered(lines: list[str], start: int, end: int) -> str:
    return "\n".join(f"{number + 1:>5}  {lines[number][:200]}" for number in range(start, end))


def _likeness(left: str, right: str) -> float:
    return difflib.SequenceMatcher(None, left[:4000], right[:4000], autojunk=False).ratio()


class EditArguments(Arguments):
    """What to change."""

    path: WorkspacePath = path_argument()
    search: str = argument(
        also=("old", "old_string", "oldString", "old_str", "old_text", "find"), doc="text as it is in the file, found once"
    )
    replace: str = argument(also=("new", "new_string", "newString", "new_str", "new_text", "replacement"))
    all: bool = argument(default=False, also=("replace_all", "replaceAll"), doc="change every place")


async def _edited(arguments: EditArguments, context: ToolContext) -> tuple[FileContent, TextFile, Edited]:
    content, file = await read_text(context, arguments.path)
    try:
        edited = await asyncio.to_thread(
            apply_edit, file.text, arguments.search, arguments.replace, is_all=arguments.all, newline=file.newline
        )
    except ToolError as error:
        if context.on_reading(arguments.path) is Verdict.ALLOW:
            raise
        text = "the text is not there just once; nothing was changed"  # more would be a way to read the file
        raise ToolError(text, "Read the file first.") from error
    return content, file, edited


async def _edit(arguments: EditArguments, context: ToolContext) -> ToolResult:
    content, file, edited = await _edited(arguments, context)
    if context.seen.get(arguments.path, content.sha256) != content.sha256:
        raise ToolError(f"{arguments.path} has changed since the edit was approved; nothing was changed. Read it again.")
    if context.hunks is not None:
        return await write_accepted(context, arguments.path, content, file, edited.text)
    await context.sandbox.write_file(arguments.path, file.encode(edited.text), expect_sha256=content.sha256)
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text)
    places = f"{edited.count} places" if edited.count > 1 else ""
    remark = ", ".join(part for part in (places, edited.remark and f"found {edited.remark}") if part)
    return ToolResult(f"ok ({remark})" if remark else "ok", counts(change), changes=(change,))


async def _preview(arguments: EditArguments, context: ToolContext) -> Preview:
    content, file, edited = await _edited(arguments, context)
    context.seen[arguments.path] = content.sha256
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text, is_whole=True)
    hunks = await asyncio.to_thread(hunk_count, file.text, edited.text)
    return Preview(f"edit {arguments.path}  {counts(change)}\n\n{change.diff}", change.diff, arguments.path, hunks=hunks)


EDIT = Tool(
    name="edit",
    description="Replace text in a file.",
    arguments=EditArguments,
    run=_edit,
    access=always(Access.WRITE),
    subject=lambda arguments: arguments.path,
    title=lambda arguments: arguments.path,
    preview=_preview,
    aliases=("edit_file", "str_replace", "search_replace", "file_patch", "replace_in_file"),
)
