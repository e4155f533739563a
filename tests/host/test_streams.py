from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from lmtui.core.events import Envelope, Level, Notice, TextDelta
from lmtui.host.feed import EventFeed, Frame, Reader, blocks, stored
from lmtui.host.hub import SessionHub
from lmtui.models.demo_scripts import ScriptedTurn
from tests.host.conftest import DONE, TOKEN, WRITE, Host, Start, event_of, read_blocks
from tests.sets import depth
from tests.waiting import PATIENCE_S, until

pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
CUTS = int(os.environ.get("LMTUI_STREAM_CUTS", depth(40, 300)))


async def log_blocks(host: Host, session_id: str) -> list[bytes]:
    """Return the blocks that the log on the disk makes."""
    (path,) = host.folder.rglob(f"{session_id}.jsonl")
    return [
        b"id: %d\nevent: %s\ndata: %s\n\n" % (event["seq"], event["kind"].encode(), line)
        for line in path.read_bytes().splitlines()
        if (event := event_of(b"data: " + line)) is not None
    ]


async def test_a_stream_that_is_cut_anywhere_goes_on_exactly(start: Start) -> None:
    host = await start(*(ScriptedTurn(f"Answer {number}. " + "é漢 words " * 30) for number in range(12)), mode="auto")
    session_id = await host.new_session()
    for number in range(12):
        _ = await host.call("POST", f"/v1/sessions/{session_id}/messages", json={"text": f"task {number}", "wait": True})
    whole = b"".join(await log_blocks(host, session_id))
    rng = random.Random(7)
    got, last, cuts = b"", "0", 0
    while cuts < CUTS:
        if len(got) == len(whole):
            got, last = b"", "0"
        data = await cut_stream(host.port, session_id, last, rng.randrange(1, 2_000))
        cuts += 1
        kept = data[: data.rfind(b"\n\n") + 2] if b"\n\n" in data else b""
        got += kept
        assert whole.startswith(got), cuts
        if kept:
            last = kept.rstrip(b"\n").split(b"\n\n")[-1].split(b"\n")[0].removeprefix(b"id: ").decode()


