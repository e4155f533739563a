from __future__ import annotations

import asyncio
import json
import signal
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import AsyncExitStack
from typing import Any

import psutil
import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

pytestmark = pytest.mark.bubblewrap


def scenario(number: int, rate: float) -> Scenario:
    call = ScriptedCall("write", {"path": f"out/{number}.txt", "content": f"{number}\n"})
    turns = (ScriptedTurn(" ".join(["word"] * 10), calls=(call,), rate=rate), ScriptedTurn("All is done."))
    return Scenario(turns, match=f"number {number};")


class Machines:
    """A Dask scheduler and workers, each in a process of its own."""

    def __init__(self, program: Program, stack: AsyncExitStack) -> None:
        self.program, self._stack, self._count = program, stack, 0
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp://127.0.0.1:{free.getsockname()[1]}"

    async def scheduler(self) -> asyncio.subprocess.Process:
        host, port = self.address.removeprefix("tcp://").split(":")
        process = await self._start("scheduler", "--host", host, "--port", port, "--no-dashboard")
        await until(lambda: is_open(host, int(port)))
        return process

    async def worker(self) -> asyncio.subprocess.Process:
        self._count += 1
        options = ("--nthreads", "1", "--resources", "slot=1", "--no-dashboard", "--no-nanny", "--name", f"w{self._count}")
        return await self._start("worker", self.address, *options)

    async def _start(self, *arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "dask", *arguments),
            cwd=self.program.home,
            env=self.program.full_environ(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        self._stack.push_async_callback(kill, process)
        return process


def is_open(host: str, port: int) -> bool:
    with socket.socket() as found:
        return found.connect_ex((host, port)) == 0


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.fixture
async def machines(program: Program) -> AsyncIterator[Machines]:
    program.home.mkdir()
    async with AsyncExitStack() as stack:
        yield Machines(program, stack)


def batch(program: Program, url: str, count: int, *more: str) -> tuple[str, ...]:
    file = program.home / "tasks.jsonl"
    file.write_text("\n".join(json.dumps({"id": f"t{n}", "task": f"do number {n};"}) for n in range(1, count + 1)))
    base = ("batch", "--sandbox", "bubblewrap", "--tries", "1", "-c", f'servers=["{url}"]')
    return (*base, *more, str(file))


def results(program: Program) -> list[dict[str, Any]]:
    files = [*program.state.glob("batches/*/results.jsonl")]
    return [json.loads(line) for file in files for line in file.read_text().splitlines()]


async def until(is_so: Callable[[], bool], most_s: float = 60) -> None:
    async with asyncio.timeout(most_s):
        while not is_so():
            await asyncio.sleep(0.05)


async def test_a_worker_that_is_killed_in_the_middle_costs_no_task_and_none_is_done_twice(
    program: Program, serve: Serve, machines: Machines
) -> None:
    server = await serve(*(scenario(number, 10.0) for number in range(1, 4)))
    await machines.scheduler()
    workers = [await machines.worker() for _ in range(2)]
    process = await program.start(*batch(program, server.url, 3, "--cluster", machines.address))
    await until(lambda: bool(server.requests))
    victim = psutil.Process(workers[0].pid)
    below = victim.children(recursive=True)
    workers[0].send_signal(signal.SIGKILL)
    _, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert "was lost" in err.decode()
    assert Counter(each["id"] for each in results(program)) == dict.fromkeys(("t1", "t2", "t3"), 1)
    await until(lambda: not any(each.is_running() and each.status() != psutil.STATUS_ZOMBIE for each in below), 25)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
async def test_a_head_that_stops_or_is_killed_leaves_nothing_running_on_the_workers(
    number: signal.Signals, code: int, program: Program, serve: Serve, machines: Machines
) -> None:
    server = await serve(scenario(1, 0.5))
    await machines.scheduler()
    worker = await machines.worker()
    process = await program.start(*batch(program, server.url, 1, "--cluster", machines.address))
    await until(lambda: bool(server.requests))
    assert psutil.Process(worker.pid).children()
    process.send_signal(number)
    _, err = await process.communicate()
    assert process.returncode == code, err.decode()
    await until(lambda: not psutil.Process(worker.pid).children(), 25)
    assert worker.returncode is None
