"""The ground of a screen with a difference on it: gone through by hunk and file, searched, shown in either form."""

from __future__ import annotations

from abc import abstractmethod

from textual.screen import Screen

from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.widgets.ask_line import AskLine


class DiffScreen(Screen[None]):
    """Answers the keys that are about the difference."""

    def __init__(self, diff: DiffView, ask_line: AskLine) -> None:
        super().__init__()
        self.diff, self.ask_line = diff, ask_line

    @abstractmethod
    def draw_head(self) -> None:
        """Say which match one is at."""

    def action_changes_next_hunk(self) -> None:
        """Go to the next change of the difference."""
        self.diff.action_next_hunk()

    def action_changes_previous_hunk(self) -> None:
        """Go to the change before."""
        self.diff.action_previous_hunk()

    def action_changes_file(self, step: int) -> None:
        """Go to the next file of the difference, or the one before."""
        self.diff.step_file(step)

    def action_changes_search(self) -> None:
        """Ask what to look for in the difference."""
        self.ask_line.ask(self, "search in this difference", move=self.action_changes_match)

    def action_changes_match(self, step: int) -> None:
        """Go to the next match, or the one before."""
        self.diff.step_match(step)
        self.draw_head()

    def typed(self, text: str) -> None:
        """Look for what was typed."""
        self.diff.search(text)
        self.draw_head()

    def done(self, text: str) -> None:
        """Stay at the match."""
        del text
        self.ask_line.close()
        self.diff.focus()

    def given_up(self) -> None:
        """Look for nothing any more."""
        self.typed("")
        self.diff.focus()

    def action_changes_split(self) -> None:
        """Show side by side, or one column."""
        self.diff.action_toggle_split()
