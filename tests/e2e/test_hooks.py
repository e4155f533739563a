from __future__ import annotations

import json
from typing import Any

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Result, Serve

DONE = ScriptedTurn("All is done.")
TOUCH = ScriptedTurn(calls=(ScriptedCall("shell", {"command": "touch made"}),))
WRITE = ScriptedTurn(calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DENIES = '{"hookSpecificOutput": {"permissionDecision": "deny", "permissionDecisionReason": "because"}}'


def hook(
    program: Program, command: str, event: str = "PreToolUse", matcher: str = "", *, is_own: bool = True, **more: Any
) -> None:
    path = program.home / "config" / "hooks.json" if is_own else program.workspace / ".claude" / "settings.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    known = json.loads(path.read_text()) if path.exists() else {"hooks": {}}
    entry = {"matcher": matcher, "hooks": [{"type": "command", "command": command, **more}]}
    known["hooks"].setdefault(event, []).append(entry)
    path.write_text(json.dumps(known))


async def run(program: Program, serve: Serve, *script: ScriptedTurn, text: str = "do it", mode: str = "auto") -> Result:
    server = await serve(*script)
    base = ("run", "--url", server.url, "--sandbox", "process", "--mode", mode, "--output", "stream-json")
    return await program.run(*base, text)


def of(result: Result, kind: str) -> list[dict[str, Any]]:
    return [event for event in result.events if event["kind"] == kind]


@pytest.mark.parametrize("command", ["echo no touching >&2; exit 2", f"echo '{DENIES}'"])
@pytest.mark.quick
async def test_a_hook_that_denies_means_nothing_ran(program: Program, serve: Serve, command: str) -> None:
    hook(program, command, matcher="Bash")
    result = await run(program, serve, TOUCH, DONE)
    assert result.code == 0, result.err
    assert not (program.workspace / "made").exists()
    [finished] = of(result, "tool_call_finished")
    assert (finished["decision"], finished["ok"]) == ("hook", False)
    assert [ran["decision"] for ran in of(result, "hook_ran")] == ["deny"]


async def test_it_is_told_of_the_call_and_gets_no_key(program: Program, serve: Serve) -> None:
    hook(program, "cat > told.json; env > env.txt", matcher="Write|Edit")
    program.environ["OPENAI_API_KEY"] = "sk-this-is-a-secret"
    result = await run(program, serve, WRITE, DONE)
    told = json.loads((program.workspace / "told.json").read_text())
    assert (told["tool_name"], told["tool_input"]["file_path"]) == ("Write", f"{program.workspace}/a.txt")
    assert told["session_id"] == result.events[0]["session"]
    assert "sk-this-is-a-secret" not in (program.workspace / "env.txt").read_text()


@pytest.mark.parametrize(
    ("command", "runs"),
    [
        ("echo x; head -c 10000000 /dev/urandom", True),
        ("echo '{\"decision\": '", False),
        ('printf \'{"decision": "deny", "reason": "\'; head -c 2000000 /dev/zero; echo \'"}\'', False),
        ("echo broken >&2; exit 1", True),
        ("sleep 600", False),
        ("kill -9 $$", False),
        ("no-such-program-at-all", False),
    ],
)
async def test_garbage_is_passed_over_and_one_that_did_not_do_its_work_asks(
    program: Program, serve: Serve, command: str, runs: bool
) -> None:
    hook(program, command, timeout=1)
    result = await run(program, serve, TOUCH, DONE)
    assert (program.workspace / "made").exists() is runs
    assert result.code == (0 if runs else 3), result.err
    assert of(result, "turn_ended")


@pytest.mark.parametrize("command", ["sleep 600", "kill -9 $$", "head -c 10000000 /dev/zero", "exit 1"])
async def test_after_a_call_nothing_that_goes_wrong_stops_the_turn(program: Program, serve: Serve, command: str) -> None:
    hook(program, command, "PostToolUse", timeout=1)
    result = await run(program, serve, TOUCH, DONE)
    assert (result.code, (program.workspace / "made").exists()) == (0, True)


@pytest.mark.parametrize("is_own", [True, False])
async def test_a_program_with_args_gets_them_and_no_word_of_the_model_is_run(
    program: Program, serve: Serve, is_own: bool
) -> None:
    (program.workspace / "guard.sh").write_text('echo "$@" > args.txt; cat > told.json\n')
    hook(program, "bash", args=["${CLAUDE_PROJECT_DIR}/guard.sh", "a b", "$(touch shell)"], is_own=is_own)
    assert (await program.run("config", "trust", "--yes")).code == 0
    evil = ScriptedTurn(
        calls=(ScriptedCall("write", {"path": "a.txt", "content": "$(touch pwned)`touch pwned`\ntouch pwned\n"}),)
    )
    result = await run(program, serve, evil, DONE)
    assert not {"pwned", "shell"} & {path.name for path in program.workspace.iterdir()}
    assert result.code == 0, result.err
    assert (program.workspace / "args.txt").read_text() == "a b $(touch shell)\n"
    told = json.loads((program.workspace / "told.json").read_text())
    assert "$(touch pwned)" in told["tool_input"]["content"]
    [ran] = of(result, "hook_ran")
    assert ran["command"] == "bash '${CLAUDE_PROJECT_DIR}/guard.sh' 'a b' '$(touch shell)'"


async def test_two_hooks_of_one_program_with_other_args_both_run(program: Program, serve: Serve) -> None:
    hook(program, "touch", args=["one"])
    hook(program, "touch", args=["two"])
    await run(program, serve, TOUCH, DONE)
    assert {"one", "two"} <= {path.name for path in program.workspace.iterdir()}


@pytest.mark.parametrize(("command", "runs"), [("rm -rf x", False), ("touch made", True)])
async def test_a_hook_with_a_condition_looks_only_at_such_calls(
    program: Program, serve: Serve, command: str, runs: bool
) -> None:
    condition: dict[str, Any] = {"if": "Bash(rm *)"}
    hook(program, "exit 2", matcher="Bash", **condition)
    result = await run(program, serve, ScriptedTurn(calls=(ScriptedCall("shell", {"command": command}),)), DONE)
    [finished] = of(result, "tool_call_finished")
    assert finished["ok"] is runs
    assert (program.workspace / "made").exists() is runs


async def test_a_folders_broken_hook_asks_for_each_call_once_it_is_trusted(program: Program, serve: Serve) -> None:
    hook(program, "x", is_own=False, type="prompt")
    await run(program, serve, TOUCH, DONE)
    assert (program.workspace / "made").exists()
    (program.workspace / "made").unlink()
    assert (await program.run("config", "trust", "--yes")).code == 0
    result = await run(program, serve, TOUCH, DONE)
    assert (result.code, (program.workspace / "made").exists()) == (3, False)
    assert "this folder's hooks before tool calls cannot be read" in result.err


async def test_what_a_formatter_changes_belongs_to_the_call(program: Program, serve: Serve) -> None:
    hook(program, "echo two >> a.txt", "PostToolUse", "Write")
    result = await run(program, serve, WRITE, DONE)
    [changed] = of(result, "files_changed")
    assert changed["changes"][0]["added_lines"] == 2


async def test_a_prompt_that_is_refused_is_kept_and_not_sent(program: Program, serve: Serve) -> None:
    hook(program, "echo it names a key >&2; exit 2", "UserPromptSubmit")
    server = await serve(DONE)
    result = await program.run("run", "--url", server.url, "--sandbox", "process", "--output", "stream-json", "my key is k")
    assert (result.code, server.requests) == (3, [])
    assert of(result, "inbox_changed")[-1]["queued"] == ["my key is k"]
    assert "it names a key" in of(result, "turn_ended")[0]["error"]


async def test_hooks_that_cannot_be_read_ask_for_each_call(program: Program, serve: Serve) -> None:
    path = program.home / "config" / "hooks.json"
    path.parent.mkdir(parents=True)
    path.write_text("{")
    result = await run(program, serve, TOUCH, DONE)
    assert (result.code, (program.workspace / "made").exists()) == (3, False)
    assert any("hooks.json cannot be read" in notice["text"] for notice in of(result, "notice"))
    assert f"until {path} is fixed; nobody was there to say yes, and no rule can" in result.err
    assert "--allow" not in result.err


@pytest.mark.quick
async def test_a_folders_hooks_run_only_once_trusted_and_a_change_asks_again(program: Program, serve: Serve) -> None:
    hook(program, "touch was-here; exit 2", is_own=False)
    before = await run(program, serve, TOUCH, DONE)
    assert ((program.workspace / "made").exists(), (program.workspace / "was-here").exists()) == (True, False)
    assert any("left out" in notice["text"] for notice in of(before, "notice"))
    (program.workspace / "made").unlink()
    asked = await program.run("config", "trust")
    assert (asked.code, "hook, .claude/settings.json" in asked.out) == (3, True)
    assert (await program.run("config", "trust", "--yes")).code == 0
    await run(program, serve, TOUCH, DONE)
    assert ((program.workspace / "made").exists(), (program.workspace / "was-here").exists()) == (False, True)
    (program.workspace / "was-here").unlink()
    hook(program, "touch was-here", is_own=False)
    await run(program, serve, TOUCH, DONE)
    assert ((program.workspace / "made").exists(), (program.workspace / "was-here").exists()) == (True, False)


async def test_start_and_end_of_a_session(program: Program, serve: Serve) -> None:
    hook(program, "echo Use tabs.", "SessionStart")
    hook(program, "cat > end.json", "SessionEnd")
    server = await serve(DONE)
    await program.run("run", "--url", server.url, "--sandbox", "process", "do it")
    assert any("Use tabs." in str(message["content"]) for message in server.requests[0].body["messages"])
    assert json.loads((program.workspace / "end.json").read_text())["hook_event_name"] == "SessionEnd"


async def test_the_doctor_names_hooks_and_commands_and_what_is_broken(program: Program) -> None:
    hook(program, "true", matcher="Bash")
    hook(program, "true", "Stoppp")
    commands = program.workspace / ".lmagent" / "commands"
    commands.mkdir(parents=True)
    (commands / "mend.md").write_text("Mend $1")
    (commands / "help.md").write_text("Mine")
    rows = (await program.run("doctor", "--offline", "--json")).json
    found = [(row["name"], row["state"], row["text"]) for row in rows if row["name"] in ("hooks", "commands")]
    assert [state for _, state, _ in found] == ["ok", "warning", "ok", "warning"]
    told = {name: text for name, state, text in found if state == "ok"}
    assert "PreToolUse Bash" in told["hooks"]
    assert "/mend" in told["commands"]


async def test_a_file_is_a_command_without_a_screen(program: Program, serve: Serve) -> None:
    own = program.home / "config" / "commands" / "look.md"
    own.parent.mkdir(parents=True)
    own.write_text("Look at $1: !`echo $1 | tr a-z A-Z`")
    server = await serve(DONE)
    base = ("run", "--url", server.url, "--sandbox", "process", "--mode", "auto")
    assert (await program.run(*base, "/look here")).code == 0
    assert server.requests[0].body["messages"][-1]["content"] == "Look at here: HERE"
    assert (await program.run(*base, "/lok here")).code == 64
    assert len(server.requests) == 1
