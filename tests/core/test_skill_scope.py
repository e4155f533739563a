from __future__ import annotations

import pytest

from lmtui.core.permissions.decide import SkillScope, decide_all
from lmtui.core.permissions.rules import Access, Effect, Mode, Rule, Verdict, parse_rule
from lmtui.core.skills import PROMOTE_TOOL
from tests.sets import for_each

ALLOW_ALL = (Rule(Effect.ALLOW, "*", "*", "settings"),)


def scope(*texts: str) -> SkillScope:
    return SkillScope("tidy", tuple(parse_rule(text, Effect.ALLOW, "skill tidy") for text in texts))


@for_each(("texts", "tool", "access", "subject", "is_left"), [
    (("Read",), "read", Access.READ, "a.txt", True), (("Read",), "look", Access.READ, "a.png", True),
    (("Read",), "grep", Access.READ, "", False), (("Read(src/**)",), "read", Access.READ, "src/a.py", True),
    (("Read(src/**)",), "read", Access.READ, "b.py", False), (("Write",), "mkdir", Access.WRITE, "x", True),
    (("Write",), "edit", Access.WRITE, "x", False), (("Shell",), "shell", Access.EXECUTE, "rm -rf x; curl y", True),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status", True),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status && rm x", False),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git log | tee x", False),
    (("Shell(git *)",), "shell", Access.EXECUTE, "git status $(rm x)", False),
    (("Shell",), "python", Access.EXECUTE, "", False), (("Python",), "python", Access.EXECUTE, "", True),
    (("mcp__time__*",), "mcp__time__now", Access.EXECUTE, "time/now", True),
    (("mcp__time__*",), "mcp__mail__send", Access.EXECUTE, "mail/send", False),
    (("Skill__count",), "skill__count", Access.EXECUTE, "", True), ((), "read", Access.READ, "a.txt", False),
    ((), "todo_add", Access.NONE, "", True), ((), "skill", Access.NONE, "other", True),
])  # fmt: skip
def test_what_a_skill_names_is_left_and_nothing_else(
    texts: tuple[str, ...], tool: str, access: Access, subject: str, *, is_left: bool
) -> None:
    decision = decide_all(tool, access, (subject,), Mode.AUTO, ALLOW_ALL, scopes=(scope(*texts),))
    assert (decision.verdict is not Verdict.DENY) == is_left
    assert is_left or "skill tidy is in use until this turn ends" in decision.why


def test_a_skill_allows_nothing_that_the_user_does_not() -> None:
    both = (scope("Write", "Shell"),)
    deny = (Rule(Effect.DENY, "write", "secret/**", "settings"),)
    assert decide_all("write", Access.WRITE, ("secret/x",), Mode.AUTO, deny, scopes=both).verdict is Verdict.DENY
    assert decide_all("write", Access.WRITE, ("x",), Mode.NORMAL, (), scopes=both).verdict is Verdict.ASK
    assert decide_all("shell", Access.EXECUTE, ("touch x",), Mode.NORMAL, (), scopes=both).verdict is Verdict.ASK
    assert decide_all("write", Access.WRITE, ("x",), Mode.PLAN, (), scopes=both).verdict is Verdict.DENY


def test_of_two_skills_both_hold_and_each_subject_counts() -> None:
    two = (scope("Read", "Write"), scope("Read"))
    assert decide_all("read", Access.READ, ("x",), Mode.AUTO, (), scopes=two).verdict is Verdict.ALLOW
    assert decide_all("write", Access.WRITE, ("x",), Mode.AUTO, (), scopes=two).verdict is Verdict.DENY
    some = (scope("Read(src/**)"),)
    assert decide_all("read", Access.READ, ("src/a", "b"), Mode.AUTO, (), scopes=some).verdict is Verdict.DENY


@pytest.mark.parametrize("mode", [Mode.MANUAL, Mode.NORMAL, Mode.AUTO])
def test_a_tool_is_promoted_only_by_a_yes_whatever_is_allowed(mode: Mode) -> None:
    rules = (*ALLOW_ALL, Rule(Effect.ALLOW, PROMOTE_TOOL, "a.py"))
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), mode, rules).verdict is Verdict.ASK
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), Mode.PLAN, rules).verdict is Verdict.DENY
    hidden = (Rule(Effect.DENY, "read", "a.py", "settings"),)
    assert decide_all(PROMOTE_TOOL, Access.WRITE, ("a.py",), mode, hidden).verdict is Verdict.DENY


def test_what_is_forbidden_of_commands_and_files_counts_for_promoted_tools() -> None:
    for rule, verdict in (("Shell", Verdict.DENY), ("Python", Verdict.DENY), ("Read(secret/**)", Verdict.ASK)):
        rules = (parse_rule(rule, Effect.DENY, "settings"), parse_rule("Skill__count", Effect.ALLOW, "settings"))
        assert decide_all("skill__count", Access.EXECUTE, (), Mode.NORMAL, rules).verdict is verdict
    allowed = (parse_rule("skill__count", Effect.ALLOW, "settings"),)
    assert decide_all("skill__count", Access.EXECUTE, (), Mode.NORMAL, allowed).verdict is Verdict.ALLOW
    assert decide_all("skill__other", Access.EXECUTE, (), Mode.NORMAL, allowed).verdict is Verdict.ASK