async def cut_stream(port: int, session_id: str, last: str, size: int) -> bytes:
    """Read at most so many bytes of a stream's body, then cut the connection; stop where no more comes."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = f"GET /v1/sessions/{session_id}/events HTTP/1.0\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {TOKEN}\r\n"
    writer.write(f"{head}Last-Event-ID: {last}\r\n\r\n".encode())
    body = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            _ = await reader.readuntil(b"\r\n\r\n")
        while len(body) < size:
            async with asyncio.timeout(0.2):
                data = await reader.read(size - len(body))
            if not data:
                break
            body += data
    except TimeoutError:
        pass
    finally:
        writer.transport.abort()
    return body


async def test_an_id_that_is_none_is_refused(start: Start) -> None:
    host = await start(mode="auto")
    session_id = await host.new_session()
    for last in ("x", "-1", "1.5", "9" * 30, "20260101_120000_abcdef:1"):
        answer = await host.client.get(f"/v1/sessions/{session_id}/events", headers={"Last-Event-ID": last})
        assert answer.status_code == 422, last


async def test_a_silent_stream_beats(start: Start) -> None:
    host = await start(mode="auto", options={"heartbeat_s": 0.05})
    session_id = await host.new_session()
    beats = 0
    async with asyncio.timeout(PATIENCE_S), host.client.stream("GET", f"/v1/sessions/{session_id}/events") as answer:
        async for data in answer.aiter_raw():
            beats += data.count(b": heartbeat\n\n")
            if beats >= 3:
                break


async def test_activity_begins_with_the_last_events_of_all_sessions_and_goes_on(start: Start) -> None:
    host = await start(WRITE, DONE, mode="auto")
    first, second = await host.new_session(title="A"), await host.new_session(title="B")
    for session_id in (first, second):
        _ = await host.call("POST", f"/v1/sessions/{session_id}/mode", json={"mode": "manual"})
    seen: set[str] = set()

    def has_both(event: dict[str, object]) -> bool:
        seen.add(str(event["session"]))
        return seen >= {first, second}

    blocks = await read_blocks(host, "/v1/activity?limit=200", until=has_both)
    identity = blocks[0].split(b"\n")[0].removeprefix(b"id: ").decode()
    assert identity.split(":")[0] in (first, second)
    rest = await read_blocks(host, "/v1/activity", last=identity, until=lambda _: True)
    assert rest[0] == blocks[1]


def envelope(seq: int, *, size: int = 10, durable: bool = True) -> Envelope:
    event = Notice(level=Level.INFO, text="x" * size) if durable else TextDelta(text="x" * size)
    return Envelope(seq, datetime(2026, 1, 1, tzinfo=UTC), "20260101_120000_abcdef", event)


class Past:
    """A session as far as a stream asks it."""

    id = "20260101_120000_abcdef"

    def __init__(self, *envelopes: Envelope) -> None:
        self.envelopes = list(envelopes)

    def history(self) -> Sequence[Envelope]:
        return self.envelopes


async def test_what_happens_before_the_past_is_sent_comes_once(monkeypatch: pytest.MonkeyPatch) -> None:
    session: Any = Past(envelope(1))
    hub = SessionHub()
    monkeypatch.setattr(hub, "find", lambda _: session)
    feed = EventFeed(hub)
    reader = feed.open(session.id)
    sent = blocks(feed, reader, stored(session, 0), 1.0)
    for seq in (2, 4):
        session.envelopes.append(envelope(seq))
        feed.take(Path(), envelope(seq))
        feed.take(Path(), envelope(seq + 1, durable=False))
    begun = await anext(sent)
    session.envelopes.append(envelope(6))
    feed.take(Path(), envelope(6))
    rest = await anext(sent)
    await sent.aclose()
    ids = [block.partition(b"\n")[0] for block in (begun + rest).split(b"\n\n")[:-1]]
    assert [each for each in ids if each.startswith(b"id")] == [b"id: 1", b"id: 2", b"id: 4", b"id: 6"]
    assert not hub.watchers


def test_an_event_that_could_not_be_written_has_no_id() -> None:
    assert b"id: " not in Frame(envelope(3), is_stored=False).block()
    assert Frame(envelope(3), is_stored=True).block().startswith(b"id: 3\n")


async def test_a_queue_that_is_full_ends() -> None:
    reader = Reader(most_bytes=150_000)
    told: list[bool] = []
    reader.when_overflowed = lambda: told.append(True)
    for seq in range(3):
        reader.put(Frame(envelope(seq, size=60_000), is_stored=True))
    assert (reader.is_over, reader.has_overflowed, told) == (True, True, [True])
    assert [frames async for frames in reader.follow((), 0.01)] == []


async def test_a_session_that_a_client_follows_stays_open(start: Start) -> None:
    host = await start(mode="auto")
    session_id = await host.new_session()
    path = f"/v1/sessions/{session_id}/events"
    reading = asyncio.ensure_future(
        read_blocks(host, path, until=lambda each: each["kind"] == "mode_changed" and each["mode"] == "plan")
    )
    await until(lambda: host.hub.watchers[session_id])
    await host.hub.tidy()
    assert [each.id for each in host.hub.sessions] == [session_id]
    _ = await host.call("POST", f"/v1/sessions/{session_id}/mode", json={"mode": "plan"})
    _ = await reading
    await until(lambda: not host.hub.watchers[session_id])
    await host.hub.tidy()
    assert not host.hub.sessions
    assert (await host.call("GET", f"/v1/sessions/{session_id}"))["mode"] == "plan"


async def test_a_host_that_closes_ends_its_streams(start: Start) -> None:
    host = await start(mode="auto")
    session_id = await host.new_session()
    reading = [
        asyncio.ensure_future(read_blocks(host, path, until=lambda _: False))
        for path in (f"/v1/sessions/{session_id}/events", "/v1/activity")
    ]
    await asyncio.sleep(0.3)
    host.stop.set()
    async with asyncio.timeout(PATIENCE_S):
        await host.serving
        _ = await asyncio.gather(*reading)
