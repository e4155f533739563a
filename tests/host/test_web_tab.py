from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, cast

from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import SessionHost
from lmtui.host.web import TabSocket
from lmtui.tui.options import StartOptions
from lmtui.tui.tab_driver import Tab
from tests.waiting import until


@dataclass
class Page:
    """The page of a tab: what it sends, and what it got."""

    sends: list[str]
    got: bytes = b""
    answers: list[object] = field(default_factory=list)
    is_closed: bool = False
    waits_for: bytes = b""

    async def receive(self) -> dict[str, str]:
        if self.sends:
            return {"type": "websocket.receive", "text": self.sends.pop(0)}
        await until(lambda: self.is_closed or (self.waits_for and self.waits_for in self.got))
        return {"type": "websocket.disconnect"}

    async def send_bytes(self, data: bytes) -> None:
        self.got += data

    async def send_json(self, value: object) -> None:
        self.answers.append(value)

    async def close(self) -> None:
        self.is_closed = True


def no_host() -> SessionHost:
    raise LmtuiError("there is no host")


def make_tab(put: Callable[[bytes], None], size: tuple[int, int]) -> Tab:
    return Tab(no_host, StartOptions(), put, size)


async def test_an_app_that_cannot_begin_closes_its_tab() -> None:
    page = Page([])
    await TabSocket(cast("Any", page), make_tab, (80, 24)).run()
    assert page.is_closed
    assert b"lmtui" in page.got
    assert page.got.endswith(b"\x1b[?25h")


async def test_two_tabs_draw_screens_of_their_own_size() -> None:
    pages = [Page([], waits_for=b"send"), Page([], waits_for=b"send")]
    sizes = [(60, 18), (120, 40)]
    sockets = [TabSocket(cast("Any", page), make_tab, size) for page, size in zip(pages, sizes, strict=True)]
    await asyncio.gather(*(each.run() for each in sockets))
    assert [b"\x1b[18;" in pages[0].got, *(b"\x1b[40;" in page.got for page in pages)] == [True, False, True]
    assert all(page.got.endswith(b"\x1b[?25h") for page in pages), "what is drawn when a tab is left is sent too"


FRAMES = (
    "", "{", "[]", "[1]", '["stdin"]', '["stdin", 3]', '["nothing", 1]', "[" * 100_000, '["stdin", "\\udcff\\u0000"]',
    *(f'["resize", {size}]' for size in ('{"width": "x"}', '{"width": -5, "height": 9}', '{"width": 1e99, "height": 0}')),
    '["resize", {"width": 99999999, "height": 99999999}]',
)  # fmt: skip


async def test_what_a_page_sends_harms_nothing() -> None:
    page = Page([each for number, frame in enumerate(FRAMES) for each in (frame, f'["ping", {number}]')])
    await TabSocket(cast("Any", page), make_tab, (80, 24)).run()
    assert page.answers == [["pong", number] for number in range(len(FRAMES))]
