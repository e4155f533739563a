"""Text files as bytes and back: encoding, byte order mark, line ends and the final newline stay what they were."""

from __future__ import annotations

import codecs
import difflib
from collections.abc import Iterator
from dataclasses import dataclass

from lmtui.core.errors import ToolError
from lmtui.core.workspace import FileChange, FileChangeKind

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_MAGIC = (
    (b"\x7fELF", "an ELF program"),
    (b"\x89PNG", "a PNG image"),
    (b"\xff\xd8\xff", "a JPEG image"),
    (b"GIF8", "a GIF image"),
    (b"%PDF", "a PDF document"),
    (b"PK\x03\x04", "a ZIP archive (or an office document)"),
    (b"\x1f\x8b", "a gzip archive"),
    (b"SQLite format 3\0", "an SQLite database"),
    (b"RIFF", "a RIFF file (audio, video or WebP)"),
    (b"\xca\xfe\xba\xbe", "a Java class or a Mach-O program"),
    (b"\0asm", "a WebAssembly module"),
)
MAX_DIFF_CHARS = 64 * 1024
_MAX_DIFF_LINES = 20_000


@dataclass(frozen=True, slots=True)
class TextFile:
    """A decoded file: its text with the line ends it has, and how to write it back."""

    text: str
    encoding: str
    bom: bytes = b""

    def encode(self, text: str) -> bytes:
        """Return a new text in the file's own encoding; bytes that were no UTF-8 go back as they were.

        Raises:
            ToolError: the encoding cannot hold the text.
        """
        try:
            return self.bom + text.encode(self.encoding, "surrogateescape" if self.encoding == "utf-8" else "strict")
        except UnicodeEncodeError as error:
            sign = text[error.start : error.start + 1]
            raise ToolError(f"the file is {self.encoding} and cannot hold {sign!r}; nothing was changed") from error

    @property
    def newline(self) -> str:
        r"""Return the line end that the file uses most: `\n` or `\r\n`."""
        windows = self.text.count("\r\n")
        return "\r\n" if windows > self.text.count("\n") - windows else "\n"


def decode(data: bytes) -> TextFile | None:
    """Return the text of a file, None where it is binary."""
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            try:
                return TextFile(data[len(bom) :].decode(encoding), encoding, bom)
            except UnicodeDecodeError:
                return None
    if b"\0" in data[:8192]:
        return None
    try:
        return TextFile(data.decode("utf-8"), "utf-8")
    except UnicodeDecodeError:
        text = data.decode("utf-8", "surrogateescape")
        bad = sum("\udc80" <= char <= "\udcff" for char in text)
        is_utf8 = bad * 20 <= sum(char > "\x7f" for char in text)
        return TextFile(text, "utf-8") if is_utf8 else TextFile(data.decode("latin-1"), "latin-1")


def binary_kind(data: bytes) -> str:
    """Return in words what a binary file is."""
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "a binary file")


def describe_change(path: str, old: str | None, new: str | None, *, is_whole: bool = False) -> FileChange:
    """Return what changed between two texts; None is no file.  The work is bounded by what differs, not by the file.

    The diff is cut at 64 KiB unless `is_whole`.
    """
    before, after = (old or "").splitlines(), (new or "").splitlines()
    kind = FileChangeKind.ADDED if old is None else FileChangeKind.DELETED if new is None else FileChangeKind.MODIFIED
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    changed_before, changed_after = before[start : len(before) - end], after[start : len(after) - end]
    if len(changed_before) + len(changed_after) > _MAX_DIFF_LINES:
        return FileChange(path, kind, len(changed_after), len(changed_before))
    codes = _opcodes(before, after, start, end)
    lines = list(_diff_lines(path, before, after, codes))
    added = sum(j2 - j1 for tag, _, _, j1, j2 in codes if tag != "equal")
    removed = sum(i2 - i1 for tag, i1, i2, _, _ in codes if tag != "equal")
    diff = "\n".join(lines)
    is_cut = len(diff) > MAX_DIFF_CHARS and not is_whole
    return FileChange(path, kind, added, removed, diff[:MAX_DIFF_CHARS] + "\n…" if is_cut else diff)


_Opcode = tuple[str, int, int, int, int]


class _KnownOpcodes(difflib.SequenceMatcher[str]):
    """Groups opcodes that are known already into hunks."""

    def __init__(self, codes: list[_Opcode]) -> None:
        super().__init__(None, "", "")
        self._codes = codes

    def get_opcodes(self) -> list[_Opcode]:  # type: ignore[override]  # tags are texts here
        """Return the opcodes that were given."""
        return self._codes


def _opcodes(before: list[str], after: list[str], start: int, end: int) -> list[_Opcode]:
    """Return the opcodes of two texts whose first `start` and last `end` lines are known to be equal."""
    middle = difflib.SequenceMatcher(None, before[start : len(before) - end], after[start : len(after) - end], autojunk=False)
    shifted = [(tag, i1 + start, i2 + start, j1 + start, j2 + start) for tag, i1, i2, j1, j2 in middle.get_opcodes()]
    head = ("equal", 0, start, 0, start)
    tail = ("equal", len(before) - end, len(before), len(after) - end, len(after))
    return [code for code in (head, *shifted, tail) if code[1] < code[2] or code[3] < code[4]]


def _diff_lines(path: str, before: list[str], after: list[str], codes: list[_Opcode]) -> Iterator[str]:
    """Yield a unified diff with three lines around each change; nothing where nothing changed."""
    if all(code[0] == "equal" for code in codes):
        return
    yield from (f"--- a/{path}", f"+++ b/{path}")
    for group in _KnownOpcodes(codes).get_grouped_opcodes(3):
        first, last = group[0], group[-1]
        yield f"@@ -{_span(first[1], last[2])} +{_span(first[3], last[4])} @@"
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                yield from (f" {line}" for line in before[i1:i2])
                continue
            yield from (f"-{line}" for line in before[i1:i2])
            yield from (f"+{line}" for line in after[j1:j2])


def _span(start: int, end: int) -> str:
    """Return a range of a hunk header (GNU diffutils manual, “Detailed Unified”): an empty one stands before its line."""
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + (size > 0)},{size}"


def _common(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count
