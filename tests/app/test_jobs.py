from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.archive import archive_of, session_events
from lmtui.app.host import Runtime
from lmtui.core.errors import JobsError, UsageError
from lmtui.core.events import ModeChanged, ToolCallFinished, TurnEnded
from lmtui.core.permissions.rules import Mode
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.service import new_record
from lmtui.features.jobs.values import JobRecord, Jobs, NewJob, job_lines
from lmtui.models.demo_scripts import ScriptedTurn
from lmtui.paths import inbox_dir
from tests.app.conftest import DONE, WRITE, Open, Serve, jobs_of, one_pass, run
from tests.sets import for_each
from tests.waiting import PATIENCE_S, until

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


async def serve_until(runtime: Runtime, is_so: Callable[[], bool]) -> None:
    task = asyncio.ensure_future(runtime.serve())
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                assert not task.done(), task
                await asyncio.sleep(0.01)
    finally:
        await jobs_of(runtime).stop()


async def the_job(runtime: Runtime, number: int = 0) -> JobRecord:
    return (await runtime.extensions[Jobs].read())[number]


async def test_a_job_runs_as_a_session_of_its_own_that_is_named_after_it_and_let_go_of(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    runtime = open_one((await serve(DONE)).url)
    await runtime.extensions[Jobs].add(NewJob(text="say hello\nto everyone", title="Hello"))
    await one_pass(runtime)
    job = await the_job(runtime)
    assert (job.runs, job.last_outcome, job.due, job.state) == (1, "done", None, "done")
    found = archive_of(workspace).sessions()
    assert [(each.id, each.title, each.state) for each in found] == [(job.last_session, "Hello", "done")]
    gc.collect()
    assert not [each for each in gc.get_objects() if isinstance(each, EngineSession) and each.id == found[0].id]


async def test_what_would_ask_is_refused_and_a_rule_of_the_job_allows_it(workspace: Path, open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(WRITE, DONE)).url)
    await runtime.extensions[Jobs].add(NewJob(text="write", mode="manual"))
    await one_pass(runtime)
    blocked = await the_job(runtime)
    shown = next(job_lines([blocked], datetime.now(UTC))).split()[1]
    assert (blocked.last_outcome, blocked.state, blocked.shown_state, shown) == ("blocked", "done", "failed", "failed")
    assert not (workspace / "a.txt").exists()
    await runtime.extensions[Jobs].add(NewJob(text="write", mode="manual", allow=("Write(a.txt)",)))
    await one_pass(runtime)
    assert (await the_job(runtime, 1)).last_outcome == "done"
    assert (workspace / "a.txt").read_text() == "one\n"
    assert "running unattended" in events_of(workspace, (await the_job(runtime)).last_session, ToolCallFinished)[0].result


def events_of(workspace: Path, session_id: str, kind: type[ToolCallFinished]) -> list[ToolCallFinished]:
    return [each.event for each in session_events(workspace, session_id) if isinstance(each.event, kind)]


@for_each(
    "wanted, why",
    [
        ({"text": "  "}, "needs a text"),
        ({"text": "x", "schedule": "weekly"}, "weekly"),
        ({"text": "x", "schedule": "at 2020-01-01T00:00Z"}, "is over"),
        ({"text": "x", "zone": "Mars/Olympus"}, "Mars/Olympus"),
        ({"text": "x", "mode": "yolo"}, "not a mode"),
        ({"text": "x", "allow": ("(",)}, r"\("),
        ({"text": "caf\udce9"}, "is not text"),
        ({"text": "x", "title": "\ud800"}, "is not text"),
        ({"text": "x", "allow": ("Shell(\udce9)",)}, "is not text"),
    ],
)
async def test_what_cannot_be_a_job_is_refused(workspace: Path, open_one: Open, wanted: dict[str, Any], why: str) -> None:
    with pytest.raises(UsageError, match=why):
        await open_one().extensions[Jobs].add(NewJob(**wanted))
    assert not (workspace / ".lmagent").exists()


async def test_jobs_are_paused_resumed_run_and_removed_by_an_end_of_their_id(open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(DONE)).url)
    job = await runtime.extensions[Jobs].add(NewJob(text="later", schedule="daily 03:00", title="Later"))
    assert not (await runtime.extensions[Jobs].pause(job.id[-5:])).is_enabled
    await one_pass(runtime)
    assert (await runtime.extensions[Jobs].resume("Later")).due == job.due
    await runtime.extensions[Jobs].run_now(job.id)
    await one_pass(runtime)
    assert (await the_job(runtime)).runs == 1
    assert (await the_job(runtime)).due == job.due
    await runtime.extensions[Jobs].remove(job.id)
    assert await runtime.extensions[Jobs].read() == ()
    with pytest.raises(JobsError, match="no job"):
        await runtime.extensions[Jobs].remove(job.id)


