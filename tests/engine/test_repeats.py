from __future__ import annotations

import pytest

from lmtui.core.ports import ToolResult
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.engine.repeats import Repeats

A, B = ToolResult("one\ntwo"), ToolResult("other")


def see(repeats: Repeats, result: ToolResult, tool: str = "read", path: str = "a") -> str:
    return repeats.see(tool, {"path": path}, result)


def test_the_first_time_a_result_is_as_it_is() -> None:
    repeats = Repeats()
    assert see(repeats, A) == "one\ntwo"
    assert (repeats.count, repeats.has_failed, repeats.needs_answer) == (1, False, False)


def test_the_same_again_says_so_and_a_short_result_comes_along() -> None:
    repeats = Repeats()
    _ = see(repeats, A)
    again = see(repeats, A)
    assert again.startswith("Same result as before")
    assert again.endswith("one\ntwo")
    assert repeats.count == 2


def test_a_long_result_is_not_sent_twice() -> None:
    repeats = Repeats()
    long = ToolResult("line\n" * 1_000)
    _ = see(repeats, long)
    assert len(see(repeats, long)) < 200


def test_three_times_the_same_asks_for_an_answer() -> None:
    repeats = Repeats()
    found = []
    for _ in range(3):
        _ = see(repeats, A)
        found.append(repeats.needs_answer)
    assert found == [False, False, True]


def test_a_cycle_of_two_calls_is_seen_too() -> None:
    repeats = Repeats()
    for _ in range(3):
        _ = see(repeats, A)
        _ = see(repeats, B, path="b")
    assert repeats.needs_answer


@pytest.mark.parametrize(("tool", "path", "result"), [("ls", "a", A), ("read", "b", A), ("read", "a", B)])
def test_another_tool_argument_or_result_is_news(tool: str, path: str, result: ToolResult) -> None:
    repeats = Repeats()
    _ = see(repeats, A)
    assert see(repeats, result, tool, path) == result.text


def test_the_order_of_arguments_does_not_matter() -> None:
    repeats = Repeats()
    _ = repeats.see("read", {"path": "a", "limit": 3}, A)
    _ = repeats.see("read", {"limit": 3, "path": "a"}, A)
    assert repeats.count == 2


def test_a_failure_again_says_to_do_it_otherwise() -> None:
    repeats = Repeats()
    failure = ToolResult("a: no such file", ok=False)
    _ = see(repeats, failure)
    assert repeats.has_failed
    assert see(repeats, failure).startswith("a: no such file\n(This call failed in the same way before.")


def test_after_a_change_of_files_everything_is_news() -> None:
    repeats = Repeats()
    _ = see(repeats, A)
    _ = see(repeats, ToolResult("written", changes=(FileChange("a", FileChangeKind.MODIFIED, 1, 1, ""),)), "write")
    assert see(repeats, A) == A.text


def test_what_was_left_out_of_the_conversation_may_be_asked_for_again() -> None:
    repeats = Repeats()
    _ = see(repeats, A)
    repeats.look(1)
    assert see(repeats, A) == A.text
    repeats.look(1)
    assert see(repeats, A) != A.text


def test_a_new_turn_begins_with_nothing() -> None:
    repeats = Repeats()
    _ = see(repeats, ToolResult("no", ok=False))
    repeats.begin()
    assert (repeats.count, repeats.has_failed) == (0, False)
