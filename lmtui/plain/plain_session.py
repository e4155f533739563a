"""The host and a session on an event loop in its own thread, so that the keyboard has the main one; and how events print."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import queue
import re
import readline
import shutil
import sys
import termios
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from textwrap import TextWrapper
from typing import TypeVar

from lmtui.commands.command import CommandContext
from lmtui.commands.table import command_table
from lmtui.core import events
from lmtui.core.event_text import EventText, call_words, quoted
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import Session, SessionHost
from lmtui.headless.trust_report import YES

PATIENCE_S = 10.0
_SENTENCE_END = re.compile(r"\n|(?<=[.!?:])\s(?=\S)")


class EventPrinter:
    """Says a session's events, an answer by its sentences; what takes long as it begins, and again every ten seconds."""

    def __init__(self) -> None:
        self._text = EventText()
        self._streamed = self._unsaid = ""
        self._waits_for: type[events.Event] | None = None
        self._waits_since = self._said_at = datetime.min

    def tell(self, envelope: events.Envelope) -> list[str]:
        """Return the lines that one event adds."""
        event, now = envelope.event, envelope.time
        if isinstance(event, events.ThinkingDelta | events.PrefillProgress):
            return self._wait(event, now)
        thought = [f"thinking, {self._waited(now)}"] if self._waits_for is events.ThinkingDelta else []
        self._waits_for = None
        return [*thought, *self._tell(event)]

    def _tell(self, event: events.Event) -> Iterator[str]:
        match event:
            case events.TextDelta(text=text):
                yield from self._stream(text)
                return
            case events.MessageAdded(role=Role.ASSISTANT) as message:
                yield from self._whole(message.text.strip())
            case events.ToolCallStarted(tool="shell") as call:
                yield from self._rest()
                yield f"begins: {call_words(call)}"
            case events.ToolCallStarted() | events.TurnEnded():
                yield from self._rest()
        void = " Ignore the answer so far: it begins again." if self._streamed else ""
        is_again = isinstance(event, events.RetryScheduled)
        yield from (f"{line}{void if is_again else ''}" for line in self._text.lines(event))
        if is_again or isinstance(event, events.TurnStarted):
            self._streamed = self._unsaid = ""

    def _stream(self, text: str) -> Iterator[str]:
        if not self._streamed:
            text = text.lstrip()
            yield from ["lmtui answers:"] if text else ()
        self._streamed += text
        *sentences, self._unsaid = _SENTENCE_END.split(self._unsaid + text)
        for sentence in sentences:
            yield from _said(sentence)

    def _whole(self, text: str) -> Iterator[str]:
        heard = self._streamed.strip()
        if heard and text.startswith(heard):
            self._unsaid += text[len(heard) :]
            yield from self._rest()
        elif text:
            yield from self._rest()
            yield "Full answer:" if heard else "lmtui answers:"
            yield from _said(text)
        self._streamed = self._unsaid = ""

    def _rest(self) -> Iterator[str]:
        unsaid, self._unsaid = self._unsaid, ""
        for line in unsaid.splitlines():
            yield from _said(line)

    def _wait(self, event: events.ThinkingDelta | events.PrefillProgress, now: datetime) -> list[str]:
        if self._waits_for not in (type(event), events.ThinkingDelta):
            self._waits_for, self._waits_since, self._said_at = type(event), now, now
        if (now - self._said_at).total_seconds() < PATIENCE_S:
            return []
        self._said_at = now
        if isinstance(event, events.ThinkingDelta):
            return [f"still thinking, {self._waited(now)}"]
        return [f"the model reads the prompt{f', {event.ratio:.0%}' if event.ratio >= 0 else ''}"]

    def _waited(self, now: datetime) -> str:
        seconds = round((now - self._waits_since).total_seconds())
        return pluralize(seconds, "second") if seconds else "under a second"


def _said(text: str) -> Iterator[str]:
    if text.strip():
        yield from quoted(text.rstrip())


MAX_HISTORY = 1000
_WRAP = TextWrapper(replace_whitespace=False, drop_whitespace=False, break_on_hyphens=False)


class Terminal:
    """Standard input and output, with the line editing and the history of readline."""

    def __init__(self, history: Path) -> None:
        self._history = history
        self._is_gone = False
        readline.set_auto_history(False)
        readline.set_history_length(MAX_HISTORY)
        with contextlib.suppress(OSError):
            readline.read_history_file(history)

    def say(self, line: str) -> None:
        """Print a line, broken between words as the terminal is wide; nothing where that is gone."""
        _WRAP.width = max(20, shutil.get_terminal_size().columns)
        _WRAP.subsequent_indent = line[: len(line) - len(line.lstrip(" "))]
        try:
            print("\n".join(_WRAP.wrap(line)), flush=True)
        except OSError:
            self._is_gone = True

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "", is_secret: bool = False) -> str:
        """Read a line; `start` is there to be changed, with `is_kept` it joins the history, one that `is_secret` is not shown.

        Raises:
            EOFError: no more, or no terminal any more.
            KeyboardInterrupt: ctrl+c.
        """
        if self._is_gone:
            raise EOFError
        if start:
            readline.set_startup_hook(lambda: readline.insert_text(start))
        try:
            line = getpass.getpass(prompt) if is_secret else input(prompt)
        except OSError as error:
            raise EOFError from error
        except KeyboardInterrupt:
            self.drop_typed()  # it may be in a paste, whose rest is not typed
            raise
        finally:
            readline.set_startup_hook(None)
        if is_kept and line.strip() and "\n" not in line:
            readline.add_history(line)
            with contextlib.suppress(OSError):
                self._history.parent.mkdir(parents=True, exist_ok=True)
                self._history.touch(mode=0o600)
                readline.write_history_file(self._history)
        return line

    def drop_typed(self) -> None:
        """Forget what was typed before it was asked for."""
        with contextlib.suppress(OSError, termios.error):
            termios.tcflush(sys.stdin.fileno(), termios.TCIFLUSH)


