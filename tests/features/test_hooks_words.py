from __future__ import annotations

import json
from typing import Any

import pytest

from lmtui.core.hooks import HookCall, HookEvent
from lmtui.features.hooks.hook_config import HookEntry, HookEnvironment, matched_names, meets, odd_matchers, our_input, payload

AROUND = HookEnvironment("20260101_120000_abcdef", "/w/.lmagent/sessions/x.jsonl", "/workspace")


def told(call: HookCall) -> dict[str, Any]:
    found = json.loads(payload(call, AROUND))
    assert isinstance(found, dict)
    return found


def test_a_call_is_told_in_both_vocabularies() -> None:
    arguments = {"path": "src/a.py", "search": "a", "replace": "b"}
    found = told(HookCall(HookEvent.PRE_TOOL_USE, {"tool_use_id": "call_1"}, "edit", arguments, "plan"))
    assert (found["tool_name"], found["lmtui_tool"], found["tool_use_id"]) == ("Edit", "edit", "call_1")
    assert found["tool_input"] == {"file_path": "/workspace/src/a.py", "old_string": "a", "new_string": "b"}
    assert (found["permission_mode"], found["hook_event_name"], found["cwd"]) == ("plan", "PreToolUse", "/workspace")
    assert (found["session_id"], found["transcript_path"]) == (AROUND.session_id, AROUND.log)


def test_other_events_tell_no_tool() -> None:
    found = told(HookCall(HookEvent.USER_PROMPT_SUBMIT, {"prompt": "grüße \ud800"}, mode="normal"))
    assert "tool_name" not in found
    assert (found["permission_mode"], found["prompt"][:5]) == ("default", "grüße")


def test_changed_arguments_come_back_in_our_words_and_the_rest_stays() -> None:
    call = HookCall(HookEvent.PRE_TOOL_USE, {}, "edit", {"path": "a.py", "search": "x", "replace": "y"})
    assert our_input(call, {"new_string": "z"}) == {"path": "a.py", "search": "x", "replace": "z"}
    assert our_input(call, {"file_path": "/workspace/b.py"})["path"] == "/workspace/b.py"
    assert our_input(call, {"replace": "one", "new_string": "two"})["replace"] == "two"
    shell = HookCall(HookEvent.PRE_TOOL_USE, {}, "shell", {"command": "rm x", "timeout": 30})
    assert our_input(shell, {"command": "ls"}) == {"command": "ls", "timeout": 30}


def test_python_is_guarded_by_who_guards_commands() -> None:
    call = HookCall(HookEvent.PRE_TOOL_USE, {}, "python", {"code": "print(1)"})
    found = told(call)
    assert (found["tool_name"], found["lmtui_tool"], found["tool_input"]) == ("Bash", "python", {"command": "print(1)"})
    assert matched_names(call) == ("Bash", "python")
    assert our_input(call, {"command": "print(2)"}) == {"code": "print(2)"}


def test_a_matcher_that_is_about_no_tool_is_said_with_the_nearest_name() -> None:
    tools = ("shell", "edit", "python")
    pre, odd = HookEvent.PRE_TOOL_USE, ("Bsh", "bash", "Frobnicate")
    fine = ("", "*", "Bash", "shell", "Ed.*", "Bash|Other", "mcp__.*", "skill__x")
    entries = [HookEntry(pre, "true", matcher, source="hooks.json") for matcher in (*odd, *fine)]
    entries.append(HookEntry(HookEvent.SESSION_START, "true", "startup"))
    said = odd_matchers(entries, tools)
    assert ["Did you mean Bash?" in each for each in said] == [True, True, False]
    absent = [HookEntry(pre, "true", "NotebookEdit"), HookEntry(pre, "true", "WebSearch|AskUserQuestion")]
    assert odd_matchers(absent, tools) == ()
    assert said[0].startswith("hooks.json: PreToolUse, matcher 'Bsh' is the name of no tool")


@pytest.mark.parametrize(("condition", "tool", "subject", "is_met"), [
    ("Bash(rm *)", "shell", "rm -r x", True), ("Bash(rm *)", "shell", "ls", False),
    ("Bash(rm:*)", "shell", "cd x && FOO=1 rm y", True),
    ("Bash(rm:*)", "shell", "git status", False), ("Bash(rm *)", "shell", "$CMD x", True),
    ("Bash(rm *)", "shell", "bash -c 'rm x'", True),
    ("Bash(git * main)", "shell", "cd x; git push origin main", True),
    ("Bash", "shell", "ls", True), ("Bash(rm *)", "python", "", True),
    ("Bash(rm *)", "write", "a.txt", False), ("Edit(src/**)", "edit", "src/a.py", True),
    ("Edit(src/**)", "write", "src/a.py", True), ("Edit(src/**)", "edit", "docs/a.md", False),
    ("MultiEdit(./src/**)", "write", "src/a.py", True), ("Write(*.py)", "write", "src/a.py", True),
    ("Write(*.py)", "write", "src/a.md", False), ("Edit(src/**)", "read", "src/a.py", False),
    ("Edit(~/x)", "edit", "a.py", True), ("Edit(//etc/**)", "edit", "a.py", True),
    ("Read(.env)", "grep", "src", True), ("Skill(x)", "skill", "", True),
    ("mcp__git__*", "mcp__git__log", "git/log", True),
    ("mcp__git__*", "mcp__web__get", "web/get", False),
    ("Bash(rm *)|Bash(ls *)", "shell", "ls", True), ("no rule!", "shell", "ls", True),
])  # fmt: skip
def test_a_condition_is_a_rule_about_the_call_and_in_doubt_it_is_met(
    condition: str, tool: str, subject: str, is_met: bool
) -> None:
    subjects = (subject,) if subject else ()
    assert meets(condition, HookCall(HookEvent.PRE_TOOL_USE, {}, tool, {}, subjects=subjects)) is is_met


def test_a_condition_without_a_call_is_not_met() -> None:
    assert not meets("Bash(rm *)", HookCall(HookEvent.STOP))
    assert meets("", HookCall(HookEvent.STOP))


def test_a_condition_that_is_no_rule_is_told() -> None:
    pre = HookEvent.PRE_TOOL_USE
    entries = [HookEntry(pre, "true", condition=each, source="hooks.json") for each in ("Bash(rm *)", "Edit(~/x)", "what?")]
    said = odd_matchers(entries, ("shell", "edit"))
    assert [each.partition(" is ")[0] for each in said] == [
        "hooks.json: PreToolUse, if 'Edit(~/x)'", "hooks.json: PreToolUse, if 'what?'",
    ]  # fmt: skip
