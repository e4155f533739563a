from __future__ import annotations

from typing import Any

from lmtui.core.events import ApprovalRequested
from lmtui.core.permissions.rules import GrantScope
from lmtui.core.permissions.suggested_rules import Grant, grants
from lmtui.core.workspace import EFFECT_TOOL, EffectKind, EffectPart
from lmtui.plain.console import approval_lines, choices_of, units_typed
from lmtui.plain.plain_session import choice_lines, chosen
from tests.sets import for_each


def asked(text: str = "rm -rf build", tool: str = "shell", **fields: Any) -> ApprovalRequested:
    fields = {"suggested_rule": "Shell(rm -rf build)", "why": "normal mode asks before changes", **fields}
    return ApprovalRequested(approval_id="a1", call_id="c1", tool=tool, text=text, **fields)


def test_a_question_shows_the_whole_command_where_it_would_run_and_why_it_asks() -> None:
    text = "\n".join(f"echo {number}" for number in range(200))
    about = {"cwd": "/workspace", "limits": "up to 9 s; reaches a.b", "sandbox": "docker, no network"}
    lines = list(approval_lines(asked(text, commands=200, uncovered=("x",), **about)))
    assert lines[0] == "approval needed: Run this command?"
    assert lines[1:201] == [f"  echo {number}" for number in range(200)]
    assert lines[201:] == [
        f"it would run: 200 commands, in /workspace, {about['limits']}, sandbox docker, network for this command",
        "no rule allows: x",
        "why: Mode normal asks before commands",
    ]


def test_hidden_characters_are_named_and_said() -> None:
    lines = list(approval_lines(asked("echo \u202eevil\x1b[2J")))
    assert lines[1] == "  echo <U+202E>evil␛[2J"
    assert lines[2].startswith("warning: hidden or look-alike characters are shown as codes like <U+202E>")


def test_a_change_is_shown_as_its_difference_only_and_a_host_and_a_sub_agent_are_named() -> None:
    diff = "--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b"
    lines = list(approval_lines(asked("edit x", "edit", diff=diff, path="x\u202e")))
    assert lines[0] == "approval needed: Edit x<U+202E>?"
    assert lines[1:6] == [f"  {line}" for line in diff.split("\n")]
    assert next(approval_lines(asked("pypi.org:443", "network"))) == "approval needed: Let a command reach pypi.org?"
    own = asked("pypi.org:443\nGET https://pypi.org/x", "network")
    assert next(approval_lines(own)) == "approval needed: Let lmtui reach pypi.org?"
    assert next(approval_lines(asked(agent="agent_1"))).startswith("approval needed: agent 1: run this command?")


@for_each(("typed", "expected"), [
    ("y", ("y", "")), (" YES ", ("y", "")), ("session", ("s", "")), ("n", ("n", "")), ("a", ("a", "")),
    ("f use make clean", ("f", "use make clean")), ("because no", ("f", "no")), ("f", ("f", "")),
    *((each, ("", "")) for each in ("", "q", "yes please", "y y", "ye", "always the first")),
])  # fmt: skip
def test_an_answer_is_a_letter_or_a_word_and_anything_else_is_none(typed: str, expected: tuple[str, str]) -> None:
    assert chosen(choices_of(asked()), typed) == expected


def test_what_cannot_be_granted_or_changed_is_not_offered_and_an_effect_offers_its_parts() -> None:
    letters = [line.split()[0] for line in choice_lines(choices_of(asked(tool="read", suggested_rule="")))]
    assert (letters, chosen(choices_of(asked(suggested_rule="")), "s")) == (["y", "n", "f"], ("", ""))
    effect = asked("make", EFFECT_TOOL, parts=PARTS, hunks=5, suggested_rule="")
    lines = [line.strip() for line in choice_lines(choices_of(effect))]
    assert lines[:2] == ["y or yes: apply 2; 1 file not deleted", "d or delete: apply 2, delete 1"]


@for_each(("typed", "letter"), [("yes", "y"), ("y", ""), ("s", ""), ("a", ""), ("n", "n")])
def test_a_dangerous_command_is_allowed_once_by_the_whole_word(typed: str, letter: str) -> None:
    request = asked("rm -rf /", suggested_rule="Shell(rm -rf /)")
    assert [line.split(":")[0].strip() for line in choice_lines(choices_of(request))][:2] == ["yes", "n or no"]
    assert chosen(choices_of(request), typed) == (letter, "")


def test_the_rules_to_keep_are_named_with_how_far_they_reach() -> None:
    found = grants(asked(offered_rules=("Shell(rm -rf build)", "Shell(rm *)")))
    assert [str(each) for each in found][1:3] == ["Shell(rm *), in this folder", "Shell(rm -rf build), everywhere"]
    assert found[0] == Grant("Shell(rm -rf build)", GrantScope.WORKSPACE)


PARTS = (
    EffectPart("old.txt", EffectKind.DELETED, is_tracked=False),
    EffectPart("a\x1b[2J.py", EffectKind.CHANGED, "", 3), EffectPart("new.txt", EffectKind.CREATED),
)  # fmt: skip


@for_each(("typed", "units"), [
    ("1", (0,)), ("2", (1, 2, 3)), ("3, 1", (0, 4)), ("1-3", (0, 1, 2, 3, 4)), ("", ()),
    ("0", None), ("4", None), ("3-1", None), ("-1", None), ("all", None), ("1 x", None), ("2-9999999999", None),
])  # fmt: skip
def test_parts_are_chosen_by_number(typed: str, units: tuple[int, ...] | None) -> None:
    assert units_typed(PARTS, typed) == units
