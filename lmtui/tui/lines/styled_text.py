"""Styled lines as plain values: what a line widget draws before any theme is known.

A line is a tuple of spans, a span a text and the names of its roles (`"strong link"`); roles become colours in `paint`.
Widths are terminal cells.  Texts are expected to be clean already; nothing here reads markup.
"""

from __future__ import annotations

import re
import sys
from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Literal, cast, get_args
from urllib.parse import quote

from rich.cells import cell_len, chop_cells, set_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.dom import DOMNode
from textual.strip import Strip
from textual.widget import Widget

StyleRole = Literal[
    "", "muted", "accent", "good", "bad", "warn", "strong", "em", "strike", "code", "link", "heading", "block",
    "keyword", "string", "comment", "number", "function", "type", "added", "removed", "added-word", "removed-word",
    "match", "cursor", "selected", "caret", "own", "edge",
    "muted em", "muted strike", "accent caret", "good strong", "bad strong", "warn strong", "removed-word strong",
    "match strong",
]  # fmt: skip
STYLES = {"muted": "$text-muted", "accent": "$accent", "good": "$success", "warn": "$warning", "bad": "$error"}
ROLES = frozenset(role for name in get_args(StyleRole) for role in name.split())
PREFIX = "@"
_LONGEST = 2000
_TARGET = re.compile(r"https?://[A-Za-z0-9._~:\[\]-]+(?:[/?#][!-~]*)?")
_SAFE = "!#$%&'()*+,-./:;=?@[]_~"


def join_roles(*roles: StyleRole) -> StyleRole:
    """Return several roles as one, later ones over earlier ones."""
    return cast("StyleRole", " ".join(filter(None, roles)))


def link_role(target: str) -> StyleRole:
    """Return the role of a text that leads to a target; empty for one that is not a web address."""
    address = quote(target.strip(), safe=_SAFE, errors="replace")
    return cast("StyleRole", f"{PREFIX}{address}") if len(address) <= _LONGEST and _TARGET.fullmatch(address) else ""


def link_target(role: str) -> str:
    """Return the address in a role that `link_role` made, checked once more; empty for any other role."""
    address = role[len(PREFIX) :]
    return address if role.startswith(PREFIX) and _TARGET.fullmatch(address) else ""


Span = tuple[str, StyleRole]
Line = tuple[Span, ...]
Place = tuple[int, int]  # in a source, whatever the width: a part of it and a line of that; or a line and a character

ELLIPSIS, CONTINUED = "…", "↪"
BARS = ("▌ ", "│ ")  # beside a message of one's own, and beside output
_MOST_LEADING = 4
_WORD = re.compile(r"\S+\s*|\s+")
_NARROWEST = 2


def plain(line: Line) -> str:
    """Return the text of a line."""
    return "".join(text for text, _ in line)


class LineSource:
    """What a line view shows, however much it is; only lines that come into view are asked for.

    The `lead_cells` cells at the beginning of each line, and the bar behind them, are not text and are never copied.
    """

    lead_cells = 0
    width = 80
    revision = 0  # another number once there is something else to find

    @abstractmethod
    def total(self) -> int:
        """Return how many lines there are."""

    @abstractmethod
    def line(self, number: int) -> Line:
        """Return one line, at most as wide as the pane."""

    def set_width(self, width: int) -> None:
        """Take up the width of the pane in cells."""
        self.width = width

    def lead_of(self, number: int) -> int:
        """Return how many characters of a line come before its text."""
        at = 0
        for text, role in self.line(number)[:_MOST_LEADING]:
            at += len(text)
            if role and text in BARS:
                return at
            if text.strip():
                break
        return self.lead_cells

    def continues(self, number: int) -> bool:
        """Tell whether a line is the rest of the one above, which was too long."""
        del number
        return False

    def place_at(self, line: int) -> Place:
        """Return the place of a line."""
        return line, 0

    def line_of(self, place: Place) -> int:
        """Return the line that a place is in."""
        return place[0]

    def moved(self, place: Place, lines: int) -> Place:
        """Return the place that is so many lines below, or for a negative number above."""
        return self.place_at(max(0, min(self.total() - 1, self.line_of(place) + lines)))

    def settle(self, place: Place | None, rows: int) -> Place:
        """Make exact what is about to be seen in so many rows from a place on (None: up from the end); return the place."""
        del rows
        return place or (0, 0)

    def find(self, words: str) -> Iterator[Place | None]:
        """Yield the places of words, letter case aside, in order, and None now and then so that others can work."""
        wanted = words.casefold()
        for number in range(self.total()):
            yield (number, 0) if wanted in plain(self.line(number)).casefold() else None

    def reveal(self, place: Place, words: str) -> Place:
        """Make a place seen where `find` found words, and return where that is."""
        del words
        return place


