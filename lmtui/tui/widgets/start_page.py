"""The page of a session in which nothing was said yet: the name, and below the prompt what can be done.  It does no I/O."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from textual.content import Content
from textual.style import Style

from lmtui.tui.widgets.bars import ClickableText

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionSummary

PAGE_CELLS = 84
LEAST_ROWS, SHORT_ROWS, TALL_ROWS = 16, 24, 30
PLACEHOLDER, USUAL_PLACEHOLDER = "What should we work on?", "Ask for a change, or type / for commands"
_LOGO = (
    ("██          ", "   ▄▄             ▀▀"),
    ("██  ██▀██▀██", "  ▀██▀▀▀  ██  ██  ██"),
    ("██  ██ ██ ██", "   ██▄▄▄  ██▄▄██  ██"),
)
_LABEL_CELLS = 10
_TESTS = re.compile(
    r"(tests?|specs?|__tests__|pytest\.ini|tox\.ini|noxfile\.py|Cargo\.toml|go\.mod|package\.json)|test_.+|.+_test\..+"
)
_IN_EMPTY_FOLDER = ("Create a small command-line tool", "Build a web page with a contact form", "What can you do?")


def suggested_prompts(names: Collection[str], *, is_dirty: bool) -> tuple[str, ...]:
    """Return three prompts that fit a folder with these files and folders; `is_dirty`: git knows of uncommitted changes."""
    shown = [name for name in names if not name.startswith(".")]
    if not shown:
        return _IN_EMPTY_FOLDER
    has_readme = any(name.lower().startswith("readme") for name in shown)
    found = ["Explain this project"]
    found += ["Run the tests and fix what fails"] if any(map(_TESTS.fullmatch, shown)) else []
    found += ["Review my uncommitted changes"] if is_dirty else []
    return (*found, "Find a bug and fix it", "Check the README against the code" if has_readme else "Write a README")[:3]


def box_bottom(rows: int) -> int:
    """Return the row below the prompt box on a screen of so many rows."""
    return rows // 2 + (1 if rows >= TALL_ROWS else -1)


@dataclass(frozen=True, slots=True)
class StartRow:
    """A line of the page: what it is about, and at the right the key that leads on."""

    label: str
    text: Content
    key: Content


class StartPage(ClickableText):
    """Draws the page around the prompt box."""

    DEFAULT_CSS = """
    StartPage { layer: start; margin: 1 0; height: 1fr; background: $background; display: none; }
    """

    def __init__(self) -> None:
        super().__init__(id="start")
        self.prompts: tuple[str, ...] = ()
        self.last: SessionSummary | None = None
        self.marks_last = False  # the session that was used last is not open again, but one key away
        self._rows: tuple[StartRow, ...] = ()
        self._marked = -1

    @property
    def suggestions(self) -> tuple[str, ...]:
        """Return what can be taken into the prompt: the prompts, and the command that resumes the last session."""
        return (*self.prompts, f"/resume {self.last.id}") if self.last is not None and self.prompts else self.prompts

    def show(self, rows: Sequence[StartRow]) -> None:
        """Draw these rows below the prompts; the places of prompts that are not known yet stay blank."""
        if tuple(rows) != self._rows:
            self._rows = tuple(rows)
            self.refresh()

    def learn(self, prompts: tuple[str, ...], last: SessionSummary | None) -> None:
        """Take the prompts to suggest, and the session that was used last."""
        self.prompts, self.last = prompts, last
        self.refresh()

    def mark(self, index: int) -> None:
        """Mark a suggestion, -1 for none."""
        self._marked = index
        self.refresh()

    def render(self) -> Content:
        height, width = self.app.size.height, self.size.width
        is_tall, cells = height >= TALL_ROWS, min(PAGE_CELLS, width - 2)
        bottom, lead = box_bottom(height), (width - cells) // 2
        lines = [Content("")] * max(0, bottom - (12 if is_tall else 8))
        left = " " * max(0, (width - len("".join(_LOGO[1]))) // 2)
        lines += [Content.assemble(left, (first, "$accent"), (rest, "$text")) for first, rest in _LOGO]
        lines += [Content("")] * (bottom + (1 if is_tall else 0) - len(lines))
        below = self._below(cells)
        room = self.size.height - len(lines)
        below = below if len(below) <= room else [line for line in below if line.plain.strip()]
        return self.lit(Content("\n").join([*lines, *(Content(" " * lead) + line for line in below[: max(0, room)])]))

    def _below(self, cells: int) -> list[Content]:
        prompts = enumerate(self.prompts or ("", "", ""))
        lines = [self._line("" if at or not text else "Try", Content(text), at, cells) for at, text in prompts]
        for row in self._rows:
            lines += [] if row.label == "Sandbox" else [Content("")]
            room = cells - _LABEL_CELLS - 4
            key = row.key if room - row.key.cell_length - 2 >= row.text.cell_length else Content("")
            text = row.text.truncate(room, ellipsis=True)
            line = Content.assemble(text, " " * (room - text.cell_length - key.cell_length), key)
            is_suggested = row.label == "Resume" and self.last is not None
            lines.append(self._line(row.label, line, len(self.prompts) if is_suggested else len(self.suggestions), cells))
        return lines

    def _line(self, label: str, text: Content, index: int, cells: int) -> Content:
        """Return a row; one that is a suggestion can be marked and clicked on."""
        is_marked = index == self._marked
        head = ("▌ " if is_marked else "  ", "$accent"), (label.ljust(_LABEL_CELLS), "$text-muted")
        line = Content.assemble(*head, text)
        line = line.pad_right(max(0, cells - line.cell_length))
        if index < len(self.suggestions):
            line = line.stylize(Style.from_meta({"verb": f"focused.take_suggestion({index})"}))
        return line.stylize_before("on $selection") if is_marked else line
