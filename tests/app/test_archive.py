from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from lmtui.app.archive import session_events
from lmtui.core.errors import SandboxError, SessionFileError
from lmtui.core.events import (
    ApprovalRequested,
    ApprovalResolved,
    Event,
    InboxChanged,
    MessageAdded,
    ModeChanged,
    ModelChanged,
    Outcome,
    SessionOpened,
    SessionRenamed,
    ToolCallFinished,
    ToolCallStarted,
    TurnEnded,
)
from lmtui.core.messages import Image, Role
from lmtui.engine.session import EngineSession
from lmtui.features.jobs.values import Jobs
from lmtui.models.demo_scripts import ScriptedTurn
from lmtui.store.session_logs import SessionStore
from tests.app.conftest import DONE, WRITE, Open, Serve, jobs_of, run

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(40)


def texts(workspace: Path, session_id: str) -> list[str]:
    events = session_events(workspace, session_id)
    return [each.event.text for each in events if isinstance(each.event, MessageAdded)]


async def test_a_fork_goes_on_where_it_was_cut_and_the_original_stays(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, ScriptedTurn("Next."))
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session()
    await run(session, "the first task")
    await run(session, "the second task")
    before = [(each.seq, each.event) for each in session.history()]
    cut = next(
        each.seq for each in session.history() if isinstance(each.event, MessageAdded) and each.event.text == "All is done."
    )
    new_id = await runtime.archive.fork(session.id, cut)
    fork = await runtime.open_session(new_id)
    opened = fork.history()[0].event
    assert isinstance(opened, SessionOpened)
    assert (opened.parent, opened.parent_seq) == (session.id, cut)
    assert {each.session for each in fork.history()} == {new_id}
    await run(fork, "and now")
    assert texts(workspace, new_id) == ["the first task", "All is done.", "and now", "Next."]
    assert not any("second" in str(message["content"]) for message in server.requests[-1].body["messages"])
    assert [(each.seq, each.event) for each in session.history()] == before
    numbers = [each.seq for each in fork.history()]
    assert numbers == sorted(set(numbers))
    titles = [each.event.title for each in fork.history() if isinstance(each.event, SessionRenamed)]
    assert titles[-1] == "the first task (fork)"
    assert runtime.archive.look_up([new_id])[0].is_open


async def test_a_closed_session_is_forked_whole_with_its_pictures(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    first = open_one(server.url)
    session = await first.new_session()
    session.submit("look", images=[Image("a.png", "image/png", PNG)])
    await session.wait_idle()
    await first.close()
    second = open_one(server.url)
    new_id = await second.archive.fork(session.id)
    (ref,) = next(
        each.event.images
        for each in session_events(workspace, new_id)
        if isinstance(each.event, MessageAdded) and each.event.images
    )
    store = SessionStore(workspace)
    store.images(session.id).delete()
    found = store.images(new_id).get(ref)
    assert found is not None
    assert found.data == PNG


async def test_grants_queue_and_undo_of_the_original_are_not_the_forks(workspace: Path, open_one: Open, serve: Serve) -> None:
    server = await serve(WRITE, DONE)
    runtime = open_one(server.url, mode="auto")
    session = await runtime.new_session()
    await run(session, "write it")
    ask = ApprovalRequested(approval_id="a", call_id="c", tool="shell", text="ls", suggested_rule="Shell(ls)")
    granted: list[Event] = [
        ask,
        ApprovalResolved(approval_id="a", outcome=Outcome.SESSION, rule="Shell(ls)"),
        InboxChanged(queued=("later",)),
    ]
    assert isinstance(session, EngineSession)
    for event in granted:
        session.emit(event)
    await runtime.close()
    again = open_one(server.url, mode="auto")
    original = await again.open_session(session.id)
    fork = await again.open_session(await again.archive.fork(session.id))
    assert "Shell(ls)" in {str(rule) for rule in original.rules}
    assert "Shell(ls)" not in {str(rule) for rule in fork.rules}
    assert not any(isinstance(each.event, InboxChanged) for each in fork.history())
    assert (workspace / "a.txt").read_text() == "one\n"
    assert fork.changes is not None
    assert not any(step.can_undo for step in fork.changes.steps())
    with pytest.raises(SandboxError, match="forked from"):
        await fork.changes.plan_undo()


async def test_a_fork_within_a_step_takes_the_ends_of_its_calls_along(open_one: Open, serve: Serve, workspace: Path) -> None:
    runtime = open_one((await serve(WRITE, DONE)).url, mode="auto")
    session = await runtime.new_session()
    await run(session, "write it")
    cut = next(
        each.seq for each in session.history() if isinstance(each.event, MessageAdded) and each.event.role is Role.ASSISTANT
    )
    events = [each.event for each in session_events(workspace, await runtime.archive.fork(session.id, cut))]
    assert sum(isinstance(event, ToolCallStarted) for event in events) == 1
    assert [event.ok for event in events if isinstance(event, ToolCallFinished)] == [True]
    (end,) = [event for event in events if isinstance(event, TurnEnded)]
    assert end.error == "the fork begins here"


async def test_a_fork_of_a_session_that_is_not_ours_takes_neither_its_mode_nor_its_server(
    workspace: Path, tmp_path: Path, open_one: Open, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_one((await serve(DONE)).url, mode="auto")
    session = await first.new_session()
    await run(session)
    await first.close()
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "somebody else"))
    url = (await serve(DONE)).url
    second = open_one(url)
    new_id = await second.archive.fork(session.id)
    events = [each.event for each in session_events(workspace, new_id)]
    assert {event.mode for event in events if isinstance(event, ModeChanged)} == {"normal"}
    assert {event.url.removesuffix("/v1").rstrip("/") for event in events if isinstance(event, ModelChanged)} == {
        url.removesuffix("/v1").rstrip("/")
    }
    assert (await second.open_session(new_id)).mode == "normal"


async def test_an_export_is_a_new_file_where_lmtui_was_started_or_where_that_is_gone_in_the_users_folder(
    tmp_path: Path, home: Path, open_one: Open, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    runtime = open_one((await serve(DONE)).url)
    session = await runtime.new_session()
    await run(session)
    for form, begin in (("md", "# do it"), ("html", "<!doctype html>"), ("jsonl", '{"seq":1,')):
        first, second = await runtime.archive.export(session.id, form), await runtime.archive.export(session.id, form)
        assert (first.parent, second.name) == (here, f"lmtui-{session.id}-2.{form}")
        assert first.read_text().startswith(begin)
        assert first.stat().st_mode & 0o777 == 0o600
    with pytest.raises(SessionFileError, match="pdf"):
        await runtime.archive.export(session.id, "pdf")
    monkeypatch.chdir(tmp_path)
    shutil.rmtree(here)
    assert (await runtime.archive.export(session.id, "md")).parent == home / "state" / "exports"


async def test_a_fork_waits_for_nothing_and_the_original_still_does(open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(ScriptedTurn("WAIT: in 2h: the build"))).url)
    session = await runtime.new_session()
    await run(session, "wait")
    new_id = await runtime.archive.fork(session.id)
    fork = await runtime.open_session(new_id)
    assert fork.sleep.wait is None
    await fork.close()
    await session.close()
    states = {each.id: (each.state, each.wakes is not None) for each in runtime.archive.sessions()}
    assert states == {session.id: ("waiting", True), new_id: ("done", False)}
    await jobs_of(runtime).close()
    assert [job.session for job in await runtime.extensions[Jobs].read()] == [session.id]
