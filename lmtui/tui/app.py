"""The full-screen app: shows its first frame at once, then opens the host in a thread and a session on it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from textual import events, on, work
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.screen import Screen
from textual.theme import Theme
from textual.worker import Worker, WorkerState

from lmtui import paths
from lmtui.commands.basic import BASIC
from lmtui.commands.command import Scope, use_keys
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.tui import terminal, themes
from lmtui.tui.keys import EARLY, bindings_of
from lmtui.tui.modals.results import Choice, Chosen
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench import ThemeWanted, Workbench
from lmtui.tui.themes import filters_without_color
from lmtui.tui.timing import call_after

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost
    from lmtui.tui.lazy_imports import LazyImports
    from lmtui.tui.perf_overlay import GcPolicy
    from lmtui.tui.router import SessionView
    from lmtui.tui.terminal_notifier import TerminalNotifier
    from lmtui.tui.theme_watch import ThemeWatch


class TerminalApp(App[int]):
    """What every screen of the app may ask of the terminal."""

    has_mouse: bool = True
    attention: TerminalNotifier | None = None
    frames_drawn: int = 0
    has_job_control: Callable[[], bool] = staticmethod(lambda: False)

    @property
    def bytes_written(self) -> int:
        """Return how much was written to the terminal so far, 0 where the driver does not count."""
        return getattr(self._driver, "bytes_written", 0)

    def post_display_hook(self) -> None:
        """Count the frames."""
        self.frames_drawn += 1

    def get_driver_class(self) -> type[Driver]:
        """Return what draws: where it is Textual's usual driver, the one that outlives its terminal."""
        usual = super().get_driver_class()
        if usual.__name__ != "LinuxDriver":
            return usual
        from lmtui.tui.terminal import TerminalDriver  # noqa: PLC0415  (no such module as termios on every system)

        return TerminalDriver

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, say so, and end a selection by the mouse, so that the next ctrl+c interrupts again."""
        self._clipboard = text
        self.screen.clear_selection()
        self.run_worker(self._copy(text), group="clipboard", exclusive=True)

    def on_copying_surface_copied(self, event: object) -> None:
        """Copy what was selected in a pane."""
        text = getattr(event, "text", "")
        if text.strip():
            self.copy_to_clipboard(text)

    def action_mouse(self) -> None:
        """Leave the mouse to the terminal, or take it back."""
        turn = getattr(self._driver, "use_mouse", None)
        self.has_mouse = not self.has_mouse
        if turn is not None:
            turn(is_on=self.has_mouse)
        draw = getattr(self.screen, "draw", None)
        if draw is not None:
            draw()
        words = "the mouse is the app's again" if self.has_mouse else "the mouse is the terminal's; alt+m takes it back"
        self.tell(words)

    def action_suspend(self) -> None:
        """Go to sleep until the shell's `fg`; where no shell could say that, say so."""
        if self._driver is not None and self._driver.can_suspend and self.has_job_control():
            self.action_suspend_process()
        else:
            self.tell("no shell is there that could wake lmtui again, so it does not go to sleep", is_good=False)

    def tell(self, text: str, *, is_good: bool = True) -> None:
        """Say something on the screen that is on top: in its own line of words where it has one."""
        say = getattr(self.screen, "say", None)
        if say is not None:
            say(text, "info" if is_good else "error")
        else:
            self.notify(text, severity="information" if is_good else "error", markup=False)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; one of the widget in focus does nothing where no widget has it (another window is in front)."""
        is_of_focus = isinstance(action, str) and action.startswith("focused.")
        if is_of_focus and self.focused is None:
            return False
        return await super().run_action(action, default_namespace, namespaces)

    def on_app_focus(self, _: events.AppFocus) -> None:
        """Take note that the window is in front."""
        if self.attention is not None:
            self.attention.focus_changed(is_in_front=True)

    def on_app_blur(self, _: events.AppBlur) -> None:
        """Take note that it is not."""
        if self.attention is not None:
            self.attention.focus_changed(is_in_front=False)

    async def on_event(self, event: events.Event) -> None:
        """Take note of every key, and go on; who types is there, whatever the terminal last said of its focus."""
        if isinstance(event, events.Key):
            if self.attention is not None:
                self.attention.key_pressed()
            self.app_focus = True
            if self.focused is None:
                self.focus_prompt()
        await super().on_event(event)

    def focus_prompt(self) -> None:
        """Let what is typed go to the prompt."""

    def write_to_terminal(self, text: str) -> None:
        """Write a control sequence of ours."""
        if self._driver is not None:
            self._driver.write(text)

    async def _copy(self, text: str) -> None:
        route = terminal.find_route()
        sequence = terminal.osc_52(text, is_in_tmux=route.is_in_tmux)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        has_osc, folder = bool(sequence), paths.state_dir() / "copied"
        said, is_good = await asyncio.to_thread(terminal.copy_by_program, route, text, has_osc=has_osc, folder=folder)
        self.tell(said, is_good=is_good)


class ThemedApp(TerminalApp):
    """Holds one theme at a time; a broken one is said and changes nothing."""

    _theme_watch: ThemeWatch | None = None

    def __init__(self, theme_name: str) -> None:
        self._first_theme: Theme | None
        self._first_theme, problem = _first_theme(theme_name)
        super().__init__()
        self.register_theme(self._first_theme)
        # The style sheet was made with its colours just now: nothing is to be made anew, as setting `theme` would.
        self.set_reactive(App.theme, self._first_theme.name)
        self.set_class(self._first_theme.dark, "-dark-mode")
        self.set_class(not self._first_theme.dark, "-light-mode")
        self._first_theme = None
        self._leave_out_colors()
        if problem:
            self.call_after_refresh(lambda: self.tell(problem, is_good=False))

    def get_css_variables(self) -> dict[str, str]:
        """Return the variables of the theme in force; the first one is, before Textual knows of it."""
        theme = self._first_theme or self.current_theme
        self.theme_variables = {**theme.to_color_system().generate(), **theme.variables}
        return self.theme_variables

    def use_theme(self, name: str) -> None:
        """Change the colours."""
        try:
            theme = themes.find_theme(name)
        except themes.ThemeError as error:
            self.tell(str(error), is_good=False)
            return
        is_saved_again = theme.name == self.theme
        self.register_theme(theme)
        self.theme = theme.name
        if is_saved_again:
            self.refresh_css()
        self._watch_own_file()
        self._leave_out_colors()

    def follow_theme_file(self, make: Callable[[Callable[[str], None]], ThemeWatch]) -> None:
        """From now on show the user's own theme again whenever it is saved; `make` makes what watches its file."""
        self._theme_watch = make(self.use_theme)
        self._watch_own_file()

    def leave_theme_file(self) -> None:
        """Watch no file any more."""
        if self._theme_watch is not None:
            self._theme_watch.watch(None)

    def _watch_own_file(self) -> None:
        if self._theme_watch is not None:
            file = themes.theme_files().get(self.theme)
            self._theme_watch.watch(file if file is not None and file.parent != paths.themes_dir() else None)

    def _leave_out_colors(self) -> None:
        if self.no_color:
            self._filters = filters_without_color(self._filters, self.available_themes[self.theme])


