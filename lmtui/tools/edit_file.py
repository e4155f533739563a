"""The tools that change files: write, and edit, with which all but one place stays byte for byte what it was."""

from __future__ import annotations

import asyncio
import difflib
import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.line_diff import compare, hunks_of, split_lines, with_hunks
from lmtui.core.permissions.rules import Access, Verdict
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize
from lmtui.core.workspace import FileChange, FileContent
from lmtui.tools.file_tools import MAX_READ_BYTES, read_text
from lmtui.tools.text import (
    TextFile,
    decode,
    describe_change,
    diff_lines,
    elided_line,
    hunk_count,
    lines_of,
    replace_look_alikes,
    shared_head,
    without_line_numbers,
)
from lmtui.tools.tool import Arguments, OtherTool, PathTool, WorkspacePath, always, argument, path_argument

_SMALL_LINES, _SMALL_CHARS = 40, 1500  # a file that an error may show whole
_ENOUGH_KEPT, _LEAST_LINES, _STUB, _LEAST_WORDS = 0.5, 10, 0.4, 0.3
_WORDS = re.compile(r"\w+")
_MOST_HUNK_LINES = 60
_MOST_CHARS = 3000


def accept(path: str, old: str, new: str, chosen: Collection[int]) -> tuple[str, str]:
    """Return the old text with only the chosen hunks of the change to `new`, and words for the model on the others.

    Hunks count from 0, as fine as they can be.
    """
    before, after = split_lines(old), split_lines(new)
    spans = compare(before, after)
    numbers = range(len(hunks_of(spans, is_fine=True)))
    applied, rejected = [each for each in numbers if each in chosen], [each for each in numbers if each not in chosen]
    words = (
        f"the user accepted {len(applied)} of {len(numbers)} hunks of this change; only these were applied. "
        f"Rejected, the file is unchanged there:\n{_rejected(path, before, after, rejected)}"
    )
    return with_hunks(before, after, spans, applied), words


def _rejected(path: str, before: list[str], after: list[str], numbers: Collection[int]) -> str:
    lines = list(diff_lines(path, before, after, compare(before, after), numbers))[2:]
    text = "\n".join(lines[:_MOST_HUNK_LINES])[:_MOST_CHARS]
    left_out = len(lines) - text.count("\n") - 1
    return sanitize(text) + (f"\n… {left_out} more rejected lines" if left_out > 0 else "")


class WriteArguments(Arguments):
    """What to write."""

    path: WorkspacePath = path_argument()
    content: str = argument(also=("contents", "file_text", "text", "code", "data", "line"))
    mode: Literal["overwrite", "w", "append", "a"] = argument("overwrite", also=("write_mode",), is_told=False)
    append: bool = argument(default=False, is_told=False)

    @property
    def is_append(self) -> bool:
        """Tell whether the content is appended."""
        return self.append or self.mode in ("append", "a")


async def write_accepted(context: ToolContext, path: str, content: FileContent, file: TextFile, new: str) -> ToolResult:
    """Write a file with only those hunks of a change that the user accepted; what was shown must still be there.

    Raises:
        ToolError: the file changed since, or its encoding cannot hold the text.
    """
    if not content.sha256 or context.seen.get(path) != content.sha256:
        raise ToolError(f"{path} has changed since the change was approved; nothing was changed. Read it again.")
    text, words = await asyncio.to_thread(accept, path, file.text, new, context.hunks or ())
    await context.sandbox.write_file(path, file.encode(text), expect_sha256=content.sha256)
    change = await asyncio.to_thread(describe_change, path, file.text, text)
    return ToolResult(words, counts(change), changes=(change,))


async def _planned(
    arguments: WriteArguments, context: ToolContext
) -> tuple[FileContent | None, TextFile | None, str | None, str]:
    """Return what a write replaces and the text before and after; line numbers that were copied are left out.

    That is the file, None where there is none or it cannot be read, and its text where it is one.

    Raises:
        ToolError: it replaces what the model has not seen, or appends to what is not text.
    """
    try:
        content = await context.sandbox.read_file(arguments.path, MAX_READ_BYTES)
    except SandboxError:
        content = None
    file = decode(content.data) if content is not None and content.size_bytes == len(content.data) else None
    text = without_line_numbers(arguments.content, file.text if file is not None else "")
    arguments = arguments.model_copy(update={"content": text})
    if context.hunks is None:
        _check_known(content, file, arguments, context)
    old = None if content is None else file.text if file is not None else ""
    return content, file, old, _new_text(arguments, content, file, is_doubted=context.is_doubted)


