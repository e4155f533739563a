from __future__ import annotations

import asyncio
import contextlib
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import psutil
import pytest

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Sandbox
from tests.sandbox.conftest import ALL, ISOLATED, WITH_SHELL, OpenSandbox, sleepers
from tests.waiting import PATIENCE_S


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_a_command_runs_in_the_workspace_and_its_files_are_the_owners(sandbox: Sandbox, workspace: Path) -> None:
    result = await sandbox.run_command("pwd; echo new > made.txt; exit 3")
    assert result.exit_code == 3
    assert result.output.strip().endswith("workspace")
    assert (workspace / "made.txt").read_text() == "new\n"
    assert (workspace / "made.txt").stat().st_uid == workspace.stat().st_uid


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_output_is_shown_while_a_command_runs(sandbox: Sandbox) -> None:
    shown: list[tuple[float, str]] = []
    await sandbox.run_command("echo one; sleep 0.3; echo two", on_output=lambda text: shown.append((time.monotonic(), text)))
    assert "".join(text for _, text in shown) == "one\ntwo\n"
    assert shown[-1][0] - shown[0][0] > 0.2


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_control_sequences_and_split_characters_come_out_clean(sandbox: Sandbox) -> None:
    shown: list[str] = []
    command = r"printf '\033[31mr\303'; sleep 0.2; printf '\244d\033]0;ti'; sleep 0.2; printf 'tle\007!\n'"
    result = await sandbox.run_command(command, on_output=shown.append)
    assert result.output == "räd!\n"
    assert "".join(shown) == "räd!\n"


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_long_output_keeps_head_and_tail_and_saves_more(sandbox: Sandbox) -> None:
    result = await sandbox.run_command("seq 1 100000")
    assert result.total_bytes == 588_895
    assert result.output.startswith("1\n2\n")
    assert result.output.endswith("99999\n100000\n")
    assert "523,359 bytes left out" in result.output
    saved = await sandbox.run_command(f"sed -n 50000p {result.saved_path}; wc -c < {result.saved_path}")
    assert saved.output.split() == ["50000", "588895"]
    assert (await sandbox.read_file(result.saved_path)).size_bytes == 588_895
    (found,) = await sandbox.grep("^77777$", path=result.saved_path)
    assert (found.path, found.line) == (result.saved_path, 77_777)
    with pytest.raises(SandboxError, match=r"outside the workspace|read-only"):
        await sandbox.write_file(result.saved_path, b"")
    with pytest.raises(SandboxError, match="outside the workspace"):
        await sandbox.read_file("/etc/lmtui-output-x/0123456789ab.txt")


@pytest.mark.full
@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_gigabyte_of_output_costs_little_memory(sandbox: Sandbox) -> None:
    process = psutil.Process()
    await sandbox.run_command("true")
    before, highest = process.memory_info().rss, 0

    def watch(_text: str) -> None:
        nonlocal highest
        highest = max(highest, process.memory_info().rss)

    result = await sandbox.run_command("head -c 1000000000 /dev/zero", timeout_s=60, on_output=watch)
    assert result.total_bytes == 1_000_000_000
    assert highest - before < 20_000_000


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_nothing_outlives_a_command_that_ends(sandbox: Sandbox, mark: str) -> None:
    result = await sandbox.run_command(f"setsid nohup sleep {mark} & (sleep {mark} &) ; sleep 0.2; echo started")
    assert result.exit_code == 0
    assert sleepers(mark) == 0


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_a_cancelled_command_is_gone_when_the_cancel_returns(sandbox: Sandbox, mark: str) -> None:
    started = asyncio.Event()
    command = f"trap '' TERM; setsid sleep {mark} & sleep 0.1; echo up; sleep {mark}"
    task = asyncio.create_task(sandbox.run_command(command, on_output=lambda _text: started.set()))
    await asyncio.wait_for(started.wait(), PATIENCE_S)
    assert sleepers(mark) > 0
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task
    assert sleepers(mark) == 0
    assert (await sandbox.run_command("echo alive")).output == "alive\n"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_command_that_kills_everything_in_reach_ends_only_commands(sandbox: Sandbox) -> None:
    result = await sandbox.run_command("kill -9 -1; kill -9 1; kill -STOP 1; echo survived")
    assert result.exit_code in (0, 137)
    assert (await sandbox.run_command("echo alive")).output == "alive\n"


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_command_that_stops_its_keeper_is_still_ended_in_time(sandbox: Sandbox, mark: str) -> None:
    await sandbox.run_command(f"kill -STOP $PPID; sleep {mark}", timeout_s=1)
    assert sleepers(mark) == 0
    assert (await sandbox.run_command("echo alive")).output == "alive\n"


