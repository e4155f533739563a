"""The host and a session on an event loop in its own thread, so that the keyboard has the main one; and how events print."""

from __future__ import annotations

import asyncio
import contextlib
import getpass
import queue
import re
import readline
import sys
import termios
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, TypeVar

from lmtui.commands.work_commands import changes_text, more_and_fewer, plan_lines, quoted
from lmtui.core import events
from lmtui.core.budgets import ReportWritten
from lmtui.core.event_text import model_words
from lmtui.core.messages import Role
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line, sanitize_path
from lmtui.core.sessions import Session, SessionHost, answer_words

YES = ("y", "yes")
PATIENCE_S = 10.0
MAX_RESULT_LINES = 40
MAX_FAILURE_LINES = 5
_SENTENCE_END = re.compile(r"\n|(?<=[.!?:])\s(?=\S)")
_LONG_TOOLS = frozenset({"shell"})


class EventPrinter:
    """Turns a session's events into lines.  It says what began when it may take long, and again every ten seconds."""

    def __init__(self) -> None:
        self._calls: dict[str, events.ToolCallStarted] = {}
        self._call_count = 0
        self._is_answering = False
        self._streamed = self._unsaid = ""
        self._thinks_since: datetime | None = None
        self._reads_since: datetime | None = None
        self._said_at: datetime | None = None

    def tell(self, envelope: events.Envelope) -> list[str]:
        """Return the lines that one event adds."""
        event, now = envelope.event, envelope.time
        if isinstance(event, events.ThinkingDelta):
            return self._think(now)
        if isinstance(event, events.PrefillProgress):
            return self._read(event, now)
        lines = self._end_of_thinking(now)
        self._reads_since = None
        return [*lines, *self._tell(event)]

    def _tell(self, event: events.Event) -> Iterator[str]:
        match event:
            case events.TextDelta(text=text):
                yield from self._stream(text)
            case events.MessageAdded(role=Role.ASSISTANT) as message:
                yield from self._whole(message.text)
            case events.ToolCallStarted() as call:
                yield from self._call_began(call)
            case events.ToolCallFinished() as finished:
                yield from self._call_ended(finished)
            case events.TurnStarted():
                self._call_count = 0
                self._forget_stream()
            case events.RetryScheduled() as retry:
                times = f", attempt {retry.attempt} of {retry.attempts}" if retry.attempt else ""
                began = " What was said of this answer does not count." if self._streamed else ""
                self._forget_stream()
                again = f". Again in {pluralize(max(1, round(retry.wait_s)), 'second')}" if retry.wait_s else ""
                yield f"{sanitize_line(retry.reason)}{again}{times}.{began}"
            case events.TurnEnded() as end:
                yield from self._rest()
                if end.error:
                    yield f"error: {sanitize_line(end.error)}"
                yield end_text(end, self._call_count)
            case _:
                yield from _others(event)

    # -- the answer -----------------------------------------------------------------------------------------------------

    def _stream(self, text: str) -> Iterator[str]:
        if not self._is_answering:
            text = text.lstrip() if not self._streamed else text
            if not text:
                return
            self._is_answering = True
            yield "lmtui answers:"
        self._streamed += text
        *sentences, self._unsaid = _SENTENCE_END.split(self._unsaid + text)
        for sentence in sentences:
            yield from _said(sentence)

    def _whole(self, text: str) -> Iterator[str]:
        text = text.strip()
        if not self._streamed.strip() and text:
            yield "lmtui answers:"
            yield from _said(text)
        elif text.startswith(self._streamed.strip()):
            self._unsaid += text[len(self._streamed.strip()) :]
            yield from self._rest()
        elif text:
            yield from self._rest()
            yield "the answer as it is kept:"
            yield from _said(text)
        self._forget_stream()

    def _rest(self) -> Iterator[str]:
        unsaid, self._unsaid = self._unsaid, ""
        for line in unsaid.splitlines():
            yield from _said(line)

    def _forget_stream(self) -> None:
        self._is_answering = False
        self._streamed = self._unsaid = ""

    # -- waiting --------------------------------------------------------------------------------------------------------

    def _think(self, now: datetime) -> list[str]:
        if self._thinks_since is None:
            self._thinks_since = self._said_at = now
            return []
        if not self._is_time(now):
            return []
        return [f"still thinking, {pluralize(round((now - self._thinks_since).total_seconds()), 'second')}"]

    def _end_of_thinking(self, now: datetime) -> list[str]:
        since, self._thinks_since = self._thinks_since, None
        if since is None:
            return []
        seconds = round((now - since).total_seconds())
        return [f"thinking, {pluralize(seconds, 'second') if seconds else 'under a second'}"]

    def _read(self, event: events.PrefillProgress, now: datetime) -> list[str]:
        if self._reads_since is None:
            self._reads_since = self._said_at = now
            return []
        if not self._is_time(now):
            return []
        how_far = f", {event.ratio:.0%}" if event.ratio >= 0 else ""
        return [f"the model reads the prompt{how_far}"]

    def _is_time(self, now: datetime) -> bool:
        if self._said_at is not None and (now - self._said_at).total_seconds() < PATIENCE_S:
            return False
        self._said_at = now
        return True

    # -- tool calls -----------------------------------------------------------------------------------------------------

    def _call_began(self, call: events.ToolCallStarted) -> Iterator[str]:
        yield from self._rest()
        self._calls[call.call_id] = call
        self._call_count += 1
        if call.tool in _LONG_TOOLS:
            yield f"begins: {_call_text(call)}"

    def _call_ended(self, finished: events.ToolCallFinished) -> Iterator[str]:
        call = self._calls.pop(finished.call_id, None)
        name = _call_text(call) if call is not None else sanitize_line(finished.tool)
        who = f"{sanitize_line(finished.agent)}, " if finished.agent != "root" else ""
        name += ", a recovered call" if call is not None and call.recovered else ""
        state = "ok" if finished.ok else "failed"
        summary = f", {in_words(sanitize_line(finished.summary))}" if finished.summary not in ("", state) else ""
        yield f"tool: {who}{name} ... {state}{summary}, {duration(finished.elapsed_ms)}"
        if call is not None and call.by:
            yield from _first_lines(finished.result, MAX_RESULT_LINES)
        elif not finished.ok:
            yield from _first_lines(finished.result, MAX_FAILURE_LINES)


