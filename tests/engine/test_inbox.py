from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core import events
from lmtui.core.agent_events import WaitSet
from lmtui.core.messages import Image, Role
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.prompt_text import PromptFile, fill
from lmtui.core.workspace import ExecResult
from lmtui.engine.inbox import UserInput, read_said
from tests.engine.seen import finished, question, ran, reply, seen, user_texts
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig, answer
from tests.sets import for_each

TEXTS = st.text("! /ab") | st.sampled_from(["/compact", " /compact it", "! test -f x", "  !make", "!!"])


@given(TEXTS, st.booleans())
def test_what_waits_is_read_back_as_it_was_whatever_it_looks_like(text: str, is_told: bool) -> None:
    words, bare = (UserInput(text), UserInput(text, is_reminder=True)), text.strip()
    commands = (UserInput(bare, is_command=True, is_told=is_told),) if bare else ()
    for said in (*words, *commands, UserInput(bare, is_compaction=True)):
        assert read_said(said.shown, said.kind) == said
    assert read_said(text, "something new") is None


@for_each(("shown", "said"), [
    ("go on", UserInput("go on")), (" !make", UserInput("!make")), ("!make", UserInput("make", is_command=True)),
    ("!!make", UserInput("make", is_command=True, is_told=False)),
    ("/compact the tests", UserInput("the tests", is_compaction=True)),
])  # fmt: skip
def test_logs_that_tell_no_kinds_are_read(shown: str, said: UserInput) -> None:
    assert read_said(shown) == said


async def test_what_cannot_be_taken_up_after_a_crash_is_told_once_and_reaches_nobody() -> None:
    rig = Rig(FakeProvider([60.0]))
    rig.session.submit("go")
    await asyncio.sleep(0.01)
    rig.session.run_tool("promote_skill", "{}", " /promote a.py f g")
    rig.session.submit("go on then")
    rig.session.submit("what is this", images=(Image("a.png", "image/png", b"x"),))
    rig.session.waiting.begin(fill(PromptFile("look", "See.", "look.md"), "here"), "/look here")
    past = list(rig.log.events)
    await rig.session.close()
    again = Rig(FakeProvider(answer("one"), answer("two")), past=past)
    told = [each.event.text for each in again.log.events if isinstance(each.event, events.Notice)]
    assert [text.rpartition(": ")[2] for text in told] == ["/promote a.py f g", "what is this", "/look here"]
    assert [each.event.queued for each in again.log.events if isinstance(each.event, events.InboxChanged)] == [("go on then",)]
    await again.run("and this")
    said = [event.text for event in seen(again, events.MessageAdded) if event.role is Role.USER]
    assert said == ["go on then", "and this"]
    third = Rig(FakeProvider(), past=[*past, *again.log.events])
    assert [each.event for each in third.log.events if isinstance(each.event, events.Notice)] == []


MAKE = {"make": ExecResult(0, "built\n", 6, 1)}


async def typed(rig: Rig, command: str, *, is_told: bool = True) -> None:
    rig.session.waiting.run_command(command, is_told=is_told)
    await rig.session.wait_idle()


async def test_what_it_said_is_told_the_same_after_a_resume_and_an_ask_rule_asks_the_user_too() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands={"make": ExecResult(2, "x" * 50_000, 50_000, 1)}))
    await typed(rig, "make")
    again = await ran(Rig(FakeProvider(answer("ok")), past=rig.log.events), "why?")
    assert len(user_texts(again)[0]) < 8_300
    assert user_texts(again)[0].endswith("(exit code 2)")
    rules = (parse_rule("Shell(make*)", Effect.ASK, "settings"),)
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), rules=rules)
    rig.session.waiting.run_command("make")
    request = await question(rig)
    assert rig.sandbox.ran == []
    await reply(rig, request, events.Outcome.ONCE)
    assert rig.sandbox.ran == ["make"]
    rules = (parse_rule("Read(keep/**)", Effect.DENY, "settings"),)
    rig = Rig(FakeProvider(), FakeSandbox(commands={"git stash": ExecResult(0, "", 0, 1)}), mode=Mode.NORMAL, rules=rules)
    await typed(rig, "git stash")
    assert rig.sandbox.ran == ["git stash"]


async def test_rules_and_plan_mode_hold_for_the_user_too() -> None:
    rules = (parse_rule("Shell(make*)", Effect.DENY, "settings"),)
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), rules=rules)
    await typed(rig, "make")
    assert rig.sandbox.ran == []
    assert "forbids it" in finished(rig).result
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), mode=Mode.PLAN)
    await typed(rig, "make")
    assert (rig.sandbox.ran, rig.sandbox.ran_read_only) == (["make"], ["make"])
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE), asks_each_command=True))
    await typed(rig, "make")
    assert (rig.of("approval_requested"), rig.sandbox.ran) == ([], ["make"])


