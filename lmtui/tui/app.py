"""The full-screen app: shows its first frame at once, then opens the host in a thread and a session on it."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any

from textual import on, work
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from lmtui.core.clean import clean_line
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.tui.commands import Scope, bindings, command, of_scope
from lmtui.tui.desk import Desk
from lmtui.tui.modals.results import Choice, Chosen
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench import ThemeWanted, Workbench
from lmtui.tui.table.command import use_keys
from lmtui.tui.themed_app import ThemedApp, theme_choices
from lmtui.tui.timers import call_after

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost
    from lmtui.tui.collector import Collector
    from lmtui.tui.dialogs import Dialogs
    from lmtui.tui.router import Feed

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

    BINDINGS = bindings(Scope.APP)
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
        self.desk = Desk(self)
        self._collector: Collector | None = None
        self.animation_level = "none"
        use_keys(self.options.keys)

    def get_default_screen(self) -> Screen[None]:
        """Make the main screen."""
        self.workbench = Workbench(self.desk, self.options, self.now)
        return self.workbench

    # -- life -----------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Open the host once the first frame stands."""
        if self.options.keys:
            self._rebind()
        self.call_after_refresh(self._start)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self._leave_now, EXIT_INTERRUPTED)
            except (NotImplementedError, RuntimeError, ValueError):
                return

    def _rebind(self) -> None:
        """Put the user's own keys in force here, and on every screen when it opens."""
        from lmtui.tui.keymap import rebind  # noqa: PLC0415  (start-up: few have keys of their own)

        keys = self.options.keys
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
            self.workbench.say(f"{who} failed: {clean_line(repr(event.worker.error))}", "error")

    # -- commands everywhere --------------------------------------------------------------------------------------------

    async def action_leave(self) -> None:
        """Leave; asks once while an agent works."""
        running = self.desk.running
        dialogs = self.workbench.dialogs
        if not running or dialogs is None or isinstance(self.screen, dialogs.confirm):
            self._leave_now(0)
            return
        count = "an agent works" if len(running) == 1 else f"{len(running)} agents work"
        key = command("app.leave").key_text
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
            self.workbench.say(f"{command('app.leave').key_text} leaves")

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

        found = of_scope(Scope.APP, here)
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

    def _show_session(self, feed: Feed) -> None:
        self.workbench.show_session(feed)

    def _facts_changed(self) -> None:
        if self.workbench.children and not self._is_leaving:
            self.workbench.draw()
            if self.attention is not None:
                self.attention.look(self.desk.feeds.values(), self.desk.active)
            if self._collector is not None:
                self._collector.look()


def _load_dialogs() -> Dialogs:
    from lmtui.tui.dialogs import Dialogs  # noqa: PLC0415 - a quarter of the start-up time, and no first frame needs it

    return Dialogs()
