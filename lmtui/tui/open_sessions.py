"""The open sessions of the app: opens, drives and closes them.

Each is driven in a Textual worker whose group is its id, and each working agent in another, `agent:SESSION/AGENT`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field, TypeAdapter
from textual.app import App
from textual.worker import Worker, WorkerCancelled, WorkerFailed

from lmtui.core.messages import Image
from lmtui.tui.prompt_store import name_of, write_private

if TYPE_CHECKING:
    from lmtui.core.sessions import Session, SessionHost, SessionSummary
    from lmtui.tui.router import Router, SessionView


MOST_OPEN = 20
_MOST_BYTES = 65_536


@dataclass(frozen=True, slots=True)
class SavedSessions:
    """The ids of the open sessions, and of the one on screen."""

    ids: Annotated[tuple[str, ...], Field(alias="open")] = ()
    active: str = ""


_SAVED = TypeAdapter(SavedSessions)


class OpenStore:
    """One file in the user's state folder, named after a hash of the workspace's path."""

    def __init__(self, folder: Path, workspace: Path) -> None:
        self._path = folder / f"{name_of(workspace)}.json"

    def read(self) -> SavedSessions:
        """Return what was kept; a file that cannot be read is as if there were none."""
        try:
            with self._path.open("rb") as file:
                found = _SAVED.validate_json(file.read(_MOST_BYTES))
        except (OSError, ValueError):
            return SavedSessions()
        return replace(found, ids=found.ids[:MOST_OPEN])

    def write(self, opened: SavedSessions) -> None:
        """Keep it, in one step: the session on screen and the newest of the others.

        Raises:
            OSError: it could not be written.
        """
        ids = [each for each in opened.ids if each != opened.active][-(MOST_OPEN - 1) :]
        ids += [opened.active] if opened.active else []
        kept = SavedSessions(tuple(sorted(ids)), opened.active)
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_private(self._path, _SAVED.dump_json(kept, by_alias=True).decode())


class OpenSessions:
    """The open sessions, and the host once it is there."""

    def __init__(self, app: App[Any], router: Router) -> None:
        self.router = router
        self.host: SessionHost | None = None
        self.counts: list[Callable[[], int]] = []  # how many agents work for each feature
        self._app = app
        self.parked: dict[str, SessionSummary] = {}
        self._wakes: dict[str, asyncio.Event] = {}
        self._workers: dict[str, Worker[None]] = {}

    @property
    def active(self) -> SessionView | None:
        """Return the session on screen."""
        return self.router.active

    @property
    def views(self) -> Mapping[str, SessionView]:
        """Return the open sessions by id."""
        return self.router.views

    @property
    def order(self) -> list[str]:
        """Return the ids of all that is open, read or `parked` (open before a restart, and read when it is shown), by age."""
        return sorted({*self.views, *self.parked})

    @property
    def running(self) -> list[SessionView]:
        """Return the sessions in which a turn is under way."""
        return [view for view in self.views.values() if view.session.is_running]

    @property
    def unmerged(self) -> int:
        """Return how many files of try mode are not merged."""
        return sum(view.session.trial.waiting for view in self.views.values())

    @property
    def working(self) -> int:
        """Return how many agents work: in sessions that are open, and for features."""
        return len(self.running) + sum(count() for count in self.counts)

    async def open(self, session_id: str = "") -> SessionView:
        """Open a session (a new one without id) and put it on screen.

        Raises:
            LmtuiError: it cannot be opened; what was on screen stays.
        """
        known = self.router.views.get(session_id)
        if known is not None:
            self.router.show(known)
            return known
        assert self.host is not None
        session = await (self.host.open_session(session_id) if session_id else self.host.new_session())
        view = self.router.add(session)
        self.parked.pop(session.id, None)
        session.run_agents_in(partial(self.run_agent, session.id))
        self._start_driving(session)
        self.router.show(view)
        return view

    def submit(
        self, view: SessionView, text: str, *, is_now: bool = False, typed: str = "", images: Sequence[Image] = ()
    ) -> None:
        """Give a text to a session; see `core.sessions.Session.submit`."""
        give = view.session.steer if is_now else view.session.submit
        give(text, typed=typed if typed != text else "", images=images)
        self._wake(view)

    def run_command(self, view: SessionView, command: str, *, is_told: bool) -> None:
        """Run a command of the user's own in a session."""
        view.session.waiting.run_command(command, is_told=is_told)
        self._wake(view)

    def begin(self, view: SessionView, start: Callable[[Session], None]) -> None:
        """Let a command start work in a session."""
        start(view.session)
        self._wake(view)

    def go_on(self, view: SessionView) -> None:
        """Let a session take up what an interrupt left waiting."""
        view.session.waiting.go_on()
        self._wake(view)

    def _wake(self, view: SessionView) -> None:
        self._start_driving(view.session)
        self._wakes[view.session.id].set()

    async def rename(self, session_id: str, title: str) -> None:
        """Give a session a title, an open one or one on disk."""
        view = self.views.get(session_id)
        if view is not None:
            view.session.rename(title)
            return
        assert self.host is not None
        session = await self.host.open_session(session_id)
        session.rename(title)
        await session.close()

    def forget(self, session_id: str) -> None:
        """Stop listening to a session that is gone."""
        self.parked.pop(session_id, None)
        self.router.remove(session_id)
        self._wakes.pop(session_id, None)
        worker = self._workers.pop(session_id, None)
        if worker is not None:
            worker.cancel()

    async def close(self) -> None:
        """Close every session and the host; idempotent."""
        for session_id in list(self.views):
            self.forget(session_id)
        host, self.host = self.host, None
        if host is not None:
            await host.close()

    def _start_driving(self, session: Session) -> None:
        worker = self._workers.get(session.id)
        if worker is None or worker.is_finished:
            wake = self._wakes.setdefault(session.id, asyncio.Event())
            self._workers[session.id] = self._app.run_worker(
                self._drive(session, wake), name="session", group=session.id, exit_on_error=False
            )

    async def run_agent(self, session_id: str, agent: str, work: Coroutine[Any, Any, None]) -> None:
        """Run an agent of a session in a worker of the app; with the session it is a `core.sessions.AgentRunner`."""
        begun = asyncio.Event()

        async def run() -> None:
            begun.set()
            await work

        name = f"{session_id}/{agent}"
        worker = self._app.run_worker(run(), name=name, group=f"agent:{name}", exit_on_error=False)
        try:
            await begun.wait()
        except asyncio.CancelledError:  # what has begun says how it ended
            await begun.wait()
            worker.cancel()
        try:
            await worker.wait()
        except WorkerCancelled:
            raise asyncio.CancelledError from None
        except WorkerFailed as failed:
            raise failed.error from None

    async def _drive(self, session: Session, wake: asyncio.Event) -> None:
        while True:
            await wake.wait()
            wake.clear()
            await session.wait_idle()
