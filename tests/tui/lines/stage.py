"""A bare app around one line widget, and how to read what it shows."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import ClassVar

from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.pilot import Pilot

import lmtui.tui
from lmtui.core.events import Envelope, Event
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.table import BAR, RowCursor
from lmtui.tui.themes import built_in_theme
from tests.tui.quiet import quiet
from tests.waiting import PATIENCE_S

NOON = datetime(2026, 3, 14, 12, 0, tzinfo=UTC)


class Stage(App[None]):
    """Shows one pane; the keys are the test's own, as the app's table would give them."""

    CSS_PATH = Path(lmtui.tui.__file__).with_name("lmtui.tcss")
    BINDINGS: ClassVar[list[BindingType]] = [
        ("up", "focused.move('up')"),
        ("down", "focused.move('down')"),
        ("pageup", "focused.move('page_up')"),
        ("pagedown", "focused.move('page_down')"),
        ("home", "focused.move('home')"),
        ("end", "focused.move('end')"),
        ("enter", "focused.select"),
        ("left", "focused.folder('close')"),
        ("right", "focused.folder('open')"),
    ]

    def __init__(self, view: VirtualLineView) -> None:
        super().__init__()
        self.view = view
        self.frames = 0

    def get_theme_variable_defaults(self) -> dict[str, str]:
        return built_in_theme().variables

    def compose(self) -> ComposeResult:
        yield self.view

    def on_mount(self) -> None:
        self.view.focus()

    def post_display_hook(self) -> None:
        self.frames += 1


def screen_lines(view: VirtualLineView, *, has_bar: bool = False) -> list[str]:
    """Return the rows of the pane as they are on the screen, the bar of the row under the cursor only if it is asked for."""
    lines = [view.render_line(y).text[: view.content_width].rstrip() for y in range(view.size.height)]
    is_rows = isinstance(view.cursor, RowCursor) and not has_bar
    return [f" {line[1:]}".rstrip() if is_rows and line[:1] == BAR[0] else line for line in lines]


async def settled(pilot: Pilot[None]) -> None:
    """Wait until the frames that were asked for are drawn."""
    await quiet(pilot.app)


async def until(pilot: Pilot[None], is_so: Callable[[], bool]) -> None:
    """Wait until something is so: the frames of what streams are spaced by what each of them cost."""
    async with asyncio.timeout(PATIENCE_S):
        while not is_so():
            await pilot.pause(0.01)


def envelopes(events: Iterable[Event], first: int = 1) -> list[Envelope]:
    """Return events a second apart from each other."""
    return [Envelope(seq, NOON + timedelta(seconds=seq), "s", event) for seq, event in enumerate(events, first)]
