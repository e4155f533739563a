from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.lenient_json import objects_in, read_loose_json, strings_so_far
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


def test_the_strings_of_an_object_are_known_while_it_is_written() -> None:
    text = '{"name": "write", "arguments": {"path": "a.py", "is": true, "content": "x = \\"path\\": \\u00e9\\n  y'
    found = {"name": "write", "path": "a.py", "content": 'x = "path": é\n  y'}
    assert strings_so_far(text) == (found, "content")
    for cut in ("\\", "\\u00", "\\u"):
        assert strings_so_far(text + cut) == (found, "content")
    assert (strings_so_far(text + '"}}'), strings_so_far('{"path": "a.')) == ((found, ""), ({"path": "a."}, "path"))
    assert strings_so_far('{"path": "a.py", "cont') == ({"path": "a.py"}, "")


@given(st.dictionaries(st.text(max_size=4), st.text(), max_size=4), st.integers(0, 200))
def test_what_is_known_of_an_object_is_the_beginning_of_what_it_says(value: dict[str, str], size: int) -> None:
    found, _ = strings_so_far(json.dumps(value)[:size])
    for name, text in found.items():
        assert next(text_of for key, text_of in value.items() if json.dumps(key)[1:-1] == name).startswith(text[:-1])
