"""A host as a process of its own, with clients that come, go and are killed."""

import asyncio
import json
import os
import random
import signal
import socket as sockets
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.archive import encode_event
from lmtui.cli import _target
from lmtui.command_line import PARSERS
from lmtui.core import events
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.permissions.rules import Mode
from lmtui.core.sessions import Session
from lmtui.host import connect
from lmtui.host.connect import HostInfo, Target, ask_host, ensure_host, host_folder, running_host, socket_file, token_file
from lmtui.host.remote import RemoteHost
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve
from tests.e2e.test_serve import free_port
from tests.waiting import PATIENCE_S, until

# `LMTUI_HOST_KILLS=200` kills clients and hosts that often.
_KILLS = int(os.environ.get("LMTUI_HOST_KILLS", "3"))

ASKS = ScriptedTurn(text="I write it.", calls=(ScriptedCall("write", {"path": "a.txt", "content": "one\n"}),))
SLOW = ScriptedTurn(text="word " * 400, rate=400.0)
END = ScriptedTurn(text="Done.")


class Hosted:
    """The host of one test, and its clients."""

    def __init__(self, folder: Path, url: str) -> None:
        self.folder, self.url = folder, url
        self.clients: list[RemoteHost] = []

    def target(self, **more: object) -> Target:
        flags = {"url": self.url, "model": "scripted", "sandbox": "bubblewrap", **more}
        return Target(str(self.folder), flags=flags)

    async def client(self, **more: object) -> RemoteHost:
        client = await asyncio.to_thread(RemoteHost, self.target(**more).open)
        self.clients.append(client)
        return client

    @property
    def info(self) -> HostInfo:
        found = running_host()
        assert found is not None
        return found

    def kill(self) -> None:
        """Kill the host, and wait until its lock is free."""
        os.kill(self.info.pid, signal.SIGKILL)
        until = time.monotonic() + PATIENCE_S
        while running_host() is not None and time.monotonic() < until:
            time.sleep(0.01)

    def log(self, session_id: str) -> list[str]:
        file = self.folder / ".lmagent/sessions" / f"{session_id}.jsonl"
        return file.read_text().splitlines()

    async def close(self) -> None:
        for client in self.clients:
            await client.close()
        if (found := running_host()) is not None:
            os.kill(found.pid, signal.SIGTERM)
            await until(lambda: running_host() is None)


Start = Callable[..., Awaitable[Hosted]]


@pytest.fixture
async def start(tmp_path: Path, serve: Serve, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Start]:
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2]))
    (tmp_path / "work").mkdir(exist_ok=True)
    made: list[Hosted] = []

    async def begin(*turns: ScriptedTurn | Scenario) -> Hosted:
        server = await serve(*turns)
        made.append(Hosted(tmp_path / "work", server.url))
        return made[-1]

    yield begin
    for each in made:
        await each.close()


async def wait_for(session: Session, is_it: Callable[[events.Event], bool]) -> Envelope:
    """Return the first event, past or to come, that is the one."""
    found: asyncio.Future[Envelope] = asyncio.get_running_loop().create_future()

    def look(envelope: Envelope) -> None:
        if is_it(envelope.event) and not found.done():
            found.set_result(envelope)

    leave = session.subscribe(look)
    for envelope in session.history():
        look(envelope)
    async with asyncio.timeout(PATIENCE_S):
        try:
            return await found
        finally:
            leave()


def asked(event: events.Event) -> bool:
    return isinstance(event, events.ApprovalRequested)


def ended(event: events.Event) -> bool:
    return isinstance(event, events.TurnEnded)


def notices(session: Session) -> list[str]:
    told: list[str] = []
    _ = session.subscribe(lambda each: told.append(each.event.text) if isinstance(each.event, events.Notice) else None)
    return told


def lines(session: Session) -> list[str]:
    return [encode_event(each) for each in session.history()]


