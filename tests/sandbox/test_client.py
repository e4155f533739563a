from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lmtui.core.errors import SandboxError
from lmtui.sandbox import replies
from lmtui.sandbox.guest import protocol
from lmtui.sandbox.supervisor_client import Client
from tests.sandbox.fake_link import FakeLink
from tests.sets import for_each


@contextlib.asynccontextmanager
async def connected() -> AsyncIterator[tuple[Client, FakeLink]]:
    link = FakeLink()
    client = Client(link)
    link.greet()
    await client.start()
    try:
        yield client, link
    finally:
        await client.close()


async def _asked(client: Client, link: FakeLink) -> tuple[asyncio.Task[tuple[dict[str, object], bytes]], int]:
    """Start a call and return it with its id, once the supervisor has it."""
    call = asyncio.create_task(client.call("read", {"path": "x"}, limit_s=5))
    request = await link.requests.get()
    return call, request["id"]


HOSTILE = {
    "no json": b"\x00\x00\x00\x05hello",
    "no object": b"\x00\x00\x00\x02[]",
    "no utf-8": b"\x00\x00\x00\x04\xff\xfe\xfd\xfc",
    "oversized": b"\xff\xff\xff\xff",
    "deep": (100_000).to_bytes(4, "big") + b"[" * 100_000,
    "unknown id": protocol.encode({"id": 99, "done": True}),
    "no id": protocol.encode({"done": True}),
    "id is a flag": protocol.encode({"id": True, "done": True}),
    "id is text": protocol.encode({"id": "1", "done": True}),
    "data is a number": protocol.encode({"id": 1, "data": 5}),
    "data is not base64": protocol.encode({"id": 1, "data": "%%%"}),
    "output without count": protocol.encode({"id": 1, "out": ""}),
    "done is not true": protocol.encode({"id": 1, "done": 1}),
    "nothing": protocol.encode({"id": 1}),
    "end": b"",
}


@for_each("data", [pytest.param(data, id=name) for name, data in HOSTILE.items()])
async def test_what_is_no_answer_ends_the_link_with_a_clear_error(data: bytes) -> None:
    async with connected() as (client, link):
        call, _ = await _asked(client, link)
        if data:
            link.reader.feed_data(data)
        else:
            link.reader.feed_eof()
        with pytest.raises(SandboxError, match=r"not an answer|ended unexpectedly"):
            await call
        assert link.is_closed
        assert not client.is_alive
        with pytest.raises(SandboxError):
            await client.call("ping", {}, limit_s=1)


async def test_an_answer_without_end_is_cut_off() -> None:
    async with connected() as (client, link):
        call, identity = await _asked(client, link)
        frame = protocol.encode({"id": identity, "data": protocol.pack(bytes(protocol.CHUNK_BYTES))})
        while not link.is_closed:
            link.reader.feed_data(frame)
            await asyncio.sleep(0.001)
        with pytest.raises(SandboxError, match="without end"):
            await call


@given(data=st.binary(max_size=200))
def test_random_bytes_never_raise_anything_else(data: bytes) -> None:
    async def play() -> None:
        async with connected() as (client, link):
            call, _ = await _asked(client, link)
            link.reader.feed_data(data)
            link.reader.feed_eof()
            with pytest.raises(SandboxError):
                await call

    asyncio.run(play())


async def test_a_silent_supervisor_is_given_up() -> None:
    async with connected() as (client, link):
        with pytest.raises(SandboxError, match="no answer within"):
            await client.call("read", {"path": "x"}, limit_s=0.05)
        assert link.is_closed


async def test_a_cancelled_call_is_stopped_inside_before_the_cancel_returns() -> None:
    async with connected() as (client, link):
        call, identity = await _asked(client, link)
        call.cancel()
        stop = await link.requests.get()
        assert (stop["op"], stop["target"]) == ("kill", identity)
        assert not call.done()
        link.say({"id": identity, "done": True})
        with pytest.raises(asyncio.CancelledError):
            await call
        assert client.is_alive


async def test_a_call_that_cannot_be_stopped_ends_the_lane() -> None:
    async with connected() as (client, link):
        call, _ = await _asked(client, link)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert link.is_closed


@for_each("greeting", [{"hello": 99}, {"hello": "1"}, {"id": 1, "done": True}])
async def test_a_wrong_greeting_is_refused(greeting: protocol.Message) -> None:
    link = FakeLink()
    link.say(greeting)
    with pytest.raises(SandboxError, match="does not start"):
        await Client(link).start()


GOOD_RUN = {
    "exit": 0, "reason": "exit", "clean": True, "head_bytes": 0, "total": 0, "saved": "", "elapsed_ms": 1,
}  # fmt: skip


@for_each(
    "wrong",
    [
        {"exit": 256}, {"exit": "0"}, {"exit": True}, {"reason": "because"},
        {"total": -1}, {"total": 2**70}, {"extra": 1}, {"saved": None},
    ],
)  # fmt: skip
def test_a_field_that_cannot_be_is_refused(wrong: dict[str, object]) -> None:
    assert replies.parse(dict(GOOD_RUN), replies.RunReply).exit == 0
    with pytest.raises(SandboxError, match="answer that cannot be"):
        replies.parse({**GOOD_RUN, **wrong}, replies.RunReply)


def test_an_error_of_the_supervisor_is_passed_on_bounded_and_without_what_a_terminal_obeys() -> None:
    with pytest.raises(SandboxError) as raised:
        replies.parse({"error": "a\x1b]0;title\x07b\x1b[2J\u202ec" + "x" * 100_000}, replies.Reply)
    assert str(raised.value).startswith("ab<U+202E>cx")
    assert len(str(raised.value)) <= 4000


@given(lines=st.lists(st.tuples(st.text(max_size=10), st.integers(-5, 5), st.text(max_size=10), st.booleans())))
def test_lists_are_checked_entry_by_entry(lines: list[tuple[str, int, str, bool]]) -> None:
    facts: dict[str, object] = {"matches": [list(line) for line in lines]}
    is_good = all(
        number >= 0 and not path.startswith("/") and "\0" not in path and ".." not in path.split("/")
        for path, number, *_ in lines
    )
    if is_good:
        assert len(replies.parse(facts, replies.GrepReply).matches) == len(lines)
    else:
        with pytest.raises(SandboxError):
            replies.parse(facts, replies.GrepReply)
