"""The start of the app after its first frame: the rest of the screen, the host, and the first session.

Where a server, its key or a model lacks, or the server does not answer, a screen comes first: servers, an address, the demo.
"""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from textual import on, work
from textual._styles_cache import StylesCache
from textual.app import ComposeResult
from textual.binding import BindingsMap, BindingType
from textual.containers import Center, Horizontal, Vertical, VerticalScroll
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.errors import ConfigError, Fault, LmtuiError, ProviderError, UsageError
from lmtui.core.hosts import is_same_server
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.core.servers import KEY_NOTES, KNOWN_ADDRESSES, ServedModel, ServerFound, ServerKind, lack_text, short_details
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, bindings, command, first_key, key_of, of_scope
from lmtui.tui.editor import has_job_control
from lmtui.tui.keymap import rebind
from lmtui.tui.lines.styled_text import fit, pad
from lmtui.tui.modals.consent import ConsentDialog
from lmtui.tui.modals.model_rows import short_address
from lmtui.tui.modals.results import ClosedOnce
from lmtui.tui.modals.trust_question import TrustQuestion
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.ready import FEATURE_CONTROLLERS, Ready, connect
from lmtui.tui.router import Router
from lmtui.tui.screens.workbench import Starting, Workbench
from lmtui.tui.terminal_app import ThemedApp
from lmtui.tui.terminal_notifier import TerminalNotifier
from lmtui.tui.timing import call_after
from lmtui.tui.widgets.bars import HEIGHTS, Bar, Part, Spinner, Verbs
from lmtui.tui.widgets.panes import Panes
from lmtui.tui.wording import folder_text

