from __future__ import annotations

import asyncio
import json

from lmtui.core.errors import SandboxError
from lmtui.core.events import CheckpointCreated, FilesChanged, Notice, ToolCallFinished, TurnEnded, TurnReason
from lmtui.core.ports import Snapshot
from tests.engine.seen import seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer

WRITE = ("write", json.dumps({"path": "a.txt", "content": "one\n"}))
AGAIN = ("write", json.dumps({"path": "b.txt", "content": "two\n"}))


class SlowCheckpoints(FakeCheckpoints):
    """Takes its time for each state, and says when one is being kept."""

    def __init__(self, sandbox: FakeSandbox) -> None:
        super().__init__(sandbox)
        self.began: list[asyncio.Event] = [asyncio.Event() for _ in range(4)]
        self.count = 0

    async def snapshot(self) -> Snapshot:
        self.began[self.count].set()
        self.count += 1
        await asyncio.sleep(0.05)
        return await super().snapshot()


async def test_what_a_call_changed_is_told_though_it_is_stopped_twice_meanwhile() -> None:
    sandbox = FakeSandbox()
    checkpoints = SlowCheckpoints(sandbox)
    rig = Rig(FakeProvider(answer("", WRITE), answer("done")), sandbox, checkpoints=checkpoints)
    rig.session.submit("go")
    await checkpoints.began[1].wait()  # the state after the call
    for _ in range(3):
        rig.session.interrupt()
        await asyncio.sleep(0.01)
    await rig.session.wait_idle()
    changed = seen(rig, FilesChanged)
    assert [event.files for event in changed] == [("a.txt",)]
    assert changed[0].after
    ended = seen(rig, TurnEnded)[0]
    assert (ended.reason, ended.files_changed) == (TurnReason.INTERRUPTED, ("a.txt",))


async def test_a_call_stopped_before_it_ran_is_said_not_to_have_run() -> None:
    sandbox = FakeSandbox()
    checkpoints = SlowCheckpoints(sandbox)
    rig = Rig(FakeProvider(answer("", WRITE), answer("done")), sandbox, checkpoints=checkpoints)
    rig.session.submit("go")
    await checkpoints.began[0].wait()  # the state before the call
    rig.session.interrupt()
    await rig.session.wait_idle()
    assert (sandbox.files, seen(rig, ToolCallFinished)[0].summary) == ({}, "not run")


async def test_a_store_that_fails_once_is_told_once_and_tried_again() -> None:
    sandbox = FakeSandbox()
    checkpoints = FakeCheckpoints(sandbox)
    checkpoints.problem = SandboxError("another lmtui is at the checkpoints")
    rig = Rig(FakeProvider(answer("", WRITE, WRITE), answer("", AGAIN), answer("done")), sandbox, checkpoints=checkpoints)
    rig.session.submit("go")
    await rig.until(lambda event: isinstance(event, ToolCallFinished) and event.call_id == "call_1")
    checkpoints.problem = None
    await rig.session.wait_idle()
    told = [event.text for event in seen(rig, Notice)]
    assert told == ["What changes now cannot be undone: another lmtui is at the checkpoints"]
    assert [event.call_id for event in seen(rig, CheckpointCreated)] == ["call_0_2"]