def _first_theme(name: str) -> tuple[Theme, str]:
    """Return the theme to begin with (the one that is chosen, else one that the terminal can show) and what was wrong."""
    try:
        return themes.find_theme(name or themes.first_theme(os.environ)), ""
    except themes.ThemeError as error:
        return themes.built_in_theme(), str(error)


def theme_choices() -> list[Choice]:
    """Return the themes to choose from.  Reads their files."""
    return [Choice(name, name, themes.kind_text(file)) for name, file in themes.theme_files().items()]


DEMO_TASK = "Show me what you can do."
FRAME_S = 1 / 30
SSH_FRAME_S = 1 / 10
PALETTE_SCOPES = (Scope.WORKBENCH, Scope.CHANGES, Scope.RULES)
HASTY_S = 0.5
EXIT_ERROR = 1
EXIT_USAGE = 64
EXIT_INTERRUPTED = 130


def now_utc() -> datetime:
    """Return the time, with zone."""
    return datetime.now(UTC)


class LmtuiApp(ThemedApp):
    """The app.  `open_host` is slow and runs in a thread after the first frame; what is typed until then is kept and sent."""

    BINDINGS = bindings_of(BASIC)
    CSS_PATH = Path(__file__).with_name("lmtui.tcss")
    ENABLE_COMMAND_PALETTE = False
    TITLE = "lmtui"

    def __init__(
        self,
        open_host: Callable[[], SessionHost],
        options: StartOptions | None = None,
        *,
        now: Callable[[], datetime] = now_utc,
    ) -> None:
        self.options = options or StartOptions()
        super().__init__(self.options.theme)
        self.now = now
        self._open_host = open_host
        self._is_leaving = False
        self.is_stop_hasty = False  # the last escape came right behind another one
        self._stop_at_s = float("-inf")
        self.desk = OpenSessions(self)
        self._collector: GcPolicy | None = None
        self.animation_level = "none"
        use_keys(self.options.keys)

    def get_default_screen(self) -> Screen[None]:
        """Make the main screen."""
        self.workbench = Workbench(self.desk, self.options, self.now)
        return self.workbench

    # -- life -----------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Open the host once the first frame is."""
        self.call_after_refresh(self._start)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self._leave_now, EXIT_INTERRUPTED)
            except (NotImplementedError, RuntimeError, ValueError):
                return

    def _rebind(self) -> None:
        """Put the user's own keys in force here, and on every screen when it opens."""
        keys = self.options.keys
        if not keys:
            return
        from lmtui.tui.keymap import rebind  # noqa: PLC0415  (start-up: few have keys of their own)

        for node in (self, self.workbench, self.workbench.prompt):
            rebind(node._bindings, keys)
        seen: set[Screen[Any]] = {self.workbench}

        def opened(screen: Screen[Any]) -> None:
            if screen not in seen:
                seen.add(screen)
                rebind(screen._bindings, keys)

        self.screen_change_signal.subscribe(self, opened, immediate=True)

    @work(group="start")
    async def _start(self) -> None:
        self.workbench.dialogs = await asyncio.to_thread(_load_dialogs)
        frame_s = SSH_FRAME_S if "SSH_CONNECTION" in os.environ else FRAME_S
        self.desk.router = self.workbench.dialogs.router(self._schedule, self._show_session, self._facts_changed, frame_s)
        self.attention = self.workbench.dialogs.attention(self.write_to_terminal, self.options.notify, os.environ)
        self.has_job_control = self.workbench.dialogs.has_job_control
        await self.workbench.furnish()
        self._rebind()
        self.follow_theme_file(self.workbench.dialogs.theme_watch)
        if self.options.problems:
            self.workbench.say("\n".join(self.options.problems), "error")
        attention = self.attention
        self._collector = self.workbench.dialogs.collector(lambda: attention.is_quiet)
        self._collector.begin()
        try:
            self.desk.host = await asyncio.to_thread(self._open_host)
            if self.options.is_demo:
                await self.desk.host.start_demo()
        except LmtuiError as error:
            code = EXIT_USAGE if isinstance(error, UsageError | ConfigError) else EXIT_ERROR
            self.exit(return_code=code, message=error.full_text())
            return
        await self._ask_first()
        if self.workbench.prompt_part is not None:
            await self.workbench.prompt_part.host_is_there(self.desk.host)
        self.workbench.host_is_there()
        await self._open_first_session()
        await self.workbench.run_early()
        if self.workbench.jobs_part is not None:
            self.workbench.jobs_part.start()
        if self.workbench.mcp_part is not None:
            self.workbench.mcp_part.start()
        if self.options.images and self.workbench.prompt_part is not None:
            await self.workbench.prompt_part.attach(self.options.images, self.options.task)

    async def _ask_first(self) -> None:
        """Ask what must be known before a session opens: which model, and whether the folder's own settings hold."""
        host, dialogs = self.desk.host, self.workbench.dialogs
        assert host is not None
        assert dialogs is not None
        silent = "" if host.setup_note or self.options.is_demo else await host.servers.silent_choice()
        if host.setup_note or silent:
            self.workbench.set_note("no model chosen yet")
            chosen = await self.push_screen_wait(dialogs.first_run(host, silent, now=self.now))
            if chosen is Chosen.DEMO and not self.workbench.prompt.text:
                self.workbench.prompt.replace_text(DEMO_TASK)
                self.workbench.say("the model is a script, the tools and the sandbox are real; enter starts it")
        if await asyncio.to_thread(host.trust.waiting):
            self.workbench.set_note("waiting for your word on this folder")
            await self.push_screen_wait(dialogs.trust(host, now=self.now))

    async def _open_first_session(self) -> None:
        self.workbench.set_note("opening the session …")
        workbench = self.workbench
        restored = await workbench.sessions_part.restore() if workbench.sessions_part is not None else ""
        wanted = self.options.session_id or ("" if self.options.task or self.options.is_demo else restored)
        feed = await workbench.open_session(wanted)
        if feed is None and wanted and await workbench.open_session() is not None:
            workbench.say(f"session {wanted} could not be opened (is it open in another lmtui?); this is a new one", "warning")
        elif feed is None:
            workbench.set_note("no session; f2 lists them, f4 starts one")

    async def _close(self, return_code: int) -> None:
        self._is_leaving = True
        self.workbench.set_note("closing …")
        if self.workbench.prompt_part is not None:
            await self.workbench.prompt_part.save()
        await self.desk.close()
        self.exit(return_code=return_code)

    def _leave_now(self, return_code: int) -> None:
        if not self._is_leaving:
            self.run_worker(self._close(return_code), group="leave")

    async def on_unmount(self) -> None:
        """Close what is still open, however the app ends."""
        if self.attention is not None:
            self.attention.leave()
        self.leave_theme_file()
        await self.desk.close()

    @on(Worker.StateChanged)
    def _session_failed(self, event: Worker.StateChanged) -> None:
        if event.state is WorkerState.ERROR and event.worker.name in ("session", "scheduler"):
            who = "the scheduler" if event.worker.name == "scheduler" else f"session {event.worker.group}"
            self.workbench.say(f"{who} failed: {sanitize_line(repr(event.worker.error))}", "error")

    # -- commands everywhere --------------------------------------------------------------------------------------------

    async def action_leave(self) -> None:
        """Leave; asks once while an agent works."""
        running = self.desk.running
        dialogs = self.workbench.dialogs
        if not running or dialogs is None or isinstance(self.screen, dialogs.confirm):
            self._leave_now(0)
            return
        count = "an agent works" if len(running) == 1 else f"{len(running)} agents work"
        key = EARLY.by_id("app.leave").key_text
        text = f"They stop; what was done is saved, and the session can be resumed.\n{key} once more leaves too."
        _ = self.push_screen(
            dialogs.confirm(f"Leave while {count}?", text), lambda is_sure: self._leave_now(0) if is_sure else None
        )

    async def action_stop(self) -> None:
        """Close what is on top, or interrupt."""
        now_s = monotonic()
        self.is_stop_hasty, self._stop_at_s = now_s - self._stop_at_s < HASTY_S, now_s
        await self.run_action("screen.close_or_stop")

    def action_interrupt(self) -> None:
        """Interrupt the agent, or tell how to leave."""
        if not self.workbench.interrupt():
            self.workbench.say(f"{EARLY.by_id('app.leave').key_text} leaves")

    def action_help(self) -> None:
        """Show every key and command."""
        here = getattr(self.screen, "SCOPE", Scope.WORKBENCH)
        if self.workbench.dialogs is not None and here is not Scope.HELP:
            _ = self.push_screen(self.workbench.dialogs.help(here))

    def action_palette(self) -> None:
        """Show all commands of the place where one is, to choose one."""
        dialogs, screen = self.workbench.dialogs, self.screen
        here = getattr(screen, "SCOPE", Scope.WORKBENCH)
        if dialogs is None or here not in PALETTE_SCOPES:
            return

        async def run_chosen(action: str | None) -> None:
            if action is not None:
                await self.run_action(action, default_namespace=screen)

        found = dialogs.of_scope(Scope.APP, here)
        choices = [Choice(each.action, each.title, f"{each.key_text:<10}  {each.help}") for each in found]
        _ = self.push_screen(dialogs.picker("EVERYTHING", choices), run_chosen)

    def action_theme(self) -> None:
        """Let a theme be chosen."""
        if self.workbench.dialogs is not None:
            picker = self.workbench.dialogs.picker("THEME", theme_choices(), chosen=self.theme)
            _ = self.push_screen(picker, lambda name: self.use_theme(name) if name else None)

    def focus_prompt(self) -> None:
        """Let what is typed go to the prompt."""
        if self.screen is self.workbench:
            self.workbench.set_focus(self.workbench.prompt)

    @on(ThemeWanted)
    def _theme_wanted(self, event: ThemeWanted) -> None:
        self.use_theme(event.name)

    # -- drawing --------------------------------------------------------------------------------------------------------

    def _schedule(self, delay_s: float, callback: Callable[[], None]) -> object:
        return call_after(self, delay_s, callback)

    def _show_session(self, feed: SessionView) -> None:
        self.workbench.show_session(feed)

    def _facts_changed(self) -> None:
        if self.workbench.children and not self._is_leaving:
            self.workbench.draw()
            if self.attention is not None:
                self.attention.look(self.desk.feeds.values(), self.desk.active)
            if self._collector is not None:
                self._collector.look()


def _load_dialogs() -> LazyImports:
    from lmtui.tui.lazy_imports import LazyImports  # noqa: PLC0415 - a quarter of the start-up time, and no first frame needs it

    return LazyImports()
