import asyncio
import json
import queue
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.archive import encode_event
from lmtui.core import events
from lmtui.core.errors import HostError, LmtuiError, UsageError
from lmtui.core.events import Envelope
from lmtui.core.messages import Role
from lmtui.host.connect import ask_host, check_socket_folder, host_folder, token_for
from lmtui.host.remote import HostLink, RemoteSession, _Later
from lmtui.host.rpc import RemoteCall, encode_error
from tests.waiting import PATIENCE_S, until

Reply = Callable[[dict[str, Any]], list[dict[str, Any]]]


class FakeChannel:
    """Answers each message with what `reply` returns; `b""` breaks it."""

    def __init__(self, reply: Reply) -> None:
        self._reply = reply
        self.frames: queue.Queue[str] = queue.Queue()
        self.sent: list[dict[str, Any]] = []
        self.is_broken = False

    def send(self, frame: str) -> None:
        if self.is_broken:
            raise ConnectionError
        for message in json.loads(frame):
            self.sent.append(message)
            if found := self._reply(message):
                self.frames.put(json.dumps(found))

    def recv(self) -> str:
        if not (frame := self.frames.get()):
            self.is_broken = True
            raise ConnectionError
        return frame

    def close(self) -> None:
        self.frames.put("")


def _link(*channels: FakeChannel) -> HostLink:
    waiting = list(channels)

    def open_channel(*, may_start: bool = True) -> tuple[Any, str]:
        if not waiting:
            raise HostError("no host")
        return waiting.pop(0), "/work"

    return HostLink(open_channel)


def _line(seq: int) -> str:
    notice = events.Notice(level=events.Level.INFO, text=f"number {seq}")
    return encode_event(Envelope(seq, datetime(2026, 1, 1, tzinfo=UTC), "one", notice))


async def test_what_comes_while_missed_events_are_read_is_told_after_them() -> None:
    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["call"] != "follow":
            return [{"re": message["id"], "ok": "session:one"}]
        after = message["with"]["after"]
        known = [_line(seq) for seq in range(after + 1, 500 if after else 2)]
        return [{"re": message["id"], "ok": known}, *([{"event": "session:one", "line": _line(500)}] if after else [])]

    link = _link(FakeChannel(reply))
    session = RemoteSession(link, "one")
    await session.follow()
    await asyncio.to_thread(session.again)
    await until(lambda: session.seq == 500)
    assert [each.seq for each in session.history()] == list(range(1, 501))
    link.close()


async def test_an_event_of_a_newer_host_does_not_hide_an_answer_in_its_frame() -> None:
    unknown = {"event": "session:one", "line": "no event"}
    link = _link(FakeChannel(lambda message: [unknown, {"re": message["id"], "ok": []}]))
    session = RemoteSession(link, "one")
    async with asyncio.timeout(PATIENCE_S):
        await session.follow()
    link.close()


async def test_words_that_wait_survive_a_second_break() -> None:
    def opens(message: dict[str, Any]) -> list[dict[str, Any]]:
        return [{"re": message["id"], "ok": [] if message["call"] == "follow" else "session:one"}]

    def breaks(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["call"] == "submit":
            second.close()
            return []
        return opens(message)

    first, second, third = FakeChannel(opens), FakeChannel(breaks), FakeChannel(opens)
    link = _link(first, second, third)
    session: Any = RemoteSession(link, "one")
    await session.follow()
    first.is_broken = True
    session.submit("words")
    first.close()
    await until(lambda: any(each["call"] == "submit" for each in third.sent))
    assert sum(each["call"] == "submit" for each in third.sent) == 1
    link.close()


async def test_words_for_a_session_that_is_not_open_wait() -> None:
    error = encode_error(HostError("session:one is not open."))
    answers = {"submit": {"error": error}}
    link = _link(FakeChannel(lambda message: [{"re": message["id"], **answers.get(message["call"], {"ok": []})}]))
    session: Any = RemoteSession(link, "one")
    await session.follow()
    session.submit("words")
    assert link.later
    link.close()


async def test_a_call_that_a_slow_host_did_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lmtui.host.remote.CALL_LIMIT_S", 0.05)
    slow: list[int] = []

    def reply(message: dict[str, Any]) -> list[dict[str, Any]]:
        if message["call"] == "rename":
            slow.append(message["id"])
            return []
        return [{"re": message["id"], "ok": [] if message["call"] == "follow" else "session:one"}]

    first, second = FakeChannel(reply), FakeChannel(reply)
    link = _link(first, second)
    session: Any = RemoteSession(link, "one")
    await session.follow()
    session.rename("a name")
    first.frames.put(json.dumps([{"re": slow[0], "ok": None}]))
    first.close()
    await until(lambda: second.sent and link.is_there.is_set())
    assert all(each["call"] != "rename" for each in second.sent)
    link.close()


def _history(*said: events.Event) -> list[Envelope]:
    return [Envelope(number, datetime(2026, 1, 1, tzinfo=UTC), "one", event) for number, event in enumerate(said, 1)]


@pytest.mark.parametrize(
    ("event", "is_done"),
    [
        (events.MessageAdded(role=Role.USER, text="ok"), True),
        (events.MessageAdded(role=Role.USER, text="ok\n\n[file a.py]"), True),
        (events.InboxChanged(queued=("ok",)), True),
        (events.MessageAdded(role=Role.USER, text="look at the book"), False),
        (events.MessageAdded(role=Role.ASSISTANT, text="ok"), False),
        (events.InboxChanged(queued=("not ok yet",)), False),
    ],
)
def test_only_the_same_words_of_the_user_count_as_sent(event: events.Event, is_done: bool) -> None:
    later = _Later(RemoteCall("session:one", "", "submit", {"text": "ok"}), 1)
    assert later.is_done(_history(events.MessageAdded(role=Role.USER, text="ok"), event)) is is_done


def test_a_token_is_not_sent_unencrypted_to_another_machine_unless_asked() -> None:
    environ = {"LMTUI_HOST_TOKEN": "secret"}
    for url in ("http://127.0.0.1:8765", "http://localhost:1", "https://gpu-box:8765"):
        assert token_for(url, "", environ) == "secret"
    with pytest.raises(UsageError, match="without encryption"):
        _ = token_for("http://gpu-box:8765", "", environ)
    assert token_for("http://gpu-box:8765", "", environ, is_plain=True) == "secret"
    for url in ("gpu-box:8765", "ftp://gpu-box", "http://", "nonsense"):
        with pytest.raises(UsageError, match="not the address of a host"):
            _ = token_for(url, "", environ)


def test_a_socket_in_a_folder_that_others_can_write_to_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LMTUI_HOME", str(tmp_path))
    host_folder().mkdir(parents=True, mode=0o700)
    check_socket_folder()
    host_folder().chmod(0o777)
    with pytest.raises(LmtuiError, match="open to other users"):
        check_socket_folder()
    with pytest.raises(LmtuiError, match="open to other users"):
        _ = ask_host("/v1/host", token=str(tmp_path))
