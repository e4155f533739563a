"""The tool log: every call of every agent, one aligned line each, the newest last; narrowed down by a filter."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar, Unpack

from textual.binding import BindingType
from textual.message import Message

from lmtui.core import events
from lmtui.core.agent_events import AgentStarted
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.tui.commands import Scope, bindings
from lmtui.tui.lines.blocks import seconds
from lmtui.tui.lines.calls import CallState
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import Line, LineSource, fit, fit_path, pad
from lmtui.tui.lines.table import RowCursor
from lmtui.tui.session_state import Subagent, agent_name
from lmtui.tui.timing import WidgetOptions, in_slices
from lmtui.tui.wording import PATH_VERBS, call_words

_WIDEST_AGENT = 10
_VERB_COLUMN = 8
_TOLD_MS, _CALLS_A_LOOK, _LOOKS_AT_ONCE = 1000, 250, 4


@dataclass(slots=True)
class LogEntry:
    """One call as the log shows it."""

    call_id: str
    agent: str
    name: str
    tool: str
    title: str
    state: CallState = CallState.RUNNING
    elapsed_ms: int = -1
    done_state: CallState = CallState.OK

    def fits(self, words: Sequence[str]) -> bool:
        """Tell whether all words, in lower case, are in agent, tool, title or state."""
        said = f"{self.name} {self.tool} {self.title} {self.state.name}".casefold()
        return all(word in said for word in words)


class LogRows(LineSource):
    """The tool calls of a session as rows, those that fit a filter.  `changed` is called with the first row that differs."""

    def __init__(self, changed: Callable[[int], None]) -> None:
        self._changed = changed
        self._entries: list[LogEntry] = []
        self._rows: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._approvals: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._agent_width, self._has_agents = 4, False
        self._words: Sequence[str] = ()
        self._shown: list[int] = []
        self._scanned = 0

    def apply(self, envelope: events.Envelope) -> None:
        """Take one event."""
        event = envelope.event
        match event:
            case events.ToolCallStarted():
                self._start(event)
            case events.ToolCallFinished():
                self._open.pop(event.call_id, None)
                state = CallState.OK if event.ok else CallState.FAILED
                self._set_state(event.call_id, state, event.elapsed_ms)
            case events.ApprovalRequested():
                self._approvals[event.approval_id] = event.call_id
                self._set_state(event.call_id, CallState.WAITING)
            case events.ApprovalResolved():
                state = CallState.FAILED if event.outcome is events.Outcome.NO else CallState.RUNNING
                self._set_state(self._approvals.pop(event.approval_id, ""), state)
            case AgentStarted():
                self._names[event.agent] = Subagent(event.agent, "", sanitize_line(event.title)).name
            case events.FilesChanged():
                self._steps[events.step_id(envelope.seq)] = event.call_id
            case events.FilesRestored():
                self._restore(event)
            case events.TurnEnded():
                for call_id in [call_id for call_id, agent in self._open.items() if agent == event.agent]:
                    del self._open[call_id]
                    self._set_state(call_id, CallState.STOPPED)
            case _ if event.row is not None:
                self._add_ended(event.agent, event.row)

    def narrow(self, text: str) -> None:
        """Show only the calls that all words of a text fit, as far as `scan` has looked."""
        self._words = text.casefold().split()
        self._shown = [] if self._words else list(range(len(self._entries)))
        self._scanned = len(self._shown)

    def scan(self) -> Iterator[None]:
        """Look through the calls, some at a time."""
        while self._scanned < len(self._entries):
            last = min(len(self._entries), self._scanned + _CALLS_A_LOOK)
            self._shown += [at for at in range(self._scanned, last) if self._entries[at].fits(self._words)]
            self._scanned = last
            yield

    @property
    def counts(self) -> tuple[int, int]:
        """Return how many calls are shown, and how many there are."""
        return self.total(), len(self._entries)

    @property
    def is_narrowed(self) -> bool:
        """Tell whether a filter is in force."""
        return bool(self._words)

    def total(self) -> int:
        """Return how many calls are shown."""
        return len(self._shown)

    def entry(self, row: int) -> LogEntry:
        """Return the call of a row."""
        return self._entries[self._shown[row]]

    def line(self, number: int) -> Line:
        """Return a call: state, agent (where there are several), verb, what on, time."""
        entry = self.entry(number)
        sign, role = entry.state.value
        elapsed = f" {seconds(entry.elapsed_ms / 1000)}" if entry.elapsed_ms >= _TOLD_MS else ""
        agent = f"{pad(fit(entry.name, self._agent_width), self._agent_width)} " if self._has_agents else ""
        is_ours = entry.tool in ("hook", "check")
        verb, about = (entry.tool, entry.title) if is_ours else call_words(entry.tool, entry.title)
        room = max(4, self.width - 4 - len(agent) - _VERB_COLUMN - len(elapsed))
        cut = fit_path if verb in PATH_VERBS else fit
        return (
            (f" {sign} ", role),
            (f"{agent}{verb.lower():<{_VERB_COLUMN}}", "muted"),
            (pad(cut(about, room), room), ""),
            (elapsed, "muted"),
        )

    @property
    def call_ids(self) -> list[str]:
        """Return the calls in their order, hooks aside."""
        return list(self._rows)

    def _name(self, agent: str) -> str:
        return self._names.get(agent) or agent_name(agent)

    def _add(self, entry: LogEntry) -> None:
        self._entries.append(entry)
        if self._scanned == len(self._entries) - 1:
            _ = list(self.scan())
        self._changed(self.total() - 1)

    def _start(self, event: events.ToolCallStarted) -> None:
        name, tool, title = self._name(event.agent), sanitize_line(event.tool), sanitize_path(event.title)
        if event.call_id in self._rows:
            return
        self._rows[event.call_id] = len(self._entries)
        self._open[event.call_id] = event.agent
        self._add(LogEntry(event.call_id, event.agent, name, tool, title))
        is_wider = self._agent_width < min(len(name), _WIDEST_AGENT)
        if is_wider or (event.agent != self._entries[0].agent and not self._has_agents):
            self._agent_width = max(self._agent_width, min(len(name), _WIDEST_AGENT))
            self._has_agents |= event.agent != self._entries[0].agent
            self._changed(0)

    def _add_ended(self, agent: str, row: events.ListedRun) -> None:
        """Add a line for something that is not a call and has ended already."""
        title = sanitize_path(row.title)
        state = CallState.OK if row.is_ok else CallState.FAILED
        self._add(LogEntry(row.call_id, agent, self._name(agent), row.what, title, state, row.elapsed_ms))

    def _restore(self, event: events.FilesRestored) -> None:
        if event.action == "restore":
            return
        for call_id in dict.fromkeys(self._steps.get(each, "") for each in event.calls):
            if call_id in self._rows:
                entry = self._entries[self._rows[call_id]]
                state = entry.done_state if event.action == "redo" else CallState.UNDONE
                self._set_state(call_id, state, entry.elapsed_ms)

    def _set_state(self, call_id: str, state: CallState, elapsed_ms: int = -1) -> None:
        row = self._rows.get(call_id)
        if row is not None:
            entry = self._entries[row]
            entry.state = state
            if state is CallState.FAILED:
                entry.done_state = state
            entry.elapsed_ms = elapsed_ms
            first = bisect_left(self._shown, row)
            is_in = self._shown[first : first + 1] == [row]
            self._shown[first : first + is_in] = [row] if row < self._scanned and entry.fits(self._words) else []
            self._changed(first)


@dataclass
class CallOpened(Message):
    """The user wants to read what came of a call."""

    call_id: str


class ToolLog(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows the tool calls of a session.  Give it every event."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.LOG)

    empty_text = "No tool calls yet."
    source: LogRows
    cursor: RowCursor

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(LogRows(self.touch), **options)
        self.cursor = RowCursor(self)
        self.scroller.is_following = True

    def apply(self, envelope: events.Envelope) -> None:
        """Take one event."""
        self.source.apply(envelope)

    def begin_loading(self) -> None:
        """Draw nothing for a while."""
        self.is_held = True

    def finish_loading(self) -> None:
        """Draw all that came meanwhile."""
        self.is_held = False
        self.touch(0)

    def narrow(self, text: str) -> None:
        """Show only what fits, all of it for an empty text."""
        self.source.narrow(text)
        self.empty_text = "No call fits the filter." if self.source.is_narrowed else ToolLog.empty_text
        self._show_narrowed(islice(self.source.scan(), _LOOKS_AT_ONCE))
        self.run_worker(self._scan(), group="scan", exclusive=True)

    async def _scan(self) -> None:
        self._show_narrowed([each async for each in in_slices(self.source.scan())])

    def _show_narrowed(self, looks: Iterable[None]) -> None:
        _ = list(looks)
        self.cursor.row = max(0, self.source.total() - 1) if self.scroller.is_following else 0
        self.redraw()

    @property
    def current(self) -> LogEntry | None:
        """Return the call under the cursor."""
        return self.source.entry(self.cursor.row) if self.cursor.row < self.source.total() else None

    def action_select(self) -> None:
        """Ask for the call under the cursor to be shown."""
        entry = self.current
        if entry is not None:
            self.post_message(CallOpened(entry.call_id))

    def copy_text(self) -> str:
        """Return the call under the cursor in words."""
        entry = self.current
        return f"{entry.name} {entry.tool} {entry.title}" if entry is not None else ""
