from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

from lmtui.core.messages import Completion, ToolCallFormat, ToolSet, ToolSpec
from lmtui.models.stream_accumulator import StreamAccumulator
from lmtui.tools.registry import ToolRegistry
from tests.models.parsing.cases import tool
from tests.models.parsing.reading import calls_of, read
from tests.sets import depth, for_each

CORPUS = Path(__file__).parents[2] / "corpus"
FOUR = (tool("ls", "", "path"), tool("read", "path"), tool("write", "path content"), tool("shell", "command"))
SCHEMAS: dict[str, tuple[ToolSpec, ...]] = {
    "t4": FOUR, "t5d": (*FOUR, tool("done", "answer")),
    "t6": (*FOUR, tool("edit", "path old new"), tool("grep", "pattern", "path")),
}  # fmt: skip


def rows(name: str) -> dict[str, Any]:
    lines = (CORPUS / name).read_text(encoding="utf-8").splitlines()
    return {row["id"]: row for row in map(json.loads, lines)}


MESSAGES = rows("messages-1.jsonl") | rows("messages-2.jsonl")
EXPECTED = rows("messages_expected.jsonl")


def form_of(row: dict[str, Any]) -> ToolCallFormat:
    return {"native": ToolCallFormat.NATIVE, "text": ToolCallFormat.TEXT, "json": ToolCallFormat.SCHEMA}[row["mode"]]


def streamed(row: dict[str, Any], hidden: tuple[ToolSpec, ...] = ()) -> Completion:
    numbers = iter(range(100))
    tools = (*SCHEMAS[row["schema"]], *hidden)
    assembler = StreamAccumulator(lambda: f"c{next(numbers)}", lambda: 0.0, tools, form_of(row))
    for delta in row["deltas"]:
        assembler.feed(json.dumps({"choices": [{"index": 0, "delta": delta}]}))
    assembler.feed(json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": row["finish_reason"]}]}))
    return assembler.finish()[1]


@for_each("key", MESSAGES)
def test_a_real_message_as_it_was_streamed(key: str) -> None:
    message = streamed(MESSAGES[key]).message
    calls = [[call.name, json.loads(call.arguments)] for call in message.tool_calls if is_whole(call.arguments)]
    assert (calls, message.text) == (EXPECTED[key]["calls"], EXPECTED[key]["text"])


def is_whole(arguments: str) -> bool:
    try:
        return isinstance(json.loads(arguments), dict)
    except ValueError:
        return False


@for_each("key", [key for key, row in MESSAGES.items() if not row["message"].get("tool_calls")])
def test_a_real_message_cut_anywhere(key: str) -> None:
    row = MESSAGES[key]
    text, tools, is_cut = row["message"].get("content") or "", SCHEMAS[row["schema"]], row["finish_reason"] == "length"
    whole, _, is_over = read([text], tools, form_of(row), is_cut=is_cut)
    assert ([list(call) for call in calls_of(whole)], whole.text) == (EXPECTED[key]["calls"], EXPECTED[key]["text"])
    for at in range(1 + len(text) % depth(32, 1), len(text), depth(32, 1)):
        found, _, ended = read([text[:at], text[at:]], tools, form_of(row), is_cut=is_cut)
        assert (found, ended) == (whole, is_over), f"cut at {at}"


def test_what_calls_nothing_says_why_and_what_was_meant_is_told_the_model() -> None:
    for key, expected in EXPECTED.items():
        assert bool(expected["calls"]) != bool(expected.get("why")) or expected["why"] == "the last call is cut"
        told = streamed(MESSAGES[key]).problem
        is_answer = expected.get("why") in ("no call", "the answer")
        assert bool(told) != (is_answer or bool(expected["calls"])) or "no such tool" in told, key


def test_every_message_has_its_expected_result_and_hidden_tools_add_the_one_call_that_was_meant() -> None:
    hidden = ToolRegistry().specs(ToolSet.HIDDEN)
    found = [call for row in MESSAGES.values() for call in streamed(row, hidden).message.tool_calls]
    known = [call for row in MESSAGES.values() for call in streamed(row).message.tool_calls]
    more = [
        (call.name, call.arguments)
        for call in found
        if (call.name, call.arguments) not in {(c.name, c.arguments) for c in known}
    ]
    assert (len(found), more) == (len(known) + 1, [("rename", '{"source": "old.txt", "destination": "new.txt"}')])
    assert (MESSAGES.keys(), len(MESSAGES)) == (EXPECTED.keys(), 285)
    assert all(first != second for first, second in pairwise(MESSAGES))
