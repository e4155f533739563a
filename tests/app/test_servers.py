from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import root_url
from lmtui.models.demo_scripts import Scenario
from lmtui.models.discovery import ServerChoice, keep_choice
from lmtui.models.scripted_server import ScriptedServer
from tests.app.conftest import DONE, Open, Serve, run

KEY = "sk-canary"


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
    assert foreign.note == "API key required"
    for url in (other.url, mine.url):
        keep_choice(ServerChoice(url, "scripted"))
    listed = await open_one(mine.url, api_key=KEY).servers.find()
    found = {each.url: (each.models != (), each.note) for each in listed}
    assert (found[root_url(mine.url)][0], found[root_url(other.url)]) == (True, (False, "API key required"))


async def test_a_key_that_is_typed_is_kept_and_used_at_once_by_an_open_session(
    open_one: Open, locked: Locked, home: Path
) -> None:
    mine, other = locked
    runtime = open_one(mine.url, model="scripted")
    session = await runtime.new_session()
    for refused in ("", "sk-wrong"):
        with pytest.raises(ProviderError, match="API key") as caught:
            await runtime.servers.use(mine.url, "", refused)
        assert caught.value.fault is Fault.KEY_REFUSED
    await runtime.servers.use(mine.url, "", KEY)
    _ = await run(session)
    assert mine.requests[-1].authorization == f"Bearer {KEY}"
    await runtime.close()
    again = open_one()
    assert [each.models != () for at in (mine, other) if (each := await again.servers.look(at.url))] == [True, False]
    assert [path.stat().st_mode & 0o77 for path in home.rglob("*") if path.is_file() and KEY.encode() in path.read_bytes()] == [
        0
    ]


async def test_a_server_that_loads_nothing_is_told(open_one: Open, serve: Serve) -> None:
    server = await serve(DONE)
    with pytest.raises(ProviderError, match="does not load or unload"):
        await open_one().servers.load(server.url, "scripted", 0, print)
    with pytest.raises(ProviderError, match="does not load or unload"):
        await open_one().servers.unload(server.url, "scripted")
