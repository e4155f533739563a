from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from lmtui.core.errors import ProviderError
from lmtui.core.messages import Completion, Message, ModelRequest, Priority, QueuedChunk, RetryChunk, Role, StreamChunk
from lmtui.models.demo_scripts import FaultKind, Scenario, ScriptedFault, ScriptedTurn
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.models.scripted_server import ScriptedServer

PATIENT = RetryPolicy(retries=1, first_delay_s=0.01, loading_limit_s=5.0)
HI = (Message(Role.SYSTEM, "be good"), Message(Role.USER, "hi"))
SAID = (*HI, Message(Role.ASSISTANT, "hello"), Message(Role.USER, "and now?"))


def restarting(times: int) -> Scenario:
    """Return a server that answers once and is then gone for a number of requests."""
    return Scenario((ScriptedTurn("hello"), ScriptedTurn("back", fault=ScriptedFault(FaultKind.REFUSE, times=times))))


async def asked(provider: OpenAICompatible, messages: tuple[Message, ...]) -> list[StreamChunk]:
    return [piece async for piece in provider.stream(ModelRequest(messages, (), "scripted"))]


async def test_a_server_that_answered_before_and_is_gone_is_waited_for() -> None:
    async with ScriptedServer(restarting(6)) as server:
        provider = OpenAICompatible(server.url, retry=PATIENT)
        await asked(provider, HI)
        pieces = await asked(provider, SAID)
        await provider.close()
    waits = [piece for piece in pieces if isinstance(piece, RetryChunk)]
    assert len(waits) == 6
    assert waits[0].reason.startswith("waiting for the server: ")
    assert isinstance(pieces[-1], Completion)
    assert pieces[-1].message.text == "back"


@pytest.mark.parametrize(("policy", "is_known"), [(PATIENT, False), (replace(PATIENT, retries=0), True)])
async def test_one_that_never_answered_is_told_at_once_and_so_is_any_without_retries(
    policy: RetryPolicy, is_known: bool
) -> None:
    async with ScriptedServer(restarting(6)) as server:
        provider = OpenAICompatible(server.url, retry=policy)
        if is_known:
            await asked(provider, HI)
        with pytest.raises(ProviderError, match="no model server answers"):
            await asked(provider, SAID)
        await provider.close()


async def test_conversations_take_turns_at_the_one_slot_of_a_local_server() -> None:
    async with ScriptedServer(Scenario((ScriptedTurn("one two three four", rate=60.0),))) as server:
        provider = OpenAICompatible(server.url, retry=PATIENT)
        most_open = 0

        async def talk(urgency: Priority) -> list[StreamChunk]:
            nonlocal most_open
            messages = (Message(Role.SYSTEM, "be good"), Message(Role.USER, "hi"))
            pieces = []
            async for piece in provider.stream(ModelRequest(messages, (), "scripted", urgency=urgency)):
                most_open = max(most_open, server.open_streams)
                pieces.append(piece)
            return pieces

        first, second, third = await asyncio.gather(talk(Priority.USER), talk(Priority.BACKGROUND), talk(Priority.USER))
        await provider.close()
    assert most_open == 1
    assert not [piece for piece in first if isinstance(piece, QueuedChunk)]
    assert [piece.before for piece in (second[0], third[0]) if isinstance(piece, QueuedChunk)] == [1, 1]
