"""The terminal that may go away: what is written to a window that was closed is dropped, so that leaving never waits for it."""

from __future__ import annotations

import contextlib
import io
from typing import TextIO, cast

from textual.app import App
from textual.drivers.linux_driver import LinuxDriver


class LastingOutput(io.TextIOBase):
    """Writes to a terminal for as long as it is there.

    Textual writes in a thread that ends at the first error; its queue then fills up, and who writes waits for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str, /) -> int:
        """Write, or drop the text where the terminal is gone."""
        with contextlib.suppress(OSError):
            _ = self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Send what was written, if the terminal is there."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Return the terminal's file descriptor."""
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's own driver with an output that outlives the terminal."""

    def __init__(
        self, app: App[object], *, debug: bool = False, mouse: bool = True, size: tuple[int, int] | None = None
    ) -> None:
        super().__init__(app, debug=debug, mouse=mouse, size=size)
        self.bytes_written = 0
        if self._file is not None:
            self._file = cast("io.TextIOWrapper", LastingOutput(self._file))

    def write(self, data: str) -> None:
        """Write to the terminal, or drop what comes while it is given away (an editor is open)."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self.bytes_written += len(data)
            super().write(data)

    def use_mouse(self, *, is_on: bool) -> None:
        """Take the mouse, or leave it to the terminal."""
        if is_on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False
