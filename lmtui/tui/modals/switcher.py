"""All sessions, the open ones first: open, new, search, rename, close, delete; and other folders."""

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
from lmtui.core.folders import KnownProject
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SessionHost, SessionSearch, SessionSummary
from lmtui.core.times import LocalZone, moment_text
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import STYLES, Line, Span, plain, restyle
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import AskText, Confirm
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.session_state import SessionState
from lmtui.tui.summary import in_order
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.panes import SIGNS
from lmtui.tui.wording import age_text, folder_text, tokens_text

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
_FEW, _MOST_LIKE, _PAUSE_S = 3, 5, 0.4
OTHERS = "Other folders"


def marked_row(line: Line, words: Sequence[str]) -> Line:
    """Return a row with the words that were searched marked."""
    text = plain(line).casefold()
    for word in words:
        at = text.find(word)
        if at >= 0:
            line = restyle(line, at, at + len(word), "match")
    return line


@dataclass(frozen=True, slots=True)
class SessionRow:
    """A session, of another `folder` where one is named; or such a folder with what its plans and sessions need."""

    session: SessionSummary
    folder: str = ""
    project: KnownProject | None = None


def state_words(row: SessionRow, now: datetime) -> str:
    """Return the state of a session in words, and the last line of it."""
    session, project = row.session, row.project
    if project is not None:
        return project.state_text or project.plans_text
    if session.wakes is not None:
        return f"wakes {moment_text(session.wakes, now, LocalZone())}"
    if session.is_elsewhere:
        return "open in another window"
    state = TurnReason.LIMIT.words if session.state == TurnReason.LIMIT else STATE_WORDS.get(session.state, session.state)
    return f"{state}: {sanitize_line(session.last_line)}" if session.last_line else state


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


async def sessions_like(host: SessionHost, words: str, found: Mapping[str, SessionSummary]) -> dict[str, SessionSummary]:
    """Return sessions that say much the same in other words, as an index knows them."""
    if SessionSearch not in host.extensions:
        return {}
    like = await host.extensions[SessionSearch].sessions_like(words, _MOST_LIKE)
    said = {place: " ".join(text.split()) for place, text in like.items() if place not in found}
    rows = await asyncio.to_thread(host.archive.look_up, [*said])
    return {each.id: replace(each, match=f"≈ {said[each.id]}") for each in rows}