async def test_a_run_that_loses_its_server_goes_on_in_its_session_when_it_is_back(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    server = await serve(DONE)
    away = open_one(server.url, max_retries=0)
    session = await away.new_session()
    await server.__aexit__(None, None, None)
    await run_without_server(session, "hello")
    await session.close()
    begun = replace(new_record("hello", ""), due=datetime.now(UTC), begun_session=session.id, begun_seq=3, tries=1)
    await jobs_of(away).put(begun)
    again = await serve(DONE)
    await one_pass(open_one(again.url))
    job = await the_job(away)
    assert (job.last_outcome, job.last_session, job.tries) == ("done", session.id, 0)
    assert "server was away" in again.requests[-1].body["messages"][-1]["content"]
    assert len(archive_of(workspace).sessions()) == 1


async def run_without_server(session: EngineSession, text: str) -> None:
    session.submit(text)
    await session.wait_idle()
    end = next(each.event for each in reversed(session.history()) if isinstance(each.event, TurnEnded))
    assert (end.reason, end.fault) == ("error", "unreachable")


async def test_a_stop_saves_the_run_and_the_next_scheduler_goes_on_in_its_session(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    slow = ScriptedTurn("I begin now and shall be long about it, word after word, until somebody stops me here.", rate=5.0)
    server = await serve(slow, DONE)
    first = open_one(server.url)
    await first.extensions[Jobs].add(NewJob(text="be long"))
    await serve_until(first, lambda: bool(server.open_streams))
    job = await the_job(first)
    assert (job.claim, job.attempts, job.runs) == ("", 0, 0)
    assert job.begun_session
    await first.close()
    second = open_one(server.url)
    await one_pass(second)
    job = await the_job(second)
    assert (job.last_outcome, job.runs) == ("done", 1)
    assert len(archive_of(workspace).sessions()) == 1
    reminder = server.requests[-1].body["messages"][-1]["content"]
    assert "was stopped while you worked" in reminder


async def begun_and_over(runtime: Runtime, turn: str = "go on", **fields: Any) -> EngineSession:
    """Leave what a kill leaves between the end of a job's turn and the table."""
    session = await runtime.new_session()
    await run(session, "begin")
    seq = session.history()[-1].seq
    await run(session, turn)
    await session.close()
    record = replace(new_record("go on", ""), due=datetime.now(UTC), begun_session=session.id, begun_seq=seq, attempts=1)
    await jobs_of(runtime).put(replace(record, **fields))
    return session


@pytest.mark.parametrize(("turn", "requests"), [("go on", 2), ("what is this?", 3)], ids=["the job's", "the user's own"])
async def test_a_job_whose_end_only_the_table_does_not_know_is_not_run_again(
    open_one: Open, serve: Serve, turn: str, requests: int
) -> None:
    server = await serve(DONE, DONE, DONE)
    runtime = open_one(server.url)
    await begun_and_over(runtime, turn)
    await one_pass(runtime)
    job = await the_job(runtime)
    assert (job.last_outcome, job.runs, job.begun_session, job.begun_seq) == ("done", 1, "", 0)
    assert len(server.requests) == requests


async def test_after_its_run_a_session_has_the_mode_that_it_had(workspace: Path, open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(DONE, WRITE, DONE)).url, mode="manual")
    session = await runtime.new_session()
    await run(session, "begin")
    await session.close()
    await runtime.extensions[Jobs].add(NewJob(text="write", session=session.id, mode="auto"))
    await one_pass(runtime)
    assert (workspace / "a.txt").exists()
    assert (await runtime.open_session(session.id)).mode is Mode.MANUAL


async def test_the_mode_of_a_job_that_was_killed_does_not_stay(open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(DONE, DONE)).url, mode="manual")
    session = await begun_and_over(runtime, mode="auto")
    left = await runtime.open_session(session.id)
    left.set_mode(Mode.AUTO)
    await left.close()
    await one_pass(runtime)
    assert (await runtime.open_session(session.id)).mode is Mode.MANUAL


