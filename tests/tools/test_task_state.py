from __future__ import annotations

from dataclasses import replace

import pytest

from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.plan import TaskState
from tests.tools.test_files import REGISTRY, Bench


def bench_of(*names: str) -> Bench:
    bench = Bench()
    bench.sandbox.files = dict.fromkeys(names, b"x")
    return bench


def task_of(bench: Bench) -> TaskState:
    assert bench.plan.task is not None
    return bench.plan.task


async def test_what_is_not_told_is_taken_all_the_same_and_only_looking_at_files_needs_the_right_to_read() -> None:
    bench = Bench()
    await bench.call(
        "task_state_update", total_count=5, processed_count=3, completion_gate="all moved", rename_map='{"a": "b"}',
        last_error="disk full", recovery_instruction="free some", next_action="move c",
    )  # fmt: skip
    assert task_of(bench) == TaskState(
        "", "all moved", 5, 3, rename_map=(("a", "b"),), last_error="disk full", recovery_instruction="free some",
        next_action="move c",
    )  # fmt: skip
    told = (await bench.call("task_state_get")).text
    assert "done when: all moved" in told
    assert "count: 3 of 5 processed, 2 left" in told
    looks = REGISTRY.prepare("task_state_update", '{"pattern": "secrets/*"}')
    assert (looks.access, looks.subjects) == (Access.READ, ("secrets/*",))
    assert REGISTRY.prepare("task_state_update", '{"done": ["a"]}').access is Access.NONE
    assert REGISTRY.prepare("task_reconcile", '{"pattern": ""}').access is Access.READ


async def test_names_come_as_lists_or_as_text_and_nothing_given_says_what_to_do() -> None:
    bench = Bench()
    await bench.call("task_state_update", queue="a.md, b.md\nc.md", total="3")
    assert task_of(bench).remaining_queue == ("a.md", "b.md", "c.md")
    await bench.call("task_state_update", remaining_queue='["c.md"]')
    assert (task_of(bench).processed_count, task_of(bench).processed) == (2, ("a.md", "b.md"))
    for name in ("task_state_update", "task_state_get", "task_reconcile"):
        with pytest.raises(ToolError, match="no task state yet"):
            await Bench().call(name)


async def test_renames_that_hold_are_counted_and_those_that_do_not_come_back() -> None:
    bench = bench_of("a.txt", "b.md", "c.md")
    await bench.call("task_state_update", remaining_queue=["a.md", "b.md", "c.md", "d.md"])
    await bench.call("task_state_update", done=["b.md"], rename_map={"a.md": "a.txt", "b.md": "b.txt", "d.md": "d.txt"})
    told = (await bench.call("task_reconcile")).text
    assert "renamed already, so done: a.md" in told
    assert "not renamed after all, back in the queue: b.md" in told
    assert "neither old nor new is on the disk: d.md → d.txt" in told
    state = task_of(bench)
    assert (state.remaining_queue, state.processed, state.processed_count) == (("b.md", "c.md", "d.md"), ("a.md",), 1)
    assert state.rename_map == (("a.md", "a.txt"), ("d.md", "d.txt"))


async def test_a_look_at_the_disk_tells_what_is_missing_and_new_and_leaves_other_things_alone() -> None:
    bench = bench_of("a.md", "b.md", "c.md")
    await bench.call("task_state_update", pattern="*.md")
    await bench.call("task_state_update", done=["a.md"])
    del bench.sandbox.files["b.md"]
    bench.sandbox.files["new.md"] = b"x"
    told = (await bench.call("task_reconcile")).text
    assert "in the queue but not on the disk: b.md" in told
    assert "neither queued nor processed (`added` queues them): new.md" in told
    assert "changed: 3 before, 3 now" in told
    await bench.call("task_state_update", added=["new.md"])
    assert (task_of(bench).total_count, task_of(bench).remaining_queue) == (4, ("b.md", "c.md", "new.md"))
    bench.sandbox.files["b.md"] = b"x"
    assert "changed" in (await bench.call("task_reconcile")).text
    assert "the disk agrees with the state" in (await bench.call("task_reconcile")).text
    bench = bench_of("a.md")
    await bench.call("task_state_update", remaining_queue=["ticket 12", "ticket 13"])
    assert "the disk agrees" in (await bench.call("task_reconcile")).text


@pytest.mark.full
async def test_ten_thousand_files_are_worked_off_though_only_some_have_a_name_at_a_time() -> None:
    names = [f"src/package/module_{number:05}.py" for number in range(10_000)]
    bench = bench_of(*names)
    await bench.call("task_state_update", pattern="src/**")
    done: list[str] = []
    while not task_of(bench).is_finished:
        queue = task_of(bench).remaining_queue
        done += queue
        told = await bench.call("task_state_update", done=list(queue))
        if "call task_state_update without arguments" in told.text:
            await bench.call("task_state_update")
    assert (done, replace(task_of(bench), processed=()).processed_count) == (names, 10_000)
