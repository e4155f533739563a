"""Text files as bytes and back: encoding, byte order mark, line ends and the final newline stay what they were."""

from __future__ import annotations

import codecs
import contextlib
import re
import unicodedata
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from lmtui.core.errors import ToolError
from lmtui.core.line_diff import Span, compare, hunks_of, split_lines
from lmtui.core.workspace import FileChange, FileChangeKind

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_LINE = re.compile(r"[^\r\n]*(?:\r\n|\r|\n)|[^\r\n]+")
_NUMBERED = re.compile(r"( *)(\d{1,6})(?:( {2}|\t|: |\| )(.*))?")
_READS = 5  # the width of a line number as `read` shows it
_REST = r"(?:the |all |your )?(?:rest|existing|remaining|remainder|unchanged|other|same|previous|omitted)\b"
_ELIDED = re.compile(
    rf"[ \t]*(?:#|//|/\*|<!--|--|;)?[ \t]*[\[(]?(?:\.{{3}}|…)[ \t]*[\[(]?{_REST}[^\n]*"
    rf"|[ \t]*(?:#|//|/\*|<!--|--|;)[ \t]*[\[(]?{_REST}[^\n]*(?:unchanged|the same|as before|here|\.{{3}}|…)[^\n]*",
    re.IGNORECASE,
)
_BLANKS = "\xa0\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007\u2008\u2009\u200a\u202f\u205f\u3000"
_QUOTES, _DOUBLE = "\u2018\u2019\u201a\u201b\u2032\u02bc", "\u201c\u201d\u201e\u201f\u2033"
_DASHES, _HIDDEN = "\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "\xad\u200b\u200c\u200d\u2060\ufeff"
_GROUPS = ((_BLANKS, " "), (_QUOTES, "'"), (_DOUBLE, '"'), (_DASHES, "-"), (_HIDDEN, ""))
_PLAIN = {ord(sign): plain for signs, plain in _GROUPS for sign in signs}
_CLUSTER = re.compile(r"(?s).[\u0300-\u036f]*")
_MOST_FOLDED_CHARS = 1_000_000
MAX_DIFF_CHARS = 64 * 1024
MAX_DIFF_LINES = 20_000


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
            text = f"the file is {self.encoding} and cannot hold {sign!r}; nothing was changed"
            raise ToolError(text, "Use other characters. For a file in UTF-8, delete this one first.") from error

    @property
    def newline(self) -> str:
        r"""Return the line end that the file uses most: `\n` or `\r\n`; `\r` only where it uses no other."""
        windows, ends = self.text.count("\r\n"), self.text.count("\n")
        return "\r\n" if windows > ends - windows else "\r" if "\r" in self.text and not ends else "\n"

    def with_own_ends(self, text: str) -> str:
        """Return a text for the whole file with the file's line ends and its last newline or none; lines that stay keep theirs.

        A text that differs in nothing but the last newline has its own: that is the change.
        """
        text = text.removeprefix("\ufeff") if self.bom else text
        old, new = lines_of(self.text), lines_of(text)
        bare, lines = [line.rstrip("\r\n") for line in old], [line.rstrip("\r\n") for line in new]
        if not old or not new:
            return text
        ends = ["\r" if line.endswith("\r") else self.newline for line in new]
        for span in compare(bare, lines):
            if span.is_equal:
                kept = zip(old[span.old_start : span.old_end], bare[span.old_start : span.old_end], strict=True)
                ends[span.new_start : span.new_end] = [line[len(words) :] or self.newline for line, words in kept]
        if not (new if bare == lines else old)[-1].endswith(("\n", "\r")):
            ends[-1] = ""
        return "".join(line + end for line, end in zip(lines, ends, strict=True))


def elided_line(text: str, known: str) -> str:
    """Return the first line that only represents text of a file (“# ... rest of the code”), empty where none does."""
    there = {line.strip() for line in lines_of(known)}
    lines = (line.strip() for line in lines_of(text))
    return next((line for line in lines if _ELIDED.fullmatch(line) and line not in there), "")