async def _write(arguments: WriteArguments, context: ToolContext) -> ToolResult:
    content, file, old, new = await _planned(arguments, context)
    if context.hunks is not None:
        if content is None or file is None:
            raise ToolError(f"{arguments.path} has changed since the change was approved; nothing was changed.")
        return await write_accepted(context, arguments.path, content, file, new)
    data = file.encode(new) if file is not None else new.encode("utf-8", "replace")
    remark = _remark(arguments.content, new, file)
    if content is not None and content.data == data:
        return ToolResult(f"ok, unchanged{remark}", "unchanged")
    base = content.sha256 if content is not None and arguments.is_append else None
    await context.sandbox.write_file(arguments.path, data, expect_sha256=context.seen.get(arguments.path, base))
    change = await asyncio.to_thread(describe_change, arguments.path, old, new)
    return ToolResult(f"ok{remark}", counts(change), changes=(change,))


def _remark(given: str, new: str, file: TextFile | None) -> str:
    """Say what a file has otherwise than it was given: the end of its last line, and line ends where they are mixed."""
    ends = {line[len(line.rstrip("\r\n")) :] for line in lines_of(file.text)} - {""} if file is not None else set()
    is_other = given and given.endswith(("\n", "\r")) != new.endswith(("\n", "\r"))
    remark = " (its last line ends as before)" if is_other else ""
    if file is not None and len(ends) > 1:
        remark += f" (its line ends are mixed: lines that stay keep theirs, others end in {file.newline!r})"
    return remark


def _new_text(
    arguments: WriteArguments, content: FileContent | None, file: TextFile | None, *, is_doubted: bool = False
) -> str:
    """Return the file's new content, with the line ends that the file has.

    Raises:
        ToolError: the file to append to is not text, or too large.
    """
    if not arguments.is_append or content is None:
        return arguments.content if file is None else file.with_own_ends(arguments.content)
    if file is None:
        text = f"could not append to {arguments.path}: not a text file, or larger than {MAX_READ_BYTES:,} bytes"
        raise ToolError(text, "Use shell: cat >> file.")
    added = arguments.content
    if is_doubted and file.text.endswith("\n"):  # it means a separate line, like those in the file
        added = added.removeprefix("\n")
        added = added if any(line[:1] in " \t" for line in lines_of(file.text)) else added.lstrip(" ")
    return file.text + _with_newline(added, file.newline)


def _check_known(content: FileContent | None, file: TextFile | None, arguments: WriteArguments, context: ToolContext) -> None:
    """Keep a model that guesses from replacing a file of which it has seen nothing.

    Raises:
        ToolError: it would.
    """
    path = arguments.path
    _check_whole(path, arguments.content, file.text if file is not None else "")
    is_kept = file is not None and _share_kept(file.text, arguments.content) >= _ENOUGH_KEPT
    if content is None or not content.data or arguments.is_append or is_kept:
        return
    if context.knows(path):
        _check_shrinking(file, arguments, context)
        return
    size = f"{len(lines_of(file.text))} lines" if file is not None else f"{content.size_bytes:,} bytes"
    hint = "To change it, read it first. To rename or copy a file use shell (mv, cp), to add a line: echo … >> file."
    is_small = file is not None and len(file.text) <= _SMALL_CHARS and len(lines_of(file.text)) <= _SMALL_LINES
    if file is not None and is_small and context.on_reading(path) is Verdict.ALLOW:
        hint = f"Use edit for a change, or write all of it with what is to stay. The whole file:\n{sanitize(file.text)}"
    raise ToolError(f"{path} is there already ({size}) and would be lost; nothing was written", hint)


def _check_whole(path: str, text: str, old: str) -> None:
    """Refuse a text in which a line represents some of the old one.

    Raises:
        ToolError: one does.
    """
    if old and (line := elided_line(text, old)):
        what = f"{path} was not changed: the line {line[:80]!r} would replace what it stands for"
        raise ToolError(what, "Give the whole text, or change one place with edit.")