DEMO = "demo"
OTHER = "other"
KEEP = "keep"
KIND_CELLS, URL_CELLS, MODEL_CELLS, DETAIL_CELLS = 12, 17, 30, 18
TIGHT_CELLS, TIGHT = 70, (11, 8, 20)
SHOWN_PORTS = 4
ROWS = [*HEIGHTS[:-1], (22, "-high")]
WELCOME = "Choose the model server to work with. You can change it later with {}."
NOTHING = "No model server answers. Start LM Studio, Ollama, llama.cpp or vLLM, then press {}."


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the list: a sign, then kind, address and model of a server, then what is known of it."""

    sign: str
    style: str
    cells: tuple[str, str, str]
    details: str

    def draw(self, width: int, *, is_marked: bool = False) -> Content:
        """Return it in columns, with a bar if marked; empty cells at its end and, where narrow, a local host take no room."""
        kind, address, model = map(sanitize_line, self.cells)
        wide = KIND_CELLS, URL_CELLS, max(TIGHT[2], min(MODEL_CELLS, width - KIND_CELLS - URL_CELLS - DETAIL_CELLS))
        if width < TIGHT_CELLS:
            wide, address = TIGHT, address.removeprefix("127.0.0.1")
        texts = [kind, address, model]
        while texts and not texts[-1]:
            texts.pop()
        columns = zip(texts, wide, ("$text", "$text-muted", "$text"), strict=False)
        parts = [(pad(fit(text, cells - 1), cells), color) for text, cells, color in columns]
        bar = ("▌ " if is_marked else "  ", "$accent")
        return Content.assemble(bar, (self.sign, self.style), *parts, (sanitize_line(self.details), "$text-muted"))


class FirstRun(ClosedOnce[bool]):
    """Looks for servers and lets one be chosen; the result says what the session will talk to.

    `lacking` is the server that was chosen, if it does not answer or lacks a key or a model.
    """

    CSS_PATH = "dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.APP, Scope.FIRST_RUN)

    VERTICAL_BREAKPOINTS = ROWS
    SCOPE: ClassVar[Scope] = Scope.FIRST_RUN

    def __init__(self, host: SessionHost, lacking: ServerFound | None = None, *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._host, self._now, self._lacking = host, now, lacking
        self._details_line = Static(self._details(), id="first-details", markup=False)
        self._places: dict[str, tuple[str, str]] = {}  # a server and one of its models; an empty one is its own choice
        self._rows: list[_Row] = []
        self._found: Sequence[ServerFound] = ()
        self._options = OptionList(compact=True, markup=False, id="first-list")
        self._address = Input(placeholder="http://localhost:8080", compact=True, id="first-address")
        self._key = Input(placeholder="if it needs one", password=True, compact=True, id="first-key")
        self._address.cursor_blink = self._key.cursor_blink = False
        rows = (("Server URL", self._address), ("API key", self._key))
        self._fields = Vertical(*(Horizontal(Static(name, classes="label"), each) for name, each in rows), id="first-fields")
        self._fields.display = False
        self._named = ""  # the address whose models are listed, to which the key goes
        self._state = Static("", id="first-state", markup=False)
        self._verbs = Verbs(id="first-verbs")

    def compose(self) -> ComposeResult:
        head = Bar(id="first-head")
        head.show([Part("lmtui", "bold $accent"), Part(self._folder(), "$text-muted", 1)], [])
        yield head
        with Center(id="first-body"), VerticalScroll(id="first-run", can_focus=False):
            yield Static(Content.styled("Welcome to lmtui", "bold"), markup=False)
            yield Static(self._note(), id="first-note", markup=False)
            yield self._options
            yield self._fields
            yield self._state
            yield self._details_line
        yield self._verbs

    def _note(self) -> Content:
        lacking = self._lacking
        if lacking is None:
            return Content.styled(WELCOME.format(key_of("model.choose")), "$text-muted")
        rest = "Enter the key below." if lacking.note in KEY_NOTES else "Choose one."
        if lacking.kind == ServerKind.KEPT:
            rest = f"Start it and press {key_of('first.again')}, or choose another."
        return Content.assemble(("✗ ", "$error"), (f"{lack_text(lacking)}. ", "$text"), (rest, "$text-muted"))

    def on_mount(self) -> None:
        self._options.focus()
        self._draw_verbs()
        self.action_first_again()
        if self._lacking is not None and self._lacking.note in KEY_NOTES:
            self._ask_key(self._lacking.url)

    def _ask_key(self, url: str) -> None:
        self._named = self._address.value = url
        self._key.value, self._fields.display = "", True
        self._key.focus()

    def _draw_verbs(self) -> None:
        brings = bool(self._host.trust.waiting())
        found = [each for each in of_scope(Scope.FIRST_RUN) if brings or each.id != "first.trust"]
        self._verbs.show([*found, *map(command, ("app.leave", "app.help"))])

    def action_first_again(self) -> None:
        """Look for servers again."""
        self._say("")
        self._fill(None)
        self.run_worker(self._look(), group="first-run", exclusive=True)

    def action_first_trust(self) -> None:
        """Show what the folder brings."""
        if self._host.trust.waiting():
            _ = self.app.push_screen(ConsentDialog(TrustQuestion(self._host)), self._trust_answered)

    def _trust_answered(self, _: bool | None) -> None:
        self._details_line.update(self._details())
        self._draw_verbs()

    def action_close_or_stop(self) -> None:
        """Leave the address."""
        self._fields.display = False
        self._say("")
        self._options.focus()

    @on(OptionList.OptionHighlighted)
    def _mark(self) -> None:
        """Put the bar at the marked row."""
        for at, row in enumerate(self._rows):
            drawn = row.draw(self.app.size.width, is_marked=at == self._options.highlighted)
            if self._options.get_option_at_index(at).prompt != drawn:
                self._options.replace_option_prompt_at_index(at, drawn)

    @on(Input.Submitted)
    def _typed(self) -> None:
        if self._address.value.strip():
            self._named = self._address.value.strip()
            self._use(self._named, "")

    @on(OptionList.OptionSelected)
    def _choose(self, event: OptionList.OptionSelected) -> None:
        choice = event.option_id or ""
        if choice == OTHER:
            self._say("")
            self._fields.display = True
            self._address.focus()
        elif choice == KEEP:
            _ = self.dismiss(result=False)
        elif choice == DEMO:
            self._start(self._host.start_demo(), is_demo=True)
        elif choice in self._places:
            self._use(*self._places[choice])

    def _use(self, url: str, model: str) -> None:
        self._say(f"Connecting to {sanitize_line(model or url)}…")
        self._start(self._connect(url, model), is_demo=False)

    async def _connect(self, url: str, model: str) -> bool:
        """Use a server; False where its models are listed first, or it wants a key."""
        servers, key = self._host.servers, self._key.value.strip() if is_same_server(url, self._named) else ""
        named = None if model else await servers.look(url, key)
        if named is not None and named.needs_model:
            self.workers.cancel_group(self, "first-run")
            self._fill([named, *(each for each in self._found if not is_same_server(each.url, url))])
            self._options.focus()
            self._say(f"{pluralize(len(named.chat_models), 'model')}: choose one.")
            return False
        try:
            await servers.use(url, model, key)
        except ProviderError as error:
            if error.fault is Fault.KEY_REFUSED:
                self._ask_key(url)
            raise
        return True

    async def _look(self) -> None:
        self._found = await self._host.servers.find()
        self._fill(self._found)
        if all(each.kind is ServerKind.KEPT for each in self._found) and not self._fields.display:
            self._say(NOTHING.format(key_of("first.again")))

    @work(group="first-run-start", exclusive=True)
    async def _start(self, connection: Awaitable[bool | None], *, is_demo: bool) -> None:
        try:
            is_done = await connection is not False
        except LmtuiError as error:
            self._say(error.full_text(), "✗ ")
            return
        if is_done:
            _ = self.dismiss(is_demo)

    def _fill(self, servers: Sequence[ServerFound] | None) -> None:
        """List the servers that answered and the usual ports that did not; without servers, they are being asked."""
        options, found = self._options, servers or ()
        options.clear_options()
        self._places.clear()
        self._rows.clear()

        def add(row: _Row, key: str = "") -> None:
            self._rows.append(row)
            options.add_option(Option(row.draw(self.app.size.width), id=key or None, disabled=not key))

        for server in found:
            is_none = server.kind in (ServerKind.UNKNOWN, ServerKind.FILES, ServerKind.KEPT) and not server.models
            for number, model in enumerate(server.chat_models or (ServedModel(""),)):
                key = f"{len(self._places)}"
                self._places[key] = server.url, model.name
                add(_server_row(server, model, is_first=not number), "" if is_none else key)
        sign, text = (Spinner.SIGNS[0], "asking…") if servers is None else ("○", "no answer")
        for kind, url in KNOWN_ADDRESSES[:SHOWN_PORTS]:
            if not any(is_same_server(each.url, url) for each in found if "//" in each.url):
                add(_Row(f"{sign} ", "$text-muted", (kind, short_address(url), ""), text))
        if self._lacking is not None:
            add(_Row("  ", "$text-muted", ("Continue", "", ""), f"with {self._lacking.url}"), KEEP)
        add(_Row("+ ", "$text-muted", ("Server URL", "", ""), "type an address"), OTHER)
        add(_Row("  ", "$text-muted", ("Demo", "", ""), "a scripted model, nothing to install"), DEMO)
        options.action_first()
        self._show_fields()

    def _say(self, text: str, sign: str = "") -> None:
        self._state.update(Content.assemble((sign, "$error"), (sanitize(text), "$text" if sign else "$text-muted")))
        self._show_fields()

    def _show_fields(self) -> None:
        """Scroll to the fields and what is said below them, if they are open."""
        if self._fields.display:
            self.query_one("#first-run").scroll_end(animate=False)

    def _folder(self) -> str:
        return sanitize_line(folder_text(self._host.workspace, Path.home()))

    def _details(self) -> Content:
        trust = "its own settings are ignored until you trust it" if self._host.trust.waiting() else ""
        key = (f"   {first_key(command('first.trust'))}", "$text"), (" review", "$text-muted")
        return Content.assemble(
            ("Folder   ", "$text-muted"),
            (self._folder(), "$text"),
            (f"   {trust}" if trust else "", "$warning"),
            *(key if trust else ()),
            ("\nSandbox  set up on the first command", "$text-muted"),
        )


def _server_row(server: ServerFound, model: ServedModel, *, is_first: bool) -> _Row:
    details = [short_details(model)] if model.name else []
    details += [server.note] if server.note else []
    name = model.name or ("" if server.note else "its own model")
    cells = (server.kind, short_address(server.url), name) if is_first else ("", "", name)
    if server.kind is ServerKind.KEPT:
        return _Row("○ ", "$text-muted", cells, server.note)
    sign, style = ("✗ ", "$error") if server.note and not server.models else ("✓ " if is_first else "  ", "$success")
    return _Row(sign, style, cells, ", ".join(details))


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
        ready = connect(app, workbench, sessions, panes, sending=workbench.sending)
        self._router.shared = (panes.plan, panes.files)
        keys = BindingsMap(bindings(Scope.WORKBENCH, Scope.MOVING, Scope.LINES, Scope.TEXT))
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

    async def _ask_first(self, host: SessionHost) -> None:
        """Ask what must be known before a session opens: which model, and whether the folder's own settings hold."""
        app, workbench = self._app, self._workbench
        lacking = None if host.setup_note or app.options.is_demo else await host.servers.choice_problem()
        if host.setup_note or lacking is not None:
            workbench.set_note("no model chosen yet")
            is_demo = await app.push_screen_wait(FirstRun(host, lacking, now=app.now))
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
ENOUGH = 100_000
COUNT_EVERY = 100  # to count what is set aside takes some ten milliseconds


