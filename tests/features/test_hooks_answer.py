from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.permissions.rules import Verdict
from lmtui.features.hooks.hook_answers import read_answer, together
from lmtui.features.hooks.hook_config import HookEntry, HookEnvironment, matched_names, meets, odd_matchers, our_input, payload
from lmtui.features.hooks.service import HookPoints, hooks_trust, session_hooks
from lmtui.features.hooks.values import HookCall, HookEvent
from lmtui.features.host_program import ProgramRun
from lmtui.paths import config_dir
from tests.sets import for_each
from tests.trusting import say

PRE, POST = HookEvent.PRE_TOOL_USE, HookEvent.POST_TOOL_USE
ENTRY = HookEntry(PRE, "true")


def said(found: Any, code: int = 0) -> ProgramRun:
    return ProgramRun(code, (found if isinstance(found, str) else json.dumps(found)).encode())


def decided(word: object, **fields: Any) -> ProgramRun:
    return said({"hookSpecificOutput": {"hookEventName": "PreToolUse", "permissionDecision": word, **fields}})


@for_each(("ran", "permission"), [
    (ProgramRun(0), None), (ProgramRun(2, b"", b"no"), Verdict.DENY),
    (ProgramRun(1, b"", b"broken"), None), (decided("allow"), Verdict.ALLOW),
    (decided("ask"), Verdict.ASK), (decided("deny"), Verdict.DENY), (decided("dney"), Verdict.ASK),
    (decided(3), Verdict.ASK), (said({"decision": "block", "reason": "x"}), Verdict.DENY),
    (said({"decision": "approve"}), Verdict.ALLOW), (said("{not json"), Verdict.ASK),
    (said("\ufeff" + json.dumps({"decision": "block"})), Verdict.DENY),
    (ProgramRun(0, b'{"decision": "deny", "reason": "xxx', is_cut=True), Verdict.ASK),
    (ProgramRun(0, b"xxx", is_cut=True), None),
    (ProgramRun(2, b'{"a', b"no", is_cut=True), Verdict.DENY), (said("\0\1\2garbage"), None),
    (said({"decision": "block"}, 1), None),
    (ProgramRun(-1, problem="did not end within 1 s"), Verdict.ASK), (ProgramRun(127), Verdict.ASK),
    (ProgramRun(126), Verdict.ASK),
])  # fmt: skip
def test_what_an_end_means_before_a_call(ran: ProgramRun, permission: Verdict | None) -> None:
    assert read_answer(PRE, ran).permission is permission


def test_what_an_answer_means_elsewhere_and_one_that_is_too_long_says_so() -> None:
    assert "too long an answer" in read_answer(PRE, ProgramRun(0, b'{"a": "', is_cut=True)).reason
    assert "not JSON" in read_answer(PRE, ProgramRun(0, b'{"a": "')).reason
    assert read_answer(POST, ProgramRun(0, b'{"a": "')).permission is None
    assert read_answer(POST, said({"decision": "approve"})).permission is None
    assert read_answer(POST, said({"decision": "block", "reason": "lint"})).reason == "lint"
    assert read_answer(HookEvent.NOTIFICATION, ProgramRun(2, b"", b"no")).permission is None
    assert read_answer(HookEvent.PRE_COMPACT, ProgramRun(2, b"", b"no")).notes == ("no",)
    ran = ProgramRun(-1, problem="did not end within 1 s")
    assert {event: read_answer(event, ran).permission for event in HookEvent} == {
        **dict.fromkeys(HookEvent), PRE: Verdict.ASK,
    }  # fmt: skip
    texts = {event: read_answer(event, said("some words")).context for event in HookEvent}
    assert [event for event, text in texts.items() if text] == [HookEvent.SESSION_START, HookEvent.USER_PROMPT_SUBMIT]
    assert read_answer(HookEvent.SESSION_START, said("a\0b")).context == ""


