"""A job as the user asks for it becomes a record that can be, or an error that says why not."""

from __future__ import annotations

import secrets
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from lmtui.automation.schedules import first_time, read_schedule, schedule_text
from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.jobs import MAX_TEXT_CHARS, MAX_TITLE_CHARS, JobRecord, NewJob
from lmtui.core.rules import Mode
from lmtui.core.times import zone_of
from lmtui.runtime.job_runs import job_policy
from lmtui.store.sessions import SessionStore


def new_record(text: str, title: str) -> JobRecord:
    """Return a job that is due as soon as it is put into the table with a time.

    Raises:
        UsageError: the text is empty, too long, or no text.
    """
    if not text.strip() or len(text) > MAX_TEXT_CHARS:
        raise UsageError("a job needs a text" if not text.strip() else f"a job's text has {MAX_TEXT_CHARS} characters at most")
    for each in (text, title):
        _check_text(each)
    name = clean_line(title.strip() or text.strip().partition("\n")[0])[:MAX_TITLE_CHARS]
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
        raise UsageError(f"{wanted.mode!r} is no mode", f"There are {', '.join(Mode)}.")
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
    """Refuse what is no text: bytes that are no UTF-8 come from a command line as lone surrogates."""
    try:
        _ = text.encode()
    except UnicodeEncodeError as error:
        shown = text.encode("utf-8", "backslashreplace").decode()[:60]
        raise UsageError(f"{shown!r} is no text: character {error.start + 1} is half of one", "Write it in UTF-8.") from error