T = TypeVar("T")


class LoopThread:
    """An event loop in a thread.  Who asks from outside waits, and ctrl+c ends the waiting."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="sessions", daemon=True)
        self._thread.start()

    def start(self, work: Awaitable[T]) -> Future[T]:
        """Let something run."""

        async def run() -> T:
            return await work

        return asyncio.run_coroutine_threadsafe(run(), self._loop)

    def wait(self, work: Awaitable[T]) -> T:
        """Let something run and return its result."""
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


@dataclass(frozen=True, slots=True)
class AnswerChoice:
    """One way to answer: its letter, its word, and what it does."""

    letter: str
    word: str
    text: str


def choice_lines(choices: Iterable[AnswerChoice]) -> Iterator[str]:
    """Return the choices, one a line."""
    return (f"  {' or '.join(filter(None, (each.letter, each.word)))}: {each.text}" for each in choices)


def chosen(choices: Iterable[AnswerChoice], typed: str) -> tuple[str, str]:
    """Return the letter of what was typed and the words behind it; an empty letter where it is not a choice."""
    head, _, words = typed.strip().partition(" ")
    for each in choices:
        if head and head.lower() in (each.letter, each.word) and (not words or each.letter == "f"):
            return each.letter or each.word[:1], words.strip()
    return "", ""


class AnsweredElsewhere(Exception):
    """Somebody answered a question in another window."""


class PlainSession:
    """One open session and what came of it so far; `inbox` holds events that are not printed yet, None to look again."""

    def __init__(self, loop: LoopThread, host: SessionHost, terminal: Terminal) -> None:
        self.loop, self.host, self.terminal = loop, host, terminal
        self.inbox: queue.SimpleQueue[events.Envelope | None] = queue.SimpleQueue()
        self.context = CommandContext(host, None, command_table())
        self.teller = EventPrinter()
        self.session: Session  # that in front, once one was opened
        self._asked = ""  # the approval whose answer is being read
        self._unsubscribe: Callable[[], None] = lambda: None

    def say(self, *lines: str) -> None:
        """Print lines."""
        for line in lines:
            self.terminal.say(line)

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; what was typed before it does not count."""
        self.terminal.drop_typed()
        return self.terminal.read(question).strip().lower() in YES

    def list_choices(self, choices: Iterable[AnswerChoice]) -> None:
        """Print what can be answered; what was typed before that does not count."""
        self.say("choices:", *choice_lines(choices))
        self.terminal.drop_typed()

    def choose(self, choices: Sequence[AnswerChoice], read: Callable[[str], str]) -> tuple[str, str]:
        """Ask until one of the choices is typed; return its letter and the words behind it."""
        letters = " ".join(each.letter or each.word for each in choices)
        while not (found := chosen(choices, read(f"your answer ({letters}): ")))[0]:
            self.say(f"answer with one of these letters or its word: {letters}")
        return found

    def open(self, session_id: str = "") -> None:
        """Bring a session to the front, a new one without an id.

        Raises:
            LmtuiError: it cannot be opened; what was in front stays.
        """
        session = self.loop.wait(self.host.open_session(session_id) if session_id else self.host.new_session())
        self.loop.do(self._unsubscribe)
        self.teller = EventPrinter()
        self.session = session
        self._unsubscribe = self.loop.do(lambda: session.subscribe(self._hear))
        for envelope in events.pending_approvals(self.loop.do(session.history)):
            self.inbox.put(envelope)  # a host asked while nobody was there

    def is_open(self, request: events.ApprovalRequested) -> bool:
        """Tell whether nobody has answered a question yet, here or in another window."""
        return any(each.event == request for each in self.act(lambda session: events.pending_approvals(session.history())))

    def read_answer(self, request: events.ApprovalRequested, prompt: str) -> str:
        """Read an answer; one that another window gives meanwhile is told, and a line ends the wait.

        Raises:
            AnsweredElsewhere: another window gave one.
        """
        self._asked = request.approval_id
        try:
            typed = self.terminal.read(prompt)
        finally:
            self._asked = ""
        if not self.is_open(request):
            raise AnsweredElsewhere
        return typed

    def _hear(self, envelope: events.Envelope) -> None:
        event = envelope.event
        if isinstance(event, events.ApprovalResolved) and event.approval_id == self._asked:
            self.terminal.say(f"\nanswered by {sanitize_line(event.by)}; press enter to go on")
        self.inbox.put(envelope)

    def act(self, action: Callable[[Session], T]) -> T:
        """Call something on the session, where its loop is."""
        session = self.session
        return self.loop.do(lambda: action(session))
