from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator

import httpx2
import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.messages import Completion, FinishReason, Message, ModelRequest, RetryChunk, Role, SilenceChunk, StreamChunk
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedCall, ScriptedFault, ScriptedTurn
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.models.scripted_server import ScriptedServer
from tests.sets import for_each
from tests.waiting import until

FAST = RetryPolicy(retries=2, first_delay_s=0.01, loading_delay_s=0.01, loading_limit_s=0.2)
USER = (Message(Role.SYSTEM, "be good"), Message(Role.USER, "hi"))


async def ask(
    server: ScriptedServer, *, url: str = "", key: str = "", model: str = "scripted", stall_s: float = 5.0
) -> list[StreamChunk]:
    provider = OpenAICompatible(url or server.url, key, stall_timeout_s=stall_s, retry=FAST)
    try:
        return [piece async for piece in provider.stream(ModelRequest(USER, (), model))]
    finally:
        await provider.close()


def one(turn: ScriptedTurn) -> ScriptedServer:
    return ScriptedServer(Scenario((turn,)))


def completion(pieces: list[StreamChunk]) -> Completion:
    last = pieces[-1]
    assert isinstance(last, Completion)
    return last


@for_each("fault", [
    ScriptedFault(FaultKind.REFUSE, times=1), ScriptedFault(FaultKind.STATUS, times=2, status=500),
    ScriptedFault(FaultKind.STATUS, times=1, status=429, retry_after_s=0.05),
    ScriptedFault(FaultKind.STATUS, times=1, status=408), ScriptedFault(FaultKind.STATUS, times=1, status=409),
    ScriptedFault(FaultKind.CUT, times=1, after_pieces=2), ScriptedFault(FaultKind.LOADING, times=5),
])  # fmt: skip
async def test_faults_that_pass_are_retried_and_shown(fault: ScriptedFault) -> None:
    async with one(ScriptedTurn("at last it works", fault=fault)) as server:
        pieces = await ask(server)
    assert completion(pieces).message.text == "at last it works"
    waits = [piece.wait_s for piece in pieces if isinstance(piece, RetryChunk)]
    assert len(waits) == fault.times
    assert not fault.retry_after_s or waits == [fault.retry_after_s]


@for_each(("fault", "kind", "words"), [
    (ScriptedFault(FaultKind.STATUS, status=500), Fault.SERVER_ERROR, "HTTP 500"),
    (ScriptedFault(FaultKind.STATUS, status=401), Fault.KEY_REFUSED, "requires a valid API key"),
    (ScriptedFault(FaultKind.STATUS, status=400, body='{"error": "bad field"}'), Fault.REJECTED, "bad field"),
    (
        ScriptedFault(FaultKind.STATUS, status=404, body='{"error": {"message": "no models loaded"}}'),
        Fault.UNKNOWN_MODEL,
        "no models loaded",
    ),
    (ScriptedFault(FaultKind.CUT, after_pieces=3), Fault.CUT, "in the middle"),
    (ScriptedFault(FaultKind.GARBAGE, after_pieces=1), Fault.GARBAGE, "not JSON"),
    (ScriptedFault(FaultKind.ERROR_OBJECT, after_pieces=1, body="out of memory"), Fault.STREAM_ERROR, "out of memory"),
    (ScriptedFault(FaultKind.HTML), Fault.NOT_A_MODEL_SERVER, "not as a model server"),
    (ScriptedFault(FaultKind.LOADING), Fault.LOADING, "loading"),
])  # fmt: skip
async def test_faults_that_stay_are_told_apart(fault: ScriptedFault, kind: Fault, words: str) -> None:
    async with one(ScriptedTurn("some words are streamed", fault=fault)) as server:
        with pytest.raises(ProviderError, match=words) as caught:
            await ask(server)
    assert caught.value.fault is kind
    if kind is not Fault.GARBAGE:
        assert caught.value.hint or kind in (Fault.SERVER_ERROR,)


async def test_a_wrong_key_is_told_and_not_shown_and_an_unknown_model_is_named() -> None:
    async with ScriptedServer(Scenario((ScriptedTurn("ok"),)), key="right-key") as server:
        with pytest.raises(ProviderError) as caught:
            await ask(server, key="wrong-key")
        pieces = await ask(server, key="right-key")
        with pytest.raises(ProviderError, match="nosuch") as unknown:
            await ask(server, key="right-key", model="nosuch")
    assert (caught.value.fault, "run `lmtui` and enter the key" in caught.value.hint) == (Fault.KEY_REFUSED, True)
    assert "wrong-key" not in caught.value.full_text()
    assert unknown.value.fault is Fault.UNKNOWN_MODEL
    assert completion(pieces).message.text == "ok"


async def test_silence_has_a_limit_after_the_first_token_and_none_before() -> None:
    async with one(ScriptedTurn("one two three", fault=ScriptedFault(FaultKind.STALL, after_pieces=2))) as server:
        with pytest.raises(ProviderError, match="in the middle of an answer") as caught:
            await ask(server, stall_s=0.1)
    assert (caught.value.fault, "prompt" in caught.value.hint) == (Fault.TIMEOUT, False)
    async with one(ScriptedTurn("slow start", rate=2.0)) as server:
        pieces = await ask(server, stall_s=0.9)
    assert completion(pieces).message.text == "slow start"


