"""What can be done with sessions from the main screen: list, go through, fork, export, mark, close; and open them again."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from pathlib import Path
from typing import Any, Protocol

from lmtui.core.errors import LmtuiError
from lmtui.core.events import ROOT, Envelope, MessageAdded
from lmtui.core.messages import Role
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SessionSummary
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice, GridWanted, Picked
from lmtui.tui.modals.switcher import FORMS, Switcher
from lmtui.tui.open_sessions import OpenStore, SavedSessions
from lmtui.tui.router import SessionView
from lmtui.tui.screens.grid import Grid
from lmtui.tui.workbench_api import Handler, WorkbenchApi

MOST_MESSAGES = 200
MESSAGE_CELLS = 52


class SessionWorkbenchApi(WorkbenchApi, Protocol):
    """The main screen as this part sees it."""

    async def open_session(self, session_id: str = "") -> SessionView | None:
        """Open a session and put it on screen; None where it could not be opened, which is said."""

    async def delete_session(self, session_id: str) -> None:
        """Delete a session; the one on screen gives way to a new one."""

    async def close_session(self, session_id: str) -> None:
        """Close a session; the one on screen gives way to another."""

    def sync_approval(self) -> None:
        """Show the question of the session on screen."""

    def ask_approval(self, feed: SessionView) -> None:
        """Show the first question of any session over whatever is open."""


class SessionController:
    """Answers the commands of sessions.  `folder` is where the open ones are kept, one file for each workspace."""

    def __init__(self, stage: SessionWorkbenchApi, folder: Path) -> None:
        self._stage = stage
        self._folder = folder
        self._store: OpenStore | None = None
        self._kept = SavedSessions()
        self._writing = asyncio.Lock()

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "session.list": lambda _: self._list(),
            "session.grid": lambda _: self._grid(),
            "session.next": lambda _: self._step(1),
            "session.previous": lambda _: self._step(-1),
            "session.mark": lambda _: self._mark(),
            "session.close": lambda _: self._close_active(),
            "session.fork": lambda _: self._fork_here(),
            "session.export": self._export_active,
        }

    # -- open again -----------------------------------------------------------------------------------------------------

    async def restore(self) -> str:
        """Bring back which sessions were open; return the one that was on screen, empty where there is none."""
        stage, host = self._stage, self._stage.desk.host
        if host is None:
            return ""
        store = OpenStore(self._folder, host.workspace)
        kept = await asyncio.to_thread(store.read)
        self._kept = kept
        stage.desk.marks |= kept.marks
        try:
            found = await asyncio.to_thread(host.archive.look_up, kept.ids)
        except LmtuiError:
            found = ()
        self._store = store
        held = [each for each in found if each.is_elsewhere]
        stage.desk.parked |= {each.id: each for each in found if not each.is_elsewhere}
        gone = len(kept.ids) - len(found)
        lost = [f"“{_name(each)}” is open in another lmtui" for each in held]
        lost += [f"{gone} of the sessions that were open {'is' if gone == 1 else 'are'} gone"] if gone else []
        if lost:
            stage.say("; ".join(lost), "warning")
        return kept.active if kept.active in stage.desk.parked else max(stage.desk.parked, default="")

    def changed(self) -> None:
        """Keep which sessions are open now."""
        desk = self._stage.desk
        active = desk.active.session.id if desk.active is not None else ""
        opened = SavedSessions(tuple(desk.order), active, frozenset(desk.marks))
        if self._store is not None and opened != self._kept and active:
            self._kept = opened
            self._work(self._write(self._store))

    async def _write(self, store: OpenStore) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(store.write, self._kept)
            except OSError as error:
                self._stage.say(f"which sessions are open could not be kept: {error.strerror}", "warning")

    # -- lists ----------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        if self._stage.desk.host is not None:
            _ = self._stage.app.push_screen(Switcher(self._stage.desk, self, now=self._stage.now), self._picked)

    def _grid(self) -> None:
        stage = self._stage
        if stage.desk.host is not None:
            _ = stage.app.push_screen(Grid(stage.desk, stage.ask_approval, now=stage.now), self._picked)

    def _picked(self, picked: Picked | GridWanted | None) -> None:
        match picked:
            case Picked():
                self._work(self._open(picked.session_id))
            case GridWanted():
                self._grid()
            case None:
                self._stage.app.call_after_refresh(self._stage.sync_approval)

    async def _open(self, session_id: str) -> None:
        _ = await self._stage.open_session(session_id)
        self._stage.sync_approval()

    async def _step(self, step: int) -> None:
        desk = self._stage.desk
        order = desk.order
        if len(order) < 2 or desk.active is None:
            self._stage.say("no other session is open; f2 lists all of them")
            return
        at = (order.index(desk.active.session.id) + step) % len(order)
        await self._open(order[at])

    # -- what is done to one --------------------------------------------------------------------------------------------

    async def rename(self, session_id: str, title: str) -> None:
        """Give one a title."""
        await self._stage.desk.rename(session_id, title)

    async def delete(self, session_id: str) -> None:
        """Delete one."""
        await self._stage.delete_session(session_id)
        self._stage.desk.marks.discard(session_id)
        self.changed()

    async def close(self, session_id: str) -> None:
        """Close one that is open; it stays in the list."""
        await self._stage.close_session(session_id)
        self.changed()

    async def fork(self, session_id: str, seq: int = 0) -> str:
        """Copy one and return the id of the copy."""
        host = self._stage.desk.host
        return await host.archive.fork(session_id, seq) if host is not None else ""

    async def export(self, session_id: str, form: str) -> None:
        """Write one to a file and say where."""
        host = self._stage.desk.host
        if host is not None:
            path = await host.archive.export(session_id, form)
            self._stage.app.notify(f"written to {sanitize_line(str(path))}", title="Exported", markup=False)
            self._stage.say(f"exported to {sanitize_line(str(path))}")

    def toggle_mark(self, session_id: str) -> None:
        """Mark one, or unmark it."""
        self._stage.desk.marks ^= {session_id}
        self.changed()
        self._stage.draw()

    # -- the one on screen ----------------------------------------------------------------------------------------------

    @property
    def _active_id(self) -> str:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
        return active.session.id if active is not None else ""

    def _mark(self) -> None:
        if session_id := self._active_id:
            self.toggle_mark(session_id)
            is_marked = session_id in self._stage.desk.marks
            self._stage.say("marked; f2 shows it" if is_marked else "not marked any more")

    async def _close_active(self) -> None:
        if session_id := self._active_id:
            await self._try(self.close(session_id))

    async def _fork_here(self) -> None:
        """Fork up to the block under the cursor of the conversation; without one, ask up to where."""
        active = self._stage.desk.active
        current = self._stage.panes.current if self._stage.panes is not None else None
        if active is None or current is None:
            self._stage.say("no session yet")
            return
        session_id, seq = active.session.id, current.root.place_seq()
        if seq:
            await self._try(self._fork_and_open(session_id, seq))
            return
        _ = self._stage.app.push_screen(
            Picker("FORK UP TO …", message_choices(active.session.history())),
            lambda chosen: self._work(self._try(self._fork_and_open(session_id, int(chosen)))) if chosen else None,
        )

    async def _fork_and_open(self, session_id: str, seq: int) -> None:
        new_id = await self.fork(session_id, seq)
        await self._open(new_id)
        upto = "up to there" if seq else "all of it"
        self._stage.say(f"this is a fork ({upto}); the original stays, and no file was changed")

    async def _export_active(self, form: str) -> None:
        if not (session_id := self._active_id):
            return
        if form in {each.id for each in FORMS}:
            await self._try(self.export(session_id, form))
        else:
            _ = self._stage.app.push_screen(Picker("EXPORT AS", FORMS), lambda chosen: self._chosen(session_id, chosen))

    def _chosen(self, session_id: str, form: str | None) -> None:
        if form:
            self._work(self._try(self.export(session_id, form)))

    async def _try(self, deed: Coroutine[Any, Any, None]) -> None:
        try:
            await deed
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")

    def _work(self, work: Coroutine[Any, Any, None]) -> None:
        self._stage.app.run_worker(work, group="sessions")


def message_choices(history: Sequence[Envelope]) -> list[Choice]:
    """Return the messages that a fork may end with, the newest first, and before them all of the session."""
    found = [Choice("0", "all of it", "no file changes; the original stays")]
    for envelope in reversed(history):
        event = envelope.event
        if isinstance(event, MessageAdded) and event.agent == ROOT and event.text.strip() and len(found) <= MOST_MESSAGES:
            who = "you" if event.role is Role.USER else "lmtui"
            text = fit(sanitize_line(event.text.strip().splitlines()[0]), MESSAGE_CELLS)
            found.append(Choice(str(envelope.seq), text, f"{who}  {envelope.time.astimezone():%H:%M}"))
    return found


def _name(summary: SessionSummary) -> str:
    return sanitize_line(summary.title) or summary.id
