from __future__ import annotations

import pytest

from lmtui.features.mcp.values import ServerState
from tests.plain.test_console import Host, talk
from tests.tui.fake_mcp import some_servers


@pytest.fixture
def host() -> Host:
    found = Host()
    found.extensions.mcp.put(*some_servers())
    return found


def said(host: Host, *typed: str) -> str:
    return "\n".join(talk(*typed, host=host)[0].said)


def test_each_server_is_a_line_with_its_state_price_and_problem(host: Host) -> None:
    host.extensions.mcp.wrong.append(".mcp.json: server 'db' has no command")
    text = said(host, "/mcp")
    assert "git: ready, 5 tools, 212 tokens, bubblewrap, no network" in text
    assert "everything: failed: it ended" in text
    assert ".mcp.json: server 'db' has no command" in text
    assert "no MCP servers configured" in said(Host(), "/mcp")


@pytest.mark.parametrize(("word", "state"), [("yes", ServerState.READY), ("off", ServerState.OFF), ("on", ServerState.READY)])
def test_a_server_is_minded(host: Host, word: str, state: ServerState) -> None:
    talk(f"/mcp {word} schema", host=host)
    assert host.extensions.mcp.known["schema"].state is state


def test_a_server_is_started_again_and_its_tools_are_read(host: Host) -> None:
    text = said(host, "/mcp restart git", "/mcp tools git")
    assert host.extensions.mcp.restarted == ["git"]
    assert "mcp__git__blame (43 tokens)" in text
    for typed in ("/mcp yes nobody", "/mcp dance git"):
        assert "Use /mcp, or /mcp yes" in said(host, typed)
