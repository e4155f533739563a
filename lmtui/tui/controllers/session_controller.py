"""What can be done with sessions from the main screen: list, go through, fork, export, close; and open them again."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Sequence
from datetime import timedelta
from pathlib import Path

from lmtui.core.errors import ClosedToNetwork, LmtuiError
from lmtui.core.event_text import saved_patch
from lmtui.core.events import ROOT, Envelope, MessageAdded
from lmtui.core.folders import KnownProject, Projects
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import Session, SessionSummary
from lmtui.tui.controllers.approval_controller import ApprovalController
from lmtui.tui.controllers.send_controller import Sending
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.picker import Confirm, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.modals.switcher import SessionRow, Switcher
from lmtui.tui.open_sessions import OpenStore, SavedSessions
from lmtui.tui.router import SessionView
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried, wanted_session

_RANKS = {"waits": 0, "writing": 1}
FORMS = (
    Choice("md", "Markdown", "a file to read and to share"),
    Choice("html", "one HTML page", "for a browser; loads nothing"),
    Choice("jsonl", "JSON lines", "every event, as the log has it"),
)
MOST_MESSAGES = 200
MESSAGE_CELLS = 52
FRESH_FOR = timedelta(hours=1)  # a session whose last turn is older is offered, not opened


class SessionController:
    """Answers the commands of sessions.  `folder` is where the open ones are kept, one file for each workspace."""

    def __init__(self, workbench: WorkbenchApi, approvals: ApprovalController, sending: Sending, folder: Path) -> None:
        self._workbench = workbench
        self._approvals = approvals
        self._sending = sending
        self._folder = folder
        self._store: OpenStore | None = None
        self._kept = SavedSessions()
        self._writing = asyncio.Lock()
        self.failure = ""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "session.list": lambda _: self._list(),
            "session.next": lambda _: self._step(1),
            "session.previous": lambda _: self._step(-1),
            "session.close": lambda _: self._close_active(),
            "session.fork": lambda _: self._fork_here(),
            "session.export": self._export_active,
        }

    async def open(self, session_id: str = "") -> SessionView | None:
        """Open a session and put it on screen; None where it could not be opened, which is said, or the user leaves."""
        if self._workbench.sessions.host is None:
            return None
        try:
            view = await self._workbench.sessions.open(session_id)
        except LmtuiError as error:
            self.failure = error.full_text()
            self._workbench.say(self.failure, "error")
            return None
        if self.failure:
            self.failure = ""
            self._workbench.say_line.clear_errors()
        self._sending.send_unsent()
        self._workbench.prompt.focus()  # what is typed next belongs to this session
        return view

    # -- open again -----------------------------------------------------------------------------------------------------

    async def restore(self) -> str:
        """Bring back which sessions were open; return the one that was on screen, empty where its last turn is long ago."""
        workbench, host = self._workbench, self._workbench.sessions.host
        if host is None:
            return ""
        store = OpenStore(self._folder, host.workspace)
        kept = await asyncio.to_thread(store.read)
        self._kept = kept
        try:
            found = await asyncio.to_thread(host.archive.look_up, kept.ids)
        except LmtuiError:
            found = ()
        self._store = store
        workbench.sessions.parked |= {session.id: session for session in found if not session.is_elsewhere}
        if gone := len(kept.ids) - len(found):
            workbench.say(f"{pluralize(gone, 'open session')} no longer {'exists' if gone == 1 else 'exist'}", "warning")
        parked = workbench.sessions.parked
        last = parked.get(kept.active) or parked.get(max(parked, default=""))
        is_old = last is not None and last.state != "waits" and workbench.now() - last.updated > FRESH_FOR
        workbench.start.marks_last = is_old
        return "" if last is None or is_old else last.id

    def changed(self) -> None:
        """Keep which sessions are open now."""
        sessions = self._workbench.sessions
        active = sessions.active.session.id if sessions.active is not None else ""
        opened = SavedSessions(tuple(sessions.order), active)
        if self._store is not None and opened != self._kept and active:
            self._kept = opened
            self._work(self._write(self._store))

    async def _write(self, store: OpenStore) -> None:
        async with self._writing:
            try:
                await asyncio.to_thread(store.write, self._kept)
            except OSError as error:
                self._workbench.say(f"could not save the list of open sessions: {error.strerror}", "warning")

    # -- lists ----------------------------------------------------------------------------------------------------------

    def _list(self) -> None:
        if self._workbench.sessions.host is not None:
            now, others = self._workbench.now, self._others
            switcher = Switcher(self._workbench.sessions, self.delete, self.close, now=now, others=others)
            _ = self._workbench.app.push_screen(switcher, self._picked)

    async def _others(self) -> list[SessionRow]:
        """Return the sessions of the host and the known folders, but for those here."""
        app, host = self._workbench.app, self._workbench.sessions.host
        assert isinstance(app, ThemedApp)
        if host is None:
            return []
        here, found = host.workspace, list[SessionRow]()
        agents = await app.options.agents() if app.options.agents is not None else ()
        for agent in sorted(agents, key=lambda each: (_RANKS.get(each.session.state, 2), -each.session.updated.timestamp())):
            found += [SessionRow(agent.session, str(agent.folder))] if agent.folder != here else []
        projects: Sequence[KnownProject] = ()
        with contextlib.suppress(ClosedToNetwork):
            projects = await host.extensions[Projects].read() if Projects in host.extensions else ()
        for project in projects:
            used = project.last_used or self._workbench.now()
            state = "waits" if project.needs else "error" if project.problem else "new"
            row = SessionSummary("", project.name, state, "", used, used, 0, "")
            found += [SessionRow(row, project.path, project)] if project.path != str(here) else []
        return found

    def _picked(self, picked: SessionRow | str | None) -> None:
        if isinstance(picked, SessionRow):
            self._work(self._go_to(picked))
        elif picked is not None:
            self._work(self._open(picked))
        else:
            self._workbench.call_after_refresh(self._approvals.sync)

    async def _go_to(self, row: SessionRow) -> None:
        """Leave, so that lmtui is started again in another folder; asks first where something would be stopped."""
        app, sessions = self._workbench.app, self._workbench.sessions
        assert isinstance(app, ThemedApp)
        if app.is_web:
            self._workbench.say("a browser stays in its folder: use `lmtui serve DIR`", "warning")
            return
        if not app.options.is_attached and (sessions.working or sessions.unmerged):
            text = "Turns stop; their work is saved, and sessions can be resumed. Changes of try mode are saved as a patch."
            if not await app.push_screen_wait(Confirm(f"Switch to {sanitize_line(Path(row.folder).name)}?", text)):
                return
        app.next_folder, app.next_session = row.folder, row.session.id
        app.leave_now(0)

    async def _open(self, session_id: str) -> None:
        _ = await self.open(session_id)
        self._approvals.sync()

    async def _step(self, step: int) -> None:
        sessions = self._workbench.sessions
        order = sessions.order
        if len(order) < 2 or sessions.active is None:
            self._workbench.say("no other session is open; F2 lists all sessions")
            return
        at = (order.index(sessions.active.session.id) + step) % len(order)
        await self._open(order[at])

    # -- what is done to one --------------------------------------------------------------------------------------------

    async def delete(self, session_id: str) -> None:
        """Delete one; that on screen gives way to a new one."""
        sessions = self._workbench.sessions
        if sessions.host is None:
            return
        was_active = sessions.active is not None and sessions.active.session.id == session_id
        await sessions.host.archive.delete(session_id)
        sessions.forget(session_id)
        await self._workbench.panes.forget(session_id)
        if was_active:
            _ = await self.open()
        self.changed()

    async def close(self, session_id: str) -> None:
        """Close one that is open, which stays in the list; that on screen gives way to another, else to a new one."""
        sessions = self._workbench.sessions
        view = sessions.views.get(session_id)
        was_active = view is not None and view is sessions.active
        before = [each for each in sessions.order if each < session_id]
        sessions.forget(session_id)
        if view is not None:
            await view.session.close()
            await self._workbench.panes.forget(session_id)
        if was_active:
            _ = await self.open(next(iter([*before[-1:], *sessions.order]), ""))
        if view is not None and (patch := saved_patch(view.session.history())):
            self._workbench.say(f"unmerged changes saved as a patch: {sanitize_line(patch)}", "warning")
        self.changed()

    async def export(self, session_id: str, form: str = "") -> None:
        host, forms = self._workbench.sessions.host, {each.id for each in FORMS}
        chosen = form if form in forms else await self._workbench.app.push_screen_wait(Picker("Export as", FORMS))
        if host is not None and chosen is not None:
            path = await host.archive.export(session_id, chosen)
            self._workbench.app.notify(f"written to {sanitize_line(str(path))}", title="Exported", markup=False)
            self._workbench.say(f"exported to {sanitize_line(str(path))}")

    # -- the one on screen ----------------------------------------------------------------------------------------------

    @property
    def _active_id(self) -> str:
        active = wanted_session(self._workbench)
        return active.session.id if active is not None else ""

    def _close_active(self) -> None:
        if session_id := self._active_id:
            self._work(self._ask_and_close(session_id))

    async def _ask_and_close(self, session_id: str) -> None:
        view = self._workbench.sessions.views.get(session_id)
        if view is None:  # closed meanwhile
            return
        waiting = view.session.trial.waiting
        text = f"{pluralize(waiting, 'file')} not merged. The changes are saved as a patch."
        ask = Confirm("Close without merging?", text)
        if not waiting or await self._workbench.app.push_screen_wait(ask):
            await self.close(session_id)

    def _fork_here(self) -> None:
        """Fork up to the block under the cursor of the conversation; without one, ask up to where."""
        active, current = wanted_session(self._workbench), self._workbench.panes.current
        if active is not None and current is not None:
            self._work(self._fork_and_open(active.session, current.transcript.place_seq()))

    async def _fork_and_open(self, session: Session, seq: int) -> None:
        chosen: str | None = str(seq)
        if not seq:
            picker = Picker("Fork up to …", message_choices(session.history()))
            chosen = await self._workbench.app.push_screen_wait(picker)
        if chosen is not None and (host := self._workbench.sessions.host) is not None:
            await self._open(await host.archive.fork(session.id, int(chosen)))
            upto = "up to that message" if int(chosen) else "the whole session"
            self._workbench.say(f"this is a fork ({upto}); the original and all files are unchanged")

    def _export_active(self, form: str) -> None:
        if session_id := self._active_id:
            self._work(self.export(session_id, form))

    def _work(self, work: Awaitable[None]) -> None:
        self._workbench.app.run_worker(tried(self._workbench, work), group="sessions")


def message_choices(history: Sequence[Envelope]) -> list[Choice]:
    """Return the messages that a fork may end with, the newest first, and before them all of the session."""
    found = [Choice("0", "the whole session", "files and the original stay unchanged")]
    for envelope in reversed(history):
        event = envelope.event
        if isinstance(event, MessageAdded) and event.agent == ROOT and event.text.strip() and len(found) <= MOST_MESSAGES:
            who = "you" if event.role is Role.USER else "lmtui"
            text = fit(sanitize_line(event.text.strip().splitlines()[0]), MESSAGE_CELLS)
            found.append(Choice(str(envelope.seq), text, f"{who}  {envelope.time.astimezone():%H:%M}"))
    return found
