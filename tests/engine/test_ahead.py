from __future__ import annotations

import json

from lmtui.core.errors import SandboxError
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    Outcome,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
)
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Answer
from lmtui.core.workspace import SandboxStatus
from tests.engine.seen import reply, seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer


def shell(command: str) -> tuple[str, str]:
    return "shell", json.dumps({"command": command})


def write(path: str, text: str) -> tuple[str, str]:
    return "write", json.dumps({"path": path, "content": text})


def requests(rig: Rig) -> list[ApprovalRequested]:
    return seen(rig, ApprovalRequested)


async def rig_asking(count: int, *calls: tuple[str, str], sandbox: FakeSandbox | None = None) -> Rig:
    rig = Rig(FakeProvider(answer("", *calls), answer("done")), sandbox, mode=Mode.NORMAL)
    rig.session.submit("go")
    await rig.until(lambda _: len(requests(rig)) >= count)
    return rig


async def test_calls_of_one_message_are_all_asked_about_at_once() -> None:
    rig = await rig_asking(3, write("x", "1"), shell("make a"), shell("make b"))
    assert ([request.text for request in requests(rig)][1:], rig.sandbox.ran) == (["make a", "make b"], [])
    for request in reversed(requests(rig)):  # in whatever order they are answered
        rig.session.answer(request.approval_id, Answer(Outcome.ONCE))
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["make a", "make b"]
    finished = [event.call_id for event in seen(rig, ToolCallFinished)]
    assert finished == ["call_0", "call_1", "call_2"]


async def test_a_grant_answers_the_questions_that_it_covers() -> None:
    rig = await rig_asking(3, shell("make a"), shell("make a"), shell("make b"))
    rig.session.answer(requests(rig)[0].approval_id, Answer(Outcome.SESSION))
    await rig.until(lambda event: isinstance(event, ToolCallFinished) and event.call_id == "call_1")
    resolved = [(event.outcome, event.by) for event in seen(rig, ApprovalResolved)]
    assert resolved == [(Outcome.SESSION, "user"), (Outcome.ONCE, "rule")]
    rig.session.answer(requests(rig)[2].approval_id, Answer(Outcome.NO))
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["make a", "make a"]


async def test_a_change_that_depends_on_an_earlier_one_is_asked_about_when_its_turn_comes() -> None:
    sandbox = FakeSandbox(files={"x": b"one\n"})
    edit = ("edit", json.dumps({"path": "x", "old_text": "two", "new_text": "three"}))
    rig = await rig_asking(2, write("x", "two\n"), shell("make"), edit, sandbox=sandbox)
    assert len(requests(rig)) == 2
    for request in requests(rig):
        rig.session.answer(request.approval_id, Answer(Outcome.ONCE))
    await rig.until(lambda _: len(requests(rig)) == 3)
    rig.session.answer(requests(rig)[2].approval_id, Answer(Outcome.ONCE))
    await rig.session.wait_idle()
    assert sandbox.files == {"x": b"three\n"}


async def test_an_interrupt_ends_every_call_that_was_asked_about() -> None:
    rig = await rig_asking(3, shell("make a"), shell("make b"), shell("make c"))
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert rig.sandbox.ran == []

    def ids(kind: type[Event]) -> list[str]:
        return sorted(str(event.call_id) for event in seen(rig, kind) if hasattr(event, "call_id"))

    assert ids(ToolCallStarted) == ids(ToolCallFinished) == ["call_0", "call_1", "call_2"]
    assert [event.outcome for event in seen(rig, ApprovalResolved)] == [Outcome.NO] * 3


async def test_one_no_leaves_the_others_to_be_answered() -> None:
    rig = await rig_asking(2, shell("make a"), shell("make b"))
    first, second = requests(rig)
    rig.session.answer(first.approval_id, Answer(Outcome.NO, "not that"))
    await rig.until(lambda event: isinstance(event, ToolCallFinished))
    await reply(rig, second, Outcome.ONCE)
    assert rig.sandbox.ran == ["make b"]


class DeadSandbox(FakeSandbox):
    """A sandbox that does not start."""

    async def status(self) -> SandboxStatus:
        raise SandboxError("the image is missing", "Build it.")


async def test_a_sandbox_that_does_not_start_is_told_with_each_call_and_ends_no_turn() -> None:
    rig = Rig(FakeProvider(answer("", shell("make a"), shell("make b")), answer("done")), DeadSandbox(), mode=Mode.NORMAL)
    await rig.run()
    finished = seen(rig, ToolCallFinished)
    assert [(event.ok, event.result) for event in finished] == [(False, "the image is missing. Build it.")] * 2
    assert [event.reason for event in seen(rig, TurnEnded)] == [TurnReason.DONE]
