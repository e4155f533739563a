"""What is said of jobs, wherever they are shown."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from lmtui.core.agent_events import Job, JobsChanged
from lmtui.core.jobs import JobKind, JobRecord, JobsRead


def told(records: Sequence[JobRecord]) -> JobsChanged:
    """Return the jobs as the plan panel shows them: those that run or will."""
    shown = [each for each in records if each.lease or each.due]
    return JobsChanged(jobs=tuple(Job(each.id, each.title, shown_schedule(each), shown_time(each)) for each in shown))


def shown_schedule(job: JobRecord) -> str:
    """Return a job's schedule for a person, or what goes on with it."""
    if job.lease is not None:
        return "running"
    if job.tries:
        return "waits for the server"
    if job.kind is JobKind.WAKE:
        return "wakes a session"
    return job.schedule + (f" {job.zone}" if job.zone else "")


def shown_time(job: JobRecord) -> datetime | None:
    """Return the time that stands beside a job, None where it is paused."""
    return job.last_run if job.lease is not None else job.next_time if job.is_enabled else None


def problems(read: JobsRead) -> list[str]:
    """Return what the user is told of a table: jobs that are not theirs, a file that was put aside."""
    return [
        *([foreign_text(read.foreign)] if read.foreign else []),
        *([f"the jobs in .lmagent/index.db could not be read; the file is now {read.set_aside}"] if read.set_aside else []),
    ]


def foreign_text(count: int) -> str:
    """Return what the user is told of jobs that are not theirs."""
    what, verbs = ("1 job", ("was", "does")) if count == 1 else (f"{count} jobs", ("were", "do"))
    return f"{what} in .lmagent/index.db {verbs[0]} not added by your lmtui in this folder, and {verbs[1]} not run"
