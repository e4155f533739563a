"""An app whose terminal is a tab of a browser: many of them live in one process, each with its own screen.

What the tab gets are bytes for its terminal; what it sends are typed text, sizes and focus.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from textual import events, messages
from textual.app import App
from textual.driver import Driver
from textual.geometry import Size
from textual.message import Message

from lmtui.core.sessions import SessionHost
from lmtui.tui.app import LmtuiApp
from lmtui.tui.options import StartOptions
from lmtui.tui.terminal_input import TerminalInput

_LARGEST_CELLS = 1000
_BEGIN = "\x1b[?1049h\x1b[?1000h\x1b[?1003h\x1b[?1015h\x1b[?1006h\x1b[?25l\x1b[?2026$p\x1b[?2004h"
_END = "\x1b[?2004l\x1b[?1000l\x1b[?1003l\x1b[?1015l\x1b[?1006l\x1b[?1049l\x1b[?25h"


class TabDriver(Driver):
    """Draws into a tab.

    Args:
        put: takes what the terminal of the tab gets; returns at once.
    """

    def __init__(self, app: App[Any], *, put: Callable[[bytes], None], debug: bool, mouse: bool, size: tuple[int, int]) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self._put = put
        self._input = TerminalInput()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_web(self) -> bool:
        """Tell that a browser shows it."""
        return True

    def write(self, data: str) -> None:
        self._put(data.encode("utf-8", "replace"))

    def start_application_mode(self) -> None:
        """Take the terminal of the tab, and say how large it is."""
        self.write(_BEGIN)
        self.resize(*(self._size or (80, 24)))
        self._app.call_later(self._app.post_message, events.AppFocus())

    def disable_input(self) -> None:
        """Take no more input."""
        if self._timer is not None:
            self._timer.cancel()

    def stop_application_mode(self) -> None:
        """Give the terminal of the tab back."""
        self.disable_input()
        self.write(_END)

    def type(self, text: str) -> None:
        """Take what was typed; an escape alone is a key after a moment."""
        self._process(self._input.feed(text))

    def _process(self, found: list[Message]) -> None:
        for message in found:
            self.process_message(message)
        self.disable_input()
        if self._input.wait_s is not None:
            self._timer = self._loop.call_later(self._input.wait_s + 0.001, lambda: self._process(self._input.tick()))

    def resize(self, width: int, height: int) -> None:
        """Take another size."""
        size = Size(min(max(width, 1), _LARGEST_CELLS), min(max(height, 1), _LARGEST_CELLS))
        self._size = (size.width, size.height)
        self._app.post_message(events.Resize(size, size))

    def focus(self, *, is_in_front: bool) -> None:
        """Take note of whether the tab has the keys."""
        self._app.post_message(events.AppFocus() if is_in_front else events.AppBlur())


class Tab:
    """One app in a tab.

    Args:
        open_host: connects to the host; runs in a thread.
        options: how the app begins.
        put: see `TabDriver`.
    """

    def __init__(
        self, open_host: Callable[[], SessionHost], options: StartOptions, put: Callable[[bytes], None], size: tuple[int, int]
    ) -> None:
        self._app = LmtuiApp(open_host, options)
        self._app.has_signals = False  # signals belong to the process
        self._app.driver_class = cast("type[Driver]", partial(TabDriver, put=put))
        self._size = size

    async def run(self) -> None:
        """Run the app until it is left."""
        _ = await self._app.run_async(size=self._size)

    @property
    def driver(self) -> TabDriver | None:
        """Return what draws, once the app has begun."""
        return self._app._driver if isinstance(self._app._driver, TabDriver) else None

    def leave(self) -> None:
        """End the app; its sessions go on in the host."""
        if self._app.is_running:
            self._app.post_message(messages.ExitApp())
