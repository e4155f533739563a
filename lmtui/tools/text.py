"""Text files as bytes and back: encoding, byte order mark, line ends and the final newline stay what they were."""

from __future__ import annotations

import codecs
import difflib
from dataclasses import dataclass

from lmtui.core.events import FileChange, FileChangeKind

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
        """Return a new text in the file's own encoding; UTF-8 where that cannot hold it."""
        try:
            return self.bom + text.encode(self.encoding)
        except UnicodeEncodeError:
            return text.encode("utf-8", "replace")

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
        return TextFile(data.decode("latin-1"), "latin-1")


def binary_kind(data: bytes) -> str:
    """Return in words what a binary file is."""
    return next((kind for magic, kind in _MAGIC if data.startswith(magic)), "a binary file")


def describe_change(path: str, old: str | None, new: str | None) -> FileChange:
    """Return what changed between two texts; None is no file.  The work is bounded by what differs, not by the file."""
    before, after = (old or "").splitlines(), (new or "").splitlines()
    kind = FileChangeKind.ADDED if old is None else FileChangeKind.DELETED if new is None else FileChangeKind.MODIFIED
    start = _common(before, after)
    end = _common(before[start:][::-1], after[start:][::-1])
    changed_before, changed_after = before[start : len(before) - end], after[start : len(after) - end]
    if len(changed_before) + len(changed_after) > _MAX_DIFF_LINES:
        return FileChange(path, kind, len(changed_after), len(changed_before))
    lead = max(0, start - 3)
    tail = 3 if end >= 3 else end
    window_before = before[lead : len(before) - end + tail]
    window_after = after[lead : len(after) - end + tail]
    lines = list(difflib.unified_diff(window_before, window_after, f"a/{path}", f"b/{path}", lineterm=""))
    lines = [_shifted(line, lead) if line.startswith("@@") else line for line in lines]
    added = sum(line.startswith("+") for line in lines[2:])
    removed = sum(line.startswith("-") for line in lines[2:])
    diff = "\n".join(lines)
    return FileChange(path, kind, added, removed, diff if len(diff) <= MAX_DIFF_CHARS else diff[:MAX_DIFF_CHARS] + "\n…")


def _common(left: list[str], right: list[str]) -> int:
    count = 0
    for one, other in zip(left, right, strict=False):
        if one != other:
            break
        count += 1
    return count


def _shifted(header: str, lines: int) -> str:
    """Return a hunk header whose line numbers count from the top of the whole file."""
    parts = header.split()
    return " ".join(["@@", *(_shift(part, lines) for part in parts[1:3]), "@@"])


def _shift(span: str, lines: int) -> str:
    start, comma, count = span[1:].partition(",")
    return f"{span[0]}{int(start) + lines}{comma}{count}"
