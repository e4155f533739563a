"""All sessions of the workspace, the open ones first: open, new, search, rename, fork, mark, close, export, delete.

And those of the host, over all folders: which needs you, which works, and going to one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path

from textual import on, work
from textual.content import Content
from textual.widgets import Input

from lmtui.core.errors import LmtuiError
from lmtui.core.events import TurnReason
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import AgentRow, SessionHost, SessionSearch, SessionSummary
from lmtui.core.times import LocalZone, moment_text
from lmtui.tui.commands import Command, Scope
from lmtui.tui.lines.styled_text import STYLES, Line, Span, fit, pad, plain, restyle
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import AskText, Confirm
from lmtui.tui.modals.results import Choice
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.options import ReadAgents
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import in_order
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.panes import SIGNS
from lmtui.tui.wording import age_text, folder_text, tokens_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi

STATES: dict[str, Span] = {
    "waits": ("▲", "warn"),
    "writing": ("●", "accent"),
    "done": ("✓", "good"),
    "waiting": ("◔", "muted"),
    "interrupted": ("■", "muted"),
    "error": ("✗", "bad"),
    "limit": ("✗", "warn"),
    "unfinished": ("✗", "warn"),
    "unverified": ("!", "warn"),
    "blocked": ("✗", "warn"),
    "new": ("○", "muted"),
}
STATE_WORDS = {
    "waits": "needs you",
    "writing": "working",
    "interrupted": "stopped",
    "error": "failed",
    "blocked": "stopped",
    "unverified": "not verified",
}
MARK = "★"
_AGE_CELLS = 7
_FILES_CELLS = 7
_TOKENS_CELLS = 8
_SIGNS_CELLS = 4
_TITLE_SHARE, _MODEL_SHARE = 0.42, 0.24
_LEAST_TITLE, _MOST_TITLE = 12, 44
_MOST_MODEL = 22
_TIGHT_WIDTH = 60
_FEW, _MOST_LIKE, _PAUSE_S = 3, 5, 0.4


_ENDS: Line = ((f"{'age':>{_AGE_CELLS}}{'files':>{_FILES_CELLS}}{'tokens':>{_TOKENS_CELLS}}", "muted"),)


def columns(width: int, *, has_models: bool = True) -> tuple[int, int, int]:
    """Return how wide title, model and last line are; where there is little room, only the title is there.

    Without `has_models` all sessions use the same model.
    """
    rest = max(_LEAST_TITLE, width - _SIGNS_CELLS - _AGE_CELLS - _FILES_CELLS - _TOKENS_CELLS - 2)
    is_tight = width < _TIGHT_WIDTH
    title = min(_MOST_TITLE, max(_LEAST_TITLE, rest if is_tight else int(rest * _TITLE_SHARE)))
    model = 0 if is_tight or not has_models else min(_MOST_MODEL, int(rest * _MODEL_SHARE))
    return title, model, rest - title - model


def head_row(width: int, *, is_search: bool = False, has_models: bool = True) -> Line:
    """Return the names of the columns; in a search, what was found takes the room of model and last line."""
    title, model, last = columns(width, has_models=has_models)
    if is_search:
        return ((f"{'':4}{'title':<{title}} {fit('found in', model + last + 1):<{model + last + 1}}", "muted"), *_ENDS)
    names = f"{'':4}{'title':<{title}} {fit('model', model):<{model}} {fit('last line', last):<{last}}"
    return ((names, "muted"), *_ENDS)


def marked_row(line: Line, words: Sequence[str]) -> Line:
    """Return a row with the words that were searched marked."""
    text = plain(line).casefold()
    for word in words:
        at = text.find(word)
        if at >= 0:
            line = restyle(line, at, at + len(word), "match")
    return line


def session_row(
    summary: SessionSummary, now: datetime, width: int, *, is_marked: bool = False, has_models: bool = True
) -> Line:
    """Return one session in columns; an open one is out, one that another lmtui holds says so."""
    sign, role = STATES.get(summary.state, STATES["new"])
    title_cells, model_cells, last_cells = columns(width, has_models=has_models)
    title = fit(sanitize_line(summary.title) or "New session", title_cells)
    state = TurnReason.LIMIT.words if summary.state == TurnReason.LIMIT else STATE_WORDS.get(summary.state, summary.state)
    last = f"{state}: {sanitize_line(summary.last_line)}" if summary.last_line else state
    if summary.wakes is not None:
        last = f"wakes {moment_text(summary.wakes, now, LocalZone())}"
    if summary.is_elsewhere:
        last = "open in another window"
    middle: Line = (
        (f" {pad(fit(sanitize_line(summary.model), model_cells), model_cells)} ", "muted"),
        (pad(fit(last, last_cells), last_cells), role if summary.state == "waits" else "muted"),
    )
    if summary.match:
        cells = model_cells + last_cells + 1
        middle = ((f" {pad(fit(sanitize_line(summary.match), cells), cells)}", ""),)
    return (
        (f"{sign} ", role),
        (f"{MARK if is_marked else ' '} ", "accent"),
        (pad(title, title_cells), "strong" if summary.is_open else ""),
        *middle,
        (f"{age_text(summary.updated, now):>{_AGE_CELLS}}", "muted"),
        (f"{summary.changed_files or '–':>{_FILES_CELLS}}", "muted"),
        (f"{tokens_text(summary.tokens) if summary.tokens else '–':>{_TOKENS_CELLS}}", "muted"),
    )


PREVIEW_ROWS, MOST_STEPS = 30, 8


def preview(row: SessionSummary, state: SessionState | None, now: datetime) -> Content:
    """Return the last message of a session and, of an open one, its plan."""
    facts = [f"started {moment_text(row.created, now, LocalZone())}", tokens_text(row.tokens) + " tokens" if row.tokens else ""]
    facts += [sanitize_line(row.model)]
    lines = [
        Content.assemble(
            (sanitize_line(row.title) or "New session", "bold"), ("   " + " · ".join(filter(None, facts)), "$text-muted")
        ),
        Content.styled(sanitize_line((state.last_line if state is not None else "") or row.last_line), "$text"),
    ]
    steps = state.work.plan.steps[:MOST_STEPS] if state is not None else ()
    signs = [SIGNS[step.status] for step in steps]
    parts = [
        Content.assemble((sign, STYLES[role]), f" {sanitize_line(step.text)}")
        for step, (sign, role) in zip(steps, signs, strict=True)
    ]
    return Content("\n").join([*lines, Content("   ").join(parts)] if parts else lines)


MOST_SESSIONS = 1000
READ_S = 0.05
LIVE_S = 0.25
FORMS = (
    Choice("md", "Markdown", "a file to read and to share"),
    Choice("html", "one HTML page", "for a browser; loads nothing"),
    Choice("jsonl", "JSON lines", "every event, as the log has it"),
)


@dataclass(frozen=True, slots=True)
class SessionActions:
    """What the list can do to sessions, given by id; all raise `LmtuiError`.  `export` asks for a form and says where."""

    delete: Callable[[str], Awaitable[None]]
    close: Callable[[str], Awaitable[None]]
    fork: Callable[[str], Awaitable[str]]
    export: Callable[[str], Awaitable[None]]
    toggle_mark: Callable[[str], None]


async def sessions_like(host: SessionHost, words: str, found: Mapping[str, SessionSummary]) -> dict[str, SessionSummary]:
    """Return sessions that say much the same in other words, as an index knows them."""
    if SessionSearch not in host.extensions:
        return {}
    like = await host.extensions[SessionSearch].sessions_like(words, _MOST_LIKE)
    said = {place: " ".join(text.split()) for place, text in like.items() if place not in found}
    rows = await asyncio.to_thread(host.archive.look_up, [*said])
    return {each.id: replace(each, match=f"≈ {said[each.id]}") for each in rows}


class Switcher(ListDialog[SessionSummary, str | None]):
    """Lists the sessions; reading and searching them happens in a thread, and the first are shown while it continues."""

    NAME, HEADING, SCOPE, CHOOSING = "switcher", "Sessions", Scope.SWITCHER, "open"
    FILTER = "Search titles and messages"

    def __init__(self, sessions: OpenSessions, actions: SessionActions, *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.box.acts_from_filter = True
        self._sessions, self._actions, self._now = sessions, actions, now
        self._found: dict[str, SessionSummary] = {}
        self._at = sessions.active.session.id if sessions.active is not None else ""
        self._ends: list[Callable[[], None]] = []
        self._is_due = False
        self._words: Sequence[str] = ()
        self._has_models = False  # or all use the same

    def on_mount(self) -> None:
        self._ends = [view.session.subscribe(lambda _: self._happened()) for view in self._sessions.views.values()]
        self.search()

    def on_unmount(self) -> None:
        for end in self._ends:
            end()

    def key(self, row: SessionSummary) -> str:
        """Return the session's id."""
        return row.id

    def line(self, row: SessionSummary, width: int) -> Line:
        """Return a session in columns, what was searched for marked in it."""
        is_marked = row.id in self._sessions.marks
        line = session_row(row, self._now(), width, is_marked=is_marked, has_models=self._has_models)
        return marked_row(line, self._words) if row.match else line

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return head_row(width, is_search=bool(self.box.typed), has_models=self._has_models)

    def matching(self, rows: Sequence[SessionSummary], typed: str) -> Sequence[SessionSummary]:
        """Return all of them: the archive has searched."""
        del typed
        return rows

    def about(self, row: SessionSummary | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what the marked session is about, where there is room, and what can be done."""
        verbs = self.verbs()
        if row is None or self.app.size.height < PREVIEW_ROWS:
            return "", verbs
        view = self._sessions.views.get(row.id)
        return preview(row, view.state if view is not None else None, self._now()), verbs

    # -- reading --------------------------------------------------------------------------------------------------------

    @on(Input.Changed)
    def search(self) -> None:
        """Search for what is typed."""
        self.run_worker(self._load(self.box.typed), group="switcher", exclusive=True)

    async def _load(self, words: str) -> None:
        host = self._sessions.host
        if host is None:
            return
        found: dict[str, SessionSummary] = {}
        try:
            rows = host.archive.find(words, MOST_SESSIONS)
            is_done = False
            while not is_done:
                batch, is_done = await asyncio.to_thread(take_some, rows)
                found |= {each.id: each for each in batch}
                self._found = found
                self._draw(is_done=is_done)
            if words and len(found) < _FEW:
                await asyncio.sleep(_PAUSE_S)  # whoever types on ends this
                self._found = found | await sessions_like(host, words, found)
                self._draw()
        except LmtuiError as error:
            self.notify(sanitize_line(error.full_text()), severity="error", markup=False)

    def _happened(self) -> None:
        if not self._is_due:
            self._is_due = True
            call_after(self, LIVE_S, self._draw)

    def _draw(self, *, is_done: bool = True) -> None:
        self._is_due = False
        sessions = self._sessions
        rows = in_order(self._found.values(), sessions.views, sessions.parked, self._now())
        nothing = f'No sessions match "{sanitize_line(self.box.typed)}"' if self.box.typed else "No sessions yet"
        self.table.empty_text = nothing if is_done else "Reading…"
        self._words = self.box.typed.casefold().split()
        self._has_models = len({row.model for row in rows}) > 1
        self.show(rows, self._at or None)
        self._at = self._at if not is_done else ""
        counts = {name: sum(each.state == name for each in rows) for name in ("writing", "waits")}
        states = [f"{count} {STATE_WORDS[name]}" for name, count in counts.items() if count]
        self.box.count(" · ".join([f"{len(rows):,}{'' if is_done else ' …'}", *states]))

    # -- what can be done -----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Open the marked session."""
        if self.current is not None:
            _ = self.dismiss(self.current.id)

    def action_change_session(self, name: str) -> None:
        """Do something to the session under the cursor."""
        current = self.current
        if current is None:
            return
        if name == "mark":
            self._actions.toggle_mark(current.id)
            self._draw()
            return
        own = {"rename": self._rename, "delete": self._delete, "fork": self._fork}
        others = {"export": self._actions.export, "close": self._actions.close}
        change = own[name](current) if name in own else others[name](current.id)
        self.run_worker(self._try(change), group="change")

    async def _rename(self, current: SessionSummary) -> None:
        title = await self.app.push_screen_wait(AskText("Title", value=sanitize_line(current.title)))
        if title:
            await self._sessions.rename(current.id, title)

    async def _delete(self, current: SessionSummary) -> None:
        text = f"{sanitize_line(current.title) or current.id}\nIts log is deleted; files it changed stay as they are."
        if await self.app.push_screen_wait(Confirm("Delete this session?", text)):
            await self._actions.delete(current.id)

    async def _fork(self, current: SessionSummary) -> None:
        self._at = await self._actions.fork(current.id)
        self.notify("forked; the original stays, and no file was changed", markup=False)

    async def _try(self, change: Awaitable[None]) -> None:
        """Do it and list the sessions again; one that is open in another lmtui is reported."""
        try:
            await change
        except LmtuiError as error:
            self.app.notify(sanitize_line(error.full_text()), severity="error", markup=False)
        if self.is_running:
            self.search()


def take_some(rows: Iterator[SessionSummary]) -> tuple[list[SessionSummary], bool]:
    """Return the sessions found within a moment, and whether that was all.  Blocks (disk)."""
    end = time.monotonic() + READ_S
    found: list[SessionSummary] = []
    for each in rows:
        found.append(each)
        if time.monotonic() >= end:
            return found, False
    return found, True


NO_AGENTS = 'No session runs in the background. Start one with: lmtui run --detach "TASK"'
_REFRESH_S = 2.0
_FOLDER_CELLS = 14
_NEED = ("need", "needs")
_RANKS = {"waits": 0, "writing": 1}


def by_need(rows: Sequence[AgentRow]) -> Sequence[AgentRow]:
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

    @work(group="agents", exclusive=True)
    async def _look(self) -> None:
        try:
            rows, self._problem = await self._read_rows(), ""
        except LmtuiError as error:
            rows, self._problem = (), error.full_text()
        needing = sum(row.session.state == "waits" for row in rows)
        self.box.count(f"{needing} {_NEED[needing == 1]} you" if needing else pluralize(len(rows), "session"))
        self.show(by_need(rows))

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
