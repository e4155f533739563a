"""A headless Chromium, driven over its DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""

from __future__ import annotations

import asyncio
import base64
import itertools
import re
import shutil
import tempfile
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import aiohttp

from tests.waiting import PATIENCE_S

BINARY = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\\\)|.)")
_KEYS = {"Enter": (13, "\r"), "Escape": (27, ""), "ArrowDown": (40, ""), "F6": (117, ""), "PageDown": (34, "")}


class Page:
    """One tab.  `received` is what the terminal in it was sent, without escape sequences."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._ids = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.received = ""
        self.sent: list[str] = []
        self.requested: list[str] = []
        self.problems: list[str] = []
        self._reader = asyncio.create_task(self._read())

    async def call(self, method: str, **parameters: Any) -> dict[str, Any]:
        number = next(self._ids)
        answer = self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": parameters})
        return await asyncio.wait_for(answer, PATIENCE_S)

    async def open(self, url: str) -> None:
        await self.call("Page.enable")
        await self.call("Network.enable")
        await self.call("Log.enable")
        await self.call("Emulation.setFocusEmulationEnabled", enabled=True)
        await self.call("Page.navigate", url=url)

    async def evaluate(self, script: str) -> Any:
        answer = await self.call("Runtime.evaluate", expression=script, returnByValue=True)
        return answer["result"].get("value")

    async def type(self, text: str) -> None:
        for character in text:
            await self.press(character)

    async def press(self, key: str) -> None:
        code, text = _KEYS.get(key, (ord(key.upper()[0]), key))
        fields: dict[str, Any] = {"key": key, "windowsVirtualKeyCode": code, "nativeVirtualKeyCode": code}
        if text:
            fields["text"] = text
        await self.call("Input.dispatchKeyEvent", type="keyDown", **fields)
        await self.call("Input.dispatchKeyEvent", type="keyUp", **fields)

    async def until(self, is_so: Callable[[], bool]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not is_so():
                await asyncio.sleep(0.05)

    async def until_shown(self, text: str, since: int = 0) -> None:
        try:
            await self.until(lambda: text in self.received[since:])
        except TimeoutError as error:
            raise AssertionError(f"{text!r} was not shown; the last was {self.received[-3000:]!r}") from error

    async def close(self) -> None:
        await self.call("Page.close")

    async def _read(self) -> None:
        async for message in self._socket:
            data = message.json()
            if "id" in data:
                self._answers.pop(data["id"]).set_result(data.get("result", {}))
                continue
            parameters = data.get("params", {})
            match data.get("method"):
                case "Network.webSocketFrameReceived":
                    frame = parameters["response"]
                    raw = base64.b64decode(frame["payloadData"]) if frame["opcode"] == 2 else frame["payloadData"].encode()
                    self.received += _ESCAPES.sub("", raw.decode("utf-8", "replace"))
                case "Network.webSocketFrameSent":
                    self.sent.append(parameters["response"]["payloadData"])
                case "Network.requestWillBeSent":
                    self.requested.append(parameters["request"]["url"])
                case "Log.entryAdded":
                    if parameters["entry"]["level"] == "error":
                        self.problems.append(parameters["entry"]["text"])


@asynccontextmanager
async def chromium() -> AsyncIterator[Page]:
    """Start Chromium with one empty tab."""
    assert BINARY, "no Chromium on this machine"
    with tempfile.TemporaryDirectory(prefix="lmtui-chromium-", ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            BINARY, "--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage",
            "--remote-debugging-port=0", f"--user-data-dir={profile}", "--window-size=1400,900", "about:blank",
            stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        try:
            port = await _port(Path(profile) / "DevToolsActivePort")
            async with aiohttp.ClientSession() as client:
                async with client.get(f"http://127.0.0.1:{port}/json") as answer:
                    target = next(each for each in await answer.json() if each["type"] == "page")
                async with client.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    yield Page(socket)
        finally:
            process.kill()
            await process.wait()


async def _port(file: Path) -> int:
    async with asyncio.timeout(PATIENCE_S):
        while not (file.exists() and file.read_text().strip()):
            await asyncio.sleep(0.05)
    return int(file.read_text().split()[0])