def _check_shrinking(file: TextFile | None, arguments: WriteArguments, context: ToolContext) -> None:
    """Keep a model that is doubted from leaving a stub of a file.

    Raises:
        ToolError: it would.
    """
    lines = len(lines_of(file.text)) if file is not None else 0
    if file is None or not context.is_doubted or len(arguments.content) > len(file.text):
        return
    left, old = len(lines_of(arguments.content)), set(_WORDS.findall(file.text))
    is_stub = lines >= _LEAST_LINES and len(arguments.content) <= len(file.text) * _STUB
    if is_stub or (lines > 1 and len(old & set(_WORDS.findall(arguments.content))) < len(old) * _LEAST_WORDS):
        text = f"{arguments.path} has {lines} lines, and only {left} would be left; nothing was written"
        raise ToolError(
            text, 'To add to its end, give "mode": "append"; for a change, use edit. To replace it, delete it first.'
        )


def _share_kept(old: str, new: str) -> float:
    """Return how much of a text's lines are in another one."""
    before, after = ([line.strip() for line in text.splitlines() if line.strip()] for text in (old, new))
    return sum((Counter(before) & Counter(after)).values()) / len(before) if before else 0.0


async def _preview_write(arguments: WriteArguments, context: ToolContext) -> Preview:
    content, file, old, new = await _planned(arguments, context)
    if content is None or content.sha256:
        context.seen[arguments.path] = content.sha256 if content else ""
    change = await asyncio.to_thread(describe_change, arguments.path, old, new, is_whole=True)
    verb = "create" if old is None else "append to" if arguments.is_append else "replace"
    can_divide = file is not None and arguments.path in context.seen
    hunks = await asyncio.to_thread(hunk_count, old or "", new) if can_divide else 0
    shown = f"  {counts(change)}\n\n{arguments.content}" if new else ": empty file"
    return Preview(f"{verb} {arguments.path}{shown}", change.diff, arguments.path, hunks=hunks)


def counts(change: FileChange) -> str:
    """Return added and removed lines as a log shows them: `+9 −2`."""
    return f"+{change.added_lines} −{change.removed_lines}"


WRITE = PathTool(
    name="write",
    description="Create a file or replace a whole one.",
    arguments=WriteArguments,
    run=_write,
    access=always(Access.WRITE),
    preview=_preview_write,
    aliases=("write_file", "file_write", "create_file", "save_file"),
    others=(
        OtherTool(
            ("append", "append_file", "append_to_file"),
            WriteArguments,
            "write",
            lambda given: {"path": given.path, "content": given.content, "append": True},
        ),
    ),
)


_MAX_PLACES, _MOST_SHOWN = 8, 4
_UNLIKE = "Nothing in the file is like it."
_OTHER_DEPTH = "the text is in the file only with another indentation; nothing was changed"
_MOST_LEVELS = 20
_AS_THERE = "Give it with the indentation of the file."


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
            own = _in_tabs(text, needle, substitute)
            return Edited(text.replace(needle, own), count, "" if own == substitute else "spaces became tabs, as in the file")
        if count:
            found = re.finditer(re.escape(needle), text)
            lines = [text.count("\n", 0, each.start()) + 1 for each in found]
            raise ToolError(_ambiguous(lines), "Add more lines around it, or set all to true.")
    lines, new, signs = replace_look_alikes(text, wanted, instead)
    if len(lines) > 1 and not is_all:
        raise ToolError(_ambiguous(lines), "Add more lines around it, or set all to true.")
    if lines:
        return Edited(new, len(lines), f"found with {signs}")
    return _tolerant(text, wanted, instead, newline, is_all=is_all)


def _with_newline(text: str, newline: str) -> str:
    return re.sub(r"\r\n|\r|\n", newline, text)


def _ambiguous(lines: list[int]) -> str:
    shown = ", ".join(map(str, lines[:_MAX_PLACES])) + (" …" if len(lines) > _MAX_PLACES else "")
    return f"the text is there {len(lines)} times (lines {shown}); nothing was changed"


