from __future__ import annotations

import fcntl
import multiprocessing
import os
import shutil
import sqlite3
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.core.errors import JobsError
from lmtui.core.jobs import JobHistory, JobKind, JobPolicy, JobRecord, Lease, Missed
from lmtui.features.jobs.job_table import NAMES, JobFile, Presence, to_row
from lmtui.paths import workspace_dir
from lmtui.store.index_file import Signer, key_file

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
    policy=st.builds(JobPolicy, allow=st.lists(TEXTS, max_size=3).map(tuple)),
    missed=st.sampled_from(Missed),
    history=st.builds(JobHistory, attempts=st.integers(0, 5), begun_seq=st.integers(0, 10**9), last_outcome=TEXTS),
    lease=st.none() | st.builds(Lease, TEXTS, TEXTS, st.integers(1, 99), st.floats(0, 1e6), st.just(NOW), st.floats(0, 1e6)),
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=40, deadline=None)
@given(RECORDS)
def test_what_is_written_is_read(workspace: Path, record: JobRecord) -> None:
    table = JobFile(workspace)
    assert table.add(record)
    assert record in table.read().records
    assert table.remove(record.id)
    table.close()


def test_nothing_is_made_by_looking(workspace: Path) -> None:
    table = JobFile(workspace)
    assert not table.exists()
    assert table.read().records == ()
    assert table.change(lambda records: records) == ()
    assert not table.remove("a")
    assert not Presence(workspace).is_anyone()
    assert [*workspace.iterdir()] == []


def test_another_lmtui_sees_a_change_by_a_number(workspace: Path) -> None:
    one, other = JobFile(workspace), JobFile(workspace)
    one.add(job())
    before = other.version()
    assert other.version() == before
    one.add(job(1))
    assert other.version() != before
    one.close()
    other.close()


def test_two_jobs_of_one_moment_are_two_and_one_source_is_one(workspace: Path) -> None:
    table = JobFile(workspace)
    assert table.add(job(0))
    assert table.add(job(1))
    assert table.add(job(2, source="inbox a.task 1"))
    assert not table.add(job(3, source="inbox a.task 1"))
    assert [each.id for each in table.read().records] == ["job0", "job1", "job2"]
    table.close()


def test_a_change_that_fails_leaves_the_table_as_it_was(workspace: Path) -> None:
    table = JobFile(workspace)
    table.add(job())

    def fail(_: object) -> list[JobRecord]:
        raise JobsError("no")

    with pytest.raises(JobsError):
        table.change(fail)
    assert table.change(lambda records: [replace(records[0], history=replace(records[0].history, runs=1))])[0].history.runs == 1
    table.close()


def test_a_table_that_came_with_a_folder_has_no_jobs_of_ours(
    workspace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = JobFile(workspace)
    table.add(job())
    table.close()
    clone = tmp_path / "clone"
    shutil.copytree(workspace, clone)
    found = JobFile(clone).read()
    assert (found.records, found.foreign) == ((), 1)  # our own jobs, but of another folder
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "another user"))
    found = JobFile(workspace).read()
    assert (found.records, found.foreign) == ((), 1)
    assert not key_file().exists()


@pytest.mark.parametrize(
    ("column", "value"),
    [("text", "rm -rf ~"), ("is_enabled", "True"), ("mode", "auto"), ("due", "2026-01-01T00:00:00+00:00"), ("id", "b")],
)
def test_a_row_that_was_changed_by_another_hand_is_nobodys(workspace: Path, column: str, value: str) -> None:
    table = JobFile(workspace)
    table.add(job(is_enabled=False))
    table.close()
    with sqlite3.connect(workspace / ".lmagent" / "index.db") as database:
        database.execute(f"UPDATE jobs SET {column} = ?", (value,))
    database.close()
    assert JobFile(workspace).read().foreign == 1
    assert JobFile(workspace).change(lambda records: [*records]) == ()


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("signature", "'ünï'"),
        ("signature", "x'00ff'"),
        ("signature", "NULL"),
        ("text", "x'ff00'"),
        ("text", "CAST(x'ff41' AS TEXT)"),
        ("source", "CAST(x'ff41' AS TEXT)"),
        ("title", "NULL"),
    ],
)
def test_a_row_of_another_kind_is_nobodys_and_the_others_are_read(workspace: Path, column: str, value: str) -> None:
    table = JobFile(workspace)
    table.add(job(0))
    table.add(job(1))
    table.close()
    with sqlite3.connect(workspace / ".lmagent" / "index.db") as database:
        database.execute(f"UPDATE jobs SET {column} = {value} WHERE id = 'job0'")
    database.close()
    found = table.read()
    assert ([each.id for each in found.records], found.foreign) == (["job1"], 1)
    assert [
        each.history.runs
        for each in table.change(lambda records: [replace(each, history=replace(each.history, runs=1)) for each in records])
    ] == [1]
    assert table.add(job(2))
    table.close()


