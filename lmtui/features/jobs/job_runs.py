"""One run of a job: a session is opened with the job's own policy, does the task, and is let go of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lmtui.core.errors import Fault, LmtuiError, ProviderError
from lmtui.core.events import ROOT, MessageAdded, ModeChanged, TurnEnded, TurnReason
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.ports import Policy
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.scheduler import Began, RunEnd
from lmtui.features.jobs.values import JobKind, JobRecord
from lmtui.features.service import FeatureHost
from lmtui.store.session_logs import SessionStore

_GO_ON = "lmtui was stopped while you worked on this. Look at what is done already, then go on with the task."
_SERVER_IS_BACK = "The model server was away for a while. Look at what is done already, then go on with the task."
_AWAY = frozenset({Fault.UNREACHABLE, Fault.LOADING, Fault.BUSY})


class JobRuns:
    """Runs jobs on a host; `running` are the jobs under way by the session they run in."""

    def __init__(self, host: FeatureHost) -> None:
        self._host = host
        self._own: set[str] = set()
        self.running: dict[str, JobRecord] = {}

    def is_taken(self, record: JobRecord) -> bool:
        """Tell whether a job's session is at another job here, or open under a policy that is not the job's own.

        A wait of the session's own continues under the policy that the session has.
        """
        wanted = record.begun_session or record.session
        return wanted in self.running or (_has_policy(record) and self._host.is_open(wanted))

    def let_go(self, session_id: str) -> bool:
        """Leave a session to the user, who opened it while its job runs; tell whether it was a job's."""
        is_own = session_id in self._own
        self._own.discard(session_id)
        return is_own

    async def run(self, record: JobRecord, began: Began) -> RunEnd:
        """Run a job; see `scheduler.Run`."""
        wanted = record.begun_session or record.session
        if self.is_taken(record):
            return RunEnd("", is_busy=True)
        if wanted:
            self.running[wanted] = record
            if not self._host.is_open(wanted):
                self._own.add(wanted)  # from here on whoever opens it as well takes it over
        try:
            session = await self._open(record, wanted)
            if isinstance(session, RunEnd):
                return session
            if wanted and wanted not in self._own and _has_policy(record):
                return RunEnd("", is_busy=True)  # the user was quicker; it is not to be theirs
            return await self._in(session, record, began)
        finally:
            if wanted:
                self.running.pop(wanted, None)
                self._own.discard(wanted)

    async def _in(self, session: EngineSession, record: JobRecord, began: Began) -> RunEnd:
        """Run a job in its session, under its mode; what is the job's own alone is closed, the rest left as it was."""
        is_own = session.id in self._own
        self.running[session.id] = record
        seq = session.history()[-1].seq if session.history() else 0
        earlier = _mode_before(session, record)
        mode = "" if record.kind is JobKind.WAKE and not is_own else record.mode
        try:
            await began(session.id, seq)
            if mode:
                session.set_mode(Mode(mode))
            return await self._work(session, record, seq)
        finally:
            if mode and session.mode is Mode(mode) and not session.is_closed:
                session.set_mode(earlier)
            try:
                if self.let_go(session.id):
                    await session.close()
            finally:
                self.running.pop(session.id, None)

    async def _open(self, record: JobRecord, wanted: str) -> EngineSession | RunEnd:
        """Open the session of a job; where that cannot be, the run is at its end."""
        host = self._host
        try:
            if wanted:
                await asyncio.to_thread(host.take_server_of, wanted)
            _ = await host.choose_server()
            if silent := await host.servers.silent():
                return RunEnd(f"no model server answers at {silent}", is_away=True)
            await host.require_sandbox()
            policy = job_policy(record)
            session = await (host.open_session(wanted, policy) if wanted else host.new_session(policy))
        except ProviderError as error:
            return RunEnd(str(error), is_away=True) if error.fault in _AWAY else RunEnd(f"error: {error.full_text()}")
        except LmtuiError as error:
            is_busy = bool(wanted) and not host.is_open(wanted)  # then another process may have the session
            is_busy = is_busy and await asyncio.to_thread(SessionStore(host.workspace).is_in_use, wanted)
            return RunEnd("", is_busy=True) if is_busy else RunEnd(f"error: {error.full_text()}")
        if not wanted:
            self._own.add(session.id)
            session.rename(record.title)
        return session

    async def _work(self, session: EngineSession, record: JobRecord, seq: int) -> RunEnd:
        if (end := _end_of(session, record)) is not None:
            return _run_end(end)  # it was at its end, and only the table did not say so
        if not _start(session, record):
            return RunEnd("over: the session went on before")
        try:
            await session.wait_idle()
        except asyncio.CancelledError:
            session.interrupt()
            await session.wait_idle()
            raise
        ends = [event for event in _root_events(session, seq) if isinstance(event, TurnEnded)]
        return _run_end(ends[-1]) if ends else RunEnd("error: the session ended before its turn")


