from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from lmtui.core.jobs import JobHistory, JobRecord, job_lines, when_text

NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)
JOB = JobRecord(id="ab12", text="read the logs", title="Logs", created=NOW, due=NOW + timedelta(hours=1))


def test_a_job_that_runs_is_said_to_once_and_since_when() -> None:
    running = replace(JOB, claim="a", history=JobHistory(last_run=NOW))
    (line,) = job_lines([running], NOW)
    assert line.count("running") == 1
    assert f"since {NOW.astimezone():%H:%M}" in line


def test_a_job_whose_server_is_away_says_when_it_is_tried_again_and_how_often_it_was() -> None:
    away = replace(
        JOB,
        due=NOW,
        history=JobHistory(tries=2, again=NOW + timedelta(minutes=2), last_outcome="waiting for the server: no answer"),
    )
    (line,) = job_lines([away], NOW)
    assert f"again {NOW + timedelta(minutes=2):%H:%M}"[:5] in line
    assert "tried 2 times  last: waiting for the server: no answer" in line


def test_what_stands_in_place_of_a_time() -> None:
    assert when_text(replace(JOB, due=NOW), NOW) == "now"
    assert when_text(replace(JOB, is_enabled=False, schedule="daily 09:00"), NOW) == "daily 09:00"
    assert when_text(replace(JOB, due=None), NOW) == "once"