PINGS = ("HTTP/1.1 200 X\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n", ": ping\n\n")


@contextlib.asynccontextmanager
async def silent_server(*said: str) -> AsyncIterator[tuple[str, list[str]]]:
    """Say these words and no more, the last of them again and again; the list tells what became of connections."""
    fates: list[str] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        fates.append("open")
        try:
            await reader.readuntil(b"\r\n\r\n")
            writer.write("".join(said).encode())
            while not reader.at_eof():
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(1 << 16), 0.02)
                writer.write(said[-1].encode() if said[1:] else b"")
                await writer.drain()
        except ConnectionError:
            pass
        finally:
            fates.append("closed")
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1", fates


@pytest.mark.parametrize("said", [(), PINGS[:1], PINGS], ids=["nothing", "headers", "pings"])
async def test_a_server_that_never_answers_is_told_and_waited_for_only_where_somebody_is_there(said: tuple[str, ...]) -> None:
    async with silent_server(*said) as (url, fates):
        provider = OpenAICompatible(url, stall_timeout_s=0.1, retry=FAST)
        async with contextlib.aclosing(provider.stream(ModelRequest(USER, (), "m"))) as pieces:
            told = [await anext(pieces), await anext(pieces)]
        with pytest.raises(ProviderError, match=r"has not answered for 0\.1 s") as caught:
            _ = [piece async for piece in provider.stream(ModelRequest(USER, (), "m", is_attended=False))]
        await provider.close()
        await asyncio.sleep(0.1)
    assert [round(piece.seconds, 1) for piece in told if isinstance(piece, SilenceChunk)] == [0.1, 0.2]
    assert caught.value.fault is Fault.TIMEOUT
    assert "LLM_TIMEOUT" in caught.value.hint
    assert fates == ["open", "closed"] * 2


class OpensLate(OpenAICompatible):
    """Hands out the response that the server sent when it is told to."""

    async def _open(self, body: bytes, model: str, path: str = "/chat/completions") -> httpx2.Response:
        response = await super()._open(body, model, path)
        self.has_answered.set()
        await self.goes_on.wait()
        return response

    def __init__(self, url: str) -> None:
        super().__init__(url, retry=FAST)
        self.has_answered, self.goes_on = asyncio.Event(), asyncio.Event()


async def test_closing_the_stream_closes_the_connection_also_as_the_answer_begins_or_a_retry_is_waited_for() -> None:
    async with one(ScriptedTurn("w " * 1000, rate=100.0)) as server:
        provider = OpenAICompatible(server.url, retry=FAST)
        async with contextlib.aclosing(provider.stream(ModelRequest(USER, (), "scripted"))) as pieces:
            async for _ in pieces:
                break
        await until(lambda: not server.open_streams)
        await provider.close()
    async with one(ScriptedTurn("w " * 1000, rate=100.0)) as server:
        provider = OpensLate(server.url)

        async def read() -> None:
            async with contextlib.aclosing(provider.stream(ModelRequest(USER, (), "scripted"))) as pieces:
                _ = [piece async for piece in pieces]

        reading = asyncio.ensure_future(read())
        await provider.has_answered.wait()
        await asyncio.sleep(0.05)
        provider.goes_on.set()
        await asyncio.sleep(0)
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading
        await until(lambda: not server.open_streams)
        await provider.close()
    async with one(ScriptedTurn(fault=ScriptedFault(FaultKind.STATUS, status=429, retry_after_s=3600))) as server:
        task = asyncio.create_task(ask(server))
        await until(lambda: server.requests and not server.open_streams)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task


async def test_half_a_call_at_the_length_limit_is_no_whole_call() -> None:
    call = ScriptedCall("write", {"path": "a", "content": "x" * 200})
    async with one(ScriptedTurn(calls=(call,), fault=ScriptedFault(FaultKind.HALF_CALL))) as server:
        done = completion(await ask(server))
    assert done.finish_reason is FinishReason.LENGTH
    with pytest.raises(ValueError, match="Unterminated"):
        json.loads(done.message.tool_calls[0].arguments)


async def test_the_window_of_the_settings_is_used_where_the_server_reports_none() -> None:
    for reported, by_hand, expected in ((4096, 16_000, 4096), (4096, 0, 4096), (0, 16_000, 16_000)):
        async with ScriptedServer(Scenario((ScriptedTurn("ok"),), window_tokens=reported)) as server:
            provider = OpenAICompatible(server.url, context_tokens=by_hand)
            for name in ("scripted", ""):
                served = await provider.served(name)
                assert served is not None
                assert served.window_tokens == expected
            assert by_hand or await provider.served("nosuch") is None
            await provider.close()
    provider = OpenAICompatible("http://127.0.0.1:1", context_tokens=16_000)
    served = await provider.served("any")
    assert served is not None
    assert (served.name, served.window_tokens) == ("any", 16_000)
    await provider.close()
