"""The dialog of every question that lets something happen: all of it is shown, and nothing says yes by accident."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.widgets import Static

from lmtui.tui.commands import Command, Scope, bindings
from lmtui.tui.lines.diff_view import DiffView
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
Kind = TypeVar("Kind")


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


class Question(Generic[Result]):
    """What a dialog asks: a body of lines, the words around it, and what each answer does.

    Answers whose ids are `guarded` allow something: they count only after a moment, and after the body's end was seen where
    it `needs_reading`.
    """

    scope: ClassVar[Scope]
    guarded: ClassVar[tuple[str, ...]] = ()
    needs_reading: ClassVar[bool] = True
    dialog: ConsentDialog[Result]

    def __init__(self, body: VirtualLineView) -> None:
        self.body = body

    @abstractmethod
    def headline(self, width: int) -> Content:
        """Return what is asked, laid out for a width."""

    @abstractmethod
    def notes(self) -> Content:
        """Return under which conditions; empty for none."""

    @abstractmethod
    def choices(self) -> Sequence[Command]:
        """Return what can be answered."""

    @abstractmethod
    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does, by its id."""

    @abstractmethod
    def close(self) -> None:
        """Close the dialog without an answer."""

    def begin(self) -> None:
        """Fill the body; called once the dialog is on screen."""

    def leave_to_type(self) -> None:
        """Close the dialog because the user types text."""

    def paste(self, text: str) -> bool:
        """Take a pasted text; False where it belongs to nothing."""
        del text
        return False

    def at_another_part(self) -> None:
        """Take note that the reader came to another part of the body."""

    def dimmed(self) -> Collection[str]:
        """Return the ids of the choices that do not count yet."""
        return () if self.dialog.shows_live else self.guarded

    def more_text(self) -> str:
        """Return own words for what is to be done before an answer counts."""
        return ""


class TypedLetters:
    """Tells a letter that answers from the beginning of a text.

    A letter answers only if no other key follows at once; else all of it goes to `type_on` (the prompt), or nowhere.
    `was_typing`: the user was typing when the question came up, so the first keys belong to that text.
    """

    def __init__(self, dialog: ConsentDialog[Any]) -> None:
        self.type_on: Callable[[str], None] | None = None
        self.was_typing = False
        self._dialog = dialog
        self._held: events.Key | None = None
        self._is_held_early = False
        self._typed, self._typed_at_s = "", 0.0
        self._is_left = False

    @property
    def is_holding(self) -> bool:
        """Tell whether a letter waits to be the only one."""
        return self._held is not None

    async def takes(self, event: events.Key) -> bool:
        """Take a key that may be part of a text; False leaves it to the bindings."""
        is_late = self.was_typing and not self._dialog.is_awake and not self._is_left
        if is_late and self.type_on is not None and event.is_printable and event.character:
            self.type_on(event.character)
            self._dialog.restart_delay()
            return True
        held, self._held = self._held, None
        is_typing = event.time - self._typed_at_s < LETTER_S
        if not event.is_printable or not event.character:
            if held is not None and event.key == "enter":
                self.type(held.character or "")
            return held is not None and event.key in ("enter", "escape", "backspace")
        is_word = held is not None or (is_typing and not self._moves(event.key))
        if held is not None and held.key == event.key:
            await self._run(held)
        elif self._is_left or is_word or event.key not in self._dialog.active_bindings:
            self.type((self._typed if is_typing else "") + event.character)
            self._typed, self._typed_at_s = "", event.time
            return True
        self._typed = (self._typed if is_typing else "") + event.character
        self._typed_at_s = event.time
        if self._moves(event.key):
            return False
        self._held, self._is_held_early = event, not self._dialog.is_awake
        call_after(self._dialog, LETTER_S, partial(self._answer_with, event))
        return True

    def type(self, text: str) -> None:
        """Pass typed text on and close; text typed before it has closed follows."""
        if self.type_on is not None:
            self.type_on(text)
            if not self._is_left:
                self._is_left = True
                self._dialog.question.leave_to_type()

    def _moves(self, key: str) -> bool:
        found = self._dialog.active_bindings.get(key)
        return found is not None and (found.binding.id or "").startswith("lines.")

    async def _answer_with(self, event: events.Key) -> None:
        if self._held is event:
            self._held = None
            await self._run(event)

    async def _run(self, event: events.Key) -> None:
        """Run a letter's action; a letter from the dead time allows nothing later either."""
        dialog = self._dialog
        found = dialog.active_bindings.get(event.key)
        is_early = self._is_held_early and found is not None and found.binding.id in dialog.question.guarded
        if found is not None and not is_early and dialog.app.screen is dialog:
            _ = await dialog.app.run_action(found.binding.action, found.node)


class BodyFit:
    """Gives the body of a dialog the rows that the rest leaves."""

    def __init__(self, dialog: ConsentDialog[Any], box: Vertical, more: Static) -> None:
        self._dialog, self._box, self._more = dialog, box, more
        self._is_measured = False

    @property
    def is_done(self) -> bool:
        """Tell whether the body has the rows that it gets."""
        body = self._dialog.question.body
        return self._is_measured and body.content_width == (body.scrollable_content_region.width or body.size.width)

    def later(self) -> None:
        """Fit it once what changed is laid out."""
        self._dialog.call_after_refresh(self._fit)

    def _fit(self) -> None:
        """Draw for the width that is now known, then give the body its rows once the rest is laid out."""
        self._dialog.draw()
        self._dialog.call_after_refresh(self._measure, MOST_ROUNDS)

    def _measure(self, rounds: int) -> None:
        """Give the body its rows, again until the layout has settled."""
        dialog, box, more, body = self._dialog, self._box, self._more, self._dialog.question.body
        if not body.is_attached:
            return
        rest = [child for child in box.children if child.display and child is not body and child is not more]
        used = box.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        room = dialog.size.height - used - body.styles.margin.height - (0 if dialog.is_tight else SPARE_ROWS)
        lines = body.source.total()
        more.display = is_long = dialog.question.needs_reading and lines > room
        if is_long:
            room -= 1 + more.styles.margin.height
        height = max(1, min(room, lines))
        if rounds and height != body.outer_size.height:
            body.styles.height = height
            dialog.call_after_refresh(self._measure, rounds - 1)
            return
        self._is_measured = True
        dialog.look()


