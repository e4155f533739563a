from __future__ import annotations

import pytest

from lmtui.core.errors import JobsError
from lmtui.features.jobs.commands import split_schedule
from lmtui.features.jobs.values import NewJob
from tests.sets import for_each
from tests.tui.driving import Driver, running
from tests.tui.fakes import START, FakeHost
from tests.tui.one_app import Cases
from tests.tui.scenes_lists import some_jobs


def host_with_jobs() -> FakeHost:
    host = FakeHost()
    host.extensions.jobs.known = some_jobs(START)
    return host


@for_each(
    ("text", "schedule", "task"),
    [
        ("daily 09:00: read the logs", "daily 09:00", "read the logs"),
        ("at 2026-05-01T09:00: mend it: all of it", "at 2026-05-01T09:00", "mend it: all of it"),
        ("cron 0 9 * * mon-fri: x", "cron 0 9 * * mon-fri", "x"),
        ("startup: x", "startup", "x"),
        ("read the logs", "", "read the logs"),
        ("fix this: it fails", "", "fix this: it fails"),
        ("every test must pass", "", "every test must pass"),
        ("", "", ""),
    ],
)
def test_a_task_may_begin_with_its_schedule(text: str, schedule: str, task: str) -> None:
    assert split_schedule(text) == (schedule, task)


async def test_the_app_runs_jobs_while_it_is_open_and_says_that_a_table_cannot_be_used() -> None:
    async with running() as driver:
        await driver.until(lambda: driver.host.extensions.jobs.is_serving)
    assert not driver.host.extensions.jobs.is_serving
    host = FakeHost()
    host.extensions.jobs.failure = JobsError("the disk is full")
    async with running(host) as driver:
        await driver.until(lambda: "the disk is full" in driver.text("#say"))


@for_each("failure", [TypeError("a bytes-like object"), OSError("no room")])
async def test_a_scheduler_that_fails_inside_is_told_with_the_way_out_and_logged(
    failure: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    host = FakeHost()
    host.extensions.jobs.failure = failure
    async with running(host) as driver:
        await driver.until(lambda: f"The job scheduler stopped: {failure}" in driver.text("#say"))
    assert [record.exc_info[1] for record in caplog.records if record.exc_info][-1] is failure


cases = Cases()
host_with_jobs_cases = Cases(host_with_jobs)


@cases
async def a_job_is_added_from_the_prompt(driver: Driver) -> None:
    await driver.type("/submit daily 09:00: read the logs")
    await driver.until(lambda: bool(driver.host.extensions.jobs.wanted))
    assert driver.host.extensions.jobs.wanted == [NewJob(text="read the logs", schedule="daily 09:00")]
    await driver.until(lambda: "read the logs" in driver.text("#say"))


@cases
async def a_job_is_asked_for_from_its_list_and_what_cannot_be_is_told(driver: Driver) -> None:
    await driver.type("/jobs", "JobList")
    await driver.press("a", to="AskText")
    await driver.press(*"tidy", "enter")
    await driver.until(lambda: "WHEN?" in driver.text())
    await driver.press(*"never", "enter")
    await driver.until(lambda: "not a schedule" in driver.text("#say"))
    assert driver.host.extensions.jobs.wanted == []


@host_with_jobs_cases.full()
async def a_job_is_paused_and_removed_after_asking_and_its_session_opened(driver: Driver) -> None:
    jobs = driver.host.extensions.jobs
    await driver.type("/jobs", "JobList")
    await driver.until(lambda: "Nightly" in driver.text())
    await driver.press("home", "down", "down", "space")
    await driver.until(lambda: [job.title for job in jobs.known if not job.is_enabled] == ["Read the logs", "Sort my notes"])
    await driver.press("space")
    await driver.until(lambda: [job.title for job in jobs.known if not job.is_enabled] == ["Sort my notes"])
    await driver.press("d", to="Confirm")
    await driver.press("n", to="JobList")
    assert len(jobs.known) == 6
    await driver.press("d", to="Confirm")
    await driver.press("y")
    await driver.until(lambda: len(jobs.known) == 5)
    assert "Read the logs" not in [job.title for job in jobs.known]
    await driver.press("home", "enter")
    await driver.until(lambda: driver.view.session.id == "20260314_140000_0c0c0c")
