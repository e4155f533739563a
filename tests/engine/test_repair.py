from __future__ import annotations

import json

from lmtui.core.events import ApprovalRequested, Notice, ToolCallFinished
from lmtui.core.permissions.rules import Mode
from lmtui.engine.repair import ends_for_open_work
from tests.fakes import FakeProvider, Rig, answer


async def ends_after_a_crash(command: str, mode: Mode) -> list[str]:
    """Return what is said of the call of a session whose log ends where it asks for the first time."""
    call = ("shell", json.dumps({"command": command}))
    rig = Rig(FakeProvider(answer("", call)), mode=mode)
    rig.session.submit("go")
    await rig.until(lambda event: isinstance(event, ApprovalRequested))
    past = tuple(rig.log.events)
    await rig.session.close()
    return [event.result for event in ends_for_open_work(past) if isinstance(event, ToolCallFinished)]


async def test_a_call_that_waited_for_its_approval_did_not_run() -> None:
    assert await ends_after_a_crash("make", Mode.NORMAL) == ["Not run: lmtui stopped before it was approved."]


async def test_a_command_that_waited_for_a_host_did_run() -> None:
    results = await ends_after_a_crash("fetch https://pypi.org", Mode.AUTO)
    assert len(results) == 1
    assert "its effect is unknown" in results[0]


async def test_what_was_cut_off_is_told_and_offered_again() -> None:
    calls = (("shell", json.dumps({"command": "make"})), ("write", json.dumps({"path": "a.txt", "content": "x"})))
    live = Rig(FakeProvider(answer("", *calls)), mode=Mode.NORMAL)
    live.session.submit("go")
    await live.until(lambda event: isinstance(event, ApprovalRequested))
    past = tuple(live.log.events)
    await live.session.close()
    again = Rig(FakeProvider(), past=past)
    told = [each.event.text for each in again.session.history() if isinstance(each.event, Notice)]
    assert len(told) == 1
    assert "waited for your answer and did not run" in told[0]
    assert "shell make" in told[0]
    twice = Rig(FakeProvider(), past=again.session.history())
    assert sum(isinstance(each.event, Notice) for each in twice.session.history()) == 1


async def test_a_question_that_is_open_when_the_session_closes_is_told_when_it_is_opened_again() -> None:
    live = Rig(FakeProvider(answer("", ("shell", json.dumps({"command": "make"})))), mode=Mode.NORMAL)
    live.session.submit("go")
    await live.until(lambda event: isinstance(event, ApprovalRequested))
    await live.session.close()
    again = Rig(FakeProvider(), past=tuple(live.log.events))
    told = [each.event.text for each in again.session.history() if isinstance(each.event, Notice)]
    assert len(told) == 1
    assert told[0].startswith("When this session was closed, shell make waited for your answer and did not run.")


async def test_a_session_that_closes_without_a_question_says_nothing() -> None:
    live = Rig(FakeProvider(answer("Done.")), mode=Mode.NORMAL)
    live.session.submit("go")
    await live.session.wait_idle()
    await live.session.close()
    assert not [each for each in live.log.events if isinstance(each.event, Notice)]
