"""The main screen: files, conversation, plan and log around a prompt.  Lays out, draws facts, passes on what is asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Horizontal
from textual.content import Content
from textual.dom import DOMNode
from textual.message import Message
from textual.timer import Timer
from textual.widget import Widget
from textual.widgets import Static

from lmtui.commands.command import Scope
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.paths import state_dir
from lmtui.tui.controllers.send_controller import Sending
from lmtui.tui.keys import EARLY, hint_text
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench_actions import STOPPING, PaneActions
from lmtui.tui.timing import STOP_AGAIN, SecondPress, call_after
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar, Part, Spinner
from lmtui.tui.widgets.prompt import Prompt
from lmtui.tui.widgets.prompt_row import PromptRow
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import Handler, Tone

if TYPE_CHECKING:
    from lmtui.tui.controllers.command_controller import CommandController
    from lmtui.tui.controllers.job_controller import JobController
    from lmtui.tui.controllers.mcp_controller import McpController
    from lmtui.tui.controllers.pane_controller import LayoutController
    from lmtui.tui.controllers.plan_controller import PlanController
    from lmtui.tui.controllers.prompt_controller import PromptController
    from lmtui.tui.controllers.session_controller import SessionController
    from lmtui.tui.lazy_imports import LazyImports
    from lmtui.tui.perf_overlay import PerfOverlay
    from lmtui.tui.router import SessionView
    from lmtui.tui.widgets.columns import Columns

TICK_S = 0.25
SAY_S = 8.0
TONE_STYLES: dict[Tone, str] = {"info": "$text-muted", "warning": "$warning", "error": "$error"}


@dataclass
class ThemeWanted(Message):
    """A theme was asked for by name."""

    name: str


class Workbench(PaneActions):
    """Shows one session and leads to everything else."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    AUTO_FOCUS = "Prompt"

    def __init__(self, desk: OpenSessions, options: StartOptions, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self._options = options
        self._folder = Path(options.workspace or Path.cwd())
        self._sending = Sending(self, "" if options.images else options.task)
        self._note = "starting …"
        self.say_s = SAY_S
        self._hide_say: Timer | None = None
        self._is_error_said, self._said = False, ""
        self._stop = SecondPress()
        self._header, self._hints, self._status = Bar(id="header"), Bar(id="hints"), Bar(id="status")
        self._queue_line, self._say_line = Static("", id="queue", markup=False), Static("", id="say", markup=False)
        self._spinner = Spinner("", id="spinner", markup=False)
        self._prompt_row = PromptRow(self.prompt)
        self._body = Horizontal(id="body")
        self.handlers: dict[str, Handler] = self._sending.handlers()
        self.commands: CommandController | None = None
        self._early: list[Prompt.Submitted] = []
        self.prompt_part: PromptController | None = None
        self._layout_part: LayoutController | None = None
        self.jobs_part: JobController | None = None
        self.mcp_part: McpController | None = None
        self.sessions_part: SessionController | None = None
        self.plan_part: PlanController | None = None

    def compose(self) -> ComposeResult:
        """Lay out the panes; their number does not depend on what they show."""
        self._use_size_classes()
        yield self._header
        yield self._body
        yield self._queue_line
        yield self._say_line
        yield self._prompt_row
        yield self._hints
        with Horizontal(id="status-row"):
            yield self._spinner
            yield self._status

    def on_mount(self) -> None:
        """Draw what is known and take the keys."""
        self._ticker = self.set_interval(TICK_S, self.draw_status, pause=True)
        self.draw()

    async def furnish(self) -> None:
        """Mount what the first frame did without: the panes and the completions."""
        dialogs = self.dialogs
        assert dialogs is not None
        panes = dialogs.panes()
        await self._body.mount(panes)
        await self.mount(self._prompt_row.completions, before=self._prompt_row)
        self.panes = panes
        layout = self._layout_part = dialogs.layout_part(self, state_dir())
        self.handlers |= layout.handlers()
        await layout.restore()
        self.handlers |= dialogs.chat_part(self).handlers()
        self.prompt_part = self._prompt_row.part = dialogs.prompt_part(self, self._sending, state_dir() / "history")
        self.handlers |= self.prompt_part.handlers()
        self.files_part = dialogs.files_part(self)
        self.handlers |= self.files_part.handlers()
        self.agent_part = dialogs.agent_part(self)
        self.handlers |= self.agent_part.handlers()
        self.handlers |= dialogs.models_part(self).handlers()
        self.handlers |= dialogs.prompt_files_part(self).handlers()
        self.jobs_part = dialogs.jobs_part(self)
        self.handlers |= self.jobs_part.handlers()
        self.mcp_part = dialogs.mcp_part(self)
        self.handlers |= self.mcp_part.handlers()
        self.handlers |= dialogs.skills_part(self).handlers() | dialogs.trust_part(self).handlers()
        self.plan_part = dialogs.plan_part(self)
        self.handlers |= self.plan_part.handlers()
        self.sessions_part = dialogs.sessions_part(self, state_dir() / "open")
        self.handlers |= self.sessions_part.handlers()
        self.handlers |= dialogs.around_part(self, self._meter(dialogs), self._want_theme).handlers()
        self.handlers |= self.own_handlers()
        self.commands = dialogs.commands(self, self.handlers)
        rows = [each for scope in (Scope.WORKBENCH, Scope.MOVING, Scope.LINES) for each in dialogs.bindings(scope)]
        self._bindings = BindingsMap.merge([self._bindings, BindingsMap(rows)])
        assert self.desk.router is not None
        self.desk.router.shared = (panes.plan, panes.files)
        self.draw()

    def _meter(self, dialogs: LazyImports) -> PerfOverlay:
        line = Bar(id="meter")
        line.display = False
        _ = self.mount(line, before="#prompt-row")

        def show(text: str) -> None:
            line.display = bool(text)
            line.show([Part(text, "$text-muted")], [])

        return dialogs.meter(show, lambda: getattr(self.app, "frames_drawn", 0), lambda: getattr(self.app, "bytes_written", 0))

    def _want_theme(self, name: str) -> None:
        self.app.post_message(ThemeWanted(name))

    def on_resize(self, _: events.Resize) -> None:
        """Say the panes' names where they no longer are side by side."""
        self.draw()

    def on_screen_resume(self, _: events.ScreenResume) -> None:
        """Ask what became open while another screen was up, and say that the keys are back."""
        self.on_descendant_focus()
        self.call_after_refresh(self.sync_approval)

    async def on_columns_dragged(self, event: Columns.Dragged) -> None:
        """Keep the layout that the mouse made."""
        if self._layout_part is not None:
            await self._layout_part.keep(event.layout)

    def _use_size_classes(self) -> None:
        """Set before the first layout what the breakpoints would set after it, so that nothing is styled twice."""
        for points, cells in ((WIDTHS, self.app.size.width), (HEIGHTS, self.app.size.height)):
            found = [name for least, name in points if cells >= least]
            self.add_class(found[-1])

    # -- drawing --------------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all facts of the session on screen."""
        active = self.desk.active
        facts = active.facts if active else None
        folder = Path(facts.workspace) if facts and facts.workspace else self._folder
        if self.dialogs is None:
            self._header.show([Part("lmtui", "bold $accent"), Part(sanitize_line(folder_text(folder, Path.home())))], [])
        else:
            header = self.dialogs.header_parts(facts, folder, self._options.mode, self.pane if self.has_tabs else "")
            self._header.show(*header)
        self.on_descendant_focus()
        if self.panes is not None:
            self.panes.draw_titles()
        queue = self._sending.queue_content()
        self._queue_line.display = queue is not None
        if queue is not None:
            self._queue_line.update(queue)
        if self._said == STOPPING and (active is None or not active.session.is_running):
            self._clear_say()
        self.draw_status()
        self.sync_approval()
        if self.plan_part is not None:
            self.plan_part.changed()

    def draw_status(self) -> None:
        """Draw the line that says what continues, and turn the ticker on or off."""
        active = self.desk.active
        facts = active.facts if active else None
        now = self.now()
        status = self._status
        if self.dialogs is None:
            status.show([Part(self._note, "$text-muted")], [])
        else:
            status.show(*self.dialogs.status_parts(active, self.desk.feeds.values(), now, self._note))
        is_busy = facts is not None and facts.is_running and not facts.approvals
        self._spinner.show(is_busy, now)
        if is_busy:
            self._ticker.resume()
        else:
            self._ticker.pause()

    def on_descendant_focus(self) -> None:
        """Say where the keys go now."""
        is_in_pane = self.panes is not None and not self.prompt.has_focus and self.panes in _ancestors(self.focused)
        pane = self.panes.focused_pane() if self.panes is not None and is_in_pane else ""
        has_mouse, is_asked = getattr(self.app, "has_mouse", True), self.is_asked
        if self.dialogs is None:
            early = [EARLY.by_id(each) for each in ("prompt.send", "prompt.newline", "app.stop")]
            self._hints.show([Part(hint_text(early), "$text-muted")], [])
        else:
            self._hints.show(*self.dialogs.hint_parts(pane, has_mouse=has_mouse, is_asked=is_asked))
        self._prompt_row.set_class(is_asked, "-asked")
        if self.panes is not None:
            self.panes.mark_focus(pane)

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a line above the prompt; it goes away by itself, an error with the next thing that is sent."""
        line = self._say_line
        if tone == "error" and self._is_error_said:
            text = self._said if text in self._said else f"{self._said}\n{text}"
        self._said = text
        line.display = bool(text)
        line.update(Content.styled(sanitize(text), TONE_STYLES[tone]))
        self._is_error_said = tone == "error"
        self._stop_say_timer()
        if text and tone != "error":
            self._hide_say = call_after(self, self.say_s, self._clear_say)

    def clear_error(self) -> None:
        """Put an error away that is repaired."""
        if self._is_error_said:
            self._clear_say()

    def _clear_say(self) -> None:
        self._say_line.display = False
        self._is_error_said, self._said = False, ""
        self._stop_say_timer()

    def _stop_say_timer(self) -> None:
        if self._hide_say is not None:
            self._hide_say.stop()
            self._hide_say = None

    def set_note(self, note: str) -> None:
        """Say in the status line what the app does while there is no session."""
        self._note = note
        self.draw_status()

    def show_session(self, feed: SessionView) -> None:
        """Bring a session's panes to the front."""
        if self.panes is not None:
            self.panes.show_session(feed)
        if self.prompt_part is not None:
            self.run_worker(self.prompt_part.show(feed.session.id), group="draft")
        if self.sessions_part is not None:
            self.sessions_part.changed()
        if self.agent_part is not None:
            self.agent_part.draw()

    # -- the prompt -----------------------------------------------------------------------------------------------------

    @on(Prompt.Submitted)
    async def _submit(self, event: Prompt.Submitted) -> None:
        self._clear_say()
        if self.commands is None and event.text.startswith(("/", "quit")):
            self._early.append(event)
        elif self.commands is not None and self.commands.is_command(event.text):
            await self.commands.run_text(event.text)
        else:
            self._sending.send(event)

    async def run_early(self) -> None:
        """Run the commands that were typed before they were loaded."""
        early, self._early = self._early, []
        for event in early:
            await self._submit(event)

    def send_unsent(self) -> None:
        """Send what was typed before there was a session."""
        self._sending.send_unsent()

    async def action_run_command(self, command_id: str) -> None:
        """Run a command at its key."""
        if self.commands is not None:
            await self.commands.run(command_id)

    async def action_close_or_stop(self) -> None:
        """Close the completions, a side pane or a line of words; else interrupt; else come back to the prompt."""
        active = self.desk.active
        if self.prompt.close_completions():
            return
        if self.pane != "chat" and self.has_tabs:
            self.go_to(self.pane)
        elif self.agent_part is not None and await self.agent_part.leave():
            return
        elif active is not None and active.session.is_running and self.prompt.has_focus:
            self._stop_or_ask(active)
        else:
            self._clear_say()
            self.prompt.focus()

    def _stop_or_ask(self, active: SessionView) -> None:
        """Interrupt; if that may not be what the user meant, only on the second escape."""
        is_doubtful = bool(active.facts.approvals or active.facts.proposal) or getattr(self.app, "is_stop_hasty", False)
        if self._stop.take(monotonic()) or not is_doubtful:
            self.interrupt()
        else:
            self.say(STOP_AGAIN, "warning")


def _ancestors(widget: Widget | None) -> list[DOMNode]:
    return widget.ancestors_with_self if widget is not None else []