def _tolerant(text: str, search: str, replace: str, newline: str, *, is_all: bool) -> Edited:
    """Compare line by line without trailing white space, then without indentation; the match must be of whole lines."""
    lines = lines_of(text)
    bare, wanted = _bare(text), _bare(search)
    full = [number for number, line in enumerate(wanted) if line.strip()]
    if not full:
        raise ToolError("the text to replace is only white space and is not in the file")
    wanted = wanted[full[0] : full[-1] + 1]
    for remark, form in (("found ignoring white space at line ends", str.rstrip), ("found ignoring indentation", str.strip)):
        places = _places([form(line) for line in bare], [form(line) for line in wanted])
        if len(places) > 1 and not is_all:
            raise ToolError(_ambiguous([place + 1 for place in places]), "Add more lines around it, or set all to true.")
        if places:
            unit = _indent_unit(bare)
            for place in reversed(places):
                found = bare[place : place + len(wanted)]
                block = _bare(_reindented(replace, wanted, found, unit).strip("\r\n")) if replace.strip() else []
                ending = lines[place + len(wanted) - 1]
                ends = [newline] * (len(block) - 1) + [ending[len(ending.rstrip("\r\n")) :]]
                lines[place : place + len(wanted)] = [line + end for line, end in zip(block, ends, strict=False)]
            return Edited("".join(lines), len(places), remark)
    raise ToolError(f"the text is not in the file; nothing was changed. {nearest_region(bare, wanted)}")


def _bare(text: str) -> list[str]:
    """Return the lines of a text without their ends."""
    return [line.rstrip("\r\n") for line in lines_of(text)]


def _places(lines: list[str], wanted: list[str]) -> list[int]:
    """Return where the wanted lines begin, places that overlap counted once."""
    places: list[int] = []
    size, first = len(wanted), wanted[0]
    for place in range(len(lines) - size + 1):
        is_free = not places or place >= places[-1] + size
        if is_free and lines[place] == first and lines[place : place + size] == wanted:
            places.append(place)
    return places