def _others(event: events.Event) -> Iterator[str]:
    yield from _around(event)
    match event:
        case events.Notice(level=level, text=text):
            yield f"{'note' if level == 'info' else level}: {sanitize_line(text)}"
        case events.FilesChanged(changes=changes, files=files, is_tried=is_tried):
            where = " in the overlay" if is_tried else ""
            yield f"changed{where}: {changes_text(changes) or ', '.join(map(sanitize_line, files))}"
        case events.FilesRestored(action=action, changes=changes):
            yield f"{sanitize_line(action)} done: {changes_text(changes)}"
        case events.Rewound():
            yield "the conversation continues from before that"
        case events.PlanChanged() as changed:
            yield from plan_lines(changed)
        case events.HostReached(host=host, why_not=why_not) if why_not:
            yield f"kept from reaching {sanitize_line(host)}: {sanitize_line(why_not)}"
        case ReportWritten(text=text):
            yield from sanitize(text).replace("**", "").splitlines()
        case events.ApprovalResolved(by=by) as event if by != "user":
            yield f"the question was answered: {sanitize_line(answer_words(event))}"
        case _:
            if text := model_words(event):
                yield text


def _around(event: events.Event) -> Iterator[str]:
    """Return what changes around the conversation."""
    match event:
        case events.SandboxSelected(text=text, is_weaker=is_weaker, reason=reason):
            yield f"sandbox: {sanitize_line(text)}" + (f" ({sanitize_line(reason)})" if is_weaker and reason else "")
        case events.ModeChanged(mode=mode):
            yield f"mode: {sanitize_line(mode)}"
        case events.ModelChanged(model=model, url=url, role=role):
            part = f" ({sanitize_line(role)})" if role else ""
            yield f"model: {sanitize_line(model) or 'the one that the server chooses'}{part}, at {sanitize_line(url)}"
        case events.RuleRevoked(rule=rule):
            yield f"rule revoked: {sanitize_line(rule)}"
        case _:
            pass


