from __future__ import annotations

import asyncio
import json
import os
import socket
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import psutil
import pytest
from yarl import URL

from lmtui.core.errors import UsageError
from lmtui.host.web import PagesWanted, page_listener
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.chromium import chromium
from tests.e2e.conftest import Program, Serve
from tests.waiting import PATIENCE_S, until

WRITE = ScriptedCall("write", {"path": "hello.txt", "content": "written from a browser\n"})
# without capabilities root is to root what one ordinary process is to another
UNPRIVILEGED = ("setpriv", "--bounding-set=-all", "--inh-caps=-all") if os.getuid() == 0 else ()


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def browser() -> aiohttp.ClientSession:
    """Return a client that keeps the cookies of an address without a name."""
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


class Served:
    def __init__(self, process: asyncio.subprocess.Process, port: int) -> None:
        self.process = process
        self.url = f"http://127.0.0.1:{port}"

    async def link(self) -> str:
        assert self.process.stdout is not None
        async with asyncio.timeout(PATIENCE_S):
            while True:
                line = (await self.process.stdout.readline()).decode()
                assert line, "it ended"
                if "token=" in line:
                    return line.split()[-1]


@asynccontextmanager
async def serving(
    program: Program, *arguments: str, stdin: bytes = b"", launcher: tuple[str, ...] = ()
) -> AsyncIterator[Served]:
    port = free_port()
    process = await program.start("serve", "--port", str(port), *arguments, launcher=launcher)
    assert process.stdin is not None
    process.stdin.write(stdin)
    try:
        yield Served(process, port)
    finally:
        process.terminate()
        await asyncio.wait_for(process.wait(), PATIENCE_S)


@pytest.mark.chromium
async def test_a_task_is_typed_approved_and_its_file_seen_in_a_browser(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("", calls=(WRITE,)), ScriptedTurn("The file is there."))
    async with serving(program, "--url", server.url) as served, chromium() as page:
        await page.open(await served.link())
        await page.until_shown("What should we work on?")
        await page.until_shown("F2 sessions")
        await page.type("write hello")
        await page.press("Enter")
        await page.until_shown("hello.txt?")
        await asyncio.sleep(1.0)
        await page.press("y")
        await page.until_shown("The file is there.")
        assert (program.workspace / "hello.txt").read_text() == "written from a browser\n"
        assert await page.evaluate("location.search") == ""
        assert all(url.startswith((served.url, "data:")) for url in page.requested if not url.startswith("about:"))
        assert page.problems == []
        seen = len(page.received)
        await page.press("F6")
        async with asyncio.timeout(PATIENCE_S):
            while "written from a browser" not in page.received[seen:]:  # the new file may come to the tree a moment later
                await page.press("Enter")
                await asyncio.sleep(1.0)


async def test_nobody_comes_in_without_the_key(program: Program) -> None:
    async with serving(program) as served, browser() as client:
        link = await served.link()
        ways_up = (
            "/static/fonts/%2e%2e/js/textual.js",
            "/static/fonts/..%2fjs/textual.js",
            "/static/fonts/",
            "/static/fonts/RobotoMono-VariableFont_wght.ttf",
        )
        for path in ("/ws", "/static/js/textual.js", *ways_up, "/download/x", "/?token=wrong", "/"):
            address = URL(served.url + path, encoded=True)
            async with client.get(address, headers={"Origin": served.url} if path == "/ws" else {}) as answer:
                assert answer.status == 403, path
                assert "textual-terminal" not in await answer.text()
        async with client.get(link) as answer:
            assert answer.status == 200
            assert "textual-terminal" in await answer.text()
            assert "script-src 'self'" in answer.headers["Content-Security-Policy"]
        async with client.get(served.url + "/static/js/textual.js") as answer:
            assert answer.status == 200
        async with browser() as other, other.get(link) as answer:
            assert answer.status == 403
        async with browser() as other, other.get(await served.link()) as answer:
            assert answer.status == 200


