from __future__ import annotations

import shutil
import sqlite3
import subprocess
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.core.errors import JobsError
from lmtui.features.jobs.job_table import JobFile, ServingLock
from lmtui.features.jobs.values import JobKind, JobRecord, Missed
from lmtui.features.pipeline.plan_queue import PipelineFile
from lmtui.paths import workspace_state_dir

NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "ws"
    folder.mkdir()
    return folder


def job(number: int = 0, **fields: Any) -> JobRecord:
    made = JobRecord(id=f"job{number}", text="do it", title="do it", created=NOW + timedelta(seconds=number), due=NOW)
    return replace(made, **fields)


TEXTS = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30)
RECORDS = st.builds(
    JobRecord,
    id=st.text("abcdef0123456789", min_size=1, max_size=8),
    text=TEXTS,
    title=TEXTS,
    created=st.just(NOW),
    kind=st.sampled_from(JobKind),
    due=st.none() | st.datetimes(datetime(1990, 1, 1), datetime(2100, 1, 1)).map(lambda each: each.replace(tzinfo=UTC)),
    is_enabled=st.booleans(),
    allow=st.lists(TEXTS, max_size=3).map(tuple),
    missed=st.sampled_from(Missed),
    attempts=st.integers(0, 5),
    begun_seq=st.integers(0, 10**9),
    last_outcome=TEXTS,
    claim=TEXTS,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RECORDS)
def test_what_is_written_is_read(workspace: Path, record: JobRecord) -> None:
    table = JobFile(workspace)
    assert table.add(record)
    assert record in table.read()
    assert table.remove(record.id)
    table.close()


def test_nothing_is_made_by_looking_and_nothing_read_that_came_with_a_folder(workspace: Path, tmp_path: Path) -> None:
    table = JobFile(workspace)
    assert not table.exists()
    assert (table.read(), table.change(lambda records: records)) == ((), ())
    assert (table.remove("a"), ServingLock(workspace).is_taken()) == (False, False)
    assert [*workspace.iterdir()] == []
    JobFile(workspace).add(job())
    index = workspace_state_dir(workspace) / "index.db"
    clone = tmp_path / "clone"
    (clone / ".lmagent").mkdir(parents=True)
    shutil.copy(index, clone / ".lmagent" / "index.db")
    assert (JobFile(clone).read(), PipelineFile(clone).read()) == ((), [])
    assert [*workspace.iterdir()] == [], "nothing of the queue is in the folder"


def test_a_table_that_was_taken_away_is_made_anew_and_one_of_a_newer_lmtui_left_alone(workspace: Path) -> None:
    table = JobFile(workspace)
    table.add(job())
    assert (workspace_state_dir(workspace) / "index.db").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(workspace_state_dir(workspace))
    table.add(job(1))
    assert [each.id for each in JobFile(workspace).read()] == ["job1"]
    table.close()
    with sqlite3.connect(workspace_state_dir(workspace) / "index.db") as database:
        database.execute("PRAGMA user_version=1000")
    database.close()
    with pytest.raises(JobsError, match="newer"):
        JobFile(workspace).read()
    assert not [*workspace_state_dir(workspace).glob("*aside")]


def test_a_table_keeps_what_is_added_and_changed_and_forgets_done_jobs_after_a_while(workspace: Path) -> None:
    table, other = JobFile(workspace), JobFile(workspace)
    assert table.add(job(0))
    assert (before := other.version()) == other.version()
    assert table.add(job(1, created=NOW + timedelta(milliseconds=500)))  # of the same second
    assert other.version() != before
    assert table.add(job(2, source="inbox a.task 1"))
    assert not table.add(job(3, source="inbox a.task 1"))

    def fail(_: object) -> list[JobRecord]:
        raise JobsError("no")

    with pytest.raises(JobsError):
        table.change(fail)
    changed = table.change(lambda records: [replace(records[0], runs=1), *records[1:]])
    assert changed[0].runs == 1
    table.add(job(4, due=None, last_run=datetime.now(UTC) - timedelta(days=31)))
    table.add(job(5, due=None, last_run=datetime.now(UTC)))
    assert [each.id for each in table.read()] == ["job0", "job1", "job2", "job5"]
    table.close()
    other.close()


def test_one_at_a_time_serves_a_folder_that_can_be_locked(workspace: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = ServingLock(workspace), ServingLock(workspace)
    assert (one.take(), one.take(), other.take(), ServingLock(workspace).is_taken()) == (True, True, False, True)
    one.release()
    assert (ServingLock(workspace).is_taken(), other.take()) == (False, True)
    other.release()

    def refuse(*_: object) -> None:
        raise OSError("No locks available")

    monkeypatch.setattr("fcntl.flock", refuse)
    assert not one.take()


def _count_up(workspace: Path, times: int) -> None:
    table = JobFile(workspace)
    for _ in range(times):
        table.change(lambda records: [replace(records[0], runs=records[0].runs + 1)])
    table.close()


@pytest.mark.full
def test_changes_of_several_processes_are_not_lost(workspace: Path) -> None:
    table = JobFile(workspace)
    table.add(job())
    table.close()
    code = "import pathlib, sys, tests.store.test_jobs as it; it._count_up(pathlib.Path(sys.argv[1]), 25)"
    started = [subprocess.Popen([sys.executable, "-c", code, str(workspace)]) for _ in range(2)]
    assert [each.wait(60) for each in started] == [0, 0]
    assert JobFile(workspace).read()[0].runs == 50


def test_a_file_that_is_set_aside_is_told_of(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = workspace_state_dir(workspace) / "index.db"
    index.parent.mkdir(parents=True)
    index.write_bytes(b"not a database at all" * 300)
    table = JobFile(workspace)
    with pytest.raises(JobsError, match=r"could not be read; the file is now .*index\.db\..*\.aside"):
        table.read()
    (aside,) = (str(path) for path in index.parent.glob("index.db.*.aside"))
    assert (aside in caplog.text, table.read()) == (True, ())
    table.close()