def _reindented(replace: str, wanted: list[str], found: list[str], unit: str) -> str:
    """Return the replacement in the indentation of the place; `unit` is the file's, and what is deeper there goes by units.

    Raises:
        ToolError: the place is at another depth, or the depth of a line is not clear.
    """
    pairs = [(_indent(want), _indent(have)) for want, have in zip(wanted, found, strict=True) if want.strip()]
    known = dict(pairs)
    if all(want == have for want, have in pairs):
        return replace
    want, have = min(pairs, key=lambda pair: len(pair[0]))
    unit = "\t" if "\t" in have else (_indent_unit(found) if have and unit == "\t" else unit)
    depth = len(have) // max(len(unit), 1)
    given = _indent_unit(wanted) or _indent_unit(_bare(replace))
    theirs = given or (want[: len(want) // depth] if depth and unit == "\t" and want and len(want) % depth == 0 else unit)
    unit = unit or theirs
    is_other = len(known) == 1 and want and (len(theirs) > 8 or abs(len(want) / max(len(theirs), 1) - depth) >= 1)
    if is_other or any(known[want] != have for want, have in pairs):
        raise ToolError(_OTHER_DEPTH, _AS_THERE)
    levels = dict(known)
    for want, have in sorted(known.items(), reverse=True):
        for more in range(1, _MOST_LEVELS):
            levels.setdefault(want + theirs * more, have + unit * more)
            if want.endswith(theirs * more) and have.endswith(unit * more):
                levels.setdefault(want.removesuffix(theirs * more), have.removesuffix(unit * more))
    moved = lines_of(replace)
    for number, line in enumerate(moved):
        near = max(filter(_indent(line).startswith, levels), key=len, default=None)
        if line.strip() and (near is None or (near != _indent(line) and theirs != unit)):
            raise ToolError(_OTHER_DEPTH, _AS_THERE)
        moved[number] = levels[near] + line.removeprefix(near) if near is not None and line.strip() else line
    return "".join(moved)


def _in_tabs(text: str, search: str, replace: str) -> str:
    """Return a replacement in tabs where the file has only tabs, or mostly and the search has, and the replacement only spaces.

    Lines of one depth alone are taken to be as deep as the search.

    Raises:
        ToolError: how many spaces are a tab is not clear.
    """
    lines = lines_of(replace)
    spaces = [len(_indent(line)) for line in lines if line.startswith("  ") and line.strip()]
    only_tabs = re.search(r"^\t", text, re.MULTILINE) and not re.search(r"^ {2,}\S", text, re.MULTILINE)
    has_tabs = only_tabs or (re.search(r"^\t", search, re.MULTILINE) and _indent_unit(_bare(f"{text}\n{search}")) == "\t")
    if not spaces or not has_tabs or re.search(r"^\t", replace, re.MULTILINE):
        return replace
    width, depth = math.gcd(*spaces), len(search) - len(search.lstrip("\t"))
    if depth and len(_indent(lines[0])) == width == max(spaces) > depth and width % depth == 0:
        width //= depth
    if width not in (2, 3, 4, 8) or f"\n{search}" not in f"\n{text}":
        raise ToolError("the file is indented with tabs; nothing was changed", "Give tabs, and whole lines.")
    return "".join("\t" * (len(_indent(line)) // width) + line.lstrip(" ") if line.startswith("  ") else line for line in lines)


def _indent_unit(lines: list[str]) -> str:
    """Return the indentation of one level: a tab, or as many spaces as lines are most often deeper than those before."""
    indents = [_indent(line) for line in lines if line.strip()]
    if sum(each.startswith("\t") for each in indents) > sum(each.startswith(" ") for each in indents):
        return "\t"
    steps = Counter(len(after) - len(before) for before, after in pairwise(indents))
    return " " * max((step for step in steps if step > 1), key=lambda step: steps[step], default=0)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip(" \t"))]


def nearest_region(lines: list[str], wanted: list[str]) -> str:
    """Return the part of a file that is most like the wanted lines, with line numbers, or words that nothing is like it.

    Characters beyond ASCII that only one of the two has are named: they may look like those of the other.
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
    windows = ((start, "\n".join(stripped[start : start + size])[:4000]) for _, start in best)
    matchers = ((difflib.SequenceMatcher(None, text[:4000], each, autojunk=False), start) for start, each in windows)
    ratio, start = max((matcher.ratio(), start) for matcher, start in matchers)
    if ratio < 0.4:
        is_small = len(lines) <= _SMALL_LINES and sum(map(len, lines)) <= _SMALL_CHARS
        return f"{_UNLIKE} The whole file:\n{_numbered(lines, 0, len(lines))}" if is_small else f"{_UNLIKE} Read it again."
    here = "\n".join(stripped[start : start + size])
    signs = _odd_signs("It", here, text) + _odd_signs("The search", text, here)
    return f"The nearest is lines {start + 1}–{start + size}:\n{_numbered(lines, start, min(start + size, start + 30))}{signs}"


def _odd_signs(who: str, text: str, other: str) -> str:
    found = [sign for sign in dict.fromkeys(text) if not sign.isascii() and sign not in other][:4]
    names = ", ".join(f"U+{ord(sign):04X} ({unicodedata.name(sign, 'unnamed').lower()})" for sign in found)
    return f"\n{who} has {names}." if found else ""


def _numbered(lines: list[str], start: int, end: int) -> str:
    return "\n".join(f"{number + 1:>5}  {lines[number][:200]}" for number in range(start, end))


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
    search, replace = arguments.search, arguments.replace
    if not search and replace and context.knows(arguments.path):
        gap = file.newline if file.text and not file.text.endswith("\n") else ""
        return content, file, Edited(f"{file.text}{gap}{_with_newline(replace, file.newline)}", 1, "appended: search was empty")
    if search not in file.text and (bare := without_line_numbers(search, file.text)) != search:
        search, replace = bare, without_line_numbers(replace, file.text, is_sure=True)
    _check_whole(arguments.path, replace, file.text)
    if context.is_doubted and arguments.path.endswith(".json") and (text := with_members(file.text, search, replace)):
        return content, file, Edited(text, 1, "set by its key")
    try:
        edited = await asyncio.to_thread(apply_edit, file.text, search, replace, is_all=arguments.all, newline=file.newline)
    except ToolError as error:
        if context.on_reading(arguments.path) is Verdict.ALLOW:
            raise
        text = "the text is not there just once; nothing was changed"  # more would be a way to read the file
        raise ToolError(text, "Read the file first.") from error
    await asyncio.to_thread(_check_parses, arguments.path, file, edited.text, context)
    return content, file, edited


def _check_parses(path: str, file: TextFile, new: str, context: ToolContext) -> None:
    """Keep a model that is doubted from breaking a file that parses.

    Raises:
        ToolError: it would.
    """
    why = context.faults(path, file.encode(new)) if context.faults is not None else ""
    if why and context.faults is not None and not context.faults(path, file.encode(file.text)):
        text = f"{path} would not parse any more ({why}); nothing was changed"
        raise ToolError(text, "Replace whole lines, with all that belongs to them.")


def with_members(text: str, search: str, replace: str) -> str:
    """Return a JSON object with values set, as small models say it: by an object with the same keys, or a key and a bare value.

    Only the values are replaced in the text; empty where it is not such an edit, or a place is not clear.
    """
    try:
        whole, new = json.loads(text), json.loads(replace)
        old = {key: whole.get(key) for key in (search.strip("\"'"),)} if is_bare(new) else json.loads(search)
    except (ValueError, AttributeError):
        return ""
    new = new if isinstance(new, dict) else dict.fromkeys(old, new) if isinstance(old, dict) else new
    is_all = isinstance(whole, dict) and isinstance(old, dict) and old and isinstance(new, dict) and old.keys() == new.keys()
    if not is_all or any(key not in whole or whole[key] != value for key, value in old.items()):
        return ""
    for key, value in old.items():
        member = rf"({re.escape(json.dumps(key, ensure_ascii=False))}\s*:\s*){re.escape(json.dumps(value))}(?![\w.])"
        places = list(re.finditer(member, text))
        if len(places) != 1:
            return ""
        text = text[: places[0].end(1)] + json.dumps(new[key]) + text[places[0].end() :]
    return text


def is_bare(value: object) -> bool:
    """Tell whether a JSON value is a number, true, false or null."""
    return value is None or isinstance(value, bool | int | float)


async def _edit(arguments: EditArguments, context: ToolContext) -> ToolResult:
    content, file, edited = await _edited(arguments, context)
    if context.seen.get(arguments.path, content.sha256) != content.sha256:
        raise ToolError(f"{arguments.path} has changed since the edit was approved; nothing was changed. Read it again.")
    if context.hunks is not None:
        return await write_accepted(context, arguments.path, content, file, edited.text)
    await context.sandbox.write_file(arguments.path, file.encode(edited.text), expect_sha256=content.sha256)
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text)
    places = f"{edited.count} places" if edited.count > 1 else ""
    remark = ", ".join(part for part in (places, edited.remark) if part)
    shown = f"\nNow it reads:\n{_changed_lines(file.text, edited.text)}" if context.is_doubted else ""
    return ToolResult((f"ok ({remark})" if remark else "ok") + shown, counts(change), changes=(change,))


def _changed_lines(old: str, new: str) -> str:
    """Return the lines that an edit changed as they are now, with one around them, for a model that does not look again."""
    before, after = _bare(old), _bare(new)
    start = shared_head(before, after)
    tail = shared_head(before[start:][::-1], after[start:][::-1])
    return _numbered(after, max(0, start - 1), min(len(after) - tail + 1, start + _MOST_SHOWN, len(after)))


async def _preview(arguments: EditArguments, context: ToolContext) -> Preview:
    content, file, edited = await _edited(arguments, context)
    context.seen[arguments.path] = content.sha256
    change = await asyncio.to_thread(describe_change, arguments.path, file.text, edited.text, is_whole=True)
    hunks = await asyncio.to_thread(hunk_count, file.text, edited.text)
    return Preview(f"edit {arguments.path}  {counts(change)}\n\n{change.diff}", change.diff, arguments.path, hunks=hunks)


EDIT = PathTool(
    name="edit",
    description="Replace text in a file.",
    arguments=EditArguments,
    run=_edit,
    access=always(Access.WRITE),
    preview=_preview,
    aliases=("edit_file", "str_replace", "search_replace", "file_patch", "replace_in_file"),
)
