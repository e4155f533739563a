"""What can be done in the panes of the workbench: go there, list, read, compare, copy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.tui.desk import Desk
from lmtui.tui.screens.change_actions import ChangeActions
from lmtui.tui.widgets.bars import WIDE_CELLS
from lmtui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from lmtui.tui.lines.file_tree import FileTree
    from lmtui.tui.lines.tool_log import ToolLog
    from lmtui.tui.widgets.panes import Panes


class PaneActions(ChangeActions):
    """The part of the workbench that answers the panes."""

    def __init__(self, desk: Desk, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self.panes: Panes | None = None
        self.pane = "chat"
        self.prompt = Prompt(placeholder="what should be done?")

    @abstractmethod
    def draw(self) -> None:
        """Draw all facts of the session on screen."""

    @property
    def has_tabs(self) -> bool:
        """Tell whether the side panes are hidden and named in the header instead."""
        return self.app.size.width < WIDE_CELLS

    def action_pane_files(self) -> None:
        """Go to the files, or back."""
        self.go_to("files")

    def action_pane_plan(self) -> None:
        """Go to the plan, or back."""
        self.go_to("plan")

    def action_pane_log(self) -> None:
        """Go to the tool log, or back."""
        self.go_to("log")

    def action_pane_chat(self) -> None:
        """Go to the conversation."""
        self.go_to("chat")

    def go_to(self, pane: str) -> None:
        """Show a pane where the panes share the screen, and give it the focus; from the chat itself, back to the prompt."""
        is_there = pane == self.pane and pane != "chat"
        self.pane = "chat" if is_there else pane
        self.set_class(self.pane != "chat", "-side")
        for each in ("files", "plan", "log"):
            self.set_class(each == self.pane, f"-{each}")
        if self.panes is not None and pane in self.panes.layout_of_user.hidden and not self.has_tabs:
            self.panes.use_layout(self.panes.layout_of_user.shown(pane))
        target = self.prompt if is_there else self._pane_widget(pane)
        target.focus()
        self.draw()

    def _pane_widget(self, pane: str) -> Widget:
        return (self.panes.pane(pane) if self.panes is not None else None) or self.prompt

    @on(Prompt.Paged)
    def _page(self, event: Prompt.Paged) -> None:
        if self.panes is not None:
            self.panes.page_chat(event.pages)

    def on_file_tree_listing_wanted(self, event: FileTree.ListingWanted) -> None:
        """List a folder for the tree."""
        self.run_worker(self._load_listing(event.path), group="files")

    def host_is_there(self) -> None:
        """Ask for what could not be had before."""
        self.run_worker(self._load_listing(""), group="files")

    async def _load_listing(self, path: str) -> None:
        if self.desk.host is None or self.panes is None:
            return
        try:
            entries = await self.desk.host.files.list(path)
        except LmtuiError as error:
            self.say(error.full_text(), "warning")
            return
        self.panes.files.set_listing(path, entries)

    def on_file_tree_file_chosen(self, event: FileTree.FileChosen) -> None:
        """Show a file."""
        self._view(event.path)

    def on_tool_log_opened(self, event: ToolLog.Opened) -> None:
        """Show a call in the conversation."""
        current = self.panes.current if self.panes is not None else None
        if current is not None and current.transcript.show_call(event.call_id):
            self.go_to("chat")

    def action_files_diff(self) -> None:
        """Show how the session changed the file under the cursor."""
        active = self.desk.active
        if self.panes is None or active is None or not self.panes.files.has_focus:
            return
        path = self.panes.files.current_path
        if path in active.facts.changes:
            self.show_changes(path)

    def action_lines_copy(self) -> None:
        """Copy what the cursor is on."""
        text = self.panes.copied_text() if self.panes is not None else ""
        if text:
            self.app.copy_to_clipboard(text)

    def _view(self, path: str) -> None:
        if self.desk.host is not None and self.desk.dialogs is not None:
            changes = self.desk.active.facts.changes if self.desk.active else {}
            _ = self.app.push_screen(self.desk.dialogs.viewer(self.desk.host, changes, path, as_diff=False))

    async def forget_panes(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
        if self.panes is not None:
            await self.panes.forget(session_id)
