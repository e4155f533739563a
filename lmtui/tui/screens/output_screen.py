"""The output of a tool call, or the change that it made, in the side pane; also a whole page, such as a plan."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from lmtui.core.events import ROOT, Envelope, FilesChanged, ToolCallFinished, ToolCallStarted
from lmtui.core.sanitize import sanitize, sanitize_line, sanitize_path
from lmtui.core.workspace import FileChange
from lmtui.tui.commands import Scope, bindings, command, of_scope
from lmtui.tui.lines.blocks import seconds
from lmtui.tui.lines.calls import CallState, value_text
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.patch import FilePatch, patches_of
from lmtui.tui.lines.styled_text import STYLES, Line
from lmtui.tui.lines.tool_log import CallOpened
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.screens.beside import BesideChat, keys_of
from lmtui.tui.session_state import Subagent
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import Columns
from lmtui.tui.wording import call_words

LOOK_S = 0.25


@dataclass(frozen=True, slots=True)
class CallPage:
    """What is read: its title, what is said at the right of it, its lines, or the patches that are shown in their place."""

    title: Sequence[Part]
    note: Sequence[Part]
    lines: Callable[[int], list[Line]]
    patches: tuple[FilePatch, ...] = ()
    is_running: bool = False


class OutputScreen(BesideChat):
    """Shows a call that `read` knows by its id; `calls` are all that can be stepped through."""

    BINDINGS: ClassVar[list[BindingType]] = keys_of(Scope.SIDE)
    SCOPE: ClassVar[Scope] = Scope.SIDE

    def __init__(
        self,
        read: Callable[[str], CallPage],
        call_id: str = "",
        calls: Callable[[], Sequence[str]] = lambda: (),
        panes: Columns | None = None,
        tab: str = "Output",
    ) -> None:
        super().__init__(panes)
        self.tab = tab
        self._read, self._call_id, self._calls = read, call_id, calls
        self._title = Bar(id="output-title")
        self._page, self._diff = PageView(lambda _: [], id="output-page"), DiffView(id="output-diff")
        self._seen: CallPage | None = None

    def content(self) -> Iterable[Widget]:
        """Return the title and what is read."""
        return self._title, self._page, self._diff

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._show)
        self._show()

    def placed(self) -> None:
        """Say what the keys do."""
        self.show_keys([replace(command("side.step"), hint="next call")] if len(self._calls()) > 1 else [])

    def action_side_step(self, step: int) -> None:
        """Show the next call, or the one before."""
        calls = self._calls()
        at = calls.index(self._call_id) + step if self._call_id in calls else len(calls)
        if 0 <= at < len(calls):
            self._call_id = calls[at]
            self._show(is_other=True)

    def _show(self, *, is_other: bool = False) -> None:
        if self._seen is not None and not self._seen.is_running and not is_other:
            return
        is_first, found = self._seen is None, self._read(self._call_id)
        self._title.show(found.title, found.note)
        self._diff.display, self._page.display = bool(found.patches), not found.patches
        if found.patches:
            self._diff.show_patches(found.patches)
        else:
            self._page.show(found.lines)
        if is_first or self.focused is None or not self.focused.display:
            (self._diff if found.patches else self._page).focus()
        self._seen = found


class AgentScreen(BesideChat):
    """Shows the conversation of a sub-agent; `read` tells of the agent, `stop` stops it."""

    BINDINGS: ClassVar[list[BindingType]] = [*keys_of(Scope.AGENT), *bindings(Scope.LINES)]
    SCOPE: ClassVar[Scope] = Scope.AGENT

    def __init__(
        self,
        view: Transcript,
        read: Callable[[], Subagent | None],
        stop: Callable[[], object],
        open_call: Callable[[str], object],
        panes: Columns,
    ) -> None:
        super().__init__(panes)
        agent = read()
        self.tab = agent.name if agent is not None else sanitize_line(view.agent)
        self._view, self._read, self._stop, self._open_call = view, read, stop, open_call
        self._title = Bar(id="output-title")

    def content(self) -> Iterable[Widget]:
        """Return who it is and what was said."""
        return self._title, self._view

    def on_mount(self) -> None:
        self.set_interval(LOOK_S, self._show)
        self._show()
        self._view.focus()

    def placed(self) -> None:
        """Say what the keys do."""
        self.show_keys(of_scope(Scope.AGENT))

    def tab_parts(self) -> list[Part]:
        """Return the tabs that have content, the agent's name as the last."""
        return [*super().tab_parts(), Part(self.tab, "bold underline $accent")]

    def action_agent_stop(self) -> None:
        self._stop()

    def on_call_opened(self, event: CallOpened) -> None:
        self._open_call(event.call_id)

    def _show(self) -> None:
        agent = self._read()
        if agent is not None:
            self._title.show([Part(agent.title, "$text")], [Part(agent.state, "$text-muted")])


def call_output(history: Sequence[Envelope], call_id: str, written: str = "") -> CallPage:
    """Return a call as it is read: all of its output, or what was `written` so far; then its arguments and who decided."""
    started: ToolCallStarted | None = None
    finished: ToolCallFinished | None = None
    changes: list[FileChange] = []
    who = ""
    for envelope in history:
        match envelope.event:
            case ToolCallStarted(call_id=found) as event if found == call_id:
                by = f" by {sanitize_line(event.agent)}" if event.agent != ROOT else ""
                started, who = event, f"{event.tool}{by}, {envelope.time.astimezone():%Y-%m-%d %H:%M:%S}"
            case ToolCallFinished(call_id=found) as event if found == call_id:
                finished = event
            case FilesChanged(call_id=found) as event if found == call_id:
                changes += event.changes
    if started is None:
        return CallPage([Part("No such call", "$text-muted")], (), lambda _: [])
    verb, about = call_words(started.tool, started.title)
    state = CallState.RUNNING if finished is None else CallState.OK if finished.ok else CallState.FAILED
    sign, role = state.value
    title = [Part(sign, STYLES[role]), Part(sanitize_line(verb), "$text-muted"), Part(sanitize_path(about), "bold")]
    arguments = "\n".join(f"{name}: {value_text(value)}" for name, value in started.arguments.items())
    decided = " · ".join(part for part in (finished.decision, finished.rule, finished.why) if part) if finished else ""
    output = finished.result if finished is not None else written
    output = _report(output) if verb == "Agent" else output
    parts = (("", output or "No output yet."), ("Arguments", arguments), ("Decision", decided), ("Call", who))

    def lines(width: int) -> list[Line]:
        return [line for name, text in parts if text for line in _section(name, text, width)]

    took = f"{'ok' if finished.ok else 'failed'} in {seconds(finished.elapsed_ms / 1000)}" if finished else "running"
    shown = patches_of(changes) if started.tool in ("edit", "write") else ()
    return CallPage(title, [Part(took, "$text-muted", 1)], lines, shown, finished is None)


def _report(text: str) -> str:
    """Return the report of an agent as a person reads it: its fields behind their names."""
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return "\n".join(f"{name.replace('_', ' ')}: {value_text(value)}" for name, value in found.items() if value)
    return text


def _section(name: str, text: str, width: int) -> list[Line]:
    body = whole_text(sanitize(text), width)
    return [(), ((name, "muted"),), *body] if name else body