@pytest.mark.parametrize(
    "policy",
    [{"mode": "auto"}, *(pytest.param({key: ("Write(a.txt)",)}, marks=pytest.mark.full) for key in ("allow", "deny"))],
)
async def test_a_job_with_a_policy_waits_until_its_session_is_closed(
    workspace: Path, open_one: Open, serve: Serve, policy: dict[str, Any]
) -> None:
    runtime = open_one((await serve(DONE, DONE)).url)
    session = await runtime.new_session()
    await run(session, "begin")
    await runtime.extensions[Jobs].add(NewJob(text="go on", session=session.id, **policy))
    await one_pass(runtime)
    job = await the_job(runtime)
    assert (job.runs, job.attempts, job.claim) == (0, 0, "")
    assert (await jobs_of(runtime).runs.run(job, _nothing)).is_busy
    await session.close()
    await one_pass(runtime)
    assert (await the_job(runtime)).last_outcome == "done"


async def _nothing(*_: object) -> None:
    raise AssertionError("it began")


async def test_two_jobs_of_one_session_run_one_behind_the_other(workspace: Path, open_one: Open, serve: Serve) -> None:
    slow = ScriptedTurn("A story that goes on for a while, word by word.", rate=20.0)
    server = await serve(DONE, slow, slow)
    runtime = open_one(server.url)
    session = await runtime.new_session()
    await run(session, "begin")
    await session.close()
    for mode in ("auto", "manual"):
        await runtime.extensions[Jobs].add(NewJob(text=f"go on: {mode}", session=session.id, mode=mode))
    await serve_until(runtime, lambda: [each.runs for each in runtime.extensions[Jobs].known] == [1, 1])
    events = [each.event for each in session_events(workspace, session.id)]
    marks = [each.mode if isinstance(each, ModeChanged) else each.kind for each in events]
    shown = [mark for mark in marks if mark in (*Mode, "turn_started", "turn_ended")]
    turn = ["turn_started", "turn_ended"]
    assert shown == ["normal", *turn, "auto", *turn, "normal", "manual", *turn, "normal"]


async def test_a_stop_while_the_scheduler_enters_leaves_it_free(open_one: Open) -> None:
    runtime = open_one()
    for delay_s in (0.0, 0.0, 0.001):
        task = asyncio.ensure_future(runtime.serve())
        await asyncio.sleep(delay_s)
        task.cancel()
        await asyncio.wait({task})
        assert task.cancelled()
    assert not runtime.extensions[Jobs].is_scheduled()
    await one_pass(runtime)


async def test_the_inbox_of_a_trusted_folder_makes_jobs_and_of_another_none(
    workspace: Path, open_one: Open, serve: Serve
) -> None:
    server = await serve(DONE)
    inbox_dir(workspace).mkdir(parents=True)
    (inbox_dir(workspace) / "a.task").write_text("hello from a script")
    careful = open_one(server.url)
    told: list[str] = []
    jobs_of(careful).on_problem = told.append
    await one_pass(careful)
    assert await careful.extensions[Jobs].read() == ()
    assert len(told) == 1
    trusting = open_one(server.url, inbox="on")
    await one_pass(trusting)
    assert (await the_job(trusting)).last_outcome == "done"
    assert not [*inbox_dir(workspace).iterdir()]


async def test_a_session_that_waits_is_woken_by_the_lmtui_that_has_it_open(open_one: Open, serve: Serve) -> None:
    server = await serve(ScriptedTurn("WAIT: in 1s: the build"), DONE)
    holder, other = open_one(server.url), open_one(server.url)
    session = await holder.new_session()
    await run(session)
    other_serving = asyncio.ensure_future(other.serve())
    try:
        await until(lambda: any(job.due and job.due < datetime.now(UTC) for job in other.extensions[Jobs].known))
        assert not (await the_job(other)).claim
        await serve_until(holder, lambda: len(server.requests) == 2)
    finally:
        await jobs_of(other).stop()
    assert other_serving.cancelled()
    assert next(each.event.status for each in session.history() if isinstance(each.event, TurnEnded)) == "waiting"


@pytest.mark.parametrize("policy", [{}, {"mode": "auto"}])
async def test_a_session_that_the_user_opens_while_its_job_opens_it_is_the_users(
    open_one: Open, serve: Serve, policy: dict[str, Any]
) -> None:
    runtime = open_one((await serve(DONE, DONE, DONE)).url)
    session = await runtime.new_session()
    await run(session, "begin")
    await session.close()
    job = await runtime.extensions[Jobs].add(NewJob(text="go on", session=session.id, **policy))

    async def began(*_: object) -> None:
        assert not policy

    running = asyncio.ensure_future(jobs_of(runtime).runs.run(job, began))
    mine = await runtime.open_session(session.id)
    end = await running
    assert end.is_busy is bool(policy)
    assert end.outcome == ("" if policy else "done")
    assert not mine.is_closed
    assert mine.mode is Mode.NORMAL
    assert await runtime.open_session(session.id) is mine
