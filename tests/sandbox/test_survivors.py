from __future__ import annotations

import asyncio
import contextlib
import os
import statistics
import time

import psutil
import pytest

from lmtui.core.ports import Sandbox
from tests.sandbox.conftest import CONFINED, ISOLATED, WITH_SHELL
from tests.waiting import PATIENCE_S

_RUNS = int(os.environ.get("LMTUI_LIFETIME_RUNS", "1000" if os.environ.get("LMTUI_FULL_BATTERY") == "1" else "8"))
_GONE_MS = 2_000  # wide, for a busy machine: the benchmark holds 250
_SHAPES = {
    "new session": "setsid sleep MARK & setsid -f sleep MARK; echo up; sleep MARK",
    "double fork": "(setsid bash -c '(sleep MARK &) ; sleep MARK' &) ; echo up; sleep MARK",
    "trap": "trap '' TERM INT HUP QUIT; (trap '' TERM; setsid sleep MARK &); echo up; while :; do sleep MARK; done",
    "stopped": "sleep MARK & kill -STOP $!; echo up; kill -STOP $$",
    "held pipe": "sleep MARK & disown; echo up; exec sleep MARK",
    "many": "for i in $(seq 40); do setsid sleep MARK & done; echo up; wait",
}
_BOMB = ": MARK; echo up; bomb() { bomb | bomb & }; bomb; sleep MARK"


@pytest.mark.parametrize("sandbox", WITH_SHELL, indirect=True)
async def test_no_process_survives_a_time_out(sandbox: Sandbox, mark: str) -> None:
    async def late_ms(number: int, command: str) -> int:
        result = await sandbox.run_command(command.replace("MARK", f"{mark}{number}"), timeout_s=1)
        assert (result.exit_code, result.is_timed_out, _left(f"{mark}{number}")) == (124, True, 0), command
        return result.elapsed_ms - 1000

    for _ in range(max(1, _RUNS // 8)):
        late = await asyncio.gather(*(late_ms(*each) for each in enumerate(_SHAPES.values())))
        assert statistics.median(late) <= _GONE_MS


@pytest.mark.parametrize("sandbox", CONFINED, indirect=True)
async def test_no_process_survives_an_interrupt(sandbox: Sandbox, mark: str) -> None:
    took_ms = []
    for _ in range(_RUNS // len(_SHAPES) or 1):
        for command in _SHAPES.values():
            took_ms.append(await _interrupted(sandbox, command.replace("MARK", mark)))
            assert _left(mark) == 0, command
    assert statistics.median(took_ms) <= _GONE_MS


@pytest.mark.parametrize("sandbox", ISOLATED, indirect=True)
async def test_no_process_survives_a_fork_bomb(sandbox: Sandbox, mark: str) -> None:
    for _ in range(max(1, _RUNS // 100)):
        result = await sandbox.run_command(_BOMB.replace("MARK", mark), timeout_s=1)
        assert result.exit_code in (124, 137)
        assert _left(mark) == 0
    assert (await sandbox.run_command("echo alive")).output == "alive\n"


async def _interrupted(sandbox: Sandbox, command: str) -> float:
    """Interrupt a command as soon as it is up and return how long that took."""
    up = asyncio.Event()
    task = asyncio.create_task(sandbox.run_command(command, on_output=lambda _text: up.set()))
    await asyncio.wait_for(up.wait(), PATIENCE_S)
    began = time.monotonic()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    return (time.monotonic() - began) * 1000


def _left(mark: str) -> int:
    """Count the processes of this test on the whole machine, whatever they are called."""
    count = 0
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            count += any(mark in word for word in process.cmdline())
    return count
