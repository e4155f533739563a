"""The panes around the prompt: files, conversation, plan and log.  Mounted after the first frame; it draws and asks nothing."""

from __future__ import annotations

from dataclasses import dataclass

from textual.app import ComposeResult
from textual.widget import Widget

from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.plan_view import PlanView
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import SessionView
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import SIDE_PANES, Columns


@dataclass
class SessionPanes:
    """The panes of one session; they stay as they are while another session is on screen.

    `agent` is the conversation of a sub-agent that is in the place of the root's.
    """

    root: Transcript
    log: ToolLog
    agent: Transcript | None = None

    @property
    def transcript(self) -> Transcript:
        """Return the conversation that is shown."""
        return self.agent or self.root


class Panes(Columns):
    """All panes; their number depends on the open sessions and on nothing in them."""

    DEFAULT_CSS = """
    Panes { height: 1fr; }
    Panes .pane { background: $surface; height: 1fr; padding: 1 1 0 1; }
    Panes .pane Bar { padding: 0 1 0 0; }
    Panes #side-pane { background: $surface; }
    Panes .pane VirtualLineView { scrollbar-background: $surface; scrollbar-background-hover: $surface; }
    Panes VirtualLineView { background: transparent; }
    Panes .-blank { visibility: hidden; }
    """

    def __init__(self) -> None:
        super().__init__(id="panes")
        self._focused, self._files_note = "", Part("")
        self._by_session: dict[str, SessionPanes] = {}
        self.current: SessionPanes | None = None
        self.files, self.plan = FileTree(id="files"), PlanView(id="plan")
        self._files_title, self._log_title = Bar(id="files-title"), Bar(id="log-title")

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield from (self.files_space, self.files_pane, self.chat_pane, self.side_pane)

    async def on_mount(self) -> None:
        """Fill the panes that every session shares."""
        await self.files_pane.mount(self._files_title, self.files)
        await self.plan_pane.mount(self.plan)
        await self.log_pane.mount(self._log_title)
        self.watch(self.plan, "virtual_size", self._plan_grew, init=False)  # a narrow pane wraps its rows

    def _plan_grew(self) -> None:
        self.begin(has_begun=self.has_begun)

    @property
    def plan_rows(self) -> int:
        """Return how many rows plan, todos and agents have."""
        return self.plan.source.total()

    def show_session(self, view: SessionView) -> None:
        """Bring a session's own panes to the front, made if they are not there, and the shared ones in line with it."""
        session_id = view.session.id
        if session_id not in self._by_session:
            panes = SessionPanes(Transcript(classes="transcript"), ToolLog(classes="log"))
            self._by_session[session_id] = panes
            view.panels = (panes.root, panes.log)
            _ = self.chat_pane.mount(panes.root)
            _ = self.log_pane.mount(panes.log)
        self.current = self._by_session[session_id]
        for each, shown in self._by_session.items():
            shown.log.display = each == session_id
            shown.root.display = each == session_id and shown.agent is None
            if shown.agent is not None:
                shown.agent.display = each == session_id
        self.plan.show(view.state)
        self.files.show_changes(view.state.work.changed_files)

    def mark_focus(self, focused: str) -> None:
        """Let the title of the pane in focus are out."""
        if focused != self._focused:
            self._focused = focused
            self.files_pane.set_class(focused == "files", "-focused")
            self.side_pane.set_class(focused in SIDE_PANES, "-focused")
            self.show_files_note(self._files_note)
            self._draw_log_title()

    def draw_titles(self) -> None:
        """Draw the panes' first lines."""
        if self.files.source.found is None:  # else the note counts what was found
            changed = self.files.source.changed_count
            self.show_files_note(Part(f"{changed} changed" if changed else "", "$text-muted", 1))
        self._draw_log_title()

    def _draw_log_title(self) -> None:
        log = self.current.log if self.current is not None else None
        has_log = self.front == "log" or (log is not None and (log.source.total() > 0 or log.source.is_narrowed))
        self.log_pane.set_class(not has_log, "-blank")  # the room stays, so that the conversation does not reflow
        self.side_pane.set_class(not has_log and not self.plan_rows and self.front != "plan", "-blank")
        notes = ["{:,} of {:,}".format(*log.source.counts)] if log is not None and log.source.is_narrowed else []
        notes += ["live"] if log is not None and log.scroller.is_following else []
        self._log_title.show([Part("Log", self._style_of("log"))], [Part(" · ".join(notes), "$text-muted", 1)])

    def show_files_note(self, note: Part) -> None:
        """Draw the first line of the files with a note."""
        self._files_note = note
        self._files_title.show([Part("Files", self._style_of("files"))], [note])

    def _style_of(self, pane: str) -> str:
        return "bold $accent" if pane == self._focused else "bold $text"

    async def forget(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
        panes = self._by_session.pop(session_id, None)
        if panes is not None:
            self.current = None if self.current is panes else self.current
            await panes.root.remove()
            if panes.agent is not None:
                await panes.agent.remove()
            await panes.log.remove()

    def pane(self, name: str) -> Widget | None:
        """Return the widget of a pane by its name: chat, files, plan or log."""
        match name:
            case "files":
                return self.files
            case "plan":
                return self.plan
            case "log":
                return self.current.log if self.current else None
            case _:
                return self.current.transcript if self.current else None

    def page_chat(self, pages: int) -> None:
        """Scroll the conversation by pages."""
        if self.current is not None:
            transcript = self.current.transcript
            transcript.scroller.page(pages)

    def cover_end(self, rows: int) -> None:
        """Keep the end of the conversation above so many rows that something floats over."""
        if self.current is not None and self.current.transcript.covered_rows != rows:
            self.current.transcript.covered_rows = rows
            self.current.transcript.touch()

    def follow_chat(self) -> None:
        """Follow the end of the conversation until the user scrolls up again."""
        if self.current is not None and not self.current.transcript.copy_mode.is_on:
            self.current.transcript.scroller.set_following(True)
            self.current.transcript.touch()

    def copied_text(self) -> str:
        """Return what copying gives where the focus is."""
        if self.files.has_focus:
            return self.files.current_path
        if self.plan.has_focus:
            return self.plan.copy_text()
        if self.current is not None and self.current.log.has_focus:
            return self.current.log.copy_text()
        if self.current is not None and self.current.transcript.has_focus:
            return self.current.transcript.copy_text()
        return ""
