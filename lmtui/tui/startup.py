"""The start of the app after its first frame: the rest of the screen, the host, and the first session."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from textual.binding import BindingsMap
from textual.screen import Screen
from watchfiles import awatch

from lmtui.commands.command import Scope
from lmtui.core.errors import ConfigError, LmtuiError, UsageError
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import bindings
from lmtui.tui.editor import has_job_control
from lmtui.tui.keymap import rebind
from lmtui.tui.modals.results import Chosen
from lmtui.tui.modals.trust_question import trust_dialog
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.perf_overlay import GcPolicy, PerfOverlay
from lmtui.tui.ready import FEATURE_CONTROLLERS, Ready, connect
from lmtui.tui.router import Router
from lmtui.tui.screens.first_run import FirstRun
from lmtui.tui.screens.workbench import Starting, Workbench
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.terminal_notifier import TerminalNotifier
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.panes import Panes


class ThemeWatch:
    """Watches one file at a time and calls `changed` with the theme's name after each save."""

    def __init__(self, changed: Callable[[str], None]) -> None:
        self._changed = changed
        self._task: asyncio.Task[None] | None = None
        self._stop = asyncio.Event()
        self._file: Path | None = None

    def watch(self, file: Path | None) -> None:
        """Watch this file from now on, and no other (None: no file at all)."""
        if file == self._file:
            return
        self._file = file
        self._stop.set()
        self._stop = asyncio.Event()
        self._task = asyncio.get_running_loop().create_task(self._run(file, self._stop)) if file is not None else None

    async def _run(self, file: Path, stop: asyncio.Event) -> None:
        """Look at the folder, as editors replace files; a folder that goes away ends it."""

        def is_it(_: object, path: str) -> bool:
            return Path(path).name == file.name

        try:
            async for _ in awatch(file.parent, watch_filter=is_it, stop_event=stop, debounce=200, recursive=False):
                self._changed(file.stem)
        except OSError:
            return


DEMO_TASK = "Show me what you can do."
FRAME_S = 1 / 30
SSH_FRAME_S = 1 / 10
EXIT_ERROR = 1
EXIT_USAGE = 64


class AppStartup:
    """Makes the workbench ready, opens the host and the first session, and keeps what looks on from then."""

    def __init__(self, app: ThemedApp, workbench: Workbench) -> None:
        self._app, self._workbench = app, workbench
        app.has_job_control = has_job_control
        notifier = app.notifier = TerminalNotifier(app.write_to_terminal, app.options.notify, os.environ)
        self._gc_policy = GcPolicy(lambda: notifier.is_quiet)
        frame_s = SSH_FRAME_S if "SSH_CONNECTION" in os.environ else FRAME_S
        self._router = Router(
            lambda delay_s, callback: call_after(app, delay_s, callback),
            self._workbench.show_session,
            self._changed,
            self._ask_soon,
            frame_s,
        )

    async def run(self, open_host: Callable[[], SessionHost]) -> None:
        """Start everything; `open_host` runs in a thread.  Ends the app where there can be no host."""
        app, workbench = self._app, self._workbench
        starting = workbench.state
        await self._mount()
        app.follow_theme_file(ThemeWatch(app.use_theme).watch)
        if app.options.problems:
            workbench.say("\n".join(app.options.problems), "error")
        self._gc_policy.begin()
        sessions = workbench.sessions
        try:
            host = sessions.host = await asyncio.to_thread(open_host)
            if app.options.is_demo:
                await host.start_demo()
        except LmtuiError as error:
            code = EXIT_USAGE if isinstance(error, UsageError | ConfigError) else EXIT_ERROR
            app.exit(return_code=code, message=error.full_text())
            return
        await self._ask_first(host)
        ready = workbench.ready
        controllers = [make(workbench, host) for make in FEATURE_CONTROLLERS]
        for each in controllers:
            ready.commands.actions |= each.handlers()
        await ready.prompts.host_is_there(host)
        ready.files.start()
        await self._open_first_session(ready)
        if isinstance(starting, Starting):
            await workbench.run_early(starting)
        for each in controllers:
            each.start()
        if app.options.images:
            await ready.prompts.pasting.attach(app.options.images, app.options.task)

    async def _mount(self) -> None:
        """Mount the panes, connect the controllers, and bind the keys of both."""
        app, workbench = self._app, self._workbench
        panes = Panes()
        await workbench.body.mount(panes)
        line = Bar(id="meter")
        line.display = False
        await workbench.dock.mount(line, before="#activity-row")

        def show(text: str) -> None:
            line.display = bool(text)
            line.show([Part(text, "$text-muted")], [])

        overlay = PerfOverlay(show, lambda: app.frames_drawn, lambda: app.bytes_written)
        sessions = OpenSessions(app, self._router)
        ready = connect(app, workbench, sessions, panes, sending=workbench.sending, overlay=overlay)
        self._router.shared = (panes.plan, panes.files)
        keys = BindingsMap([each for scope in (Scope.WORKBENCH, Scope.MOVING, Scope.LINES) for each in bindings(scope)])
        self._rebind(keys)
        await workbench.use(ready, keys)
        await ready.layout.restore()

    def _rebind(self, keys: BindingsMap) -> None:
        """Put the user's own keys in force, and on every screen when it opens."""
        own = self._app.options.keys
        for bound in (self._app._bindings, self._workbench.prompt._bindings, keys) if own else ():
            rebind(bound, own)
        seen: set[Screen[Any]] = {self._workbench}

        def opened(screen: Screen[Any]) -> None:
            if screen not in seen:
                seen.add(screen)
                rebind(screen._bindings, own)

        if own:
            self._app.screen_change_signal.subscribe(self._app, opened, immediate=True)

    def _changed(self) -> None:
        """Draw, notify and collect: something of a session is another."""
        if self._workbench.children and not self._app.is_leaving:
            self._workbench.draw()
            if self._app.notifier is not None:
                self._app.notifier.look(self._router.views.values(), self._router.active)
            self._gc_policy.look()

    def _ask_soon(self) -> None:
        _ = self._workbench.call_later(self._workbench.sync_questions)

    async def _ask_first(self, host: SessionHost) -> None:
        """Ask what must be known before a session opens: which model, and whether the folder's own settings hold."""
        app, workbench = self._app, self._workbench
        silent = "" if host.setup_note or app.options.is_demo else await host.servers.silent_choice()
        if host.setup_note or silent:
            workbench.set_note("no model chosen yet")
            chosen = await app.push_screen_wait(FirstRun(host, silent, now=app.now))
            if chosen is Chosen.DEMO and not workbench.prompt.text:
                workbench.prompt.replace_text(DEMO_TASK)
                workbench.say("the model is scripted; tools and sandbox are real; press enter to start")
        if await asyncio.to_thread(host.trust.waiting):
            workbench.set_note("waiting for you to review this folder")
            _ = await app.push_screen_wait(trust_dialog(host, now=app.now))

    async def _open_first_session(self, ready: Ready) -> None:
        options, workbench, opened = self._app.options, self._workbench, ready.session_controller
        workbench.set_note("opening the session …")
        restored = await opened.restore()
        wanted = options.session_id or ("" if options.task or options.is_demo else restored)
        view = await opened.open(wanted)
        if view is None and wanted and await opened.open() is not None:
            workbench.say(f"session {wanted} could not be opened (is it open in another lmtui?); this is a new one", "warning")
        elif view is None:
            workbench.set_note("no session; F2 lists them, F4 starts one")