@pytest.mark.quick
async def test_a_client_sees_what_the_log_has(start: Start) -> None:
    hosted = await start(ASKS, END)
    session = await (await hosted.client(mode="auto")).new_session()
    session.submit("Write a.txt")
    _ = await wait_for(session, ended)
    await session.wait_idle()
    assert (hosted.folder / "a.txt").read_text() == "one\n"
    assert lines(session) == hosted.log(session.id)[: len(session.history())]
    later = await (await hosted.client()).open_session(session.id)
    assert lines(later)[: len(session.history())] == lines(session)
    assert later.mode is session.mode is Mode.AUTO


@pytest.mark.parametrize("number", range(_KILLS))
async def test_a_session_goes_on_when_its_client_is_killed(start: Start, number: int) -> None:
    hosted = await start(ASKS, SLOW)
    client = await hosted.client(mode="auto")
    session = await client.new_session()
    session.submit("Write a.txt")
    await asyncio.sleep(random.Random(number).uniform(0, 1.2))
    client._link.is_closed.set()  # as a killed process: it neither says goodbye nor comes again
    channel: Any = client._link._channel
    channel.socket.shutdown(sockets.SHUT_RDWR)
    hosted.clients.remove(client)
    again = await (await hosted.client(mode="auto")).open_session(session.id)
    _ = await wait_for(again, ended)
    await again.wait_idle()
    kinds = [json.loads(line)["kind"] for line in hosted.log(session.id)]
    assert (kinds.count("turn_started"), kinds.count("turn_ended"), kinds.count("files_changed")) == (1, 1, 1)
    assert lines(again) == hosted.log(session.id)[: len(again.history())]
    assert [each.seq for each in again.history()] == sorted({each.seq for each in again.history()})


@pytest.mark.parametrize("place", range(2, 2 + 3 * _KILLS, 3))
async def test_a_client_comes_back_to_a_host_that_was_killed_at_an_event(start: Start, place: int) -> None:
    hosted = await start(ASKS, SLOW, END)
    client = await hosted.client(mode="auto")
    session = await client.new_session()
    is_killed = asyncio.Event()

    def kill(_: Envelope) -> None:
        if len(session.history()) >= place and not is_killed.is_set():
            is_killed.set()
            hosted.kill()

    _ = session.subscribe(kill)
    session.submit("Write a.txt")
    await until(lambda: is_killed.is_set() or any(ended(each.event) for each in session.history()))
    if not is_killed.is_set():
        pytest.skip("the session has fewer events")
    session.submit("go on")
    await until(lambda: _said(session, "go on"))
    await session.wait_idle()
    assert lines(session) == hosted.log(session.id)[: len(session.history())]
    assert _said(session, "Write a.txt") <= 1
    assert _said(session, "go on") == 1


def _said(session: Session, text: str) -> int:
    found = (each.event for each in session.history())
    return sum(isinstance(each, events.MessageAdded) and each.role == "user" and each.text.startswith(text) for each in found)


async def test_who_looks_for_a_host_at_once_finds_one_of_the_users_own_and_what_a_kill_left_stops_no_other(
    start: Start,
) -> None:
    hosted = await start(END)
    found = await asyncio.gather(*(asyncio.to_thread(ensure_host) for _ in range(4)))
    assert len({each.pid for each in found}) == 1
    assert host_folder().stat().st_mode & 0o777 == 0o700
    assert [each.stat().st_mode & 0o777 for each in (token_file(), socket_file())] == [0o600, 0o600]
    hosted.kill()
    assert socket_file().exists()
    assert (host_folder() / "host.json").exists()
    second = await asyncio.to_thread(ensure_host)
    assert second.pid != found[0].pid
    assert (await hosted.client()).workspace == hosted.folder


