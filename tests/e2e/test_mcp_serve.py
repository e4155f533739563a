"""`lmtui mcp serve` as other agents use it: the SDK's own client, or bytes, on a real process."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.conftest import Program
from tests.sets import Late
from tests.waiting import PATIENCE_S, until

mcp: Any = Late("mcp")
stdio: Any = Late("mcp.client.stdio")
READING = ["read", "glob", "grep", "ls", "git_status", "git_diff"]
SLOW = {"command": "echo begun; sleep 60", "timeout": 100}
HELLO = {
    "jsonrpc": "2.0", "id": 0, "method": "initialize",
    "params": {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}},
}  # fmt: skip
GO = {"jsonrpc": "2.0", "method": "notifications/initialized"}


@pytest.fixture(autouse=True)
def _files(program: Program) -> None:
    (program.workspace / "a.txt").write_text("one\ntwo\n")


@asynccontextmanager
async def served(program: Program, *options: str) -> AsyncIterator[Any]:
    arguments = ["-m", "lmtui", "mcp", "serve", *options]
    environ = program.full_environ()
    server = stdio.StdioServerParameters(command=sys.executable, args=arguments, cwd=program.workspace, env=environ)
    async with asyncio.timeout(PATIENCE_S), mcp.Client(stdio.stdio_client(server)) as client:
        yield client


def text_of(result: Any) -> str:
    assert isinstance(result, mcp.types.CallToolResult)
    return "\n".join(each.text for each in result.content if isinstance(each, mcp.types.TextContent))


def logged(program: Program) -> list[dict[str, Any]]:
    (log,) = (program.workspace / ".lmagent/sessions").glob("*.jsonl")
    return [json.loads(line) for line in log.read_text().splitlines()]


async def gone(processes: Sequence[psutil.Process]) -> None:
    """Wait until no process is left."""
    await until(lambda: not any(each.is_running() for each in processes))


def command_of(process: psutil.Process) -> bytes:
    """Return the command line of a process, empty if it has ended."""
    try:
        return Path(f"/proc/{process.pid}/cmdline").read_bytes().replace(b"\0", b" ")
    except OSError:
        return b""


def started() -> list[psutil.Process]:
    """Return the processes that were started here, and their own."""
    return psutil.Process().children(recursive=True)


@pytest.mark.quick
async def test_only_tools_that_read_are_offered_and_a_session_of_the_folder_is_the_audit(program: Program) -> None:
    before = started()
    async with served(program) as client:
        tools = (await client.list_tools()).tools
        assert not (program.workspace / ".lmagent").exists()
        assert [tool.name for tool in tools] == READING
        assert all(tool.annotations and tool.annotations.read_only_hint for tool in tools)
        assert tools[0].input_schema["required"] == ["path"]
        assert text_of(await client.call_tool("read", {"path": "a.txt"})) == "    1  one\n    2  two"
        processes = [process for process in started() if process not in before]
        assert processes
        with pytest.raises(mcp.MCPError, match="Unknown tool: write"):
            await client.call_tool("write", {"path": "b.txt", "content": "x"})
        with pytest.raises(mcp.MCPError, match="Unknown tool: bash"):
            await client.call_tool("bash", {"command": "touch b.txt"})
    await gone(processes)
    kinds = [(each["kind"], each.get("tool"), each.get("by"), each.get("ok")) for each in logged(program)]
    assert ("tool_call_started", "read", "mcp", None) in kinds
    assert ("tool_call_finished", "read", None, True) in kinds
    assert [kind for kind, *_ in kinds if kind.startswith("turn_")] == ["turn_started", "turn_ended"]
    assert "Calls over MCP" in (await program.run("sessions")).out
    assert not (program.workspace / "b.txt").exists()


async def test_what_cannot_be_read_is_an_error_of_the_call(program: Program) -> None:
    (program.workspace / "secrets").mkdir()
    (program.workspace / "secrets/key").write_text("s3cret")
    async with served(program, "--deny", "Read(secrets/**)") as client:
        for arguments, expected in (
            ({"path": "/etc/passwd"}, "path is outside the workspace"),
            ({"path": ".lmagent/sessions"}, "is protected"),
            ({"path": "secrets/key"}, "permission denied"),
            ({}, "path is missing"),
            ({"path": {"a": [1]}}, "path is wrong"),
            ({"path": "a\0b"}, "NUL"),
            ({"path": "x" * 9_000_000}, "at most 8,000,000"),
        ):
            result = await client.call_tool("read", arguments)
            assert (result.is_error, expected in text_of(result), "s3cret" in text_of(result)) == (True, True, False)
            assert "two" in text_of(await client.call_tool("read", {"path": "a.txt"}))


async def test_what_needs_approval_is_refused_with_the_way_to_allow_it(program: Program) -> None:
    new = {"path": "b.txt", "content": "new\n"}
    async with served(program, "--tools", "read,write,shell") as client:
        hints = {tool.name: tool.annotations for tool in (await client.list_tools()).tools}
        assert {name: each and each.destructive_hint for name, each in hints.items()} == {
            "read": False, "write": True, "shell": True,
        }  # fmt: skip
        refused = await client.call_tool("write", new)
        assert refused.is_error
        assert "running unattended" in text_of(refused)
        assert "start `lmtui mcp serve` with --allow 'Write(b.txt)' or --mode auto." in text_of(refused)
        tried = text_of(await client.call_tool("shell", {"command": "echo x > c.txt"}))
        assert "--mode auto" in tried
    assert not (program.workspace / "b.txt").exists()
    assert not (program.workspace / "c.txt").exists()
    async with served(program, "--tools", "all", "--allow", "Write(b.txt)") as client:
        assert not (await client.call_tool("write", new)).is_error
        assert (await client.call_tool("write", new | {"path": "c.txt"})).is_error
    assert (program.workspace / "b.txt").read_text() == "new\n"
    async with served(program, "--tools", "shell", "--mode", "auto") as client:
        assert not (await client.call_tool("shell", {"command": "echo x > c.txt"})).is_error
    assert (program.workspace / "c.txt").read_text() == "x\n"


async def test_an_untrusted_folder_loosens_nothing_and_runs_nothing(program: Program) -> None:
    home = program.workspace / ".lmagent"
    home.mkdir()
    (home / "config.toml").write_text("mode = 'auto'\nallow = ['Write(*)', 'Shell(*)']\n")
    (home / "hooks.json").write_text(
        json.dumps({"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": f"touch {program.home}/ran"}]}]}})
    )
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"x": {"command": "touch", "args": [f"{program.home}/ran"]}}}))
    async with served(program) as client:
        assert [tool.name for tool in (await client.list_tools()).tools] == READING
        assert "two" in text_of(await client.call_tool("read", {"path": "a.txt"}))
    async with served(program, "--tools", "all") as client:
        assert (await client.call_tool("write", {"path": "b.txt", "content": "x"})).is_error
    assert not (program.workspace / "b.txt").exists()
    (program.home / "config").mkdir(parents=True)
    (program.home / "config/mcp.json").write_text((home / "mcp.json").read_text())
    async with served(program, "--tools", "grep, edit") as client:  # no server of the user's own is started
        assert [tool.name for tool in (await client.list_tools()).tools] == ["edit", "grep"]
        await client.call_tool("grep", {"pattern": "two"})
    assert not (program.home / "ran").exists()


async def test_a_call_that_is_cancelled_ends_and_the_next_ones_run(program: Program) -> None:
    async with served(program, "--tools", "all", "--mode", "auto") as client:
        told: list[float] = []

        async def note(progress: float, total: float | None, message: str | None) -> None:
            told.append(progress)

        with pytest.raises(TimeoutError):
            async with asyncio.timeout(6):
                await client.call_tool("shell", SLOW, progress_callback=note)
        assert told[:2] == [2.0, 4.0]
        assert "two" in text_of(await client.call_tool("read", {"path": "a.txt"}))
        await until(lambda: any(each["kind"] == "tool_call_finished" and not each["ok"] for each in logged(program)))
    ends = {each["tool"]: each["summary"] for each in logged(program) if each["kind"] == "tool_call_finished"}
    assert ends["shell"] == "stopped"


async def raw(program: Program, *options: str) -> asyncio.subprocess.Process:
    return await program.start("mcp", "serve", *options)


def send(process: asyncio.subprocess.Process, *messages: object) -> None:
    assert process.stdin is not None
    for each in messages:
        process.stdin.write((each if isinstance(each, bytes) else json.dumps(each).encode()) + b"\n")


def request(number: int, name: str, arguments: object) -> dict[str, object]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


async def answer(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    async with asyncio.timeout(PATIENCE_S):
        found: dict[str, Any] = json.loads(await process.stdout.readline())
    assert found["jsonrpc"] == "2.0"
    return found


@pytest.mark.parametrize(("way", "sandbox"), [("end of input", "bubblewrap"), ("SIGTERM", "process"), ("SIGINT", "bubblewrap")])
async def test_it_ends_and_leaves_no_process_whatever_runs(program: Program, way: str, sandbox: str) -> None:
    process = await raw(program, "--tools", "shell", "--mode", "auto", "--sandbox", sandbox, "--allow", "Shell(*)")
    send(process, HELLO, GO)
    await answer(process)
    send(process, *(request(number, "shell", SLOW) for number in range(1, 7)))
    await until(lambda: any(b"sleep 60" in command_of(each) for each in psutil.Process(process.pid).children(recursive=True)))
    processes = psutil.Process(process.pid).children(recursive=True)
    if way == "end of input":
        assert process.stdin is not None
        process.stdin.close()
    else:
        process.send_signal(getattr(signal, way))
    async with asyncio.timeout(PATIENCE_S):
        await process.wait()

    assert process.returncode == 0
    await gone(processes)
    ends = [each for each in logged(program) if each["kind"] == "turn_ended"]
    assert [each["reason"] for each in ends] == ["interrupted"]
