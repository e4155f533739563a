from __future__ import annotations

import asyncio
import json

from lmtui.core.events import ApprovalRequested, ToolCallFinished
from lmtui.core.permissions import Mode
from lmtui.engine.repair import ends_for_open_work
from tests.fakes import FakeProvider, Rig, answer


async def ends_after_a_crash(command: str, mode: Mode) -> list[str]:
    """Return what is said of the call of a session whose log ends where it asks for the first time."""
    call = ("shell", json.dumps({"command": command}))
    rig = Rig(FakeProvider(answer("", call)), mode=mode)
    rig.session.submit("go")
    await rig.until(lambda event: isinstance(event, ApprovalRequested))
    past = tuple(rig.log.events)
    await asyncio.wait_for(rig.session.close(), 5)
    return [event.result for event in ends_for_open_work(past) if isinstance(event, ToolCallFinished)]


async def test_a_call_that_waited_for_its_approval_did_not_run() -> None:
    assert await ends_after_a_crash("make", Mode.NORMAL) == ["Not run: lmtui stopped before it was approved."]


async def test_a_command_that_waited_for_a_host_did_run() -> None:
    results = await ends_after_a_crash("fetch https://pypi.org", Mode.AUTO)
    assert len(results) == 1
    assert "its effect is unknown" in results[0]
