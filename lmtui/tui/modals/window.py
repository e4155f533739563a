"""What fills the model's window, and how its prompts were read: two dialogs of rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.binding import BindingType

from lmtui.core.events import Envelope
from lmtui.core.model_words import calls_words
from lmtui.core.sessions import Session
from lmtui.core.window import WindowItem
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.facts import Facts
from lmtui.tui.lines import cache_use, window_use
from lmtui.tui.lines.grouped import GroupRow
from lmtui.tui.lines.text import Line
from lmtui.tui.modals.grouped import Grouped

FIXED = "Only results and what came with your messages can be folded, left out or pinned."


class WindowScreen(Grouped):
    """Shows each part of the next request and lets single ones be folded, left out, brought back and pinned."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CONTEXT)]
    SCOPE: ClassVar[Scope] = Scope.CONTEXT
    TITLE_TEXT: ClassVar[str] = "WHAT FILLS THE WINDOW"

    def __init__(self, session: Session, facts: Facts) -> None:
        super().__init__()
        self._use, self._calls, self._facts = session.window_use, session.calls, facts
        self._parts = self._use.parts()
        self.rows_list.shut = {part.name for part in self._parts if not part.name.startswith("results")}

    def head(self) -> str:
        """Return how much of the window is used."""
        return window_use.window_head(self._parts, self._facts)

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return window_use.column_head(width)

    def rows(self) -> Sequence[GroupRow]:
        """Return parts and messages as they are now."""
        self._parts = self._use.parts()
        return window_use.window_rows(self._parts, self._facts.window_tokens, self._use.read_s)

    def about(self, row: GroupRow) -> str:
        """Return what a change of the marked message would cost, before it is made."""
        item = self._item(row)
        if row.group == window_use.TOOLS and not row.key:
            return f"{calls_words(self._calls)}; /calls changes it."
        if item is None or not item.id:
            return "Enter folds a group here; what is sent stays the same." if not row.key else FIXED
        return window_use.cost_text(item, self._use.read_s)

    def action_window_fold(self) -> None:
        """Send only the beginning of the marked result."""
        if (item := self._marked()) is not None:
            self._use.fold(item.id)
            self.draw()

    def action_window_leave_out(self) -> None:
        """Send a line in place of the marked result."""
        if (item := self._marked()) is not None:
            self._use.leave_out(item.id)
            self.draw()

    def action_window_back(self) -> None:
        """Send the marked result whole again."""
        if (item := self._marked()) is not None and item.state:
            self._use.bring_back(item.id)
            self.draw()

    def action_window_pin(self) -> None:
        """Pin the marked result, or let it go."""
        if (item := self._marked()) is not None:
            self._use.pin(item.id, is_pinned=not item.is_pinned)
            self.draw()

    def _marked(self) -> WindowItem | None:
        current = self.rows_list.current
        item = self._item(current) if current is not None else None
        return item if item is not None and item.id else None

    def _item(self, row: GroupRow) -> WindowItem | None:
        items = next((part.items for part in self._parts if part.name == row.group), ())
        return next((item for at, item in enumerate(items) if window_use.item_key(item, at) == row.key), None)


class CacheScreen(Grouped):
    """Shows, by turn and request, what of each prompt was reused, read again and new."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.CACHE)]
    SCOPE: ClassVar[Scope] = Scope.CACHE
    TITLE_TEXT: ClassVar[str] = "HOW THE PROMPTS WERE READ"

    def __init__(self, history: Sequence[Envelope]) -> None:
        super().__init__()
        self._turns = cache_use.turns_spent(history)
        self.rows_list.shut = {turn.turn_id or "earlier" for turn in self._turns[:-1]}
        self.rows_list.empty_text = "no request yet"

    def head(self) -> str:
        """Return the sums."""
        return cache_use.cache_head(self._turns)

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return cache_use.column_head(width)

    def rows(self) -> Sequence[GroupRow]:
        """Return turns and requests."""
        return cache_use.cache_rows(self._turns)

    def about(self, row: GroupRow) -> str:
        """Return a request in words."""
        if not row.key:
            return "Enter folds a turn. ~ is inferred: the server does not say what it reused."
        requests = [spent for turn in self._turns for spent in turn.requests]
        return cache_use.request_text(requests[int(row.key) - 1])
