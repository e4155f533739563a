"""The host and a session on an event loop in its own thread, so that the keyboard has the main one."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import readline
import sys
import termios
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lmtui.core.events import Envelope
from lmtui.core.sessions import Session, SessionHost
from lmtui.plain.event_printer import EventPrinter

MAX_HISTORY = 1000


class Terminal(Protocol):
    """What the linear mode asks of a terminal."""

    def say(self, line: str) -> None:
        """Print a line."""

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "") -> str:
        """Read a line; `start` is there to be changed, and with `is_kept` it joins the history.

        Raises:
            EOFError: no more, or no terminal any more.
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


T = TypeVar("T")


class LoopThread:
    """An event loop in a thread.  Who asks from outside waits, and ctrl+c ends the waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sessions", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Let a coroutine run."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def wait(self, work: Coroutine[Any, Any, T]) -> T:
        """Let a coroutine run and return its result."""
        return self.start(work).result()

    def do(self, action: Callable[[], T]) -> T:
        """Call something on the loop and return its result."""

        async def call() -> T:
            return action()

        return self.wait(call())

    def close(self) -> None:
        """Stop the loop and let go of it."""
        self.wait(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class PlainSession:
    """One open session and what came of it so far; `inbox` holds events that are not told yet, None to look again."""

    def __init__(self, loop: LoopThread, host: SessionHost, terminal: Terminal) -> None:
        self.loop, self.host, self.terminal = loop, host, terminal
        self.inbox: queue.SimpleQueue[Envelope | None] = queue.SimpleQueue()
        self.teller = EventPrinter()
        self._session: Session | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def session(self) -> Session:
        """Return the session in front."""
        assert self._session is not None, "opened before anything is asked"
        return self._session

    def say(self, *lines: str) -> None:
        """Print lines."""
        for line in lines:
            self.terminal.say(line)

    def open(self, session_id: str = "") -> None:
        """Bring a session to the front, a new one without an id.

        Raises:
            LmtuiError: it cannot be opened; what was in front stays.
        """
        session = self.loop.wait(self.host.open_session(session_id) if session_id else self.host.new_session())
        self.loop.do(self._unsubscribe)
        self.teller = EventPrinter()
        self._session = session
        self._unsubscribe = self.loop.do(lambda: session.subscribe(self.inbox.put))

    def act(self, action: Callable[[Session], T]) -> T:
        """Call something on the session, where its loop is."""
        session = self.session
        return self.loop.do(lambda: action(session))