class Switcher(ListDialog[SessionRow, SessionRow | str | None]):
    """Lists the sessions; reading and searching them happens in a thread, and the first are shown while it continues.

    Those of other folders, and the folders, come last.  The result is the id of a session here, empty for a new one, or a row.
    """

    NAME, HEADING, CHOOSING = "switcher", "Sessions", "open"
    FILTER = "Search titles and messages"
    COLUMNS = (
        Column(most=1), Column("title", 44), Column("state"), Column("folder", 16, from_width=72),
        Column("age", 8, is_right=True), Column("files", 6, is_right=True, from_width=56),
        Column("tokens", 7, is_right=True, from_width=56),
    )  # fmt: skip
    VERBS = (
        ("add", "new"), ("edit", "rename"), ("stop", "close"), ("delete", "delete"),
    )  # fmt: skip

    def __init__(
        self,
        sessions: OpenSessions,
        delete: Callable[[str], Awaitable[None]],
        close: Callable[[str], Awaitable[None]],
        *,
        now: Callable[[], datetime],
        others: Callable[[], Awaitable[Sequence[SessionRow]]],
    ) -> None:
        super().__init__()
        self.box.acts_from_filter = True
        self._sessions, self._delete, self._close = sessions, delete, close
        self._now, self._read_others = now, others
        self._found: dict[str, SessionSummary] = {}
        self._others: Sequence[SessionRow] = ()
        self._at = sessions.active.session.id if sessions.active is not None else ""
        self._is_due = False
        self._words: Sequence[str] = ()

    def on_mount(self) -> None:
        self.ends += [view.session.subscribe(lambda _: self._happened()) for view in self._sessions.views.values()]
        self.run_worker(self._load_others(), group="switcher-others")

    def key(self, row: SessionRow) -> tuple[str, str]:
        """Return the session's folder and id."""
        return row.folder, row.session.id

    def cells(self, row: SessionRow) -> Sequence[Cell]:
        """Return a session in columns; in a search, what was found takes the room of its state."""
        session = row.session
        sign, role = STATES.get(session.state, STATES["new"])
        title = sanitize_line(session.title) or "New session"
        name: Span = (title, "strong" if session.is_open and not row.folder else "")
        state: Span = (state_words(row, self._now()), role if session.state == "waits" else "muted")
        state = (sanitize_line(session.match), "") if session.match else state
        folder = sanitize_line(Path(row.folder).name) if row.project is None else ""
        numbers = str(session.changed_files or "–"), tokens_text(session.tokens) if session.tokens else "–"
        dim: list[Span] = [(each, "muted") for each in (folder, age_text(session.updated, self._now()), *numbers)]
        return (sign, role), name, state, *dim

    def line(self, row: SessionRow | str, width: int) -> Line:
        """Return a session in columns, what was searched for marked in it."""
        line = super().line(row, width)
        return marked_row(line, self._words) if not isinstance(row, str) and row.session.match else line

    def matching(self, rows: Sequence[SessionRow | str], typed: str) -> Sequence[SessionRow | str]:
        """Return all of this folder, where the archive has searched, and those of others that fit."""
        at = rows.index(OTHERS) if OTHERS in rows else len(rows)
        return [*rows[:at], *super().matching(rows[at:], typed)]

    def text(self, row: SessionRow) -> str:
        """Return folder and title."""
        return f"{row.folder} {row.session.title}"

    def about(self, row: SessionRow | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what the marked session is about, where there is room, and what can be done."""
        if row is None:
            return "", self.verbs(*self.verb_names - {"add"}, "picker.open")
        verbs = self.verbs(*(self.verb_names - {"add"} if row.folder else ()))
        if self.app.size.height < PREVIEW_ROWS:
            return "", verbs
        if row.project is not None:
            tags = " ".join(f"#{tag}" for tag in row.project.tags)
            return f"{folder_text(Path(row.folder), Path.home())}  {tags}\n{row.project.plans_text}", verbs
        view = self._sessions.views.get(row.session.id)
        return preview(row.session, view.state if view is not None else None, self._now()), verbs

    # -- reading --------------------------------------------------------------------------------------------------------

    def reload(self) -> None:
        """Search for what is typed."""
        self._load()

    @on(Input.Changed)
    def narrow(self) -> None:
        """Search for what is typed."""
        self.reload()

    async def _reload(self) -> None:
        self.reload()

    async def _load_others(self) -> None:
        with self.showing_errors():
            self._others = await self._read_others()
            if self._found:
                self._draw()

    @work(group="switcher", exclusive=True)
    async def _load(self) -> None:
        host, words = self._sessions.host, self.box.typed
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
        rows = [SessionRow(each) for each in in_order(self._found.values(), sessions.views, sessions.parked, self._now())]
        nothing = f'No sessions match "{sanitize_line(self.box.typed)}"' if self.box.typed else "No sessions yet"
        self.table.empty_text = nothing if is_done else "Reading…"
        self._words = self.box.typed.casefold().split()
        others = (OTHERS, *self._others) if self._others else ()
        self.show((*rows, *others), ("", self._at) if self._at else None)
        self._at = self._at if not is_done else ""
        counts = {name: sum(each.session.state == name for each in (*rows, *self._others)) for name in ("writing", "waits")}
        states = [f"{count} {STATE_WORDS[name]}" for name, count in counts.items() if count]
        held = sum(each.session.is_elsewhere for each in rows)
        states += [f"{held} open in another window"] if held else []
        self.box.count(" · ".join([f"{len(rows):,}{'' if is_done else ' …'}", *states]))

    # -- what can be done -----------------------------------------------------------------------------------------------

    def act(self) -> None:
        """Open the marked session, or go to the marked folder."""
        row = self.current
        if row is not None and row.project is not None and row.project.problem:
            self.say(row.project.state_text, "$error")
        elif row is not None:
            _ = self.dismiss(row if row.folder else row.session.id)

    def do_add(self, row: SessionRow | None) -> None:
        """Start a new session."""
        del row
        _ = self.dismiss("")

    async def do_edit(self, row: SessionRow) -> None:
        """Give a session another title."""
        title = await self.app.push_screen_wait(AskText("Title", value=sanitize_line(row.session.title)))
        if title:
            await self._sessions.rename(row.session.id, title)

    async def do_delete(self, row: SessionRow) -> None:
        """Ask, then delete a session."""
        text = f"{sanitize_line(row.session.title) or row.session.id}\nIts log is deleted; files it changed stay as they are."
        if await self.app.push_screen_wait(Confirm("Delete this session?", text)):
            await self._delete(row.session.id)

    async def do_stop(self, row: SessionRow) -> None:
        """Close a session; it stays in the list."""
        await self._close(row.session.id)


def take_some(rows: Iterator[SessionSummary]) -> tuple[list[SessionSummary], bool]:
    """Return the sessions found within a moment, and whether that was all.  Blocks (disk)."""
    end = time.monotonic() + READ_S
    found: list[SessionSummary] = []
    for each in rows:
        found.append(each)
        if time.monotonic() >= end:
            return found, False
    return found, True
