"""Jobs: tasks that wait for their time.  Values, and what front ends and the scheduler may ask of where they are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lmtui.core.remote_marks import in_thread, open_to_network
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import moment_text, zone_of

MAX_TEXT_CHARS = 100_000
MAX_TITLE_CHARS = 80


class JobKind(StrEnum):
    """What happens when a job is due: a task is given to a session, or a waiting session is woken."""

    TASK = "task"
    WAKE = "wake"


class Missed(StrEnum):
    """What becomes of runs whose time passed while nobody served the folder: one run, late, or none."""

    RUN = "run"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecord:
    """One job.

    `schedule` is in the form that `features.jobs.schedules` keeps, `zone` an IANA name or empty for the machine's own,
    `due` (UTC) the next time, None where there is none.  `session` is the session that it always runs in, else each run has a
    fresh one.  `mode`, `allow` and `deny` say what it may do; without a `mode` that of the settings holds, and what needs
    approval is refused.

    `attempts` counts the runs that began and did not end, since the last that did; `tries` those in a row that found no model
    server, after which it is run no earlier than `again` (UTC).  `last_outcome` is how the last one ended (a turn's reason, or
    words), `last_session` where.  `begun_session` is where a run began that has not ended yet, so that the next one continues
    there, and `begun_seq` the last event that the session had before.

    `source` is unique to where it came from, so that one file becomes one job.  `claim` is unique to the run that is under way,
    empty where none is.  The order of the fields is that of the table's columns.
    """

    id: str
    text: str
    title: str
    created: datetime
    kind: JobKind = JobKind.TASK
    schedule: str = "once"
    zone: str = ""
    due: datetime | None = None
    is_enabled: bool = True
    session: str = ""
    mode: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    missed: Missed = Missed.RUN
    runs: int = 0
    attempts: int = 0
    tries: int = 0
    again: datetime | None = None
    last_run: datetime | None = None
    last_outcome: str = ""
    last_session: str = ""
    begun_session: str = ""
    begun_seq: int = 0
    source: str = ""
    claim: str = ""

    @property
    def next_time(self) -> datetime | None:
        """Return when it may run next, None where it is not going to by the clock."""
        return max(self.due, self.again) if self.due is not None and self.again is not None else self.due

    @property
    def state(self) -> str:
        """Return running, paused, waiting (for its time) or done."""
        if self.claim:
            return "running"
        if not self.is_enabled:
            return "paused"
        return "waiting" if self.due is not None or self.schedule == "startup" else "done"

    @property
    def shown_state(self) -> str:
        """Return the state for a person: of what is done also whether it failed."""
        is_failed = self.state == "done" and self.last_outcome and not self.last_outcome.startswith("done")
        return "failed" if is_failed else self.state


@dataclass(frozen=True, slots=True, kw_only=True)
class NewJob:
    """A job as the user asks for it; `schedule` is empty for as soon as possible, the other fields are those of a record."""

    text: str
    schedule: str = ""
    zone: str = ""
    title: str = ""
    session: str = ""
    mode: str = ""
    allow: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    missed: Missed = Missed.RUN


class Jobs(Protocol):
    """The jobs of a workspace, as front ends see them.  All but `known` raise `JobsError` or `UsageError`."""

    @property
    @open_to_network
    def known(self) -> Sequence[JobRecord]:
        """Return the jobs as they were when the table was last looked at."""

    @open_to_network
    async def read(self) -> Sequence[JobRecord]:
        """Return all jobs, oldest first.  Of a damaged table, which is moved away, an error tells once."""

    async def add(self, wanted: NewJob) -> JobRecord:
        """Add a job and return it.

        Raises:
            UsageError: its schedule, zone, mode, rules or session cannot be.
        """

    @open_to_network
    async def run_now(self, job_id: str) -> JobRecord:
        """Make a job due now, whatever its schedule; a unique end of the id is enough, here and below."""

    @open_to_network
    async def pause(self, job_id: str) -> JobRecord:
        """Let a job run no more until it is resumed; a run that has begun continues."""

    @open_to_network
    async def resume(self, job_id: str) -> JobRecord:
        """Let a paused job run again at its next time."""

    @open_to_network
    async def remove(self, job_id: str) -> JobRecord:
        """Remove a job; a run that has begun continues."""

    @open_to_network
    def follow_changes(self, listener: Callable[[Sequence[JobRecord]], None]) -> Callable[[], None]:
        """Call `listener` with all jobs whenever they change, on the event loop; the returned function ends it."""

    @open_to_network
    @in_thread
    def is_scheduled(self) -> bool:
        """Tell whether a process, this or another, runs what is due.  Blocks (disk)."""


def shown_schedule(job: JobRecord) -> str:
    """Return a job's schedule for a person, or what continues with it."""
    if job.claim:
        return "running"
    if job.tries:
        return "waits for the server"
    if job.kind is JobKind.WAKE:
        return "wakes a session"
    return job.schedule + (f" {job.zone}" if job.zone else "")


def by_time(records: Sequence[JobRecord]) -> list[JobRecord]:
    """Return jobs in the order in which they come next, then those that are done."""
    return sorted(records, key=lambda job: (job.state == "done", job.due is None, job.due or job.created))


def job_lines(records: Sequence[JobRecord], now: datetime) -> Iterator[str]:
    """Yield the jobs as a person reads them, `by_time`."""
    if not records:
        yield 'no jobs; `lmtui submit "TASK" --daily 09:00` adds one'
    for job in by_time(records):
        where = f" · session {job.last_session}" if job.last_session else ""
        about = f"{sanitize_line(job.title)}  {job_text(job, now)}{where}"
        yield f"{job.id}  {job.shown_state:<8} {when_text(job, now):<18} {about}"


def job_text(job: JobRecord, now: datetime) -> str:
    """Return what there is to know of a job besides its title and its next time."""
    schedule = "wakes its session" if job.kind is JobKind.WAKE else f"{job.schedule} {job.zone}".strip()
    outcome, last = sanitize_line(job.last_outcome), ""
    if job.tries:
        last = f"tried {pluralize(job.tries, 'time')}: {outcome}"
    elif job.last_run is not None:
        when = moment_text(job.last_run, now, zone_of(""))
        last = f"runs since {when}" if job.claim else f"last {when}: {outcome}"
    own = (("allow", job.allow), ("deny", job.deny))
    rules = " ".join(f"{word} {sanitize_line(rule)}" for word, rules in own for rule in rules)
    runs = pluralize(job.runs, "run") if job.runs else "not run yet"
    return " · ".join(filter(None, (sanitize_line(schedule), f"mode {job.mode}" if job.mode else "", runs, last, rules)))


def when_text(job: JobRecord, now: datetime) -> str:
    """Return when a job runs next, or what is said in place of it."""
    zone = zone_of("")
    if job.claim:
        return f"since {moment_text(job.last_run, now, zone)}" if job.last_run is not None else ""
    if job.next_time is None or not job.is_enabled:
        return shown_schedule(job)
    if job.tries:
        return f"again {moment_text(job.next_time, now, zone)}"
    if job.schedule == "once" and job.next_time <= now:
        return "now"
    return moment_text(job.next_time, now, zone)
