from __future__ import annotations

import asyncio

import pytest

from lmtui.core.events import (
    Envelope,
    FilesChanged,
    InboxChanged,
    Outcome,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
    TurnReason,
)
from lmtui.core.messages import Role
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.workspace import ExecResult
from tests.engine.seen import question, ran, reply, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, MemoryLog, Rig, answer

MAKE = {"make": ExecResult(0, "built\n", 6, 1)}


def finished(rig: Rig) -> ToolCallFinished:
    return seen(rig, ToolCallFinished)[0]


async def typed(rig: Rig, command: str, *, is_told: bool = True) -> None:
    rig.session.waiting.run_command(command, is_told=is_told)
    await rig.session.wait_idle()


def user_texts(rig: Rig) -> list[str]:
    return [message.text for message in rig.provider.requests[-1].messages if message.role is Role.USER]


async def test_a_command_runs_unasked_and_the_model_hears_of_it_with_the_next_message() -> None:
    rig = Rig(FakeProvider(answer("ok")), FakeSandbox(commands=dict(MAKE)), mode=Mode.NORMAL)
    await typed(rig, " make ")
    assert (rig.sandbox.ran, rig.provider.requests) == (["make"], [])
    assert (finished(rig).decision, finished(rig).why) == ("once", "you typed it")
    await rig.run("why?")
    assert user_texts(rig) == ["[The user ran a command: make]\nbuilt", "why?"]


async def test_the_model_is_not_told_where_it_should_not_be() -> None:
    rig = Rig(FakeProvider(answer("ok")), FakeSandbox(commands=dict(MAKE)))
    await typed(rig, "make", is_told=False)
    await rig.run("why?")
    assert user_texts(rig) == ["why?"]


async def test_what_it_said_is_told_the_same_after_a_resume() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands={"make": ExecResult(2, "x" * 50_000, 50_000, 1)}))
    await typed(rig, "make")
    again = await ran(Rig(FakeProvider(answer("ok")), past=rig.log.events), "why?")
    assert len(user_texts(again)[0]) < 8_300
    assert user_texts(again)[0].endswith("(exit code 2)")


async def test_a_deny_rule_holds_for_the_user_too() -> None:
    rules = (parse_rule("Shell(make*)", Effect.DENY, "settings"),)
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), rules=rules)
    await typed(rig, "make")
    assert rig.sandbox.ran == []
    assert "forbids it" in finished(rig).result


async def test_plan_mode_runs_it_where_it_changes_nothing() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), mode=Mode.PLAN)
    await typed(rig, "make")
    assert (rig.sandbox.ran, rig.sandbox.ran_read_only) == (["make"], ["make"])


async def test_an_ask_rule_asks_the_user_too() -> None:
    rules = (parse_rule("Shell(make*)", Effect.ASK, "settings"),)
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), rules=rules)
    rig.session.waiting.run_command("make")
    request = await question(rig)
    assert rig.sandbox.ran == []
    await reply(rig, request, Outcome.ONCE)
    assert rig.sandbox.ran == ["make"]


async def test_a_reduced_sandbox_does_not_ask_about_what_the_user_typed() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE), asks_each_command=True))
    await typed(rig, "make")
    assert (rig.of("approval_requested"), rig.sandbox.ran) == ([], ["make"])


async def test_while_a_turn_runs_it_waits_its_turn() -> None:
    rig = Rig(FakeProvider([0.05, *answer("one")]), FakeSandbox(commands=dict(MAKE)))
    rig.session.submit("go")
    await asyncio.sleep(0.01)
    rig.session.waiting.run_command("make", is_told=False)
    assert (rig.sandbox.ran, [event.queued for event in seen(rig, InboxChanged)][-1]) == ([], ("!!make",))
    await rig.session.wait_idle()
    assert rig.sandbox.ran == ["make"]


async def test_it_can_be_stopped() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands={"sleep 60": 60.0}))
    rig.session.waiting.run_command("sleep 60")
    await rig.until(lambda event: isinstance(event, ToolCallStarted))
    await asyncio.sleep(0.01)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert rig.sandbox.stopped == ["sleep 60"]
    ended = rig.events[-1]
    assert isinstance(ended, TurnEnded)
    assert ended.reason == "interrupted"


async def test_what_it_changes_can_be_undone() -> None:
    class Touches(FakeSandbox):
        async def run_command(self, command: str, **options: object) -> ExecResult:
            self.files["new"] = b"made"
            return ExecResult(0, "", 0, 1)

    sandbox = Touches()
    rig = Rig(FakeProvider(), sandbox, checkpoints=FakeCheckpoints(sandbox))
    await typed(rig, "touch new")
    assert [event.files for event in seen(rig, FilesChanged)] == [("new",)]
    changes = rig.session.changes
    assert changes is not None
    await changes.apply(await changes.plan_undo())
    assert sandbox.files == {}


async def test_an_interrupt_holds_the_queue_until_the_user_goes_on() -> None:
    rig = Rig(FakeProvider([60.0], answer("now"), answer("second")))
    rig.session.submit("first")
    await asyncio.sleep(0.01)
    rig.session.submit("second")
    rig.session.interrupt()
    await rig.session.wait_idle()
    shown = seen(rig, InboxChanged)[-1]
    assert (shown.queued, shown.is_paused) == (("second",), True)
    await rig.run("something else first")
    assert user_texts(rig)[-1] == "something else first"
    rig.session.waiting.go_on()
    await rig.session.wait_idle()
    assert user_texts(rig)[-1] == "second"
    assert not seen(rig, InboxChanged)[-1].is_paused


async def test_a_command_left_in_the_queue_by_a_crash_is_a_command_again() -> None:
    rig = Rig(FakeProvider([60.0]))
    rig.session.submit("go")
    await asyncio.sleep(0.01)
    rig.session.waiting.run_command("make")
    past = list(rig.log.events)
    await rig.session.close()
    again = await ran(Rig(FakeProvider(answer("ok")), FakeSandbox(commands=dict(MAKE)), past=past), "go on")
    assert again.sandbox.ran == ["make"]


@pytest.mark.parametrize("is_command", [True, False])
async def test_after_a_crash_only_what_was_a_command_runs(is_command: bool) -> None:
    rig = Rig(FakeProvider([0.05, *answer("one")]), FakeSandbox(commands=dict(MAKE)))
    rig.session.submit("go")
    await asyncio.sleep(0.01)
    if is_command:
        rig.session.waiting.run_command("make")
    else:
        rig.session.submit("!make", typed="[pasted 12 lines #1]")
    past = list(rig.log.events)
    await rig.session.close()
    resumed = await ran(Rig(FakeProvider(answer("a"), answer("b")), FakeSandbox(commands=dict(MAKE)), past=past), "next")
    assert resumed.sandbox.ran == (["make"] if is_command else [])


class FailsInside(MemoryLog):
    def append(self, envelope: Envelope) -> None:
        if isinstance(envelope.event, ToolCallStarted):
            raise RuntimeError("a bug")
        super().append(envelope)


async def test_a_command_that_fails_inside_lmtui_is_not_done() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), log=FailsInside())
    await typed(rig, "make")
    end = seen(rig, TurnEnded)[0]
    assert (end.reason, end.exit_code) == (TurnReason.ERROR, 1)
    assert end.error.startswith("lmtui failed inside")
