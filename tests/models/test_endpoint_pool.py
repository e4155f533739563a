from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack

import pytest

from lmtui.core.errors import ProviderError
from lmtui.core.messages import Completion, Message, ModelRequest, RetryChunk, Role
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedFault, ScriptedTurn
from lmtui.models.endpoint_pool import PoolMember, ServerPool
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.models.scripted_server import ScriptedServer

NO_RETRY = RetryPolicy(retries=0)
TEN = ScriptedTurn(" ".join(["word"] * 10), rate=100.0)
Start = Callable[..., Awaitable[ScriptedServer]]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    async with AsyncExitStack() as stack:

        async def begin(*turns: ScriptedTurn, models: tuple[str, ...] = ("scripted",)) -> ScriptedServer:
            scenario = Scenario(turns or (TEN,) * 50, models=models)
            return await stack.enter_async_context(ScriptedServer(scenario))

        yield begin


def pool_of(*servers: ScriptedServer | str, weights: tuple[float, ...] = ()) -> ServerPool:
    urls = [server if isinstance(server, str) else server.url for server in servers]
    members = [
        PoolMember(OpenAICompatible(url, retry=NO_RETRY), weight=weight)
        for url, weight in zip(urls, weights or [1.0] * 9, strict=False)
    ]
    return ServerPool(members, NO_RETRY)


def request(words: str = "hello", model: str = "scripted") -> ModelRequest:
    return ModelRequest((Message(Role.SYSTEM, f"be good: {words}"), Message(Role.USER, words)), (), model)


async def answer(pool: ServerPool, asked: ModelRequest) -> tuple[str, list[str]]:
    retries, text = [], ""
    async for piece in pool.stream(asked):
        if isinstance(piece, RetryChunk):
            retries.append(piece.reason)
        if isinstance(piece, Completion):
            text = piece.message.text
    return text, retries


def asked(server: ScriptedServer) -> int:
    return len(server.requests)


async def run_all(pool: ServerPool, count: int) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(answer(pool, request(str(number))) for number in range(count)))
    return time.perf_counter() - began


async def test_three_servers_share_the_work(start: Start) -> None:
    servers = [await start() for _ in range(3)]
    pool = pool_of(*servers)
    await run_all(pool, 12)
    assert [asked(server) for server in servers] == [4, 4, 4]
    await pool.close()


async def test_a_conversation_stays_where_its_prompt_is_cached(start: Start) -> None:
    servers = [await start() for _ in range(3)]
    pool = pool_of(*servers)
    talk = request("long talk")
    await answer(pool, talk)
    others = [asyncio.create_task(answer(pool, request(f"other {number}"))) for number in range(6)]
    for _ in range(3):
        await answer(pool, talk)
    await asyncio.gather(*others)
    own = [server for server in servers if any("long talk" in str(each.body) for each in server.requests)]
    assert len(own) == 1
    await pool.close()


async def test_a_server_that_breaks_off_is_replaced_and_the_answer_begun_anew(start: Start) -> None:
    cut = ScriptedTurn("half an answer", fault=ScriptedFault(FaultKind.CUT, after_pieces=1))
    servers = [await start(cut), await start(ScriptedTurn("whole"))]
    pool = pool_of(*servers)
    text, retries = await answer(pool, request())
    assert text == "whole"
    assert len(retries) == 1
    assert f"{servers[1].url} is asked" in retries[0]
    assert [row.is_up for row in pool.rows()] == [False, True]
    await pool.close()


async def test_a_server_that_fails_is_left_alone_and_taken_back(start: Start) -> None:
    now = 0.0
    broken = ScriptedFault(FaultKind.STATUS, times=1, status=500)
    servers = [await start(ScriptedTurn("one", fault=broken)), await start(ScriptedTurn("two"))]
    members = [PoolMember(OpenAICompatible(server.url, retry=NO_RETRY)) for server in servers]
    pool = ServerPool(members, NO_RETRY, lambda: now)
    assert [(await answer(pool, request(str(number))))[0] for number in range(3)] == ["two"] * 3
    assert [(row.is_up, row.answered) for row in pool.rows()] == [(False, 0), (True, 3)]
    assert "500" in pool.rows()[0].problem
    now = 10.0
    assert (await answer(pool, request("new")))[0] == "one"
    assert pool.rows()[0].is_up
    await pool.close()


async def test_a_conversation_goes_on_elsewhere_when_its_server_is_gone(start: Start) -> None:
    servers = [await start(), await start()]
    pool = pool_of(*servers)
    talk = request("talk")
    await answer(pool, talk)
    await servers[0].__aexit__(None)
    text, retries = await answer(pool, talk)
    assert text
    assert len(retries) == 1
    assert [len(server.requests) for server in servers] == [1, 1]
    await pool.close()


async def test_where_nobody_answers_the_last_error_is_told() -> None:
    pool = pool_of("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1")
    with pytest.raises(ProviderError, match="no model server answers"):
        await answer(pool, request())
    await pool.close()


async def test_a_new_conversation_goes_where_its_model_is(start: Start) -> None:
    servers = [await start(models=("other",)), await start(models=("wanted",))]
    pool = pool_of(*servers)
    for number in range(4):
        await answer(pool, request(str(number), model="wanted"))
    assert [asked(server) for server in servers] == [0, 4]
    await pool.close()


async def test_a_heavier_server_gets_more(start: Start) -> None:
    servers = [await start(), await start()]
    pool = pool_of(*servers, weights=(3.0, 1.0))
    await run_all(pool, 12)
    assert [asked(server) for server in servers] == [9, 3]
    await pool.close()


async def test_a_request_that_is_refused_is_not_sent_again(start: Start) -> None:
    refuse = ScriptedTurn("no", fault=ScriptedFault(FaultKind.STATUS, status=400, body='{"error": "bad field"}'))
    servers = [await start(refuse), await start(refuse)]
    pool = pool_of(*servers)
    with pytest.raises(ProviderError):
        await answer(pool, request())
    assert sorted(asked(server) for server in servers) == [0, 1]
    await pool.close()
