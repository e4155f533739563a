"""The dialog of every question that lets something happen: all of it is shown, and nothing says yes by accident."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.screen import ModalScreen, Screen
from textual.widget import Widget
from textual.widgets import Static

from lmtui.tui.commands import Command, Scope, bindings, command, first_key, of_scope
from lmtui.tui.key_bindings import bindings_of
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import Page
from lmtui.tui.modals.results import ClosedOnce
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import HEIGHTS, ChoiceRows

if TYPE_CHECKING:
    from lmtui.tui.widgets.panes import Panes

DEAD_TIME_S = 0.3
LETTER_S = 0.25  # how long a letter waits for another: the first letter of a sentence must not answer
TIGHT_ROWS, ROOMY_ROWS = 13, 30
NOTE_ROWS = (20, 8), (TIGHT_ROWS, 3), (9, 2), (0, 0)  # by height; longer ones go to the body
ROWS = [*HEIGHTS[:-1], (20, "-high"), (ROOMY_ROWS, "-tall")]
MORE = "More below: Space scrolls, End goes to the end"
READ_FIRST = "Not yet: read to the end first (Space, End)"
MOST_ROUNDS = 6
WHOLE_WIDTH_BELOW = 100
LEAST_CHAT = 60
WHEEL_LINES = 3

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


class Question(Generic[Result]):
    """What a dialog asks: a body of lines, the words around it, and what each answer does.

    Answers whose ids are `guarded` allow something: they count only after the body's end was seen where it `needs_reading`.
    Those of `decisions` that have a hint are drawn as buttons, in this order; the others are hints.  `also` are answers that
    other questions have too.  `moves` says what the arrow keys do, `at_once` are answers whose letter waits for no other one.
    A `page` fills the screen above the question, the body in it.
    """

    scope: ClassVar[Scope]
    guarded: ClassVar[tuple[str, ...]] = ()
    decisions: ClassVar[tuple[str, ...]] = ()
    at_once: ClassVar[tuple[str, ...]] = ()
    needs_reading: ClassVar[bool] = True
    also: ClassVar[tuple[str, ...]] = ()
    page: Widget | None = None
    moves = "scroll"
    takes_side = False
    is_danger = False
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

    def values(self) -> Mapping[str, Result]:
        """Return what the dialog gives for the answers that do no more than that, by command."""
        return {}

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does, by its id."""
        return {each: partial(self.dialog.dismiss, value) for each, value in self.values().items()}

    def close(self) -> None:
        """Close the dialog without an answer."""
        _ = self.dialog.dismiss(None)

    def commands(self) -> Sequence[Command]:
        """Return the answers that have a key, whether they mean something now or not."""
        return *of_scope(self.scope), *map(command, self.also)

    def begin(self) -> None:
        """Fill the body; called once the dialog is on screen."""

    def leave_to_type(self) -> None:
        """Close the dialog because the user types text, or pastes one."""
        self.close()

    def at_another_part(self) -> None:
        """Take note that the reader came to another part of the body."""

    def dimmed(self) -> Collection[str]:
        """Return the ids of the choices that do not count yet."""
        return () if self.dialog.shows_live else self.guarded

    def more_text(self) -> str:
        """Return own words for what is to be done before an answer counts."""
        return ""

    def preferred(self) -> str:
        """Return the id of the answer that is chosen until the user chooses another."""
        return self.decisions[0]


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
        if self._is_bound_to(event.key, *self._dialog.question.at_once):
            return False
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
        return self._is_bound_to(key, "lines.", *self._dialog.question.at_once)

    def _is_bound_to(self, key: str, *ids: str) -> bool:
        found = self._dialog.active_bindings.get(key)
        return found is not None and (found.binding.id or "").startswith(ids)

    async def _answer_with(self, event: events.Key) -> None:
        if self._held is event:
            self._held = None
            await self._run(event)

    async def _run(self, event: events.Key) -> None:
        """Run a letter's action; a letter from the dead time decides nothing later either."""
        dialog = self._dialog
        found = dialog.active_bindings.get(event.key)
        ids = (*dialog.question.decisions, *dialog.question.guarded) if self._is_held_early else ()
        if found is not None and found.binding.id not in ids and dialog.app.screen is dialog:
            _ = await dialog.app.run_action(found.binding.action, found.node)


