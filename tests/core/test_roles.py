from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ConfigError
from lmtui.core.roles import ModelRole, RoleModel, parse_roles, unasked_roles, with_role
from tests.sets import for_each


@for_each(("text", "role", "model"), [
    ("planner: qwen3-14b temperature=0.2", ModelRole.PLANNER, RoleModel("qwen3-14b", temperature=0.2)),
    ("vision:qwen2.5-vl:7b", ModelRole.VISION, RoleModel("qwen2.5-vl:7b")),
    ("Coder :  seed=7 top_p=0.9 repeat_penalty=1.1", ModelRole.CODER, RoleModel("", None, 0.9, 7, 1.1)),
    (
        "analyst: a context_length=16384 max_completion=900",
        ModelRole.ANALYST,
        RoleModel("a", context_length=16384, max_completion=900),
    ),
    ("embedder: e", ModelRole.EMBEDDER, RoleModel("e")),
    ("title: org/small@q4 seed=0", ModelRole.TITLE, RoleModel("org/small@q4", seed=0)),
])  # fmt: skip
def test_an_entry_names_a_role_a_model_and_settings_of_its_own(text: str, role: ModelRole, model: RoleModel) -> None:
    assert parse_roles([text]) == {role: model}


def test_a_later_entry_changes_of_a_role_only_what_it_says() -> None:
    found = parse_roles(["planner: a temperature=0.2 context_length=8192", "planner: b seed=3"])
    assert found == {ModelRole.PLANNER: RoleModel("b", 0.2, seed=3, context_length=8192)}


def test_another_model_for_a_role_leaves_the_rest_of_the_entries() -> None:
    texts = ("planner: a temperature=0.2", "title: b", "Planner : context_length=8192")
    assert with_role(texts, ModelRole.PLANNER, "c") == ("title: b", "planner: c temperature=0.2 context_length=8192")
    assert with_role(texts, ModelRole.PLANNER, "") == ("title: b", "planner: temperature=0.2")
    assert with_role(texts, ModelRole.TITLE, "") == (texts[0], texts[2])
    assert with_role((), ModelRole.VISION, "v") == ("vision: v",)


def test_roles_that_nothing_asks_yet_are_named() -> None:
    assert unasked_roles(parse_roles(["planner: a", "pilot: b", "embedder: c"])) == (
        "roles: nothing uses pilot yet; the setting is checked, but has no effect"
    )
    assert not unasked_roles(parse_roles(["planner: a"]))


@for_each(("text", "words", "hint"), [
    ("planner qwen", "has no colon", "planner: NAME"),
    ("boss: qwen", "names no role", "planner, coder, reviewer, pilot, analyst, summariser, title, vision, embedder"),
    ("coder:", "names nothing", "planner: NAME"),
    ("coder: a b", "names two models", "planner: NAME"),
    ("coder: a heat=1", "sets 'heat'", "temperature, top_p, repeat_penalty, seed, context_length, max_completion"),
    ("coder: a temperature=3", "temperature cannot be '3'", "a number from 0 to 2"),
    ("coder: a temperature=nan", "temperature cannot be 'nan'", "a number from 0 to 2"),
    ("coder: a temperature=", "temperature cannot be ''", "a number from 0 to 2"),
    ("coder: a seed=1.5", "seed cannot be '1.5'", "a whole number from 0"),
    ("pilot: a context_length=100", "context_length cannot be '100'", "a whole number from 512"),
    ("title: a max_completion=0", "max_completion cannot be '0'", "a whole number from 1"),
    ("planner: context_length=8192", "without a model", "Name the model"),
    ("coder: a seed=-1", "seed cannot be '-1'", "a whole number from 0"),
])  # fmt: skip
def test_what_cannot_be_read_is_named_with_the_way_out(text: str, words: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_roles([text])
    assert text in str(caught.value)
    assert hint in caught.value.hint


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert len(parse_roles([text])) == 1
