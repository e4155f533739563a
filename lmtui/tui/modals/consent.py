"""The ground of every question that lets something happen: all of it is shown, and nothing says yes by accident."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence
from datetime import datetime
from functools import partial
from typing import ClassVar, TypeVar

from textual import events
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.tui.commands import Command
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import HEIGHTS, Verbs, verbs_cells

DEAD_TIME_S = 0.3
LETTER_S = 0.25  # how long a letter waits for another: the first letter of a sentence must not answer
TIGHT_ROWS = 13
ROWS = [*HEIGHTS[:-1], (20, "-high")]
MORE = "there is more below: scroll to its end before you allow it"
READ_FIRST = "not yet: read to the end first (page down, end)"
SPARE_ROWS = 2
MOST_ROUNDS = 6

Result = TypeVar("Result")


class InputDelay:
    """The moment after a question came up, in which keys were meant for something else."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self._now = now
        self._since = now()

    def restart(self) -> None:
        """Begin it again."""
        self._since = self._now()

    @property
    def is_over(self) -> bool:
        """Tell whether keys count."""
        return not 0 <= (self._now() - self._since).total_seconds() < DEAD_TIME_S


class Consent(ModalScreen[Result]):
    """Shows a body of lines between a title and choices.

    Choices that allow something (`GUARDED`) count only after a moment, and after the body's end was seen.  A letter answers
    only if no other key follows at once; else all of it goes to `type_on` (the prompt), or nowhere.
    """

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = ROWS
    GUARDED: ClassVar[tuple[str, ...]] = ()
    type_on: Callable[[str], None] | None = None

    def __init__(self, body: VirtualLineView, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._held: events.Key | None = None
        self._is_held_early = False
        self._typed, self._typed_at_s = "", 0.0
        self._is_left = False
        self.body = body
        self.shows_live = False
        self._dead_time = InputDelay(now)
        self._is_fitted = False
        self._has_seen_end = self._is_pressed = False
        self._headline = Static("", classes="box-title", markup=False)
        self._notes = Static("", classes="consent-notes", markup=False)
        self._more = Static("", classes="consent-more", markup=False)
        self._verbs = Verbs()
        self._box = Vertical(classes="box consent")

    def compose(self) -> ComposeResult:
        """Lay out what is asked, under which conditions, and the choices."""
        with self._box:
            yield self._headline
            yield self.body
            yield self._notes
            yield self._more
            yield self._verbs

    def on_mount(self) -> None:
        """Give the focus to the text, never to an answer."""
        self.body.focus()
        self.draw()
        self.watch(self.body, "scroll_y", self._look, init=False)
        self.watch(self.body, "virtual_size", self._fit_later, init=False)

    def on_resize(self) -> None:
        """Give the text the rows that the rest leaves."""
        self._fit_later()

    def on_screen_resume(self) -> None:
        """Begin the dead time, also when another question was over this one."""
        self.restart_dead_time()

    # -- letters --------------------------------------------------------------------------------------------------------

    @property
    def is_holding(self) -> bool:
        """Tell whether a letter waits to be the only one."""
        return self._held is not None

    def leave_to_type(self) -> None:
        """Close without an answer, because the user types text."""

    async def on_key(self, event: events.Key) -> None:
        """Take letters before they answer."""
        if await self.takes_key(event):
            event.stop()

    async def takes_key(self, event: events.Key) -> bool:
        """Take a key that may be part of a text; False leaves it to the bindings."""
        held, self._held = self._held, None
        is_typing = event.time - self._typed_at_s < LETTER_S
        if not event.is_printable or not event.character:
            if held is not None and event.key == "enter":
                self._type(held.character or "")
            return held is not None and event.key in ("enter", "escape", "backspace")
        is_word = held is not None or (is_typing and not self._moves(event.key))
        if held is not None and held.key == event.key:
            await self._run_held(held)
        elif self._is_left or is_word or event.key not in self.active_bindings:
            self._type((self._typed if is_typing else "") + event.character)
            self._typed, self._typed_at_s = "", event.time
            return True
        self._typed = (self._typed if is_typing else "") + event.character
        self._typed_at_s = event.time
        if self._moves(event.key):
            return False
        self._held, self._is_held_early = event, not self.is_awake
        call_after(self, LETTER_S, partial(self._answer_with, event))
        return True

    def _moves(self, key: str) -> bool:
        found = self.active_bindings.get(key)
        return found is not None and (found.binding.id or "").startswith("lines.")

    async def _answer_with(self, event: events.Key) -> None:
        if self._held is event:
            self._held = None
            await self._run_held(event)

    async def _run_held(self, event: events.Key) -> None:
        """Run a letter's action; a letter from the dead time allows nothing later either."""
        found = self.active_bindings.get(event.key)
        is_early = self._is_held_early and found is not None and found.binding.id in self.GUARDED
        if found is not None and not is_early and self.app.screen is self:
            _ = await self.app.run_action(found.binding.action, found.node)

    def _type(self, text: str) -> None:
        """Pass typed text on and close; text typed before it has closed follows."""
        if self.type_on is None:
            return
        self.type_on(text)
        if not self._is_left:
            self._is_left = True
            self.leave_to_type()

    # -- what a subclass gives ------------------------------------------------------------------------------------------

    @abstractmethod
    def headline(self, width: int) -> Content:
        """Return what is asked, laid out for a width."""

    @abstractmethod
    def notes(self) -> Content:
        """Return under which conditions; empty for none."""

    @abstractmethod
    def choices(self) -> Sequence[Command]:
        """Return what can be answered."""

    def dimmed(self) -> Collection[str]:
        """Return the ids of the choices that do not count yet."""
        return () if self.shows_live else self.GUARDED

    def needs_reading(self) -> bool:
        """Tell whether the body must be seen to its end before an answer counts."""
        return True

    def more_text(self) -> str:
        """Return own words for what is to be done before an answer counts."""
        return ""

    def restart_dead_time(self) -> None:
        """Let keys count only after a moment again: something else is there now."""
        self._dead_time.restart()
        call_after(self, DEAD_TIME_S, self._wake)
        self._look()

    @property
    def is_fitted(self) -> bool:
        """Tell whether the body has the rows that it gets."""
        body = self.body
        return self._is_fitted and body.content_width == (body.scrollable_content_region.width or body.size.width)

    @property
    def is_awake(self) -> bool:
        """Tell whether the dead time is over."""
        return self._dead_time.is_over

    @property
    def is_live(self) -> bool:
        """Tell whether an answer counts yet."""
        self._note_end()
        return (self._has_seen_end or not self.needs_reading()) and self._dead_time.is_over

    def answer_counts(self) -> bool:
        """Tell whether an answer counts yet; one that came before the end was seen is told why it does not."""
        is_live = self.is_live
        if not is_live and self.is_awake:
            self._is_pressed = True
            self._look()
        return is_live

    @property
    def is_tight(self) -> bool:
        """Tell whether there is room for hardly more than the text."""
        return self.size.height < TIGHT_ROWS

    def draw(self) -> None:
        """Draw everything around the body."""
        notes = self.notes()
        self._notes.update(notes)
        self._notes.set_class(not notes.plain, "-empty")
        self._headline.update(self.headline(max(10, self._headline.size.width or self.size.width - 8)))
        self._look()

    def _fit_later(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Draw for the width that is now known, then give the body its rows once the rest is laid out."""
        self.draw()
        self.call_after_refresh(self._measure, MOST_ROUNDS)

    def _measure(self, rounds: int) -> None:
        """Give the body its rows, again until the layout has settled."""
        if not self.body.is_attached:
            return
        box = self._box
        rest = [child for child in box.children if child.display and child is not self.body and child is not self._more]
        used = box.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        room = self.size.height - used - self.body.styles.margin.height - (0 if self.is_tight else SPARE_ROWS)
        lines = self.body.source.total()
        self._more.display = is_long = self.needs_reading() and lines > room
        if is_long:
            room -= 1 + self._more.styles.margin.height
        height = max(1, min(room, lines))
        if rounds and height != self.body.outer_size.height:
            self.body.styles.height = height
            self.call_after_refresh(self._measure, rounds - 1)
            return
        self._is_fitted = True
        self._look()

    def _note_end(self) -> None:
        body = self.body
        lines = body.source.total()
        if self.is_fitted and body.size.height and lines and body.scroll_y + body.size.height >= lines:
            self._has_seen_end = True

    def _wake(self) -> None:
        """Show that the choices count now; a timer that comes early looks again."""
        self._look()
        if not self._dead_time.is_over:
            call_after(self, DEAD_TIME_S / 3, self._wake)

    def _look(self) -> None:
        self.shows_live = self.is_live
        more = "more below: scroll" if self.is_tight or self.size.width < len(MORE) + 10 else MORE
        if self._is_pressed:
            more = READ_FIRST
        style = "bold $error" if self._is_pressed else "$warning"
        self._more.update(Content.styled("" if self._has_seen_end else self.more_text() or more, style))
        choices = self.choices()
        is_full = verbs_cells(choices) <= max(10, self.size.width - 6)
        self._verbs.show(choices, dim=self.dimmed(), keys_only=self.is_tight and not is_full)
