"""The full-screen app: shows its first frame at once, then opens the host in a thread and a session on it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from textual import on, work
from textual.screen import Screen
from textual.worker import Worker, WorkerState

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import use_keys
from lmtui.core.sanitize import sanitize_line
from lmtui.tui.key_bindings import EARLY, bindings_of
from lmtui.tui.options import StartOptions
from lmtui.tui.screens.workbench import Starting, Workbench
from lmtui.tui.terminal_app import ThemedApp

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost
    from lmtui.tui.open_sessions import OpenSessions
    from lmtui.tui.startup import AppStartup


EXIT_INTERRUPTED = 130


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
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        super().__init__(options or StartOptions(), now)
        self._open_host = open_host
        self.left_session = "", ""  # the id and the title of the one that was on screen at the end
        self.animation_level = "none"
        use_keys(self.options.keys)

    def get_default_screen(self) -> Screen[None]:
        """Make the main screen."""
        self.workbench = Workbench(self.options, self.now)
        return self.workbench

    @property
    def sessions(self) -> OpenSessions:
        """Return the open sessions; asked for only after the first frame."""
        return self.workbench.sessions

    # -- life -----------------------------------------------------------------------------------------------------------

    def on_mount(self) -> None:
        """Open the host once the first frame is."""
        self.call_after_refresh(self._start)
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP):
            try:
                loop.add_signal_handler(number, self.leave_now, EXIT_INTERRUPTED)
            except (NotImplementedError, RuntimeError, ValueError):
                return

    @work(group="start")
    async def _start(self) -> None:
        startup = await asyncio.to_thread(_load_rest)
        await startup(self, self.workbench).run(self._open_host)

    async def _close(self, return_code: int) -> None:
        self.is_leaving = True
        self.workbench.set_note("closing …")
        if not isinstance(self.workbench.state, Starting):
            await self.workbench.state.prompts.drafts.save()
            if (view := self.sessions.active) is not None and view.state.has_begun:
                self.left_session = view.session.id, view.state.title
            await self.sessions.close()
        self.exit(return_code=return_code)

    def leave_now(self, return_code: int) -> None:
        """Close everything and end the app."""
        if not self.is_leaving:
            self.run_worker(self._close(return_code), group="leave")

    async def on_unmount(self) -> None:
        """Close what is still open, however the app ends."""
        if self.notifier is not None:
            self.notifier.leave()
        if not isinstance(self.workbench.state, Starting):
            await self.sessions.close()

    @on(Worker.StateChanged)
    def _session_failed(self, event: Worker.StateChanged) -> None:
        name, group = event.worker.name, event.worker.group
        if event.state is WorkerState.ERROR and (name in ("session", "scheduler") or group.startswith("agent:")):
            who = {"session": f"session {group}", "scheduler": "the scheduler"}.get(name, f"agent {name}")
            self.workbench.say(f"{who} failed: {sanitize_line(repr(event.worker.error))}", "error")

    # -- commands everywhere --------------------------------------------------------------------------------------------

    async def action_leave(self) -> None:
        """Leave; asks once while an agent works."""
        state = self.workbench.state
        if isinstance(state, Starting) or not state.app_controller.asks_to_leave(
            state.sessions.working, state.sessions.unmerged
        ):
            self.leave_now(0)

    async def action_run_command(self, command_id: str) -> None:
        """Run a command that opens something over any screen."""
        if not isinstance(self.workbench.state, Starting):
            await self.workbench.state.commands.run(command_id)

    async def action_stop(self) -> None:
        """Close what is on top, or interrupt."""
        await self.run_action("screen.close_or_stop")

    def action_interrupt(self) -> None:
        """Interrupt the agent, or tell how to leave."""
        if not self.workbench.interrupt():
            self.workbench.say(f"{EARLY.by_id('app.leave').key_text} quits")

    def focus_prompt(self) -> None:
        """Let what is typed go to the prompt."""
        if self.screen is self.workbench:
            self.workbench.set_focus(self.workbench.prompt)


def _load_rest() -> type[AppStartup]:
    from lmtui.tui.startup import AppStartup  # noqa: PLC0415 - a quarter of the start-up time, and no first frame needs it

    return AppStartup
