"""The dialog of every question: what is asked, all that it is about, the answers.  Nothing says yes by accident."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar, cast

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.geometry import Region
from textual.message import Message
from textual.screen import ModalScreen
from textual.widget import Widget
from textual.widgets import Static, TextArea

from lmtui.core.sanitize import pluralize
from lmtui.tui.commands import Command, Scope, bindings, command, first_key, hint_text, of_scope
from lmtui.tui.key_bindings import bindings_of
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import Page, PageView, whole_text
from lmtui.tui.lines.table import Table
from lmtui.tui.modals.results import ClosedOnce
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import HEIGHTS, ChoiceRows, Hint

if TYPE_CHECKING:
    from lmtui.tui.workbench_api import WorkbenchApi

DEAD_TIME_S = 0.3
LETTER_S = 0.25  # how long a letter waits for another: the first letter of a sentence must not answer
TIGHT_ROWS, ROOMY_ROWS = 13, 30
NOTE_ROWS = (20, 8), (TIGHT_ROWS, 3), (9, 2), (0, 0)  # by height; longer ones go to the body
ROWS = [*HEIGHTS[:-1], (20, "-high"), (ROOMY_ROWS, "-tall")]
MOST_ROUNDS = 6
WHOLE_WIDTH_BELOW = 100
LEAST_CHAT = 58
WHEEL_LINES = 3
MOST_BUTTONS = 5
READ_ON = "read on"

Result = TypeVar("Result")


class Question(Generic[Result]):
    """What a dialog asks: a body of lines, the words around it, and what each answer does.

    The answers are the commands of `scopes`.  Those that are `guarded` allow something: they count only after the end of the
    body was seen where it `needs_reading`; until then their keys read on.  The first `decisions` that apply are drawn as
    buttons, `?` lists the others.  `at_once` are answers whose letter waits for no other one.  A `page` fills the screen above
    the question, the body in it.  `closing` says what escape does.
    """

    scopes: ClassVar[tuple[str, ...]]
    guarded: Sequence[str] = ()
    decisions: Sequence[str] = ()
    at_once: ClassVar[tuple[str, ...]] = ()
    needs_reading = has_delay = True
    page: Widget | None = None
    takes_side = False
    is_danger = False
    closing = "back"
    dialog: ConsentDialog[Result]

    def __init__(self, body: VirtualLineView) -> None:
        self.body = body
        self.drafts: dict[str, str] = {}  # what was written in the place of the answers, by the command that asks for it

    @abstractmethod
    def headline(self, width: int) -> Content:
        """Return what is asked, laid out for a width."""

    def notes(self) -> Content:
        """Return under which conditions; empty for none."""
        return Content("")

    def reasons(self) -> Sequence[str]:
        """Return why it is asked and what the answers mean, in at most four lines."""
        return ()

    def commands(self) -> Sequence[Command]:
        """Return the answers that have a key, whether they mean something now or not."""
        return of_scope(*self.scopes)

    def left_out(self) -> Collection[str]:
        """Return the ids of the answers that mean nothing now."""
        return ()

    def words(self) -> Mapping[str, str]:
        """Return the words for what answers would do now, where the table's are not right; empty for one that is not shown."""
        return {}

    def choices(self) -> Sequence[Command]:
        """Return what can be answered now."""
        left_out, words = self.left_out(), self.words()
        return [replace(each, hint=words.get(each.id, each.hint)) for each in self.commands() if each.id not in left_out]

    def values(self) -> Mapping[str, Result]:
        """Return what the dialog gives for the answers that do no more than that, by command."""
        return {}

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does, by its id."""
        return {answer: partial(self.dialog.dismiss, value) for answer, value in self.values().items()}

    def preferred(self) -> str:
        """Return the id of the answer that is chosen until the user chooses another."""
        return self.decisions[0]

    def is_read(self, answer: str) -> bool:
        """Tell whether what a guarded answer allows was seen."""
        del answer
        return self.dialog.has_seen_end

    def begin(self) -> None:
        """Fill the body; called once the dialog is on screen."""

    def close(self) -> None:
        """Close the dialog without an answer."""
        _ = self.dialog.dismiss(None)

    def leave(self, *, is_typing: bool) -> None:
        """Close the dialog because the keys go to the workbench; the prompt gets a text that `is_typing`."""
        del is_typing
        self.close()

    def take_over(self, before: Question[Any]) -> None:
        """Go on where the same question was left."""
        self.drafts = before.drafts

    def at_another_part(self) -> None:
        """Take note that the reader came to another part of the body."""


class YesNo(Question[bool]):
    """Asks for a yes or a no, in the words `yes` and `no`.  Without one for yes, no is chosen: it cannot be undone."""

    scopes = (Scope.CONFIRM,)
    decisions = ("confirm.yes", "confirm.no")
    needs_reading = False

    def __init__(self, title: str, text: str, yes: str = "", no: str = "no") -> None:
        super().__init__(PageView(lambda width: whole_text(text, width)))
        self.title, self._yes, self._no = title, yes, no
        self.has_delay = False  # the user has just asked for it

    def headline(self, width: int) -> Content:
        """Return the question."""
        del width
        return Content.styled(self.title, "bold $warning")

    def words(self) -> Mapping[str, str]:
        """Return the words for the answers."""
        return {"confirm.yes": self._yes or "yes", "confirm.no": self._no}

    def preferred(self) -> str:
        """Return what was asked for, where it can be undone."""
        return "confirm.yes" if self._yes else "confirm.no"

    def values(self) -> Mapping[str, bool]:
        """Return what each answer gives."""
        return {"confirm.yes": True, "confirm.no": False}


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
        held, self._held = self._held, None
        is_typing = event.time - self._typed_at_s < LETTER_S
        if not event.is_printable or not event.character:
            if held is not None and event.key == "enter":
                self.type(held.character or "")
            return held is not None and event.key in ("enter", "escape", "backspace")
        is_late = self.was_typing and not self._dialog.is_awake
        is_word = is_late or held is not None or (is_typing and not self._moves(event.key))
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
        """Pass typed text on and leave; text typed before the dialog has closed follows."""
        if self.type_on is not None:
            self.type_on(text)
            if not self._is_left:
                self._is_left = True
                self._dialog.leave(is_typing=True)

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

    def __init__(self, dialog: ConsentDialog[Any]) -> None:
        self._dialog = dialog
        self._covered: VirtualLineView | None = None
        self._place: int | None = None

    @property
    def workbench(self) -> WorkbenchApi | None:
        """Return the workbench if the question is directly over it, or over a side pane next to its conversation."""
        stack = self._dialog.app.screen_stack
        under = stack[: stack.index(self._dialog)] if self._dialog in stack else []
        below = [each for each in under if not (isinstance(each, ConsentDialog) or each.has_class("-docked"))]
        is_ready = below == stack[:1] and getattr(stack[0], "is_ready", False)
        return cast("WorkbenchApi", stack[0]) if is_ready else None

    def columns(self, width: int) -> tuple[int, int]:
        """Return from which column of a screen up to which a question goes."""
        region = self.workbench.panes.chat_pane.region if self.workbench is not None else Region()
        if width < WHOLE_WIDTH_BELOW or region.width < LEAST_CHAT:
            return 0, width
        return region.x, width if self._dialog.question.takes_side else region.right  # its bar covers that of the prompt

    def cover(self, top: int | None) -> None:
        """Keep the end of the conversation above a row of the screen; None: it is free again."""
        bench, could_scroll = self.workbench, self.can_scroll
        if bench is not None and bench.panes.current is not None and (top, self._covered) != (None, None):
            panes, view = bench.panes, bench.panes.current.transcript
            if self._covered is not None and self._covered is not view:
                self._covered.covered_rows = 0
            if top is not None and self._covered is None:
                self._place = None if view.scroller.is_following else view.scroll_offset.y
                panes.follow_chat()
            panes.cover_end(0 if top is None else max(0, view.region.bottom - top))
            self._covered = view if top is not None else None
            if self.can_scroll is not could_scroll:
                self._dialog.draw_keys()

    @property
    def can_scroll(self) -> bool:
        """Tell whether there is more of the conversation than can be seen."""
        return self._covered is not None and self._covered.max_scroll_y > 0

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

    def __init__(self, dialog: ConsentDialog[Any], box: Vertical) -> None:
        self._dialog, self._box, self.chat = dialog, box, ChatBehind(dialog)
        self._is_measured = False
        self._rounds = MOST_ROUNDS
        self._placed, self._drawn = (0, 0, 0), (0, 0)
        self._shown: tuple[Region, Region, int] | None = None
        self.is_zoomed = dialog.question.page is not None

    def begin(self) -> None:
        """Follow the layout of the dialog, and of what it is docked under."""
        for screen in (self._dialog, self._dialog.app.screen_stack[0]):
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
                is_docked = not self.is_zoomed and self.chat.workbench is not None
                self.chat.cover(self._box.region.y if is_docked else None)
            shown = (self._box.region, dialog.question.body.region, dialog.question.body.content_width)
            if shown != self._shown:  # to look lays out again
                self._is_measured, self._shown = True, shown
                dialog.look()

    def _place(self) -> bool:
        """Put the box where it belongs; False where it is there."""
        dialog, box, width = self._dialog, self._box, self._dialog.size.width
        left, right = (0, width) if self.is_zoomed else self.chat.columns(width)
        place = (right - left, left, int(dialog.size.height >= TIGHT_ROWS))
        is_new, self._placed = place != self._placed, place
        if is_new:
            box.styles.width = right - left
            box.styles.margin = (0, 0, place[2], left)
        return is_new

    def _measure(self) -> bool:
        """Give the body its rows; False where it has them."""
        box, body = self._box, self._dialog.question.body
        if body.parent is not box:
            return False
        lines = body.source.total()
        rest = [child for child in box.children if child.display and child is not body]
        used = box.gutter.height + sum(child.outer_size.height + child.styles.margin.height for child in rest)
        room = self._most_rows - used - body.styles.margin.height
        rows = room if self.is_zoomed else min(room, lines)
        body.set_class(not (lines or isinstance(body, DiffView)), "-empty")
        body.styles.height = height = 0 if "-empty" in body.classes else max(1, rows)
        return height != body.outer_size.height


class AnswerField(TextArea):
    """A text to be written in a question; `draft` names it."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.EDIT)

    class Sent(Message):
        """It is written."""

    def __init__(self, draft: str, text: str) -> None:
        super().__init__(text, compact=True, highlight_cursor_line=False, show_line_numbers=False, id="question-field")
        self.cursor_blink, self.draft = False, draft

    def action_edit_send(self) -> None:
        """Say that it is written."""
        self.post_message(self.Sent())

    def action_edit_newline(self) -> None:
        """Begin another line."""
        _ = self.insert("\n")


