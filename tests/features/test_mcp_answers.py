from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.errors import McpError
from lmtui.core.sanitize import Redactor
from lmtui.core.tool_servers import ask_nobody
from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.values import ConnectionHooks, ServerAddress
from tests.sets import Late, for_each
from tests.waiting import PATIENCE_S

sdk: Any = Late("lmtui.features.mcp.sdk")
GOOD = {"name": "echo", "inputSchema": {"type": "object"}}


class PaperServed:
    """A server program whose answer to a call is raw bytes, with `ID` for the number of the call."""

    place = "nowhere"

    def __init__(self, tools: list[Any], answer: bytes) -> None:
        self._tools, self._answer = tools, answer
        self._said = asyncio.Queue[bytes]()

    async def read(self) -> bytes:
        return await self._said.get()

    async def write(self, data: bytes) -> None:
        asked = json.loads(data)
        answers: dict[str, Callable[[], Any]] = {
            "initialize": lambda: {
                "protocolVersion": asked["params"]["protocolVersion"], "capabilities": {"tools": {}},
                "serverInfo": {"name": "paper", "version": "1"},
            },
            "tools/list": lambda: {"tools": self._tools},
        }  # fmt: skip
        if asked["method"] == "tools/call":
            self._said.put_nowait(self._answer.replace(b"ID", str(asked["id"]).encode()))
            self._said.put_nowait(b"\n")
        elif "id" in asked and asked["method"] in answers:
            result = {"jsonrpc": "2.0", "id": asked["id"], "result": answers[asked["method"]]()}
            self._said.put_nowait(json.dumps(result).encode() + b"\n")
        elif "id" in asked:
            error = {"jsonrpc": "2.0", "id": asked["id"], "error": {"code": -32601, "message": "no such method"}}
            self._said.put_nowait(json.dumps(error).encode() + b"\n")

    async def close(self) -> None:
        self._said.put_nowait(b"")


async def called(tools: list[Any], answer: bytes) -> tuple[list[str], str]:
    """Return the names of the tools, and what a call says."""
    address = ServerAddress(Path(), PaperServed(tools, answer))
    hooks = ConnectionHooks(lambda _: None, ask_nobody, lambda _: asyncio.sleep(0), Redactor(()))
    entry = ServerEntry("paper", "here", is_own=True)
    async with sdk.connect(entry, address, hooks) as server, asyncio.timeout(PATIENCE_S):
        names = [tool.name for tool in await server.list_tools()]
        try:
            return names, (await server.call("echo", {}, lambda _: None)).text
        except McpError as error:
            return names, f"{type(error).__name__}: {error}"


@for_each(("text", "expected"), [
    (rb'"caf\xe9"', "caf\ufffd"), (rb'"\ud83d!"', "?!"), ('"ä"'.encode(), "ä"),
    (b'"a\tb"', "a\tb"), (b'"cut off', "not a valid message"),
])  # fmt: skip
async def test_an_answer_of_any_bytes_is_an_answer_or_an_error_at_once(text: bytes, expected: str) -> None:
    sent = text.replace(rb"\xe9", b"\xe9")
    answer = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":' + sent + b"}]}}"
    assert expected in (await called([GOOD], answer))[1]


async def test_an_answer_that_is_not_one_or_too_long_is_an_error_of_its_call_at_once() -> None:
    names, said = await called([{"name": "no type", "inputSchema": {}}, GOOD], b'{"id":ID,"result":{}}')
    assert ("it is not a valid message" in said, names) == (True, ["no type", "echo"])
    assert "over 33,554,432 bytes" in (await called([GOOD], bytes(33_554_433)))[1]


@for_each(("tool", "where"), [
    ({"title": "no name", "inputSchema": {"type": "object"}}, "tools.0.name"), ("text", "tools.0"),
    ({"name": "odd", "inputSchema": {"type": "array"}}, "tools.0.inputSchema.type"),
])  # fmt: skip
async def test_a_list_that_the_protocol_does_not_allow_is_an_error_that_says_where(tool: object, where: str) -> None:
    with pytest.raises(McpError, match=f"does not list its tools: its answer breaks the protocol: {where}"):
        await called([tool, GOOD], b"")


@for_each("result", [b"{}", b'{"content":"a"}', b'{"content":[{"type":"map"}]}'])
async def test_a_result_that_the_protocol_does_not_allow_is_an_error_of_its_call(result: bytes) -> None:
    said = (await called([GOOD], b'{"jsonrpc":"2.0","id":ID,"result":' + result + b"}"))[1]
    assert said.startswith("McpError: its answer breaks the protocol")


async def test_a_servers_own_error_is_told_and_its_connection_stays() -> None:
    answer = b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no rows"}}'
    assert await called([GOOD], answer) == (["echo"], "McpError: no rows")
