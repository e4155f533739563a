from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import UsageError
from lmtui.core.tool_servers import Field, Form, fields_of
from tests.sets import for_each


def fields(**properties: Any) -> dict[str, Field]:
    return {each.name: each for each in fields_of(Form("s", "why", {"properties": properties, "required": ["needed"]}))}


@for_each(("field", "text", "expected"), [
    (Field("a", "A"), "x", "x"), (Field("a", "A"), "", None), (Field("a", "A", default="d"), "", "d"),
    (Field("a", "A", "integer"), "3", 3), (Field("a", "A", "number"), "3.5", 3.5),
    (Field("a", "A", "integer", least=1, most=3), "3", 3), (Field("a", "A", most=3), "abc", "abc"),
])  # fmt: skip
def test_what_is_typed_becomes_the_value(field: Field, text: str, expected: object) -> None:
    assert field.read(text) == expected


@for_each(("field", "text"), [
    (Field("a", "A", "integer"), "x"), (Field("a", "A", "integer"), "3.5"), (Field("a", "A", "number", least=1), "0"),
    (Field("a", "A", "number", most=1), "2"), (Field("a", "A", most=3), "abcd"), (Field("a", "A", least=3), "ab"),
])  # fmt: skip
def test_what_does_not_fit_says_what_would(field: Field, text: str) -> None:
    with pytest.raises(UsageError, match="A: "):
        field.read(text)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)
    )
)
def test_any_schema_gives_questions_or_none(value: Any) -> None:
    schema = value if isinstance(value, dict) else {"properties": value}
    assert len(fields_of(Form("s", "t", schema))) <= 20
    assert len(fields_of(Form("s", "t", {"properties": {"x": value}}))) <= 1


def test_each_field_is_a_question_with_its_kind_words_and_bounds() -> None:
    found = fields(
        needed={"type": "string", "title": "Name", "description": "as in\x1b[31m the\u202e passport", "maxLength": 5},
        age={"type": "integer", "minimum": 0, "maximum": 150, "default": 30},
        yes={"type": "boolean", "default": True},
        plain={"type": "string", "enum": ["a", "b"]},
        named={"type": "string", "enum": ["a", "b"], "enumNames": ["Ay", "Bee"]},
        titled={"type": "string", "oneOf": [{"const": "a", "title": "Ay"}, {"const": "b"}]},
        several={"type": "array", "items": {"anyOf": [{"const": "x", "title": "Ex"}]}},
        odd={"type": "object"},
    )
    assert (found["needed"].title, found["needed"].note, found["needed"].is_required) == (
        "Name", "as in the<U+202E> passport", True,
    )  # fmt: skip
    assert (found["age"].kind, found["age"].default, found["age"].least, found["age"].most) == ("integer", 30, 0, 150)
    assert (found["plain"].choices, found["named"].choices) == ((("a", "a"), ("b", "b")), (("a", "Ay"), ("b", "Bee")))
    assert found["titled"].choices == (("a", "Ay"), ("b", "b"))
    assert ((found["several"].kind, found["several"].choices), found["odd"].kind) == (("array", (("x", "Ex"),)), "string")
    field = fields(age={"type": "number", "title": "Age", "minimum": 10**400})["age"]
    assert field.least is None
    for words in ("nan", "inf", "-1e999"):
        with pytest.raises(UsageError, match="a number, such as 3"):
            field.read(words)
    with pytest.raises(UsageError, match="Name: at least 3 characters"):
        fields(name={"title": "Name", "minLength": 3})["name"].read("ab")
