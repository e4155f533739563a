from __future__ import annotations

import asyncio
import json
import os
import select
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from lmtui.acp import acp_server
from lmtui.acp.acp_server import EditorTransport, editor_transport
from lmtui.core.errors import UsageError
from tests.waiting import PATIENCE_S


class Ends(NamedTuple):
    """The agent's transport, and the editor's ends of it: of one socket, as with sshd."""

    transport: EditorTransport
    write_to: int
    read_from: int

    def read(self) -> list[dict[str, Any]]:
        found = b""
        while not found.endswith(b"\n"):
            assert select.select([self.read_from], [], [], 5)[0], "nothing more came"
            found += os.read(self.read_from, 1 << 20)
        return [json.loads(line) for line in found.splitlines()]


@asynccontextmanager
async def ends() -> AsyncIterator[Ends]:
    own, editor = socket.socketpair()
    transport = await editor_transport(os.dup(own.fileno()), own.detach())
    yield (found := Ends(transport, editor.fileno(), editor.fileno()))
    editor.shutdown(socket.SHUT_WR)
    assert await found.transport.receive() is None
    await found.transport.close()
    editor.close()


async def test_a_message_may_come_in_pieces_and_a_lone_surrogate_does_not_break_the_line() -> None:
    async with ends() as editor:
        for piece in (b'{"method"', b': "a"}\n{"meth', b'od": "b", "id": 7}\n'):
            os.write(editor.write_to, piece)
            await asyncio.sleep(0.01)
        assert [await editor.transport.receive() for _ in range(2)] == [{"method": "a"}, {"method": "b", "id": 7}]
        editor.transport.post({"text": "a\ud800b é"})
        assert await asyncio.to_thread(editor.read) == [{"text": "a?b é"}]


async def test_a_line_that_is_too_long_is_answered_and_ends_the_input(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_server, "MAX_LINE_BYTES", 1000)
    async with ends() as editor:
        os.write(editor.write_to, b"x" * 60_000)
        assert await editor.transport.receive() is None
        (found,) = await asyncio.to_thread(editor.read)
        assert found["error"]["code"] == acp_server.PARSE_ERROR


async def test_answers_with_ids_and_errors_of_other_types_do_not_reach_the_connection() -> None:
    async with ends() as editor:
        for wrong in (b'{"id": [], "result": 1}', b'{"id": 0, "error": "x"}', b'{"id": {}, "error": {}}'):
            os.write(editor.write_to, wrong + b"\n")
        os.write(editor.write_to, b'{"id": 0, "error": {"code": 1}}\n')
        assert await editor.transport.receive() == {"id": 0, "error": {"code": 1}}


async def test_while_the_editor_is_slow_nothing_waits_and_nothing_is_lost() -> None:
    async with ends() as editor:
        editor.transport.post({"method": "large", "params": "x" * 1_000_000})  # more than a pipe takes
        for number in range(100):
            editor.transport.post({"method": str(number)})
        found: list[dict[str, Any]] = []
        while len(found) < 101:
            found += await asyncio.to_thread(editor.read)
        assert [each["method"] for each in found] == ["large", *map(str, range(100))]


async def test_an_editor_that_does_not_read_at_all_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(acp_server, "MAX_WAITING_BYTES", 10_000)
    async with ends() as editor:
        editor.transport.post({"method": "large", "params": "x" * 1_000_000})
        await asyncio.wait_for(editor.transport.lost.wait(), PATIENCE_S)


@pytest.mark.parametrize("place", ["file", os.devnull])
async def test_files_are_refused(tmp_path: Path, place: str) -> None:
    with (tmp_path / place).open("w+b") as file, pytest.raises(UsageError, match="not a pipe"):
        await editor_transport(file.fileno(), file.fileno())
