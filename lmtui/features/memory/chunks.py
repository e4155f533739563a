"""Cuts files into the chunks that a search returns, and texts into the words by which they are found.  No I/O.

Code is cut at its blank lines, Python too: `ast.parse` keeps every other thread waiting while it works, may crash the
interpreter on a hostile file (its documentation says so), and knows nothing of a file that does not parse.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise

from lmtui.features.memory.values import SearchSource
from lmtui.tools.text import lines_of

MAX_CHUNK_CHARS = 1_500
_SMALL_CHARS = 700
_MAX_TITLE_CHARS = 300
_MAX_TOKEN_CHARS = 100
_LONG_LINE_CHARS = 3_000

_DOCUMENTS = (".md", ".markdown", ".rst", ".txt", ".adoc", ".org", ".tex", ".html", ".htm")
_MARKDOWN = (".md", ".markdown")
_DATA = (
    ".svg", ".csv", ".tsv", ".jsonl", ".ndjson", ".map", ".lock", ".sum", ".min.js", ".min.css", ".patch", ".diff", ".log",
    "package-lock.json", "pnpm-lock.yaml",
)  # fmt: skip

_HEADING = re.compile(r"(#{1,6})[ \t]+(.+)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_DEFINED = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|internal|static|final|abstract|pub(?:\([a-z]+\))?|async|unsafe|"
    r"inline|extern|virtual|override|open|sealed|data|partial|local)[ \t]+)*"
    r"(?:def|class|function|func|fn|fun|interface|struct|enum|trait|impl|type|module|mod|namespace|record|object|macro_rules!|"
    r"const|let|var|val|static|sub|proc|defmodule|defp|defn)[ \t*]+(?:\([^()\n]{0,80}\)[ \t]*)?([^\W\d][\w$.]*)"
)
_ASSIGNED = re.compile(r"([A-Za-z_]\w*)(?:[ \t]*:[^=\n]{1,80})?[ \t]*=(?!=)")


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file: lines `first` to `last`, counted from 1.  `title` names what is defined there, or its headings."""

    first: int
    last: int
    text: str
    title: str = ""


def source_of(path: str) -> SearchSource | None:
    """Return what a file is by its name, None for data that nobody looks for by words."""
    name = path.lower()
    if name.endswith(_DATA):
        return None
    return SearchSource.DOC if name.endswith(_DOCUMENTS) else SearchSource.CODE


def is_generated(text: str) -> bool:
    """Tell whether a text is minified, or one long line of data."""
    longest = max(map(len, lines_of(text)), default=0)
    return longest > _LONG_LINE_CHARS and longest * 2 > len(text)


def cut(path: str, text: str) -> list[Chunk]:
    """Return the chunks of a file in its order.

    Each line that is not blank is in just one of them, and a line that is longer than a chunk in several.
    """
    lines = lines_of(text)
    if not lines:
        return []
    parts = _sections(lines) if path.lower().endswith(_MARKDOWN) else _blocks(lines)
    found: list[Chunk] = []
    for start, end, title in parts:
        shown = [at for at in range(start, end) if lines[at].strip()]
        if shown:
            whole = "".join(lines[shown[0] : shown[-1] + 1])  # longer than a chunk only where it is one line
            pieces = [whole[at : at + MAX_CHUNK_CHARS] for at in range(0, len(whole), MAX_CHUNK_CHARS)]
            found += [Chunk(shown[0] + 1, shown[-1] + 1, piece, title[:_MAX_TITLE_CHARS]) for piece in pieces]
    return found


Part = tuple[int, int, str]


def _sections(lines: Sequence[str]) -> Iterator[Part]:
    """Yield the sections of a Markdown file, each with the headings above it."""
    marks: list[tuple[int, str]] = [(0, "")]
    path: list[tuple[int, str]] = []
    fence = ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            level = len(heading[1])
            path = [*(each for each in path if each[0] < level), (level, heading[2].strip(" #\t\r\n"))]
            marks.append((number, " > ".join(name for _, name in path)))
    for (start, title), (end, _) in pairwise([*marks, (len(lines), "")]):
        for first, last, _ in _pack(_by_blank_lines(lines, start, end), lines, MAX_CHUNK_CHARS):
            yield first, last, title


def _by_blank_lines(lines: Sequence[str], start: int, end: int) -> list[Part]:
    starts = [at for at in range(start, end) if at == start or (lines[at].strip() and not lines[at - 1].strip())]
    return [part for a, b in pairwise([*starts, end]) for part in _by_size(lines, a, b)]


