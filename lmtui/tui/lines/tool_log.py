"""The tool log: every call of every agent, one aligned line each, the newest last."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, tzinfo
from typing import Unpack

from textual.message import Message

from lmtui.core.clean import clean_line
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Envelope, ToolCallFinished, ToolCallStarted, TurnEnded
from lmtui.core.file_events import FilesChanged, FilesRestored, step_id
from lmtui.tui.lines.blocks import seconds
from lmtui.tui.lines.calls import CallState
from lmtui.tui.lines.row_view import RowView
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, fit, fit_middle, pad

_WIDEST_AGENT = 10
_TOOL_COLUMN = 6
_WIDEST_TOOL = 13
_TITLE_ROOM = 24
_TIME_COLUMN = 5
_TIGHT_WIDTH = 32


@dataclass(slots=True)
class LogEntry:
    """One call as the log shows it."""

    call_id: str
    time: datetime
    agent: str
    tool: str
    title: str
    state: CallState = CallState.RUNNING
    elapsed_ms: int = -1
    done_state: CallState = CallState.OK


class ToolLog(RowView, can_focus=True, inherit_bindings=False):
    """Shows the tool calls of a session.  Give it every event."""

    empty_text = "Every tool call of every agent will be listed here."

    @dataclass
    class Opened(Message):
        """The user wants to see a call."""

        log: ToolLog
        call_id: str

        @property
        def control(self) -> ToolLog:
            """Return the log."""
            return self.log

    def __init__(self, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.is_following = True
        self._zone = zone
        self._entries: list[LogEntry] = []
        self._rows: dict[str, int] = {}
        self._open: dict[str, str] = {}
        self._steps: dict[str, str] = {}
        self._approvals: dict[str, str] = {}
        self._agent_width = 4

    def apply(self, envelope: Envelope) -> None:
        """Take one event."""
        event = envelope.event
        match event:
            case ToolCallStarted():
                self._start(envelope.time, event)
            case ToolCallFinished():
                self._open.pop(event.call_id, None)
                state = CallState.OK if event.ok else CallState.FAILED
                self._set_state(event.call_id, state, event.elapsed_ms)
            case ApprovalRequested():
                self._approvals[event.approval_id] = event.call_id
                self._set_state(event.call_id, CallState.WAITING)
            case ApprovalResolved():
                self._set_state(self._approvals.pop(event.approval_id, ""), CallState.RUNNING)
            case FilesChanged():
                self._steps[step_id(envelope.seq)] = event.call_id
            case FilesRestored():
                self._restore(event)
            case TurnEnded():
                for call_id in [call_id for call_id, agent in self._open.items() if agent == event.agent]:
                    del self._open[call_id]
                    self._set_state(call_id, CallState.STOPPED)

    def line_total(self) -> int:
        """Return how many calls there were."""
        return len(self._entries)

    def row_at(self, row: int) -> Line:
        """Return a call: time, agent, tool, what on, state, duration."""
        entry = self._entries[row]
        sign, role = entry.state.value
        elapsed = seconds(entry.elapsed_ms / 1000).replace(" ", "") if entry.elapsed_ms >= 0 else ""
        agent = pad(fit(entry.agent, self._agent_width), self._agent_width)
        lead = f"{entry.time.astimezone(self._zone):%H:%M} " if self.content_width >= _TIGHT_WIDTH else ""
        spare = self.content_width - len(lead) - self._agent_width - _TIME_COLUMN - 5 - _TITLE_ROOM
        tool_width = min(_WIDEST_TOOL, max(_TOOL_COLUMN, spare))
        tool = pad(fit(entry.tool, tool_width), tool_width)
        room = self.content_width - len(lead) - self._agent_width - tool_width - _TIME_COLUMN - 5
        title = pad(fit_middle(entry.title, max(4, room)), max(4, room))
        return (
            (f" {lead}", "muted"),
            (f"{agent} {tool} ", "muted"),
            (title, ""),
            (f" {sign}", role),
            (f"{elapsed:>{_TIME_COLUMN}}", "muted"),
        )

    def choose(self) -> None:
        """Ask for the call under the cursor to be shown."""
        if self._entries:
            self.post_message(self.Opened(self, self._entries[self.cursor].call_id))

    def _start(self, time: datetime, event: ToolCallStarted) -> None:
        agent, tool, title = clean_line(event.agent), clean_line(event.tool), clean_line(event.title)
        if event.call_id in self._rows:
            return
        self._rows[event.call_id] = len(self._entries)
        self._open[event.call_id] = event.agent
        self._entries.append(LogEntry(event.call_id, time, agent, tool, title))
        if self._agent_width < len(agent) <= _WIDEST_AGENT:
            self._agent_width = len(agent)
            self.redraw()
        self.touch(len(self._entries) - 1)

    def _restore(self, event: FilesRestored) -> None:
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
            self.repaint_row(row)
