"""Jobs: a hundred due at one time over three schedulers, how late one wakes, and what an idle scheduler costs."""

from __future__ import annotations

import asyncio
import os
import signal
import statistics
import sys
import tempfile
import time
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil

from benchmarks.report import Figure
from lmtui.features.jobs.job_table import JobFile
from lmtui.features.jobs.service import new_record
from lmtui.features.jobs.values import JobRecord
from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

JOBS, SCHEDULERS = 100, 3
WAKES, APART_S = 10, 3.0
IDLE_S = 60.0
PATIENCE_S = 300.0


def figures() -> list[Figure]:
    """Measure, in a folder and a home of its own."""
    with tempfile.TemporaryDirectory(prefix="lmtui-bench-") as folder:
        os.environ["LMTUI_HOME"] = f"{folder}/home"
        workspaces = [Path(folder, name) for name in ("crowd", "wakes", "idle")]
        for each in workspaces:
            each.mkdir()
        crowd, wakes, idle = workspaces
        return [*asyncio.run(_crowd(crowd)), *asyncio.run(_wakes(wakes)), *asyncio.run(_idle(idle))]


async def schedule(workspace: Path, url: str) -> asyncio.subprocess.Process:
    """Start a scheduler process on a workspace."""
    command = (sys.executable, "-m", "lmtui", "scheduler", "--workspace", str(workspace), "--url", url)
    return await asyncio.create_subprocess_exec(*command, stderr=asyncio.subprocess.DEVNULL)


async def stop(processes: list[asyncio.subprocess.Process]) -> list[int]:
    """Ask schedulers to end, and return their exit codes."""
    for each in processes:
        each.send_signal(signal.SIGTERM)
    return [await each.wait() for each in processes]


def add_jobs(table: JobFile, count: int, due: datetime, apart_s: float = 0.0) -> None:
    """Add jobs that are due at a time, or one after the other."""
    for number in range(count):
        record = new_record(f"job {number}", "")
        when = due + timedelta(seconds=number * apart_s)
        table.add(replace(record, schedule=f"at {when.isoformat()}", due=when))


async def until_done(table: JobFile, count: int) -> tuple[JobRecord, ...]:
    """Wait until so many jobs have run."""
    async with asyncio.timeout(PATIENCE_S):
        done: tuple[JobRecord, ...] = ()
        while sum(job.runs > 0 for job in done) < count:
            await asyncio.sleep(0.2)
            done = await asyncio.to_thread(table.read)
    return done


def said(server: ScriptedServer) -> Counter[str]:
    """Return how often each job's text came to the model."""
    return Counter(str(each.body["messages"][-1]["content"]) for each in server.requests)


async def _crowd(workspace: Path) -> list[Figure]:
    async with ScriptedServer(Scenario((ScriptedTurn("Done."),))) as server:
        table = JobFile(workspace)
        processes = [await schedule(workspace, server.url) for _ in range(SCHEDULERS)]
        await asyncio.sleep(3)
        due = datetime.now(UTC) + timedelta(seconds=2)
        add_jobs(table, JOBS, due)
        begun = time.monotonic()
        await until_done(table, JOBS)
        took_s = time.monotonic() - begun
        await stop(processes)
        table.close()
        times = said(server)
    return [
        Figure(f"jobs of {JOBS} that ran, over {SCHEDULERS} schedulers, missing", JOBS - len(times), "jobs", 0.5),
        Figure("runs beyond the one of each", sum(times.values()) - len(times), "runs", 0.5),
        Figure("all of them done after", took_s, "s", 60.0),
    ]


async def _wakes(workspace: Path) -> list[Figure]:
    async with ScriptedServer(Scenario((ScriptedTurn("Done."),))) as server:
        table = JobFile(workspace)
        process = await schedule(workspace, server.url)
        await asyncio.sleep(3)
        add_jobs(table, WAKES, datetime.now(UTC) + timedelta(seconds=2.4), APART_S)
        records = await until_done(table, WAKES)
        await stop([process])
        table.close()
    lates = [_late_s(job) for job in records]
    return [
        Figure("a job is begun after its time, median", 1000 * statistics.median(lates), "ms"),
        Figure("a job is begun after its time, most", 1000 * max(lates), "ms", 1000.0),
    ]


def _late_s(job: JobRecord) -> float:
    """Return how long after its time a job was claimed."""
    assert job.last_run is not None
    return (job.last_run - datetime.fromisoformat(job.schedule.removeprefix("at "))).total_seconds()


async def _idle(workspace: Path) -> list[Figure]:
    async with ScriptedServer(Scenario((ScriptedTurn("Done."),))) as server:
        table = JobFile(workspace)
        add_jobs(table, JOBS, datetime.now(UTC) + timedelta(days=1))
        process = await schedule(workspace, server.url)
        await asyncio.sleep(5)
        seen = psutil.Process(process.pid)
        before = seen.cpu_times()
        await asyncio.sleep(IDLE_S)
        after = seen.cpu_times()
        memory_mb = seen.memory_info().rss / 1e6
        await stop([process])
        table.close()
    share = (after.user + after.system - before.user - before.system) / IDLE_S
    return [
        Figure(f"an idle scheduler with {JOBS} jobs, share of one core", 100 * share, "%", 1.0),
        Figure("its memory", memory_mb, "MB"),
    ]
