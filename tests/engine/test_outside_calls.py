from __future__ import annotations

import asyncio
import json

import pytest

from lmtui.core.events import ToolCallFinished, ToolCallStarted, TurnEnded
from lmtui.core.messages import ToolCall
from lmtui.core.permissions.rules import Mode
from lmtui.core.ports import ToolResult
from lmtui.core.sanitize import REDACTED, Redactor
from lmtui.core.workspace import ExecResult
from lmtui.engine.outside_calls import MOST_AT_ONCE
from tests.engine.seen import seen
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer

SECRET = "sk-Abcdefghijklmnop1234567890"


def rig_of(mode: Mode = Mode.AUTO, sandbox: FakeSandbox | None = None) -> Rig:
    sandbox = sandbox or FakeSandbox({"a.txt": f"one {SECRET}\n".encode()})
    return Rig(FakeProvider(), sandbox, mode=mode, is_attended=False, redactor=Redactor((SECRET,)))


async def call(rig: Rig, number: int, tool: str, **arguments: object) -> ToolResult:
    return await rig.session.outside_calls.run(ToolCall(f"mcp_{number}", tool, json.dumps(arguments)), "mcp")


async def test_a_call_is_written_down_and_neither_its_result_nor_the_log_holds_a_secret() -> None:
    rig = rig_of()
    result = await call(rig, 1, "read", path="a.txt")
    assert (result.ok, REDACTED in result.text, SECRET in result.text) == (True, True, False)
    (started,), (ended,) = rig.of("tool_call_started"), rig.of("tool_call_finished")
    assert isinstance(started, ToolCallStarted)
    assert isinstance(ended, ToolCallFinished)
    assert (started.by, started.call_id, ended.ok, SECRET in ended.result) == ("mcp", "mcp_1", True, False)
    assert [event.kind for event in rig.events if event.kind.startswith("turn_")] == ["turn_started", "turn_ended"]


async def test_what_needs_approval_does_not_run_and_what_changes_files_is_known() -> None:
    rig = rig_of(Mode.NORMAL)
    refused = await call(rig, 1, "write", path="b.txt", content="x")
    assert (refused.ok, refused.text) == (False, "Not run: nobody is there to approve it.")
    assert "b.txt" not in rig.sandbox.files
    open_one = rig_of()
    assert (await call(open_one, 1, "write", path="b.txt", content="x")).ok
    assert open_one.sandbox.files["b.txt"] == b"x"


async def test_calls_at_once_are_one_turn_and_no_more_than_a_few_run() -> None:
    rig = rig_of(sandbox=FakeSandbox(commands={f"sleep {number}": 0.05 for number in range(12)}))
    running = most = 0

    def count(event: object) -> None:
        nonlocal running, most
        running += isinstance(event, ToolCallStarted) - isinstance(event, ToolCallFinished)
        most = max(most, running)

    _ = rig.session.subscribe(lambda envelope: count(envelope.event))
    await asyncio.gather(*(call(rig, number, "shell", command=f"sleep {number}") for number in range(12)))
    assert most == MOST_AT_ONCE
    await call(rig, 20, "read", path="nothing")
    turns = [event.turn_id for event in seen(rig, TurnEnded)]
    assert (turns, len(rig.of("tool_call_finished"))) == (["turn_1", "turn_2"], 13)


async def test_a_call_that_is_cancelled_ends_as_stopped_and_the_next_one_runs() -> None:
    rig = rig_of(sandbox=FakeSandbox(commands={"sleep 60": 60.0, "true": ExecResult(0, "fine", 4, 1)}))
    task = asyncio.create_task(call(rig, 1, "shell", command="sleep 60"))
    await rig.until(lambda event: event.kind == "tool_call_started")
    await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert (await call(rig, 2, "shell", command="true")).ok
    first, second = (event for event in seen(rig, TurnEnded))
    assert ((first.reason, second.reason), seen(rig, ToolCallFinished)[0].summary) == (("interrupted", "done"), "stopped")


async def test_the_conversation_is_told_nothing_of_them() -> None:
    rig = Rig(FakeProvider(answer("done")), FakeSandbox({"a.txt": b"one\n"}), is_attended=False)
    await call(rig, 1, "read", path="a.txt")
    await rig.run("go on")
    assert "a.txt" not in str(rig.provider.requests[0].messages[1:])
