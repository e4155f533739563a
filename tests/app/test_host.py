from __future__ import annotations

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lmtui.app.archive import session_log
from lmtui.app.host import Runtime
from lmtui.config import SETTINGS, Config, Loaded
from lmtui.core.errors import SessionFileError, UsageError
from lmtui.core.events import Notice, SessionOpened, ToolCallFinished, TurnEnded, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.core.ports import Policy
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.paths import sessions_dir, state_dir
from tests.app.conftest import DONE, WRITE, Open, Serve, run, window_known
from tests.waiting import until

# A look at the server that is cancelled while it connects may leave its socket to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

HOLD = (
    "import fcntl,sys; file = open(sys.argv[1], 'a'); fcntl.flock(file, fcntl.LOCK_EX); print('held', flush=True);"
    "sys.stdin.read()"
)


def test_a_folder_that_cannot_be_worked_in_is_refused_by_name(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").mkdir()
    (tmp_path / "link" / ".lmagent").symlink_to(tmp_path)
    for place, words in (
        ("/", "whole file system"),
        ("/no/such/folder", "does not exist"),
        ("file", "not a folder"),
        ("link", "symbolic link"),
    ):
        with pytest.raises(UsageError, match=words) as caught:
            Runtime(tmp_path / place, Config())
        assert caught.value.hint


@pytest.mark.parametrize("config", [Config(url="ftp://x"), Config(allow=("rm -rf /",)), Config(deny=("(",))])
def test_settings_that_cannot_be_read_are_refused_before_anything_starts(workspace: Path, config: Config) -> None:
    with pytest.raises(UsageError):
        Runtime(workspace, config)
    assert not list(workspace.iterdir())


async def test_without_a_server_no_session_begins_and_no_file_is_left(workspace: Path, open_one: Open) -> None:
    runtime = open_one()
    assert runtime.setup_note
    with pytest.raises(UsageError, match="no model server"):
        await runtime.new_session()
    assert not list(workspace.rglob("*.jsonl"))


async def test_a_task_runs_and_its_session_is_listed(workspace: Path, open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(WRITE, DONE)).url, mode="auto", ask=("Shell(docker *)",))
    session = await runtime.new_session()
    rules = [(str(rule), rule.effect, rule.source) for rule in session.rules]
    assert rules == [("Shell(docker *)", "ask", "settings")], "ask rules of the settings hold in every mode"
    events = await run(session, "write a file")
    assert isinstance(events[-1], TurnEnded)
    assert (workspace / "a.txt").read_text() == "one\n"
    opened = session.history()[0].event
    unattended = (await runtime.new_session(Policy(is_attended=False))).history()[0].event
    assert isinstance(opened, SessionOpened)
    assert isinstance(unattended, SessionOpened)
    assert (opened.is_unattended, unattended.is_unattended) == (False, True)
    summary = next(each for each in runtime.archive.sessions() if each.id == session.id)
    assert (summary.id, summary.state, summary.changed_files, summary.is_open) == (session.id, "done", 1, True)
    assert summary.title == "write a file"
    assert [each.id for each in runtime.archive.sessions("FILE done")] == [session.id]
    assert not runtime.archive.sessions("zebra")


async def test_a_second_runtime_goes_on_where_the_first_stopped(open_one: Open, serve: Serve) -> None:
    server = await serve(WRITE, DONE, ScriptedTurn("And more."))
    first = open_one(server.url, mode="auto")
    session = await first.new_session()
    await run(session, "the first task")
    before = [(each.seq, each.event) for each in session.history()]
    await first.close()
    second = open_one(server.url, mode="auto")
    again = await second.open_session(session.id[-6:])
    assert [(each.seq, each.event) for each in again.history()][: len(before)] == before
    await run(again, "and then")
    sent = [str(message["content"]) for message in server.requests[-1].body["messages"]]
    assert any("the first task" in text for text in sent)
    assert sent[-1].endswith("and then")
    numbers = [envelope.seq for envelope in again.history()]
    assert numbers == sorted(set(numbers))


