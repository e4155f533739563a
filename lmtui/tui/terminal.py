"""The terminal that may go away: what is written to a window that was closed is dropped, so that leaving never waits for it."""

from __future__ import annotations

import codecs
import contextlib
import io
import os
import selectors
from functools import partial
from typing import NamedTuple, TextIO, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import _character_to_key

_LEAVE_S = 0.05
_WITH_ALT = "0123456789!\"#$%&'()*+,-./:;<=>?@`{|}~"  # what begins no longer sequence


class _AltKey(NamedTuple):
    value: str


def teach_alt_keys() -> None:
    """Let Alt with a digit or a sign be that key: Textual makes a letter of it (`¡` of Alt+1), or loses the Alt."""
    table = cast("dict[str, tuple[_AltKey, ...]]", ANSI_SEQUENCES_KEYS)
    for sign in _WITH_ALT:
        table[f"\x1b{sign}"] = (_AltKey(f"alt+{_character_to_key(sign)}"),)


teach_alt_keys()


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
        self._wake_reader = self._wake_writer = -1
        if self._file is not None:
            self._file = cast("io.TextIOWrapper", LastingOutput(self._file))

    def write(self, data: str) -> None:
        """Write to the terminal, or drop what comes while it is given away (an editor is open)."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            self.bytes_written += len(data)
            super().write(data)

    def run_input_thread(self) -> None:
        """Wait for input and pass it on; asleep until something comes, where Textual's own looks ten times a second."""
        parser = XTermParser(self._debug)
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._wake_reader, self._wake_writer = os.pipe()
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = {key.fd for key, _ in selector.select(_wait_s(parser))}
                if self._wake_reader in ready:
                    _ = os.read(self._wake_reader, 64)
                if self.fileno in ready:
                    data = _read(self.fileno)
                    if not data:
                        selector.unregister(self.fileno)
                    for message in parser.feed(decode(data)) if data else ():
                        self.process_message(message)
                for message in parser.tick():
                    self.process_message(message)

    def disable_input(self) -> None:
        """Take no more input; the thread that waits for it is woken to see that."""
        thread, self._key_thread = self._key_thread, None
        while thread is not None and thread.is_alive():  # a signal may have begun and ended another one meanwhile
            self.exit_event.set()
            with contextlib.suppress(OSError):
                _ = os.write(self._wake_writer, b"x")
            thread.join(_LEAVE_S)
        for number in {self._wake_reader, self._wake_writer} - {-1}:
            os.close(number)
        self._wake_reader = self._wake_writer = -1
        self.exit_event.clear()
        super().disable_input()

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after a sleep; the kernel sends the same signal where a terminal is closed."""
        if self._must_signal_resume:
            super()._sigcont_application()
            self._loop.call_soon_threadsafe(partial(self._app.refresh, layout=True))

    def use_mouse(self, *, is_on: bool) -> None:
        """Take the mouse, or leave it to the terminal."""
        if is_on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False


def _wait_s(parser: XTermParser) -> float | None:
    """Return how long to wait at most: until a sequence that is begun counts as a key of its own, else for ever."""
    due = parser._timeout_time
    return None if due is None else max(0.0, due - get_time())


def _read(number: int) -> bytes:
    """Return what was typed, nothing where the terminal is gone."""
    try:
        return os.read(number, 4096)
    except OSError:
        return b""