def _blocks(lines: Sequence[str]) -> Iterator[Part]:
    """Yield the parts of code: paragraphs that fit together, each with the names that it defines and what they are in."""
    outer = ""
    for first, last, _ in _pack(_by_blank_lines(lines, 0, len(lines)), lines, _SMALL_CHARS):
        names: list[str] = []
        for line in lines[first:last]:
            is_inside = line[:1].isspace()
            if (match := _DEFINED.match(line) or (None if is_inside else _ASSIGNED.match(line))) is not None:
                outer = outer if is_inside else match[1]
                names.append(f"{outer}.{match[1]}" if is_inside and outer else match[1])
        yield first, last, " ".join(dict.fromkeys(names)) or outer


def _pack(parts: Sequence[Part], lines: Sequence[str], most: int) -> list[Part]:
    """Join neighbours while together they have at most so many characters."""
    found: list[Part] = []
    for start, end, title in parts:
        if found and _size(lines, found[-1][0], end) <= most:
            before = found[-1]
            found[-1] = before[0], end, " ".join(dict.fromkeys(filter(None, (before[2], title))))
        else:
            found.append((start, end, title))
    return found


def _by_size(lines: Sequence[str], start: int, end: int) -> Iterator[Part]:
    """Cut lines where a chunk is full; a line that is longer is left to itself."""
    first, size = start, 0
    for at in range(start, end):
        if size and size + len(lines[at]) > MAX_CHUNK_CHARS:
            yield first, at, ""
            first, size = at, 0
        size += len(lines[at])
    yield first, end, ""


def _size(lines: Sequence[str], start: int, end: int) -> int:
    return sum(map(len, lines[start:end]))


_TOKEN = re.compile(r"\w+(?:\.\w+)*")
_PIECE = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")
_UNSPACED = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")  # Chinese, Japanese and Korean are written without spaces
_SUFFIX = re.compile(
    r"(?:i[sz]ations?|ational|ations?|ions?|ments?|ness|ings?|edly|ables?|ibles?|ively|ives?|ally|als?|ers?|ors?|ies|ied|eds?|"
    r"ly|es|ed|(?<!s)s|e|y)\Z"
)
STOP_WORDS = frozenset(
    re.findall(
        r"\w+",
        """
        a about after again all also am an and another any are as at be because been before being but by can could
        did do does doing done for from get gets got had has have having he her here him his how i if in into is isn
        it its just know let like me my no not of off on once only or other our out over please said same say see
        shall she should so some such than that the their them then there these they this those though to too under
        until up us use used uses using very want wants was we well were what when where which while who whose why
        will with within without would you your
        """,
    )
)


def words_of(text: str) -> list[str]:
    """Return the words by which a text is found, in their order.

    A name counts as a whole and in its parts: `core.read_plain` is also `read_plain`, `read` and `plain`.  English words are
    cut to their stems; words that say nothing are left out.
    """
    if not text.isascii():
        text = "".join(each for each in unicodedata.normalize("NFKD", text) if not unicodedata.combining(each))
        text = unicodedata.normalize("NFC", text)
    return [word for token in _TOKEN.findall(text) for word in _forms(token[:_MAX_TOKEN_CHARS])]


@lru_cache(maxsize=65_536)
def _forms(token: str) -> tuple[str, ...]:
    if not token.isascii() and _UNSPACED.search(token):
        pairs = (token[at : at + 2] for at in range(max(1, len(token) - 1)))
        return tuple(pair for pair in pairs if pair not in STOP_WORDS)
    found: list[str] = []
    names = [name.strip("_") for name in token.split(".")]
    for name in names:
        pieces = _PIECE.findall(name) if name.isascii() else [each for each in name.split("_") if each]
        if len(pieces) > 1:
            found.append(name.casefold())
        found += [stem(piece.casefold()) for piece in pieces]
    if len(names) > 1:
        found.append(".".join(names).strip(".").casefold())
    return tuple(word for word in found if (len(word) > 1 or not word.isascii()) and word not in STOP_WORDS)


def stem(word: str) -> str:
    """Return a lower-case English word without its endings; a word of other letters stays."""
    if not word.isascii() or len(word) < 4 or word in STOP_WORDS:
        return word
    for _ in range(2):
        cut_off = _SUFFIX.search(word, 3)
        if cut_off is None:
            break
        word = word[: cut_off.start()]
    return word[:-1] if len(word) > 3 and word[-1] == word[-2] else word
