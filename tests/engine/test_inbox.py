from __future__ import annotations

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.events import InboxChanged, MessageAdded, Notice
from lmtui.core.messages import Image, Role
from lmtui.core.prompt_text import PromptFile, fill
from lmtui.engine.inbox import UserInput, read_said
from tests.engine.seen import seen
from tests.fakes import FakeProvider, Rig, answer
from tests.sets import for_each

TEXTS = st.text("! /ab") | st.sampled_from(["/compact", " /compact it", "! test -f x", "  !make", "!!"])


@given(TEXTS)
def test_words_stay_words_whatever_they_look_like(text: str) -> None:
    for said in (UserInput(text), UserInput(text, is_reminder=True)):
        assert read_said(said.shown, said.kind) == said


@given(TEXTS.map(str.strip).filter(bool), st.booleans())
def test_a_command_is_read_back_as_it_was(text: str, is_told: bool) -> None:
    said = UserInput(text, is_command=True, is_told=is_told)
    assert read_said(said.shown, said.kind) == said


@given(TEXTS.map(str.strip))
def test_a_compaction_is_read_back_with_its_focus(text: str) -> None:
    said = UserInput(text, is_compaction=True)
    assert read_said(said.shown, said.kind) == said


@for_each(("shown", "said"), [
    ("go on", UserInput("go on")), (" !make", UserInput("!make")), ("!make", UserInput("make", is_command=True)),
    ("!!make", UserInput("make", is_command=True, is_told=False)),
    ("/compact the tests", UserInput("the tests", is_compaction=True)),
])  # fmt: skip
def test_logs_that_tell_no_kinds_are_read(shown: str, said: UserInput) -> None:
    assert read_said(shown) == said


def test_a_kind_of_a_newer_lmtui_is_not_taken_for_words() -> None:
    assert read_said("x", "something new") is None


async def test_what_cannot_be_taken_up_after_a_crash_is_told_once_and_reaches_nobody() -> None:
    rig = Rig(FakeProvider([60.0]))
    rig.session.submit("go")
    await asyncio.sleep(0.01)
    rig.session.skills.promote("a.py", "f", "g")
    rig.session.submit("go on then")
    rig.session.submit("what is this", images=(Image("a.png", "image/png", b"x"),))
    rig.session.prompts.begin(fill(PromptFile("look", "See.", "look.md"), "here"), "/look here")
    past = list(rig.log.events)
    await rig.session.close()
    again = Rig(FakeProvider(answer("one"), answer("two")), past=past)
    told = [each.event.text for each in again.log.events if isinstance(each.event, Notice)]
    assert [text.rpartition(": ")[2] for text in told] == ["/promote a.py f g", "what is this", "/look here"]
    assert [each.event.queued for each in again.log.events if isinstance(each.event, InboxChanged)] == [("go on then",)]
    await again.run("and this")
    said = [event.text for event in seen(again, MessageAdded) if event.role is Role.USER]
    assert said == ["go on then", "and this"]
    third = Rig(FakeProvider(), past=[*past, *again.log.events])
    assert [each.event for each in third.log.events if isinstance(each.event, Notice)] == []


async def test_a_queue_of_one_is_empty_in_the_log_once_it_was_resumed_and_taken_up() -> None:
    rig = Rig(FakeProvider([60.0], answer("second")))
    rig.session.submit("first")
    await asyncio.sleep(0.01)
    rig.session.submit("second")
    rig.session.interrupt()
    await rig.session.wait_idle()
    rig.session.waiting.go_on()
    await rig.session.wait_idle()
    assert seen(rig, InboxChanged)[-1].queued == ()
