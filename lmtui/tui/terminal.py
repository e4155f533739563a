"""The terminal that may go away: what is written to a window that was closed is dropped, so that leaving never waits for it."""

from __future__ import annotations

import base64
import codecs
import contextlib
import io
import os
import selectors
import shutil
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import NamedTuple, TextIO, cast

from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.app import App
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import _character_to_key

LARGEST_OSC_BYTES = 74_994
PROGRAM_LIMIT_S = 3.0


@dataclass(frozen=True)
class Route:
    """How a text gets to the clipboard: a program that reads it, and whether the terminal is asked as well."""

    program: tuple[str, ...] = ()
    is_in_tmux: bool = False


def find_route(environ: Mapping[str, str] = os.environ, which: Callable[[str], str | None] = shutil.which) -> Route:
    """Choose by the environment; without a program the terminal alone is asked."""
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    is_in_tmux = bool(environ.get("TMUX"))
    candidates: list[tuple[str, ...]] = []
    if not is_remote:
        if environ.get("WAYLAND_DISPLAY"):
            candidates.append(("wl-copy",))
        if environ.get("DISPLAY"):
            candidates += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        candidates += [("pbcopy",), ("clip.exe",)]
    if is_in_tmux:
        candidates.append(("tmux", "load-buffer", "-w", "-"))
    found = next((each for each in candidates if which(each[0])), ())
    return Route(found, is_in_tmux)


def osc_52(text: str, *, is_in_tmux: bool = False) -> str:
    """Return the sequence that sets the terminal's clipboard; empty where the text is too large for terminals to take."""
    data = text.encode("utf-8", "replace")
    if len(data) > LARGEST_OSC_BYTES:
        return ""
    plain = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    if not is_in_tmux:
        return plain
    doubled = plain.replace("\x1b", "\x1b\x1b")
    return f"{plain}\x1bPtmux;{doubled}\x1b\\"


def run_program(program: tuple[str, ...], text: str) -> bool:
    """Give a text to a clipboard program; False where it failed.  Blocks, for a limited time: call it in a thread."""
    data = text.encode("utf-16-le" if program[0] == "clip.exe" else "utf-8", "replace")
    try:
        done = subprocess.run(
            program,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_LIMIT_S,
            check=False,
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def keep_in_file(text: str, folder: Path) -> Path:
    """Write what no clipboard takes to a file that only the user can read, and return its path.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"copied-{os.urandom(4).hex()}.txt"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _ = file.write(text.encode("utf-8", "replace"))
    return path


def size_text(text: str) -> str:
    """Return how much was copied, in words."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def copy_by_program(route: Route, text: str, *, has_osc: bool, folder: Path) -> tuple[str, bool]:
    """Do what may take time and return what to say, and whether it worked.  Blocks: call it in a thread.

    `has_osc` tells that the terminal was asked already; terminals do not answer, so that counts as done.
    """
    if route.program and run_program(route.program, text):
        return f"copied {size_text(text)}", True
    if has_osc:
        return f"copied {size_text(text)} by the terminal", True
    try:
        path = keep_in_file(text, folder)
    except OSError as error:
        return f"not copied, and not written to a file either: {error.strerror or error}", False
    return f"too large for the terminal's clipboard ({size_text(text)}); it is in {path}", True


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
    """Return how long to wait at most: until a sequence that is begun counts as its own key, else for ever."""
    due = parser._timeout_time
    return None if due is None else max(0.0, due - get_time())


def _read(number: int) -> bytes:
    """Return what was typed, nothing where the terminal is gone."""
    try:
        return os.read(number, 4096)
    except OSError:
        return b""