def without_line_numbers(text: str, known: str, *, is_sure: bool = False) -> str:
    """Return a text without the line numbers of `read`, where a model copied them with it.

    Each line has one, they go up by one, and half of the lines at least are those of the known text; where nothing is known,
    they look exactly as `read` shows them, from the first line on.  `is_sure`: it is known that they were copied.
    """
    lines = lines_of(text)
    found = [_NUMBERED.fullmatch(line.rstrip("\r\n ")) for line in lines]
    numbered = [(int(each[2]), each) for each in found if each is not None]
    if not lines or len(numbered) < len(lines) or any(n - at != numbered[0][0] for at, (n, _) in enumerate(numbered)):
        return text
    there = dict(enumerate((line.rstrip() for line in lines_of(known)), 1))
    same = sum(there.get(number) == (each[4] or "").rstrip() for number, each in numbered)
    as_shown = all(len(each[1] + each[2]) == _READS and each[3] in ("  ", None) for _, each in numbered)
    is_whole = not known and as_shown and numbered[0][0] == 1 and len(lines) > 1
    if not is_sure and not is_whole and same * 2 < len(lines):
        return text
    ends = (line[len(line.rstrip("\r\n")) :] for line in lines)
    return "".join((each[4] or "") + end for (_, each), end in zip(numbered, ends, strict=True))


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


def read_words(data: bytes) -> str:
    """Return the text of a file that people write, in whatever encoding their editor or PowerShell chose."""
    with contextlib.suppress(UnicodeDecodeError):  # a file that is cut may end in half a character
        return codecs.getincrementaldecoder("utf-8-sig")().decode(data)
    file = decode(data)
    return (file.text if file is not None else data.decode("utf-8", "replace")).encode("utf-8", "replace").decode()


def lines_of(text: str) -> list[str]:
    """Return the lines of a text with their ends, numbered as editors and grep number them.

    Only line breaks end one; `str.splitlines` would take form feeds, U+2028 and others for line ends, and lose them.
    """
    return _LINE.findall(text)


def _plain(text: str) -> list[tuple[str, int, int]]:
    """Return what the characters of a text look like, and where each begins and ends."""
    found = [(unicodedata.normalize("NFC", each[0]).translate(_PLAIN), *each.span()) for each in _CLUSTER.finditer(text)]
    return [each for each in found if each[0]]