def test_what_is_no_table_of_ours_is_set_aside(workspace: Path) -> None:
    index = workspace / ".lmagent" / "index.db"
    index.parent.mkdir()
    for make in ("trigger", "junk", "shape"):
        if make == "junk":
            index.write_bytes(b"not a database at all" * 300)
        else:
            if make == "trigger":
                JobFile(workspace).add(job())
            with sqlite3.connect(index) as database:
                database.execute(
                    "CREATE TRIGGER t AFTER UPDATE ON jobs BEGIN DELETE FROM jobs; END"
                    if make == "trigger"
                    else "CREATE TABLE jobs (a)"
                )
            database.close()
        table = JobFile(workspace)
        assert table.add(job(5))
        assert [each.id for each in table.read().records] == ["job5"]
        table.close()
        assert [*index.parent.glob("index.db.*.aside")]
        for path in index.parent.glob("index.db*"):
            path.unlink()


def test_a_table_of_a_newer_lmtui_is_left_alone(workspace: Path) -> None:
    JobFile(workspace).add(job())
    with sqlite3.connect(workspace / ".lmagent" / "index.db") as database:
        database.execute("PRAGMA user_version=1000")
    database.close()
    with pytest.raises(JobsError, match="newer"):
        JobFile(workspace).read()
    assert not [*workspace.glob(".lmagent/*aside")]


def test_a_link_is_refused(workspace: Path, tmp_path: Path) -> None:
    precious = tmp_path / "precious.db"
    with sqlite3.connect(precious) as database:
        database.execute("CREATE TABLE mine (a)")
    database.close()
    (workspace / ".lmagent").mkdir()
    (workspace / ".lmagent" / "index.db").symlink_to(precious)
    before = precious.read_bytes()
    with pytest.raises(JobsError, match="link"):
        JobFile(workspace).add(job())
    assert precious.read_bytes() == before


def test_a_table_that_was_taken_away_is_made_anew(workspace: Path) -> None:
    table = JobFile(workspace)
    table.add(job())
    assert (workspace / ".lmagent" / "index.db").stat().st_mode & 0o777 == 0o600
    shutil.rmtree(workspace / ".lmagent")
    table.add(job(1))
    assert [each.id for each in JobFile(workspace).read().records] == ["job1"]
    table.close()


def test_done_jobs_are_forgotten_after_a_while(workspace: Path) -> None:
    table = JobFile(workspace)
    old = datetime.now(UTC) - timedelta(days=31)
    table.add(job(0, due=None, history=JobHistory(last_run=old)))
    table.add(job(1, due=None, history=JobHistory(last_run=datetime.now(UTC))))
    assert [each.id for each in table.read().records] == ["job1"]
    table.close()


def test_a_pipe_in_place_of_the_sign_keeps_nobody_waiting(workspace: Path) -> None:
    JobFile(workspace).add(job())
    pipe = workspace_dir(workspace) / "scheduler.lock"
    os.mkfifo(pipe)
    with ThreadPoolExecutor(1) as pool:
        found = pool.submit(Presence(workspace).is_anyone)
        try:
            assert not found.result(timeout=10)
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # lets go of who waits for the other end


def test_the_sign_of_a_scheduler_goes_with_it(workspace: Path) -> None:
    JobFile(workspace).add(job())
    one, other = Presence(workspace), Presence(workspace)
    assert one.enter()
    assert Presence(workspace).is_anyone()
    assert not other.enter()
    one.leave()
    assert Presence(workspace).is_anyone()
    other.leave()
    assert not Presence(workspace).is_anyone()