class ChatBehind:
    """The conversation that a question is docked under: it gives the place, and stays readable above it."""

    def __init__(self, panes: Panes | None) -> None:
        self.panes = panes
        self._covered: VirtualLineView | None = None
        self._place: int | None = None

    def is_seen_by(self, dialog: Screen[Any]) -> bool:
        """Tell whether a dialog is directly over the workbench, or over a side pane next to its conversation."""
        stack = dialog.app.screen_stack
        under = stack[: stack.index(dialog)] if dialog in stack else []
        below = [each for each in under if not (isinstance(each, ConsentDialog) or each.has_class("-docked"))]
        return self.panes is not None and self.panes.is_attached and below[-1:] == [self.panes.screen]

    def columns(self, width: int, *, takes_side: bool) -> tuple[int, int]:
        """Return from which column of a screen up to which a question goes."""
        region = self.panes.chat_pane.region if self.panes is not None else Region()
        if width < WHOLE_WIDTH_BELOW or region.width < LEAST_CHAT:
            return 0, width
        return region.x, width if takes_side else region.right

    def cover(self, top: int | None) -> None:
        """Keep the end of the conversation above a row of the screen; None: it is free again."""
        if self.panes is not None and self.panes.current is not None and (top, self._covered) != (None, None):
            view = self.panes.current.transcript
            if self._covered is not None and self._covered is not view:
                self._covered.covered_rows = 0
            if top is not None and self._covered is None:
                self._place = None if view.scroller.is_following else view.scroll_offset.y
                self.panes.follow_chat()
            self.panes.cover_end(0 if top is None else max(0, view.region.bottom - top))
            self._covered = view if top is not None else None

    def give_back_place(self) -> None:
        """Go back to where the reader was before the question came."""
        if self._covered is not None and self._place is not None:
            self._covered.scroller.set_following(False)
            self._covered.jump(self._place)

    def scroll(self, lines: int = 0, pages: int = 0) -> bool:
        """Scroll the conversation; False where none is to be seen."""
        view = self._covered
        if view is None:
            return False
        view.scroller.move(lines + pages * max(1, view.size.height - view.covered_rows - 1))
        return True


class BodyFit:
    """Puts the box of a dialog in its place and gives the body the rows that the rest leaves, again after each layout."""

    def __init__(self, dialog: ConsentDialog[Any], box: Vertical, more: Static, chat: ChatBehind) -> None:
        self._dialog, self._box, self._more, self.chat = dialog, box, more, chat
        self._is_measured = False
        self._rounds = MOST_ROUNDS
        self._placed, self._drawn = (0, 0, 0), (0, 0)
        self._shown: tuple[Region, Region, int] | None = None
        self.is_zoomed = dialog.question.page is not None

    def begin(self) -> None:
        """Follow the layout of the dialog, and of what it is docked under."""
        below = [self.chat.panes.screen] if self.chat.panes is not None and self.chat.panes.is_attached else []
        for screen in (self._dialog, *below):
            screen.screen_layout_refresh_signal.subscribe(self._dialog, lambda _: self._settle())
        self.later()

    @property
    def is_done(self) -> bool:
        """Tell whether the body has the rows that it gets."""
        body = self._dialog.question.body
        return self._is_measured and body.content_width == (body.scrollable_content_region.width or body.size.width)

    def later(self) -> None:
        """Fit it once what changed is laid out."""
        self._rounds, self._shown = MOST_ROUNDS, None
        self._dialog.call_after_refresh(self._settle)

    @property
    def _most_rows(self) -> int:
        height = self._dialog.size.height
        if height < TIGHT_ROWS:
            return height
        if self.is_zoomed:
            return height - 2
        return height * 6 // 10 if height >= ROOMY_ROWS else height * 3 // 4

    def _settle(self) -> None:
        """Take one step: place the box, draw for its width, give the body its rows; each is laid out before the next."""
        dialog = self._dialog
        if not dialog.question.body.is_attached:
            return
        if self._place():
            dialog.call_after_refresh(self._settle)
        elif self._drawn != (drawn := (dialog.drawn_width, dialog.size.height)):
            self._drawn = drawn
            dialog.draw()
            dialog.call_after_refresh(self._settle)
        elif self._rounds and self._measure():
            self._rounds -= 1
        else:
            self._rounds = MOST_ROUNDS
            if dialog.app.screen is dialog:
                is_seen = not self.is_zoomed and self.chat.is_seen_by(dialog)
                self.chat.cover(self._box.region.y if is_seen else None)
            shown = (self._box.region, dialog.question.body.region, dialog.question.body.content_width)
            if shown != self._shown:  # to look lays out again
                self._is_measured, self._shown = True, shown
                dialog.look()

    def _place(self) -> bool:
        """Put the box where it belongs; False where it is there."""
        dialog, box, width = self._dialog, self._box, self._dialog.size.width
        left, right = 0, width
        if not self.is_zoomed and self.chat.is_seen_by(dialog):
            left, right = self.chat.columns(width, takes_side=dialog.question.takes_side)
        place = (right - left, left, int(dialog.size.height >= TIGHT_ROWS))
        is_new, self._placed = place != self._placed, place
        if is_new:
            box.styles.width = right - left
            box.styles.margin = (0, 0, place[2], left)
        return is_new

    def _measure(self) -> bool:
        """Give the body its rows; False where it has them."""
        dialog, box, more, body = self._dialog, self._box, self._more, self._dialog.question.body
        if body.parent is not box:
            return False
        rest = [child for child in box.children if child.display and child is not body and child is not more]
        used = box.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        room = self._most_rows - used - body.styles.margin.height
        lines = body.source.total()
        more.display = is_long = dialog.question.needs_reading and lines > room
        if is_long:
            room -= 1 + more.styles.margin.height
        height = max(1, room if self.is_zoomed else min(room, lines))
        body.styles.height = height
        return height != body.outer_size.height


