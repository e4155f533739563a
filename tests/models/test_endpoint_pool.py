from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import Completion, Message, ModelRequest, RetryChunk, Role, ToolSpec
from lmtui.models import endpoint_pool
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedFault, ScriptedTurn
from lmtui.models.endpoint_pool import PoolHost, PoolMember, ServerPool
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.models.scripted_server import ScriptedServer
from tests.models.fake_server import FakeServer, listening, listing, ok
from tests.waiting import PATIENCE_S

NO_RETRY = RetryPolicy(retries=0, loading_limit_s=0)
TEN = ScriptedTurn(" ".join(["word"] * 10), rate=100.0)
Start = Callable[..., Awaitable[ScriptedServer]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(*turns: ScriptedTurn, models: tuple[str, ...] = ("scripted",), window: int = 32_768) -> ScriptedServer:
            scenario = Scenario(turns or (TEN,) * 50, models=models, window_tokens=window)
            return await stack.enter_async_context(ScriptedServer(scenario))

        yield begin


OPEN: list[ServerPool] = []


@pytest.fixture(autouse=True)
async def _closed() -> AsyncIterator[None]:
    yield
    while OPEN:
        await OPEN.pop().close()


def pool_of(*servers: ScriptedServer | str, clock: Callable[[], float] = time.monotonic) -> ServerPool:
    urls = [server if isinstance(server, str) else server.url for server in servers]
    OPEN.append(ServerPool([PoolMember(OpenAICompatible(url, retry=NO_RETRY)) for url in urls], NO_RETRY, clock))
    return OPEN[-1]


def request(words: str = "hello", model: str = "scripted", **more: Any) -> ModelRequest:
    return ModelRequest((Message(Role.SYSTEM, f"be good: {words}"), Message(Role.USER, words)), (), model, **more)


def refusal(status: int, text: str, **more: Any) -> ScriptedTurn:
    body = json.dumps({"error": {"message": text}})
    return ScriptedTurn("no", fault=ScriptedFault(FaultKind.STATUS, status=status, body=body, **more))


async def answer(pool: ServerPool, asked: ModelRequest, conversation: str = "") -> tuple[str, list[str]]:
    retries, text = [], ""
    async for piece in pool.stream(asked, conversation):
        if isinstance(piece, RetryChunk):
            retries.append(piece.reason)
        if isinstance(piece, Completion):
            text = piece.message.text
    return text, retries


def asked(server: ScriptedServer) -> int:
    return len(server.requests)


def count_streams(server: ScriptedServer) -> list[int]:
    """Return a list that gets how many answers the server gives at once, at each request."""
    counts: list[int] = []
    complete = server._complete

    async def counted(*given: Any) -> bool:
        counts.append(server.open_streams + 1)
        return await complete(*given)

    vars(server)["_complete"] = counted
    return counts


async def run_all(pool: ServerPool, count: int) -> None:
    await asyncio.gather(*(answer(pool, request(str(number))) for number in range(count)))


async def test_a_conversation_stays_where_its_prompt_is_cached_also_where_only_its_name_is_known(start: Start) -> None:
    servers = [await start() for _ in range(3)]
    pool = pool_of(*servers)
    talk = request("long talk")
    await answer(pool, talk)
    others = [asyncio.create_task(answer(pool, request(f"other {number}"))) for number in range(6)]
    for turn in range(3):
        await answer(pool, talk)
        await answer(pool, request(f"rebuilt {turn}"), "session")
    await asyncio.gather(*others)
    for words in ("long talk", "rebuilt"):
        assert len([server for server in servers if any(words in str(each.body) for each in server.requests)]) == 1


async def test_a_server_that_breaks_off_or_fails_is_replaced_left_alone_and_taken_back(start: Start) -> None:
    cut = ScriptedTurn("half an answer", fault=ScriptedFault(FaultKind.CUT, after_pieces=1))
    servers = [await start(cut), await start(ScriptedTurn("whole"))]
    pool = pool_of(*servers)
    text, retries = await answer(pool, request())
    assert (text, len(retries)) == ("whole", 1)
    assert f"trying {servers[1].url}" in retries[0]
    assert [row.is_up for row in pool.rows()] == [False, True]
    now = 0.0
    broken = ScriptedFault(FaultKind.STATUS, times=1, status=500)
    servers = [await start(ScriptedTurn("one", fault=broken)), await start(ScriptedTurn("two"))]
    pool = pool_of(*servers, clock=lambda: now)
    assert [(await answer(pool, request(str(number))))[0] for number in range(3)] == ["two"] * 3
    assert [(row.is_up, row.answered) for row in pool.rows()] == [(False, 0), (True, 3)]
    assert "500" in pool.rows()[0].problem
    now = 10.0
    assert (await answer(pool, request("new")))[0] == "one"
    assert pool.rows()[0].is_up


async def test_a_request_goes_where_its_model_is_and_one_that_is_refused_is_not_sent_again(start: Start) -> None:
    servers = [await start(models=("other",)), await start(models=("wanted",))]
    pool = pool_of(*servers)
    for number in range(4):
        await answer(pool, request(str(number), model="wanted"))
    assert [asked(server) for server in servers] == [0, 4]
    refuse = ScriptedTurn("no", fault=ScriptedFault(FaultKind.STATUS, status=400, body='{"error": "bad field"}'))
    servers = [await start(refuse), await start(refuse)]
    pool = pool_of(*servers)
    with pytest.raises(ProviderError):
        await answer(pool, request())
    assert sorted(asked(server) for server in servers) == [0, 1]


async def test_a_server_is_never_asked_for_more_at_once_than_it_has_slots(start: Start) -> None:
    servers = [await start(ScriptedTurn("one two three", rate=100.0)) for _ in range(2)]
    counts = [count_streams(server) for server in servers]
    pool = pool_of(*servers)
    for member, slots in zip(pool.members, (1, 2), strict=True):
        member.provider._slots_by_hand = slots
        member.provider.slots.resize(slots)
    assert pool.slot_count == 3
    await run_all(pool, 12)
    assert ([max(each) for each in counts], [asked(server) for server in servers]) == ([1, 2], [4, 8])


async def test_a_conversation_that_one_refuses_for_its_size_goes_on_where_there_is_room(start: Start) -> None:
    liar = await start(*[refusal(400, "the request exceeds the available context size (8192 tokens)")] * 2)
    honest = await start(window=32_000)
    pool = pool_of(liar, honest)
    talk = request()
    text, retries = await answer(pool, talk)
    assert ((text, len(retries)), [row.is_up for row in pool.rows()]) == ((TEN.text, 1), [True, True])
    served = await pool.served("scripted")
    assert served is not None
    assert (served.window_tokens, (await answer(pool, talk))[1]) == (8192, [])


async def test_a_server_without_tool_calls_leaves_them_to_one_that_has_them(start: Start) -> None:
    servers = [await start(*[refusal(400, "this model does not support tools")] * 3), await start()]
    pool = pool_of(*servers)
    tools = (ToolSpec("read", "Read.", {"type": "object", "properties": {}}),)
    for number in range(3):
        text, _ = await answer(pool, ModelRequest(request(str(number)).messages, tools, "scripted"))
        assert text == TEN.text
    assert [asked(server) for server in servers] == [1, 3]
    assert pool.rows()[0].is_up


async def test_a_silent_server_is_left_for_another_at_the_limit(start: Start) -> None:
    stall = ScriptedTurn("x", fault=ScriptedFault(FaultKind.STALL, after_pieces=0))
    servers = [await start(stall), await start()]
    members = [PoolMember(OpenAICompatible(each.url, retry=NO_RETRY, stall_timeout_s=0.3)) for each in servers]
    pool = ServerPool(members, NO_RETRY, lambda: 1.0)
    text, retries = await answer(pool, request(is_attended=True))
    assert text == TEN.text
    assert "has not answered for" in retries[0]
    assert members[0].error is not None
    assert members[0].error.fault is Fault.TIMEOUT
    assert members[0].down_until_s > 50
    await pool.close()


async def test_a_server_that_is_gone_without_a_word_is_noticed(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    stall = ScriptedTurn("x", fault=ScriptedFault(FaultKind.STALL, after_pieces=0))
    servers = [await start(stall), await start()]
    members = [PoolMember(OpenAICompatible(each.url, retry=NO_RETRY)) for each in servers]

    async def is_there(url: str) -> bool:
        return url != servers[0].url

    monkeypatch.setattr(endpoint_pool, "is_reachable", is_there)
    pool = ServerPool(members, NO_RETRY, idle_check_s=0.05)
    text, retries = await answer(pool, request())
    assert text == TEN.text
    assert "no longer accepts connections" in retries[0]
    await pool.close()


async def test_a_busy_server_is_left_alone_as_long_as_it_says_and_one_that_loads_is_skipped(start: Start) -> None:
    loading = ScriptedTurn("x", fault=ScriptedFault(FaultKind.LOADING))
    servers = [await start(refusal(429, "busy", retry_after_s=30.0)), await start(loading), await start()]
    pool = pool_of(*servers, clock=lambda: 0.0)
    for number in range(4):
        assert (await answer(pool, request(str(number))))[0] == TEN.text
    assert [asked(server) for server in servers] == [1, 1, 4]
    assert pool.members[0].down_until_s > 20
    assert "loading" in pool.rows()[1].problem


@asynccontextmanager
async def returned(port: int) -> AsyncIterator[None]:
    """Let a server listen where one was."""
    server = ScriptedServer(Scenario((TEN,) * 9))
    server._server = await asyncio.start_server(server._accept, "127.0.0.1", port, limit=1 << 20)
    yield
    await server.__aexit__(None, None, None)


@pytest.mark.parametrize("is_listed", [True, False])
async def test_a_server_that_is_gone_stays_down_until_it_answers_when_it_is_listed_or_looked_at(
    start: Start, *, is_listed: bool
) -> None:
    now = 0.0
    servers = [await start(), await start()]
    pool = pool_of(*servers, clock=lambda: now)
    port = int(servers[0].url.split(":")[2].partition("/")[0])
    await servers[0].__aexit__(None)
    await (pool.look(is_now=True) if is_listed else answer(pool, request("one")))
    now = 31.0
    assert [row.is_up for row in pool.rows()] == [False, True]
    assert pool.rows()[0].problem == "no answer"
    if not is_listed:
        pool.members[0].down_until_s = 1e9
    async with returned(port), asyncio.timeout(PATIENCE_S):
        if not is_listed:
            await pool.look(is_now=True)
        while not pool.rows()[0].is_up:
            now += 5.0
            await asyncio.sleep(0.05)


async def test_each_server_is_asked_for_the_model_by_its_own_name(start: Start) -> None:
    servers = [await start(models=("qwen3:8b", "other")), await start(models=("qwen/qwen3-8b",))]
    pool = pool_of(*servers)
    await run_with_model(pool, 4, "qwen3:8b")
    assert [{each.body["model"] for each in server.requests} for server in servers] == [{"qwen3:8b"}, {"qwen/qwen3-8b"}]
    merged = pool.merged()
    assert merged is not None
    assert [each.name for each in merged.models] == ["qwen3:8b", "other"]


async def run_with_model(pool: ServerPool, count: int, model: str) -> None:
    await asyncio.gather(*(answer(pool, request(str(number), model)) for number in range(count)))


async def test_no_server_gets_the_key_of_another() -> None:
    said = ok({"choices": [{"index": 0, "message": {"content": "ok"}, "finish_reason": "stop"}]})
    async with AsyncExitStack() as stack:
        fakes = [FakeServer({"/v1/chat/completions": said, "/v1/models": ok(listing({"id": "scripted"}))}) for _ in range(2)]
        servers = [await stack.enter_async_context(listening(fake)) for fake in fakes]
        keyed = zip(servers, ("one-1", "two-2"), strict=True)
        pool = ServerPool([PoolMember(OpenAICompatible(each.url, key, retry=NO_RETRY), key) for each, key in keyed], NO_RETRY)
        await run_all(pool, 8)
        await pool.served("scripted")
        await pool.close()
        assert all(server.posted for server in servers)
        assert [server.keys for server in servers] == [{"Bearer one-1"}, {"Bearer two-2"}]


async def test_all_servers_of_a_host_join(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [await start(), await start()]
    ports = tuple(int(each.url.split(":")[2].partition("/")[0]) for each in servers)
    monkeypatch.setattr(endpoint_pool, "USUAL_PORTS", (*ports, 9))
    keys: list[str] = []

    def make(url: str, key: str = "") -> PoolMember:
        keys.append(key)
        return PoolMember(OpenAICompatible(url, key, retry=NO_RETRY), key)

    pool = ServerPool([], NO_RETRY, hosts=[PoolHost("127.0.0.1", make), PoolHost("nosuch.invalid", make)])
    assert [row.problem for row in pool.rows()] == ["not checked yet"] * 2
    await run_all(pool, 6)
    assert [asked(server) for server in servers] == [3, 3]
    assert [row.url for row in pool.rows() if row.is_up] == [each.url for each in servers]
    down = pool.rows()[-1]
    assert (down.url, down.is_up) == ("nosuch.invalid", False)
    assert down.problem == f"no model server on its ports {ports[0]}, {ports[1]}, 9"
    await pool.look(is_now=True)
    assert (len(pool.members), keys) == (2, ["", ""])
    await pool.close()
