"""The terminal as a line printer with a keyboard: lines out, lines in, and nothing that moves a cursor."""

from __future__ import annotations

import contextlib
import readline
import sys
import termios
from pathlib import Path
from typing import Protocol

MAX_HISTORY = 1000


class Terminal(Protocol):
    """What the linear mode asks of a terminal."""

    def say(self, line: str) -> None:
        """Print a line."""

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "") -> str:
        """Read a line; `start` stands there to be changed, and with `is_kept` it joins the history.

        Raises:
            EOFError: there is no more, or no terminal any more.
            KeyboardInterrupt: ctrl+c.
        """

    def drop_typed(self) -> None:
        """Forget what was typed before it was asked for."""


class LineTerminal:
    """Standard input and output, with the line editing and the history of readline."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._is_gone = False
        readline.set_auto_history(False)
        readline.set_history_length(MAX_HISTORY)
        with contextlib.suppress(OSError):
            readline.read_history_file(history)

    def say(self, line: str) -> None:
        """Print a line; nothing where the terminal is gone."""
        try:
            print(line, flush=True)
        except OSError:
            self._is_gone = True

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "") -> str:
        """Read a line; see `Terminal.read`."""
        if self._is_gone:
            raise EOFError
        if start:
            readline.set_startup_hook(lambda: readline.insert_text(start))
        try:
            line = input(prompt)
        except OSError as error:
            raise EOFError from error
        finally:
            readline.set_startup_hook(None)
        if is_kept and line.strip():
            self._keep(line)
        return line

    def drop_typed(self) -> None:
        """Forget what was typed before it was asked for."""
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)

    def _keep(self, line: str) -> None:
        if "\n" in line:
            return
        readline.add_history(line)
        with contextlib.suppress(OSError):
            self._history.parent.mkdir(parents=True, exist_ok=True)
            self._history.touch(mode=0o600)
            readline.write_history_file(self._history)