class ConsentDialog(ModalScreen[Result], ClosedOnce[Result]):
    """Shows a question at the foot of the conversation: its body between what is asked and the answers.

    `panes` are what it is docked under; without them it takes the whole width.
    """

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = ROWS

    def __init__(self, question: Question[Result], now: Callable[[], datetime], panes: Panes | None = None) -> None:
        super().__init__()
        self.question = question
        question.dialog = self
        self.SCOPE = question.scope
        self.shows_live = False
        self.now, self._delay = now, InputDelay(now)
        self._has_seen_end = self._is_pressed = False
        self.picked = ""  # the answer that the user chose
        self._headline = Static("", classes="box-title", markup=False)
        self._notes = Static("", classes="consent-notes", markup=False)
        self._more = Static("", classes="consent-more", markup=False)
        self._choices = ChoiceRows()
        self._choices.tone = "$error" if question.is_danger else "$warning"
        self._box = Vertical(classes="box consent -danger" if question.is_danger else "box consent")
        self.letters = TypedLetters(self)
        self.fit = BodyFit(self, self._box, self._more, ChatBehind(panes))
        own = [*bindings_of(question.commands()), *bindings(Scope.QUESTION, Scope.APP, Scope.MOVING)]
        self._bindings = BindingsMap.from_keys({**self._bindings.key_to_bindings, **BindingsMap(own).key_to_bindings})

    def compose(self) -> ComposeResult:
        if self.question.page is not None:
            yield self.question.page
        with self._box:
            yield self._headline
            if self.question.page is None:
                yield self.question.body
            yield self._notes
            yield self._more
            yield self._choices

    def on_mount(self) -> None:
        """Give the focus to the text, never to an answer."""
        body = self.question.body
        self.question.begin()
        body.focus()
        self.draw()
        self.fit.begin()
        self.watch(body, "scroll_y", self.look, init=False)
        self.watch(body, "virtual_size", self.fit.later, init=False)

    def on_unmount(self) -> None:
        self.fit.chat.cover(None)

    def on_resize(self) -> None:
        self.fit.later()

    def on_screen_suspend(self) -> None:
        self._box.display = not isinstance(self.app.screen, ConsentDialog)

    def on_screen_resume(self) -> None:
        self._box.display = True
        self.restart_delay()
        self.fit.later()

    async def on_key(self, event: events.Key) -> None:
        if await self.letters.takes(event):
            event.stop()

    def on_paste(self, event: events.Paste) -> None:
        if event.text and self.letters.type_on is not None:
            self.letters.type(event.text)
            event.stop()

    @on(events.MouseScrollUp)
    @on(events.MouseScrollDown)
    def _wheel(self, event: events.MouseEvent) -> None:
        if self.fit.chat.scroll(-WHEEL_LINES if isinstance(event, events.MouseScrollUp) else WHEEL_LINES):
            event.stop()
            event.prevent_default()

    @on(DiffView.HunkChanged)
    def _at_another_part(self) -> None:
        self.question.at_another_part()

    def action_answer(self, command_id: str) -> None:
        """Do what was answered if it is a choice, once the question has been there for a moment and was read."""
        asked = self.question
        left_out = {each.id for each in asked.commands()} - {each.id for each in asked.choices()}
        if command_id in left_out or (command_id in asked.decisions and not self.is_awake):
            return
        if command_id not in asked.guarded or self.is_live:
            asked.handlers()[command_id]()
        elif self.is_awake:
            self._is_pressed = True
            self.look()

    def ask(self, question: Question[Any], answered: Callable[[Any], None]) -> None:  # Any: what that question gives
        """Ask something else, over this."""
        _ = self.app.push_screen(ConsentDialog(question, self.now, self.fit.chat.panes), answered)

    def action_choose_answer(self, step: int) -> None:
        """Choose the next answer, or the one before."""
        ids = [each.id for each in self._buttons()]
        self.picked = ids[(ids.index(self.chosen) + step) % len(ids)]
        self.look()

    def action_confirm_answer(self) -> None:
        """Give the chosen answer."""
        self.action_answer(self.chosen)

    def action_split(self) -> None:
        """Show old and new side by side, or in one column."""
        self.action_answer("diff.split")

    def action_reply(self) -> None:
        """Leave the question for the prompt."""
        self.letters.type("")

    def action_zoom(self) -> None:
        """Fill the screen, or go back under the conversation."""
        self.fit.is_zoomed = not self.fit.is_zoomed
        self.fit.later()

    def action_page_chat(self, pages: int) -> None:
        """Scroll the conversation, or the text where that is all there is."""
        if not self.fit.chat.scroll(pages=pages):
            view = self.focused if isinstance(self.focused, VirtualLineView) else self.question.body
            view.action_move("page_up" if pages < 0 else "page_down")

    def action_close_or_stop(self) -> None:
        """Close without an answer."""
        self.question.close()

    @property
    def chosen(self) -> str:
        """Return the id of the answer that Enter gives."""
        ids = [each.id for each in self._buttons()]
        wanted = self.picked or self.question.preferred()
        return wanted if wanted in ids else ids[0]

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

    def restart_delay(self) -> None:
        """Let keys count only after a moment again: something else is there now."""
        self._delay.restart()
        call_after(self, DEAD_TIME_S, self._wake)
        self.look()

    def read_again(self) -> None:
        """Ask for the body to be read once more: it is another."""
        self._has_seen_end = False
        self.draw()
        self.fit.later()

    @property
    def drawn_width(self) -> int:
        """Return for how many columns the headline is drawn."""
        return max(10, self._headline.size.width or self.size.width - 8)

    @on(DiffView.LaidOut)
    def draw(self) -> None:
        """Draw everything around the body."""
        notes, page = self.question.notes(), self.question.body.source
        most = next(rows for height, rows in NOTE_ROWS if self.size.height >= height)
        is_within = isinstance(page, Page) and len(notes.wrap(self.drawn_width)) > most
        below = f"\n{notes.plain}" if is_within else ""
        if isinstance(page, Page) and page.below != below:
            page.below = below
            self.question.body.redraw()
            self.read_again()
        self._notes.update(notes)
        self._notes.display = bool(notes.plain and most and not below)
        self._notes.styles.max_height = most
        self._headline.update(self.question.headline(self.drawn_width))
        self.look()

    def look(self) -> None:
        """Show what counts by now."""
        self.shows_live = self.is_live
        style = "bold $error" if self._is_pressed else "$warning"
        more = READ_FIRST if self._is_pressed else self.question.more_text() or MORE
        self._more.update(Content.styled("" if self._has_seen_end else more, style))
        buttons = self._buttons()
        ids = {each.id for each in buttons}
        dim = self.question.dimmed() if self.is_awake else ids
        others = [each for each in self.question.choices() if each.id not in ids and each.bound_keys and each.hint]
        hints = [("↑↓", self.question.moves, ""), ("←→", "choose", ""), ("Enter", "confirm", "confirm_answer")]
        hints += [(first_key(each), each.hint, each.action) for each in others]
        self._choices.show(buttons, hints, chosen=self.chosen, dim=dim)

    def _buttons(self) -> list[Command]:
        found = {each.id: each for each in self.question.choices()}
        shown = [found[each] for each in self.question.decisions if each in found and found[each].hint]
        return shown or list(found.values())[:1]

    def _wake(self) -> None:
        """Show that the choices count now; a timer that comes early looks again."""
        self.look()
        if not self._delay.is_over:
            call_after(self, DEAD_TIME_S / 3, self._wake)
