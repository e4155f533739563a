from __future__ import annotations

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedTurn
from lmtui.models.endpoint import is_local, is_reachable
from lmtui.models.scripted_server import ScriptedServer


async def test_what_listens_can_be_reached_and_is_asked_nothing() -> None:
    async with ScriptedServer(Scenario((ScriptedTurn("hello"),))) as server:
        url = server.url
        assert await is_reachable(url)
        assert server.requests == []
    assert not await is_reachable(url)


def test_which_addresses_are_local() -> None:
    local = ("localhost:1", "192.168.1.5", "http://[::1]:8080", "box.lan")
    assert all(is_local(address) for address in local)
    assert not is_local("https://api.example.com")


async def test_a_name_that_does_not_exist_cannot_be_reached_and_what_is_behind_a_proxy_is_taken_to_be(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    assert not await is_reachable("http://there.is.no.such.host.invalid:8080/v1")
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.invalid:3128")
    assert await is_reachable("https://models.invalid/v1")
    assert not await is_reachable("https://127.0.0.1:9/v1")  # nobody asks a proxy for this machine
