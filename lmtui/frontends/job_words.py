"""Jobs in words, for the command line and plain mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.jobs import JobRecord
from lmtui.core.times import moment_text, zone_of
from lmtui.runtime.job_words import shown_schedule


def job_lines(records: Sequence[JobRecord], now: datetime) -> Iterator[str]:
    """Yield the jobs as a person reads them, those that come next first, then those that are done."""
    if not records:
        yield 'no jobs; `lmtui submit "TASK" --daily 09:00` adds one'
    for job in sorted(records, key=lambda each: (each.state == "done", each.due is None, each.due or each.created)):
        last = f"  last: {clean_line(job.last_outcome)}" if job.last_outcome else ""
        where = f" in {job.last_session}" if job.last_session else ""
        runs = f"  {counted(job.runs, 'run')}" if job.runs else ""
        runs += f"  tried {counted(job.tries, 'time')}" if job.tries else ""
        is_again = job.schedule not in ("once", "") and job.due is not None and job.lease is None and job.is_enabled
        again = f"  ({clean_line(job.schedule)})" if is_again else ""
        yield f"{job.id}  {job.state:<8} {when_text(job, now):<18} {clean_line(job.title)}{again}{runs}{last}{where}"


def when_text(job: JobRecord, now: datetime) -> str:
    """Return when a job runs next, or what is said in place of it."""
    zone = zone_of("")
    if job.lease is not None:
        return f"since {moment_text(job.last_run, now, zone)}" if job.last_run is not None else ""
    if job.next_time is None or not job.is_enabled:
        return shown_schedule(job)
    if job.tries:
        return f"again {moment_text(job.next_time, now, zone)}"
    if job.schedule == "once" and job.next_time <= now:
        return "now"
    return moment_text(job.next_time, now, zone)
