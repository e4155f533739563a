from __future__ import annotations

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
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.waiting import until

WRITE = ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
DONE = ScriptedTurn("All is done.")
FILES_ONLY = ("--sandbox", "process")


@pytest.mark.quick
async def test_a_task_in_each_form_of_output(program: Program, serve: Serve) -> None:
    server = await serve(*(WRITE, DONE) * 3)
    run = ("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "write a file", "--output")
    text = await program.run(*run, "text")
    assert (text.code, text.out, "write" in text.err) == (0, "All is done.\n", True)
    assert (program.workspace / "a.txt").read_text() == "one\n"
    told = (await program.run(*run, "json")).json
    assert (told["status"], told["text"], told["iterations"], told["sandbox"]) == ("done", "All is done.", 2, "process")
    assert re.fullmatch(r"\d{8}_\d{6}_[0-9a-f]{6}", told["session"])
    events = (await program.run(*run, "stream-json")).events
    assert (events[0]["kind"], events[-1]["kind"], events[-1]["reason"]) == ("session_opened", "turn_ended", "done")
    assert [event["seq"] for event in events] == sorted({event["seq"] for event in events})
    assert all(event["time"].endswith("Z") and event["session"] for event in events)


@pytest.mark.quick
async def test_nobody_there_is_exit_3_with_the_flag_that_would_allow_it(program: Program, serve: Serve) -> None:
    server = await serve(*(WRITE, ScriptedTurn("I was not allowed.")) * 3)
    flags = ("run", "--url", server.url, *FILES_ONLY)
    result = await program.run(*flags, "go")
    assert (result.code, "--allow 'Write(a.txt)' or --mode auto" in result.err) == (3, True)
    assert not (program.workspace / "a.txt").exists()
    again = await program.run(*flags, "--allow", "write(a.txt)", "go")
    assert (again.code, (program.workspace / "a.txt").exists()) == (0, True)
    (program.workspace / ".lmagent" / "config.toml").write_text('ask = ["Write(*)"]\n')
    still_asked = await program.run(*flags, "--mode", "auto", "go")
    assert ("--allow 'Write(a.txt)'" in still_asked.err, "--mode auto" in still_asked.err) == (True, False)


@pytest.mark.quick
async def test_rules_modes_and_limits_of_the_command_line_hold(program: Program, serve: Serve) -> None:
    auto = ("--mode", "auto")
    for options, code in (
        (("--deny", "Write(*.txt)", *auto), 0),
        (("--mode", "plan"), 0),
        (("--max-iterations", "1", *auto), 2),
    ):
        server = await serve(WRITE, DONE)
        result = await program.run("run", "--url", server.url, *options, *FILES_ONLY, "go")
        assert (result.code, "limit of 1 step" in result.err) == (code, "--max-iterations" in options), result.err
        assert (program.workspace / "a.txt").exists() is ("--max-iterations" in options), options


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
async def test_an_interrupt_is_130_and_what_was_done_is_saved(number: signal.Signals, program: Program, serve: Serve) -> None:
    server = await serve(WRITE, ScriptedTurn(" ".join(f"word{number}" for number in range(500)), rate=20.0))
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # tests that run under nohup ignore it, and so would the program
    try:
        process = await program.start("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "--output", "json", "go")
    finally:
        signal.signal(signal.SIGHUP, before)
    await until(lambda: len(server.requests) >= 2 and server.open_streams)
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
    await until(lambda: _running(marker) >= 2)
    process.send_signal(signal.SIGINT)
    await process.communicate()
    assert _running(marker) == 0


def _running(marker: str) -> int:
    commands = (process.info["cmdline"] or [""] for process in psutil.process_iter(["cmdline"]))
    return sum(command[0].startswith(marker) for command in commands if command)


async def test_sigkill_then_resume_shows_everything_and_repeats_nothing(program: Program, serve: Serve) -> None:
    slow = ScriptedTurn("", calls=(ScriptedCall("shell", {"command": "echo ran >> log; sleep 30"}),))
    server = await serve(WRITE, slow, ScriptedTurn("Resumed and done."))
    process = await program.start("run", "--url", server.url, "--mode", "auto", *FILES_ONLY, "the first task")
    await until((program.workspace / "log").exists)
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


async def test_bad_input_and_a_named_sandbox_that_does_not_work_are_told_before_anything_begins(
    program: Program, serve: Serve
) -> None:
    server = await serve(WRITE, DONE)
    program.environ |= {"LLM_MAX_RETRIES": "0", "DOCKER_HOST": "tcp://127.0.0.1:1"}
    no_docker = ("run", "--url", server.url, "--mode", "auto", "--sandbox", "docker", "go")
    for arguments, code, words in (
        (("show", "nosuch"), 1, "no session"),
        (("resume",), 1, "no session"),
        (("run", "--workspace", "/no/such/folder", "hi"), 64, "/no/such/folder"),
        (("run", "--url", "http://127.0.0.1:9", "hi"), 1, "no model server answers at http://127.0.0.1:9/v1"),
        (("run", "--mode", "yolo", "hi"), 64, "yolo"),
        (("run", "--allow", "rm -rf", "--url", "http://x", "hi"), 64, "not a permission rule"),
        ((".",), 64, "needs a terminal"),
        (("--plain",), 64, "lmtui run"),
        (no_docker, 1, "no sandbox works here: DOCKER_HOST"),
    ):
        result = await program.run(*arguments)
        assert (result.code, words in result.err, "Traceback" in result.err) == (code, True, False), result.err
    assert not server.requests


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
    assert "ignored until you trust this folder: allow in .lmagent/config.toml" in result.err


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
    assert r"# make \<i>a\</i> file" in markdown
    page = (await program.run("export", first["session"], "--format", "html")).out
    assert "&lt;i&gt;a&lt;/i&gt;" in page
    assert "<b>&</b>" not in page
    lines = (await program.run("export", first["session"], "--format", "jsonl")).out.splitlines()
    assert json.loads(lines[0])["kind"] == "session_opened"


@pytest.mark.git
@pytest.mark.parametrize(
    "sandbox",
    [pytest.param("docker", marks=pytest.mark.docker), pytest.param("bubblewrap", marks=pytest.mark.bubblewrap), "process"],
)
async def test_demo_writes_tests_and_commits(program: Program, tmp_path: Path, sandbox: str) -> None:
    folder = tmp_path / "kept"
    result = await program.run("demo", "--headless", "--keep", str(folder), "--sandbox", sandbox)
    assert result.code == 0, result.err
    assert "script" in result.err
    assert sandbox in result.err
    assert "exit 1" in result.err
    assert (folder / "slugs" / "__init__.py").exists()
    log = subprocess.run(["git", "log", "--oneline"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert "Add slugify with tests" in log
    status = subprocess.run(["git", "status", "--porcelain"], cwd=folder, capture_output=True, text=True, check=True).stdout
    assert status == ""


async def test_a_terminal_without_utf8_still_gets_whole_json(program: Program, serve: Serve) -> None:
    program.environ["PYTHONIOENCODING"] = "ascii"
    server = await serve(ScriptedTurn("ä € 漢"), ScriptedTurn("ä € 漢"))
    events = (await program.run("run", "--url", server.url, *FILES_ONLY, "--output", "stream-json", "hi")).events
    assert events[-1]["text"] == "ä € 漢"
    assert (await program.run("run", "--url", server.url, *FILES_ONLY, "hi")).code == 0
