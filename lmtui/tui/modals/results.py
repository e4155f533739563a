"""What dialogs give back, and the veil that they put over the screen below them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Generic, TypeVar

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.segment import Segment
from textual import events
from textual.await_complete import AwaitComplete
from textual.color import Color
from textual.renderables.background_screen import BackgroundScreen
from textual.screen import ModalScreen, Screen

from lmtui.tui.widgets.bars import HEIGHTS

if TYPE_CHECKING:
    from lmtui.commands.command import Command
    from lmtui.core.sessions import Answer


Result = TypeVar("Result")
LEAST_ROWS = 13  # from here on the rows above and below a dialog stay free
WIDTHS = [(0, "-slim"), (100, "-roomy")]
_BRIGHT = Color(0, 0, 0, 0)


class _Veil(BackgroundScreen):
    """Dims the screen below, all but its first and its last row: what waits stays the brightest thing."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        del console, options
        strips = self.screen._compositor.render_strips(self.screen.app.size)
        for row, strip in enumerate(strips):
            is_bright = row in (0, len(strips) - 1)
            yield from self.process_segments(strip._segments, _BRIGHT if is_bright else self.color)
            yield Segment.line()


class ClosedOnce(Screen[Result], Generic[Result]):
    """A screen that closes once: a key that comes right behind the one that closed it closes no other."""

    def dismiss(self, result: Result | None = None) -> AwaitComplete:
        """Close the screen with a result, if it is on top."""
        return super().dismiss(result) if self.is_active else AwaitComplete()

    def draw_keys(self) -> None:
        """Let the key row of the screen below say what the keys do here."""
        draw_focus = getattr(self.app.screen_stack[0], "draw_focus", None)
        if draw_focus is not None and self.is_current:
            draw_focus()


class VeiledScreen(ModalScreen[Result], ClosedOnce[Result], Generic[Result]):
    """A dialog over a veil that leaves the header and the key row bright; under 100 columns it takes the whole width."""

    CSS_PATH = Path(__file__).parents[1] / "dialogs.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS

    def render(self) -> RenderableType:
        """Return what is below, darker but for the header and the key row."""
        found = super().render()
        return _Veil(found.screen, found.color) if isinstance(found, BackgroundScreen) else found

    def on_screen_resume(self) -> None:
        self.set_class(isinstance(self.app.screen_stack[-2:][0], VeiledScreen), "-over")
        self.draw_keys()

    def key_verbs(self) -> tuple[Sequence[Command], str]:
        """Return what the keys do here, and what escape does."""
        return [], "close"

    async def on_click(self, event: events.Click) -> None:
        """Let a click on the key row, which shows through, do what it says."""
        verb = self.app.screen_stack[0].get_style_at(event.screen_x, event.screen_y).meta.get("verb")
        if event.screen_y == self.size.height - 1 and isinstance(verb, str):
            _ = await self.app.run_action(verb, default_namespace=self)

    def action_close_or_stop(self) -> None:
        """Close without a result."""
        _ = self.dismiss(None)


class Dismissed(StrEnum):
    """How an approval was left without an answer."""

    LATER = "later"
    TYPING = "typing"
    AWAY = "away"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class AllAnswered:
    """One answer to several approvals, each of which was shown: once or no."""

    approval_ids: tuple[str, ...]
    answer: Answer


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose: `id` is the result, `text` is shown and searched, `note` is dim next to it.

    `words` are searched and not shown; `group` and `key` have columns of their own.
    """

    id: str
    text: str
    note: str = ""
    words: str = ""
    group: str = ""
    key: str = ""
