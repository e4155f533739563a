"""The models of all servers that answer: take one for the session, load and unload, look again."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Static
from textual.worker import Worker

from lmtui.core.errors import LmtuiError
from lmtui.core.hosts import is_same_server
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import (
    ExamState,
    LoadProgress,
    ModelProfile,
    ModelServers,
    ServedModel,
    ServerFound,
    exam_words,
    model_facts,
    profile_facts,
)
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.model_list import ModelRow, head_row, list_row
from lmtui.tui.lines.styled_text import plain
from lmtui.tui.lines.table import Table
from lmtui.tui.modals.picker import AskText
from lmtui.tui.path_index import FuzzyPaths
from lmtui.tui.widgets.bars import HEIGHTS, Verbs
from lmtui.tui.workbench_api import Handler, WorkbenchApi

ModelId = tuple[str, str]
_Ending = tuple[str, LmtuiError | None]
Ended = Callable[[ModelId, str, LmtuiError | None], None]


class ModelLoads:
    """Knows what is being loaded, unloaded or examined; `exams` names the last.

    Args:
        ended: is told about each end: which model, in words, and the error where it failed.
    """

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self.progress: dict[ModelId, LoadProgress] = {}
        self.exams: set[ModelId] = set()
        self.changed: Callable[[], None] = lambda: None

    async def load(self, servers: ModelServers, model: ModelId, window_tokens: int) -> None:
        """Load a model; one that is being loaded already is left to that."""

        async def work() -> _Ending:
            said = ""
            async with aclosing(servers.load(*model, window_tokens)) as steps:
                async for step in steps:
                    said = step.text
                    self._put(model, step)
            return f"{model[1]}: {said}", None

        await self._to_the_end(model, work)

    async def unload(self, servers: ModelServers, model: ModelId) -> None:
        """Let a model go."""

        async def work() -> _Ending:
            self._put(model, LoadProgress("unloading"))
            await servers.unload(*model)
            return f"{model[1]}: unloaded", None

        await self._to_the_end(model, work)

    async def examine(self, servers: ModelServers, model: ModelId) -> None:
        """Examine a model; one that is cancelled has kept what it had when this returns."""

        def show(state: ExamState) -> None:
            if state.doing:
                self._put(model, LoadProgress(f"exam: {state.doing}"))

        async def work() -> _Ending:
            self.exams.add(model)
            self._put(model, LoadProgress("exam: looking at the server"))
            try:
                state = await servers.examine(*model, show)
            finally:
                self.exams.discard(model)
            said = exam_words(state)
            return f"{model[1]}, {said}", LmtuiError(said) if state.has_failed else None

        await self._to_the_end(model, work)

    async def _to_the_end(self, model: ModelId, work: Callable[[], Awaitable[_Ending]]) -> None:
        """Do something with a model that nothing is done with yet, and tell how it ended."""
        if model in self.progress:
            return
        try:
            said, problem = await work()
        except LmtuiError as error:
            said, problem = error.full_text(), error
        finally:
            self._take(model)
        self._ended(model, said, problem)

    def _put(self, model: ModelId, step: LoadProgress) -> None:
        self.progress[model] = step
        self.changed()

    def _take(self, model: ModelId) -> None:
        if self.progress.pop(model, None) is not None:
            self.changed()


FRAME_ROWS = 12
LEAST_WINDOW = 512
NOTHING = "No model server answers. Start one and search again."
_WINDOW = re.compile(r"([0-9][0-9.,_ ]{0,20}?)\s*(k?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelPicked:
    """A model of a server was chosen."""

    url: str
    model: str


class ModelDeeds(Protocol):
    """What the list can have done."""

    loads: ModelLoads

    async def find(self) -> Sequence[ServerFound]:
        """Look for servers."""

    def is_in_use(self, url: str, model: str) -> bool:
        """Tell whether the session on screen uses a model."""

    def load(self, model: ModelId, window_tokens: int) -> None:
        """Begin to load a model."""

    def unload(self, model: ModelId) -> None:
        """Begin to unload a model."""

    def examine(self, model: ModelId) -> None:
        """Begin to examine a model."""

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model before."""

    def give_up(self, model: ModelId) -> None:
        """Give up a load or an exam."""