def shared_head(left: list[str], right: list[str]) -> int:
    """Return how many items two lists begin with alike."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((at for at, (one, other) in pairs if one != other), min(len(left), len(right)))


def look_alike_signs(text: str) -> str:
    """Name the characters of a text that look like others: blanks, quotes, dashes and accents of their own."""
    signs = dict.fromkeys(sign for sign in text if ord(sign) in _PLAIN or unicodedata.combining(sign))
    return ", ".join(f"U+{ord(sign):04X} ({unicodedata.name(sign, '').lower()})" for sign in list(signs)[:4])


def replace_look_alikes(text: str, search: str, replace: str) -> tuple[list[int], str, str]:
    """Replace a text that looks the same as `search`; of it, what `search` and `replace` share stays as it is.

    Returns:
        The lines where it was found, the new text, and the names of the characters that differ.
    """
    if (text + search).isascii() or len(text) > _MOST_FOLDED_CHARS:
        return [], text, ""
    spans, new_spans = _plain(text), _plain(replace)
    have, want, new = ([each[0] for each in found] for found in (spans, _plain(search), new_spans))
    head = shared_head(want, new)
    tail = shared_head(want[head:][::-1], new[head:][::-1])
    middle = replace[new_spans[head - 1][2] if head else 0 : new_spans[-tail][1] if tail else len(replace)]
    size, at, lines, result, signs, done = len(want), 0, list[int](), "", "", 0
    while size and at <= len(have) - size:
        if have[at] != want[0] or have[at : at + size] != want:
            at += 1
            continue
        start = spans[at + head - 1][2] if head else spans[at][1]
        end = spans[at + size - tail][1] if tail else spans[at + size - 1][2]
        lines.append(text.count("\n", 0, spans[at][1]) + 1)
        signs += text[spans[at][1] : spans[at + size - 1][2]]
        result, done, at = result + text[done:start] + middle, end, at + size
    return lines, result + text[done:], look_alike_signs(signs) or look_alike_signs(search) or "other characters for the same"


def describe_change(path: str, old: str | None, new: str | None, *, is_whole: bool = False) -> FileChange:
    """Return what changed between two texts; None is not a file.  The work is bounded by what differs, not by the file.

    The diff is cut at 64 KiB unless `is_whole`.
    """
    before, after = split_lines(old or ""), split_lines(new or "")
    kind = FileChangeKind.ADDED if old is None else FileChangeKind.DELETED if new is None else FileChangeKind.MODIFIED
    spans = compare(before, after)
    added, removed = _counts(spans)
    if added + removed > MAX_DIFF_LINES:
        return FileChange(path, kind, added, removed)
    diff = "\n".join(diff_lines(path, before, after, spans))
    is_cut = len(diff) > MAX_DIFF_CHARS and not is_whole
    return FileChange(path, kind, added, removed, diff[:MAX_DIFF_CHARS] + "\n…" if is_cut else diff)


def hunk_count(old: str, new: str) -> int:
    """Return how many hunks of a change can be chosen one by one, 0 for one too large to be shown line by line."""
    before, after = split_lines(old), split_lines(new)
    spans = compare(before, after)
    return len(hunks_of(spans, is_fine=True)) if sum(_counts(spans)) <= MAX_DIFF_LINES else 0


def diff_lines(
    path: str, before: list[str], after: list[str], spans: list[Span], only: Collection[int] | None = None
) -> Iterator[str]:
    """Yield a unified diff with three lines around each change, or `only` some fine hunks; nothing where nothing changed.

    A line end is shown where some lines end in one way and some in another.
    """
    hunks = hunks_of(spans, is_fine=only is not None)
    ends = frozenset("\r\n" if line.endswith("\r\n") else "\n" for line in (*before[:-1], *after[:-1]))
    if hunks:
        yield from (f"--- a/{path}", f"+++ b/{path}")
    for number, hunk in enumerate(hunks):
        if only is not None and number not in only:
            continue
        first, last = hunk[0], hunk[-1]
        yield f"@@ -{_span(first.old_start, last.old_end)} +{_span(first.new_start, last.new_end)} @@"
        for span in hunk:
            if span.is_equal:
                yield from _signed(" ", before[span.old_start : span.old_end], "\r\n")
                continue
            hidden = "\r\n" if len(ends) < 2 else "\n"
            yield from _signed("-", before[span.old_start : span.old_end], hidden)
            yield from _signed("+", after[span.new_start : span.new_end], hidden)


def _signed(sign: str, lines: list[str], hidden: str) -> Iterator[str]:
    for line in lines:
        bare = line.removesuffix("\n")
        yield sign + (bare.removesuffix("\r") if "\r" in hidden else bare)
        if len(bare) == len(line):
            yield "\\ No newline at end of file"


def _counts(spans: list[Span]) -> tuple[int, int]:
    """Return how many lines were added and removed."""
    changed = [span for span in spans if not span.is_equal]
    return sum(span.new_end - span.new_start for span in changed), sum(span.old_end - span.old_start for span in changed)


def _span(start: int, end: int) -> str:
    """Return a range of a hunk header (GNU diffutils manual, “Detailed Unified”): an empty one is before its line."""
    size = end - start
    return f"{start + 1}" if size == 1 else f"{start + (size > 0)},{size}"
