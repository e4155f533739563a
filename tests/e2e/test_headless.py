from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from lmtui.core.permissions.rules import exact_rule
from lmtui.models.demo_scripts import FaultKind, ScriptedCall, ScriptedFault, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.sets import depth

WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")
FILES_ONLY = ("--sandbox", "process")


@pytest.mark.quick
async def test_run_prints_the_answer_alone_on_standard_output(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    result = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "write a file")
    assert result.code == 0
    assert result.out == "All is done.\n"
    assert "write" in result.err
    assert (program.workspace / "a.txt").read_text() == "one\n"


@pytest.mark.quick
async def test_json_holds_the_promised_fields(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    result = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--output", "json", "go")
    told = result.json
    assert set(told) == {
        "session", "status", "exit_code", "text", "files_changed", "usage", "iterations", "elapsed_s", "sandbox", "error",
        "model", "commands", "refused", "verified", "checks", "swaps",
    }  # fmt: skip
    assert told["status"] == "done"
    assert told["files_changed"] == ["a.txt"]
    assert told["iterations"] == 2
    assert told["sandbox"] == "process"
    assert set(told["usage"]) == {"prompt_tokens", "completion_tokens", "cached_tokens"}
    assert re.fullmatch(r"\d{8}_\d{6}_[0-9a-f]{6}", told["session"])


@pytest.mark.quick
async def test_stream_json_is_one_event_a_line_and_ends_with_the_turn(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    result = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--output", "stream-json", "go")
    events = result.events
    assert events[0]["kind"] == "session_opened"
    assert events[-1]["kind"] == "turn_ended"
    assert events[-1]["reason"] == "done"
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert all(event["time"].endswith("Z") and event["session"] for event in events)
    finished = next(event for event in events if event["kind"] == "tool_call_finished")
    assert {"call_id", "ok", "result", "elapsed_ms"} <= set(finished)
    assert next(event for event in events if event["kind"] == "files_changed")["files"] == ["a.txt"]


@pytest.mark.quick
async def test_nobody_there_is_exit_3_with_the_flag_that_would_allow_it(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, ScriptedTurn("I was not allowed."))
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "go")
    assert result.code == 3
    assert "--allow 'Write(a.txt)'" in result.err
    assert not (program.workspace / "a.txt").exists()
    again = await program.run("run", "--url", server.url, *FILES_ONLY, "--allow", "write(a.txt)", "go")
    assert again.code == 0
    assert (program.workspace / "a.txt").exists()


async def test_a_refusal_tells_only_what_would_help(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE, WRITE, DONE)
    flags = ("--url", server.url, *FILES_ONLY)
    asked = await program.run("run", *flags, "go")
    assert "--allow 'Write(a.txt)' or --mode auto" in asked.err
    (program.workspace / ".lmagent").mkdir(exist_ok=True)
    (program.workspace / ".lmagent" / "config.toml").write_text('ask = ["Write(*)"]\n')
    still_asked = await program.run("run", *flags, "--mode", "auto", "go")
    assert "--allow 'Write(a.txt)'" in still_asked.err
    assert "--mode auto" not in still_asked.err


async def test_a_sandbox_that_was_named_and_does_not_work_is_an_error_before_anything_begins(
    program: Program, serve: Serve
) -> None:
    server = await serve(WRITE, DONE)
    program.environ["DOCKER_HOST"] = "tcp://127.0.0.1:1"
    result = await program.run("run", "--url", server.url, "--mode", "auto", "--sandbox", "docker", "go")
    assert result.code == 1
    assert "no sandbox works here: DOCKER_HOST" in result.err
    assert not server.requests


@pytest.mark.quick
async def test_a_deny_rule_holds_in_every_mode(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    result = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--deny", "Write(*.txt)", "go")
    assert result.code == 0
    assert not (program.workspace / "a.txt").exists()


@pytest.mark.quick
async def test_plan_mode_changes_nothing(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    await program.run("run", "--url", server.url, "--mode", "plan", *FILES_ONLY, "go")
    assert not (program.workspace / "a.txt").exists()


@pytest.mark.quick
async def test_limits_are_exit_2(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, WRITE, WRITE, DONE)
    result = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--max-iterations", "2", "go")
    assert result.code == 2
    assert "limit of 2 steps" in result.err


@pytest.mark.parametrize("number", depth([signal.SIGTERM], [signal.SIGINT, signal.SIGTERM, signal.SIGHUP]))
@pytest.mark.quick
async def test_an_interrupt_is_130_and_what_was_done_is_saved(number: signal.Signals, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, ScriptedTurn(" ".join(f"word{number}" for number in range(500)), rate=20.0))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup ignore it, and so would the program
    try:
        process = await program.start("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--output", "json", "go")
    finally:
        signal.signal(signal.SIGHUP, before)
    async with asyncio.timeout(20):
        while len(server.requests) < 2 or not server.open_streams:
            await asyncio.sleep(0.02)
    process.send_signal(number)
    out, _ = await process.communicate()
    assert process.returncode == 130
    assert json.loads(out)["status"] == "interrupted"
    assert json.loads(out)["files_changed"] == ["a.txt"]


async def test_an_interrupted_command_leaves_nothing_running(program: Program, serve: Serve) -> None:
    marker = f"lmtui-{os.getpid()}-{time.monotonic_ns()}"
    command = f"exec -a {marker} sleep 300 & setsid bash -c 'exec -a {marker} sleep 300' & wait"
    server = await serve(ScriptedTurn("", calls=(ScriptedCall("shell", {"command": command}),)), DONE)
    process = await program.start("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "go")
    async with asyncio.timeout(20):
        while _running(marker) < 2:
            await asyncio.sleep(0.05)
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert _running(marker) == 0


def _running(marker: str) -> int:
    commands = (process.info["cmdline"] or [""] for process in psutil.process_iter(["cmdline"]))
    return sum(command[0].startswith(marker) for command in commands if command)


@pytest.mark.quick
async def test_sigkill_then_resume_shows_everything_and_repeats_nothing(program: Program, serve: Serve) -> None:
    slow = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "echo ran >> log; sleep 30"}),))
    server = await serve(WRITE, slow, ScriptedTurn("Resumed and done."))
    process = await program.start("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "the first task")
    async with asyncio.timeout(20):
        while not (program.workspace / "log").exists():
            await asyncio.sleep(0.02)
    process.kill()
    await process.communicate()
    result = await program.run("resume", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--output", "json", "", "go on")
    assert result.json["text"] == "Resumed and done."
    assert (program.workspace / "log").read_text() == "ran\n"
    sent = server.requests[-1].body["messages"]
    assert any("the first task" in str(message["content"]) for message in sent)
    assert any("its effect is unknown" in str(message["content"]) for message in sent)
    shown = await program.run("show", result.json["session"])
    assert "the first task" in shown.out
    assert "Resumed and done." in shown.out


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("run", "--workspace", "/", "hi"), 64, "cannot be"),
        (("run", "--workspace", "/no/such/folder", "hi"), 64, "/no/such/folder"),
        (("run", "--url", "ftp://x", "hi"), 64, "not a server address"),
        (("run", "--url", "http://127.0.0.1:9", "hi"), 1, "no model server answers at http://127.0.0.1:9/v1"),
        (("run", "--mode", "yolo", "hi"), 64, "yolo"),
        (("run", "--allow", "rm -rf", "--url", "http://x", "hi"), 64, "not a permission rule"),
        (("run",), 64, "TASK"),
        (("run", "--url", "http://x", " "), 64, "task is empty"),
        (("show", "nosuch"), 1, "no session"),
        (("resume",), 1, "no session"),
        (("--no-such-flag",), 64, "--no-such-flag"),
        ((".",), 64, "needs a terminal"),
    ],
)
async def test_bad_input_names_the_thing(program: Program, arguments: tuple[str, ...], code: int, words: str) -> None:
    program.environ["LLM_MAX_RETRIES"] = "0"
    result = await program.run(*arguments)
    assert result.code == code
    assert words in result.err
    assert "Traceback" not in result.err


