"""The first screen where no model is chosen, or the chosen server does not answer: servers found, an address, the demo."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Center, Horizontal, Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.errors import LmtuiError
from lmtui.core.hosts import is_same_server
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.servers import KNOWN_ADDRESSES, ServedModel, ServerFound, ServerKind, short_details
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, bindings, command, first_key, key_of, of_scope
from lmtui.tui.lines.styled_text import fit, pad
from lmtui.tui.modals.models import short_address
from lmtui.tui.modals.results import Chosen
from lmtui.tui.modals.trust_question import trust_dialog
from lmtui.tui.widgets.bars import HEIGHTS, Bar, Part, Spinner, Verbs
from lmtui.tui.wording import folder_text

DEMO = "demo"
OTHER = "other"
KEEP = "keep"
KIND_CELLS, URL_CELLS, MODEL_CELLS, DETAIL_CELLS = 12, 17, 30, 18
TIGHT_CELLS, TIGHT = 70, (11, 8, 20)
SHOWN_PORTS = 4
ROWS = [*HEIGHTS[:-1], (22, "-high")]
WELCOME = "Choose the model server to work with. You can change it at any time with {}."
NOTHING = "No model server answers. Start LM Studio, Ollama, llama.cpp or vLLM, then press {}."


@dataclass(frozen=True, slots=True)
class _Row:
    """A line of the list: a sign, then kind, address and model of a server, then what is known of it."""

    sign: str
    style: str
    cells: tuple[str, str, str]
    details: str

    def draw(self, width: int) -> Content:
        """Return it in columns; empty cells at its end take no room, a local host none in a narrow one."""
        kind, address, model = map(sanitize_line, self.cells)
        wide = KIND_CELLS, URL_CELLS, max(TIGHT[2], min(MODEL_CELLS, width - KIND_CELLS - URL_CELLS - DETAIL_CELLS))
        if width < TIGHT_CELLS:
            wide, address = TIGHT, address.removeprefix("127.0.0.1")
        texts = [kind, address, model]
        while texts and not texts[-1]:
            texts.pop()
        columns = zip(texts, wide, ("$text", "$text-muted", "$text"), strict=False)
        parts = [(pad(fit(text, cells - 1), cells), color) for text, cells, color in columns]
        return Content.assemble((self.sign, self.style), *parts, (sanitize_line(self.details), "$text-muted"))


class FirstRun(Screen[Chosen]):
    """Looks for servers and lets one be chosen; the result says what the session will talk to.

    `silent` is the address of the server that was chosen and does not answer.
    """

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.FIRST_RUN)]

    VERTICAL_BREAKPOINTS = ROWS
    SCOPE: ClassVar[Scope] = Scope.FIRST_RUN

    def __init__(self, host: SessionHost, silent: str = "", *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._host, self._now, self._silent = host, now, silent
        self._details_line = Static(self._details(), id="first-details", markup=False)
        self._places: dict[str, tuple[str, str]] = {}  # a server and one of its models; an empty one is its own choice
        self._options = OptionList(compact=True, markup=False, id="first-list")
        self._address = Input(placeholder="http://localhost:8080", compact=True, id="first-address")
        self._address.cursor_blink = False
        self._field = Horizontal(Static("Server URL", id="first-label"), self._address, id="first-field")
        self._field.display = False
        self._state = Static("", id="first-state", markup=False)
        self._verbs = Verbs(id="first-verbs")

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        head = Bar(id="first-head")
        head.show([Part("lmtui", "bold $accent"), Part(self._folder(), "$text-muted", 1)], [])
        yield head
        with Center(id="first-body"), Vertical(id="first-run"):
            yield Static(Content.styled("Welcome to lmtui", "bold"), markup=False)
            yield Static(self._note(), id="first-note", markup=False)
            yield self._options
            yield self._field
            yield self._state
            yield self._details_line
        yield self._verbs

    def _note(self) -> Content:
        welcome = WELCOME.format(key_of("model.choose"))
        if not self._silent:
            return Content.styled(welcome, "$text-muted")
        again = f"Start it and press {key_of('first.again')}, or choose another."
        return Content.assemble(
            ("✗ ", "$error"), (f"No server at {sanitize_line(self._silent)}. ", "$text"), (again, "$text-muted")
        )

    def on_mount(self) -> None:
        """Look for servers."""
        self._options.focus()
        self._draw_verbs()
        self.action_first_again()

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
            question = trust_dialog(self._host, now=self._now)
            _ = self.app.push_screen(question, self._trust_answered)

    def _trust_answered(self, _: bool | None) -> None:
        self._details_line.update(self._details())
        self._draw_verbs()

    def action_close_or_stop(self) -> None:
        """Leave the address."""
        self._field.display = False
        self._say("")
        self._options.focus()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_id or "")

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self._use(event.value.strip(), "")

    def _choose(self, choice: str) -> None:
        if choice == OTHER:
            self._say("")
            self._field.display = True
            self._address.focus()
        elif choice == KEEP:
            _ = self.dismiss(Chosen.SERVER)
        elif choice == DEMO:
            self._start(self._host.start_demo(), Chosen.DEMO)
        elif choice in self._places:
            self._use(*self._places[choice])

    def _use(self, url: str, model: str) -> None:
        self._say(f"Connecting to {sanitize_line(model or url)}…")
        self._start(self._host.servers.use(url, model), Chosen.SERVER)

    def _start(self, work: Awaitable[None], chosen: Chosen) -> None:
        self.run_worker(self._try(work, chosen), group="first-run-start", exclusive=True)

    async def _look(self) -> None:
        servers = await self._host.servers.find()
        self._fill(servers)
        if not servers and not self._field.display:
            self._say(NOTHING.format(key_of("first.again")))

    async def _try(self, work: Awaitable[None], chosen: Chosen) -> None:
        try:
            await work
        except LmtuiError as error:
            self._state.update(Content.assemble(("✗ ", "$error"), (sanitize(error.full_text()), "$text")))
            return
        _ = self.dismiss(chosen)

    def _fill(self, servers: Sequence[ServerFound] | None) -> None:
        """List the servers that answered and the usual ports that did not; without servers, they are being asked."""
        options, found = self._options, servers or ()
        options.clear_options()
        self._places.clear()

        def add(row: _Row, key: str = "") -> None:
            options.add_option(Option(row.draw(self.app.size.width), id=key or None, disabled=not key))

        for server in found:
            is_none = server.kind in (ServerKind.UNKNOWN, ServerKind.FILES) and not server.models
            for number, model in enumerate(server.chat_models or (ServedModel(""),)):
                key = f"{len(self._places)}"
                self._places[key] = server.url, model.name
                add(_server_row(server, model, is_first=not number), "" if is_none else key)
        sign, text = (Spinner.SIGNS[0], "asking…") if servers is None else ("○", "no answer")
        for kind, url in KNOWN_ADDRESSES[:SHOWN_PORTS]:
            if not any(is_same_server(each.url, url) for each in found if "//" in each.url):
                add(_Row(f"{sign} ", "$text-muted", (kind, short_address(url), ""), text))
        if self._silent:
            add(_Row("▸ ", "$text-muted", ("Continue", "", ""), f"with {self._silent}"), KEEP)
        add(_Row("+ ", "$text-muted", ("Server URL", "", ""), "type an address"), OTHER)
        add(_Row("▸ ", "$text-muted", ("Demo", "", ""), "a scripted model, nothing to install"), DEMO)
        options.action_first()

    def _say(self, text: str) -> None:
        self._state.update(Content.styled(sanitize(text), "$text-muted"))

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
    sign, style = ("✗ ", "$error") if server.note and not server.models else ("✓ " if is_first else "  ", "$success")
    return _Row(sign, style, cells, ", ".join(details))
