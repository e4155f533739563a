"""One run of a job: a session is opened with the job's own policy, does the task, and is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from lmtui.automation.scheduler import RunEnd
from lmtui.config import Config
from lmtui.core.errors import LmtuiError
from lmtui.core.events import ROOT, Envelope, MessageAdded, TurnEnded, TurnReason
from lmtui.core.jobs import JobKind, JobRecord
from lmtui.core.messages import Role
from lmtui.core.ports import Policy
from lmtui.core.rules import Effect, Mode, Rule, parse_rule
from lmtui.engine.session import EngineSession
from lmtui.store.sessions import SessionStore, is_in_use

_GO_ON = "lmtui was stopped while you worked on this. Look at what is done already, then go on with the task."


class JobHost(Protocol):
    """What a run needs of the host."""

    config: Config

    @property
    def workspace(self) -> Path:
        """Return the folder."""

    async def new_session(self, policy: Policy | None = None) -> EngineSession:
        """Open a fresh session with a policy of its own."""

    async def open_session(self, session_id: str, policy: Policy | None = None) -> EngineSession:
        """Open an earlier session with a policy of its own."""

    def is_open(self, session_id: str) -> bool:
        """Tell whether this process has a session open."""

    def take_server_of(self, session_id: str) -> None:
        """Use the server that a session used last, where none is named."""

    async def choose_server(self) -> str:
        """Take the first server found, where none was chosen."""

    async def require_sandbox(self) -> None:
        """Start the sandbox that the settings name."""


class JobRuns:
    """Runs jobs on a host; `running` are the jobs under way by the session they run in."""

    def __init__(self, host: JobHost) -> None:
        self._host = host
        self._own: set[str] = set()
        self.running: dict[str, JobRecord] = {}

    def may_take(self, record: JobRecord) -> bool:
        """Tell whether the session that a job needs is not another process's; looks at the disk."""
        wanted = record.begun_session or record.session
        if not wanted or self._host.is_open(wanted):
            return True
        found = [path for path in SessionStore(self._host.workspace).paths() if path.stem == wanted]
        return not (found and is_in_use(found[0]))

    def let_go(self, session_id: str) -> bool:
        """Leave a session to the user, who opened it while its job runs; tell whether it was a job's."""
        is_own = session_id in self._own
        self._own.discard(session_id)
        return is_own

    async def run(self, record: JobRecord, began: Callable[[str], Awaitable[None]]) -> RunEnd:
        """Run a job; see `automation.scheduler.Run`."""
        wanted = record.begun_session or record.session
        try:
            was_open = bool(wanted) and self._host.is_open(wanted)
            session = await self._open(record, wanted)
        except LmtuiError as error:
            return RunEnd("", is_busy=True) if not self.may_take(record) else RunEnd(f"error: {error.full_text()}")
        if not was_open:
            self._own.add(session.id)
        self.running[session.id] = record
        try:
            await began(session.id)
            return await self._work(session, record)
        finally:
            self.running.pop(session.id, None)
            if self.let_go(session.id):
                await session.close()

    async def _open(self, record: JobRecord, wanted: str) -> EngineSession:
        host = self._host
        if wanted:
            await asyncio.to_thread(host.take_server_of, wanted)
        _ = await host.choose_server()
        await host.require_sandbox()
        policy = job_policy(record)
        session = await (host.open_session(wanted, policy) if wanted else host.new_session(policy))
        if not wanted:
            session.rename(record.title)
        if record.mode:
            session.set_mode(Mode(record.mode))
        return session

    async def _work(self, session: EngineSession, record: JobRecord) -> RunEnd:
        ends: list[TurnEnded] = []

        def take(envelope: Envelope) -> None:
            if isinstance(envelope.event, TurnEnded) and envelope.event.agent == ROOT:
                ends.append(envelope.event)

        unsubscribe = session.subscribe(take)
        try:
            if not _start(session, record):
                return RunEnd("over: the session went on before")
            await session.wait_idle()
        except asyncio.CancelledError:
            session.interrupt()
            await session.wait_idle()
            raise
        finally:
            unsubscribe()
        if not ends:
            return RunEnd("error: the session ended before its turn")
        return RunEnd(f"{ends[-1].status}: {ends[-1].error}" if ends[-1].error else ends[-1].status)


def _start(session: EngineSession, record: JobRecord) -> bool:
    """Begin the turn; False where there is nothing to be done any more."""
    if record.begun_session and _is_cut_off(session, record):
        session.sleep.remind(_GO_ON)
        return True
    if record.kind is JobKind.WAKE:
        return session.sleep.wake()
    session.submit(record.text)
    return True


def _is_cut_off(session: EngineSession, record: JobRecord) -> bool:
    """Tell whether the last turn of a session was for a job and did not come to its own end."""
    if session.is_running:
        return False
    last_end: TurnEnded | None = None
    last_words = ""
    for envelope in session.history():
        match envelope.event:
            case TurnEnded(agent=agent) as event if agent == ROOT:
                last_end = event
            case MessageAdded(agent=agent, role=Role.USER, text=text) if agent == ROOT:
                last_words, last_end = text, None
            case _:
                pass
    is_for_it = record.kind is JobKind.WAKE or last_words == record.text
    return is_for_it and last_end is not None and last_end.reason is TurnReason.INTERRUPTED


def job_policy(record: JobRecord) -> Policy:
    """Return a job's own rules; nobody is there to be asked."""
    allow = (parse_rule(text, Effect.ALLOW, "job") for text in record.allow)
    deny = (parse_rule(text, Effect.DENY, "job") for text in record.deny)
    rules: tuple[Rule, ...] = (*allow, *deny)
    return Policy(Mode(record.mode or Mode.NORMAL), rules, is_attended=False)