async def test_home_as_a_workspace_is_refused(program: Program) -> None:
    program.environ["HOME"] = str(program.workspace)
    result = await program.run("run", "--url", "http://127.0.0.1:9", "hi")
    assert result.code == 64
    assert "home" in result.err


async def test_unknown_model_wrong_key_and_a_web_page_are_told(program: Program, serve: Serve) -> None:
    server = await serve(DONE, key="right")
    model = await program.run("run", "--url", server.url, "--api-key", "right", "--model", "nosuch", *FILES_ONLY, "hi")
    assert model.code == 1
    assert "has no model 'nosuch'" in model.err
    key = await program.run("run", "--url", server.url, "--api-key", "wrong-key-value", *FILES_ONLY, "hi")
    assert key.code == 1
    assert "refuses the key" in key.err
    page = await serve(ScriptedTurn(fault=ScriptedFault(FaultKind.HTML)))
    web = await program.run("run", "--url", page.url, *FILES_ONLY, "hi")
    assert web.code == 1
    assert "not as a model server" in web.err


@pytest.mark.quick
async def test_a_key_is_in_no_output_no_log_and_no_tool(program: Program, serve: Serve) -> None:
    command = "env; cat /proc/$PPID/environ | tr '\\0' '\\n'"
    shell = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": command}),))
    server = await serve(shell, DONE, key="sk-canary-123")
    program.environ["OPENAI_API_KEY"] = "sk-canary-123"
    flags = ("--mode", "auto", "--allow", str(exact_rule("shell", command, "flag")), *FILES_ONLY)
    result = await program.run("run", "--url", server.url, *flags, "--output", "stream-json", "hi")
    assert result.code == 0
    assert server.requests[0].authorization == "Bearer sk-canary-123"
    written = b"".join(path.read_bytes() for path in program.workspace.rglob("*") if path.is_file())
    written += b"".join(path.read_bytes() for path in program.home.rglob("*") if path.is_file())
    assert b"sk-canary-123" not in written + result.out.encode() + result.err.encode()
    assert "sk-canary-123" not in (await program.run("config", "show")).out


