from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.features.batch.task_file import MOST_BYTES, MOST_TASKS, BatchTask, decoded, read_tasks, tasks_for_files


def test_a_line_is_an_object_a_text_or_a_json_text() -> None:
    lines = ['{"id": "a-1", "task": "Fix a.py", "files": ["a.py"], "checks": "pytest -q"}', "Fix b.py", '"Fix c.py"', ""]
    tasks, problems = read_tasks("\n".join(lines))
    assert tasks == [
        BatchTask("a-1", "Fix a.py", ("a.py",), ("pytest -q",)), BatchTask("2", "Fix b.py"),
        BatchTask("3", "Fix c.py"),
    ]  # fmt: skip
    assert problems == []


@pytest.mark.parametrize(("line", "words"), [
    ("{broken", "line 2: not valid JSON"), ("[1, 2]", "line 2: A line is text"),
    ('{"task": 3}', "line 2: no task text"), ('{"task": " "}', "line 2: no task text"),
    ('{"task": "x", "id": "../x"}', "line 2: the id '../x' may only contain"),
    ('{"task": "x", "checks": [1]}', "line 2: checks must be a list of strings"),
    ("[" * 100_000, "line 2: not valid JSON"),
])  # fmt: skip
def test_a_broken_line_is_named_and_the_others_are_taken(line: str, words: str) -> None:
    tasks, problems = read_tasks(f"one\n{line}\nthree")
    assert ([task.text for task in tasks], len(problems)) == (["one", "three"], 1)
    assert problems[0].startswith(words)


def test_a_line_with_the_id_of_another_is_reported() -> None:
    tasks, problems = read_tasks('{"id": "x", "task": "a"}\n{"id": "x", "task": "b"}\nc')
    assert ([task.text for task in tasks], problems) == (["a", "c"], ["line 2: another task has the id x"])


def test_a_number_that_a_task_has_as_its_id_is_not_given_to_another() -> None:
    tasks, problems = read_tasks('{"id": 2, "task": "a"}\nb\n{"id": null, "task": "c"}\n{"id": "5", "task": "d"}\ne\n')
    assert ([task.id for task in tasks], problems) == (["2", "6", "3", "5", "7"], [])


def test_each_file_of_a_pattern_is_a_task() -> None:
    tasks = tasks_for_files("Add types to {file}", ["a.py", "b {x}.py"])
    assert [(task.text, task.files) for task in tasks] == [
        ("Add types to a.py", ("a.py",)), ("Add types to b {x}.py", ("b {x}.py",)),
    ]  # fmt: skip
    with pytest.raises(UsageError, match=r"does not contain .file."):
        tasks_for_files("Add types", ["a.py"])
    with pytest.raises(UsageError, match="no file matches"):
        tasks_for_files("Add types to {file}", [])


@given(
    st.lists(st.one_of(st.text(max_size=40), st.builds(json.dumps, st.dictionaries(st.text(max_size=5), st.text(max_size=5)))))
)
def test_any_text_is_read_and_every_line_is_a_task_or_a_problem(lines: list[str]) -> None:
    text = "\n".join(lines)
    try:
        tasks, problems = read_tasks(text)
    except UsageError:
        return
    assert len(tasks) + len(problems) == sum(
        bool(line.strip()) for line in text.replace("\r\n", "\n").replace("\r", "\n").split("\n")
    )


def test_a_line_ends_at_a_newline_and_nowhere_else() -> None:
    tasks, problems = read_tasks('{"task": "one\u2028two"}\r\nthree\x0bfour')
    assert ([task.text for task in tasks], problems) == (["one\u2028two", "three\x0bfour"], [])


@pytest.mark.parametrize(("data", "words"), [
    (b"\xff\xfe\x00", "x is not UTF-8 text"), (b"a\0b", "x is not a text file"),
    (b"a" * (MOST_BYTES + 1), "x is larger than 64 MiB"),
], ids=["not UTF-8", "with a zero byte", "too large"])  # fmt: skip
def test_a_file_that_is_no_text_or_too_large_is_refused(data: bytes, words: str) -> None:
    with pytest.raises(UsageError, match=words):
        decoded(data, "x")


def test_ten_thousand_tasks_are_the_most() -> None:
    lines = "\n".join(f"do {number}" for number in range(MOST_TASKS))
    assert len(read_tasks(lines)[0]) == MOST_TASKS
    with pytest.raises(UsageError, match="more than 10,000 tasks"):
        read_tasks(f"{lines}\none more\nand more")


def test_a_misspelled_key_is_reported_and_others_are_ignored() -> None:
    tasks, problems = read_tasks('{"task": "a", "chekcs": ["pytest"]}\n{"task": "b", "repo": "c"}')
    assert ([task.text for task in tasks], problems) == (["b"], ["line 1: unknown key 'chekcs'; did you mean 'checks'?"])