_EATER = "python3 -c 'import time; kept = bytearray({mb} << 20); time.sleep(20)'"


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_memory_over_the_limit_ends_a_command_with_all_that_it_started(sandbox: Sandbox) -> None:
    result = await sandbox.run_command(_EATER.format(mb=300), timeout_s=15, memory_mb=128)
    assert (result.exit_code, result.is_timed_out) == (137, False)
    assert result.text == "[killed: it used more than 128 MB of memory; memory_mb can be up to 1,024]"
    tree = await sandbox.run_command(f"for i in 1 2 3; do {_EATER.format(mb=100)} & done; wait", timeout_s=15, memory_mb=200)
    assert (tree.exit_code, tree.is_timed_out) == (137, False)
    enough = await sandbox.run_command("python3 -c 'kept = bytearray(700 << 20); print(len(kept))'", memory_mb=1024)
    assert enough.output == f"{700 << 20}\n"


@pytest.mark.parametrize("sandbox", [*ISOLATED, "process"], indirect=True)
async def test_commands_run_side_by_side_and_one_end_leaves_the_others(sandbox: Sandbox) -> None:
    slow = [asyncio.create_task(sandbox.run_command(f"sleep 0.4; echo {number}")) for number in range(4)]
    quick = await sandbox.run_command("echo quick")
    assert quick.output == "quick\n"
    assert [(await task).output for task in slow] == [f"{number}\n" for number in range(4)]


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_command_sees_only_the_environment_that_it_is_given(sandbox: Sandbox) -> None:
    names = set(re.findall(r"^(\w+)=", (await sandbox.run_command("env")).output, re.MULTILINE))
    assert names <= {
        "PATH", "HOME", "USER", "LOGNAME", "LANG", "TERM", "PAGER", "GIT_PAGER", "GIT_OPTIONAL_LOCKS", "GIT_TERMINAL_PROMPT",
        "GIT_CONFIG_GLOBAL", "GIT_DISCOVERY_ACROSS_FILESYSTEM",
        "GIT_CONFIG_COUNT", "GIT_CONFIG_KEY_0", "GIT_CONFIG_VALUE_0",
        "PIP_RETRIES", "npm_config_fetch_retries", "CARGO_NET_RETRY", "UV_HTTP_RETRIES",
        "PWD", "SHLVL", "_", "OLDPWD",
    }  # fmt: skip


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_a_lost_supervisor_fails_its_calls_and_the_next_call_starts_another(sandbox: Sandbox) -> None:
    seconds = f"20.{os.getpid()}"
    waiting = asyncio.create_task(sandbox.run_command(f"sleep {seconds}"))
    async with asyncio.timeout(PATIENCE_S):
        while not await asyncio.to_thread(sleepers, seconds):
            await asyncio.sleep(0.05)
    lost = await asyncio.to_thread(_supervisors)
    for signal_number in (signal.SIGSTOP, signal.SIGKILL):  # else one of them says how a child that was killed before it ended
        for process in lost:
            with contextlib.suppress(psutil.NoSuchProcess):  # one may end with the one before it
                process.send_signal(signal_number)
    with pytest.raises(SandboxError, match="ended unexpectedly"):
        await waiting
    result = await sandbox.run_command("echo again")
    assert result.text.startswith("again\n")
    assert "started again" in result.text
    assert (await sandbox.run_command("echo quiet")).text == "quiet"


@pytest.mark.parametrize("backend", ALL)
async def test_sessions_share_one_sandbox_and_the_last_ends_it(backend: str, open_sandbox: OpenSandbox) -> None:
    first, second = await open_sandbox(backend), await open_sandbox(backend)
    before = len(_supervisors())
    await first.close()
    assert (await second.read_file("README.md")).data == b"hello\n"
    assert len(_supervisors()) == before
    await second.close()
    assert len(_supervisors()) == before - 2  # the one for commands and the guard
    with pytest.raises(SandboxError, match="closed"):
        await second.read_file("README.md")


def _supervisors() -> list[psutil.Process]:
    """Return the supervisors that this very process started, in containers too."""
    found = []
    mine = {process.pid for process in psutil.Process().children(recursive=True)} | _pids_of_containers()
    for pid in mine:
        with contextlib.suppress(psutil.Error, IndexError):
            process = psutil.Process(pid)
            line = process.cmdline()
            if "python" in Path(line[0]).name and any("guest.supervisor" in argument for argument in line):
                found.append(process)
    return found


def _pids_of_containers() -> set[int]:
    """Return the first processes of this process's containers, as the host numbers them."""
    listed = _docker("ps", "--quiet", "--filter", f"label=lmtui.pid={os.getpid()}").split()
    return {int(pid) for pid in _docker("inspect", "--format", "{{.State.Pid}}", *listed).split()} if listed else set()


def _docker(*arguments: str) -> str:
    program = shutil.which("docker")
    if program is None:
        return ""
    return subprocess.run([program, *arguments], capture_output=True, text=True, check=False).stdout
