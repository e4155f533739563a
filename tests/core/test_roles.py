from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import ConfigError
from lmtui.core.roles import ModelRole, RoleModel, parse_roles


@pytest.mark.parametrize(
    ("text", "role", "model"),
    [
        ("planner: qwen3-14b temperature=0.2", ModelRole.PLANNER, RoleModel("qwen3-14b", temperature=0.2)),
        ("vision:qwen2.5-vl:7b", ModelRole.VISION, RoleModel("qwen2.5-vl:7b")),
        ("Coder :  seed=7 top_p=0.9 repeat_penalty=1.1", ModelRole.CODER, RoleModel("", None, 0.9, 7, 1.1)),
        ("title: org/small@q4 seed=0", ModelRole.TITLE, RoleModel("org/small@q4", seed=0)),
    ],
)
def test_an_entry_names_a_role_a_model_and_settings_of_its_own(text: str, role: ModelRole, model: RoleModel) -> None:
    assert parse_roles([text]) == {role: model}


def test_the_later_of_two_entries_for_a_role_holds() -> None:
    assert parse_roles(["planner: a", "title: b", "planner: c"]) == {
        ModelRole.PLANNER: RoleModel("c"),
        ModelRole.TITLE: RoleModel("b"),
    }


@pytest.mark.parametrize(
    ("text", "words", "hint"),
    [
        ("planner qwen", "has no colon", "planner: NAME"),
        ("boss: qwen", "names no role", "planner, coder, reviewer, summariser, title, vision"),
        ("pilot: qwen", "names no role", "planner, coder, reviewer, summariser, title, vision"),
        ("coder:", "names nothing", "planner: NAME"),
        ("coder: a b", "names two models", "planner: NAME"),
        ("coder: a heat=1", "sets 'heat'", "temperature, top_p, repeat_penalty, seed"),
        ("coder: a temperature=3", "temperature cannot be '3'", "a number from 0 to 2"),
        ("coder: a temperature=nan", "temperature cannot be 'nan'", "a number from 0 to 2"),
        ("coder: a temperature=", "temperature cannot be ''", "a number from 0 to 2"),
        ("coder: a seed=1.5", "seed cannot be '1.5'", "a whole number from 0"),
        ("coder: a seed=-1", "seed cannot be '-1'", "a whole number from 0"),
    ],
)
def test_what_cannot_be_read_is_named_with_the_way_out(text: str, words: str, hint: str) -> None:
    with pytest.raises(ConfigError, match=words) as caught:
        parse_roles([text])
    assert text in str(caught.value)
    assert hint in caught.value.hint


@given(st.text())
def test_any_text_is_read_or_refused(text: str) -> None:
    with suppress(ConfigError):
        assert len(parse_roles([text])) == 1
