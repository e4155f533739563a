from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from lmtui.features.jobs.job_table import JobFile
from lmtui.features.jobs.service import new_record
from lmtui.features.jobs.values import JobRecord
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

JOBS = 12
PATIENCE_S = 90.0
STORY = "I begin now and shall be long about it, word after word, until somebody comes and stops me right here."


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
async def server() -> AsyncIterator[ScriptedServer]:
    story = Scenario((ScriptedTurn(STORY, rate=4.0), ScriptedTurn("Done.")), "story", "tell a story")
    async with ScriptedServer(story, Scenario((ScriptedTurn("Done."),))) as running:
        yield running


async def lmtui(workspace: Path, *words: str) -> asyncio.subprocess.Process:
    command = (sys.executable, "-m", "lmtui", *words, "--workspace", str(workspace))
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe, env=dict(os.environ))


async def said_by(workspace: Path, *words: str) -> tuple[int, str, str]:
    process = await lmtui(workspace, *words)
    async with asyncio.timeout(PATIENCE_S):
        out, err = await process.communicate()
    return process.returncode or 0, out.decode(), err.decode()


async def until(table: JobFile, is_so: Callable[[tuple[JobRecord, ...]], bool]) -> tuple[JobRecord, ...]:
    async with asyncio.timeout(PATIENCE_S):
        while not is_so(records := (await asyncio.to_thread(table.read)).records):
            await asyncio.sleep(0.1)
    return records


async def test_jobs_due_at_one_time_run_once_each_over_three_schedulers(workspace: Path, server: ScriptedServer) -> None:
    table = JobFile(workspace)
    schedulers = [await lmtui(workspace, "scheduler", "--url", server.url) for _ in range(3)]
    due = datetime.now(UTC) + timedelta(seconds=4)
    for number in range(JOBS):
        table.add(replace(new_record(f"job {number}", ""), schedule=f"at {due.isoformat()}", due=due))
    records = await until(table, lambda jobs: all(job.history.runs for job in jobs))
    for each in schedulers:
        each.send_signal(signal.SIGTERM)
    async with asyncio.timeout(PATIENCE_S):
        assert [(await each.communicate(), each.returncode)[1] for each in schedulers] == [130] * 3
    assert [job.history.last_outcome for job in records] == ["done"] * JOBS
    said = Counter(each.body["messages"][-1]["content"] for each in server.requests)
    assert said == Counter(f"job {number}" for number in range(JOBS))
    table.close()


async def test_a_scheduler_that_is_killed_loses_no_job_and_the_next_goes_on_at_once(
    workspace: Path, server: ScriptedServer
) -> None:
    table = JobFile(workspace)
    table.add(replace(new_record("tell a story", ""), due=datetime.now(UTC)))
    first = await lmtui(workspace, "scheduler", "--url", server.url)
    await until(table, lambda jobs: bool(jobs[0].history.begun_session) and bool(server.open_streams))
    first.kill()
    await first.communicate()
    held = table.read().records[0]
    assert held.claim
    code, _, err = await said_by(workspace, "scheduler", "--once", "--url", server.url)
    job = table.read().records[0]
    assert (code, job.history.runs, job.history.last_outcome, job.history.last_session) == (
        0,
        1,
        "done",
        held.history.begun_session,
    ), err
    table.close()


async def test_a_job_that_nobody_may_finish_is_told_by_the_exit_code(workspace: Path) -> None:
    write = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "a.txt", "content": "x"}),))
    async with ScriptedServer(Scenario((write, ScriptedTurn("It was refused.")))) as server:
        await said_by(workspace, "submit", "write a.txt")
        code, _, err = await said_by(workspace, "scheduler", "--once", "--url", server.url)
    assert (code, "1 job ran" in err.splitlines()[-1]) == (1, True), err