class ConsentDialog(ModalScreen[Result], ClosedOnce[Result]):
    """Shows a question at the foot of the conversation: its body between what is asked and the answers.

    In the place of the answers something else can be for a while, `inner`: why it is asked, a text to write, a list.
    """

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = ROWS

    def __init__(self, question: Question[Result]) -> None:
        super().__init__()
        self.question = question
        question.dialog = self
        self.SCOPE = question.scopes[0]
        self.shows_live = self.has_seen_end = False
        self._since: datetime | None = None
        self.picked = ""  # the answer that the user chose
        self.inner: Vertical | None = None
        self._done: Callable[[], object] | None = None  # what enter does there
        self._headline = Static("", classes="box-title", markup=False)
        self._notes = Static("", classes="consent-notes", markup=False)
        self._choices = ChoiceRows()
        self._choices.tone = "$error" if question.is_danger else "$warning"
        self._box = Vertical(classes="box consent -danger" if question.is_danger else "box consent")
        self.letters = TypedLetters(self)
        self.fit = BodyFit(self, self._box)
        self._outer = {way.id: way for each in (*of_scope(Scope.WORKBENCH), command("app.palette")) for way in each.ways}
        own = [*bindings_of(question.commands()), *bindings(Scope.QUESTION, Scope.APP, Scope.MOVING)]
        ways = self._outer.values()
        outer = bindings_of(replace(way, runs=f"leave_for('{way.id}')", is_first=False) for way in ways)
        keys = {**BindingsMap(outer).key_to_bindings, **BindingsMap(own).key_to_bindings}
        self._bindings = BindingsMap.from_keys({**self._bindings.key_to_bindings, **keys})

    def compose(self) -> ComposeResult:
        if self.question.page is not None:
            yield self.question.page
        with self._box:
            yield self._headline
            if self.question.page is None:
                yield self.question.body
            yield self._notes
            yield self._choices

    def on_mount(self) -> None:
        """Give the focus to the text, never to an answer."""
        body, bench = self.question.body, self.fit.chat.workbench
        if bench is not None:
            self.letters.type_on, self.letters.was_typing = bench.type_on, bool(bench.typed_text)
        self.draw_keys()
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
        """Do what was answered if it is a choice, once the question has been there for a moment; read on to what it allows."""
        asked = self.question
        is_left_out = command_id in {each.id for each in asked.commands()} - {each.id for each in asked.choices()}
        is_decision = command_id in (*asked.decisions, *asked.guarded)
        if is_left_out or self._done is not None or (is_decision and not self.is_awake):
            return
        if command_id in asked.guarded and not self._is_live(command_id):
            asked.body.action_move("page_down")
            if self._is_live(command_id):  # the key means something else now
                self.restart_delay()
        else:
            asked.handlers()[command_id]()

    def ask(self, question: Question[Any], answered: Callable[[Any], None]) -> None:  # Any: what that question gives
        """Ask something else, over this."""
        _ = self.app.push_screen(ConsentDialog(question), answered)

    def action_choose_answer(self, step: int) -> None:
        """Choose the next answer, or the one before."""
        ids = [way.id for way in self._buttons() if way.id in {self.chosen, *self._choices.drawn}]
        self.picked = ids[(ids.index(self.chosen) + step) % len(ids)]
        self.look()

    def action_confirm_answer(self) -> None:
        """Give the chosen answer, or what is chosen in its place."""
        if self._done is None:
            self.action_answer(self.chosen)
        elif self.is_awake:
            self._done()

    def action_split(self) -> None:
        """Show old and new side by side, or in one column."""
        self.action_answer("diff.split")

    def action_reply(self) -> None:
        """Leave the question for the prompt."""
        self.letters.type("")

    def leave(self, *, is_typing: bool) -> None:
        """Let the keys go to the workbench, this question and those below it wait."""
        self.question.leave(is_typing=is_typing)
        below = self.app.screen
        if isinstance(below, ConsentDialog) and below is not self:
            below.leave(is_typing=is_typing)

    def action_leave_for(self, way_id: str) -> None:
        """Let the question wait and do what a key of the workbench does."""
        self.leave_for(self._outer[way_id].action)

    def leave_for(self, action: str) -> None:
        """Let the question wait and do something in the workbench."""
        if (bench := self.fit.chat.workbench) is not None:
            self.leave(is_typing=False)
            bench.leave_for(action)

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
        """Go back to the answers, or close without one."""
        if self.inner is not None:
            self.close_inner()
        else:
            self.question.close()

    # -- in the place of the answers ------------------------------------------------------------------------------------

    def open_inner(
        self, title: str, content: Widget, keys: str, done: Callable[[], object] | None = None, *below: Widget
    ) -> None:
        """Show something in the place of the answers; with `done`, which enter does, it has the keys."""
        self.close_inner()
        head = [Static(title, markup=False)] if title else []
        self.inner = Vertical(*head, content, *below, Static(keys, classes="hint", markup=False), classes="inner")
        self._done, self._choices.display = done, False
        _ = self._box.mount(self.inner)
        if done is not None:
            content.focus()
        self._tell_keys()

    def close_inner(self) -> None:
        """Show the answers again."""
        if self.inner is not None:
            _ = self.inner.remove()
            self.question.body.focus()
            self.restart_delay()
        self.inner = self._done = None
        self._choices.display = True
        self._tell_keys()

    def _tell_keys(self) -> None:
        self.fit.later()
        self.draw_keys()

    def action_why(self) -> None:
        """Say why it is asked, what the answers mean, and which other keys there are; again: the answers."""
        if self.inner is not None:
            self.close_inner()
            return
        left_out = {*self._choices.drawn, *(() if self.letters.type_on is not None else ("question.reply",))}
        left_out |= set() if self.fit.chat.can_scroll else {"question.chat"}
        found = (*self.question.choices(), *of_scope(Scope.QUESTION))
        ways = [way for each in found if each.id not in left_out for way in each.ways]
        lines = Content("\n").join([Content(line) for line in self.question.reasons()])
        self.open_inner("", Static(lines, markup=False), f"{hint_text(ways)} · Esc back".removeprefix(" · "))

    def write(self, draft: str, title: str, verb: str, done: Callable[[str], object], text: str = "") -> None:
        """Let a text be written, which stays while the question is open; `verb` says what enter does."""
        field = AnswerField(draft, self.question.drafts.get(draft, text))
        field.move_cursor(field.document.end)
        send, newline = of_scope(Scope.EDIT)
        keys = f"{hint_text((replace(send, hint=verb), newline))} · Esc back"
        self.open_inner(title, field, keys, lambda: done(field.text))

    @on(TextArea.Changed)
    def _keep_draft(self, event: TextArea.Changed) -> None:
        if isinstance(event.text_area, AnswerField):
            self.question.drafts[event.text_area.draft] = event.text_area.text
        self.fit.later()

    @on(AnswerField.Sent)
    @on(Table.Chosen)
    def _inner_chosen(self) -> None:
        self.action_confirm_answer()

    # -- what counts by now ---------------------------------------------------------------------------------------------

    @property
    def chosen(self) -> str:
        """Return the id of the answer that Enter gives."""
        ids = [each.id for each in self._buttons()]
        wanted = self.picked or self.question.preferred()
        return wanted if wanted in ids else ids[0]

    @property
    def is_awake(self) -> bool:
        """Tell whether the dead time is over."""
        since, has_delay = self._since, self.question.has_delay or self.letters.was_typing
        return since is not None and not (has_delay and 0 <= (self._now() - since).total_seconds() < DEAD_TIME_S)

    def _now(self) -> datetime:
        now: Callable[[], datetime] = getattr(self.app, "now")  # noqa: B009 - the app of these dialogs has a clock
        return now()

    @property
    def is_live(self) -> bool:
        """Tell whether an answer that allows everything counts yet."""
        self._note_end()
        return self.has_seen_end and self.is_awake

    def _is_live(self, answer: str) -> bool:
        self._note_end()
        return self.question.is_read(answer) and self.is_awake

    def _note_end(self) -> None:
        """Take note that the end of the body is in view."""
        body = self.question.body
        lines = body.source.total()
        is_at_end = body.has_class("-empty") or 0 < lines <= body.scroll_y + body.size.height
        if not self.question.needs_reading or (self.fit.is_done and is_at_end):
            self.has_seen_end = True

    def restart_delay(self) -> None:
        """Let keys count only after a moment again: something else is there now."""
        self._since = self._now()
        call_after(self, DEAD_TIME_S, self._wake)
        self.look()

    def read_again(self) -> None:
        """Ask for the body to be read once more: it is another."""
        self.has_seen_end = False
        self.draw()
        self.fit.later()

    @property
    def drawn_width(self) -> int:
        """Return for how many columns the headline is drawn."""
        return max(10, self._headline.content_size.width or self.size.width - 8)

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
        buttons, body = self._buttons(), self.question.body
        hints: list[Hint] = [(first_key(command("question.why")), "more", "why")]
        below = body.source.total() - body.scroll_offset.y - body.size.height
        if not self.has_seen_end and body.size.height and below > 0 and self.size.height >= TIGHT_ROWS:
            hints.append(("", pluralize(below, "more line"), ""))
        dim = () if self.is_awake else tuple(each.id for each in buttons)
        self._choices.show(buttons, hints, chosen=self.chosen, dim=dim)

    def _buttons(self) -> list[Command]:
        """Return the answers that are drawn as buttons: of those whose matter was not seen yet one, which reads on to it."""
        asked = self.question
        self._note_end()
        unread = {answer for answer in asked.guarded if not asked.is_read(answer)}
        found = {each.id: each for each in asked.choices() if each.hint and each.id not in unread - {*asked.guarded[:1]}}
        found |= {name: replace(found[name], hint=READ_ON) for name in unread & found.keys()}
        shown = [found[answer] for answer in asked.decisions if answer in found]
        return shown[:MOST_BUTTONS] or list(found.values())[:1]

    def _wake(self) -> None:
        """Show that the choices count now; a timer that comes early looks again."""
        self.look()
        if not self.is_awake:
            call_after(self, DEAD_TIME_S / 2, self._wake)
