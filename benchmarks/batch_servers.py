"""Throughput of a batch with up to 100 servers: a real head and real sandboxes, but simulated servers.

`python -m benchmarks.batch_servers` prints the table of `docs/benchmarks.md`.  A server is scripted, has one slot and
takes some seconds for each answer, as a model would; all of them run in one process.  A task writes a file in each of its
steps but the last.
"""

from __future__ import annotations

import argparse
import asyncio
import multiprocessing
import time
from collections.abc import Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.connection import Connection

import psutil

from benchmarks.batch import run_batch
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

_COUNTS = (1, 3, 10, 30, 100)
_TASKS_PER_SERVER, _STEPS, _WORDS = 3, 4, 12


def main() -> None:
    """Measure and print a line for each number of servers."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3.0, help="seconds per answer (default: 3)")
    parser.add_argument("--servers", type=int, nargs="+", default=_COUNTS)
    chosen = parser.parse_args()
    print("| servers | tasks a minute | × one | head, % of a core | sandboxes, % of a core |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    first = 0.0
    for count in chosen.servers:
        rate, head, sandboxes = _measured(count, chosen.seconds)
        first = first or rate
        print(f"| {count} | {rate:.1f} | {rate / first:.1f} | {head:.0f} | {sandboxes:.0f} |", flush=True)


def _measured(count: int, seconds: float) -> tuple[float, float, float]:
    """Return the tasks per minute, and the CPU shares of the head and its sandboxes (% of a core)."""
    tasks = count * _TASKS_PER_SERVER
    with (
        _boxes(count, _scenarios(tasks, _WORDS / seconds)) as urls,
        run_batch(urls, tasks) as (process, out),
    ):
        while not (out / "tasks.jsonl").exists():
            time.sleep(0.02)
        began_s, times = time.monotonic(), process.cpu_times()
        before_s = times.user + times.system
        while process.poll() is None:
            with process.oneshot():
                times = process.cpu_times() if process.status() != psutil.STATUS_ZOMBIE else times
            time.sleep(0.05)
        elapsed_s = time.monotonic() - began_s
        assert process.returncode == 0, (out.parent / "said").read_text(encoding="utf-8")[-2_000:]
    head_s, sandboxes_s = times.user + times.system - before_s, times.children_user + times.children_system
    return 60 * tasks / elapsed_s, 100 * head_s / elapsed_s, 100 * sandboxes_s / elapsed_s


def _scenarios(count: int, words_per_s: float) -> Sequence[Scenario]:
    words = " ".join(["word"] * _WORDS)
    found = []
    for number in range(1, count + 1):
        calls = [_call(number, step) for step in range(_STEPS - 1)]
        turns = [ScriptedTurn(words, calls=(call,), rate=words_per_s) for call in calls]
        found.append(Scenario((*turns, ScriptedTurn(words, rate=words_per_s)), match=f"number {number};"))
    return found


def _call(number: int, step: int) -> ScriptedCall:
    return ScriptedCall("write", {"path": f"out/{number}_{step}.txt", "content": f"{number}\n"})


@contextmanager
def _boxes(count: int, scenarios: Sequence[Scenario]) -> Iterator[list[str]]:
    """Run scripted servers together in a separate process; yield their addresses."""
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(count, scenarios, there), daemon=True)
    process.start()
    try:
        yield here.recv()
    finally:
        process.kill()
        process.join()


def _serve(count: int, scenarios: Sequence[Scenario], pipe: Connection) -> None:
    async def serve() -> None:
        async with AsyncExitStack() as stack:
            servers = [await stack.enter_async_context(ScriptedServer(*scenarios)) for _ in range(count)]
            pipe.send([server.url for server in servers])
            await asyncio.Event().wait()

    asyncio.run(serve())


if __name__ == "__main__":
    main()
