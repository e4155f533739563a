"""The first screen where no model is chosen yet: which servers answer here, another address, or the demo."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import Screen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.servers import ServedModel, ServerFound, ServerKind, model_details, short_details
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, bindings, command, first_key, of_scope
from lmtui.tui.lines.model_list import short_address
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.results import Chosen
from lmtui.tui.modals.trust_question import trust_dialog
from lmtui.tui.widgets.bars import HEIGHTS, Verbs
from lmtui.tui.wording import folder_text

DEMO = "demo"
OTHER = "other"
KEEP = "keep"
KIND_CELLS, URL_CELLS, MODEL_CELLS = 11, 17, 28
WIDE_FACTOR = 1.4
WIDE_CELLS = 110
ROWS = [*HEIGHTS[:-1], (22, "-high")]


@dataclass(frozen=True, slots=True)
class Place:
    """A server and one of its models; an empty model is the server's own choice."""

    url: str
    model: str


class FirstRun(Screen[Chosen]):
    """Looks for servers and lets one be chosen; the result says what the session will talk to."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.FIRST_RUN)]

    VERTICAL_BREAKPOINTS = ROWS
    SCOPE: ClassVar[Scope] = Scope.FIRST_RUN

    def __init__(self, host: SessionHost, silent: str = "", *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._host, self._now, self._silent = host, now, silent
        self._details_line = Static(self._details(), id="first-details", markup=False)
        self._places: dict[str, Place] = {}
        self._options = OptionList(compact=True, markup=False, id="first-list")
        self._address = Input(placeholder="http://127.0.0.1:8080", compact=True, id="first-address")
        self._address.cursor_blink = False
        self._address.display = False
        self._state = Static("", id="first-state", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the question."""
        with Vertical(id="first-run"):
            yield Static(Content.styled("lmtui", "bold $accent"), markup=False)
            yield Static(self._note(), id="first-note", markup=False)
            yield Static(Content.styled("Which model?", "bold"), id="first-question", markup=False)
            yield self._options
            yield self._address
            yield self._state
            yield self._details_line
            yield self._verbs

    def _note(self) -> str:
        if not self._silent:
            return self._host.setup_note
        return f"No answer from {sanitize_line(self._silent)}, the server that you chose last. Start it, or choose another."

    def on_mount(self) -> None:
        """Look for servers."""
        self._options.focus()
        self._draw_verbs()
        self.action_first_again()

    def _draw_verbs(self) -> None:
        brings = bool(self._host.trust.waiting())
        found = [each for each in of_scope(Scope.FIRST_RUN) if brings or each.id != "first.trust"]
        self._verbs.show([*found, command("app.leave")])

    def action_first_again(self) -> None:
        """Look for servers again."""
        self._say("looking for model servers on the usual ports …")
        self._fill(())
        self.run_worker(self._look(), group="first-run", exclusive=True)

    def action_first_start(self) -> None:
        """Use the marked line."""
        options = self._options
        if options.highlighted is not None:
            self._choose(options.get_option_at_index(options.highlighted).id or "")

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
        self._address.display = False
        self._options.focus()

    @on(OptionList.OptionSelected)
    def _clicked(self, event: OptionList.OptionSelected) -> None:
        self._choose(event.option_id or "")

    @on(Input.Submitted)
    def _typed(self, event: Input.Submitted) -> None:
        if event.value.strip():
            self._start(self._use(Place(event.value.strip(), "")))

    def _choose(self, choice: str) -> None:
        if choice == OTHER:
            self._address.display = True
            self._address.focus()
        elif choice == KEEP:
            _ = self.dismiss(Chosen.SERVER)
        elif choice == DEMO:
            self._start(self._demo())
        elif choice in self._places:
            self._start(self._use(self._places[choice]))

    def _start(self, work: object) -> None:
        self.run_worker(work, group="first-run-start", exclusive=True)  # type: ignore[arg-type]  # a coroutine

    async def _look(self) -> None:
        servers = await self._host.servers.find()
        self._fill(servers)
        self._say("" if servers else "No model server answers. Start one (LM Studio, Ollama, llama.cpp …) and search again.")

    async def _use(self, place: Place) -> None:
        self._say(f"taking {sanitize_line(place.model or place.url)} …")
        try:
            await self._host.servers.use(place.url, place.model)
        except LmtuiError as error:
            self._say(f"✗ {error.full_text()}", "$error")
            return
        _ = self.dismiss(Chosen.SERVER)

    async def _demo(self) -> None:
        try:
            await self._host.start_demo()
        except LmtuiError as error:
            self._say(error.full_text(), "$error")
            return
        _ = self.dismiss(Chosen.DEMO)

    def _fill(self, servers: Sequence[ServerFound]) -> None:
        options = self._options
        options.clear_options()
        self._places.clear()
        factor = WIDE_FACTOR if self.app.size.width >= WIDE_CELLS else 1.0
        for server in servers:
            for model in server.chat_models or (ServedModel(""),):
                key = f"{len(self._places)}"
                self._places[key] = Place(server.url, model.name)
                is_none = server.kind in (ServerKind.UNKNOWN, ServerKind.FILES) and not server.models
                options.add_option(Option(_server_line(server, model, factor), id=key, disabled=is_none))
        if self._silent:
            kept = f"continue with {sanitize_line(self._silent)} (it is still starting)"
            options.add_option(Option(Content.styled(kept, "$text"), id=KEEP))
        options.add_option(Option(Content.styled("another address…", "$text"), id=OTHER))
        options.add_option(Option(Content.styled("no model yet: show me the demo", "$text"), id=DEMO))
        options.highlighted = 0

    def _say(self, text: str, style: str = "$text-muted") -> None:
        self._state.update(Content.styled(sanitize(text), style))

    def _trust_parts(self) -> list[tuple[str, str]]:
        """Return whether the folder is trusted; nothing where it brings nothing."""
        if not self._host.trust.waiting():
            return []
        key = first_key(command("first.trust"))
        text = "\nTrusted   ", "no, its own settings are ignored until you say so"
        return [(text[0], "$text-muted"), (text[1], "$warning"), (f"   {key}", "bold $accent"), (" look", "$text")]

    def _details(self) -> Content:
        folder = folder_text(self._host.workspace, Path.home())
        return Content.assemble(
            ("Folder    ", "$text-muted"),
            (sanitize_line(folder), "$text"),
            *self._trust_parts(),
            ("\nSandbox   ", "$text-muted"),
            ("chosen and tested when the first command runs; it is then always on screen", "$text-muted"),
        )


def _server_line(server: ServerFound, model: ServedModel, factor: float) -> Content:
    address = short_address(server.url)
    details = [] if not model.name else model_details(model) if factor > 1 else [short_details(model)]
    if server.note:
        details.append(sanitize_line(server.note))
    return Content.assemble(
        (_column(server.kind, KIND_CELLS * factor), "$text"),
        (_column(address, URL_CELLS * factor), "$text-muted"),
        (_column(model.name or ("" if server.note else "its own model"), MODEL_CELLS * factor), "$text"),
        (sanitize_line(", ".join(details)), "$text-muted"),
    )


def _column(text: str, cells: float) -> str:
    return fit(sanitize_line(text), int(cells) - 1).ljust(int(cells))
