"""The scheduler of this process: it is made when jobs are to be run, and says that it is there as long as it works."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import os
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import psutil

from lmtui.app.job_runs import JobHost, JobRuns, job_policy
from lmtui.core.errors import JobsError, UsageError
from lmtui.core.jobs import MAX_TEXT_CHARS, MAX_TITLE_CHARS, JobRecord, JobsRead, NewJob
from lmtui.core.permissions.rules import Mode
from lmtui.core.sanitize import sanitize_line
from lmtui.core.times import zone_of
from lmtui.features.jobs.inbox_folder import InboxFolder
from lmtui.features.jobs.leases import Owner
from lmtui.features.jobs.scheduler import Parts, Scheduler
from lmtui.features.jobs.schedules import first_time, read_schedule, schedule_text
from lmtui.paths import inbox_dir
from lmtui.store.job_table import JobFile, Presence
from lmtui.store.session_logs import SessionStore


def new_record(text: str, title: str) -> JobRecord:
    """Return a job that is due as soon as it is put into the table with a time.

    Raises:
        UsageError: the text is empty, too long, or no text.
    """
    if not text.strip() or len(text) > MAX_TEXT_CHARS:
        raise UsageError("a job needs a text" if not text.strip() else f"a job's text has {MAX_TEXT_CHARS} characters at most")
    for each in (text, title):
        _check_text(each)
    name = sanitize_line(title.strip() or text.strip().partition("\n")[0])[:MAX_TITLE_CHARS]
    return JobRecord(id=secrets.token_hex(4), text=text, title=name, created=datetime.now(UTC))


def checked_job(wanted: NewJob, workspace: Path) -> JobRecord:
    """Return the record of a job that can be; blocks (disk).

    Raises:
        UsageError: its text, schedule, zone, mode, rules or session cannot be.
    """
    for each in (wanted.schedule, wanted.zone, wanted.session, *wanted.allow, *wanted.deny):
        _check_text(each)
    now = datetime.now(UTC)
    zone = zone_of(wanted.zone)
    schedule = read_schedule(wanted.schedule or "once", now, zone)
    due = first_time(schedule, now, zone)
    if due is not None and (now - due).total_seconds() > 1:
        raise UsageError(f"{wanted.schedule} is over", "Name a time to come.")
    if wanted.mode and wanted.mode not in tuple(Mode):
        raise UsageError(f"{wanted.mode!r} is not a mode", f"There are {', '.join(Mode)}.")
    record = replace(
        new_record(wanted.text, wanted.title),
        schedule=schedule_text(schedule),
        zone=wanted.zone,
        due=due,
        session=_own_session(wanted.session, workspace) if wanted.session else "",
        mode=wanted.mode,
        allow=wanted.allow,
        deny=wanted.deny,
        missed=wanted.missed,
    )
    _ = job_policy(record)
    return record


def resumed(job: JobRecord) -> JobRecord:
    """Return a paused job as one that runs again at its next time; times that passed meanwhile do not count."""
    now = datetime.now(UTC)
    zone = zone_of(job.zone)
    due = job.due
    if due is not None and due < now:
        later = first_time(read_schedule(job.schedule, now, zone), now, zone)
        due = later if later is not None and later > now else now
    return replace(job, is_enabled=True, attempts=0, tries=0, again=None, due=due)


def _own_session(wanted: str, workspace: Path) -> str:
    store = SessionStore(workspace)
    session = store.path(wanted).stem
    if not store.is_ours(session):
        raise UsageError(f"session {session} was not made by your lmtui", "Let the job have a fresh one.")
    return session


def _check_text(text: str) -> None:
    """Refuse what is not text: bytes that are not UTF-8 come from a command line as lone surrogates."""
    try:
        _ = text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "backslashreplace").decode()[:60]
        raise UsageError(f"{shown!r} is not text: character {error.start + 1} is half of one", "Write it in UTF-8.") from error


@functools.cache
def this_process() -> Owner:
    """Return this process, its machine's boot and its process namespace among it."""
    return Owner(_machine(), os.getpid(), process_started(os.getpid()) or 0.0)


def is_alive(pid: int, started: float) -> bool:
    """Tell whether a process of this machine that began at a time is still there; in doubt it is."""
    now = process_started(pid)
    return now is not None and (started == 0.0 or abs(now - started) < 1.0)