class Models(ModalScreen[ModelPicked | None]):
    """Lists servers and models; what is loaded continues when the list is left."""

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.MODELS)]

    SCOPE: ClassVar[Scope] = Scope.MODELS

    def __init__(self, deeds: ModelDeeds) -> None:
        super().__init__()
        self._deeds = deeds
        self._servers: Sequence[ServerFound] = ()
        self._filter = Input(placeholder="a few characters of the name", compact=True, id="models-filter")
        self._filter.cursor_blink = False
        self._filter.display = False
        self._title = Static("MODELS", classes="box-title", markup=False)
        self._head = Static("", id="models-head", markup=False)
        self._list = Table[ModelRow](
            lambda row, width: list_row(row, width, deeds.loads.progress),
            lambda row: row.id,
            can_mark=lambda row: row.model is not None,
        )
        self._list.cursor.is_always_shown = True  # what is typed into the filter acts on it too
        self._list.empty_text = "looking for model servers …"
        self._state = Static("", id="models-state", markup=False)
        self._verbs = Verbs()
        self._news: Content | None = None

    def compose(self) -> ComposeResult:
        """Lay out title, filter, list, what is known of the marked model, and verbs."""
        with Vertical(classes="box wide", id="models-box"):
            yield self._title
            yield self._filter
            yield self._head
            yield self._list
            yield self._state
            yield self._verbs

    def on_mount(self) -> None:
        """Look for servers."""
        self._list.focus()
        self._verbs.show([*of_scope(Scope.MODELS), closing()])
        self._deeds.loads.changed = self._progressed
        self.action_models_again()

    def on_unmount(self) -> None:
        """Follow the loads no more."""
        self._deeds.loads.changed = lambda: None

    def on_resize(self) -> None:
        """Fit the columns to the width."""
        self.call_after_refresh(self._draw)

    # -- drawing --------------------------------------------------------------------------------------------------------

    async def _look(self) -> None:
        self._servers = await self._deeds.find()
        self._list.empty_text = NOTHING
        self._draw()

    def _draw(self) -> None:
        rows = self._rows()
        if self._filter.value.strip() and self._servers:
            self._list.empty_text = "no model has these characters"
        self._list.show(rows, self._wanted(rows))
        self._list.styles.height = max(1, min(self.size.height - FRAME_ROWS - self._verbs.size.height + 2, len(rows)))
        self._head.update(Content.styled(plain(head_row(self._list.content_width)), "$text-muted"))
        count = sum(1 for row in rows if row.model is not None)
        self._title.update(Content.assemble("MODELS", (f"  {count}", "$text-muted")))
        self._describe()

    def _rows(self) -> list[ModelRow]:
        wanted = self._filter.value.strip()
        names = [model.name for server in self._servers for model in server.models]
        found = set(FuzzyPaths(names).search(wanted)[0] if wanted else names)
        rows: list[ModelRow] = []
        for server in self._servers:
            models = [model for model in server.models if model.name in found]
            if models or not wanted:
                rows.append(ModelRow(server))
            rows += [ModelRow(server, model, self._deeds.is_in_use(server.url, model.name)) for model in models]
        return rows

    def _wanted(self, rows: Sequence[ModelRow]) -> ModelId | None:
        """Return which model is to be marked: the one that is, else the one in use, else the first."""
        models = [row for row in rows if row.model is not None]
        marked = self._list.current
        wanted = marked.id if marked is not None else next((row.id for row in models if row.is_in_use), None)
        first = models[0].id if models else None
        return wanted if any(row.id == wanted for row in models) else first

    def _progressed(self) -> None:
        self._list.redraw()
        self._describe()

    def _describe(self) -> None:
        current = self._list.current
        step = self._deeds.loads.progress.get(current.id) if current is not None else None
        if (self._news is not None and step is None) or current is None or current.model is None:
            self._state.update(self._news or "")
            return
        known = self._deeds.known(current.server.url, current.model)
        told = [step.text] if step else [*model_facts(current.model), *profile_facts(known)]
        facts = [sanitize_line(fact) for fact in told]
        name = sanitize_line(current.model.name)
        self._state.update(Content.assemble((name, "$text"), ("  " + " · ".join(facts), "$text-muted")))

    def said(self, text: str, *, is_error: bool) -> None:
        """Say how a load or an exam ended, until the cursor moves, and look again."""
        self._news = Content.styled(sanitize_line(text), "$error" if is_error else "$text")
        self._describe()
        if not is_error:
            self.action_models_again()

    # -- what can be done -----------------------------------------------------------------------------------------------

    @on(Table.Chosen)
    def action_models_use(self) -> None:
        """Take the marked model."""
        if self._list.current is not None:
            _ = self.dismiss(ModelPicked(*self._list.current.id))

    def action_models_again(self) -> None:
        """Look for servers again."""
        self.run_worker(self._look(), group="models-look", exclusive=True)

    def action_models_load(self) -> None:
        """Ask for a window and load the marked model."""
        current = self._list.current
        if current is None or current.model is None:
            return
        if not current.server.can_load:
            self._say_cannot(current.server)
            return
        self.run_worker(self._ask_and_load(current), group="models-ask", exclusive=True)

    async def _ask_and_load(self, row: ModelRow) -> None:
        assert row.model is not None
        most = f"up to {row.model.max_window_tokens:,}; " if row.model.max_window_tokens else ""
        question = AskText(
            f"Window in tokens for {sanitize_line(row.model.name)}", placeholder=f"{most}empty: the server's own"
        )
        typed = await self.app.push_screen_wait(question)
        if typed is None:
            return
        window = read_window(typed)
        if window is None:
            self._state.update(Content.styled(f"{typed!r} is no window; write it as 16384 or 16k", "$error"))
            return
        self._deeds.load(row.id, window)

    def action_models_unload(self) -> None:
        """Unload the marked model, or give up its load."""
        current = self._list.current
        if current is None:
            return
        if current.id in self._deeds.loads.progress:
            self._deeds.give_up(current.id)
        elif current.server.can_load:
            self._deeds.unload(current.id)
        else:
            self._say_cannot(current.server)

    def action_models_exam(self) -> None:
        """Examine the marked model, which continues when the list is left."""
        current = self._list.current
        if current is not None and current.model is not None and current.model.is_embedder:
            self._state.update(Content.styled("it embeds only: there is nothing to examine", "$warning"))
        elif current is not None:
            self._deeds.examine(current.id)

    def _say_cannot(self, server: ServerFound) -> None:
        text = f"{server.kind} serves what it was started with; it loads and unloads nothing for others"
        self._state.update(Content.styled(sanitize_line(text), "$warning"))

    def action_models_filter(self) -> None:
        """Show the filter."""
        self._filter.display = True
        self._filter.focus()

    def action_models_move(self, rows: int) -> None:
        """Move the cursor; far is to the first or the last model."""
        self._list.cursor.move(rows)
        self._news = None
        self._describe()

    @on(Input.Changed, "#models-filter")
    def _narrow(self) -> None:
        self._draw()

    @on(Input.Submitted, "#models-filter")
    def _narrowed(self) -> None:
        self._list.focus()

    def action_close_or_stop(self) -> None:
        """Leave the filter, or close."""
        if self._filter.display:
            self._filter.value, self._filter.display = "", False
            self._list.focus()
        else:
            _ = self.dismiss(None)


