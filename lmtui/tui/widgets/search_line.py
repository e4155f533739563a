"""The line that words to look for are typed into; it drives the pane that it was opened for and nothing else."""

from __future__ import annotations

from textual import on
from textual.widget import Widget
from textual.widgets import Input

from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.find_view import FindView


class SearchLine(Input, inherit_bindings=True):
    """One line below a pane; what is typed is marked at once, enter goes to a match, escape ends the search."""

    BINDINGS = bindings(Scope.SEARCHING)
    DEFAULT_CSS = """
    SearchLine, SearchLine:focus { height: 1; border: none; padding: 0 1; background: $surface; display: none; }
    SearchLine.-open { display: block; }
    """

    def __init__(self) -> None:
        super().__init__(placeholder="search in the whole session", select_on_focus=False)
        self.cursor_blink = False
        self._target: FindView | None = None
        self._before: Widget | None = None

    def open_for(self, target: FindView, before: Widget | None) -> None:
        """Look for words in a pane; `before` gets the focus back where the search is given up."""
        self._target, self._before = target, before
        self.value = target.finder.words if target.finder is not None else ""
        self.cursor_position = len(self.value)
        self.add_class("-open")
        self.focus()

    def close(self) -> None:
        """Put the line away."""
        self.remove_class("-open")

    def action_close_search(self) -> None:
        """End the search and go back to where one came from."""
        self.close()
        if self._target is not None:
            self._target.find("")
        if self._before is not None:
            self._before.focus()

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        target = self._target
        words = target.finder.words if target is not None and target.finder is not None else ""
        if target is not None and self.has_class("-open") and event.value != words:
            target.find(event.value)

    @on(Input.Submitted)
    def _chosen(self, event: Input.Submitted) -> None:
        event.stop()
        if self._target is None or self._target.finder is None:
            self.action_close_search()
            return
        self.close()
        self._target.focus()
        self._target.go_to_match()
