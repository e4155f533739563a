from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import MOST_LEVELS, fit_values, objects_in, read_loose_json
from lmtui.core.subagents import ChildKind, read_manifest
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


@for_each("text", ["```" + "\n" * 40_000, '"' + '\\"x' * 20_000, ("," + " " * 100) * 500])
def test_what_never_ends_is_looked_through_once(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(ValueError, match="not a complete JSON value"):
        read_loose_json(text)
    assert list(objects_in(text, "x")) == []
    assert time.process_time() - begun < 3.0


def nested(levels: int) -> object:
    value: object = "x"
    for number in range(levels):
        value = [value] if number % 2 else {"a": value}
    return value


@pytest.mark.parametrize("levels", [MOST_LEVELS + 1, 400, 900])
def test_what_is_nested_too_deep_is_refused_and_what_is_not_stays(levels: int) -> None:
    deep = nested(MOST_LEVELS)
    assert fit_values("t", {"a": deep}) == {"a": deep}
    with pytest.raises(ToolError, match="nested more than"):
        fit_values("t", {"a": nested(levels)})


TWO: list[dict[str, object]] = [
    {"task_id": "a", "objective": "make it", "deliverable": {"type": "file", "path": "a.md"}},
    {"task_id": "b", "objective": "use it", "depends_on": ["a"]},
]


@for_each("value", [
    TWO, {"tasks": TWO}, json.dumps(TWO), json.dumps({"tasks": TWO}), f"```json\n{json.dumps(TWO)}\n```",
    json.dumps(TWO).replace("}]", "},]"), {"tasks": json.dumps(TWO)},
])  # fmt: skip
def test_manifest_is_read_in_whatever_form(value: object) -> None:
    first, second = read_manifest(value)
    assert (first.task_id, first.deliverable.paths) == ("a", ("a.md",))
    assert (second.objective, second.depends_on) == ("use it", ("a",))


def test_halves_of_pairs_go_and_words_alone_are_tasks_of_a_manifest() -> None:
    given: dict[str, object] = {"a\ud800": ["\ud83d\ude00", {"\udc00": "b\udfff"}, 3, None, True]}
    assert fit_values("t", given) == {"a\ufffd": ["\U0001f600", {"\ufffd": "b\ufffd"}, 3, None, True]}
    named, plain = read_manifest([{**TWO[0], "agent": " heron "}, TWO[1]])
    assert (named.agent, plain.agent) == ("heron", "")
    assert named.title.startswith("a heron: ")
    briefs = read_manifest(["one", {"objective": "two", "read_only": True}])
    assert [(brief.task_id, brief.objective, brief.kind) for brief in briefs] == [
        ("t1", "one", ChildKind.WORK), ("t2", "two", ChildKind.EXPLORE),
    ]  # fmt: skip


@for_each(("value", "words"), [
    ([], "has no tasks"), ("no json {", "not a complete JSON value at line 1"), (7, "not a list of tasks but int"),
    ([7], "task 1 is not an object"), ([{"task_id": "a"}], "task a has no objective"),
    ([{"objective": "x" * 5000}], "5,000 characters"), ([{"objective": "x"}] * 9, "9 tasks, at most 8"),
    ([TWO[0], TWO[0]], "two tasks are called a"),
    ([{"task_id": "a", "objective": "x", "depends_on": ["a"]}], "depends on itself"),
    ([{"task_id": "a", "objective": "x", "depends_on": ["z"]}], "depends on z, which is not a task"),
    ([{**TWO[0], "depends_on": ["b"]}, TWO[1]], "in a circle: a → b → a"),
    ([{"objective": "x", "deliverable": {"type": "song"}}], "of task t1 is of type 'song'"),
    ([{"objective": "x", "deliverable": {"type": "file"}}], "of task t1 is a file and has no path"),
])  # fmt: skip
def test_bad_manifest_has_an_error_of_its_own(value: object, words: str) -> None:
    with pytest.raises(ToolError, match=words):
        read_manifest(value)


@given(
    st.recursive(
        st.none() | st.text(max_size=8) | st.integers() | st.booleans(),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(
                st.sampled_from(["task_id", "objective", "deliverable", "depends_on", "path", "type", "tasks"]),
                inner,
                max_size=4,
            )
        ),
    )
)
def test_whatever_a_model_sends_is_read_or_refused(value: object) -> None:
    try:
        briefs = read_manifest(value)
    except ToolError:
        return
    assert 1 <= len(briefs) <= 8
