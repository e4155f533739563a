"""The panes around the prompt: files, conversation, plan and log.  Mounted after the first frame; it draws and asks nothing."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from lmtui.core.sanitize import sanitize_path
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.patch import MINUS
from lmtui.tui.lines.plan_view import PlanView
from lmtui.tui.lines.styled_text import Line, fit_path, row, width_of
from lmtui.tui.lines.table import Table
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import SessionView
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import SIDE_PANES, Columns

CHANGED_FROM_ROWS, MOST_CHANGED = 40, 8


@dataclass
class SessionPanes:
    """The panes of one session; they stay as they are while another session is on screen."""

    transcript: Transcript
    log: ToolLog


class ChangedSection(Vertical):
    """What the session changed, below the files of a high screen.  `open_change` shows how a file was changed."""

    def __init__(self) -> None:
        self._title, self._rows = Bar(id="changed-title"), Table(changed_line, id="changed")
        super().__init__(self._title, self._rows, id="changed-section")
        self.open_change: Callable[[str], object] = lambda _: None

    def show(self, changes: Collection[FileChange]) -> None:
        """List the files, by name, where there are rows for it."""
        listed = sorted(changes, key=lambda change: change.path.rpartition("/")[2])
        self.display = bool(listed) and self.app.size.height >= CHANGED_FROM_ROWS
        if self.display and listed != self._rows.rows:
            added, removed = sum(each.added_lines for each in listed), sum(each.removed_lines for each in listed)
            total = Content.assemble((f"+{added}", "$text-success"), (f" {MINUS}{removed}", "$text-error"))
            self._title.show([Part("Changed", "bold $text")], [Part(total)])
            self._rows.styles.height = min(len(listed), MOST_CHANGED)
            self._rows.show(listed)

    @on(Table.Chosen)
    def _open(self, event: Table.Chosen) -> None:
        event.stop()
        if self._rows.current is not None:
            self.open_change(self._rows.current.path)


def changed_line(change: FileChange, width: int) -> Line:
    """Return a changed file: its name, and how many lines were added and removed in columns."""
    added = f"+{change.added_lines}" if change.added_lines else ""
    removed = f"{MINUS}{change.removed_lines}" if change.removed_lines else ""
    counts: Line = ((added, "good"), (f"{removed:>4}", "bad"))
    name = fit_path(sanitize_path(change.path.rpartition("/")[2]), width - width_of(counts) - 1)
    return row(((name, "muted" if change.kind is FileChangeKind.DELETED else ""),), counts, width, gap=1)


class Panes(Columns):
    """All panes; their number depends on the open sessions and on nothing in them."""

    def __init__(self) -> None:
        super().__init__(id="panes")
        self._focused, self._files_note = "", Part("")
        self._by_session: dict[str, SessionPanes] = {}
        self.current: SessionPanes | None = None
        self.files, self.plan = FileTree(id="files"), PlanView(id="plan")
        self.changed = ChangedSection()
        self._files_title, self._log_title = Bar(id="files-title"), Bar(id="log-title")

    def compose(self) -> ComposeResult:
        """Lay out the panes."""
        yield from (Widget(id="files-space"), self.files_pane, self.chat_pane, self.side_pane)

    async def on_mount(self) -> None:
        """Fill the panes that every session shares."""
        await self.files_pane.mount(self._files_title, self.files, self.changed)
        await self.plan_pane.mount(self.plan)
        await self.log_pane.mount(self._log_title)
        self.watch(self.plan, "virtual_size", self._plan_grew, init=False)  # a narrow pane wraps its rows

    def _plan_grew(self) -> None:
        self.begin(has_begun=self.has_begun, has_team=self._shown[1])

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
            view.panels = (panes.transcript, panes.log)
            _ = self.chat_pane.mount(panes.transcript)
            _ = self.log_pane.mount(panes.log)
        self.current = self._by_session[session_id]
        for each, shown in self._by_session.items():
            shown.log.display = each == session_id
            shown.transcript.display = each == session_id
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
        """Draw the panes' first lines, and what is changed."""
        self.changed.show(self.files.source.marks.agent.net.values())
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
            await panes.transcript.remove()
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
