"""Moments of the list of jobs."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime, timedelta

from lmtui.core.jobs import JobHistory, JobKind, JobPolicy, JobRecord, JobsChanged, Lease, WaitingJob
from tests.tui.driving import Driver
from tests.tui.fakes import START, play_work


def some_jobs(now: datetime) -> list[JobRecord]:
    """Return one job of each kind."""
    lease = Lease("a", "here", 1, 1.0, now + timedelta(minutes=1), 60.0)
    return [
        JobRecord(
            id="3fa2b1c0", text="Run all tests and mend what fails.", title="Nightly tests", created=now,
            schedule="daily 02:30", zone="Europe/Berlin", due=now + timedelta(hours=11, minutes=28),
            policy=JobPolicy("auto", ("Shell(pytest*)",)), history=JobHistory(
                runs=14, last_run=now - timedelta(hours=12), last_outcome="done", last_session="20260314_013000_0a0a0a",
            ),
        ),
        JobRecord(
            id="77aa01b2", text="Read the logs of the last hour.", title="Read the logs", created=now, schedule="hourly :05",
            due=now + timedelta(minutes=3),
            history=JobHistory(runs=211, last_run=now - timedelta(minutes=57), last_outcome="blocked",
                last_session="20260314_130500_0b0b0b"),
        ),
        JobRecord(
            id="9c01d2e3", text="Update the changelog from git log.", title="Changelog", created=now, due=now,
            history=JobHistory(last_run=now - timedelta(minutes=2), attempts=1, last_session="20260314_140000_0c0c0c"),
                lease=lease,
        ),
        JobRecord(
            id="aa11bb22", text="the wheel on the build server", title="the wheel on the build server", created=now,
            kind=JobKind.WAKE, schedule="at 2026-03-14T18:00:00Z", due=now + timedelta(hours=4),
            session="20260314_120000_0d0d0d",
        ),
        JobRecord(
            id="bb22cc33", text="Sort my notes.", title="Sort my notes", created=now, schedule="every 2h", is_enabled=False,
            due=now,
            history=JobHistory(last_run=now - timedelta(days=2), runs=3,
                last_outcome="given up: lmtui ended 3 times while it ran"),
        ),
        JobRecord(
            id="cc33dd44", text="Say which tests are slow.", title="Slow tests", created=now,
            history=JobHistory(runs=1, last_run=now - timedelta(days=1), last_outcome="done",
                last_session="20260313_101010_0e0e0e"),
        ),
    ]  # fmt: skip


async def jobs(driver: Driver) -> None:
    """Six jobs: one runs, one waits for a build, one is paused."""
    play_work(driver.host.session)
    driver.host.jobs.known = some_jobs(START)
    await driver.type("/jobs")
    await driver.until_screen("JobList")
    await driver.until_shown("Nightly")
    await driver.press("home", "down", "down")


async def jobs_away(driver: Driver) -> None:
    """A job waits for its model server, and says when it is tried again."""
    play_work(driver.host.session)
    known = some_jobs(START)
    why = "waiting for the server: no model server answers at http://127.0.0.1:8080/v1"
    known[1] = replace(
        known[1], due=START, history=replace(known[1].history, tries=3, again=START + timedelta(minutes=2), last_outcome=why)
    )
    driver.host.jobs.known = known
    await driver.type("/jobs")
    await driver.until_screen("JobList")
    await driver.until_shown("no server yet")
    await driver.press("home")


async def no_jobs(driver: Driver) -> None:
    """The list is empty and says how one is added."""
    play_work(driver.host.session)
    await driver.type("/jobs")
    await driver.until_screen("JobList")
    await driver.until_shown("lmtui submit")


async def jobs_in_plan(driver: Driver) -> None:
    """The plan pane shows what runs and what comes."""
    play_work(driver.host.session)
    due = START + timedelta(hours=12, minutes=28)
    listed = (WaitingJob("1", "Changelog", "running", START), WaitingJob("2", "Nightly tests", "daily 02:30", due))
    driver.host.session.emit(JobsChanged(jobs=listed))
    await driver.press("f7")


JOB_SCENES = (("jobs", jobs), ("jobs_away", jobs_away), ("jobs_none", no_jobs), ("jobs_in_plan", jobs_in_plan))
