from __future__ import annotations

import asyncio
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass, field
from typing import Any, cast

from lmtui.host.web import PagesWanted, Tab
from tests.waiting import until

ECHO = """
import os, sys
os.write(1, b"__GANGLION__\\n")
while (data := os.read(0, 65536)) and b'"quit"' not in data:
    os.write(1, b"D" + len(data).to_bytes(4, "big") + data)
os.write(1, b"D" + (4).to_bytes(4, "big") + b"last")
"""


@dataclass
class Page:
    """The page of a tab: what it sends, and what it got."""

    sends: list[str]
    waits_for: bytes = b""
    got: bytes = b""
    answers: list[object] = field(default_factory=list)
    is_closed: bool = False

    async def receive(self) -> dict[str, str]:
        if self.sends:
            return {"type": "websocket.receive", "text": self.sends.pop(0)}
        await until(lambda: self.is_closed or (self.waits_for and self.waits_for in self.got))
        return {"type": "websocket.disconnect"}

    async def send_bytes(self, data: bytes) -> None:
        self.got += data

    async def send_text(self, text: str) -> None:
        raise AssertionError(text)

    async def send_json(self, value: object) -> None:
        self.answers.append(value)

    async def close(self) -> None:
        self.is_closed = True


class EchoTab(Tab):
    """A tab whose app answers with what it is sent."""

    async def _open_app_process(self, width: int = 80, height: int = 24) -> Process:
        process = await asyncio.create_subprocess_exec(sys.executable, "-c", ECHO, stdin=PIPE, stdout=PIPE, stderr=PIPE)
        self._process, self._stdin = process, process.stdin
        return process


def wanted(*arguments: str) -> PagesWanted:
    return PagesWanted(host="", port=0, pin="", arguments=[*arguments], folder="/", environment=dict(os.environ))


async def test_an_app_that_cannot_begin_closes_its_tab() -> None:
    page = Page([])
    await Tab(cast("Any", page), wanted("no-such-command")).run_for(80, 24)
    assert (page.is_closed, page.got) == (True, b"")


FRAMES = (
    "", "{", "[]", "[1]", '["stdin"]', '["stdin", 3]', '["nothing", 1]', "[" * 100_000,
    *(f'["resize", {size}]' for size in ('{"width": "x"}', '{"width": 1e99, "height": 0}')),
)  # fmt: skip


async def test_what_a_page_sends_reaches_its_app_or_harms_nothing() -> None:
    good = ['["stdin", "\\udcff\\u0000é"]', '["resize", {"width": 99999999, "height": -5}]', '["focus"]', '["blur", 1]']
    page = Page(["".join(each) for each in (*FRAMES, *good)] + ['["ping", 7]'], waits_for=b"blur")
    await EchoTab(cast("Any", page), wanted()).run_for(80, 24)
    assert page.answers == [["pong", 7]]
    metas = [b'{"type": "resize", "width": 1000, "height": 1}', b'{"type": "focus"}', b'{"type": "blur"}']
    packets = [Tab.encode_packet(b"D", "?\0é".encode()), *(Tab.encode_packet(b"M", each) for each in metas)]
    assert page.got == b"".join(packets) + b"last", "what is drawn when a tab is left is sent too"
