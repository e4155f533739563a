"""Cuts files into the chunks that a search returns, and names into the words by which they are found.  No I/O.

Code is cut at its blank lines, Python too: `ast.parse` keeps every other thread waiting while it
works, may crash the interpreter on a hostile file (its documentation says so), and knows nothing of
a file that does not parse.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from lmtui.features.memory.values import SearchSource
from lmtui.tools.text import lines_of

MAX_CHUNK_CHARS = 1_500
_LEAST_OF_TEXT, _LEAST_OF_CODE, _MAX_TITLE_CHARS, _LONG_LINE_CHARS = 900, 400, 300, 3_000
_MARKDOWN = (".md", ".markdown")
_DOCUMENTS = (*_MARKDOWN, ".rst", ".txt", ".adoc", ".org", ".tex", ".html", ".htm")
_DATA = (
    ".svg", ".csv", ".tsv", ".jsonl", ".ndjson", ".map", ".lock", ".sum", ".min.js", ".min.css", ".patch", ".diff", ".log",
    "package-lock.json", "pnpm-lock.yaml",
)  # fmt: skip
_HEADING = re.compile(r"#{1,6}[ \t]+(.+)")
_FENCE = re.compile(r" {0,3}(```|~~~)")
_DEFINED = re.compile(
    r"[ \t]*(?:(?:export|default|public|private|protected|internal|static|final|abstract|pub(?:\([a-z]+\))?|async|unsafe|"
    r"inline|extern|virtual|override|open|sealed|data|partial|local)[ \t]+)*"
    r"(?:def|class|function|func|fn|fun|interface|struct|enum|trait|impl|type|module|mod|namespace|record|object|macro_rules!|"
    r"const|let|var|val|static|sub|proc|defmodule|defp|defn)[ \t*]+(?:\([^()\n]{0,80}\)[ \t]*)?([^\W\d][\w$.]*)"
)
_UNSPACED = "\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af"  # Chinese, Japanese and Korean are written without spaces
_SEAM = re.compile(f"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|(?<=[{_UNSPACED}])(?=[{_UNSPACED}])")
_WORD = re.compile(r"[^\W_]+")
_SMALL = """\
a about after again all also am an and another any are as at be because been before being but by can
could did do does doing done for from get gets got had has have having he her here him his how i if
in into is isn it its just know let like me my no not of off on once only or other our out over
please said same say see shall she should so some such than that the their them then there these
they this those though to too under until up us use used uses using very want wants was we well were
what when where which while who whose why will with within without would you your
"""
STOP_WORDS = frozenset(_SMALL.split())


@dataclass(frozen=True, slots=True)
class Chunk:
    """A part of a file: lines `first` to `last`, counted from 1.  `title` names what is defined there, or its heading."""

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


def split_names(text: str) -> str:
    """Return a text with the words of its names apart: `readPlain` is `read Plain`."""
    return _SEAM.sub(" ", text)


def words_of(text: str) -> list[str]:
    """Return the words that say something, in lower case."""
    return [word for word in _WORD.findall(split_names(text).lower()) if word not in STOP_WORDS]


def cut(path: str, text: str) -> list[Chunk]:
    """Return the chunks of a file in its order.

    Each line that is not blank is in just one of them, and a line that is longer than a chunk in
    several.
    """
    lines = lines_of(text)
    is_markdown = path.lower().endswith(_MARKDOWN)
    headings = _headings(lines) if is_markdown else {}
    title = outer = ""
    found: list[Chunk] = []
    for start, end in _parts(lines, headings, _LEAST_OF_TEXT if is_markdown else _LEAST_OF_CODE):
        if is_markdown:
            title = headings.get(start, title)
        else:
            title, outer = _names(lines[start:end], outer)
        if shown := [at for at in range(start, end) if lines[at].strip()]:
            whole = "".join(lines[shown[0] : shown[-1] + 1])  # longer than a chunk only where it is one line
            pieces = (whole[at : at + MAX_CHUNK_CHARS] for at in range(0, len(whole), MAX_CHUNK_CHARS))
            found += [Chunk(shown[0] + 1, shown[-1] + 1, piece, title[:_MAX_TITLE_CHARS]) for piece in pieces]
    return found


def _headings(lines: Sequence[str]) -> dict[int, str]:
    """Return the headings of a Markdown file by their lines."""
    found: dict[int, str] = {}
    fence = ""
    for number, line in enumerate(lines):
        if mark := _FENCE.match(line):
            fence = "" if fence == mark[1] else fence or mark[1]
        elif not fence and (heading := _HEADING.match(line)):
            found[number] = heading[1].strip(" #\t\r\n")
    return found


def _parts(lines: Sequence[str], headings: Collection[int], least: int) -> Iterator[tuple[int, int]]:
    """Yield parts that end before a heading, before a paragraph once they have so many characters, or where a chunk is full."""
    start = size = 0
    for at, line in enumerate(lines):
        is_new = at in headings or (size >= least and line.strip() and not lines[at - 1].strip())
        if size and (is_new or size + len(line) > MAX_CHUNK_CHARS):
            yield start, at
            start, size = at, 0
        size += len(line)
    yield start, len(lines)


def _names(lines: Sequence[str], outer: str) -> tuple[str, str]:
    """Return what is defined in these lines, and what the lines below them are in."""
    names: list[str] = []
    for line in lines:
        if (match := _DEFINED.match(line)) is not None:
            is_inside = line[0].isspace() and outer
            names.append(f"{outer}.{match[1]}" if is_inside else match[1])
            outer = outer if is_inside else match[1]
    return " ".join(dict.fromkeys(names)) or outer, outer
