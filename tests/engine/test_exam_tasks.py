from __future__ import annotations

import pytest

from lmtui.engine.exam_tasks import EDIT, LIST, READ, WRITE, CheckedCall, ExamTask, edits_exactly, result_of

LS = CheckedCall("ls")
CAT = CheckedCall("shell", {"command": "cat port.txt"})
PORT = CheckedCall("read", {"path": "./port.txt"})
MEND = CheckedCall("edit", {"path": "total.py", "search": "a - b", "replace": "a + b"})
MISQUOTE = CheckedCall("edit", {"path": "total.py", "search": "b - a", "replace": "a + b"})
WHOLE = CheckedCall("write", {"path": "total.py", "content": "def total(a, b):\n    return a+b\n"})


@pytest.mark.parametrize(
    ("task", "calls", "answer", "is_right"),
    [
        (LIST, [LS], "", True),
        (LIST, [CheckedCall("shell", {"command": "ls -la"})], "", True),
        (LIST, [CheckedCall("shell", {"command": "false"})], "", False),
        (LIST, [], "port.txt and total.py", False),
        (READ, [PORT], "", False),
        (READ, [PORT], "It is 8123.", True),
        (READ, [CAT], "8123", True),
        (READ, [LS], "8123", False),
        (READ, [CheckedCall("grep", {"pattern": "8"})], "8123", True),
        (WRITE, [CheckedCall("write", {"path": "hello.txt", "content": "hello"})], "", True),
        (WRITE, [CheckedCall("write", {"path": "other.txt", "content": "hello"})], "", False),
        (WRITE, [CheckedCall("shell", {"command": "echo hello > hello.txt"})], "", True),
        (EDIT, [MEND], "", True),
        (EDIT, [WHOLE], "", True),
        (EDIT, [MISQUOTE], "", False),
        (EDIT, [], "return a + b", False),
    ],
)
def test_a_task_is_right_by_what_was_done(task: ExamTask, calls: list[CheckedCall], answer: str, *, is_right: bool) -> None:
    assert task.is_right(calls, answer) is is_right


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (LS, "port.txt\ntotal.py"),
        (PORT, "    1  8123"),
        (CAT, "8123"),
        (CheckedCall("read", {"path": "gone"}), "Error: no file 'gone'"),
        (CheckedCall("grep", {"pattern": "return"}), "total.py:1:     return a - b"),
        (CheckedCall("grep", {"pattern": "zzz"}), "no match"),
        (MEND, "ok"),
        (MISQUOTE, "Error: the text is not in the file"),
        (CheckedCall("shell", {"command": "pytest"}), "(no output)"),
        (CheckedCall("git_status"), "ok"),
    ],
)
def test_calls_give_what_the_folder_of_paper_holds(call: CheckedCall, text: str) -> None:
    assert result_of(call) == text


def test_an_edit_quotes_only_what_stands_there_once() -> None:
    assert edits_exactly(MEND)
    assert not edits_exactly(MISQUOTE)
    assert not edits_exactly(CheckedCall("edit", {"path": "total.py", "search": "a", "replace": "b"}))
    assert not edits_exactly(CheckedCall("edit", {"path": "total.py", "search": "", "replace": "b"}))
