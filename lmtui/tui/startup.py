"""The start of the app after its first frame: the rest of the screen, the host, and the first session.

Where a server, its key or a model lacks, or the server does not answer, a screen comes first: servers, an address, the demo.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from pathlib import Path
from time import monotonic
from typing import Any

from textual._styles_cache import StylesCache
from textual.binding import BindingsMap
from textual.content import Content
from textual.screen import Screen

from lmtui.commands.session_commands import MODE_NOTES
from lmtui.core.errors import ConfigError, Fault, LmtuiError, ProviderError, UsageError
from lmtui.core.hosts import is_same_server
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import KEY_NOTES, KNOWN_ADDRESSES, ServedModel, ServerFound, ServerKind, lack_text, short_details
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Command, Scope, bindings, command, key_of
from lmtui.tui.keymap import rebind
from lmtui.tui.lines.styled_text import Span
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.models import EXAMPLE, short_address
from lmtui.tui.modals.picker import AskText
from lmtui.tui.modals.trust_question import TrustQuestion
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.ready import FEATURE_CONTROLLERS, Ready
from lmtui.tui.router import Router
from lmtui.tui.screens.workbench import Starting, Workbench
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.terminal_notifier import TerminalNotifier
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import Spinner
from lmtui.tui.widgets.panes import Panes
from lmtui.tui.wording import folder_text

DEMO, OTHER, KEEP = "demo", "other", "keep"
SHOWN_PORTS = 4
WELCOME = "Choose the model server to work with. You can change it later with {}."
NOTHING = "No model server answers. Start LM Studio, Ollama, llama.cpp or vLLM, then press {}."
MOST_CELLS = 98


@dataclass(frozen=True, slots=True)
class FirstRow:
    """A server's model to begin with, another choice, or a port where nothing answers (without a `key`)."""

    key: str
    sign: Span
    name: str
    address: str = ""
    model: str = ""
    details: str = ""
    url: str = ""