async def test_a_mode_that_is_forced_holds_for_a_session_that_is_opened_again(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    first = open_one(server.url, mode="auto")
    session = await first.new_session()
    await run(session)
    await first.close()
    modes = []
    for is_forced in (False, True):
        runtime = open_one(server.url, mode="plan", is_mode_forced=is_forced)
        modes.append(str((await runtime.open_session(session.id)).mode))
        await runtime.close()
    assert modes == ["auto", "plan"]


async def test_opening_twice_gives_the_same_session(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    first = open_one(server.url)
    session_id = (await first.new_session()).id
    assert (await first.open_session(session_id)).id == session_id
    await first.close()
    second = open_one(server.url)
    one, other = await asyncio.gather(second.open_session(session_id), second.open_session(session_id[-6:]))
    assert one is other


async def test_a_sandbox_whose_settings_change_while_it_opens_is_not_the_one_in_use(open_one: Open) -> None:
    runtime = open_one(sandbox="process")
    sources = dict.fromkeys(SETTINGS, "default")
    runtime.ask_trust(Loaded(runtime.config, sources), lambda: Loaded(Config(sandbox="process"), sources))
    opening = asyncio.ensure_future(runtime.sandbox())
    await asyncio.sleep(0)
    assert not opening.done()
    _ = runtime.settings.change("sandbox", "process")
    assert (await (await opening).status()).backend == "process"
    assert await runtime.sandbox() is await opening


async def test_an_opening_that_failed_does_not_lock_the_session(workspace: Path, open_one: Open, serve: Serve) -> None:
    gone, server = await serve(DONE), await serve(DONE)
    first = open_one(gone.url)
    session_id = (await first.new_session()).id
    await first.close()
    await gone.__aexit__(None, None, None)
    assert not (state_dir() / "server.json").exists()  # it has answered nothing
    second = open_one()
    with pytest.raises(UsageError, match="no model server"):
        await second.open_session(session_id)
    await second.servers.use(server.url, "scripted")
    assert (await second.open_session(session_id)).id == session_id


@contextlib.asynccontextmanager
async def holding(path: Path) -> AsyncIterator[None]:
    """Keep a log locked by another process."""
    pipe = asyncio.subprocess.PIPE
    other = await asyncio.create_subprocess_exec(sys.executable, "-c", HOLD, str(path), stdin=pipe, stdout=pipe)
    assert other.stdout
    assert await other.stdout.readline() == b"held\n"
    yield
    await other.communicate(b"")


async def test_a_session_open_in_another_process_is_neither_opened_nor_deleted(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    first = open_one(server.url)
    session_id = (await first.new_session()).id
    path = session_log(first.workspace, session_id)
    await first.close()
    async with holding(path):
        second = open_one(server.url)
        with pytest.raises(SessionFileError, match="open in another lmtui"):
            await second.open_session(session_id)
        with pytest.raises(SessionFileError, match="open in another lmtui"):
            await second.archive.delete(session_id)
        assert path.exists()
        assert [summary.id for summary in second.archive.sessions()] == [session_id]
        assert (await second.new_session()).id != session_id
    assert (await second.open_session(session_id)).id == session_id


async def test_deleting_closes_and_removes_this_one_alone(open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(ScriptedTurn(" ".join(f"word{number}" for number in range(500)), rate=20.0))).url)
    kept, gone = await runtime.new_session(), await runtime.new_session()
    gone.submit("talk")
    await runtime.archive.delete(gone.id)
    assert [summary.id for summary in runtime.archive.sessions()] == [kept.id]
    assert not gone.is_running
    with pytest.raises(SessionFileError, match="no session"):
        await runtime.open_session(gone.id)


async def test_a_session_that_came_with_the_folder_grants_nothing(
    workspace: Path, tmp_path: Path, open_one: Open, serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = open_one((await serve(DONE)).url, mode="auto")
    session = await first.new_session()
    await run(session)
    await first.close()
    again = ScriptedTurn("", calls=(ScriptedCall("write", {"path": "b.txt", "content": "x"}),))
    server = await serve(DONE, again, DONE)
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path / "somebody else"))
    second = open_one(server.url)
    foreign = await second.open_session(session.id)
    assert foreign.mode is Mode.NORMAL
    assert any(isinstance(each.event, Notice) and "created elsewhere" in each.event.text for each in foreign.history())
    events = await run(foreign, "go on")
    assert [event.ok for event in events if isinstance(event, ToolCallFinished)] == [False]
    assert not (workspace / "b.txt").exists()
    assert [rule for each in second.sessions for rule in each.unattended] == ["Write(b.txt)"]


async def test_a_log_that_is_none_is_refused_and_not_listed(workspace: Path, open_one: Open, serve: Serve) -> None:
    runtime = open_one((await serve(DONE)).url)
    sessions_dir(workspace).mkdir(parents=True)
    for text in ("", "not a session\n"):
        (sessions_dir(workspace) / "20260101_000000_abcdef.jsonl").write_text(text)
        with pytest.raises(SessionFileError):
            await runtime.open_session("abcdef")
        assert runtime.archive.sessions() == []


async def test_closing_stops_a_running_turn_and_can_be_done_twice(open_one: Open, serve: Serve) -> None:
    server = await serve(ScriptedTurn(" ".join(f"word{number}" for number in range(500)), rate=20.0))
    runtime = open_one(server.url)
    session = await runtime.new_session()
    session.submit("talk")
    await until(lambda: server.open_streams)
    await window_known(session)
    await runtime.close()
    await runtime.close()
    await until(lambda: not server.open_streams)
    last = session.history()[-1].event
    assert isinstance(last, TurnEnded)
    assert last.reason is TurnReason.INTERRUPTED


@pytest.mark.full
async def test_a_setting_that_is_changed_in_the_demo_brings_back_no_other_server(tmp_path: Path, open_one: Open) -> None:
    runtime = open_one("http://127.0.0.1:9", sandbox="process")
    sources = dict.fromkeys(SETTINGS, "default")
    other = Config(sandbox="process", url="http://127.0.0.1:9", network="on")
    runtime.ask_trust(Loaded(runtime.config, sources), lambda: Loaded(other, sources))
    (tmp_path / "demo").mkdir()
    await runtime.use_demo(tmp_path / "demo", rate=0.0)
    _ = runtime.settings.change("network", "on")
    end = (await run(await runtime.new_session(), "start"))[-1]
    assert isinstance(end, TurnEnded)
    assert end.reason is not TurnReason.ERROR, "the script answers"
