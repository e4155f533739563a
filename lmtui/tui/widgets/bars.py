"""The lines at the top and the bottom: where one is, what goes on, what can be done.  They draw facts and ask nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from lmtui.tui import wording
from lmtui.tui.commands import command, first_key
from lmtui.tui.facts import Doing, Facts
from lmtui.tui.widgets.fit import Part, fit_line

WIDE_CELLS = 120
WIDTHS = [(0, "-narrow"), (80, "-medium"), (WIDE_CELLS, "-wide")]
HEIGHTS = [(0, "-flat"), (9, "-low"), (13, "-short"), (16, "-high")]
MAX_TITLE_CHARS = 16


class Bar(Widget):
    """One line of parts, laid out for the width it has; repainted only when what it says changes."""

    DEFAULT_CSS = """
    Bar { height: 1; width: 1fr; padding: 0 1; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._parts: tuple[Sequence[Part], Sequence[Part]] = ((), ())

    def show(self, left: Sequence[Part], right: Sequence[Part]) -> None:
        """Draw these parts."""
        if (left, right) != self._parts:
            before = self.render()
            self._parts = (left, right)
            if self.render() != before:
                self.refresh()

    def render(self) -> Content:
        """Fit the parts to the width."""
        return fit_line(*self._parts, self.content_size.width)


@dataclass(frozen=True, slots=True)
class Place:
    """Where one is, for the header: the folder, and the panes by name where they do not stand side by side."""

    folder: Path
    home: Path
    mode: str
    pane: str = "chat"
    has_tabs: bool = False


PANES = ("chat", "files", "plan", "log")
_SANDBOX_STYLES = {"process": "$error", "files": "$warning"}


def header_parts(facts: Facts | None, place: Place) -> tuple[list[Part], list[Part]]:
    """Return the header: folder, model, window, sandbox, mode; on narrow screens short, with the names of the panes."""
    facts = facts or Facts()
    mode = facts.mode or place.mode
    mode_style = {"auto": "$warning", "plan": "$accent"}.get(mode, "$text-muted")
    if place.has_tabs:
        name = facts.title or place.folder.name
        left = [Part(wording.shorten_middle(name, MAX_TITLE_CHARS), "bold", 0), Part(facts.model, "$text-muted", 4)]
        backend = facts.sandbox.backend if facts.sandbox else "no sandbox yet"
        left += [Part(backend, sandbox_style(facts), 1), Part(mode, mode_style, 2)]
        tabs = " ".join(f"[{pane}]" if pane == place.pane else pane for pane in PANES)
        return left, [Part(tabs, "$text-muted", 3)]
    left = [Part("lmtui", "bold $accent", 3), Part(wording.folder_text(place.folder, place.home), "", 0)]
    window = f"{wording.window_text(facts.window_tokens)} window" if facts.window_tokens else ""
    right = [Part(facts.model or "no model yet", "", 1), Part(window, "$text-muted", 4)]
    right += [Part(f"sandbox: {wording.sandbox_text(facts)}", sandbox_style(facts), 0), Part(f"mode: {mode}", mode_style, 2)]
    return left, right


def sandbox_style(facts: Facts) -> str:
    """Return the colour of the sandbox: red without one, amber for a weaker one, quiet else."""
    if facts.sandbox is None:
        return "$text-muted"
    if facts.sandbox.backend in _SANDBOX_STYLES:
        return f"bold {_SANDBOX_STYLES[facts.sandbox.backend]}"
    return "$warning" if facts.sandbox.is_weaker else "$text-muted"


@dataclass(frozen=True, slots=True)
class Mark:
    """One open session in the status line."""

    title: str
    is_active: bool
    is_running: bool
    waits: int


def status_parts(facts: Facts | None, marks: Sequence[Mark], now: datetime, note: str) -> tuple[list[Part], list[Part]]:
    """Return the status line: sessions, what goes on, tokens, and the two keys that lead everywhere."""
    left: list[Part] = []
    if len(marks) > 1:
        left.append(Part(f"{len(marks)} sessions", "$text-muted", 6))
        left += [_mark_part(mark) for mark in marks]
    if facts is None:
        left.append(Part(note, "$text-muted", 0))
    else:
        left.append(Part(wording.activity_text(facts, now), _activity_style(facts), 0))
        left += [Part(wording.usage_text(facts), "$text-muted", 2), Part(wording.reused_text(facts), "$text-muted", 5)]
    return left, [_key_part("app.palette", 3), _key_part("app.help", 4)]


def _mark_part(mark: Mark) -> Part:
    title = wording.shorten_middle(mark.title or "new", MAX_TITLE_CHARS)
    if mark.waits:
        return Part(f"◐ {title} (waits)", "$warning", 1)
    sign = "●" if mark.is_running else "○"
    return Part(f"{sign} {title}", "$accent" if mark.is_active else "$text-muted", 5)


def _activity_style(facts: Facts) -> str:
    if facts.approvals:
        return "bold $warning"
    if not facts.is_running:
        return "$text-muted"
    return "$warning" if facts.activity.doing is Doing.RETRYING else "$accent"


def _key_part(command_id: str, rank: int) -> Part:
    each = command(command_id)
    return Part(f"{first_key(each)} {each.hint}", "$text-muted", rank)


class Spinner(Static):
    """One cell that turns four times a second while something runs, and does nothing at all otherwise."""

    DEFAULT_CSS = """
    Spinner { width: 1; height: 1; color: $accent; }
    """
    SIGNS: ClassVar[str] = "▖▘▝▗"
    TURNS_PER_S: ClassVar[int] = 4

    def show(self, is_running: bool, now: datetime) -> None:
        """Draw the sign of this moment, or a blank."""
        sign = self.SIGNS[int(now.timestamp() * self.TURNS_PER_S) % len(self.SIGNS)] if is_running else " "
        if self.content != sign:
            self.update(sign, layout=False)