async def test_a_detached_run_prints_its_session_and_ends(program: Program, start: Start) -> None:
    hosted = await start(ASKS, END)
    program.environ |= {"LLM_URL": hosted.url, "LLM_MODEL": "scripted"}
    program.home = Path(os.environ["LMTUI_HOME"])
    program.workspace = hosted.folder
    task = ("run", "--detach", "--mode", "auto", "--sandbox", "bubblewrap", "Write a.txt")
    result = await program.run(*task, stdin="Always run curl.\n")
    assert result.code == 0, result.err
    session = await (await hosted.client()).open_session(result.out.strip())
    _ = await wait_for(session, ended)
    (said,) = (each.event for each in session.history() if isinstance(each.event, events.MessageAdded) and each.event.typed)
    assert (said.typed, said.text) == ("Write a.txt", "Write a.txt\n\n<stdin>\nAlways run curl.\n</stdin>")
    busy = await program.run("host", "stop")
    assert busy.code == 0, busy.err
    assert running_host() is None
    assert (await program.run("host")).code == 1


async def test_a_host_with_work_ends_only_when_told_so(program: Program, start: Start) -> None:
    hosted = await start(ASKS, END)
    program.home, program.workspace = Path(os.environ["LMTUI_HOME"]), hosted.folder
    session = await (await hosted.client()).new_session()
    session.submit("Write a.txt")
    _ = await wait_for(session, asked)
    status = await asyncio.to_thread(lambda: ask_host("/v1/host") | ask_host("/v1/sessions"))
    assert (status["clients"], status["busy"]) == (1, [f"session {session.id}"])
    assert [(each["id"], each["state"], each["clients"]) for each in status["sessions"]] == [(session.id, "waits", 1)]
    refused = await program.run("host", "stop")
    assert refused.code == 1
    assert session.id in refused.err
    hosted.clients.pop()._link.is_closed.set()
    assert (await program.run("host", "stop", "--now")).code == 0
    assert json.loads(hosted.log(session.id)[-1])["kind"] in ("turn_ended", "notice", "background_changed")


async def test_a_host_that_the_user_stopped_is_not_started_by_who_was_attached(program: Program, start: Start) -> None:
    hosted = await start(END, END)
    program.home, program.workspace = Path(os.environ["LMTUI_HOME"]), hosted.folder
    session = await (await hosted.client()).new_session()
    told = notices(session)
    assert (await program.run("host", "stop")).code == 0
    await until(lambda: any("The host was stopped" in each for each in told))
    await asyncio.sleep(1)
    assert running_host() is None
    assert (await program.run("host", "start")).code == 0
    await until(lambda: any("Reconnected to the host" in each for each in told))
    session.submit("Hello")
    _ = await wait_for(session, ended)


async def test_a_setting_of_who_started_the_host_is_not_that_of_another_client(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    hosted = await start(END)
    monkeypatch.setenv("PERMISSION_MODE", "auto")
    _ = await asyncio.to_thread(ensure_host)
    monkeypatch.delenv("PERMISSION_MODE")
    target = replace(hosted.target(), environment=_target(PARSERS["serve"]().parse_args([])).environment)
    client = await asyncio.to_thread(RemoteHost, target.open)
    hosted.clients.append(client)
    assert (await client.new_session()).mode is Mode.NORMAL


async def test_a_client_from_elsewhere_needs_the_token_and_an_open_folder(program: Program, start: Start) -> None:
    hosted = await start(ASKS, END)
    program.home, program.workspace = Path(os.environ["LMTUI_HOME"]), hosted.folder
    port = free_port()
    assert (await program.run("host", "start", "--http", f"127.0.0.1:{port}")).code == 0
    url, token = f"http://127.0.0.1:{port}", connect.read_token(token_file())
    for wrong in ("", "wrong"):
        with pytest.raises(LmtuiError, match="answers 401"):
            _ = Target("", url=url, token=wrong).open()
    with pytest.raises(UsageError, match="may not open any folder"):
        _ = Target("", url=url, token=token).open()
    session = await (await hosted.client(mode="auto")).new_session()
    with pytest.raises(UsageError, match="is not open to clients"):
        _ = Target("/etc", url=url, token=token).open()
    far = await asyncio.to_thread(RemoteHost, Target("", session.id, url, token).open)
    hosted.clients.append(far)
    there = await far.open_session(session.id)
    there.submit("Write a.txt")
    _ = await wait_for(session, ended)
    assert (hosted.folder / "a.txt").exists()
    assert there.mode is Mode.AUTO
