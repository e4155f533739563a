from __future__ import annotations

import pytest

from lmtui.core.events import Envelope, Event, PlanChanged, Rewound
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.plan import Plan, PlanStep, TaskState, Todo, TodoStatus
from lmtui.engine.completion import MAX_CHARS, TOPIC, note_text
from tests.engine.seen import call, ran, seen
from tests.fakes import FakeProvider, Rig, answer


def notes(rig: Rig) -> list[str]:
    return [event.text for event in seen(rig, Reminder) if event.topic == TOPIC]


TODO = answer("", ("todo_add", call(description="write it")))
OPEN = Plan(todos=(Todo(1, "by hand"),), task=TaskState("move", total_count=9, processed_count=4, remaining_queue=("e.md",)))


async def test_the_models_own_calls_are_not_told_again() -> None:
    rig = await ran(Rig(FakeProvider(TODO, answer("", ("todo_complete", call(id=1))), answer("done"))))
    await rig.run("another")
    assert notes(rig) == []


async def test_what_another_hand_changed_is_told_once_at_the_end_of_the_conversation() -> None:
    rig = await ran(Rig(FakeProvider(answer("hi"), answer("", ("ls", "{}")), answer("and?"))), "hello")
    rig.session.emit(PlanChanged(plan=OPEN))
    await rig.run("now what?")
    assert len(notes(rig)) == 1
    assert "by hand" in notes(rig)[0]
    assert "4 of 9 processed" in notes(rig)[0]
    first, second, _ = rig.provider.requests
    assert (second.messages[: len(first.messages)], second.messages[-1].role) == (first.messages, Role.USER)
    assert second.messages[-1].text == notes(rig)[0]


@pytest.mark.parametrize("event", [Compacted(why="full", tokens_before=9, tokens_after=1), Rewound(turn_id="turn_9")])
async def test_after_a_compaction_and_a_rewind_it_is_told_and_to_look_at_the_disk(event: Event) -> None:
    rig = Rig(FakeProvider(answer("", ("task_state_update", call(remaining_queue=["a", "b"]))), answer("Which first?")))
    await rig.run()
    assert notes(rig) == []
    rig.session.emit(event)
    rig.provider.answers[:] = [answer("Which?")]
    await rig.run("the first")
    assert len(notes(rig)) == 1
    assert "do not repeat" in notes(rig)[0]


async def test_a_resumed_session_is_told_what_a_crash_cut_short() -> None:
    rig = Rig(FakeProvider(answer("", ("task_state_update", call(remaining_queue=["a", "b"]))), answer("Which first?")))
    await rig.run()
    until = next(place for place, each in enumerate(rig.log.events) if each.event.kind == "plan_changed")
    past: list[Envelope] = rig.log.events[: until + 2]
    resumed = await ran(Rig(FakeProvider(answer("Which?")), past=past), "go on")
    assert "next in the queue: a, b" in notes(resumed)[0]
    assert "look at the disk" in notes(resumed)[0]


async def test_where_nothing_is_open_nothing_is_said() -> None:
    rig = Rig(FakeProvider(answer("hi"), answer("hi")))
    rig.session.emit(PlanChanged(plan=Plan(todos=(Todo(1, "x", TodoStatus.COMPLETED),))))
    rig.session.emit(Compacted(why="full", tokens_before=9, tokens_after=1))
    await rig.run()
    assert notes(rig) == []


def test_a_note_is_bounded_and_tells_of_all_parts() -> None:
    many = Plan(
        todos=tuple(Todo(each, f"todo number {each} " + "x" * 300) for each in range(1, 150)),
        steps=(PlanStep(1, "look", TodoStatus.IN_PROGRESS, verification="pytest -q"), PlanStep(2, "change")),
        task=TaskState("move", total_count=10_000, remaining_queue=tuple(f"f{each}" for each in range(300)), queue_rest=9_700),
    )
    text = note_text(many, is_shaken=True)
    assert len(text) < MAX_CHARS + 400
    assert "step 1: look Check: pytest -q" in text
    assert "todos: 0 of 149 done" in text
