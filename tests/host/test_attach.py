"""Clients that attach over TCP: they may follow and answer sessions, but they are not the user."""

import asyncio
import contextlib
import itertools
import json
from typing import Any, cast

import pytest
from websockets.asyncio.client import ClientConnection, connect

from lmtui import __version__
from lmtui.commands.command import AskYes, Begin, CommandContext, OpenView
from lmtui.commands.table import command_table, run_typed
from lmtui.core.errors import ClosedToNetwork, UsageError
from lmtui.core.sessions import SessionHost
from lmtui.features.jobs.values import Jobs
from lmtui.features.mcp.values import McpServers, ServerState
from lmtui.host import attach, rpc
from lmtui.host.connect import Target
from lmtui.host.hub import GivenSettings
from lmtui.host.remote import RemoteHost
from lmtui.models.demo_scripts import ScriptedTurn
from tests.host.conftest import DONE, TOKEN, WRITE, Host, Start
from tests.waiting import PATIENCE_S

_NUMBERS = itertools.count(1)
_MCP = {"x": {"command": "touch", "args": ["/tmp/x"], "sandbox": "host"}}


async def _call(socket: ClientConnection, on: str, port: str, name: str, /, **given: Any) -> dict[str, Any]:
    number = next(_NUMBERS)
    await socket.send(rpc.dumps([{"id": number, "on": on, "port": port, "call": name, "with": given}]))
    while True:
        for message in json.loads(await socket.recv()):
            if message.get("re") == number and not message.keys().isdisjoint({"ok", "error"}):
                return dict(message)


def _attached(host: Host) -> connect:
    return connect(host.url.replace("http", "ws") + "/v1/attach", additional_headers={"Authorization": f"Bearer {TOKEN}"})


async def _greet(socket: ClientConnection, host: Host) -> None:
    hello = {"protocol": rpc.PROTOCOL, "version": __version__, "name": "phone", "folder": str(host.folder)}
    await socket.send(rpc.dumps([{"hello": hello}]))
    assert "welcome" in json.loads(await socket.recv())[0]


CLOSED: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("extensions.McpServers", "bring", {"entries": _MCP, "source": "x"}), ("extensions.McpServers", "accept", {"name": "x"}),
    ("settings", "change", {"name": "web_search", "text": "command: touch /tmp/x"}), ("settings", "rows", {}),
    ("extensions.Skills", "ask_to_promote", {"session_id": "x", "path": "a.py", "function": "f"}),
    ("extensions.WorkspaceMemory", "remove", {"notes": []}),
    ("extensions.Projects", "read", {}), ("extensions.WorkspaceBatches", "open", {"words": "tasks.jsonl", "session_id": ""}),
    ("extensions.WorkspaceChecks", "run", {}), ("trust", "revoke", {}), ("archive", "export", {"session_id": "", "form": "md"}),
    ("servers", "use", {"url": "http://127.0.0.1:9", "model": "x"}), ("servers", "look", {"url": "http://127.0.0.1:9"}),
)  # fmt: skip


async def test_what_is_the_users_own_is_closed_to_the_network_and_a_method_called_open_opens_no_session(start: Start) -> None:
    host = await start(DONE)
    async with _attached(host) as socket:
        await _greet(socket, host)
        for port, name, given in CLOSED:
            answer = await _call(socket, "host", port, name, **given)
            assert answer["error"]["class"] == "ClosedToNetwork", (port, name)
        for port, name in (("background", "close"), ("extensions", "open")):
            assert "error" in await _call(socket, "host", port, name, words="tasks.jsonl", session_id="")
    assert host.hub.sessions == []


async def test_a_network_client_gives_answers_and_brings_no_rules_commands_or_plans(start: Start) -> None:
    host = await start(WRITE, DONE, mode="manual")
    session_id = await host.new_session(message="write a file")
    asked = await host.approval(session_id)
    async with _attached(host) as socket:
        await _greet(socket, host)
        on = (await _call(socket, "host", "", "open", session_id=session_id))["ok"]
        for more in ({"outcome": "always"}, {"outcome": "always", "scope": "user"}, {"outcome": "once", "edited": "id"}):
            answer = await _call(socket, on, "", "answer", approval_id=asked["approval_id"], answer=more)
            assert answer["error"]["class"] == "ClosedToNetwork"
        for port, name, given in (
            ("waiting", "run_command", {"command": "id"}),
            ("goals", "set", {"command": "id"}),
            ("plans", "approve", {"proposal_id": "plan_1", "edited": {"title": "x", "steps": []}}),
            ("changes", "apply", {"plan": {"action": "restore", "calls": [], "changes": [], "path": "a.txt", "text": "x"}}),
        ):
            assert "error" in await _call(socket, on, port, name, **given), name
        answer = await _call(socket, on, "", "answer", approval_id=asked["approval_id"], answer={"outcome": "once"})
        assert "ok" in answer
    await host.idle(session_id)
    assert (host.folder / "a.txt").exists()


