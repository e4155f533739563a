from __future__ import annotations

import json
import secrets
import shutil
from pathlib import Path
from typing import Any

import psutil
import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.waiting import until

PAPER = Path(__file__).parents[1] / "features" / "paper_server.py"
DONE = ScriptedTurn("All is done.")
ECHO = ScriptedTurn(calls=(ScriptedCall("mcp__paper__echo", {"text": "said"}),))
NAMED = {"paper": {"command": "python3", "args": ["paper_server.py"]}}


def configure(program: Program, servers: dict[str, Any]) -> None:
    shutil.copy(PAPER, program.workspace / "paper_server.py")
    path = program.home / "config" / "mcp.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"mcpServers": servers}))


async def test_the_list_says_what_works_and_what_each_tool_costs_and_fails_for_what_is_broken(program: Program) -> None:
    empty = await program.run("mcp")
    assert (empty.code, str(program.workspace / ".mcp.json") in empty.out) == (0, True)
    configure(program, {**NAMED, "off": {"command": "x", "disabled": True}})
    found = await program.run("mcp", "list", "--sandbox", "process")
    assert found.code == 0, found.err
    assert [word for word in ("✓ paper", "mcp__paper__echo", "– off") if word not in found.out] == []
    told = (await program.run("mcp", "--json", "--sandbox", "process")).json
    assert [server["state"] for server in told["servers"]] == ["off", "ready"]
    assert all(tool["tokens"] > 0 for tool in told["servers"][1]["tools"])
    configure(program, {"broken": {"command": "no-such-program"}})
    (program.workspace / ".mcp.json").write_text("{")
    broken = await program.run("mcp", "--sandbox", "process")
    assert (broken.code, "✗ broken" in broken.out, ".mcp.json cannot be read" in broken.out) == (1, True, True)


@pytest.mark.quick
async def test_a_task_calls_a_server_and_no_mcp_leaves_them_out(program: Program, serve: Serve) -> None:
    configure(program, NAMED)
    server = await serve(ECHO, DONE)
    base = ("run", "--url", server.url, "--sandbox", "process", "--mode", "auto", "--output", "stream-json")
    found = await program.run(*base, "say it")
    assert found.code == 0, found.err
    assert [event["result"] for event in found.events if event["kind"] == "tool_call_finished"] == ["said"]
    assert (await program.run(*base, "--no-mcp", "say it")).code == 0
    names = [tool["function"]["name"] for tool in server.requests[-1].body["tools"]]
    assert not [name for name in names if name.startswith("mcp")]


@pytest.mark.parametrize(
    ("sandbox", "more"),
    [pytest.param("bubblewrap", {}, marks=pytest.mark.bubblewrap), ("process", {"sandbox": "host"})],
)
async def test_a_killed_lmtui_leaves_no_server(program: Program, serve: Serve, sandbox: str, more: dict[str, Any]) -> None:
    mark = f"mark={secrets.token_hex(8)}"
    configure(program, {"paper": {"command": "python3", "args": ["paper_server.py", mark], **more}})
    assert (await program.run("config", "trust", "--yes")).code == 0
    slow = ScriptedTurn(calls=(ScriptedCall("mcp__paper__slow", {"seconds": 60}),))
    server = await serve(slow, DONE)
    running = await program.start(
        "run", "--url", server.url, "--sandbox", sandbox, "--mode", "auto", "--output", "stream-json", "go"
    )
    assert running.stdout is not None
    while b"tool_call_started" not in (line := await running.stdout.readline()):
        assert line, "it ended before the call"
    await until(lambda: marked(mark))
    running.kill()
    await running.wait()
    await until(lambda: not marked(mark))


def marked(mark: str) -> list[int]:
    """Return the processes that have a mark among their words."""
    return [each.pid for each in psutil.process_iter(["cmdline"]) if mark in (each.info["cmdline"] or [])]


async def test_a_key_goes_to_its_server_and_nowhere_else(program: Program, serve: Serve) -> None:
    key = "hk-4f9a81c2d7e6b5a09384"
    configure(program, {"paper": {**NAMED["paper"], "env": {"API_KEY": "${ISSUES_TOKEN}"}}})
    program.environ["ISSUES_TOKEN"] = key
    tell = ScriptedTurn(calls=(ScriptedCall("mcp__paper__env", {"name": "API_KEY"}),))
    server = await serve(tell, DONE)
    base = ("run", "--url", server.url, "--sandbox", "process", "--mode", "auto", "--output", "stream-json")
    found = await program.run(*base, "tell it")
    assert found.code == 0, found.err
    (result,) = [event["result"] for event in found.events if event["kind"] == "tool_call_finished"]
    assert result == "[key redacted]"
    kept = [path for path in (program.workspace, program.home) for path in path.rglob("*") if path.is_file()]
    assert not [path for path in kept if key.encode() in path.read_bytes()]
    assert key not in str(server.requests[-1].body)