def _run_end(end: TurnEnded) -> RunEnd:
    if end.fault in _AWAY:
        return RunEnd(end.error, is_away=True)
    return RunEnd(f"{end.reason.words}: {end.error}" if end.error else end.reason.words)


def _has_policy(record: JobRecord) -> bool:
    """Tell whether a job has its own policy."""
    return record.kind is not JobKind.WAKE and bool(record.mode or record.allow or record.deny)


def _is_cut(end: TurnEnded) -> bool:
    """Tell whether a turn was ended by something else than the work in it."""
    return end.reason is TurnReason.INTERRUPTED or end.fault in _AWAY


def _mode_before(session: EngineSession, record: JobRecord) -> Mode:
    """Return the mode that a session had before its job, also where that began in an earlier life."""
    if not record.begun_session:
        return session.mode
    for envelope in reversed(session.history()):
        event = envelope.event
        if envelope.seq <= record.begun_seq and isinstance(event, ModeChanged) and event.mode in tuple(Mode):
            return Mode(event.mode)
    return session.mode


def _end_of(session: EngineSession, record: JobRecord) -> TurnEnded | None:
    """Return the end that a run came to in an earlier life, None where it did not."""
    if not record.begun_session:
        return None
    is_its_turn = record.kind is JobKind.WAKE
    for event in _root_events(session, record.begun_seq):
        if isinstance(event, MessageAdded):
            is_its_turn = is_its_turn or event.text == record.text
        elif is_its_turn and not _is_cut(event):
            return event
    return None


def _root_events(session: EngineSession, after: int) -> Iterator[MessageAdded | TurnEnded]:
    """Yield what the user said and how the turns on it ended, behind an event of a session."""
    for envelope in session.history():
        match envelope.event:
            case (TurnEnded() | MessageAdded(role=Role.USER)) as event if event.agent == ROOT and envelope.seq > after:
                yield event


def _start(session: EngineSession, record: JobRecord) -> bool:
    """Begin the turn; False where there is nothing to be done any more."""
    cut = _cut_off(session, record) if record.begun_session else None
    if cut is not None:
        session.sleep.remind(_SERVER_IS_BACK if cut.fault in _AWAY else _GO_ON)
        return True
    if record.kind is JobKind.WAKE:
        return session.sleep.wake()
    session.submit(record.text, is_from_file=True)  # the model, or a file of the inbox, may have written it
    return True


def _cut_off(session: EngineSession, record: JobRecord) -> TurnEnded | None:
    """Return the end of a session's last turn where that was for a job and did not come to its own end."""
    if session.is_running:
        return None
    events = [*_root_events(session, 0)]
    said = next((event.text for event in reversed(events) if isinstance(event, MessageAdded)), "")
    is_for_it = record.kind is JobKind.WAKE or said == record.text
    last = events[-1] if is_for_it and events else None
    return last if isinstance(last, TurnEnded) and _is_cut(last) else None


def job_policy(record: JobRecord) -> Policy:
    """Return a job's own rules; nobody is there to be asked."""
    own = ((Effect.ALLOW, record.allow), (Effect.DENY, record.deny))
    rules = tuple(parse_rule(text, effect, "job") for effect, texts in own for text in texts)
    return Policy(Mode(record.mode or Mode.NORMAL), rules, is_attended=False)
