from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lmtui.core.errors import ConfigError
from lmtui.store.rules import add_rule, read_rules, rules_file


@pytest.fixture(autouse=True)
def _own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))


def test_a_granted_rule_is_there_the_next_time_and_only_for_its_folder() -> None:
    add_rule(Path("/w/one"), "shell(make test)")
    add_rule(Path("/w/one"), "shell(make test)")
    add_rule(Path('/w/"two"\n'), "write(a.txt)")
    assert read_rules(Path("/w/one")) == ("shell(make test)",)
    assert read_rules(Path('/w/"two"\n')) == ("write(a.txt)",)
    assert read_rules(Path("/w/three")) == ()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=30))
def test_any_rule_is_read_back_as_it_was(rule: str) -> None:
    rules_file().unlink(missing_ok=True)
    add_rule(Path("/w"), rule)
    assert read_rules(Path("/w")) == (rule,)


def test_a_deleted_line_revokes_its_rule() -> None:
    add_rule(Path("/w"), "shell(a)")
    add_rule(Path("/w"), "shell(b)")
    lines = [line for line in rules_file().read_text().splitlines() if "shell(a)" not in line]
    rules_file().write_text("\n".join(lines))
    assert read_rules(Path("/w")) == ("shell(b)",)


def test_a_file_that_cannot_be_read_is_told_and_not_overwritten() -> None:
    rules_file().parent.mkdir(parents=True)
    rules_file().write_text("[[broken")
    with pytest.raises(ConfigError, match="cannot be read"):
        read_rules(Path("/w"))
    with pytest.raises(ConfigError, match="cannot be read"):
        add_rule(Path("/w"), "shell(a)")
    assert rules_file().read_text() == "[[broken"