def test_deny_wins_over_ask_and_ask_over_allow_and_the_rest_of_an_answer_is_taken_up() -> None:
    runs = [decided("allow", permissionDecisionReason="a"), decided("deny", permissionDecisionReason="d"), decided("ask")]
    assert together(PRE, [ENTRY] * 3, runs).permission is Verdict.DENY
    assert together(PRE, [ENTRY] * 3, runs).reason == "d"
    assert together(PRE, [ENTRY] * 2, [runs[0], runs[2]]).permission is Verdict.ASK
    assert together(PRE, [ENTRY] * 2, [runs[0], ProgramRun(0)]).permission is Verdict.ALLOW
    assert together(PRE, [], []).permission is None
    found = {
        "continue": False, "stopReason": "enough", "systemMessage": "look here",
        "hookSpecificOutput": {"additionalContext": "more", "updatedInput": {"command": "ls"}},
    }  # fmt: skip
    verdict = together(PRE, [ENTRY], [said(found)])
    assert (verdict.ends_turn, verdict.end_reason, verdict.notes) == (True, "enough", ("look here",))
    assert (verdict.context, verdict.changed) == ("more", {"command": "ls"})


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=5,
)
FIELDS = st.sampled_from([
    "hookSpecificOutput", "permissionDecision", "decision", "continue", "updatedInput",
    "additionalContext", "reason", "systemMessage",
])  # fmt: skip


@given(event=st.sampled_from(HookEvent), found=st.dictionaries(FIELDS, JSON | st.dictionaries(FIELDS, JSON)))
def test_an_answer_of_any_shape_is_read_and_never_allows_by_accident(event: HookEvent, found: dict[str, Any]) -> None:
    answer = read_answer(event, said(found))
    inner = found.get("hookSpecificOutput")
    words = [found.get("decision"), inner.get("permissionDecision") if isinstance(inner, dict) else None]
    if answer.permission is Verdict.ALLOW:
        assert {"allow", "approve"} & {word for word in words if isinstance(word, str)}
    assert isinstance(answer.context, str)


@given(st.binary(max_size=300), st.integers(-1, 255), st.sampled_from(HookEvent))
def test_bytes_of_any_kind_are_read(data: bytes, code: int, event: HookEvent) -> None:
    answer = read_answer(event, ProgramRun(code, data, data))
    assert answer.permission is not Verdict.ALLOW
    assert "\x1b" not in answer.reason + answer.context


def test_a_program_that_is_missing_is_named_and_a_hook_that_lacks_one_may_deny_and_not_allow() -> None:
    found = read_answer(PRE, ProgramRun(127, b"", b"/bin/sh: 1: uv: not found\nmore\n"))
    assert found.reason == "a hook that checks it could not be started: /bin/sh: 1: uv: not found"
    assert read_answer(PRE, ProgramRun(127)).reason == "a hook that checks it could not be started"
    err = b"bash: line 1: jq: command not found"
    assert read_answer(PRE, ProgramRun(0, b'{"decision": "deny"}', err)).permission is Verdict.DENY
    assert read_answer(PRE, ProgramRun(0, b'{"decision": "approve"}', err)).permission is Verdict.ASK
    assert read_answer(PRE, said({"decision": "deny"})).reason == read_answer(PRE, ProgramRun(2)).reason == "no reason given"


@for_each(("err", "code", "permission"), [
    (b"bash: line 1: jq: command not found", 0, Verdict.ASK),
    (b"more\n/bin/sh: 1: jq: not found\n", 1, Verdict.ASK),
    (b".claude/hooks/guard.sh: line 3: jq: command not found", 0, Verdict.ASK),
    (b"./guard: line 3: jq: command not found", 1, Verdict.ASK),
    (b"bash: line 1: jq: command not found", 2, Verdict.DENY), (b"the file was not found", 0, None),
])  # fmt: skip
def test_a_hook_that_lacks_a_program_has_not_said_yes(err: bytes, code: int, permission: Verdict | None) -> None:
    assert read_answer(PRE, ProgramRun(code, b"", err)).permission is permission
    assert read_answer(POST, ProgramRun(1, b"", err)).permission is None