def end_text(end: events.TurnEnded, calls: int) -> str:
    """Return how a turn ended, in words."""
    parts = [end.reason.words, *([end.doubt] if end.doubt else []), *([pluralize(calls, "tool call")] if calls else [])]
    if end.files_changed:
        parts.append(f"{pluralize(len(end.files_changed), 'file')} changed")
    parts.append(duration(round(end.elapsed_s * 1000)))
    return f"turn finished: {', '.join(parts)}"


def in_words(summary: str) -> str:
    """Return a summary such as `+9 −2` as it should be read aloud."""
    return re.sub(r"\+(\d+) [−-](\d+)", lambda found: more_and_fewer(int(found[1]), int(found[2])), summary)


def duration(elapsed_ms: int) -> str:
    """Return a time as it should be read aloud."""
    if elapsed_ms < 1000:
        return f"{elapsed_ms} ms"
    if elapsed_ms < 10_000:
        return f"{elapsed_ms / 1000:.1f} seconds"
    minutes, seconds = divmod(round(elapsed_ms / 1000), 60)
    return f"{pluralize(minutes, 'minute')} {pluralize(seconds, 'second')}" if minutes else pluralize(seconds, "second")


def _call_text(call: events.ToolCallStarted) -> str:
    return f"{sanitize_line(call.tool)} {sanitize_path(call.title)}".strip()


def _said(text: str) -> Iterator[str]:
    if text.strip():
        yield from quoted(text.rstrip())


def _first_lines(text: str, most: int) -> Iterator[str]:
    lines = quoted(text.rstrip()) if text.strip() else []
    yield from lines[:most]
    if len(lines) > most:
        yield f"and {pluralize(len(lines) - most, 'more line')}"


MAX_HISTORY = 1000


class Terminal(Protocol):
    """What the linear mode asks of a terminal."""

    def say(self, line: str) -> None:
        """Print a line."""

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "", is_secret: bool = False) -> str:
        """Read a line; `start` is there to be changed, with `is_kept` it joins the history, one that `is_secret` is not shown.

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

    def read(self, prompt: str, *, is_kept: bool = False, start: str = "", is_secret: bool = False) -> str:
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
        if is_kept and line.strip():
            self._keep(line)
        return line

    def drop_typed(self) -> None:
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
    """One open session and what came of it so far; `inbox` holds events that are not printed yet, None to look again."""

    def __init__(self, loop: LoopThread, host: SessionHost, terminal: Terminal) -> None:
        self.loop, self.host, self.terminal = loop, host, terminal
        self.inbox: queue.SimpleQueue[events.Envelope | None] = queue.SimpleQueue()
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

    def confirm(self, question: str) -> bool:
        """Ask a yes-or-no question; what was typed before it does not count."""
        self.terminal.drop_typed()
        return self.terminal.read(question).strip().lower() in YES

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
        for envelope in events.pending_approvals(self.loop.do(session.history)):
            self.inbox.put(envelope)  # a host asked while nobody was there

    def is_open(self, request: events.ApprovalRequested) -> bool:
        """Tell whether nobody has answered a question yet, here or in another window."""
        return any(each.event == request for each in self.act(lambda session: events.pending_approvals(session.history())))

    def read_answer(self, request: events.ApprovalRequested, prompt: str) -> str:
        """Read an answer; one that another window gives meanwhile is told, and a line ends the wait."""

        def look(envelope: events.Envelope) -> None:
            match envelope.event:
                case events.ApprovalResolved(approval_id=approval_id, by=by) if approval_id == request.approval_id:
                    self.terminal.say(f"\nanswered by {sanitize_line(by)}; press enter to go on")
                case _:
                    pass

        leave = self.act(lambda session: session.subscribe(look))
        try:
            return self.terminal.read(prompt)
        finally:
            self.loop.do(leave)

    def act(self, action: Callable[[Session], T]) -> T:
        """Call something on the session, where its loop is."""
        session = self.session
        return self.loop.do(lambda: action(session))
