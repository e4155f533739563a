from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from lmtui.sandbox.select import select_sandbox
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER, OpenSandbox, sleepers
from tests.sets import few
from tests.waiting import PATIENCE_S, until

_HOST = """
import asyncio, shutil, sys
from pathlib import Path
from lmtui.sandbox.select import select_sandbox

async def main():
    sandbox = await select_sandbox(Path(sys.argv[1]), backend=sys.argv[2])
    if shutil.which("git"):
        await sandbox.run_git(["init"], writes=True)
    await sandbox.run_command(sys.argv[3], timeout_s=100, on_output=lambda text: print(text, flush=True))

asyncio.run(main())
"""
_GONE_S = PATIENCE_S / 2  # before its time is up


@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP, pytest.param("process", marks=pytest.mark.full)])
async def test_nothing_is_left_after_lmtui_is_killed(
    backend: str, workspace: Path, open_sandbox: OpenSandbox, mark: str
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    command = f"setsid sleep {mark} & (setsid sleep {mark} &); sleep {mark} & sleep 0.3; echo ready; wait"
    host = await asyncio.create_subprocess_exec(
        sys.executable, "-c", _HOST, str(workspace), backend, command, stdout=asyncio.subprocess.PIPE
    )
    assert host.stdout is not None
    try:
        assert await asyncio.wait_for(host.stdout.readline(), PATIENCE_S) == b"ready\n"
        await until(lambda: sleepers(mark) == 3)
    finally:
        host.send_signal(signal.SIGKILL)
        await host.wait()
    deadline = time.monotonic() + _GONE_S
    while sleepers(mark) or (backend == "docker" and _containers(host.pid)):
        assert time.monotonic() < deadline, "something was left"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("backend", [DOCKER])
async def test_containers_of_dead_owners_are_removed_at_the_next_start(
    backend: str, workspace: Path, open_sandbox: OpenSandbox
) -> None:
    sandbox = await open_sandbox(backend)
    labels = _docker("inspect", "--format", '{{index .Config.Labels "lmtui.host"}}', *_containers(os.getpid())).split()
    await sandbox.close()
    orphan = _docker(
        "create", "--label", f"lmtui.host={labels[0]}", "--label", "lmtui.pid=999999", "--label", "lmtui.started=1.00",
        "lmtui-sandbox:3", "true",
    ).strip()  # fmt: skip
    await open_sandbox(backend)
    assert orphan not in _docker("ps", "--all", "--quiet", "--no-trunc").split()


@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP])
async def test_closing_while_a_command_runs_ends_it(backend: str, open_sandbox: OpenSandbox, mark: str) -> None:
    sandbox = await open_sandbox(backend)
    task = asyncio.create_task(sandbox.run_command(f"setsid sleep {mark} & sleep {mark}"))
    await until(lambda: sleepers(mark) == 2)
    await sandbox.close()
    with contextlib.suppress(Exception):
        await task
    assert sleepers(mark) == 0


@pytest.mark.parametrize("backend", [DOCKER, BUBBLEWRAP])
async def test_a_start_that_is_cancelled_leaves_nothing(
    backend: str, workspace: Path, open_sandbox: OpenSandbox, mark: str
) -> None:
    await (await open_sandbox(backend)).close()  # skips where it cannot work
    others = psutil.Process().children(recursive=True)  # that other tests of this process keep
    for delay_s in few((0.0, 0.02, 0.05, 0.1, 0.2)):
        sandbox = await select_sandbox(workspace, backend=backend)
        task = asyncio.create_task(sandbox.run_command(f"sleep {mark}"))
        await asyncio.sleep(delay_s)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await sandbox.close()
        # the trial of a bubblewrap runs in a thread and ends by itself, as what the engine was asked to remove goes
        await until(lambda: {*psutil.Process().children(recursive=True)} <= {*others})
        await until(lambda: backend != "docker" or not _containers(os.getpid()))


def _containers(owner: int) -> list[str]:
    return _docker("ps", "--all", "--quiet", "--filter", f"label=lmtui.pid={owner}").split()


def _docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False).stdout