UV_FAILED = ProgramRun(
    2, b"", b"Using Python 3\nerror: Failed to fetch: `https://pypi.org/simple/x/`\n  Caused by: dns error\n"
)


def test_uvs_own_failure_is_no_word_of_the_hook_and_told_with_the_network_where_a_folders_hook_has_none() -> None:
    prompt = HookEvent.USER_PROMPT_SUBMIT
    for command, permission in (("/usr/bin/uvx guard", Verdict.ASK), ("uvular guard", Verdict.DENY), ("guard", Verdict.DENY)):
        assert together(PRE, [HookEntry(PRE, command)], [UV_FAILED]).permission is permission, command
        verdict = together(prompt, [HookEntry(prompt, command)], [UV_FAILED])
        assert verdict.blocks is (permission is Verdict.DENY), command
    words = "could not be started: error: Failed to fetch: `https://pypi.org/simple/x/`"
    (mine,) = together(PRE, [HookEntry(PRE, "uv run x")], [UV_FAILED]).runs
    (theirs,) = together(PRE, [HookEntry(PRE, "uv run x", is_own=False)], [UV_FAILED]).runs
    assert (mine.exit_code, mine.said) == (-1, words)
    assert theirs.said == f"{words} (hooks have no network; `--no-hooks` leaves them out)"
    assert together(PRE, [HookEntry(PRE, "uv run x")], [ProgramRun(2, b"", b"not this")]).permission is Verdict.DENY


def in_session(folder: Path) -> HookPoints:
    async def nowhere() -> tuple[None, str]:
        return None, str(folder)

    return session_hooks(folder, HookEnvironment("s", "", str(folder)), nowhere)


async def test_hooks_of_a_folder_are_called_only_after_a_yes(tmp_path: Path) -> None:
    (tmp_path / ".lmagent").mkdir()
    hooks = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "true"}]}]}}
    (tmp_path / ".lmagent/hooks.json").write_text(json.dumps(hooks))
    assert PRE not in in_session(tmp_path).wanted
    say(hooks_trust(tmp_path), is_trusted=True)
    assert (await in_session(tmp_path).run(HookCall(PRE, {}, "shell"))).permission is Verdict.ASK


async def test_every_call_is_asked_about_where_the_users_own_hooks_cannot_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "home"))
    config_dir().mkdir(parents=True)
    (config_dir() / "hooks.json").write_text("{")
    assert (await in_session(tmp_path).run(HookCall(PRE, {}, "shell"))).permission is Verdict.ASK


AROUND = HookEnvironment("20260101_120000_abcdef", "/w/.lmagent/sessions/x.jsonl", "/workspace")


def told(call: HookCall) -> dict[str, Any]:
    found = json.loads(payload(call, AROUND))
    assert isinstance(found, dict)
    return found


