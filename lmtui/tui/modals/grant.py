"""The choice behind `always`: which rule is kept, and how far it reaches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical, VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.clean import reveal_line
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.modals.approval_words import SCOPE_MEANINGS, SCOPE_WORDS, Grant
from lmtui.tui.modals.consent import DeadTime
from lmtui.tui.widgets.verbs import Verbs

SCOPE_CELLS = max(len(word) for word in SCOPE_WORDS.values()) + 2


class GrantChoice(ModalScreen[Grant | None]):
    """Lists what may be granted, the narrowest marked; nothing is granted in the first moment."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.GRANT), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.GRANT

    def __init__(self, grants: Sequence[Grant], now: Callable[[], datetime]) -> None:
        super().__init__()
        self._grants = list(grants)
        self._dead_time = DeadTime(now)
        self._options = OptionList(compact=True, markup=False)
        self._meaning = Static("", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the rules and what the marked one means."""
        with Vertical(classes="box"):
            yield Static("ALWAYS: what may happen without asking?", classes="box-title", markup=False)
            yield self._options
            with VerticalScroll(id="grant-meaning", can_focus=False):
                yield self._meaning
            yield self._verbs

    def on_mount(self) -> None:
        """Mark the narrowest."""
        self._options.add_options([Option(_line(grant), id=str(index)) for index, grant in enumerate(self._grants)])
        self._options.highlighted = 0
        self._options.focus()
        self._verbs.show([*of_scope(Scope.GRANT), closing("back")])
        self._dead_time.restart()

    @on(OptionList.OptionHighlighted)
    def _explain(self, event: OptionList.OptionHighlighted) -> None:
        grant = self._grants[event.option_index]
        meaning = f"\nallowed without asking {SCOPE_MEANINGS[grant.scope]}, until you revoke it in /rules"
        self._meaning.update(Content.assemble((reveal_line(grant.rule), "$accent"), (meaning, "$text-muted")))

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._options.highlighted = event.option_index
        self.action_grant_choose()

    def action_grant_choose(self) -> None:
        """Grant what is marked."""
        marked = self._options.highlighted
        if marked is not None and self._dead_time.is_over:
            _ = self.dismiss(self._grants[marked])

    def action_close_or_stop(self) -> None:
        """Go back to the question."""
        _ = self.dismiss(None)


def _line(grant: Grant) -> Content:
    return Content.assemble((SCOPE_WORDS[grant.scope].ljust(SCOPE_CELLS), "$text-muted"), (reveal_line(grant.rule), "$text"))
