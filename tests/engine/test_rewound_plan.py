from __future__ import annotations

import json

from lmtui.core.events import PlanChanged, Rewound, TurnReason
from lmtui.core.messages import StreamChunk
from tests.engine.seen import ending, ran, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, MemoryLog, Rig, answer


def todo(text: str) -> list[StreamChunk]:
    return answer("", ("todo_add", json.dumps({"description": text})))


def complete(number: int) -> list[StreamChunk]:
    return answer("", ("todo_complete", json.dumps({"id": number})))


def texts(rig: Rig) -> list[str]:
    changes = seen(rig, PlanChanged)
    return [f"{each.text} {each.status}" for each in changes[-1].plan.todos]


def rig_of(*answers: list[StreamChunk], log: MemoryLog | None = None) -> Rig:
    sandbox = FakeSandbox()
    return Rig(FakeProvider(*answers), sandbox, log=log, checkpoints=FakeCheckpoints(sandbox))


async def rewind(rig: Rig, turn_id: str) -> None:
    changes = rig.session.changes
    assert changes is not None
    await changes.apply(await changes.plan_rewind(turn_id))


WORK = (
    *(todo("write it"), todo("test it"), answer("BLOCKED: not yet")),
    *(complete(1), todo("ship it"), answer("BLOCKED: not yet")),
    *(complete(2), answer("BLOCKED: not yet")),
)


async def test_todos_are_as_they_were_when_the_turn_began() -> None:
    rig = rig_of(*WORK, answer("BLOCKED: later"))
    for number in range(3):
        await rig.run(f"task {number}")
    assert texts(rig) == ["write it completed", "test it completed", "ship it pending"]
    await rewind(rig, "turn_2")
    assert texts(rig) == ["write it pending", "test it pending"]
    await rig.run("and now?")
    told = rig.provider.requests[-1].messages[-1].text
    assert "The state of your work" in told
    assert "2 test it" in told
    assert "ship it" not in told
    await rewind(rig, "turn_1")
    assert texts(rig) == []


async def test_a_resumed_session_holds_the_same_todos_and_rewinds_further() -> None:
    log = MemoryLog()
    rig = rig_of(*WORK, log=log)
    for number in range(3):
        await rig.run(f"task {number}")
    await rewind(rig, "turn_3")
    again = rig_of(todo("look again"), answer("BLOCKED: later"))
    again = await ran(Rig(again.provider, again.sandbox, past=log.events, checkpoints=FakeCheckpoints(again.sandbox)), "go on")
    assert texts(again) == ["write it completed", "test it pending", "ship it pending", "look again pending"]
    await rewind(again, "turn_2")
    assert texts(again) == ["write it pending", "test it pending"]


async def test_a_rewind_that_changes_no_todo_says_nothing_of_them() -> None:
    rig = await ran(rig_of(answer("hello")), "hi")
    await rewind(rig, "turn_1")
    assert not rig.of("plan_changed")
    assert isinstance(rig.events[-1], Rewound)


async def test_what_went_back_holds_up_no_later_turn() -> None:
    rig = await ran(rig_of(*WORK[:3], complete(1), answer("BLOCKED: not yet"), answer("it is four")), "task 0")
    await rig.run("task 1")
    await rewind(rig, "turn_2")
    await rig.run("what is two and two?")
    ended = ending(rig)
    assert (ended.reason, ended.text, ended.iterations) == (TurnReason.DONE, "it is four", 1)
