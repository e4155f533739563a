from __future__ import annotations

import asyncio
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from lmtui.app.archive import archive_of
from lmtui.app.host import Runtime
from lmtui.core.agent_events import WaitSet
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.job_table import JobFile
from lmtui.features.jobs.service import new_record
from lmtui.features.jobs.values import JobKind, JobRecord, Jobs
from lmtui.models.demo_scripts import ScriptedTurn
from tests.app.conftest import DONE, Open, Serve, jobs_of, one_pass, run
from tests.waiting import until

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

WAITS = ScriptedTurn("WAIT: in 2h: the build")


async def wakes(runtime: Runtime) -> list[JobRecord]:
    return [each for each in await runtime.extensions[Jobs].read() if each.kind is JobKind.WAKE]


async def killed_behind_its_wait(runtime: Runtime) -> EngineSession:
    """Leave what a kill leaves between a wait in the log and its row."""
    session = await runtime.new_session()
    await run(session)
    await runtime.close()
    for job in await wakes(runtime):
        JobFile(runtime.workspace).remove(job.id)
    return session


async def test_a_wait_whose_wake_was_never_written_gets_it_when_a_scheduler_starts(open_one: Open, serve: Serve) -> None:
    server = await serve(WAITS)
    session = await killed_behind_its_wait(open_one(server.url))
    next_life = open_one(server.url)
    assert await wakes(next_life) == []
    await one_pass(next_life)
    event = next(each.event for each in session.history() if isinstance(each.event, WaitSet))
    assert [(each.session, each.due) for each in await wakes(next_life)] == [(session.id, event.until)]
    await one_pass(next_life)
    reopened = await next_life.open_session(session.id)
    assert reopened.sleep.wait is not None
    await jobs_of(next_life).close()
    assert len(await wakes(next_life)) == 1


async def test_a_lost_wait_that_is_due_goes_on_at_once(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(ScriptedTurn("WAIT: in 1s: the build"), DONE)
    await killed_behind_its_wait(open_one(server.url))
    next_life = open_one(server.url)
    task = asyncio.ensure_future(next_life.serve())
    try:
        await until(lambda: archive_of(workspace).sessions()[0].state == "done")
    finally:
        await jobs_of(next_life).stop()
    assert task.cancelled()
    assert len(server.requests) == 2


async def test_a_wait_that_is_over_or_anothers_gets_no_wake(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(WAITS, DONE, WAITS)
    runtime = open_one(server.url)
    over = await runtime.new_session()
    await run(over)
    await run(over, "never mind")
    theirs = await killed_behind_its_wait(runtime)
    for job in await wakes(runtime):
        JobFile(workspace).remove(job.id)
    sessions = workspace / ".lmagent" / "sessions"
    shutil.move(sessions / f"{theirs.id}.jsonl", sessions / "20260101_000000_abcdef.jsonl")
    next_life = open_one(server.url)
    await one_pass(next_life)
    assert await wakes(next_life) == []


async def test_the_wake_of_a_jobs_session_has_the_jobs_policy(open_one: Open, serve: Serve) -> None:
    server = await serve(WAITS)
    runtime = open_one(server.url)
    session = await killed_behind_its_wait(runtime)
    job = replace(
        new_record("do it", ""),
        mode="auto",
        allow=("Write(a.txt)",),
        begun_session=session.id,
        begun_seq=2,
    )
    JobFile(runtime.workspace).add(job)
    next_life = open_one(server.url)
    await one_pass(next_life)
    assert [(each.mode, each.allow) for each in await wakes(next_life)] == [("auto", ("Write(a.txt)",))]
