from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta

from lmtui.core.agent_events import WaitSet
from lmtui.core.events import MessageAdded, PlanChanged, ToolCallFinished, TurnEnded, TurnReason, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Reminder
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer

LINE = "The build is not there yet.\nWAIT: 2026-01-01T18:00:00Z: the build"
UNTIL = datetime(2026, 1, 1, 18, 0, tzinfo=UTC)


def ends(rig: Rig) -> list[TurnEnded]:
    return seen(rig, TurnEnded)


async def test_a_wait_line_ends_the_turn_as_waiting_and_says_until_when() -> None:
    rig = await ran(Rig(FakeProvider(answer(LINE))))
    assert [(end.reason, end.exit_code) for end in ends(rig)] == [(TurnReason.WAITING, 0)]
    assert rig.of("wait_set") == [WaitSet(until=UNTIL, why="the build", turn_id="turn_1")]
    assert rig.events.index(rig.of("wait_set")[0]) < rig.events.index(ends(rig)[0])
    assert len(rig.provider.requests) == 1
    wait = rig.session.sleep.wait
    assert wait is not None
    assert wait.until == UNTIL
    await rig.session.close()


async def test_the_tool_ends_the_turn_behind_the_calls_of_its_message() -> None:
    calls = (("wait", json.dumps({"until": "2h", "reason": "the build"})), ("todo_add", '{"description": "look"}'))
    rig = await ran(Rig(FakeProvider(answer("", *calls))))
    assert ends(rig)[0].reason is TurnReason.WAITING
    assert [event.plan.todos[0].text for event in seen(rig, PlanChanged)] == ["look"]
    until = seen(rig, WaitSet)[0].until
    told = next(event.result for event in seen(rig, ToolCallFinished) if event.tool == "wait")
    assert f"continues at {until.isoformat(timespec='seconds')}" in told
    assert timedelta(hours=1, minutes=59) < until - datetime(2026, 1, 1, 12, tzinfo=UTC) < timedelta(hours=2, minutes=1)
    await rig.session.close()


async def test_a_wait_of_more_than_a_year_is_refused_and_the_model_is_told() -> None:
    far = "WAIT: 2028-01-01T00:00:00Z: the build"
    rig = await ran(Rig(FakeProvider(answer("", ("wait", '{"until": "900d"}')), answer(far), answer("Then I am done."))))
    assert ([end.reason for end in ends(rig)], rig.of("wait_set")) == ([TurnReason.DONE], [])
    assert "a year at most" in seen(rig, ToolCallFinished)[0].result
    assert any("a year at most" in event.text for event in seen(rig, Reminder))
    await rig.session.close()


async def test_at_its_time_the_session_goes_on_with_a_reminder_and_no_words_of_the_user() -> None:
    rig = await ran(Rig(FakeProvider(answer(LINE), answer("The build is there now."))))
    assert rig.session.sleep.wake()
    await rig.session.wait_idle()
    assert [end.reason for end in ends(rig)] == [TurnReason.WAITING, TurnReason.DONE]
    last = rig.provider.requests[-1].messages[-1]
    assert last.role is Role.USER
    assert "You waited for: the build" in last.text
    assert [event.text for event in seen(rig, MessageAdded) if event.role is Role.USER] == ["do it"]
    assert rig.session.sleep.wait is None
    await rig.session.close()


async def test_what_the_user_says_before_ends_the_wait() -> None:
    rig = await ran(Rig(FakeProvider(answer(LINE), answer("Then not."))))
    await rig.run("never mind")
    assert rig.session.sleep.wait is None
    assert not rig.session.sleep.wake()
    await rig.session.close()


async def test_a_wait_survives_the_end_of_lmtui() -> None:
    rig = await ran(Rig(FakeProvider(answer(LINE))))
    past = tuple(rig.session.history())
    await rig.session.close()
    again = Rig(FakeProvider(answer("The build is there now.")), past=past)
    assert again.session.sleep.wait is not None
    assert again.session.sleep.wake()
    await again.session.wait_idle()
    assert ends(again)[0].reason is TurnReason.DONE
    assert seen(again, TurnStarted)
    await again.session.close()


async def test_a_wait_in_code_ends_nothing() -> None:
    rig = await ran(Rig(FakeProvider(answer(f"Say it like this:\n```\n{LINE}\n```"))))
    assert ends(rig)[0].reason is TurnReason.DONE
    await rig.session.close()


async def test_a_wait_beyond_the_calendar_is_refused_in_words() -> None:
    rig = await ran(Rig(FakeProvider(answer("", ("wait", '{"until": "999999999d"}')), answer("Then I am done."))))
    told = seen(rig, ToolCallFinished)[0]
    assert (told.ok, told.summary) == (False, "failed")
    assert "is not a time" in told.result
    await rig.session.close()