def width_of(line: Line) -> int:
    """Return how many cells a line takes."""
    return sum(cell_len(text) for text, _ in line)


def wrap(line: Line, width: int) -> list[Line]:
    """Break a line at spaces so that no part is wider than `width`; a longer word is cut.  Spaces at a break are dropped."""
    text = plain(line)
    if _fits(text, width):
        return [line]
    return [strip_end(part) for part in _cut(line, _word_breaks(text, max(width, _NARROWEST)))]


def fold(line: Line, width: int) -> list[Line]:
    """Break a line of code or output so that no part is wider than `width`; every character is kept."""
    text = plain(line)
    return [line] if _fits(text, width) else list(_cut(line, code_breaks(text, width)))


def code_breaks(text: str, width: int) -> list[int]:
    """Return where to break a text for rows of a width: behind a blank near the end of a row, else at its end."""
    breaks: list[int] = []
    at, width, is_ascii = 0, max(width, _NARROWEST), text.isascii()
    while True:
        end = at + (width if is_ascii else len(chop_cells(text[at : at + width], width)[0]))
        if end >= len(text):
            return breaks
        blank = -1 if text[end] == " " else text.rfind(" ", at + (end - at) * 2 // 3, end)
        at = blank + 1 if blank >= 0 else end
        breaks.append(at)


def crop(line: Line, width: int) -> Line:
    """Return a line that is at most `width` cells wide, ending in an ellipsis where something was left out."""
    if width_of(line) <= width:
        return line
    room = width - 1
    kept: list[Span] = []
    for text, role in line:
        size = cell_len(text)
        if size > room:
            kept.append(((_head(text, room) + ELLIPSIS)[:width], role))
            break
        kept.append((text, role))
        room -= size
    return tuple(kept)


def fit(text: str, width: int) -> str:
    """Return a text of at most `width` cells, cut at its end."""
    if _fits(text, width):
        return text
    if width < 1:
        return ""
    return _head(text, width - 1) + ELLIPSIS


def fit_middle(text: str, width: int) -> str:
    """Return a text of at most `width` cells, cut in its middle; the end, where a path says most, gets more room."""
    if _fits(text, width):
        return text
    if width < 1:
        return ""
    head = (width - 1) // 3
    return _head(text, head) + ELLIPSIS + _tail(text, width - 1 - head)


def fit_path(path: str, width: int) -> str:
    """Return a path of at most `width` cells: folders go first, from its front; only a name that alone is too long is cut."""
    names = path.split("/")
    ends = (f"{ELLIPSIS}/{'/'.join(names[at:])}" for at in range(1, len(names)))
    return next((each for each in (path, *ends) if _fits(each, width)), fit_middle(names[-1], width))


def pad(text: str, width: int) -> str:
    """Return a text filled with spaces to `width` cells."""
    return text + " " * (width - cell_len(text))


def row(left: Line, right: Line, width: int, gap: int = 2) -> Line:
    """Return one line with `left` at its start (cropped if need be) and `right` at its end, `gap` blanks between them."""
    right_width = width_of(right)
    if not right_width:
        return crop(left, width)
    room = width - right_width - gap
    if room < 1:
        return crop(left, width)
    shown = crop(left, room)
    return (*shown, (" " * (width - right_width - width_of(shown)), ""), *right)


def fill(line: Line, width: int, role: StyleRole) -> Line:
    """Return a line with `role` under all of it, out to `width` cells."""
    under = tuple((text, join_roles(role, own)) for text, own in line)
    rest = width - width_of(line)
    return (*under, (" " * rest, role)) if rest > 0 else under


def indent(lines: Iterable[Line], first: Line, rest: Line | None = None) -> list[Line]:
    """Return lines with `first` before the first and `rest` (else `first`) before the others."""
    lead = first
    found: list[Line] = []
    for line in lines:
        found.append((*lead, *line))
        lead = first if rest is None else rest
    return found


def slice_line(line: Line, start: int, end: int = sys.maxsize) -> Line:
    """Return the characters from `start` up to `end` of a line, styles kept."""
    found: list[Span] = []
    at = 0
    for text, role in line:
        if at >= end:
            break
        piece = text[max(0, start - at) : end - at]
        if piece:
            found.append((piece, role))
        at += len(text)
    return tuple(found)


def restyle(line: Line, start: int, end: int, role: StyleRole) -> Line:
    """Return a line with `role` added to the characters from `start` up to `end`."""
    middle = tuple((text, join_roles(own, role)) for text, own in slice_line(line, start, end))
    return (*slice_line(line, 0, start), *middle, *slice_line(line, end))


def _fits(text: str, width: int) -> bool:
    size = len(text)
    if size > width:
        return not text.isascii() and cell_len(text) <= width
    return size * 2 <= width or text.isascii() or cell_len(text) <= width


def _word_breaks(text: str, width: int) -> list[int]:
    breaks: list[int] = []
    used = 0
    for match in _WORD.finditer(text):
        word = match[0]
        bare = word.rstrip()
        size = cell_len(bare)
        if used + size > width and bare:
            if used:
                breaks.append(match.start())
                used = 0
            if size > width:
                at = match.start()
                parts = chop_cells(bare, width)
                for part in parts[:-1]:
                    at += len(part)
                    breaks.append(at)
                size = cell_len(parts[-1])
        used += size + len(word) - len(bare)
    return breaks


def _cut(line: Line, breaks: list[int]) -> Iterator[Line]:
    starts = iter(breaks)
    next_break = next(starts, -1)
    part: list[Span] = []
    at = 0
    for text, role in line:
        begin = 0
        while next_break >= 0 and next_break < at + len(text):
            if next_break - at > begin:
                part.append((text[begin : next_break - at], role))
            begin = next_break - at
            yield tuple(part)
            part = []
            next_break = next(starts, -1)
        if begin < len(text):
            part.append((text[begin:], role))
        at += len(text)
    yield tuple(part)


def split_lines(spans: Iterable[Span]) -> list[Line]:
    """Return spans as lines, split at the newlines in their texts."""
    found: list[list[Span]] = [[]]
    for text, role in spans:
        first, *others = text.split("\n")
        if first:
            found[-1].append((first, role))
        found += [[(other, role)] if other else [] for other in others]
    return list(map(tuple, found))


def strip_end(line: Line) -> Line:
    """Return a line without the spaces at its end."""
    kept = list(line)
    while kept:
        text, role = kept.pop()
        text = text.rstrip()
        if text:
            return (*kept, (text, role))
    return ()


def _head(text: str, width: int) -> str:
    return set_cell_size(text[: width * 4], width) if width > 0 else ""


def _tail(text: str, width: int) -> str:
    end = text[-width:] if width > 0 else ""
    while cell_len(end) > width:
        end = end[1:]
    return end


STYLE_PREFIX = "lines--"


class Palette:
    """The styles of a widget's roles under the theme of the moment; made again when the theme changes."""

    def __init__(self, widget: Widget) -> None:
        self._widget = widget
        self.base = widget.rich_style
        self._styles: dict[str, Style] = {"": self.base}

    def style(self, roles: str) -> Style:
        """Return the style of one or more roles, later ones over earlier ones."""
        found = self._styles.get(roles)
        if found is None:
            found = self.base
            for role in roles.split():
                target = link_target(role)
                found += Style(link=target) if target else self._own(role)
            self._styles[roles] = found
        return found

    def strip(self, line: Line, width: int) -> Strip:
        """Return a strip of at least `width` cells."""
        return Strip([Segment(text, self.style(roles)) for text, roles in line]).extend_cell_length(width, self.base)

    def _own(self, role: str) -> Style:
        name, widget = STYLE_PREFIX + role, self._widget
        if role in ROLES and name not in widget._component_styles:
            # As component classes of the widget, all roles would be styled at each change of a class in or above it.
            node = DOMNode(classes=name)
            node._attach(widget)
            widget.app.stylesheet.apply(node)
            widget._component_styles[name] = node.styles
        rules = widget.get_component_styles(name)
        whole = widget.get_component_rich_style(name)
        has_color = rules.has_rule("color") or rules.has_rule("auto_color")
        return rules.text_style + Style(
            color=whole.color if has_color else None, bgcolor=whole.bgcolor if rules.has_rule("background") else None
        )
