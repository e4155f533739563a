"""The sessions of the host, over all folders: which needs you, which works, and going to one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from pathlib import Path

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import AgentRow
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Line, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.modals.switcher import head_row, session_row
from lmtui.tui.options import ReadAgents
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi

NO_AGENTS = 'No session runs in the background. Start one with: lmtui run --detach "TASK"'
_REFRESH_S = 2.0
_FOLDER_CELLS = 14
_NEED = ("need", "needs")
_RANKS = {"waits": 0, "writing": 1}


def in_order(rows: Sequence[AgentRow]) -> Sequence[AgentRow]:
    """Return the rows with what needs the user first, then what works, then by age."""
    return sorted(rows, key=lambda row: (_RANKS.get(row.session.state, 2), -row.session.updated.timestamp()))


class AgentList(ListDialog[AgentRow, AgentRow | None]):
    """Lists the sessions and reads them again while it is open; the result is the one to go to."""

    NAME, HEADING, CHOOSING, FILTER = "agents", "Background agents", "attach", "folder or title"

    def __init__(self, read: ReadAgents, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._read_rows, self._now = read, now
        self._problem = ""
        self.noun = "session"

    def on_mount(self) -> None:
        self._look()
        _ = self.set_interval(_REFRESH_S, self._look)

    def _look(self) -> None:
        self.run_worker(self._read(), group="agents", exclusive=True)

    async def _read(self) -> None:
        try:
            rows, self._problem = await self._read_rows(), ""
        except LmtuiError as error:
            rows, self._problem = (), error.full_text()
        needing = sum(row.session.state == "waits" for row in rows)
        self.box.count(f"{needing} {_NEED[needing == 1]} you" if needing else pluralize(len(rows), "session"))
        self.show(in_order(rows))

    def key(self, row: AgentRow) -> str:
        """Return the session's id."""
        return row.session.id

    def text(self, row: AgentRow) -> str:
        """Return folder and title."""
        return f"{row.folder} {row.session.title}"

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return ((f"{'folder':<{_FOLDER_CELLS}}", "muted"), *head_row(width - _FOLDER_CELLS))

    def line(self, row: AgentRow, width: int) -> Line:
        """Return a session in columns, behind its folder."""
        folder = pad(fit(sanitize_line(row.folder.name), _FOLDER_CELLS - 1), _FOLDER_CELLS)
        return ((folder, "muted"), *session_row(row.session, self._now(), width - _FOLDER_CELLS))

    def about(self, row: AgentRow | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a session."""
        if row is None:
            return self._problem or NO_AGENTS, ()
        clients = f"{pluralize(row.clients, 'window')} attached" if row.clients else ""
        parts = (folder_text(row.folder, Path.home()), row.session.model, clients, row.session.last_line)
        return " · ".join(sanitize_line(each) for each in parts if each), self.verbs()

    def act(self) -> None:
        """Go to the marked session."""
        if self.current is not None:
            _ = self.dismiss(self.current)


class AgentController:
    """Answers `/agents`."""

    def __init__(self, workbench: WorkbenchApi, open_session: Callable[[str], Awaitable[object]]) -> None:
        self._workbench, self._open_session = workbench, open_session

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"host.agents": lambda _: self._show()}

    def _show(self) -> None:
        app = self._workbench.app
        assert isinstance(app, ThemedApp)
        if app.options.agents is None:
            self._workbench.say(NO_AGENTS)
            return
        _ = app.push_screen(AgentList(app.options.agents, self._workbench.now), self._chosen)

    def _chosen(self, row: AgentRow | None) -> None:
        if row is not None:
            _ = self._workbench.app.run_worker(self._go_to(row), group="agents")

    async def _go_to(self, row: AgentRow) -> None:
        """Open the session here where it is one of this folder's host, else leave for it."""
        app, sessions = self._workbench.app, self._workbench.sessions
        assert isinstance(app, ThemedApp)
        host = sessions.host
        if app.options.is_attached and host is not None and host.workspace == row.folder:
            _ = await self._open_session(row.session.id)
            return
        if not app.options.is_attached and (sessions.working or sessions.unmerged):
            text = "Turns stop; their work is saved, and sessions can be resumed. Changes of try mode are saved as a patch."
            if not await app.push_screen_wait(Confirm(f"Switch to {sanitize_line(row.folder.name)}?", text)):
                return
        app.next_folder, app.next_session = str(row.folder), row.session.id
        app.leave_now(0)