async def test_a_command_runs_unasked_can_be_stopped_and_the_model_hears_of_it_where_it_should() -> None:
    rig = Rig(FakeProvider(answer("ok")), FakeSandbox(commands=dict(MAKE)), mode=Mode.NORMAL)
    await typed(rig, " make ")
    assert (rig.sandbox.ran, rig.provider.requests) == (["make"], [])
    assert (finished(rig).decision, finished(rig).why) == ("once", "you typed it")
    await rig.run("why?")
    assert user_texts(rig) == ["[The user ran a command: make]\nbuilt", "why?"]
    rig = Rig(FakeProvider(answer("ok")), FakeSandbox(commands=dict(MAKE)))
    await typed(rig, "make", is_told=False)
    await rig.run("why?")
    assert user_texts(rig) == ["why?"]
    rig = Rig(FakeProvider(), FakeSandbox(commands={"sleep 60": 60.0}))
    rig.session.waiting.run_command("sleep 60")
    await rig.until(lambda event: isinstance(event, events.ToolCallStarted))
    await asyncio.sleep(0.01)
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert rig.sandbox.stopped == ["sleep 60"]
    ended = rig.events[-1]
    assert isinstance(ended, events.TurnEnded)
    assert ended.reason == "interrupted"


async def test_an_interrupt_holds_the_queue_until_the_user_goes_on() -> None:
    rig = Rig(FakeProvider([60.0], answer("now"), answer("second")))
    rig.session.submit("first")
    await asyncio.sleep(0.01)
    rig.session.submit("second")
    rig.session.interrupt()
    await rig.session.wait_idle()
    shown = seen(rig, events.InboxChanged)[-1]
    assert (shown.queued, shown.is_paused) == (("second",), True)
    await rig.run("something else first")
    assert user_texts(rig)[-1] == "something else first"
    rig.session.waiting.go_on()
    await rig.session.wait_idle()
    assert user_texts(rig)[-1] == "second"
    assert not seen(rig, events.InboxChanged)[-1].is_paused


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
    def append(self, envelope: events.Envelope) -> None:
        if isinstance(envelope.event, events.ToolCallStarted):
            raise RuntimeError("a bug")
        super().append(envelope)


async def test_a_command_that_fails_inside_lmtui_is_not_done() -> None:
    rig = Rig(FakeProvider(), FakeSandbox(commands=dict(MAKE)), log=FailsInside())
    await typed(rig, "make")
    end = seen(rig, events.TurnEnded)[0]
    assert (end.reason, end.exit_code) == (events.TurnReason.ERROR, 1)
    assert end.error.startswith("Internal error")


LINE = "The build is not there yet.\nWAIT: 2026-01-01T18:00:00Z: the build"
UNTIL = datetime(2026, 1, 1, 18, 0, tzinfo=UTC)


async def test_a_wait_ends_the_turn_behind_its_calls_and_of_more_than_a_year_is_refused() -> None:
    calls = (("wait", json.dumps({"until": "2h", "reason": "the build"})), ("todo_add", '{"description": "look"}'))
    rig = await ran(Rig(FakeProvider(answer("", *calls))))
    assert seen(rig, events.TurnEnded)[0].reason is events.TurnReason.WAITING
    assert [event.plan.todos[0].text for event in seen(rig, events.PlanChanged)] == ["look"]
    until = seen(rig, WaitSet)[0].until
    told = next(event.result for event in seen(rig, events.ToolCallFinished) if event.tool == "wait")
    assert f"continues at {until.isoformat(timespec='seconds')}" in told
    assert timedelta(hours=1, minutes=59) < until - datetime(2026, 1, 1, 12, tzinfo=UTC) < timedelta(hours=2, minutes=1)
    await rig.session.close()
    far = "WAIT: 2028-01-01T00:00:00Z: the build"
    rig = await ran(Rig(FakeProvider(answer("", ("wait", '{"until": "900d"}')), answer(far), answer("Then I am done."))))
    assert ([end.reason for end in seen(rig, events.TurnEnded)], rig.of("wait_set")) == ([events.TurnReason.DONE], [])
    assert "a year at most" in seen(rig, events.ToolCallFinished)[0].result
    assert any("a year at most" in event.text for event in seen(rig, Reminder))
    await rig.session.close()


async def test_a_wait_line_ends_the_turn_as_waiting_and_at_its_time_the_session_goes_on_unless_the_user_speaks() -> None:
    rig = await ran(Rig(FakeProvider(answer(LINE))))
    assert [(end.reason, end.exit_code) for end in seen(rig, events.TurnEnded)] == [(events.TurnReason.WAITING, 0)]
    assert rig.of("wait_set") == [WaitSet(until=UNTIL, why="the build", turn_id="turn_1")]
    assert rig.events.index(rig.of("wait_set")[0]) < rig.events.index(seen(rig, events.TurnEnded)[0])
    assert len(rig.provider.requests) == 1
    past = tuple(rig.session.history())
    await rig.session.close()
    again = Rig(FakeProvider(answer("The build is there now.")), past=past)
    for each in (rig, again):
        assert each.session.sleep.wait is not None
        assert each.session.sleep.wait.until == UNTIL
    assert again.session.sleep.wake()
    await again.session.wait_idle()
    assert seen(again, events.TurnEnded)[0].reason is events.TurnReason.DONE
    assert seen(again, events.TurnStarted)
    await again.session.close()
    rig = await ran(Rig(FakeProvider(answer(LINE), answer("The build is there now."))))
    assert rig.session.sleep.wake()
    await rig.session.wait_idle()
    last = rig.provider.requests[-1].messages[-1]
    assert last.role is Role.USER
    assert "You waited for: the build" in last.text
    assert [event.text for event in seen(rig, events.MessageAdded) if event.role is Role.USER] == ["do it"]
    assert rig.session.sleep.wait is None
    await rig.session.close()
    rig = await ran(Rig(FakeProvider(answer(LINE), answer("Then not."))))
    await rig.run("never mind")
    assert rig.session.sleep.wait is None
    assert not rig.session.sleep.wake()
    await rig.session.close()
