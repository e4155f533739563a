from __future__ import annotations

import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import UsageError
from lmtui.features.batch.batch_folder import BatchFolder, TaskResult, find_batch
from lmtui.features.batch.task_file import BatchTask

TASKS = [BatchTask("1", "Fix a.py", ("a.py",), ("pytest -q",)), BatchTask("2", "Fix\nb.py")]


@pytest.fixture
def folder(tmp_path: Path) -> BatchFolder:
    found = BatchFolder(tmp_path / "out")
    found.begin(TASKS, {"tries": 2})
    return found


def test_tasks_and_options_are_read_as_they_were_written(folder: BatchFolder) -> None:
    assert folder.read() == (TASKS, {"tries": 2})


def test_a_result_is_one_line_with_its_patch_and_the_last_one_counts(folder: BatchFolder, tmp_path: Path) -> None:
    patch = tmp_path / "x.patch"
    patch.write_text("diff --git a/a.py b/a.py\n")
    result = TaskResult("1", "red", "Fix a.py", ("a.py",), 1, 0, checks={"tests": "failed"})
    assert folder.add(result) == result
    kept = folder.add(replace(result, status="green", tries=2), patch.read_bytes())
    assert kept.diff == "diffs/1.patch"
    assert (folder.path / kept.diff).read_text() == patch.read_text()
    found = folder.results()
    assert (found["1"].status, found["1"].tries, found["1"].diff) == ("green", 2, "diffs/1.patch")
    assert len((folder.path / "results.jsonl").read_text().splitlines()) == 2


def test_an_incomplete_line_and_one_of_a_later_version_are_skipped_or_read(folder: BatchFolder) -> None:
    folder.add(TaskResult("1", "green"))
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "2", "status": "green", "new_field": 1}) + '\n[]\n{"id": "1", "sta')
    assert {name: each.status for name, each in folder.results().items()} == {"1": "green", "2": "green"}


def test_a_folder_without_a_batch_says_how_to_start_one(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="does not contain a batch"):
        BatchFolder(tmp_path).read()


def test_only_one_process_works_on_a_batch(folder: BatchFolder) -> None:
    folder.lock()
    with pytest.raises(UsageError, match="another lmtui process is working on"):
        BatchFolder(folder.path).lock()
    folder.unlock()
    other = BatchFolder(folder.path)
    other.lock()
    other.unlock()


def test_a_line_that_was_torn_does_not_swallow_the_next_one(folder: BatchFolder) -> None:
    with (folder.path / "results.jsonl").open("a") as file:
        file.write('{"id": "1", "sta')
    folder.add(TaskResult("2", "green"))
    assert {name: each.status for name, each in BatchFolder(folder.path).results().items()} == {"2": "green"}


def test_results_are_read_on_from_where_they_were_read(folder: BatchFolder) -> None:
    folder.add(TaskResult("1", "red"))
    before = folder.results()["1"]
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "2", "status": "green"}))
    assert set(folder.results()) == {"1"}
    folder.add(TaskResult("1", "green"))
    assert {name: each.status for name, each in folder.results().items()} == {"1": "green", "2": "green"}
    assert folder.results()["1"] is not before
    assert folder.results()["1"] is folder.results()["1"]


def test_a_task_may_have_any_separator_of_lines_in_it(tmp_path: Path) -> None:
    tasks = [BatchTask("1", "one\u2028two\x85three\nfour")]
    folder = BatchFolder(tmp_path / "other")
    folder.begin(tasks, {})
    assert folder.read()[0] == tasks


def test_what_runs_is_told_while_somebody_works_on_it(folder: BatchFolder) -> None:
    folder.write_progress("1 of 2 done", {"2": 5.0})
    assert folder.read_progress() == ("", {})
    folder.lock()
    assert folder.read_progress() == ("1 of 2 done", {"2": 5.0})
    (folder.path / "progress.json").write_text("[")
    assert folder.read_progress() == ("", {})
    folder.unlock()


def test_a_folder_that_was_deleted_is_named(folder: BatchFolder) -> None:
    shutil.rmtree(folder.path)
    with pytest.raises(UsageError, match=r"cannot be written.*No such file"):
        folder.add(TaskResult("1", "green"), b"patch")
    folder.write_progress("1 of 2 done", {})
    with pytest.raises(UsageError, match="cannot be written"):
        folder.lock()


def test_tasks_that_end_at_the_same_time_are_all_written_down(folder: BatchFolder) -> None:
    names = [str(number) for number in range(200)]
    with ThreadPoolExecutor(16) as threads:
        list(threads.map(lambda name: BatchFolder(folder.path).add(TaskResult(name, "green", "t" * 200)), names))
    assert sorted(folder.results()) == sorted(names)


@pytest.mark.parametrize(
    "odd",
    [{"id": ["1"]}, {"status": "\x1b[2J"}, {"files": 5}, {"elapsed_s": "long"}, {"added": 1e400}, {"checks": "all"}],
)
def test_a_result_that_is_none_is_left_out(folder: BatchFolder, odd: dict[str, Any]) -> None:
    with (folder.path / "results.jsonl").open("a") as file:
        file.write(json.dumps({"id": "1", "status": "green"} | odd) + "\n" + "[" * 100_000 + "\n")
    assert {each.status for each in folder.results().values() if each.id == "1"} == set()


def test_texts_of_results_cannot_write_to_the_terminal(folder: BatchFolder) -> None:
    bad = "a\x1b]0;x\x07"
    folder.add(
        TaskResult("1", "red", bad, (bad,), diff=bad, session=bad, model=bad, checks={bad: bad}, error=bad, decision=bad)
    )
    assert r"\x1b" not in repr(asdict(folder.results()["1"]))


@pytest.mark.parametrize(
    "odd",
    ['{"id": "../../x", "text": "do it", "files": [], "checks": []}', '{"id": "1"}', "[" * 100_000],
    ids=["path", "no text", "deep"],
)
def test_tasks_that_lmtui_would_not_write_are_refused(folder: BatchFolder, odd: str) -> None:
    (folder.path / "tasks.jsonl").write_text(odd + "\n")
    with pytest.raises(UsageError, match="cannot be read"):
        folder.read()


def test_a_file_name_that_is_not_utf8_stays_the_same(tmp_path: Path) -> None:
    task = BatchTask("1", "Fix caf\udce9.py", ("caf\udce9.py",))
    folder = BatchFolder(tmp_path)
    folder.begin([task], {})
    assert folder.read()[0] == [task]


def test_a_batch_that_comes_with_the_folder_is_none(folder: BatchFolder, tmp_path: Path) -> None:
    for name in (str(folder.path), folder.path.name, "../out"):
        with pytest.raises(UsageError, match="has no batch"):
            find_batch(tmp_path, name)
