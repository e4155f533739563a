from __future__ import annotations

from pathlib import Path

import pytest

from lmtui.app.folder_rules import add_rule, kept_problems, rules_in_force
from lmtui.app.sandboxes import allowed_by
from lmtui.config import Config
from lmtui.core.errors import UsageError
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS
from lmtui.core.permissions.decide import PROMOTED, decide
from lmtui.core.permissions.rules import Access, Effect, GrantScope, Mode, Rule, Verdict
from tests.sets import for_each


@pytest.fixture(autouse=True)
def own_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "work"
    (path / "secrets" / "deep").mkdir(parents=True)
    (path / "secrets" / "deep" / "k").write_text("x")
    return path


@for_each("pattern", ["../x", "[z-a]", "a**b", "", "~/x", "{a"])
@for_each("kind", ["allow", "ask", "deny"])
def test_a_pattern_in_the_settings_that_is_none_is_an_error_that_names_the_rule(folder: Path, kind: str, pattern: str) -> None:
    texts = (f"Read({pattern})",)
    config = {"allow": Config(allow=texts), "ask": Config(ask=texts), "deny": Config(deny=texts)}[kind]
    with pytest.raises(UsageError) as found:
        rules_in_force(config, folder)
    assert f"Read({pattern})" in found.value.full_text()
    assert found.value.hint or not pattern


def test_a_tool_by_another_name_has_its_pattern_normalized(folder: Path) -> None:
    config = Config(deny=("Read_file(./secrets/)",))
    assert rules_in_force(config, folder) == (Rule(Effect.DENY, "read", "secrets", "settings"),)


def test_a_kept_rule_that_is_not_understood_is_told_and_never_opens_anything(folder: Path) -> None:
    add_rule(folder, "Read(../x)", GrantScope.WORKSPACE, Effect.DENY)
    add_rule(folder, "Write(a**b)", GrantScope.USER, Effect.ASK)
    add_rule(folder, "Edit([z-a])", GrantScope.USER, Effect.ALLOW)
    add_rule(folder, "Edit(src/**)", GrantScope.USER, Effect.ALLOW)
    rules = rules_in_force(Config(), folder)
    assert decide("read", Access.READ, "any/file", Mode.AUTO, rules).verdict is Verdict.DENY
    assert decide("write", Access.WRITE, "any/file", Mode.AUTO, rules).verdict is Verdict.ASK
    assert [str(rule) for rule in rules if rule.effect is Effect.ALLOW] == ["Edit(src/**)"]
    assert len(told := kept_problems(folder)) == 3
    assert all(name in " ".join(told) for name in ("Read(../x)", "Write(a**b)", "Edit([z-a])", "rules.toml"))


def test_a_rule_about_tools_names_a_whole_path_and_one_that_refuses_goes_before_it(folder: Path) -> None:
    allow = ("Tools(/srv/x)", "Tools", "Network(.a.b)", "Network(c.d)", "Network(e.f.g)")
    rules = rules_in_force(Config(allow=allow, deny=("Network(x.a.b)",), ask=("Network(.f.g)",)), folder)
    assert allowed_by(rules, NETWORK_TOOL) + allowed_by(rules, SHOWN_TOOLS) == ["c.d", "/srv/x"]
    rules = rules_in_force(Config(allow=allow, deny=("Network", "Tools")), folder)
    assert allowed_by(rules, NETWORK_TOOL) + allowed_by(rules, SHOWN_TOOLS) == []
    with pytest.raises(UsageError, match="never matches"):
        rules_in_force(Config(allow=("Tools(srv/x)",)), folder)


KEEPS = Rule(Effect.DENY, "write", "keep/**")


@for_each(
    "tool, access, subject, is_asked",
    [
        ("git_branch", Access.WRITE, "old", True),
        ("background", Access.EXECUTE, "", True),
        ("python", Access.EXECUTE, "", True),
        (f"{PROMOTED}count", Access.EXECUTE, "", True),
        ("mcp__files__put", Access.EXECUTE, "files/put", True),
        ("git_add", Access.WRITE, "other", False),
        ("git_commit", Access.WRITE, "words", False),
        ("edit", Access.WRITE, "other", False),
        ("pipeline", Access.EXECUTE, "run plans/one.md", False),
        ("background", Access.NONE, "", False),
    ],
)
def test_what_may_change_a_path_without_naming_it_is_asked_about_where_a_rule_keeps_paths(
    tool: str, access: Access, subject: str, *, is_asked: bool
) -> None:
    assert decide(tool, access, subject, Mode.AUTO, (KEEPS,)).verdict is (Verdict.ASK if is_asked else Verdict.ALLOW)
    wanted = Verdict.ASK if tool in ("python", f"{PROMOTED}count") else Verdict.ALLOW
    assert decide(tool, access, subject, Mode.AUTO, (Rule(Effect.DENY, "read", "keep/**"),)).verdict is wanted
    granted = (KEEPS, Rule(Effect.ALLOW, tool))
    named = tool.startswith("mcp__")  # the user's rule names a program that nobody can look into
    wanted = Verdict.ASK if is_asked and not named else Verdict.ALLOW
    assert decide(tool, access, subject, Mode.AUTO, granted).verdict is wanted
