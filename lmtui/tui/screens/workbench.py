"""The main screen: it lays out the panes around a prompt, draws state, passes on what is asked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingsMap
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Static

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.controllers.send_controller import Sending
from lmtui.tui.key_bindings import EARLY, first_key
from lmtui.tui.options import StartOptions
from lmtui.tui.timing import STOP_AGAIN, SecondPress
from lmtui.tui.widgets.bars import WIDTHS, Bar, Part, SayLine, Spinner, Tone
from lmtui.tui.widgets.prompt import Completions, Prompt
from lmtui.tui.widgets.start_page import (
    LEAST_ROWS,
    PAGE_CELLS,
    PLACEHOLDER,
    SHORT_ROWS,
    USUAL_PLACEHOLDER,
    StartPage,
    box_bottom,
)
from lmtui.tui.wording import folder_text

if TYPE_CHECKING:
    from lmtui.tui.controllers.prompt_controller import PromptController
    from lmtui.tui.lines.file_tree import FileTree
    from lmtui.tui.lines.tool_log import CallOpened
    from lmtui.tui.open_sessions import OpenSessions
    from lmtui.tui.ready import Ready
    from lmtui.tui.router import SessionView
    from lmtui.tui.widgets.panes import Panes

TICK_S = 0.25
ROWS = [(0, "-flat"), (9, "-low"), (13, "-short"), (24, "-high"), (30, "-tall")]
STOPPING = "stopping …"
_EARLY_HINTS = ("prompt.send", "prompt.newline", "app.stop")


@dataclass(slots=True)
class Starting:
    """The time until panes, dialogs and commands are loaded; `typed` are commands to be run then."""

    typed: list[Prompt.Submitted] = field(default_factory=list)


Parts = tuple[Sequence[Part], Sequence[Part]]


class _Bars:
    """The lines at the top and the bottom, and those of the prompt."""

    def __init__(self) -> None:
        self.header, self.hints = Bar(id="header"), Bar(id="hints")
        self.activity, self.foot = Bar(id="activity"), Bar(id="foot")
        self.queue, self.checks = Static("", id="queue", markup=False), Static("", id="checks", markup=False)
        self.spinner = Spinner("", id="spinner", markup=False)
        self._keys: Parts = [], []
        self._running: Parts = [], []

    def show_running(self, parts: Parts, *, is_busy: bool, now: datetime) -> None:
        """Draw what runs; on a low screen the key row says it."""
        self.activity.show(*parts)
        self.spinner.show(is_busy, now)
        sign = [Part(Spinner.sign(now), "$accent")] if is_busy else []
        self._running = ([*sign, *parts[0]], parts[1]) if is_busy else ([], [])
        self.show_keys(self._keys)

    def show_keys(self, keys: Parts) -> None:
        """Draw what the keys do, or what runs where no other row shows it."""
        self._keys = keys
        if not self.hints.is_attached:  # the app is being closed
            return
        screen = self.hints.screen  # a dialog over it has the key row
        is_shared = bool(self._running[0]) and screen.size.height < SHORT_ROWS and screen.app.screen is screen
        self.hints.show(*(self._running if is_shared else keys))


class PromptDock(Vertical):
    """The prompt with its foot, and over it what runs, what is queued and what completes.  It grows upwards over the chat."""

    def __init__(self, prompt: Prompt, bars: _Bars, start: StartPage) -> None:
        super().__init__(id="dock")
        self._prompt, self._bars, self._start = prompt, bars, start
        prompt.marked, prompt.offered = start.mark, self._show_completions
        self._chat = (0, 0)
        self.is_start: Callable[[], bool] = lambda: False
        self.completions = Completions("", id="completions", markup=False)
        self.controller: PromptController | None = None
        self.completions_changed: Callable[[], None] = lambda: None

    def compose(self) -> ComposeResult:
        """Lay out the rows; the completions come later, above the activity."""
        yield self._bars.checks
        yield self._bars.queue
        with Horizontal(id="activity-row"):
            yield self._bars.spinner
            yield self._bars.activity
        with Vertical(id="prompt-box"):
            yield self._prompt
            yield self._bars.foot

    def place(self, x: int, cells: int) -> None:
        """Stay within these columns, where the page for a new session is not shown."""
        self._chat = (x, cells)
        self.draw_place()

    def draw_place(self) -> None:
        """Lie in the middle of the page for a new session, or below the chat."""
        width, height = self.app.size
        is_start = height >= LEAST_ROWS and self.is_start()
        (x, cells), y = self._chat, 0
        if is_start:
            cells = min(width, PAGE_CELLS + 2)
            x, y = (width - cells) // 2, box_bottom(height) - height + 1
        self.styles.width, self.styles.offset = cells, (x, y)
        self._start.display = is_start
        self._prompt.placeholder = PLACEHOLDER if is_start else USUAL_PLACEHOLDER
        self._prompt.suggestions = self._start.suggestions if is_start else ()

    def _show_completions(self) -> None:
        if self.completions.is_mounted:
            self.completions.show(self._prompt.completing)
            self.completions_changed()

    @on(Prompt.Pasted)
    async def _read_paste(self, event: Prompt.Pasted) -> None:
        if self.controller is not None:
            await self.controller.pasting.pasted(event.text)

    @on(Prompt.Changed)
    def _note_change(self) -> None:
        if self.controller is not None:
            self.controller.changed()


class Workbench(Screen[None]):
    """Shows one session and leads to everything else, through the controllers that it is `Ready` with."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = ROWS
    AUTO_FOCUS = "Prompt"

    def __init__(self, options: StartOptions, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.state: Starting | Ready = Starting()
        self.now = now
        self.pane = "chat"
        self.branch = ""
        self.prompt = Prompt(placeholder=USUAL_PLACEHOLDER)
        self.say_line = SayLine()
        self.sending = Sending(self, "" if options.images else options.task)
        self.body = Horizontal(id="body")
        self._options = options
        self._folder = Path(options.workspace or Path.cwd())
        self._note = "starting …"
        self._stop = SecondPress()
        self._bars = _Bars()
        self.start = StartPage()
        self.dock = PromptDock(self.prompt, self._bars, self.start)
        self.dock.is_start = lambda: not (options.session_id or options.task)
        self.dock.completions_changed = self.draw_focus

    def compose(self) -> ComposeResult:
        """Lay out the panes; their number does not depend on what they show."""
        self._use_size_classes()
        self.place_dock(0, self.app.size.width)
        yield self._bars.header
        yield self.body
        yield self._bars.hints
        yield self.start
        yield self.dock
        yield self.say_line

    def place_dock(self, x: int, cells: int) -> None:
        """Keep the prompt and what floats over the chat within the chat's columns."""
        self.dock.place(x, cells)
        self.say_line.place(x, cells)

    def on_mount(self) -> None:
        self._ticker = self.set_interval(TICK_S, self.draw_status, pause=True)
        self.draw()

    @property
    def ready(self) -> Ready:
        """Return the controllers; asked for only once they are loaded."""
        assert not isinstance(self.state, Starting), "before the first frame"
        return self.state

    @property
    def is_ready(self) -> bool:
        """Tell whether they are loaded, and the panes are there."""
        return not isinstance(self.state, Starting)

    @property
    def sessions(self) -> OpenSessions:
        return self.ready.sessions

    @property
    def panes(self) -> Panes:
        return self.ready.panes

    @property
    def active(self) -> SessionView | None:
        """Return the session on screen."""
        return None if isinstance(self.state, Starting) else self.state.sessions.active

    async def use(self, ready: Ready, keys: BindingsMap) -> None:
        """Show what the first frame did without: the panes, the completions, and the keys of both."""
        await self.dock.mount(self.dock.completions, before="#activity-row")
        self._bindings = BindingsMap.merge([self._bindings, keys])
        self.dock.controller = ready.prompts
        self.prompt.paths_wanted = ready.prompts.completion.paths_wanted
        self.prompt.page_chat = ready.panes.page_chat
        is_first = self.dock.is_start
        self.dock.is_start = lambda: (
            ready.panes.is_chat_alone and (not self.active.state.has_begun if self.active is not None else is_first())
        )
        self.state = ready
        self.draw()

    async def run_early(self, starting: Starting) -> None:
        """Run the commands that were typed before they were loaded."""
        for event in starting.typed:
            await self._submit(event)

    def on_resize(self, _: events.Resize) -> None:
        self.draw()

    def on_screen_resume(self, _: events.ScreenResume) -> None:
        self.draw_focus()
        self.call_after_refresh(self.sync_questions)

    @on(events.DescendantFocus)
    @on(events.ScreenSuspend)
    def _say_where_keys_go(self) -> None:
        self.draw_focus()

    def _use_size_classes(self) -> None:
        """Set before the first layout what the breakpoints would set after it, so that nothing is styled twice."""
        for points, cells in ((WIDTHS, self.app.size.width), (ROWS, self.app.size.height)):
            found = [name for least, name in points if cells >= least]
            self.add_class(found[-1])

    # -- drawing --------------------------------------------------------------------------------------------------------

    def draw(self) -> None:
        """Draw all state of the session on screen."""
        active = self.active
        if not isinstance(self.state, Starting):
            has_team = active is not None and active.state.work.agents.are_several_at_work
            self.state.panes.begin(has_begun=active is not None and active.state.has_begun, has_team=has_team)
            self.state.panes.draw_titles()
            if active is not None and not active.state.has_begun:
                last, is_read = self.start.last, bool(self.start.prompts)
                self.start.show(self.state.texts.start_rows(active.state, last, self.now(), is_read=is_read))
            self.dock.draw_place()
        self.draw_focus()
        queue = self.sending.queue_content()
        self._bars.queue.display = queue is not None
        self._bars.queue.update(queue or "")
        if not isinstance(self.state, Starting):
            checks, tone = self.state.texts.checks_content(active.state) if active is not None else (Content(""), "")
            self._bars.checks.display = bool(checks)
            self._bars.checks.update(checks)
            self._bars.checks.set_classes(tone)
            if self.app.screen is self:  # a question on top keeps the end above itself
                self.state.panes.cover_end(bool(checks) + (queue.plain.count("\n") + 1 if queue is not None else 0))
        if active is None or not active.session.is_running:
            self.say_line.clear(STOPPING)
        self.draw_status()

    def draw_status(self) -> None:
        """Draw what changes with the time, and turn the ticker on or off."""
        active, now, bars = self.active, self.now(), self._bars
        folder = self._folder
        if isinstance(self.state, Starting):
            bars.header.show([Part("lmtui", "bold $accent"), Part(sanitize_line(folder_text(folder, Path.home())))], [])
            bars.activity.show([Part(self._note, "$text-muted")], [])
            return
        state, views = active.state if active else self.state.texts.SessionState(), self.sessions.views
        folder = Path(state.workspace) if state.workspace else folder
        notes = [each.header for each in self.state.features if each.header is not None]
        shown = [views[each] for each in sorted(views)]
        place, cells = (folder, self.branch), self.app.size.width
        bars.header.show(*self.state.texts.header_parts(active, shown, now, cells, place, *notes))
        bars.foot.show(*self.state.texts.foot_parts(state, self._options.mode, now))
        is_busy = state.turn.is_running and not state.approvals
        bars.show_running(self.state.texts.activity_parts(active, now, self._note), is_busy=is_busy, now=now)
        if is_busy:
            self._ticker.resume()
        else:
            self._ticker.pause()

    def draw_focus(self) -> None:
        """Say where the keys go now."""
        if isinstance(self.state, Starting):
            keys = [EARLY.by_id(each) for each in _EARLY_HINTS]
            self._bars.show_keys(([Part(f"{first_key(each)} {each.hint}", "$text-muted") for each in keys], []))
            return
        panes, is_asked = self.state.panes, self.state.approvals.is_asked
        is_in_pane = not self.prompt.has_focus and self.focused is not None and panes in self.focused.ancestors
        pane = panes.focused_pane() if is_in_pane else ""
        top = self.app.screen
        dialog = self.state.texts.dialog_keys(top)
        waiting, has_mouse = self.state.approvals.waiting(), getattr(self.app, "has_mouse", True)
        resting = self.state.features if self.active is None or not self.active.session.is_running else ()
        notes = [each.hint for each in resting if each.hint is not None]
        is_question = is_asked and hasattr(top, "question")
        place = self.state.texts.KeyPlace(pane, is_question, *waiting, has_mouse, self.app.size.height, dialog, notes,
            self.prompt.completing.is_open)  # fmt: skip
        self._bars.show_keys(self.state.texts.hint_parts(place))
        is_covered = is_asked or top is not self
        if self.dock.has_class("-asked") is not is_covered:
            self.dock.set_class(is_covered, "-asked")
            self.prompt.call_after_refresh(self.prompt.restyle)  # the cursor's own style counts from the next frame on
        panes.mark_focus(pane if top is self else "")

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a line above the prompt."""
        self.say_line.say(text, tone)

    def set_note(self, note: str) -> None:
        """Say in the status line what the app does before a session opens."""
        self._note = note
        self.draw_status()

    def show_session(self, view: SessionView) -> None:
        """Bring a session's panes to the front, with its draft and what it asks."""
        ready = self.ready
        if ready.panes.current is not None:  # what was said is about another session
            self.say_line.clear()
            self.app.clear_notifications()
        ready.panes.show_session(view)
        self.run_worker(ready.prompts.drafts.show(view.session.id), group="draft")
        if not view.state.has_begun:
            self.run_worker(ready.prompts.suggest(), group="start", exclusive=True)
        ready.session_controller.changed()
        _ = self.call_later(self.sync_questions)

    def sync_questions(self) -> None:
        """Show what the session on screen asks, and put away what is answered."""
        if not isinstance(self.state, Starting):
            self.state.approvals.sync()

    # -- panes ----------------------------------------------------------------------------------------------------------

    def go_to(self, pane: str) -> None:
        """Bring a pane to the front with the focus; from the pane itself, go back to the prompt."""
        panes = self.panes
        widget = panes.pane(pane) or self.prompt
        is_there = widget is not self.prompt and (widget.has_focus or (panes.is_over(pane) and pane == self.pane))
        if is_there:
            self.leave_pane()
            return
        self.pane = pane
        panes.hidden.discard(pane)
        panes.bring_to_front(pane)
        panes.draw_titles()
        widget.focus()
        self.draw()

    def leave_pane(self) -> None:
        """Go back to the prompt; a pane that is laid over the chat is put away."""
        self.panes.bring_to_front("chat")
        self.pane = "chat"
        self.prompt.focus()
        self.draw()

    async def action_show_tab(self, number: int) -> None:
        """Show an open session by its place in the header."""
        found = sorted(self.sessions.views)[number : number + 1]
        for session_id in found:
            _ = await self.ready.session_controller.open(session_id)
            self.ready.approvals.sync()
        if not found:
            self.say(f"no tab {number + 1}; F2 lists all sessions")

    def on_file_tree_listing_wanted(self, event: FileTree.ListingWanted) -> None:
        if not isinstance(self.state, Starting):
            self.state.files.load(event.path)

    def on_file_tree_states_wanted(self, event: FileTree.StatesWanted) -> None:
        if not isinstance(self.state, Starting):
            self.state.files.states_wanted(is_step_end=event.is_step_end)

    def on_file_tree_file_chosen(self, event: FileTree.FileChosen) -> None:
        self.ready.files.open_file(event.path)

    def on_call_opened(self, event: CallOpened) -> None:
        self.ready.agents.open_call(event.call_id)

    def action_files_diff(self) -> None:
        """Show how the session changed the file under the cursor."""
        files = self.panes.files
        if self.active is not None and files.has_focus and files.current_path in self.active.state.changes:
            self.ready.changes.show(files.current_path)

    def action_lines_copy(self) -> None:
        """Copy what the cursor is on."""
        if text := self.panes.copied_text():
            self.app.copy_to_clipboard(text)

    # -- the prompt -----------------------------------------------------------------------------------------------------

    @property
    def typed_text(self) -> str:
        """Return what is in the prompt, where the keys go there."""
        return self.prompt.text if self.focused is self.prompt else ""

    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""
        if text:
            _ = self.prompt.insert(text)
        self.prompt.focus()

    def on_paste(self, event: events.Paste) -> None:
        """Let the prompt take a paste that no field of a pane took."""
        event.stop()
        _ = self.prompt.focus().post_message(events.Paste(event.text))

    @on(Prompt.Changed)
    def _bring_questions_back(self) -> None:
        if not self.prompt.text and not isinstance(self.state, Starting):
            self.state.approvals.prompt_emptied()

    @on(Prompt.Submitted)
    async def _submit(self, event: Prompt.Submitted) -> None:
        self.say_line.clear()
        state = self.state
        if isinstance(state, Starting) and event.text.startswith(("/", "quit")):
            state.typed.append(event)
        elif not isinstance(state, Starting) and state.commands.is_command(event.text):
            await state.commands.run_text(event.text)
        elif isinstance(state, Starting) or not state.approvals.asks_about(event, self.sending.send):
            self.sending.send(event)

    def leave_for(self, action: str) -> None:
        """Do what a key does that a question left the keys for."""
        self.ready.approvals.leave_for(action)

    async def action_run_command(self, command_id: str) -> None:
        """Run a command at its key; no mode changes while something is asked, so that key goes back to the question."""
        if command_id == "plan.toggle" and self.prompt.come_back():
            return
        await self.ready.commands.run(command_id)

    def interrupt(self) -> bool:
        """Stop the running turn of the session on screen; False where none runs."""
        if self.active is None or not self.active.session.is_running:
            return False
        self.active.session.interrupt()
        self.say(STOPPING)
        return True

    async def action_close_or_stop(self) -> None:
        """Close the completions or a pane; else interrupt; else come back to the prompt."""
        if self.prompt.close_completions():
            return
        panes = self.state.panes if not isinstance(self.state, Starting) else None
        if panes is not None and self.pane != "chat" and panes.front != "chat":
            self.leave_pane()
        elif self.active is not None and self.active.session.is_running and self.prompt.has_focus:
            if self._stop.take(monotonic()):
                _ = self.interrupt()
            else:
                self.say(STOP_AGAIN, "warning")
        else:
            self.say_line.clear()
            self.prompt.focus()
