from __future__ import annotations

import json
import statistics
import sys
from collections.abc import AsyncGenerator
from types import FrameType

import pytest

from lmtui.core.events import ModelChanged, TurnReason
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, ToolCall, Usage
from lmtui.core.ports import Limits
from lmtui.core.workspace import ExecResult
from tests.engine.seen import ending
from tests.fakes import FakeProvider, FakeSandbox, Rig

STEPS, FULL_FROM, SPAN = 900, 200, 200  # from there on room is made again and again


class CountingModel(FakeProvider):
    """Plays so many steps; `calls` are the functions that were called between answers and requests."""

    def __init__(self, steps: int) -> None:
        super().__init__()
        self.steps = steps
        self.calls: list[int] = []
        self.counted = self.made = 0
        self.most_sent = 0

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        sys.setprofile(None)
        if self.made:
            self.calls.append(self.counted)
        number, self.made = self.made, self.made + 1
        self.most_sent = max(self.most_sent, len(request.messages))
        size = sum(len(each.text) + sum(len(call.arguments) for call in each.tool_calls) for each in request.messages) // 4
        text = f"Step {number} is next." if number < self.steps else "All steps are done."
        calls = (ToolCall("call_0", *_call(number)),) if number < self.steps else ()
        reason = FinishReason.TOOL_CALLS if calls else FinishReason.STOP
        yield Completion(Message(Role.ASSISTANT, text, "", calls), reason, Usage(size, 20), 0.01, 0.02)

    def begin_to_count(self) -> None:
        self.counted = 0

        def count(_: FrameType, event: str, __: object) -> None:
            self.counted += event == "call"

        sys.setprofile(count)


def _call(number: int) -> tuple[str, str]:
    if number % 3:
        return "shell", json.dumps({"command": f"./do part{number}"})
    return "write", json.dumps({"path": f"out{number}.txt", "content": f"part {number} is here\n"})


@pytest.mark.parametrize("window_tokens", [8_192, 1_000_000])
async def test_a_step_asks_for_no_more_work_behind_a_long_session(window_tokens: int) -> None:
    said = {f"./do part{number}": ExecResult(0, f"part {number} has words\n" * 80, 0, 1) for number in range(STEPS)}
    model = CountingModel(STEPS)
    rig = Rig(model, FakeSandbox(commands=dict(said)), limits=Limits(max_iterations=0))
    rig.session.emit(ModelChanged(model="model", url=model.url, window_tokens=window_tokens))
    rig.session.subscribe(lambda each: model.begin_to_count() if each.event.kind == "usage_updated" else None)
    try:
        rig.session.submit("Do all the steps.")
        await rig.session.wait_idle()
    finally:
        sys.setprofile(None)
    assert (ending(rig).reason, len(model.calls)) == (TurnReason.DONE, STEPS)
    assert bool(rig.of("compacted")) == (window_tokens < 1_000_000)
    early, late = model.calls[FULL_FROM : FULL_FROM + SPAN], model.calls[-SPAN:]
    assert statistics.mean(late) < statistics.mean(early) * 1.1
