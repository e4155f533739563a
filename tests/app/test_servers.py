from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from lmtui.core.errors import ProviderError
from lmtui.core.servers import ServerKind
from lmtui.models.demo_scripts import Scenario
from lmtui.models.scripted_server import ScriptedServer
from tests.app.conftest import DONE, Open, Serve

KEY = "sk-canary"


async def test_one_server_is_looked_at_again(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE, models=("tiny",), window_tokens=4096)
    found = await open_one().servers.look(server.url)
    assert found is not None
    assert [(model.name, model.window_tokens) for model in found.models] == [("tiny", 4096)]
    assert await open_one().servers.look("http://127.0.0.1:9") is None


@pytest.fixture
async def locked() -> AsyncIterator[tuple[ScriptedServer, ScriptedServer]]:
    async with ScriptedServer(Scenario((DONE,)), key=KEY) as one, ScriptedServer(Scenario((DONE,)), key=KEY) as other:
        yield one, other


Locked = tuple[ScriptedServer, ScriptedServer]


async def test_the_key_goes_to_the_server_in_use_alone(open_one: Open, locked: Locked) -> None:
    mine, other = locked
    runtime = open_one(mine.url, api_key=KEY)
    own, foreign = await runtime.servers.look(mine.url), await runtime.servers.look(other.url)
    assert own is not None
    assert own.models
    assert foreign is not None
    assert "wants a key" in foreign.note


async def test_a_server_that_loads_nothing_is_told(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    with pytest.raises(ProviderError, match="does not load or unload"):
        await anext(open_one().servers.load(server.url, "scripted"))
    with pytest.raises(ProviderError, match="does not load or unload"):
        await open_one().servers.unload(server.url, "scripted")


async def test_a_named_address_without_a_model_server_is_told(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    found = await open_one(server.url.removesuffix("/v1") + "/nowhere").servers.find()
    assert [each.kind for each in found if "nowhere" in each.url] == [ServerKind.UNKNOWN]