class ConsentDialog(ModalScreen[Result]):
    """Shows a question: its body between what is asked and the choices."""

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = ROWS

    def __init__(self, question: Question[Result], now: Callable[[], datetime]) -> None:
        super().__init__()
        self.question = question
        question.dialog = self
        self.SCOPE = question.scope
        self.shows_live = False
        self._delay = InputDelay(now)
        self._has_seen_end = self._is_pressed = False
        self._headline = Static("", classes="box-title", markup=False)
        self._notes = Static("", classes="consent-notes", markup=False)
        self._more = Static("", classes="consent-more", markup=False)
        self._verbs = Verbs()
        self._box = Vertical(classes="box consent")
        self.letters = TypedLetters(self)
        self.fit = BodyFit(self, self._box, self._more)
        own = [*bindings(question.scope), *bindings(Scope.APP), *bindings(Scope.MOVING)]
        self._bindings = BindingsMap.from_keys({**self._bindings.key_to_bindings, **BindingsMap(own).key_to_bindings})

    def compose(self) -> ComposeResult:
        """Lay out what is asked, under which conditions, and the choices."""
        with self._box:
            yield self._headline
            yield self.question.body
            yield self._notes
            yield self._more
            yield self._verbs

    def on_mount(self) -> None:
        """Give the focus to the text, never to an answer."""
        body = self.question.body
        self.question.begin()
        body.focus()
        self.draw()
        self.watch(body, "scroll_y", self.look, init=False)
        self.watch(body, "virtual_size", self.fit.later, init=False)

    def on_resize(self) -> None:
        """Give the text the rows that the rest leaves."""
        self.fit.later()

    def on_screen_resume(self) -> None:
        """Begin the dead time, also when another question was over this one."""
        self.restart_delay()

    async def on_key(self, event: events.Key) -> None:
        """Take letters before they answer."""
        if await self.letters.takes(event):
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        """Pass on what is pasted."""
        if self.question.paste(event.text):
            event.stop()

    @on(DiffView.LaidOut)
    def _reword(self) -> None:
        self.draw()

    @on(DiffView.HunkChanged)
    def _at_another_part(self) -> None:
        self.question.at_another_part()

    def action_answer(self, command_id: str) -> None:
        """Do what was answered."""
        self.question.handlers()[command_id]()

    def action_close_or_stop(self) -> None:
        """Close without an answer."""
        self.question.close()

    @property
    def is_holding(self) -> bool:
        """Tell whether a letter waits to be the only one."""
        return self.letters.is_holding

    @property
    def is_awake(self) -> bool:
        """Tell whether the dead time is over."""
        return self._delay.is_over

    @property
    def is_live(self) -> bool:
        """Tell whether an answer that allows something counts yet."""
        body = self.question.body
        lines = body.source.total()
        if self.fit.is_done and body.size.height and lines and body.scroll_y + body.size.height >= lines:
            self._has_seen_end = True
        return (self._has_seen_end or not self.question.needs_reading) and self.is_awake

    @property
    def is_tight(self) -> bool:
        """Tell whether there is room for hardly more than the text."""
        return self.size.height < TIGHT_ROWS

    def answer_counts(self) -> bool:
        """Tell whether an answer counts yet; for one that came before the end was seen, say why it does not."""
        is_live = self.is_live
        if not is_live and self.is_awake:
            self._is_pressed = True
            self.look()
        return is_live

    def restart_delay(self) -> None:
        """Let keys count only after a moment again: something else is there now."""
        self._delay.restart()
        call_after(self, DEAD_TIME_S, self._wake)
        self.look()

    def read_again(self) -> None:
        """Ask for the body to be read once more: it is another."""
        self._has_seen_end = False
        self.fit.later()

    def draw(self) -> None:
        """Draw everything around the body."""
        notes = self.question.notes()
        self._notes.update(notes)
        self._notes.set_class(not notes.plain, "-empty")
        self._headline.update(self.question.headline(max(10, self._headline.size.width or self.size.width - 8)))
        self.look()

    def look(self) -> None:
        """Show what counts by now."""
        self.shows_live = self.is_live
        more = "more below: scroll" if self.is_tight or self.size.width < len(MORE) + 10 else MORE
        if self._is_pressed:
            more = READ_FIRST
        style = "bold $error" if self._is_pressed else "$warning"
        self._more.update(Content.styled("" if self._has_seen_end else self.question.more_text() or more, style))
        choices = self.question.choices()
        is_full = verbs_cells(choices) <= max(10, self.size.width - 6)
        self._verbs.show(choices, dim=self.question.dimmed(), keys_only=self.is_tight and not is_full)

    def _wake(self) -> None:
        """Show that the choices count now; a timer that comes early looks again."""
        self.look()
        if not self._delay.is_over:
            call_after(self, DEAD_TIME_S / 3, self._wake)


def question_of(screen: Screen[Any], kind: type[Kind]) -> Kind | None:
    """Return the question of a kind that a screen asks, None for another screen."""
    question = screen.question if isinstance(screen, ConsentDialog) else None
    return question if isinstance(question, kind) else None