async def test_a_network_client_chooses_among_the_users_servers_alone(start: Start) -> None:
    host = await start(ScriptedTurn("one"), DONE)
    session_id = await host.new_session()
    async with _attached(host) as socket:
        await _greet(socket, host)
        for url in ("http://127.0.0.1:9", "gguf:", f"{host.model.url}@127.0.0.1:9"):
            answer = await _call(socket, "host", "", "switch_model", session_id=session_id, url=url, model="/etc/passwd")
            assert "not one of your servers" in answer["error"]["message"]
        answer = await _call(socket, "host", "", "switch_model", session_id=session_id, url=host.model.url, model="scripted")
        assert "ok" in answer


async def test_a_session_that_another_runtime_of_the_host_has_open_is_open_here(start: Start) -> None:
    host = await start(DONE)
    session = await (await host.hub.runtime(host.folder, GivenSettings({"seed": 7}))).new_session()
    session.submit("go")
    await session.wait_idle()
    async with _attached(host) as socket:
        await _greet(socket, host)
        (row,) = (await _call(socket, "host", "archive", "sessions"))["ok"]
        on = (await _call(socket, "host", "", "open", session_id=session.id))["ok"]
        await host.call("DELETE", f"/v1/sessions/{session.id}")
        assert "it was deleted" in (await _call(socket, on, "", "submit", text="go"))["error"]["message"]
    assert (row["id"], row["is_open"], row["is_elsewhere"]) == (session.id, True, False)


async def test_a_network_client_undoes_only_by_a_plan_that_the_host_made(start: Start) -> None:
    host = await start(DONE)
    session_id = await host.new_session()
    plan = {"action": "undo", "calls": [], "changes": [], "source": "a" * 40, "expected": "b" * 40}
    async with _attached(host) as socket:
        await _greet(socket, host)
        on = (await _call(socket, "host", "", "open", session_id=session_id))["ok"]
        answer = await _call(socket, on, "changes", "apply", plan=plan)
    assert "only what this host has returned before" in answer["error"]["message"]


# What is typed in a screen that is attached over the network: what the host refuses, with or without an answer, and the others.
REFUSED = (
    "/batch tasks.jsonl", "/check", "/find x", "/forget x", "/goal touch ran", "/mcp on evil", "/mcp yes evil",
    "/memory", "/pipeline plan.md", "/profile x", "/promote tool.py f", "/remember --all Always run curl",
    "/submit daily 09:00: run it", "/usage all",
)  # fmt: skip
OPEN = (
    "agents", "attempts", "background", "budget", "calls", "changes", "checks", "clear", "commands", "compact", "deep", "exit",
    "gates", "goal", "help", "ideate", "init", "instructions", "jobs", "mcp", "merge", "mode", "model", "models", "new",
    "plan", "projects", "quit", "redo", "rename", "resume", "session", "sessions", "skill", "skills", "soul", "status",
    "todo", "todos", "undo",
)  # fmt: skip


def _typed_in_a_screen(host: Host, session_id: str) -> set[str]:
    """Type what is refused in an attached screen, and return what is refused without an answer."""

    async def run() -> set[str]:
        remote = await asyncio.to_thread(RemoteHost, Target(str(host.folder), url=host.url, token=TOKEN).open)
        session = await remote.open_session(session_id)
        context = CommandContext(cast("SessionHost", remote), session, command_table())
        unanswered = set()
        for text in REFUSED:
            with contextlib.suppress(ClosedToNetwork, UsageError):
                result = await run_typed(context, text)
                while isinstance(result, AskYes):
                    result = await result.then()
                match result:
                    case Begin(start=begin):
                        begin(session)
                        async with asyncio.timeout(PATIENCE_S):
                            await session.wait_idle()
                    case OpenView(text=lines) if lines is not None:
                        await lines()
                unanswered.add(text)
        await remote.close()
        return unanswered

    return asyncio.run(run())


async def test_an_attached_screen_does_nothing_to_what_is_the_users_own(start: Start) -> None:
    host = await start(*[DONE] * 4)
    server = {"command": "touch", "args": [str(host.folder / "ran")], "sandbox": "host"}
    for name, text in {
        ".mcp.json": json.dumps({"mcpServers": {"evil": server}}), "tasks.jsonl": '{"task": "x"}',
        "plan.md": "# P\n\n## 1. x\n", "tool.py": "def f() -> None:\n    pass\n",
    }.items():  # fmt: skip
        (host.folder / name).write_text(text)
    session_id = await host.new_session()
    unanswered = await asyncio.to_thread(_typed_in_a_screen, host, session_id)
    (runtime,), session = host.hub.runtimes, await host.hub.session(session_id)
    (known,) = runtime.extensions[McpServers].servers()
    assert unanswered == {"/goal touch ran", "/mcp on evil", "/mcp yes evil", "/promote tool.py f"}
    assert (known.state, session.goals.listed(), (host.folder / "ran").exists()) == (ServerState.WAITING, (), False)
    assert runtime.extensions[Jobs].known == ()


def test_each_command_is_one_that_is_refused_to_the_network_or_one_that_is_open() -> None:
    handled = {name for each in command_table().commands if each.handler is not None for name in (*each.slash, *each.aliases)}
    refused = {text.split()[0][1:] for text in REFUSED}
    assert handled == refused | set(OPEN)


def test_what_waits_for_a_client_that_does_not_read_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(attach, "_MOST_WAITING_BYTES", 30)
    outbox = attach.Outbox()
    assert [outbox.put({"event": "0123456789"}) for _ in range(2)] == [True, False]
