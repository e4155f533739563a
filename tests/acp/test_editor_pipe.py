from __future__ import annotations

import asyncio
import json
import os
import select
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from lmtui.acp import editor_pipe
from lmtui.acp.editor_pipe import EditorPipe
from tests.waiting import PATIENCE_S


class Ends:
    """A pipe to an editor, and the editor's ends of it."""

    def __init__(self) -> None:
        source, self.write_to = os.pipe()
        self.read_from, target = os.pipe()
        self.own = (source, target)
        self.lost = asyncio.Event()
        self.pipe = EditorPipe(source, target, self.lost.set)

    def read(self) -> list[dict[str, Any]]:
        found = b""
        while not found.endswith(b"\n"):
            assert select.select([self.read_from], [], [], 5)[0], "nothing more came"
            found += os.read(self.read_from, 1 << 20)
        return [json.loads(line) for line in found.splitlines()]


@asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    found = Ends()
    yield found
    os.close(found.write_to)
    assert await found.pipe.receive() is None
    await found.pipe.close()
    for each in (*found.own, found.read_from):
        os.close(each)


def chunk(text: str, message_id: str = "m", session: str = "s", kind: str = "agent_message_chunk") -> dict[str, Any]:
    update = {"sessionUpdate": kind, "messageId": message_id, "content": {"type": "text", "text": text}}
    return {"jsonrpc": "2.0", "method": "session/update", "params": {"sessionId": session, "update": update}}


async def test_a_message_may_come_in_pieces_and_a_lone_surrogate_does_not_break_the_line() -> None:
    async with ends() as editor:
        for piece in (b'{"method"', b': "a"}\n{"meth', b'od": "b", "id": 7}\n'):
            os.write(editor.write_to, piece)
            await asyncio.sleep(0.01)
        assert [await editor.pipe.receive() for _ in range(2)] == [{"method": "a"}, {"method": "b", "id": 7}]
        editor.pipe.post(chunk("a\ud800b é"))
        (found,) = await asyncio.to_thread(editor.read)
        assert found["params"]["update"]["content"]["text"] == "a?b é"


async def test_a_line_that_is_too_long_is_answered_and_passed_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_pipe, "MAX_LINE_BYTES", 1000)
    async with ends() as editor:
        received = asyncio.create_task(editor.pipe.receive())
        os.write(editor.write_to, b"x" * 60_000)
        assert (await asyncio.to_thread(editor.read))[0]["error"]["code"] == editor_pipe.PARSE_ERROR
        os.write(editor.write_to, b'more of it\n{"method": "a"}\n')
        assert await received == {"method": "a"}


async def test_while_the_editor_is_slow_text_is_gathered_and_nothing_is_lost() -> None:
    async with ends() as editor:
        editor.pipe.post({"method": "large", "params": "x" * 1_000_000})  # more than a pipe takes
        await asyncio.sleep(0.1)
        for number in range(100):
            editor.pipe.post(chunk(f"{number} "))
        editor.pipe.post(chunk("other message", "n"))
        editor.pipe.post(chunk("thought", "n", kind="agent_thought_chunk"))
        editor.pipe.post(chunk("other session", "n", "t", kind="agent_thought_chunk"))
        editor.pipe.post({"method": "session/update", "params": {"sessionId": "t", "update": {"sessionUpdate": "plan"}}})
        found: list[dict[str, Any]] = []
        while len(found) < 6:
            found += await asyncio.to_thread(editor.read)
        texts = [each["params"]["update"]["content"]["text"] for each in found[1:5]]
        assert texts == ["".join(f"{number} " for number in range(100)), "other message", "thought", "other session"]


async def test_an_editor_that_does_not_read_at_all_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editor_pipe, "MAX_WAITING_CHARS", 10_000)
    async with ends() as editor:
        editor.pipe.post({"method": "large", "params": "x" * 1_000_000})
        await asyncio.wait_for(editor.lost.wait(), PATIENCE_S)
        os.set_blocking(editor.read_from, False)  # let go of the writing thread


async def test_what_waits_for_an_answer_is_called_after_it() -> None:
    async with ends() as editor:
        editor.pipe.when_answered(5, lambda: editor.pipe.post({"method": "later"}))
        editor.pipe.post({"id": 4, "result": {}})
        editor.pipe.post({"id": 5, "method": "a request of our own"})
        editor.pipe.post({"id": 5, "result": {}})
        found: list[dict[str, Any]] = []
        while len(found) < 4:
            found += await asyncio.to_thread(editor.read)
        assert [each.get("method", each.get("id")) for each in found] == [4, "a request of our own", 5, "later"]