class GcPolicy:
    """Decides when to collect.  `is_quiet` tells whether a pause would be felt by nobody."""

    def __init__(self, is_quiet: Callable[[], bool]) -> None:
        self._is_quiet = is_quiet
        self._looks = 0
        self._living: int | None = None
        self._is_due = False

    def begin(self) -> None:
        """Set aside what the program itself is made of."""
        self._set_aside()
        gc.set_threshold(YOUNG, NEVER_BY_ITSELF, NEVER_BY_ITSELF)
        gc.enable()

    def look(self) -> None:
        """Collect what is new, if there is enough of it; cheap where there is not."""
        if gc.get_count()[1] < BATCHES:
            return
        self._looks += 1
        if self._looks % COUNT_EVERY == 0:
            self._count()
        if self._is_due and self._is_quiet():
            gc.unfreeze()
            self._set_aside()
            return
        gc.collect(1)
        gc.freeze()

    def _count(self) -> None:
        now = gc.get_freeze_count()
        self._living = now if self._living is None else self._living
        self._is_due = now - self._living >= ENOUGH

    def _set_aside(self) -> None:
        vars(StylesCache)["get_inner_outer"].cache_clear()  # else what closed widgets drew stays
        gc.collect()
        gc.freeze()
        self._living, self._is_due = None, False
