from __future__ import annotations

import io
from pathlib import Path

import pytest

from lmtui.core.errors import UsageError
from lmtui.core.servers import PoolRow
from lmtui.features.batch.batch_folder import BatchFolder, new_batch
from lmtui.features.batch.progress import BatchProgress, ProgressReport
from lmtui.features.batch.service import parse_options, parse_words
from lmtui.features.batch.subcommands import check_action
from lmtui.features.batch.task_file import BatchTask
from lmtui.features.batch.values import MOST_OVERLAPS, BatchState, TaskResult, overlaps_of
from tests.sets import for_each


@for_each(("words", "found"), [
    ("tasks.jsonl", (["tasks.jsonl"], "")),
    ('--glob "src/*.py" Fix {file}', (["Fix {file}"], "src/*.py")),
    ("--glob=*.py 'Fix {file}, please'", (["Fix {file}, please"], "*.py")),
])  # fmt: skip
def test_the_words_of_the_command_are_a_file_or_a_pattern_and_a_task(words: str, found: tuple[list[str], str]) -> None:
    assert parse_words(words) == found
    with pytest.raises(UsageError, match="give a pattern and a task"):
        parse_words("--glob *.py")


def test_overlaps_stay_few_and_green_tasks_are_merged_before_unverified_ones_and_never_together() -> None:
    def batch(*rows: TaskResult) -> BatchState:
        return BatchState("", rows, overlaps=overlaps_of(rows))

    state = batch(*(TaskResult(str(number), "green", "", ("a.py",), diff="x") for number in range(2_000)))
    assert ([len(found) for found in state.overlaps.values()], state.mergeable) == ([MOST_OVERLAPS] * 2_000, [])
    one, two = (TaskResult(name, name, "", (name,), diff="x") for name in ("green", "unverified"))
    assert (batch(one, two).mergeable, batch(two).mergeable) == ([one], [two])
    kept = TaskResult("1", "green", "", ("a.py",), diff="x", decision="accepted")
    red, unverified = (TaskResult(name, name, "", (name,), diff="x") for name in ("red", "unverified"))
    assert batch(kept, unverified).mergeable == batch(red, unverified).mergeable == []


def test_what_ended_earlier_is_counted_and_the_time_left_is_by_this_run() -> None:
    tasks = [BatchTask(str(number), "do it") for number in range(4)]
    known = {"0": TaskResult("0", "green"), "1": TaskResult("1", "red"), "gone": TaskResult("gone", "green")}
    left = (progress := BatchProgress()).begin(tasks, known)
    assert ([task.id for task in left], progress.open, progress.failed, progress.left_s) == (["2", "3"], 2, 1, None)
    assert [task.id for task in BatchProgress().begin(tasks, known, retries_failed=True)] == ["1", "2", "3"]
    progress.began_s -= 10
    progress.add(TaskResult("2", "green", tokens=5))
    assert progress.left_s == pytest.approx(10, abs=1)
    assert (progress.open, progress.tokens, progress.statuses) == (1, 5, {"green": 2, "red": 1})


def test_the_progress_is_told_with_a_task_and_at_most_every_ten_seconds(tmp_path: Path) -> None:
    stream, progress = io.StringIO(), BatchProgress(3)
    report = ProgressReport(BatchFolder(tmp_path), lambda: (), stream)
    for name in ("1", "2"):
        progress.add(TaskResult(name, "green", "Do it"))
        report.ended(TaskResult(name, "green", "Do it"), progress)
    lines = stream.getvalue().splitlines()
    assert [line.split()[:2] for line in lines] == [["✓", "1"], ["1", "of"], ["✓", "2"]]


def test_what_an_action_does_not_take_is_refused() -> None:
    for words, retries_failed, has_all, told in (
        (["tasks.jsonl"], True, False, "--retry-failed is a flag of resume"),
        (["resume"], False, True, "--all is a flag of apply"),
        (["status", "one", "two"], False, False, "status takes one batch"),
    ):
        with pytest.raises(UsageError, match=told):
            check_action(words, retries_failed=retries_failed, has_all=has_all)
    with pytest.raises(UsageError, match="must be positive"):
        parse_options({"tries": 0})


def test_the_line_of_a_server_is_short_and_two_batches_of_one_second_get_folders_of_their_own(tmp_path: Path) -> None:
    rows = (
        PoolRow("http://gpu1:8080/v1", slots=2, busy=1, answered=5, tokens_per_s=20.4),
        PoolRow("http://gpu2:8080/v1", is_up=False, slots=1, problem="connection refused"),
    )
    assert ProgressReport(BatchFolder(tmp_path), lambda: rows).server_lines() == [
        "● gpu1:8080  1/2 busy · 20 tok/s", "○ gpu2:8080  down: connection refused",
    ]  # fmt: skip
    assert len({new_batch(tmp_path, (), {}).path for _ in range(5)}) == 5
