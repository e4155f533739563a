from __future__ import annotations

import time
from typing import Any
from unittest.mock import AsyncMock

import pytest

from lmtui.core.errors import ToolError, UsageError
from lmtui.features.call_arguments import BroughtCall, fitted, read_arguments
from lmtui.json_schema import JsonAnswer, problems
from tests.sets import for_each

SCHEMA: dict[str, Any] = {"type": "object", "properties": {
    "path": {"type": "string"}, "count": {"type": "integer", "minimum": 1},
    "tags": {"type": "array", "items": {"type": "string"}}, "kind": {"enum": ["a", "b"]},
}, "required": ["path"], "additionalProperties": False}  # fmt: skip


@for_each(("arguments", "words"), [
    ({"path": "x"}, ()), ({"path": "x", "count": 2, "tags": ["a"], "kind": "a"}, ()),
    ({}, ("arguments: 'path' is a required property",)),
    ({"path": 3}, ("path: 3 is not of type 'string'",)),
    ({"path": "x", "count": 0}, ("count: 0 is less than the minimum of 1",)),
    ({"path": "x", "tags": ["a", 3]}, ("tags.1: 3 is not of type 'string'",)),
    ({"path": "x", "kind": "c"}, ("kind: 'c' is not one of ['a', 'b']",)),
    ({"path": "x", "odd": 1}, ("arguments: Additional properties are not allowed ('odd' was unexpected)",)),
])  # fmt: skip
def test_what_does_not_fit_is_named_with_its_place(arguments: dict[str, Any], words: tuple[str, ...]) -> None:
    assert problems(SCHEMA, arguments) == words


@for_each("schema", [
    {"type": "nonsense"}, {"properties": {"a": {"$ref": "https://x.example/s.json"}}},
    {"$ref": "#/$defs/none"}, {"properties": 3},
])  # fmt: skip
def test_a_schema_that_cannot_be_used_refuses_nothing_and_reaches_nothing(schema: dict[str, Any]) -> None:
    assert problems(schema, {"a": 1}) == ()


def brought(schema: dict[str, Any], arguments: dict[str, Any]) -> BroughtCall:
    return BroughtCall("t", arguments, schema, {}, AsyncMock())


def doubling(levels: int) -> dict[str, Any]:
    steps = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return {"$defs": {**steps, f"d{levels}": {"type": "string"}}, "properties": {"a": {"$ref": "#/$defs/d0"}}}


@pytest.mark.full
async def test_a_schema_that_takes_for_ever_is_given_up() -> None:
    with pytest.raises(ToolError, match="invalid arguments for t: a: 1 is not valid"):
        await brought(doubling(4), {"a": 1})._check()
    began = time.process_time()
    await brought(doubling(40), {"a": 1})._check()
    await brought({"patternProperties": {"(b+)+$": {}}, "additionalProperties": False}, {"b" * 40 + "!": 1})._check()
    assert time.process_time() - began < 1


@for_each("name", ["pattern", "format", "patternProperties", "properties", "enum"])
def test_an_argument_may_be_called_like_a_word_of_schemas(name: str) -> None:
    schema = {"properties": {name: {"type": "string", "pattern": "(a+)+$"}}, "additionalProperties": False}
    assert problems(schema, {name: "a" * 40 + "!"}) == ()
    assert problems(schema, {name: 3}) == (f"{name}: 3 is not of type 'string'",)


@for_each(("kind", "value", "expected"), [
    ("integer", "3", 3), ("integer", "3.5", "3.5"), ("integer", "true", "true"),
    ("number", "3.5", 3.5), ("boolean", "True", True), ("boolean", "1", "1"),
    ("array", '["a"]', ["a"]), ("object", '{"a": 1}', {"a": 1}), ("object", "no", "no"),
    ("string", "3", "3"), (None, "3", "3"),
])  # fmt: skip
def test_texts_become_what_the_schema_wants(kind: str | None, value: str, expected: object) -> None:
    found = fitted({"x": value}, {"properties": {"x": {"type": kind}}})["x"]
    assert found == expected
    assert type(found) is type(expected)


@for_each("depth", [100, 300, 900, 5_000, 100_000])
def test_arguments_that_are_nested_too_deep_are_refused_in_words_and_a_text_is_no_list(depth: int) -> None:
    for text in ('{"a":' + "[" * depth + "]" * depth + "}", '{"a":' * depth + "1" + "}" * depth):
        with pytest.raises(ToolError, match=r"not JSON|nested more than"):
            read_arguments("mcp__a__b", text)
    for text in ("[" * depth, "[" * depth + "]" * depth):
        assert fitted({"a": text}, {"properties": {"a": {"type": "array"}}}) == {"a": text}


def test_arguments_lose_halves_of_characters_that_no_server_takes() -> None:
    assert read_arguments("t", '{"a": "\\ud800x"}') == {"a": "\ufffdx"}
    assert read_arguments("t", "  ") == {}
    with pytest.raises(ToolError, match="not a JSON object"):
        read_arguments("t", "[1]")


def test_an_answer_that_does_not_fit_is_told_where_in_the_schema() -> None:
    form = JsonAnswer(SCHEMA)
    assert form.read('```json\n{"path": "x"}\n```') == ('{"path": "x"}', "")
    for text, why in (
        ('{"path": "x", "count": 0}', "the answer does not match the schema at #/properties/count/minimum: $.count: 0 is less"),
        ("{}", "at #/required: $: 'path' is a required property"), ("Done.", "the answer is not JSON alone: Expecting value"),
    ):  # fmt: skip
        assert why in form.read(text)[1].partition("\n")[0]
    for schema in ({"$ref": "#/nowhere"}, {"$ref": "https://example.org/x.json"}, {"$ref": "#"}):
        with pytest.raises(UsageError, match=r"^the schema cannot be used: \$ref: (?!\w+: )"):
            JsonAnswer(schema).read("{}")
