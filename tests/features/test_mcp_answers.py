from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

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


async def test_an_answer_without_a_version_is_one_and_one_that_is_too_long_is_said_to_be() -> None:
    assert (await called([GOOD], b'{"id":ID,"result":{}}'))[1] == "(the tool returned nothing)"
    assert "over 33,554,432 bytes" in (await called([GOOD], bytes(33_554_433)))[1]


@for_each("odd", [
    {}, None, {"$schema": "http://json-schema.org/draft-07/schema#"}, {"type": ["object"]}, {"properties": [1]},
    {"properties": {"a": "string"}}, {"required": "a"}, {"required": ["a", 1]}, {"$schema": 5},
    {"$schema": None, "properties": None, "required": None},
])  # fmt: skip
async def test_a_tool_with_an_odd_schema_takes_no_other_away(odd: object) -> None:
    tools = [{"name": "odd", "inputSchema": odd, "outputSchema": odd, "annotations": 3}, {"title": "no name"}, "text", GOOD]
    answer = b'{"jsonrpc":"2.0","id":ID,"result":{"content":[{"type":"text","text":"got it"}]}}'
    assert await called(tools, answer) == (["odd", "echo"], "got it")


@for_each(("result", "expected"), [
    (b'{"content":null}', "(the tool returned nothing)"), (b'{"content":"a"}', "a"),
    (b'{"structuredContent":[1],"isError":null}', '{"result": [1]}'),
    (b'{"content":["a",{"type":"text","text":null},{"text":"b"}]}', "a\n[a part of type text]\nb"),
    (b'{"content":[{"type":"map"},{"type":"text","text":"b","annotations":1}]}', "[a part of type map]\nb"),
])  # fmt: skip
async def test_an_odd_part_of_a_result_costs_no_other(result: bytes, expected: str) -> None:
    assert (await called([GOOD], b'{"id":ID,"result":' + result + b"}"))[1] == expected


async def test_a_servers_own_error_is_told_and_its_connection_stays() -> None:
    answer = b'{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"no rows"}}'
    assert await called([GOOD], answer) == (["echo"], "McpError: no rows")