class FirstRun(ListDialog[FirstRow, bool]):
    """Looks for servers and lets one be chosen; the result says whether it is the demo.

    `lacking` is the server that was chosen, if it does not answer or lacks a key or a model.
    """

    NAME, HEADING, CHOOSING, CLOSING, IS_PAGE = "first", "Welcome to lmtui", "start", "", True
    COLUMNS = (Column(most=1), Column(most=12), Column(most=22, from_width=66), Column(most=34), Column())
    VERBS = (("run", "refresh"), ("test", "review folder"))

    def __init__(
        self, host: SessionHost, lacking: ServerFound | None = None, *, now: Callable[[], datetime], mode: str
    ) -> None:
        super().__init__()
        self._host, self._now, self._lacking, self._mode = host, now, lacking, mode
        self._found: Sequence[ServerFound] | None = None
        self._keys: dict[str, str] = {}  # typed, by address

    def on_mount(self) -> None:
        lacking, note = self._lacking, Content.styled(WELCOME.format(key_of("model.choose")), "$text-muted")
        if lacking is not None:
            rest = "Choose one."
            if lacking.kind == ServerKind.KEPT:
                rest = f"Start it and press {key_of('list.run')}, or choose another."
            note = Content.assemble(("✗ ", "$error"), (f"{lack_text(lacking)}. ", "$text"), (rest, "$text-muted"))
        self.box.show_head(note)
        self.show(self._rows())
        if lacking is not None and lacking.note in KEY_NOTES:
            self.run_worker(self._use(lacking.url, "", problem=lacking.note), group="first-run-start", exclusive=True)

    def on_resize(self) -> None:
        width, height = self.app.size
        self.box.styles.padding = height // 8, 2, 0, max(1, (width - MOST_CELLS) // 2)

    async def rows(self) -> Sequence[FirstRow]:
        """Look for servers."""
        is_first, self._found = self._found is None, await self._host.servers.find()
        if all(each.kind is ServerKind.KEPT for each in self._found):
            self.say(NOTHING.format(key_of("list.run")), "$warning")
        rows = self._rows()
        if is_first:
            self.show(rows, next(row.key for row in rows if row.key))
        return rows

    def _rows(self) -> list[FirstRow]:
        """Return the servers that answered, the usual ports that did not, and the other choices."""
        found, rows = self._found or (), list[FirstRow]()
        for server in found:
            is_none = server.kind in (ServerKind.UNKNOWN, ServerKind.FILES, ServerKind.KEPT) and not server.models
            failed: Span = ("○", "muted") if server.kind is ServerKind.KEPT else ("✗", "bad")
            sign: Span = failed if server.note and not server.models else ("✓", "good")
            for number, model in enumerate(server.chat_models or (ServedModel(""),)):
                details = ", ".join(filter(None, (short_details(model) if model.name else "", server.note)))
                key = "" if is_none else f"{server.url} {model.name}"
                place = (server.kind, short_address(server.url)) if not number else ("", "")
                rows.append(FirstRow(key, (" ", "") if number else sign, *place, model.name, details, server.url))
        waits: Span = (Spinner.SIGNS[0], "muted") if self._found is None else ("○", "muted")
        for kind, url in KNOWN_ADDRESSES[:SHOWN_PORTS]:
            if not any(is_same_server(each.url, url) for each in found if "//" in each.url):
                details = "asking…" if self._found is None else "no answer"
                rows.append(FirstRow("", waits, kind, short_address(url), "", details))
        rows += [FirstRow(KEEP, (" ", ""), "Continue", "with " + self._lacking.url)] if self._lacking is not None else []
        rows.append(FirstRow(OTHER, ("+", "muted"), "Server URL…", "", "", "asks for a key, too"))
        return [*rows, FirstRow(DEMO, ("▸", "muted"), "Demo", "", "", "a scripted model")]

    def key(self, row: FirstRow) -> str:
        """Return what is chosen."""
        return row.key

    def cells(self, row: FirstRow) -> Sequence[Cell]:
        """Return a choice in columns."""
        texts = map(sanitize_line, (row.name, row.address, row.model, row.details))
        name, address, model, details = texts
        return row.sign, name, (address, "muted"), model, (details, "muted")

    def about(self, row: FirstRow | None) -> tuple[Content, Sequence[Command]]:
        """Return where one is, and what can be done."""
        del row
        brings = bool(self._host.trust.waiting())
        folder = sanitize_line(folder_text(self._host.workspace, Path.home()))
        facts = Content.assemble(
            ("Folder   ", "$text-muted"),
            (folder, "$text"),
            ("   its own settings are ignored until you trust it" * brings, "$warning"),
            ("\nSandbox  set up on the first command\nMode     ", "$text-muted"),
            (self._mode, "$text"),
            (f"   {MODE_NOTES.get(self._mode, '')} · {key_of('mode.choose')} changes it", "$text-muted"),
        )
        return facts, [*self.verbs(*([] if brings else ["test"])), command("app.leave")]

    def action_close_or_stop(self) -> None:
        """Stay: a server has to be chosen."""

    def act(self) -> None:
        """Begin with the marked choice."""
        row = self.current
        if row is not None and row.key == KEEP:
            _ = self.dismiss(result=False)
        elif row is not None:
            work = {OTHER: self._ask_address, DEMO: self._begin_demo}.get(row.key, partial(self._use, row.url, row.model))
            self.run_worker(work(), group="first-run-start", exclusive=True)

    def do_run(self, _: FirstRow | None) -> None:
        """Look for servers again, which is done after this."""
        self._found = None
        self.notify("Looked again", markup=False)
        self.show(self._rows())

    async def do_test(self, _: FirstRow | None) -> None:
        """Show what the folder brings."""
        await self.app.push_screen_wait(ConsentDialog(TrustQuestion(self._host)))

    async def _begin_demo(self) -> None:
        with self.showing_errors():
            await self._host.start_demo()
            _ = self.dismiss(result=True)

    async def _ask_address(self) -> None:
        """Ask for the address of a server until one answers, or it is left."""
        problem, url = "", ""
        while True:
            asked = AskText("Server URL", value=url, placeholder=EXAMPLE, problem=problem, is_needed=True)
            typed = await self.app.push_screen_wait(asked)
            url = typed or ""
            problem = await self._use(url, "") if url else ""
            if not problem:
                return
            problem = f"✗ {problem}"

    async def _use(self, url: str, model: str, problem: str = "") -> str:
        """Use a server, whose models are listed first if it has several; ask for its key where it wants one.

        Returns:
            What is wrong with it, or an empty text.
        """
        servers = self._host.servers
        while True:
            if problem:
                asked = AskText("API key", problem=f"✗ {problem}", placeholder=url, is_secret=True)
                if (typed := await self.app.push_screen_wait(asked)) is None:
                    self.say(f"✗ {problem}", "$error")
                    return ""
                self._keys[url] = typed
            self.say(f"Connecting to {sanitize_line(model or url)}…", "$text-muted")
            key = self._keys.get(url, "")
            try:
                named = None if model else await servers.look(url, key)
                if named is not None and named.needs_model:
                    self.workers.cancel_group(self, "list-read")
                    self._found = [named, *(each for each in self._found or () if not is_same_server(each.url, url))]
                    self.show(self._rows(), f"{named.url} {named.chat_models[0].name}")
                    self.say(f"{pluralize(len(named.chat_models), 'model')}: choose one.", "$text")
                    return ""
                await servers.use(url, model, key)
            except ProviderError as error:
                problem = error.full_text()
                if error.fault is not Fault.KEY_REFUSED:
                    self.say(f"✗ {problem}", "$error")
                    return problem
            except LmtuiError as error:
                self.say(f"✗ {error.full_text()}", "$error")
                return error.full_text()
            else:
                _ = self.dismiss(result=False)
                return ""


