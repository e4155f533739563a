from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.lenient_json import objects_in, read_loose_json
from tests.sets import for_each


@pytest.mark.parametrize(("text", "value"), [
    ('{"a": "x,]", "b": [1,],}', {"a": "x,]", "b": [1]}), ('```json\n{"a": 1}\n```', {"a": 1}),
    ("Here it is:\n```\n[1, 2,]\n```\nand more", [1, 2]), ('{"a": "```py\nx = 1\n```"}', {"a": "```py\nx = 1\n```"}),
])  # fmt: skip
def test_what_is_safe_is_passed_over(text: str, value: object) -> None:
    assert read_loose_json(text) == value


@for_each("text", ["", "no", '{"a": "cut', '{"a": [1', "[" * 100_000, "1" * 5_000])
def test_what_is_cut_or_none_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a complete JSON value"):
        read_loose_json(text)


def test_objects_are_found_in_the_fence_that_holds_the_word() -> None:
    text = 'See {x}.\n```\n{"a": 1}\n```\nthen\n```\nfirst {"steps": []} and {"b": 2,}\n```'
    assert next(objects_in(text, "steps")) == {"steps": []}
    assert {"b": 2} in objects_in(text, "steps")
    assert {"a": 1} not in objects_in(text, "steps")


@pytest.mark.parametrize("text", ["```" + "\n" * 40_000, '"' + '\\"x' * 20_000, ("," + " " * 100) * 500])
def test_what_never_ends_is_looked_through_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ValueError, match="not a complete JSON value"):
        read_loose_json(text)
    assert list(objects_in(text, "x")) == []
    assert time.process_time() - begun < 3.0


@given(st.text('{}[]",:a1 \\\n`', max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    try:
        found = read_loose_json(text)
    except ValueError:
        return
    assert found is None or isinstance(found, str | int | float | list | dict)
