from __future__ import annotations

import json
from dataclasses import asdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ToolError
from lmtui.core.proposals import FORM, Proposal, find_proposal, read_proposal
from tests.core.plans import proposals
from tests.sets import for_each

WHOLE = {"title": "Nested comments", "goal": "The lexer accepts them.", "steps": [
    {"id": 1, "description": "Count the depth", "files": ["lexer.py"], "risk": "medium"},
    {"id": 2, "description": "Test it", "commands": ["pytest -q"], "verification": "it passes", "depends_on": [1]},
], "risks": ["positions may move"]}  # fmt: skip


@given(proposals())
def test_a_plan_as_an_object_is_read_back(proposal: Proposal) -> None:
    steps = [{**asdict(step), "description": step.text} for step in proposal.steps]
    given_as = {"title": proposal.title, "goal": proposal.goal, "steps": steps, "risks": list(proposal.risks)}
    found = read_proposal(json.loads(json.dumps(given_as)))
    assert [step.id for step in found.steps] == [step.id for step in proposal.steps]
    assert [step.depends_on for step in found.steps] == [step.depends_on for step in proposal.steps]
    assert [(step.files, step.commands, step.risk) for step in found.steps] == [
        (step.files, step.commands, step.risk) for step in proposal.steps
    ]


@for_each("given", [
    WHOLE, {"plan": WHOLE}, {"plan": json.dumps(WHOLE)}, {**WHOLE, "steps": json.dumps(WHOLE["steps"])},
    {**WHOLE, "steps": f"```json\n{json.dumps(WHOLE['steps'])}\n```"},
    {**WHOLE, "steps": json.dumps(WHOLE["steps"]).replace("}]", "},]")},
])  # fmt: skip
def test_the_same_plan_in_other_wrappings_is_the_same(given: dict[str, object]) -> None:
    assert read_proposal(given) == read_proposal(WHOLE)


@for_each("text", [
    json.dumps(WHOLE), f"Here is my plan:\n```json\n{json.dumps(WHOLE, indent=2)}\n```\nShall I go on?",
    f"Sure. {json.dumps(WHOLE)} That is all.",
    json.dumps(WHOLE).replace('["positions may move"]}', '["positions may move",],}'),
    f'The lexer uses {{braces}} and {{"a": 1}}. {json.dumps(WHOLE)}',
])  # fmt: skip
def test_a_plan_in_an_answer_is_found(text: str) -> None:
    assert find_proposal(text) == read_proposal(WHOLE)


@for_each("text", ["", "I would do it in three steps: a, b, c.", "{not: json}", 'see {"path": "a"}', "steps: 1"])
def test_other_words_are_no_plan(text: str) -> None:
    assert find_proposal(text) is None


def test_plain_sentences_are_steps_without_their_marks() -> None:
    found = read_proposal({"title": "t", "steps": ["1. read the file", "- change it", "Step 3: test it"]})
    assert [(step.id, step.text) for step in found.steps] == [(1, "read the file"), (2, "change it"), (3, "test it")]
    assert [step.text for step in read_proposal({"steps": "1. one\n2. two\n"}).steps] == ["one", "two"]


@pytest.mark.parametrize("after", [["step-a"], "step-a", ["STEP-A "], [1]])
def test_ids_in_words_become_numbers(after: object) -> None:
    steps = [{"id": "step-a", "task": "first"}, {"id": "step-b", "task": "second", "dependencies": after}]
    assert [(step.id, step.depends_on) for step in read_proposal({"title": "t", "steps": steps}).steps] == [(1, ()), (2, (1,))]


@for_each(("given", "words"), [
    ({}, "no steps"),
    ({"title": "t", "steps": []}, "no steps"),
    ({"title": "t", "steps": 7}, "no steps"),
    ({"title": "t", "steps": '[{"id": 1, "text": "cut'}, "not a complete JSON list"),
    ({"title": "t", "steps": '[{"id": 1, "text": "a"}, {"id": 2, "te'}, "not a complete JSON list"),
    ({"title": "t", "steps": [{"text": "a", "depends_on": [5]}]}, "'5', which is not a step"),
    ({"title": "t", "steps": [{"id": "a", "text": "a"}, {"id": "a", "text": "b"}]}, "ids a occur more than once"),
    (
        {"title": "t", "steps": [{"id": 1, "text": "a", "depends_on": [2]}, {"id": 2, "text": "b", "depends_on": [1]}]},
        "wait",
    ),
    ({"title": "t", "steps": [{"id": 1}]}, "step 1 has no description"),
])  # fmt: skip
def test_what_is_no_plan_is_answered_with_the_form(given: dict[str, object], words: str) -> None:
    with pytest.raises(ToolError) as caught:
        read_proposal(given)
    assert words in str(caught.value)
    assert FORM in caught.value.full_text()


@pytest.mark.parametrize("text", ['{"title": "t", "steps": [{"id": 1, "description": "cut of', '{"steps": [}'])
def test_a_plan_that_is_cut_is_said_to_be(text: str) -> None:
    with pytest.raises(ToolError, match="not a complete JSON object"):
        find_proposal(text)


@pytest.mark.parametrize(("written", "text"), [
    ("1. Upgrade to Python 3.11 and go", "Upgrade to Python 3.11 and go"), ("Step 2: bump it to 2.0", "bump it to 2.0"),
    ("Write a - b: done", "Write a - b: done"), ("3.11 is dropped", "3.11 is dropped"),
])  # fmt: skip
def test_only_a_number_in_front_of_a_step_is_taken_off(written: str, text: str) -> None:
    found = read_proposal({"title": "t", "steps": [{"id": 1, "description": written}, written]})
    assert [step.text for step in found.steps] == [text, text]


def test_a_step_with_an_endless_id_is_a_step() -> None:
    assert [step.id for step in read_proposal({"title": "t", "steps": [{"id": "1" * 5000, "text": "a"}]}).steps] == [1]


def test_the_form_itself_is_a_plan() -> None:
    assert find_proposal(FORM) is not None


@given(st.text(max_size=200) | st.text('{}[]",:stepsid1 \n', max_size=200))
def test_no_text_breaks_the_reading(text: str) -> None:
    try:
        found = find_proposal(text)
    except ToolError:
        return
    assert found is None or found.steps


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["id", "text", "steps", "depends_on", "plan"]), inner)
    ),
    max_leaves=12,
)


@given(JSON, JSON)
def test_no_arguments_break_the_reading(steps: object, after: object) -> None:
    try:
        found = read_proposal({"title": "t", "steps": steps, "risks": after, "plan": after})
    except ToolError:
        return
    assert found.steps
