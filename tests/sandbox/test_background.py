from __future__ import annotations

import asyncio
import socket
from pathlib import Path

import pytest

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.ports import Sandbox
from lmtui.core.workspace import CommandLimits
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from tests.sandbox.conftest import ISOLATED, LANDLOCK, OpenSandbox, sleepers

STAYING = [*ISOLATED, "process"]


async def _becomes(seconds: str, *, is_running: bool) -> bool:
    for _ in range(200):
        if bool(await asyncio.to_thread(sleepers, seconds)) is is_running:
            return True
        await asyncio.sleep(0.05)
    return False


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
@pytest.mark.full
async def test_a_server_is_reached_from_wherever_a_command_runs_and_nothing_outside_is(sandbox: WorkspaceSandbox) -> None:
    await sandbox.run_command("echo mine > /tmp/kept")
    started = await sandbox.background.start("exec python3 -u -m http.server 18744 --bind 127.0.0.1")
    assert "Serving HTTP" in (await sandbox.background.read(started.id, wait_s=10))[0]
    outside = socket.create_server(("127.0.0.1", 0))
    fetch = "python3 -c \"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{}').status)\""
    overlay, staying = sandbox.overlay(), sandbox.overlay(stays=True)
    views = {
        "main": sandbox, "read": sandbox.read_only(), "secret": sandbox.revealing([".env"]), "check": sandbox.fresh(),
        "overlay": overlay.sandbox, "try": staying.sandbox, "check in try": staying.sandbox.fresh(),
    }  # fmt: skip
    try:
        for name, view in views.items():
            assert (name, (await view.run_command(fetch.format(18744))).output) == (name, "200\n")
            refused = await view.run_command(fetch.format(outside.getsockname()[1]))
            assert (name, "Connection refused" in refused.output) == (name, True)
        assert (await sandbox.run_command("cat /tmp/kept")).output == "mine\n"  # no new instance was needed
    finally:
        outside.close()
        await overlay.close()
        await staying.close()


@pytest.mark.parametrize("sandbox", STAYING, indirect=True)
async def test_input_reaches_a_command_and_its_answer_is_read_in_its_last_state(sandbox: Sandbox) -> None:
    started = await sandbox.background.start("while read -r line; do printf '1%%\\r2%%\\rgot %s\\n' \"$line\"; done")
    assert (await sandbox.background.read(started.id))[0] == ""
    await sandbox.background.send(started.id, "one two\n")
    assert (await sandbox.background.read(started.id, wait_s=5))[0].strip() == "got one two"


@pytest.mark.parametrize("sandbox", STAYING, indirect=True)
async def test_one_that_ends_by_itself_is_told_with_the_next_command(sandbox: Sandbox) -> None:
    started = await sandbox.background.start("sleep 0.3; echo last words; exit 3")
    while sandbox.background.commands()[0].exit_code is None:
        await asyncio.sleep(0.02)
    result = await sandbox.run_command("true")
    assert f"[background command {started.id} ended, exit code 3 after 0 s: sleep 0.3; echo last words; exit 3]" in result.text
    assert "background" not in (await sandbox.run_command("true")).text
    text, ended = await sandbox.background.read(started.id)
    assert (text.strip(), ended.exit_code) == ("last words", 3)


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_stopping_one_leaves_the_others_and_all_end_with_the_session(sandbox: Sandbox, mark: str) -> None:
    other = await sandbox.background.start("sleep 77.5")
    started = await sandbox.background.start(f"setsid sleep {mark} & wait")
    await sandbox.run_command("true")
    assert await _becomes(mark, is_running=True)
    await sandbox.background.stop(started.id)
    assert await _becomes(mark, is_running=False)
    await sandbox.background.start(f"sleep {mark} & sleep {mark}")
    assert await _becomes(mark, is_running=True)
    go_on = {each.id: each.exit_code is None for each in sandbox.background.commands()}
    assert go_on == {other.id: True, started.id: False, "b3": True}
    await sandbox.close()
    assert await _becomes(mark, is_running=False)


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_those_of_one_session_end_with_it_while_others_go_on(sandbox: WorkspaceSandbox, mark: str) -> None:
    own = sandbox.for_session()
    await own.background.start(f"sleep {mark}")
    assert await _becomes(mark, is_running=True)
    await own.close()
    assert await _becomes(mark, is_running=False)
    assert (await sandbox.run_command("echo on")).output == "on\n"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_what_it_leaves_for_programs_outside_is_set_aside_when_it_is_read(sandbox: Sandbox, workspace: Path) -> None:
    many = "for each in $(seq 150); do mkdir $each; touch $each/.envrc; sleep 0.002; done"
    started = await sandbox.background.start(f"mkdir sub; git init -q sub; {many}; echo complete; sleep 30")
    text = ""
    while "complete" not in text:
        text += (await sandbox.background.read(started.id, wait_s=0.02))[0]
    text += (await sandbox.background.read(started.id))[0]
    assert "was moved to .lmagent/quarantine" in text
    assert not (workspace / "sub" / ".git").exists()
    assert not list(workspace.glob("*/.envrc"))


@pytest.mark.parametrize("backend", ISOLATED)
async def test_memory_and_number_are_limited(open_sandbox: OpenSandbox, backend: str) -> None:
    sandbox = await open_sandbox(backend, limits=CommandLimits(memory_mb=100))
    eater = await sandbox.background.start("python3 -c 'x = bytearray(300 << 20); import time; time.sleep(30)'")
    _, ended = await sandbox.background.read(eater.id, wait_s=20)
    assert (ended.exit_code, ended.why) == (137, "memory")
    for _ in range(16):
        await sandbox.background.start("sleep 60")
    with pytest.raises(SandboxError, match="16 background commands run already"):
        await sandbox.background.start("sleep 60")


@pytest.mark.parametrize("sandbox", [LANDLOCK], indirect=True)
async def test_without_mounts_there_is_none_and_it_says_what_has_them(sandbox: Sandbox) -> None:
    with pytest.raises(SandboxUnavailable, match="landlock has no background commands") as refused:
        await sandbox.background.start("sleep 5")
    assert refused.value.hint == "Use bubblewrap or Docker."