def _count_up(workspace: Path, times: int) -> None:
    table = JobFile(workspace)
    for _ in range(times):
        table.change(
            lambda records: [replace(records[0], history=replace(records[0].history, runs=records[0].history.runs + 1))]
        )
    table.close()


def test_changes_of_several_processes_are_not_lost(workspace: Path) -> None:
    table = JobFile(workspace)
    table.add(job())
    table.close()
    spawn = multiprocessing.get_context("spawn")
    processes = [spawn.Process(target=_count_up, args=(workspace, 25)) for _ in range(3)]
    for each in processes:
        each.start()
    for each in processes:
        each.join(60)
    assert JobFile(workspace).read().records[0].history.runs == 75


def table_of_before(workspace: Path, names: tuple[str, ...], version: int, *records: JobRecord) -> None:
    """Write a table as an earlier version did, and a row of somebody else's into it."""
    index = workspace / ".lmagent" / "index.db"
    index.parent.mkdir()
    columns = ", ".join(f"{name} TEXT" for name in names[1:])
    with sqlite3.connect(index) as database:
        database.execute(f"CREATE TABLE jobs (id TEXT PRIMARY KEY, {columns}, signature TEXT)")
        database.execute("CREATE UNIQUE INDEX jobs_source ON jobs (source) WHERE source <> ''")
        database.execute(f"PRAGMA user_version={version}")
        for record in records:
            values = [value for name, value in zip(NAMES, to_row(record), strict=True) if name in names]
            row = (*values, Signer(workspace).sign(values))
            database.execute(f"INSERT INTO jobs VALUES ({', '.join('?' * len(row))})", row)
        database.execute("INSERT INTO jobs (id, text, source, signature) VALUES ('theirs', 'rm -rf ~', '', 'x')")
    database.close()


@pytest.mark.parametrize(("version", "lacks"), [(1, {"begun_seq", "tries", "again"}), (2, {"tries", "again"})])
def test_the_jobs_of_an_earlier_version_are_kept(workspace: Path, version: int, lacks: set[str]) -> None:
    lease = Lease("t", "m", 1, 2.0, NOW, 3.0)
    kept = (
        job(0, schedule="daily 09:00", policy=JobPolicy(allow=("Shell(ls)",))),
        job(1, lease=lease, history=JobHistory(begun_session="s"), kind=JobKind.WAKE),
    )
    table_of_before(workspace, tuple(name for name in NAMES if name not in lacks), version, *kept)
    table = JobFile(workspace)
    found = table.read()
    assert (found.records, found.foreign, found.set_aside) == (kept, 0, "")
    assert table.add(job(2))
    table.close()
    with sqlite3.connect(workspace / ".lmagent" / "index.db") as database:
        assert database.execute("PRAGMA user_version").fetchone() == (3,)
    database.close()
    assert not [*workspace.glob(".lmagent/*.aside")]


def test_a_file_that_is_set_aside_is_told_of(workspace: Path, caplog: pytest.LogCaptureFixture) -> None:
    index = workspace / ".lmagent" / "index.db"
    index.parent.mkdir()
    index.write_bytes(b"not a database at all" * 300)
    table = JobFile(workspace)
    found = table.read()
    (aside,) = (str(path) for path in index.parent.glob("index.db.*.aside"))
    assert found.set_aside == aside
    assert aside in caplog.text
    table.close()


def test_the_only_scheduler_is_the_first_also_while_others_look_whether_one_is_there(workspace: Path) -> None:
    is_over = threading.Event()

    def look() -> None:
        while not is_over.is_set():
            Presence(workspace).is_anyone()

    JobFile(workspace).add(job())
    with ThreadPoolExecutor(2) as threads:
        looking = [threads.submit(look) for _ in range(2)]
        try:
            for _ in range(1500):
                sign = Presence(workspace)
                assert sign.enter()
                sign.leave()
        finally:
            is_over.set()
        assert [each.result() for each in looking] == [None, None]


def test_who_enters_waits_for_who_is_between_two_locks_but_not_for_ever(workspace: Path) -> None:
    JobFile(workspace).add(job())
    folder = os.open(workspace / ".lmagent", os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)  # as one that was stopped there
    began = time.monotonic()
    sign = Presence(workspace)
    assert sign.enter()
    assert 1.0 < time.monotonic() - began < 10.0
    os.close(folder)
    sign.leave()
