"""The process: it ends with its editor, whatever that does, and leaves nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.acp.agent_process import ROOT, Agent, ModelServer, Refused
from tests.acp.conftest import Start
from tests.waiting import PATIENCE_S

ROUNDS = int(os.environ.get("LMTUI_ACP_ROUNDS", "4"))
SLEEP = ScriptedCall("shell", {"command": "echo started; sleep 77.5"})


def living(processes: list[psutil.Process]) -> list[psutil.Process]:
    """Return which of some processes are still there after the time that they have."""
    _, left = psutil.wait_procs(processes, timeout=PATIENCE_S)
    return [each for each in left if each.status() != psutil.STATUS_ZOMBIE]


@pytest.mark.full
def test_whatever_ends_it_nothing_is_left(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    scenarios = (Scenario((ScriptedTurn(calls=(SLEEP,)),), name="sleep", match="sleep"),)
    sandboxes = ("process", "bubblewrap")
    ends = ("kill", "end of input", "terminate", "early kill")
    with ModelServer(*scenarios) as server:
        for number in range(ROUNDS):
            sandbox, end = sandboxes[number // len(ends) % 2 if ROUNDS > 4 else number % 2], ends[number % len(ends)]
            place = (tmp_path / "work", tmp_path / "home")
            agent = Agent(*place, "--url", server.url, "--sandbox", sandbox, "--mode", "auto")
            agent.initialize()
            if end == "early kill":
                agent.request("session/new", cwd=str(agent.workspace), mcpServers=[])
                time.sleep(number % 7 / 20)
            else:
                session_id = agent.new_session()
                agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "sleep"}])
                agent.until(lambda each: "started" in str(each))
            family = agent.family()
            if end == "end of input":
                agent.end()
            else:
                agent.process.send_signal(signal.SIGTERM if end == "terminate" else signal.SIGKILL)
            agent.process.wait(PATIENCE_S)
            assert living(family) == [], (number, sandbox, end)
            agent.close()
    assert [each for each in psutil.process_iter(["cmdline"]) if "77.5" in (each.info["cmdline"] or ())] == []


_LAUNCHER = """
import os, subprocess, sys
child = subprocess.Popen(sys.argv[1:], stdin=int(os.environ["SOURCE"]), stdout=int(os.environ["TARGET"]), close_fds=True)
print(child.pid, flush=True)
sys.stdin.read()
"""


def test_a_dead_editor_ends_it_though_another_process_holds_the_pipe(tmp_path: Path, model_server: ScriptedServer) -> None:
    source, kept_open = os.pipe()
    target, write = os.pipe()
    environ = os.environ | {"SOURCE": str(source), "TARGET": str(write), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _LAUNCHER, sys.executable, "-m", "lmtui", "acp", "--url", model_server.url]
    editor = subprocess.Popen(
        command, cwd=tmp_path, env=environ, stdin=subprocess.PIPE, stdout=subprocess.PIPE, pass_fds=(source, write)
    )
    assert editor.stdout is not None
    agent = psutil.Process(int(editor.stdout.readline()))
    os.write(kept_open, b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":1}}\n')
    assert b'"protocolVersion":1' in os.read(target, 4096)
    editor.kill()
    editor.wait()
    assert living([agent]) == []
    for each in (source, kept_open, target, write):
        os.close(each)
    for pipe in (editor.stdin, editor.stdout):
        assert pipe is not None
        pipe.close()


@pytest.mark.full
def test_an_editor_that_closes_its_ear_ends_it(start: Start) -> None:
    agent = start()
    agent.initialize()
    session_id = agent.new_session()
    agent.request("session/prompt", sessionId=session_id, prompt=[{"type": "text", "text": "please talk"}])
    agent.until(lambda each: "word0" in str(each))
    assert agent.process.stdout is not None
    os.dup2(os.open(os.devnull, os.O_RDONLY), agent.process.stdout.fileno())
    assert agent.process.wait(10) == 0


@pytest.mark.full
def test_what_a_program_prints_does_not_get_between_the_messages(tmp_path: Path, start: Start) -> None:
    code = tmp_path / "code"
    code.mkdir()
    (code / "sitecustomize.py").write_text(
        "import sys, threading, time\n"
        "def chat():\n"
        "    while 'lmtui.acp.acp_agent' not in sys.modules:\n"
        "        time.sleep(0.05)\n"
        "    while True:\n"
        "        print('a line on standard output', flush=True)\n"
        "        time.sleep(0.01)\n"
        "threading.Thread(target=chat, daemon=True).start()\n"
    )
    agent = start(PYTHONPATH=f"{code}:{ROOT}")
    agent.initialize()
    agent.prompt(agent.new_session(), "hello")
    time.sleep(0.5)
    assert "a line on standard output" in agent.stderr()
    assert b"standard output" not in b"".join(agent.lines)


@pytest.mark.full
def test_without_a_model_server_a_session_says_how_to_get_one(start: Start) -> None:
    agent = start(server=None)
    agent.initialize()
    with pytest.raises(Refused, match=r"No model server is chosen yet.*lmtui acp --setup") as refused:
        agent.new_session()
    assert refused.value.code == -32000
    with pytest.raises(Refused, match="no model server answers"):
        agent.call("authenticate", methodId="find-model-server")
    agent.end()


@pytest.mark.full
def test_a_server_is_found_in_a_folder_that_is_no_workspace(tmp_path: Path, model_server: ScriptedServer) -> None:
    (tmp_path / "work").mkdir()
    agent = Agent(Path("/"), tmp_path / "home", "--url", model_server.url)
    agent.initialize()
    assert agent.call("authenticate", methodId="find-model-server") == {}
    with pytest.raises(Refused, match="whole file system"):
        agent.new_session()
    assert agent.new_session(tmp_path / "work")
    agent.close()


_WITHOUT_EXTRA = """
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, *more: None if name == "acp" else find(name, *more)
from lmtui.cli import run
raise SystemExit(run(["acp"]))
"""


def test_without_the_extra_or_for_setup_without_a_terminal_it_is_wrong_usage(start: Start) -> None:
    assert start("--setup", server=None).process.wait(PATIENCE_S) == 64
    command = [sys.executable, "-c", _WITHOUT_EXTRA]
    run = subprocess.run(command, cwd=ROOT, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False)
    assert run.returncode == 64
    assert "needs the extra `acp`" in run.stderr


def test_the_engine_is_not_loaded_before_initialize_is_answered() -> None:
    code = "import sys, lmtui.acp.acp_server; print(sorted(name for name in sys.modules if name.startswith('lmtui.engine')))"
    run = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"