@pytest.mark.parametrize("source", ["file", "environment", "input"])
async def test_a_pin_opens_and_too_many_wrong_ones_lock(program: Program, tmp_path: Path, source: str) -> None:
    arguments: tuple[str, ...] = ("--pin",) if source == "input" else ()
    if source == "file":
        file = tmp_path / "pin"
        file.write_text("correct horse\n")
        file.chmod(0o600)
        arguments = ("--pin-file", str(file))
    if source == "environment":
        program.environ["LMTUI_PIN"] = "correct horse"
    async with serving(program, *arguments, stdin=b"correct horse\n") as served, browser() as client:
        await served.link()

        async def try_pin(pin: str) -> int:
            headers = {"Origin": served.url}
            async with client.post(served.url + "/key", data={"key": pin}, headers=headers, allow_redirects=False) as answer:
                return answer.status

        assert await try_pin("wrong") == 403
        assert await try_pin("correct horse") == 303
        assert [await try_pin("wrong") for _ in range(5)] == [403] * 5
        assert await try_pin("correct horse") == 403


async def test_a_pin_that_others_see_and_a_port_in_use_are_refused(program: Program, tmp_path: Path) -> None:
    (file := tmp_path / "pin").write_text("correct horse\n")
    file.chmod(0o644)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        for arguments, words in (
            (("--pin=correct horse",), "--pin"),
            (("--pin-file", str(file)), "chmod 600"),
            (("--port", port), "cannot be served"),
            (("--port", "65536"), "HOST:PORT"),
        ):
            found = await program.run("serve", *arguments)
            assert (found.code, words in found.err, "correct horse" in found.out) == (64, True, False), found.err


@pytest.mark.skipif(sys.platform != "linux", reason="prctl is Linux's")
async def test_no_process_of_a_server_shows_a_key_to_others(program: Program) -> None:
    program.environ |= {"LLM_API_KEY": "sk-0123456789abcdef", "GITHUB_TOKEN": "ghp-0123456789", "LMTUI_PIN": "correct horse"}
    async with serving(program, launcher=UNPRIVILEGED) as served, browser() as client:
        async with client.get(await served.link()) as answer:
            assert answer.status == 200
        seen: dict[int, list[str]] = {}
        async with client.ws_connect(f"{served.url}/ws?width=80&height=24", headers={"Origin": served.url}) as tab:
            while not any("hat should we work on?" in text for text in seen.get(0, ())):
                message = await tab.receive(timeout=30)
                assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)
                seen.setdefault(0, []).append(bytes(message.data).decode() if message.type is aiohttp.WSMsgType.BINARY else "")
                host = psutil.Process(json.loads((program.home / "state/host/host.json").read_text())["pid"])
                for process in (psutil.Process(served.process.pid), host, *host.children(recursive=True)):
                    seen.setdefault(process.pid, []).append(readable(process.pid))
        assert len(seen) > 3
        await until(lambda: not host.children())
        shown = "\n".join(text for pid, texts in seen.items() if pid for text in texts)
        assert not [secret for secret in ("0123456789", "correct horse") if secret in shown]


def readable(pid: int) -> str:
    """Return what another process of the same user reads of a process."""
    words = f"cat /proc/{pid}/environ /proc/{pid}/cmdline"
    return subprocess.run([*UNPRIVILEGED, "sh", "-c", words], capture_output=True, text=True, check=False).stdout


def test_another_address_needs_a_pin() -> None:
    given = {"port": 0, "arguments": [], "folder": "", "environment": {}}
    for host, pin in (("127.0.0.1", ""), ("localhost", ""), ("0.0.0.0", "123456")):
        page_listener(PagesWanted.model_validate({**given, "host": host, "pin": pin})).close()
    for host, pin in (("0.0.0.0", ""), ("192.168.1.5", ""), ("example.org", ""), ("0.0.0.0", "12345"), ("127.0.0.1", "123")):
        with pytest.raises(UsageError):
            page_listener(PagesWanted.model_validate({**given, "host": host, "pin": pin}))
