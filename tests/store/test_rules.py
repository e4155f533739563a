from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.app.folder_rules import StoredRule, add_rule, read_rules, remove_rule, rules_file
from lmtui.core.errors import ConfigError
from lmtui.core.permissions.rules import Effect, GrantScope


def texts(workspace: str) -> list[str]:
    return [rule.text for rule in read_rules(Path(workspace))]


def test_a_rule_is_removed_by_what_it_says_in_its_scope_and_nothing_else_is() -> None:
    for rule in ("Shell(a)", "Shell(a *)"):
        add_rule(Path("/w"), rule)
    add_rule(Path("/w"), "Shell(a)", GrantScope.USER)
    add_rule(Path("/w"), "Shell(a)", GrantScope.WORKSPACE, Effect.DENY)
    assert not remove_rule(Path("/w"), "Shell(b)", GrantScope.WORKSPACE)
    assert not remove_rule(Path("/other"), "Shell(a)", GrantScope.WORKSPACE)
    assert remove_rule(Path("/w"), "bash(a)", GrantScope.WORKSPACE)
    assert [(rule.text, rule.effect, rule.scope) for rule in read_rules(Path("/w"))] == [
        ("Shell(a *)", Effect.ALLOW, GrantScope.WORKSPACE),
        ("Shell(a)", Effect.DENY, GrantScope.WORKSPACE),
        ("Shell(a)", Effect.ALLOW, GrantScope.USER),
    ]
    assert not remove_rule(Path("/w"), "Shell(a)", GrantScope.WORKSPACE)


def test_rules_are_kept_by_folder_or_for_all_and_those_of_one_moment_too() -> None:
    add_rule(Path("/w/one"), "Shell(make test)")
    add_rule(Path("/w/one"), "bash(make test)")
    add_rule(Path('/w/"two"\n'), "Write(a.txt)")
    assert read_rules(Path("/w/one")) == (StoredRule(Effect.ALLOW, "Shell(make test)", GrantScope.WORKSPACE),)
    assert (texts('/w/"two"\n'), texts("/w/three")) == (["Write(a.txt)"], [])
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda number: add_rule(Path("/w"), f"Shell(make {number})"), range(24)))
    assert sorted(texts("/w")) == sorted(f"Shell(make {number})" for number in range(24))
    add_rule(Path("/w/one"), "Shell(ls *)", GrantScope.USER)
    add_rule(Path("/w/two"), "Shell(rm *)", GrantScope.WORKSPACE, Effect.DENY)
    assert read_rules(Path("/w/two")) == (
        StoredRule(Effect.DENY, "Shell(rm *)", GrantScope.WORKSPACE),
        StoredRule(Effect.ALLOW, "Shell(ls *)", GrantScope.USER),
    )
    assert texts("/w/three") == ["Shell(ls *)"]


def test_a_file_written_by_hand_is_read_and_is_for_the_user_alone_once_written() -> None:
    rules_file().parent.mkdir(parents=True)
    rules_file().write_text('["/w"]\nallow = "Shell(make)"\nask = ["Shell(git push)"]\n["*"]\ndeny = ["Read(.env)"]\n')
    assert [(rule.effect, rule.text) for rule in read_rules(Path("/w"))] == [
        (Effect.ALLOW, "Shell(make)"), (Effect.ASK, "Shell(git push)"), (Effect.DENY, "Read(.env)"),
    ]  # fmt: skip
    add_rule(Path("/w"), "Shell(a)")
    rules_file().chmod(0o644)
    add_rule(Path("/w"), "Shell(b)")
    assert rules_file().stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(
    "text", ['["/w"]\ndenny = ["Shell(rm)"]', '["/w"]\ndeny = [1]', 'deny = ["Shell(rm)"]', '["/w"]\nallow = 1']
)
def test_what_is_no_list_of_rules_is_told_and_not_taken_for_none(text: str) -> None:
    rules_file().parent.mkdir(parents=True)
    rules_file().write_text(text)
    with pytest.raises(ConfigError, match="not a list of rules"):
        read_rules(Path("/w"))
    with pytest.raises(ConfigError, match="not a list of rules"):
        remove_rule(Path("/w"), "Shell(x)", GrantScope.USER)
    assert rules_file().read_text() == text


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_rule_is_read_back_as_it_was(rule: str) -> None:
    rules_file().unlink(missing_ok=True)
    add_rule(Path("/w"), rule)
    assert texts("/w") == [rule]


def test_a_file_that_cannot_be_read_is_told_and_not_overwritten() -> None:
    rules_file().parent.mkdir(parents=True)
    rules_file().write_text("[[broken")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rules(Path("/w"))
    with pytest.raises(ConfigError, match="cannot be read"):
        add_rule(Path("/w"), "shell(a)")
    assert rules_file().read_text() == "[[broken"


def test_a_folder_whose_name_is_no_text_gets_no_rule_and_loses_none() -> None:
    add_rule(Path("/w"), "Shell(make)")
    with pytest.raises(ConfigError, match="a name in it is not text"):
        add_rule(Path("/w\udcff"), "Shell(make)")
    assert texts("/w") == ["Shell(make)"]