def test_a_call_is_told_in_both_vocabularies_and_changed_arguments_come_back_in_our_words() -> None:
    arguments = {"path": "src/a.py", "search": "a", "replace": "b"}
    call = HookCall(PRE, {"tool_use_id": "call_1"}, "edit", arguments, "plan")
    found = told(call)
    assert (found["tool_name"], found["lmtui_tool"], found["tool_use_id"]) == ("Edit", "edit", "call_1")
    assert found["tool_input"] == {"file_path": "/workspace/src/a.py", "old_string": "a", "new_string": "b"}
    assert (found["permission_mode"], found["hook_event_name"], found["cwd"]) == ("plan", "PreToolUse", "/workspace")
    assert (found["session_id"], found["transcript_path"]) == (AROUND.session_id, AROUND.log)
    assert our_input(call, {"new_string": "z"}) == {**arguments, "replace": "z"}
    assert our_input(call, {"file_path": "/workspace/b.py"})["path"] == "/workspace/b.py"
    assert our_input(call, {"replace": "one", "new_string": "two"})["replace"] == "two"
    shell = HookCall(PRE, {}, "shell", {"command": "rm x", "timeout": 30})
    assert our_input(shell, {"command": "ls"}) == {"command": "ls", "timeout": 30}
    python = HookCall(PRE, {}, "python", {"code": "print(1)"})
    found = told(python)
    assert (found["tool_name"], found["lmtui_tool"], found["tool_input"]) == ("Bash", "python", {"command": "print(1)"})
    assert matched_names(python) == ("Bash", "python")
    assert our_input(python, {"command": "print(2)"}) == {"code": "print(2)"}
    found = told(HookCall(HookEvent.USER_PROMPT_SUBMIT, {"prompt": "grüße \ud800"}, mode="normal"))
    assert "tool_name" not in found
    assert (found["permission_mode"], found["prompt"][:5]) == ("default", "grüße")


def test_a_matcher_that_is_about_no_tool_and_a_condition_that_is_no_rule_are_said() -> None:
    tools = ("shell", "edit", "python")
    odd = ("Bsh", "bash", "Frobnicate")
    fine = ("", "*", "Bash", "shell", "Ed.*", "Bash|Other", "mcp__.*", "skill__x", "NotebookEdit", "WebSearch|AskUserQuestion")
    entries = [HookEntry(PRE, "true", matcher, source="hooks.json") for matcher in (*odd, *fine)]
    entries.append(HookEntry(HookEvent.SESSION_START, "true", "startup"))
    said = odd_matchers(entries, tools)
    assert ["Did you mean Bash?" in each for each in said] == [True, True, False]
    assert said[0].startswith("hooks.json: PreToolUse, matcher 'Bsh' is not the name of a tool")
    assert not meets("Bash(rm *)", HookCall(HookEvent.STOP))
    assert meets("", HookCall(HookEvent.STOP))
    entries = [HookEntry(PRE, "true", condition=each, source="hooks.json") for each in ("Bash(rm *)", "Edit(~/x)", "what?")]
    assert [each.partition(" is ")[0] for each in odd_matchers(entries, tools)] == [
        "hooks.json: PreToolUse, if 'Edit(~/x)'", "hooks.json: PreToolUse, if 'what?'",
    ]  # fmt: skip


@for_each(("condition", "tool", "subject", "is_met"), [
    ("Bash(rm *)", "shell", "rm -r x", True), ("Bash(rm *)", "shell", "ls", False),
    ("Bash(rm:*)", "shell", "cd x && FOO=1 rm y", True),
    ("Bash(rm *)", "shell", "bash -c 'rm x'", True),
    ("Bash(git * main)", "shell", "cd x; git push origin main", True),
    ("Bash", "shell", "ls", True), ("Bash(rm *)", "python", "", True),
    ("Bash(rm *)", "write", "a.txt", False), ("Edit(src/**)", "edit", "src/a.py", True),
    ("Edit(src/**)", "write", "src/a.py", True), ("Edit(src/**)", "edit", "docs/a.md", False),
    ("Edit(~/x)", "edit", "a.py", True), ("Edit(//etc/**)", "edit", "a.py", True),
    ("Read(.env)", "grep", "src", True), ("Skill(x)", "skill", "", True),
    ("mcp__git__*", "mcp__git__log", "git/log", True),
    ("Bash(rm *)|Bash(ls *)", "shell", "ls", True), ("no rule!", "shell", "ls", True),
])  # fmt: skip
def test_a_condition_is_a_rule_about_the_call_and_in_doubt_it_is_met(
    condition: str, tool: str, subject: str, is_met: bool
) -> None:
    subjects = (subject,) if subject else ()
    assert meets(condition, HookCall(HookEvent.PRE_TOOL_USE, {}, tool, {}, subjects=subjects)) is is_met
