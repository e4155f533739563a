from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, TaskState
from lmtui.core.task_state import TaskChange, change_task, mark_done, task_lines
from lmtui.store.session_logs import decode, encode
from tests.sets import for_each
from tests.tui.lines.stage import envelopes

FIVE = change_task(None, TaskChange("move them", remaining_queue=("a", "b", "c", "d", "e")))


def test_nothing_is_counted_twice_and_a_new_objective_begins_anew_only_after_the_end() -> None:
    state = mark_done(FIVE, ["a"])
    with pytest.raises(ToolError, match="processed already: a; nothing was counted twice"):
        mark_done(state, ["b", "a"])
    with pytest.raises(ToolError, match="not in the queue: x; nothing was counted") as found:
        mark_done(state, ["b", "x"])
    assert "Next in the queue: b, c, d, e" in found.value.hint
    state = change_task(None, TaskChange(total_count=5, processed_count=3))
    assert not state.is_finished
    assert state.remaining_count == 2
    assert change_task(state, TaskChange(processed_count=5)).is_finished
    over = mark_done(FIVE, list("abcde"))
    assert change_task(over, TaskChange("another", remaining_queue=("a",))).total_count == 1
    assert change_task(FIVE, TaskChange("in other words")).total_count == 5


@for_each(("change", "said"), [
    (TaskChange(processed_count=6), "processed_count 6 is more than total_count 5"),
    (TaskChange(processed_count=2), "do not fit 5 names in the queue"), (TaskChange(total_count=4), "do not fit 5 names"),
    (TaskChange(total_count=-1), "begin at 0"), (TaskChange(total_count=10**5000), "end at 1,000,000,000,000"),
    (TaskChange(total_count=0, processed_count=10**5000, remaining_queue=()), "end at 1,000,000,000,000"),
    (TaskChange(added=("x" * 500,)), "at most 400 characters"),
])  # fmt: skip
def test_numbers_that_do_not_fit_are_refused(change: TaskChange, said: str) -> None:
    with pytest.raises(ToolError, match=said):
        change_task(FIVE, change)


def test_it_survives_the_log_and_is_told_in_few_lines() -> None:
    state = change_task(mark_done(FIVE, ["a"]), TaskChange(rename_map={"a": "b"}, last_error="no space", next_action="go on"))
    (envelope,) = envelopes([PlanChanged(plan=Plan(task=state))])
    assert decode(encode(envelope)) == envelope
    state = change_task(mark_done(FIVE, ["a"]), TaskChange(last_error="no space"))
    assert task_lines(state) == [
        "objective: move them", "count: 1 of 5 processed, 4 left", "next in the queue: b, c, d, e", "last error: no space",
    ]  # fmt: skip


NAMES = st.lists(st.sampled_from([f"f{number}" for number in range(9)]), max_size=5).map(tuple)


@given(st.lists(st.builds(TaskChange, done=NAMES, added=NAMES, remaining_queue=st.none() | NAMES), max_size=15))
def test_whatever_is_asked_the_counts_add_up(changes: list[TaskChange]) -> None:
    state = TaskState()
    for change in changes:
        with contextlib.suppress(ToolError):
            state = change_task(state, change)
        assert 0 <= state.processed_count <= state.total_count
        assert state.processed_count + len(state.remaining_queue) <= state.total_count
        assert len(set(state.remaining_queue)) == len(state.remaining_queue)
