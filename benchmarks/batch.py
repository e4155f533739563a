"""Batches on scripted servers: throughput by number of servers, cost of kills, overhead of the head, and routing."""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import random
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path

import psutil

from benchmarks.report import Figure
from lmtui.core.messages import Completion, Message, ModelRequest, Role
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.endpoint_pool import PoolMember, ServerPool
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.scripted_server import ScriptedServer

_TASKS = int(os.environ.get("LMTUI_BENCH_TASKS", "18"))
_KILLS = int(os.environ.get("LMTUI_BENCH_KILLS", "6"))
_SECONDS_A_TURN = 6.0


def figures() -> list[Figure]:
    """Measure and return every figure of this part."""
    one_s, _ = _timed(1, _TASKS)
    three_s, _ = _timed(3, _TASKS)
    lost, repeated = _killed(_KILLS)
    lost_here, repeated_here = _killed_workers(_KILLS)
    return [
        Figure(f"{_TASKS} tasks on three servers: time ÷ that on one", three_s / one_s, "×", 1 / 2.6),
        Figure(f"servers killed in the middle ({_KILLS}): tasks lost", float(lost), "tasks", 0.0),
        Figure("tasks done twice for each kill, at most", float(repeated), "tasks", 1.0),
        Figure(f"workers of a cluster killed in the middle ({_KILLS}): tasks lost", float(lost_here), "tasks", 0.0),
        Figure("tasks done twice for each kill of a worker, at most", float(repeated_here), "tasks", 1.0),
        Figure("tasks with checks of 6 s on two Dask workers: time ÷ that on one", _two_workers(), "×", 1 / 1.7),
        Figure("later requests of a conversation that go where its prompt is not", 100 * asyncio.run(_cold()), "%", 5.0),
        Figure("processor time of the head for each step of a batch", _head_ms(), "ms", 20.0),
        Figure("memory of the head with 1,000 tasks waiting", _waiting_mb(), "MB", 150.0),
    ]


def _scenarios(count: int, words_per_s: float, steps: int = 1) -> list[Scenario]:
    """Return tasks that write a file in each step."""
    words = " ".join(["word"] * 12)
    found = []
    for number in range(1, count + 1):
        calls = [ScriptedCall("write", {"path": f"out/{number}_{step}.txt", "content": f"{number}\n"}) for step in range(steps)]
        turns = [ScriptedTurn(words, calls=(call,), rate=words_per_s) for call in calls]
        found.append(Scenario((*turns, ScriptedTurn(words, rate=words_per_s)), match=f"number {number};"))
    return found


@contextmanager
def _servers(count: int, scenarios: Sequence[Scenario]) -> Iterator[tuple[list[str], list[BaseProcess]]]:
    """Run scripted servers, each in its own process; yield their addresses."""
    context = multiprocessing.get_context("spawn")
    urls: list[str] = []
    running: list[BaseProcess] = []
    with ExitStack() as stack:
        for _ in range(count):
            here, there = context.Pipe()
            process = context.Process(target=_serve, args=(scenarios, there), daemon=True)
            process.start()
            stack.callback(process.kill)
            urls.append(here.recv())
            running.append(process)
        yield urls, running


def _serve(scenarios: Sequence[Scenario], pipe: Connection) -> None:
    async def serve() -> None:
        async with ScriptedServer(*scenarios) as server:
            pipe.send(server.url)
            await asyncio.Event().wait()

    asyncio.run(serve())


@contextmanager
def run_batch(urls: Sequence[str], count: int, *more: str, checks: Sequence[str] = ()) -> Iterator[tuple[psutil.Popen, Path]]:
    """Run `lmtui batch` over some tasks in a fresh folder; yield its process and that folder.

    What it says goes to `said` in it.
    """
    with tempfile.TemporaryDirectory() as name:
        place = Path(name)
        (place / "work").mkdir()
        tasks = ({"id": f"t{number}", "task": f"do number {number};", "checks": checks} for number in range(1, count + 1))
        (place / "tasks.jsonl").write_text("\n".join(map(json.dumps, tasks)), encoding="utf-8")
        run = [sys.executable, "-m", "lmtui", "batch", str(place / "tasks.jsonl"), "--tries", "1"]
        run += ["--sandbox", "bubblewrap", "-c", f"servers={json.dumps(list(urls))}", *more]
        environ = {**os.environ, "LMTUI_HOME": str(place / "home"), "PYTHONPATH": str(Path(__file__).parents[1])}
        with (place / "said").open("wb") as said:
            process = psutil.Popen(run, cwd=place / "work", env=environ, stderr=said)
        try:
            yield process, place
        finally:
            if process.is_running():
                process.kill()
            process.wait()


def _timed(servers: int, count: int) -> tuple[float, list[dict[str, object]]]:
    """Return the time from the first to the last result on a number of servers, and the results."""
    scenarios = _scenarios(count, 12 / _SECONDS_A_TURN)
    with _servers(servers, scenarios) as (urls, _):
        began = time.monotonic()
        with run_batch(urls, count) as (process, out):
            assert process.wait() == 0
            elapsed_s = time.monotonic() - began
            return elapsed_s, _results(out)


