from __future__ import annotations

import asyncio
import json
import stat
from collections.abc import AsyncIterator, Iterator
from operator import methodcaller
from pathlib import Path

import httpx2
import pytest

from lmtui.core.errors import McpError
from lmtui.core.tool_servers import Form, is_web_address
from lmtui.features.mcp.mcp_config import ServerEntry
from lmtui.features.mcp.server import RunningServer, ServerEnvironment, form_words
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.server_trust import Memory
from lmtui.features.mcp.values import ServerState
from lmtui.paths import config_dir
from lmtui.sandbox.instance_programs import InstanceLauncher
from tests.features.paper_oauth import Server
from tests.waiting import PATIENCE_S

WHO_AM_I = methodcaller("call", "whoami", {}, lambda _: None)


@pytest.fixture(autouse=True)
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@pytest.fixture
def behind() -> Iterator[Server]:
    server = Server()
    yield server
    server.end()


class Client:
    """One lmtui that knows the server; `visited` are the addresses that the browser was sent to."""

    def __init__(self, workspace: Path, url: str, key: str = "") -> None:
        self.visited: list[str] = []
        headers = (("Authorization", f"Bearer {key}"),) if key else ()
        entry = ServerEntry("paper", "f", is_own=True, kind="http", url=f"{url}/mcp", headers=headers)
        self.memory = Memory(workspace, entry)
        self.server = RunningServer(self.memory, ServerEnvironment(workspace, no_launcher, {}, browse=self._browse))

    async def _browse(self, url: str) -> None:
        self.visited.append(url)
        async with httpx2.AsyncClient(follow_redirects=True) as browser:
            await browser.get(url)

    async def start(self) -> ServerState:
        async with asyncio.timeout(PATIENCE_S):
            self.server.begin()
            await self.server.settle()
        return self.server.state

    async def log_in(self) -> ServerState:
        async with asyncio.timeout(PATIENCE_S):
            self.server.accept()
            await self.server.settle()
        return self.server.state


@pytest.fixture
async def client(tmp_path: Path, behind: Server) -> AsyncIterator[Client]:
    found = Client(tmp_path, behind.url)
    yield found
    await found.server.close()


async def test_the_browser_opens_only_after_a_yes_and_the_tokens_are_kept_for_the_next_time(
    client: Client, behind: Server, tmp_path: Path
) -> None:
    assert await client.start() is ServerState.LOGIN
    assert client.visited == []
    assert client.server.problem.startswith(f"{behind.url}/authorize?")
    with pytest.raises(McpError, match="does not run") as caught:
        await client.server.use(WHO_AM_I)
    assert "lmtui mcp login paper" in caught.value.hint
    assert await client.log_in() is ServerState.READY
    assert len(client.visited) == 1
    assert (await client.server.use(WHO_AM_I)).text == "Ada"
    path = client.memory.token_file
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert json.loads(path.read_text())["tokens"]["access_token"] == "t0ken"
    for broken, state in ({}, ServerState.READY), ({"client": 1}, ServerState.LOGIN):
        path.write_text(json.dumps(json.loads(path.read_text()) | broken))
        again = Client(tmp_path, behind.url)
        assert (await again.start(), again.visited) == (state, [])
        await again.server.close()


async def test_a_key_in_the_headers_needs_no_login_and_a_wrong_one_is_a_failure_that_says_so(
    tmp_path: Path, behind: Server
) -> None:
    found = Client(tmp_path, behind.url, "t0ken")
    assert await found.start() is ServerState.READY
    assert behind.seen["/registration"] == 0
    assert await found.server._ask_user(Form("paper", "Who?")) is None, "outside of a call nobody is asked"
    await found.server.close()
    found = Client(tmp_path, behind.url, "wrong")
    assert (await found.start(), bool(found.server.problem)) == (ServerState.FAILED, True)
    await found.server.close()


def test_a_page_is_named_without_what_was_sent_along_and_only_addresses_for_browsers_are_opened() -> None:
    found = form_words(Form("crm", "Log in.", url="https://x.example/login?token=abc"), {})
    assert found == "[the server asked the user 'Log in.': the user opened https://x.example/login]"
    found = form_words(Form("crm", "Which password?<|im_start|>\x1b[2J"), {"password": "hunter2"})
    assert found == "[the server asked the user 'Which password?': the user accepted and filled in password]"
    opened = ("https://x.example/a", "HTTP://x", "file:///etc/passwd", "vscode://x", "")
    assert [url for url in opened if is_web_address(url)] == ["https://x.example/a", "HTTP://x"]


async def no_launcher() -> InstanceLauncher | None:
    return None


async def test_a_server_that_is_begun_again_as_all_are_closed_stays_closed(tmp_path: Path) -> None:
    config_dir().mkdir(parents=True, exist_ok=True)
    (config_dir() / "mcp.json").write_text(json.dumps({"mcpServers": {"a": {"command": "x"}}}))
    room = McpRoom(tmp_path, no_launcher, {}, len)
    await room.loaded()
    room.restart("a")
    await room.close()
    assert [server.state for server in room.servers()] == [ServerState.ENDED]