DEMO_TASK = "Show me what you can do."
FRAME_S = 1 / 30
SSH_FRAME_S = 1 / 10
EXIT_ERROR = 1
EXIT_USAGE = 64


class AppStartup:
    """Makes the workbench ready, opens the host and the first session, and keeps what looks on from then."""

    def __init__(self, app: ThemedApp, workbench: Workbench) -> None:
        self._app, self._workbench = app, workbench
        notifier = app.notifier = TerminalNotifier(app.write_to_terminal, app.options.notify, os.environ)
        self._gc_policy = GcPolicy(lambda: notifier.is_quiet)
        frame_s = SSH_FRAME_S if "SSH_CONNECTION" in os.environ else FRAME_S
        self._router = Router(
            lambda delay_s, callback: call_after(app, delay_s, callback),
            self._workbench.show_session,
            self._changed,
            lambda: self._workbench.call_later(self._workbench.sync_questions),
            frame_s,
        )

    async def run(self, open_host: Callable[[], SessionHost]) -> None:
        """Start everything; `open_host` runs in a thread.  Ends the app if no host can be started."""
        app, workbench = self._app, self._workbench
        starting = workbench.state
        await self._mount()
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
        ready.features.extend(make(workbench, host) for make in FEATURE_CONTROLLERS)
        for each in ready.features:
            ready.commands.actions |= each.handlers()
            self._router.event_handlers |= each.event_handlers()
        await ready.prompts.host_is_there(host)
        ready.files.start()
        await self._open_first_session(ready)
        if isinstance(starting, Starting):
            await workbench.run_early(starting)
        for each in ready.features:
            each.start()
        if app.options.images:
            await ready.prompts.pasting.attach(app.options.images, app.options.task)

    async def _mount(self) -> None:
        """Mount the panes, connect the controllers, and bind the keys of both."""
        app, workbench = self._app, self._workbench
        panes = Panes()
        await workbench.body.mount(panes)
        sessions = OpenSessions(app, self._router)
        ready = Ready(app, workbench, sessions, panes, workbench.sending)
        self._router.shared = (panes.plan, panes.files)
        keys = BindingsMap(bindings(Scope.WORKBENCH, Scope.MOVING, Scope.LINES, Scope.TEXT))
        self._rebind(keys)
        await workbench.use(ready, keys)

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

    async def _ask_first(self, host: SessionHost) -> None:
        """Ask what must be known before a session opens: which model, and whether the folder's own settings hold."""
        app, workbench = self._app, self._workbench
        lacking = None if host.setup_note or app.options.is_demo else await host.servers.choice_problem()
        if host.setup_note or lacking is not None:
            workbench.set_note("no model chosen yet")
            is_demo = await app.push_screen_wait(FirstRun(host, lacking, now=app.now, mode=app.options.mode))
            if is_demo and not workbench.prompt.text:
                workbench.prompt.replace_text(DEMO_TASK)
                workbench.say("the model is scripted; tools and sandbox are real; press enter to start")
        if await asyncio.to_thread(host.trust.waiting):
            workbench.set_note("waiting for you to review this folder")
            _ = await app.push_screen_wait(ConsentDialog(TrustQuestion(host)))

    async def _open_first_session(self, ready: Ready) -> None:
        options, workbench, opened = self._app.options, self._workbench, ready.session_controller
        workbench.set_note("opening the session …")
        restored = await opened.restore()
        if options.find_session is not None and not options.session_id:
            restored = await asyncio.to_thread(options.find_session) or restored
        wanted = options.session_id or ("" if options.task or options.is_demo else restored)
        view = await opened.open(wanted)
        why = opened.failure
        if view is None and wanted and await opened.open() is not None:
            workbench.say(f"{why} This is a new session.", "warning")
        elif view is None:
            workbench.set_note("no session; F2 lists them, F4 starts one")


YOUNG = 5_000
BATCHES = 2
NEVER_BY_ITSELF = 1_000
WHOLE_AFTER_S = 300.0


class GcPolicy:
    """Decides when to collect.  `is_quiet` tells whether a pause would be felt by nobody."""

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        self._is_quiet = is_quiet

    def begin(self) -> None:
        """Collect everything, and put what the program itself is made of out of the collector's sight."""
        vars(StylesCache)["get_inner_outer"].cache_clear()  # else what closed widgets drew stays
        gc.unfreeze()
        gc.collect()
        gc.freeze()
        gc.set_threshold(YOUNG, NEVER_BY_ITSELF, NEVER_BY_ITSELF)
        gc.enable()
        self._next_s = monotonic() + WHOLE_AFTER_S

    def look(self) -> None:
        """Collect what is new, if there is enough of it, and now and then everything; cheap where there is not."""
        if gc.get_count()[1] < BATCHES:
            return
        if monotonic() > self._next_s and self._is_quiet():
            self.begin()
        else:
            gc.collect(1)
            gc.freeze()