def _results(place: Path) -> list[dict[str, object]]:
    files = place.glob("home/state/workspaces/*/batches/*/results.jsonl")
    lines = [line for file in files for line in file.read_text(encoding="utf-8").splitlines()]
    return [json.loads(line) for line in lines if line.endswith("}")]


def _killed(times: int) -> tuple[int, int]:
    """Kill one of three servers during a batch, a number of times; return how many tasks were lost, and repeated at worst."""
    lost = repeated = 0
    chance = random.Random(7)
    for _ in range(times):
        with _servers(3, _scenarios(6, 24.0)) as (urls, running), run_batch(urls, 6) as (process, out):
            while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and not _results(out):
                time.sleep(0.02)
            time.sleep(chance.random())
            os.kill(running[chance.randrange(3)].pid or 0, signal.SIGKILL)
            process.wait()
            ends = Counter(str(each["id"]) for each in _results(out) if each["status"] in ("unverified", "green"))
            lost += 6 - len(ends)
            repeated = max(repeated, max(ends.values(), default=0) - 1)
    return lost, repeated


def _killed_workers(times: int) -> tuple[int, int]:
    """Kill one of two cluster workers during a batch, a number of times; return the same as `_killed`."""
    lost = repeated = 0
    chance = random.Random(11)
    for number in range(times):
        with (
            _servers(1, _scenarios(4, 24.0)) as (urls, _),
            run_batch(urls, 4, "--cluster", "local", "--workers", "2") as (head, out),
        ):
            while head.poll() is None and not _results(out):
                time.sleep(0.02)
            time.sleep(2 * chance.random())
            workers = [each for each in head.children() if "spawn_main" in " ".join(each.cmdline())]
            chance.choice(workers).kill()
            head.wait()
            ends = Counter(str(each["id"]) for each in _results(out) if each["status"] in ("unverified", "green"))
            lost += 4 - len(ends)
            repeated = max(repeated, max(ends.values(), default=0) - 1)
            is_noticed = "was lost" in (out / "said").read_text(encoding="utf-8")
            print(f"kill {number + 1}: {len(ends)} of 4 done, noticed: {is_noticed}", file=sys.stderr, flush=True)
    return lost, repeated


def _two_workers() -> float:
    """Return the time of six tasks, each with a check of 6 s of processor time, on two workers ÷ that on one.

    The time is that from when the workers are ready.
    """
    burn = "import time; end = time.process_time() + 6; [None for _ in iter(lambda: time.process_time() < end, False)]"
    took: list[float] = []
    for workers in (1, 2):
        more = ("--cluster", "local", "--workers", str(workers))
        with (
            _servers(1, _scenarios(6, 0.0)) as (urls, _),
            run_batch(urls, 6, *more, checks=[f"python3 -c '{burn}'"]) as (process, out),
        ):
            while process.poll() is None and "results:" not in (out / "said").read_text(encoding="utf-8"):
                time.sleep(0.05)
            began = time.monotonic()
            code = process.wait()
            assert code == 0, (out / "said").read_text(encoding="utf-8")
            took.append(time.monotonic() - began)
            print(f"{workers} workers: {took[-1]:.1f} s", file=sys.stderr, flush=True)
    return took[1] / took[0]


async def _cold() -> float:
    """Return the share of follow-up requests that reach another server than the first request of their conversation."""
    scenario = Scenario((ScriptedTurn("word", rate=200.0),) * 40)
    servers = [await ScriptedServer(scenario).__aenter__() for _ in range(3)]
    pool = ServerPool([PoolMember(OpenAICompatible(server.url)) for server in servers])
    system = [Message(Role.SYSTEM, f"conversation {number}") for number in range(12)]

    async def talk(first: Message) -> None:
        for turn in range(8):
            request = ModelRequest((first, Message(Role.USER, f"{first.text} turn {turn}")), (), "scripted")
            async for piece in pool.stream(request):
                assert not isinstance(piece, Completion) or piece.message.text

    await asyncio.gather(*map(talk, system))
    places = [Counter(str(each.body["messages"][0]["content"]) for each in server.requests) for server in servers]
    warm = sum(max(place[first.text] for place in places) - 1 for first in system)
    await pool.close()
    for server in servers:
        await server.__aexit__(None)
    return 1 - warm / (len(system) * 7)


def _head_ms() -> float:
    """Return the processor time of the head for each further step of a task, as the difference of two batches."""
    spent = []
    for steps in (2, 22):
        with _servers(3, _scenarios(4, 0.0, steps)) as (urls, _), run_batch(urls, 4) as (process, _):
            times = process.cpu_times()
            while process.poll() is None:
                with ExitStack() as quiet:
                    quiet.callback(time.sleep, 0.02)
                    if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                        times = process.cpu_times()
            spent.append(times.user + times.system)
    return 1000 * (spent[1] - spent[0]) / (4 * 20)


def _waiting_mb() -> float:
    """Return the memory of the head while 1,000 tasks wait."""
    with _servers(1, _scenarios(1000, 2.0)) as (urls, _), run_batch(urls, 1000) as (process, out):
        while not (out / "tasks.jsonl").exists():
            time.sleep(0.1)
        time.sleep(8)
        return statistics.median(process.memory_info().rss for _ in range(3)) / 1e6