def process_started(pid: int) -> float | None:
    """Return when a process began, in a measure that a clock that is set does not change; None where it is gone."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()
        return None if fields[0] in (b"Z", b"X") else float(fields[19])  # proc(5): state and starttime, fields 3 and 22
    except FileNotFoundError:
        if Path("/proc/self/stat").exists():
            return None
    except (OSError, IndexError, ValueError):
        return 0.0
    return _started_elsewhere(pid)


def _started_elsewhere(pid: int) -> float | None:
    """Do the same on a system without `/proc`."""
    try:
        return float(psutil.Process(pid).create_time())
    except psutil.NoSuchProcess:
        return None
    except psutil.Error:
        return 0.0


def _machine() -> str:
    parts = [os.uname().nodename]
    with contextlib.suppress(OSError):
        parts = [Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()]
    with contextlib.suppress(OSError):
        parts.append(str(Path("/proc/self/ns/pid").readlink()))
    return " ".join(parts)


class SystemClock:
    """The clocks of this machine; implements `features.jobs.scheduler.Clock`."""

    def wall(self) -> datetime:
        """Return the time in UTC."""
        return datetime.now(UTC)

    def mono_s(self) -> float:
        """Return seconds on the clock that only goes forward."""
        return time.monotonic()

    async def sleep(self, seconds: float, wake: asyncio.Event) -> None:
        """Wait so long, or until `wake` is set."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(wake.wait(), seconds)


@dataclass(frozen=True, slots=True)
class Listeners:
    """Who is told: `changed` gets the table whenever it changed, `problem` a line for the user.

    `begins` is called and waited for before the first look at the table.
    """

    changed: Callable[[JobsRead], None]
    problem: Callable[[str], None]
    begins: Callable[[], Awaitable[None]]


class Serving:
    """Runs the jobs of a table as long as it is asked to.

    Args:
        host: what the jobs run on.
        table: where they are.
        runs: runs one.
        listeners: who is told.
    """

    def __init__(self, host: JobHost, table: JobFile, runs: JobRuns, listeners: Listeners) -> None:
        self._host = host
        self._table = table
        self._runs = runs
        self._listeners = listeners
        self._scheduler: Scheduler | None = None
        self._task: asyncio.Task[None] | None = None

    def is_anyone(self) -> bool:
        """Tell whether a scheduler, this process's or another's, runs what is due.  Blocks (disk)."""
        return Presence(self._host.workspace).is_anyone()

    def wake(self) -> None:
        """Look at the table now."""
        if self._scheduler is not None:
            self._scheduler.wake()

    async def serve(self, *, until_empty: bool, interval_s: float) -> None:
        """Run what is due; see `core.jobs.Jobs.serve`.

        Raises:
            JobsError: this process does that already.
        """
        if self._task is not None:
            raise JobsError("this process runs jobs already")
        self._task = asyncio.current_task()
        presence = Presence(self._host.workspace)
        entering = asyncio.ensure_future(asyncio.to_thread(presence.enter))
        try:
            is_first = await asyncio.shield(entering)
            await self._listeners.begins()
            self._scheduler = self._make_scheduler(interval_s)
            await self._scheduler.work(until_empty=until_empty, is_first=is_first)
        finally:
            self._scheduler = self._task = None
            await asyncio.wait({entering})  # who is cancelled while it enters has to leave as well
            presence.leave()

    async def stop(self) -> None:
        """Stop running jobs; what ran is run again by whoever comes next."""
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    def _make_scheduler(self, interval_s: float) -> Scheduler:
        clock, host = SystemClock(), self._host
        parts = Parts(
            table=self._table,
            run=self._runs.run,
            clock=clock,
            me=this_process(),
            is_alive=is_alive,
            new_token=lambda: secrets.token_hex(8),
            may_take=self._runs.may_take,
            inbox=InboxFolder(
                inbox_dir(host.workspace), self._add_from_inbox, self._trusts_inbox, self._say_soon(), clock.mono_s
            ),
            on_change=self._listeners.changed,
            on_problem=self._listeners.problem,
            interval_s=lambda: interval_s or host.config.scheduler_interval_s,
        )
        return Scheduler(parts)

    def _say_soon(self) -> Callable[[str], None]:
        loop = asyncio.get_running_loop()
        return lambda text: (loop.call_soon_threadsafe(self._listeners.problem, text), None)[1]

    def _trusts_inbox(self) -> bool:
        return self._host.config.inbox == "on"

    def _add_from_inbox(self, text: str, source: str) -> None:
        _ = self._table.add(replace(new_record(text, ""), due=datetime.now(UTC), source=source))
