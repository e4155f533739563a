"""What can be done in the panes of the workbench: go there, list, read, compare, copy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from textual import on
from textual.widget import Widget

from lmtui.tui.desk import Desk
from lmtui.tui.screens.change_actions import ChangeActions
from lmtui.tui.widgets.bars import WIDE_CELLS
from lmtui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from lmtui.tui.lines.file_tree import FileTree
    from lmtui.tui.lines.tool_log import ToolLog
    from lmtui.tui.parts.agents import AgentPart
    from lmtui.tui.parts.files import FilesPart
    from lmtui.tui.widgets.panes import Panes


class PaneActions(ChangeActions):
    """The part of the workbench that answers the panes."""

    def __init__(self, desk: Desk, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self.panes: Panes | None = None
        self.pane = "chat"
        self.files_part: FilesPart | None = None
        self.agent_part: AgentPart | None = None
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
        widget = self._pane_widget(pane)
        is_there = (widget.has_focus and widget is not self.prompt) if pane == "chat" else pane == self.pane
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
        if self.files_part is not None:
            self.files_part.load(event.path)

    def on_file_tree_states_wanted(self, event: FileTree.StatesWanted) -> None:
        """Look at git again, and after a step at what is not watched."""
        if self.files_part is not None:
            self.files_part.read_git()
            if event.is_step_end:
                self.files_part.step_ended()

    def on_file_tree_file_chosen(self, event: FileTree.FileChosen) -> None:
        """Show a file."""
        if self.files_part is not None:
            self.files_part.open_file(event.path)

    def host_is_there(self) -> None:
        """Ask for what could not be had before."""
        if self.files_part is not None:
            self.files_part.start()

    def on_tool_log_opened(self, event: ToolLog.Opened) -> None:
        """Show a call in the conversation."""
        if self.agent_part is not None:
            self.run_worker(self.agent_part.show(event.agent, event.call_id), group="agents")

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

    async def forget_panes(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
        if self.panes is not None:
            await self.panes.forget(session_id)

    @on(Prompt.Changed)
    def _bring_questions_back(self) -> None:
        if not self.prompt.text:
            self.bring_back()

    def follow_chat(self) -> None:
        """Show the end of the conversation on screen."""
        if self.panes is not None:
            self.panes.follow_chat()

    def typed_words(self) -> str:
        """Return what stands in the prompt, where the keys go there."""
        return self.prompt.text if self.focused is self.prompt else ""

    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""
        _ = self.prompt.insert(text)
        self.prompt.focus()
