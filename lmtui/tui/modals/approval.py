"""The question before something runs or changes: all of it is shown, and nothing says yes by accident."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from lmtui.core.clean import clean, clean_line
from lmtui.core.events import ApprovalRequested, Outcome
from lmtui.core.sessions import Answer
from lmtui.tui.commands import Scope, bindings, command, first_key, of_scope
from lmtui.tui.facts import Facts
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.modals.results import Left
from lmtui.tui.summary import sandbox_style, sandbox_text
from lmtui.tui.widgets.bars import HEIGHTS

DEAD_TIME_S = 0.3
FRAME_ROWS = 9
TIGHT_ROWS = 13
FLAT_ROWS = 9
HIDDEN = r"<U\+[0-9A-F]{4,6}>"


class Approval(ModalScreen[Answer | Left | None]):
    """Shows one request.  The choices work only after a moment, and where the text is longer than the box after its end."""

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.MOVING), *bindings(Scope.APPROVAL)]

    SCOPE: ClassVar[Scope] = Scope.APPROVAL

    def __init__(self, request: ApprovalRequested, facts: Facts, *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.request = request
        self._facts, self._now = facts, now
        self._shown_at = now()
        self.shows_live = False
        self._is_fitted = False
        self._has_seen_end = False

        self._text = Static(_visible(request.text), markup=False)
        self._body = DiffView(id="approval-diff") if request.diff else VerticalScroll(self._text, id="approval-text")
        self._more = Static("", id="approval-more", markup=False)
        self._choices = Static("", id="approval-choices", markup=False)
        self._feedback = Input(placeholder="why not? this goes to the model", id="approval-feedback", compact=True)
        self._feedback.cursor_blink = False
        self._feedback.display = False

    def compose(self) -> ComposeResult:
        """Lay out what is asked, under which conditions, and the choices."""
        with Vertical(classes="box approval"):
            yield Static(self._title(), classes="box-title", markup=False)
            yield self._body
            yield Static(self._conditions(), id="approval-why", markup=False)
            yield self._more
            yield self._choices
            yield self._feedback

    def on_mount(self) -> None:
        """Show the change, start the dead time, and give the focus to the text, never to an answer."""
        if isinstance(self._body, DiffView):
            self._body.show_diff(self.request.diff, self.request.path)
        self._body.focus()
        self._draw_choices()
        self.set_timer(DEAD_TIME_S, self._wake)
        self.watch(self._body, "scroll_y", self._look, init=False)
        self.watch(self._body, "virtual_size", self._fit_later, init=False)

    def on_resize(self) -> None:
        """Give the text the rows that title, conditions and choices leave."""
        self._fit_later()

    @property
    def _is_tight(self) -> bool:
        return self.size.height < TIGHT_ROWS

    def _wrapped_texts(self) -> tuple[str, ...]:
        choices = _choices_text(self.size.width - 6, is_tight=self._is_tight).plain
        if self._is_tight:
            return (choices,) if self.size.height < FLAT_ROWS else (choices, self._title().plain)
        return self._conditions().plain, choices

    def _fit_later(self) -> None:
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        width = max(10, self._body.size.width)
        rest = sum(-(-len(line) // width) for text in self._wrapped_texts() for line in text.split("\n"))
        room = max(1, self.size.height - rest - (2 if self._is_tight else FRAME_ROWS))
        if isinstance(self._body, DiffView):
            self._body.styles.height = max(1, min(room, self._body.line_total()))
        else:
            self._body.styles.max_height = room
        self._is_fitted = True
        self.call_after_refresh(self._look)

    @property
    def is_live(self) -> bool:
        """Tell whether an answer counts yet."""
        self._note_end()
        return self._has_seen_end and not self._is_too_soon

    @property
    def _is_too_soon(self) -> bool:
        return 0 <= (self._now() - self._shown_at).total_seconds() < DEAD_TIME_S

    def action_approve_once(self) -> None:
        """Let it run this once."""
        self._answer(Answer(Outcome.ONCE))

    def action_approve_session(self) -> None:
        """Let it run, and the same again in this session."""
        self._answer(Answer(Outcome.SESSION))

    def action_approve_always(self) -> None:
        """Let it run, and keep the rule."""
        self._answer(Answer(Outcome.ALWAYS))

    def action_approve_no(self) -> None:
        """Refuse; this needs no dead time, as nothing runs."""
        _ = self.dismiss(Answer(Outcome.NO))

    def action_approve_because(self) -> None:
        """Ask for the reason of a no."""
        self._feedback.display = True
        self._feedback.focus()

    def action_approve_later(self) -> None:
        """Leave it waiting."""
        _ = self.dismiss(Left.LATER)

    def action_close_or_stop(self) -> None:
        """Leave the reason, or interrupt the turn."""
        if self._feedback.display:
            self._feedback.display = False
            self._body.focus()
        else:
            _ = self.dismiss(Left.STOP)

    @on(Input.Submitted)
    def _refuse_with_words(self, event: Input.Submitted) -> None:
        _ = self.dismiss(Answer(Outcome.NO, feedback=event.value.strip()))

    def _answer(self, answer: Answer) -> None:
        if self.is_live:
            _ = self.dismiss(answer)

    def _note_end(self) -> None:
        body = self._body
        text_lines = body.line_total() if isinstance(body, DiffView) else self._text.size.height
        if self._is_fitted and body.size.height and text_lines and body.scroll_y + body.size.height >= text_lines:
            self._has_seen_end = True

    def _wake(self) -> None:
        """Show that the choices count now; a timer that comes early looks again."""
        self._look()
        if self._is_too_soon:
            self.set_timer(DEAD_TIME_S / 3, self._wake)

    def _look(self) -> None:
        self._note_end()
        self._more.display = not self._has_seen_end
        more = "more below: scroll" if self._is_tight else "there is more below: scroll to its end before you allow it"
        self._more.update(Content.styled(more, "$warning"))
        self._draw_choices()

    def _draw_choices(self) -> None:
        self.shows_live = self.is_live
        text = _choices_text(self.size.width - 6, is_tight=self._is_tight)
        choices = text if self.shows_live else Content.styled(text.plain, "$text-muted")
        self._choices.update(choices)

    def _title(self) -> Content:
        request = self.request
        verb = "run a command" if request.tool == "shell" else f"use {request.tool}"
        what = f"change {clean_line(request.path)}" if request.diff and request.path else verb
        return Content.assemble((f"{clean_line(request.agent)} asks to {what}", "bold $warning"))

    def _conditions(self) -> Content:
        lines = [
            Content.assemble(
                (sandbox_text(self._facts), sandbox_style(self._facts)), (f" · {clean_line(self.request.why)}", "$text-muted")
            )
        ]
        if self.request.suggested_rule:
            rule = f"this session / always here would grant: {clean_line(self.request.suggested_rule)}"
            lines.append(Content.styled(rule, "$text-muted"))
        return Content("\n").join(lines)


def _choices() -> Content:
    """Return the verbs, each with its key."""
    parts = [
        Content.assemble((first_key(each), "bold $accent"), (f" {each.hint}", "$text")) for each in of_scope(Scope.APPROVAL)
    ]
    stop = Content.assemble((first_key(command("app.stop")), "bold $accent"), (" stop the turn", "$text"))
    return Content("   ").join([*parts, stop])


def _choices_text(room: int, *, is_tight: bool) -> Content:
    full = _choices()
    return Content.styled(_choice_keys(), "bold $accent") if is_tight and full.cell_length > room else full


def _choice_keys() -> str:
    """Return only the keys, for a screen without room for the verbs."""
    return " ".join(first_key(each) for each in (*of_scope(Scope.APPROVAL), command("app.stop")))


def _visible(text: str) -> Content:
    """Return the whole text with hidden characters named and marked."""
    return Content(clean(text)).highlight_regex(HIDDEN, style="bold $warning")