def read_window(typed: str) -> int | None:
    """Return the window that was typed (`16384`, `16,384`, `16k`), 0 for an empty text, None for what is none."""
    if not typed.strip():
        return 0
    match = _WINDOW.fullmatch(typed.strip())
    digits = re.sub(r"[.,_ ]", "", match[1]) if match else ""
    window = int(digits) * (1024 if match and match[2] else 1) if digits else 0
    return window if window >= LEAST_WINDOW else None


class ModelController:
    """Opens the list of models and does what is asked there; loads go on when it is left."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench
        self.loads = ModelLoads(self._ended)
        self._workers: dict[ModelId, Worker[None]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"model.choose": lambda _: self._choose()}

    def _choose(self) -> None:
        if self._workbench.sessions.host is not None:
            _ = self._workbench.app.push_screen(Models(self), self._picked)

    def _picked(self, picked: ModelPicked | None) -> None:
        sessions = self._workbench.sessions
        if picked is None or sessions.host is None:
            return
        if sessions.active is not None and is_same_server(sessions.active.facts.model.url, picked.url):
            sessions.active.session.set_model(picked.model)
        else:
            _ = self._workbench.app.run_worker(self._use(sessions.host.servers, picked), group="model-use", exclusive=True)

    async def _use(self, servers: ModelServers, picked: ModelPicked) -> None:
        """Use another server from now on; a model file is started for it, which takes a while."""
        name = sanitize_line(picked.model)
        self._workbench.say(f"taking {name} …")
        try:
            await servers.use(picked.url, picked.model)
        except LmtuiError as error:
            self._workbench.say(error.full_text(), "error")
            return
        place = place_text(picked.url)
        self._workbench.say(f"sessions opened from now on use {name} {place}; this one stays with its server (f4 opens one)")

    # -- what the list can have done ------------------------------------------------------------------------------------

    async def find(self) -> Sequence[ServerFound]:
        """Look for servers."""
        host = self._workbench.sessions.host
        return await host.servers.find() if host is not None else ()

    def is_in_use(self, url: str, model: str) -> bool:
        """Tell whether the session on screen uses a model."""
        active = self._workbench.active
        return active is not None and active.facts.model.name == model and is_same_server(active.facts.model.url, url)

    def load(self, model: ModelId, window_tokens: int) -> None:
        """Begin to load a model."""
        self._begin(model, lambda servers: self.loads.load(servers, model, window_tokens))

    def unload(self, model: ModelId) -> None:
        """Begin to unload a model."""
        self._begin(model, lambda servers: self.loads.unload(servers, model))

    def examine(self, model: ModelId) -> None:
        """Begin to examine a model."""
        self._begin(model, lambda servers: self.loads.examine(servers, model))

    def _begin(self, model: ModelId, work: Callable[[ModelServers], Coroutine[Any, Any, None]]) -> None:
        host = self._workbench.sessions.host
        if host is not None and model not in self.loads.progress:
            self._workers[model] = self._workbench.app.run_worker(work(host.servers), group="model-loads")

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model before."""
        host = self._workbench.sessions.host
        return host.servers.known(url, model) if host is not None else ModelProfile()

    def give_up(self, model: ModelId) -> None:
        """Give up a load or an exam."""
        worker = self._workers.pop(model, None)
        if worker is not None:
            text = "the exam was stopped, what it had measured is kept" if model in self.loads.exams else "given up"
            worker.cancel()
            self._tell(f"{model[1]}: {text}", is_error=False)

    def _ended(self, model: ModelId, text: str, error: LmtuiError | None) -> None:
        self._workers.pop(model, None)
        self._tell(text, is_error=error is not None)
        active = self._workbench.active
        if error is None and active is not None and not active.facts.model.role and self.is_in_use(*model):
            active.session.set_model(model[1])  # the window that is served now is asked for again

    def _tell(self, text: str, *, is_error: bool) -> None:
        screen = self._workbench.app.screen
        if isinstance(screen, Models):
            screen.said(text, is_error=is_error)
        else:
            self._workbench.say(text, "error" if is_error else "info")


def place_text(url: str) -> str:
    """Return where a server is, in words."""
    return f"at {sanitize_line(url)}" if "//" in url else "on this machine"
