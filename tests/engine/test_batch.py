"""Work over many files with a task state: killed anywhere, a resumed session does the rest, each file once."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path

import pytest

from lmtui.core.events import Envelope, ModelChanged, SessionOpened, TurnReason
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, Role, StreamChunk, ToolCall, Usage
from lmtui.core.ports import Limits
from lmtui.store.session_logs import SessionFile, load
from tests.engine.seen import ending
from tests.fakes import FakeProvider, FakeSandbox, MemoryLog, Rig
from tests.sets import depth

State = tuple[dict[str, bytes], list[str]]

_NEXT = re.compile(r"next in the queue: ([^\s,]+)")


class Clerk(FakeProvider):
    """Knows nothing but the request: queues the files, writes one of them after the other, and counts each.

    Where it is told to look at the disk, or what came of a call is not known, it looks whether the next file is written.
    """

    async def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        self.check(request)
        self.requests.append(request)
        name, arguments = self._next_call(request.messages)
        calls = (ToolCall("call", name, json.dumps(arguments)),) if name else ()
        message = Message(Role.ASSISTANT, "" if name else "All of it is written.", tool_calls=calls)
        yield Completion(message, FinishReason.TOOL_CALLS if name else FinishReason.STOP, Usage(10, 5))

    def _next_call(self, messages: Sequence[Message]) -> tuple[str, dict[str, object]]:
        last, before = messages[-1], next(each for each in reversed(messages) if each.role is not Role.TOOL)
        told = next((each.text for each in reversed(messages) if "count: " in each.text), "")
        match = _NEXT.search(told)
        found = match[1] if match else ""
        if told and not found:
            return "", {}
        if not found:
            return "task_state_update", {"objective": "copy all", "pattern": "in/*"}
        if last.role is Role.USER or "effect is unknown" in last.text or "Not run" in last.text:
            return "read", {"path": f"out/{found}"}
        (call,) = before.tool_calls
        if call.name == "task_state_update" or (call.name == "read" and "does not exist" in last.text):
            return "write", {"path": f"out/{found}", "content": "copied\n"}
        return "task_state_update", {"done": [found]}


class DiskLog(MemoryLog):
    """Writes the events into a real session file too, and remembers the workspace at each of them."""

    def __init__(self, file: SessionFile, sandbox: FakeSandbox) -> None:
        super().__init__()
        self._file, self._sandbox = file, sandbox
        self.states: list[State] = []

    def append(self, envelope: Envelope) -> None:
        self.states.append((dict(self._sandbox.files), list(self._sandbox.touched)))
        self._file.append(envelope)
        super().append(envelope)

    def close(self) -> None:
        self._file.close()


def folder_of(count: int) -> FakeSandbox:
    return FakeSandbox({f"in/{number:03}.md": b"text\n" for number in range(count)})


async def play(
    path: Path, sandbox: FakeSandbox, past: Sequence[Envelope] = (), words: str = "copy all", *, window_tokens: int = 8_192
) -> tuple[Rig, DiskLog]:
    """Run a session on a real log until its turn is over."""
    log = DiskLog(SessionFile(path), sandbox)
    rig = Rig(Clerk(), sandbox, log=log, past=past, limits=Limits(max_iterations=0))
    if not past:
        rig.session.emit(SessionOpened(workspace="/w", version="1"))
        rig.session.emit(ModelChanged(model="model", url=rig.provider.url, window_tokens=window_tokens))
    await rig.run(words)
    await rig.session.close()
    return rig, log


async def resume(lines: Sequence[str], state: State, path: Path, count: int) -> None:
    """Resume from what a killed process left, and see that each file is written once in all."""
    path.write_text("".join(lines))
    sandbox = FakeSandbox(dict(state[0]), touched=list(state[1]))
    rig, _ = await play(path, sandbox, list(load(path).events), "go on")
    assert ending(rig).reason is TurnReason.DONE, ending(rig).error
    written = Counter(name for name in sandbox.touched if name.startswith("out/"))
    assert written == Counter({f"out/in/{number:03}.md": 1 for number in range(count)})


def states(log: DiskLog, sandbox: FakeSandbox, cut: int) -> list[State]:
    """Return the workspace right after an event was written and right before the next one: a kill may come at either."""
    last = (dict(sandbox.files), list(sandbox.touched))
    return [log.states[cut - 1], log.states[cut] if cut < len(log.states) else last]


async def test_killed_at_every_event_of_a_batch_the_rest_is_done_once_each(tmp_path: Path) -> None:
    count, sandbox = 7, folder_of(7)
    rig, log = await play(tmp_path / "whole.jsonl", sandbox)
    assert ending(rig).reason is TurnReason.DONE
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    assert len(lines) == len(log.events) > 80
    begun = next(place for place, each in enumerate(log.events) if each.event.kind == "turn_started")
    for cut in range(begun + 2, len(lines) + 1, depth(6, 1)):
        for state in states(log, sandbox, cut):
            await resume(lines[:cut], state, tmp_path / "again.jsonl", count)


@pytest.mark.full
async def test_many_files_killed_at_any_of_them_are_done_once_each(tmp_path: Path) -> None:
    count = depth(60, 300)
    sandbox = folder_of(count)
    rig, log = await play(tmp_path / "whole.jsonl", sandbox, window_tokens=depth(3_000, 8_192))
    assert ending(rig).reason is TurnReason.DONE
    assert any(event.kind == "compacted" for event in rig.events)
    assert ending(rig).iterations <= 1.1 * (2 * count + 2)
    lines = (tmp_path / "whole.jsonl").read_text().splitlines(keepends=True)
    assert sum(map(len, lines)) < 20_000 * count
    for cut in depth((len(lines) // 2 + 1,), (len(lines) // 7, len(lines) // 2 + 1, len(lines) - 9)):
        await resume(lines[:cut], states(log, sandbox, cut)[0], tmp_path / f"{cut}.jsonl", count)