@pytest.mark.quick
async def test_an_untrusted_folder_does_not_choose_the_server_or_the_mode(program: Program, serve: Serve) -> None:
    server = await serve(DONE)
    (program.workspace / ".env").write_text("LLM_URL=http://evil.example\nPERMISSION_MODE=auto\nLLM_TEMPERATURE=0.1\n")
    (program.workspace / ".lmagent").mkdir()
    (program.workspace / ".lmagent" / "config.toml").write_text('allow = ["Shell"]\nnetwork = "on"\nmax_iterations = 3\n')
    shown = (await program.run("config", "show", "--json")).json
    assert shown["url"]["value"] == ""
    assert shown["mode"]["value"] == "normal"
    assert shown["allow"]["value"] == []
    assert shown["network"]["value"] == "off"
    assert shown["temperature"] == {"value": 0.1, "source": ".env"}
    assert shown["max_iterations"]["value"] == 3
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "hi")
    assert "not taken from this untrusted folder: allow in .lmagent/config.toml" in result.err


async def test_one_changed_file_is_listed_as_one(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    _ = await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "write a file")
    assert "  1 file   write a file" in (await program.run("sessions")).out


@pytest.mark.quick
async def test_sessions_are_listed_shown_exported_and_resumed(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE, ScriptedTurn("Second answer <b>&</b>."))
    first = (await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--json", "make <i>a</i> file")).json
    listed = (await program.run("sessions", "--json")).json
    assert [entry["id"] for entry in listed] == [first["session"]]
    assert listed[0]["title"] == "make <i>a</i> file"
    resumed = await program.run("resume", first["session"][-6:], "and more", "--url", server.url, *FILES_ONLY, "--json")
    assert resumed.json["session"] == first["session"]
    assert (await program.run("sessions", "--search", "second ANSWER", "--json")).json != []
    assert (await program.run("sessions", "--search", "zebra", "--json")).json == []
    markdown = (await program.run("export", first["session"])).out
    assert "# make <i>a</i> file" in markdown
    page = (await program.run("export", first["session"], "--format", "html")).out
    assert "&lt;i&gt;a&lt;/i&gt;" in page
    assert "<b>&</b>" not in page
    lines = (await program.run("export", first["session"], "--format", "jsonl")).out.splitlines()
    assert json.loads(lines[0])["kind"] == "session_opened"


async def test_a_mode_on_the_command_line_holds_for_a_resumed_session(program: Program, serve: Serve) -> None:
    server = await serve(DONE, WRITE, DONE)
    await program.run("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "hi")
    await program.run("resume", "", "go on", "--url", server.url, "--mode", "plan", *FILES_ONLY)
    assert not (program.workspace / "a.txt").exists()


async def test_task_from_standard_input(program: Program, serve: Serve) -> None:
    server = await serve(DONE)
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "-", stdin="from a pipe\n")
    assert result.code == 0
    assert server.requests[0].body["messages"][-1]["content"] == "from a pipe\n"


async def test_models_lists_what_a_server_has(program: Program, serve: Serve) -> None:
    server = await serve(DONE, models=("tiny-model",), window_tokens=4096)
    result = await program.run("models", "--url", server.url)
    assert result.code == 0
    assert "tiny-model" in result.out
    assert "4,096" in result.out


async def test_words_of_an_earlier_program_still_work(program: Program, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    run = await program.run("run", "--permission", "auto", "--url", server.url, *FILES_ONLY, "go")
    assert run.code == 0
    assert "done" in (await program.run("--list-sessions")).out


@pytest.mark.git
@pytest.mark.parametrize(
    "sandbox",
    [pytest.param("docker", marks=pytest.mark.docker), pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "process"],
)
async def test_demo_writes_tests_and_commits(program: Program, tmp_path: Path, sandbox: str) -> None:
    folder = tmp_path / "kept"
    result = await program.run("demo", "--headless", "--keep", str(folder), "--sandbox", sandbox)
    if sandbox != "process" and "no sandbox works here" in result.err:
        assert os.environ.get("LMTUI_REQUIRE_SANDBOX") != "1", result.err
        pytest.skip(result.err)
    assert result.code == 0, result.err
    assert "script" in result.err
    assert sandbox in result.err
    assert "exit 1" in result.err
    assert (folder / "slugs" / "__init__.py").exists()
    log = subprocess.run(["git", "log", "--oneline"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "Add slugify with tests" in log
    status = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert status == ""


async def test_a_resumed_session_finds_its_server_again(program: Program, serve: Serve) -> None:
    server = await serve(DONE, ScriptedTurn("And on."))
    await program.run("run", "--url", server.url, *FILES_ONLY, "hi")
    result = await program.run("resume", "", "go on", *FILES_ONLY)
    assert result.code == 0
    assert "And on." in result.out


@pytest.mark.parametrize("rule", ["Wirte(secrets/**)", "write_file(secrets/**)"])
async def test_a_rule_that_names_no_tool_is_refused_and_an_alias_is_understood(
    program: Program, serve: Serve, rule: str
) -> None:
    secret = ScriptedTurn("", calls=(ScriptedCall("edit", {"path": "secrets/a", "search": "x", "replace": "y"}),))
    server = await serve(secret, DONE)
    (program.workspace / "secrets").mkdir()
    (program.workspace / "secrets" / "a").write_text("x")
    result = await program.run("run", "--url", server.url, "--mode", "auto", "--deny", rule, *FILES_ONLY, "hi")
    assert (program.workspace / "secrets" / "a").read_text() == "x"
    assert result.code == (64 if rule.startswith("Wirte") else 0)


async def test_a_terminal_without_utf8_still_gets_whole_json(program: Program, serve: Serve) -> None:
    program.environ["PYTHONIOENCODING"] = "ascii"
    server = await serve(ScriptedTurn("ä € 漢"), ScriptedTurn("ä € 漢"))
    events = (await program.run("run", "--url", server.url, *FILES_ONLY, "--output", "stream-json", "hi")).events
    assert events[-1]["text"] == "ä € 漢"
    assert (await program.run("run", "--url", server.url, *FILES_ONLY, "hi")).code == 0


@pytest.mark.git
async def test_a_demo_that_is_kept_from_its_work_does_not_claim_success(program: Program) -> None:
    result = await program.run("demo", "--headless", *FILES_ONLY, "--deny", "Shell")
    assert result.code == 3
    assert "What it made is in" not in result.err


async def test_what_does_not_hold_in_a_session_is_said_before_its_first_turn(program: Program, serve: Serve) -> None:
    hooks = {"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "exit 2"}]}]}}
    (program.workspace / ".lmagent").mkdir()
    (program.workspace / ".lmagent" / "hooks.json").write_text(json.dumps(hooks))
    server = await serve(ScriptedTurn("Done."))
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "hello")
    assert result.code == 0
    assert "warning: Hooks: 1 hook of this folder" in result.err
    settings = program.home / "config"
    settings.mkdir(parents=True)
    (settings / "hooks.json").write_text('{"hooks": {"PreToolUse": [')
    server = await serve(ScriptedTurn(calls=(ScriptedCall("ls", {}),)), ScriptedTurn("BLOCKED: no"))
    result = await program.run("run", "--url", server.url, *FILES_ONLY, "hello")
    assert result.code == 3
    assert "each call is asked about" in result.err
