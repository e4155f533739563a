"""The models of all servers that answer, below their servers: take one for the session, load and unload, look again."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from textual.content import Content
from textual.worker import Worker

from lmtui.core.connection_profiles import PROFILES_URL
from lmtui.core.errors import LmtuiError
from lmtui.core.hosts import is_same_server
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import (
    KEY_NOTES,
    LoadProgress,
    ModelServers,
    ServedModel,
    ServerFound,
    abilities,
    exam_text,
    model_details,
    pool_cells,
    profile_details,
    size_text,
)
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Line, Span, crop, fit, slice_line
from lmtui.tui.modals.list_dialog import GAP_CELLS, Cell, Column, ListDialog
from lmtui.tui.modals.picker import AskText, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.path_index import FuzzyPaths
from lmtui.tui.wording import window_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried

ModelId = tuple[str, str]
Work = Callable[[ModelServers], Awaitable[str]]


ROLE_NOTES = {
    ModelRole.PLANNER: "plans in plan mode",
    ModelRole.CODER: "main model of new sessions",
    ModelRole.REVIEWER: "reviews changes",
    ModelRole.PILOT: "not used yet",
    ModelRole.ANALYST: "explores in read-only sub-agents",
    ModelRole.SUMMARISER: "summarizes during compaction",
    ModelRole.TITLE: "names sessions",
    ModelRole.VISION: "looks at pictures",
    ModelRole.EMBEDDER: "finds notes and files by meaning",
}
IN_USE, LOADED, UNLOADED = "●", "○", "·"
_LOADS: Span = ("◐", "warn")
BAR_CELLS = 12
_BAD = ("drops tools", "no tools", "embeds only")
_OF_MODELS = ("load", "stop", "edit", "test")
LEAST_WINDOW = 512
EXAMPLE = "http://localhost:8080"
NOTHING = "No model server answers. Start one and refresh, or add one by its address."
_WINDOW = re.compile(r"([0-9][0-9.,_ ]{0,20}?)\s*(k?)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class ModelRow:
    """A line of the list; without a model, a server."""

    server: ServerFound
    model: ServedModel | None = None
    is_in_use: bool = False
    roles: tuple[str, ...] = ()

    @property
    def id(self) -> tuple[str, str]:
        """Return the key of a model: the address of its server, and its name."""
        return self.server.url, self.model.name if self.model else ""


def server_row(server: ServerFound, width: int) -> Line:
    """Return a server's line: its kind, address, state in the pool, and problem."""
    address = short_address(server.url)
    head = f"{sanitize_line(server.kind)}  "
    row = server.pool
    pool: Line = (
        () if row is None else (("  ● " if row.is_up else "  ○ ", "good" if row.is_up else "bad"), (pool_cells(row), "muted"))
    )
    why = row.problem if row is not None and row.problem else server.note
    note = f"  {sanitize_line(why)}" if why else ""
    room = max(0, width - len(head) - len(address))
    line: list[Span] = [(head, "strong"), (sanitize_line(address), "muted")]
    for text, role in (*pool, (note, "warn")):
        line.append((fit(text, room), role))
        room = max(0, room - len(text))
    return tuple(line)


def short_address(url: str) -> str:
    """Return an address as a list shows it; the files of this machine have none."""
    if url.endswith(":"):
        return "from your settings" if url == PROFILES_URL else "on this machine"
    return sanitize_line(url.removeprefix("http://").rstrip("/").removesuffix("/v1"))


def bar(ratio: float) -> str:
    """Return a progress bar, empty if the ratio is unknown."""
    if not 0 <= ratio <= 1:
        return ""
    done = round(ratio * BAR_CELLS)
    return "━" * done + "╌" * (BAR_CELLS - done) + f" {ratio:.0%} "


def _sign(row: ModelRow, model: ServedModel) -> Span:
    if row.is_in_use:
        return IN_USE, "accent"
    if model.is_loaded is None:
        return " ", ""
    return (LOADED, "good") if model.is_loaded else (UNLOADED, "muted")


def _window(model: ServedModel) -> Span:
    if model.window_tokens:
        return window_text(model.window_tokens), ""
    return (f"to {window_text(model.max_window_tokens)}", "muted") if model.max_window_tokens else ("unknown", "muted")


def _able(row: ModelRow, model: ServedModel) -> Line:
    words = dict.fromkeys((*row.roles, *abilities(model)))
    return tuple((f"{word} ", "accent" if word in row.roles else "warn" if word in _BAD else "muted") for word in words)


class Models(ListDialog[ModelRow, ModelId | None]):
    """Lists servers and models; what is loaded continues when the list is left."""

    NAME, HEADING, CHOOSING = "models", "Models", "use"
    FILTER = "Type to filter"
    COLUMNS = (
        Column(most=1), Column("model", 48), Column("context", 10), Column("quant", 10, from_width=84),
        Column("size", 8, from_width=56), Column("capabilities"),
    )  # fmt: skip
    VERBS = (
        ("load", "load"), ("stop", "unload"), ("edit", "role"), ("test", "test"), ("add", "add a server"),
        ("run", "refresh"),
    )  # fmt: skip

    def __init__(self, actions: ModelController) -> None:
        super().__init__()
        self._actions, self._url = actions, ""
        self.table.empty_text = "Looking for model servers…"

    def on_mount(self) -> None:
        self._actions.changed = self._progressed
        self.show()

    def on_unmount(self) -> None:
        self._actions.changed = lambda: None

    def key(self, row: ModelRow) -> ModelId | None:
        """Return what a model is known by, or a server that needs a key; another server's line is a heading."""
        return row.id if row.model is not None or row.server.note in KEY_NOTES else None

    def cells(self, row: ModelRow) -> Sequence[Cell]:
        """Return a model in columns."""
        model = row.model
        if model is None:
            return ("",) * len(self.COLUMNS)
        sign = _LOADS if model.is_loading or row.id in self._actions.progress else _sign(row, model)
        name: Span = (sanitize_line(model.name) or "(its own model)", "strong" if row.is_in_use else "")
        if row.server.url == PROFILES_URL:
            return sign, name, "", "", "", (sanitize_line(model.instance), "muted")
        quant = sanitize_line(model.quantisation).replace(" - Medium", "_M")
        return sign, name, _window(model), (quant, "muted"), (size_text(model.size_bytes), "muted"), _able(row, model)

    def line(self, row: ModelRow, width: int) -> Line:
        """Return a server's line, a model in columns, or how far its load is."""
        if row.model is None:
            return server_row(row.server, width)
        progress, line = self._actions.progress.get(row.id), super().line(row, width)
        if progress is None:
            return line
        sign, name = self.column_cells(width)[:2]
        head = slice_line(line, 0, sign + name + 2 * GAP_CELLS)
        text = sanitize_line(progress.text.replace(f" {row.model.name}", "", 1))
        return crop((*head, (bar(progress.ratio) + text, "accent")), width)

    def matching(self, rows: Sequence[ModelRow], typed: str) -> Sequence[ModelRow]:
        """Return the models with these characters, each below its server."""
        names = [row.model.name for row in rows if row.model is not None]
        found = set(FuzzyPaths(names).search(typed)[0])
        servers = {row.server.url for row in rows if row.model is not None and row.model.name in found}
        return [row for row in rows if (row.model.name in found if row.model is not None else row.server.url in servers)]

    def about(self, row: ModelRow | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what is known of a model, or how far its load is."""
        if row is None or row.model is None or row.server.url == PROFILES_URL:
            note = "Enter asks for its API key" if row is not None and row.model is None else ""
            return note, self.verbs(*_OF_MODELS, *([] if row else ["picker.open"]))
        step = self._actions.progress.get(row.id)
        known = self._actions.host.servers.known(row.server.url, row.model)
        details = [step.text] if step else [*model_details(row.model), *profile_details(known)]
        name, text = sanitize_line(row.model.name), " · ".join(map(sanitize_line, details))
        left_out = [*(() if row.server.can_load else ("load",)), *(("test",) if row.model.is_embedder else ())]
        left_out += [] if row.server.can_load or step else ["stop"]
        return Content.assemble((name, "$text"), (f"  {text}", "$text-muted")), self.verbs(*left_out)

    async def rows(self) -> Sequence[ModelRow]:
        """Look for servers."""
        in_use, roles = self._actions.is_in_use, self._actions.roles_of
        rows: list[ModelRow] = []
        servers = self._actions.host.servers
        for found in await servers.find():
            url, pool = found.url, (row for row in servers.pool() if is_same_server(row.url, found.url))
            server = replace(found, pool=next(pool, None))
            rows += [
                ModelRow(server),
                *(ModelRow(server, each, in_use(url, each.name), roles(url, each.name)) for each in server.models),
            ]
        self.table.empty_text = "No model has these characters" if rows else NOTHING
        return rows

    def show(self, rows: Sequence[ModelRow] | None = None, at: object = None) -> None:
        here = next((row.id for row in rows or () if row.is_in_use), None)
        super().show(rows, at or (here if self.current is None else None))
        self.box.count(str(sum(row.model is not None for row in self.table.rows)))

    def _progressed(self) -> None:
        self.table.redraw()
        self.describe()

    # -- what can be done -----------------------------------------------------------------------------------------------

    def said(self, text: str, *, is_error: bool) -> None:
        """Say how a load or a test ended, until the cursor moves, and look again."""
        self.say(text, "$error" if is_error else "$text")
        if not is_error:
            self.reload()

    def act(self) -> None:
        """Take the marked model, or ask for the key of the marked server."""
        if self.current is not None and self.current.model is None:
            self.run_worker(self._add(self.current.server.url), group="models-ask", exclusive=True)
        elif self.current is not None:
            _ = self.dismiss(self.current.id)

    async def do_add(self, _: ModelRow | None) -> None:
        """Ask for the address of a server and its key."""
        await self._add("")

    async def _add(self, at: str) -> None:
        refusing = next((row.server.url for row in self.all_rows if row.server.note in KEY_NOTES), "")
        ask, known = self.app.push_screen_wait, self._url or refusing
        url: str | None = at or await ask(AskText("Server URL", value=known, placeholder=EXAMPLE, is_needed=True))
        key = await ask(AskText("API key", placeholder="empty: no key, or the saved one", is_secret=True)) if url else None
        if url and key is not None:
            self._url = url
            self.say(f"Connecting to {url}…", "$text-muted")
            try:
                await self._actions.host.servers.use(url, "", key)
            except LmtuiError as error:
                self.said(f"✗ {error.full_text()}", is_error=True)
            else:
                await self._reload()
                found = [row.id for row in self.all_rows if row.model is not None and is_same_server(row.server.url, url)]
                if len(found) == 1:
                    _ = self.dismiss(found[0])
                else:
                    self.show(at=next(iter(found), None))
                    self.say(f"Added {url}; new sessions use it, Enter this one", "$text")

    async def do_load(self, row: ModelRow) -> None:
        """Ask for a window and load a model."""
        assert row.model is not None
        most = f"up to {row.model.max_window_tokens:,}; " if row.model.max_window_tokens else ""
        question = AskText(
            f"Context in tokens for {sanitize_line(row.model.name)}", placeholder=f"{most}empty: the server's own"
        )
        typed = await self.app.push_screen_wait(question)
        window = read_window(typed) if typed is not None else None
        if window is not None:
            self._actions.load(row.id, window)
        elif typed is not None:
            self.say(f"{typed!r} is not a context size; write it as 16384 or 16k", "$error")

    def do_stop(self, row: ModelRow) -> None:
        """Unload a model, or give up its load."""
        if row.id in self._actions.progress:
            self._actions.give_up(row.id)
        else:
            self._actions.unload(row.id)

    async def do_edit(self, row: ModelRow) -> None:
        """Ask which kind of work a model is to do."""
        await self._actions.ask_role(*row.id)

    def do_test(self, row: ModelRow) -> None:
        """Test how a model calls tools, which continues when the list is left."""
        self._actions.examine(row.id)

    def do_run(self, _: ModelRow | None) -> None:
        """Look for servers again, which is done after every change."""
        self.say("Looked again", "$text-muted")


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
        self.progress: dict[ModelId, LoadProgress] = {}
        self.host: SessionHost  # once it is asked for models
        self.changed: Callable[[], None] = lambda: None
        self._workers: dict[ModelId, Worker[None]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"model.choose": lambda _: self._choose()}

    def _choose(self) -> None:
        if (host := self._workbench.sessions.host) is not None:
            self.host = host
            _ = self._workbench.app.push_screen(Models(self), self._picked)

    def _picked(self, picked: ModelId | None) -> None:
        if picked is not None and self._workbench.active is not None:
            work = tried(self._workbench, self._switch(self._workbench.active.session.id, *picked))
            _ = self._workbench.app.run_worker(work, group="model-use", exclusive=True)

    async def _switch(self, session_id: str, url: str, model: str) -> None:
        """Let a session use a model from now on; a model file is started for it, which takes a while."""
        name = sanitize_line(model)
        if "//" not in url and url != PROFILES_URL:
            self._workbench.say(f"starting {name} …")
        await self.host.switch_model(session_id, url, model)
        self._workbench.say(f"now using {name} {place_text(url)}")

    # -- what the list can have done ------------------------------------------------------------------------------------

    def is_in_use(self, url: str, model: str) -> bool:
        """Tell whether the session on screen uses a model."""
        active = self._workbench.active
        if active is None:
            return False
        used = active.state.model
        return model == (used.name or used.default_name) and is_same_server(used.url, url)

    async def ask_role(self, url: str, model: str) -> None:
        """Ask which kind of work a model is to do; the role that it has already is taken away."""
        if not self._is_server_in_use(url):
            self._tell("Roles apply to the server in use: use a model of this server first", is_error=True)
            return
        now = {role: own.model for role, own in self.host.settings.roles().items() if own.model}
        notes = {role: ROLE_NOTES[role] + (f"; now {sanitize_line(now[role])}" if role in now else "") for role in ModelRole}
        notes |= {role: "this model; choose it to remove the role" for role in ModelRole if now.get(role) == model}
        picker = Picker(
            f"Role for {sanitize_line(model)}", [Choice(each, each, notes[each]) for each in ModelRole], noun="role"
        )
        chosen = await self._workbench.app.push_screen_wait(picker)
        if chosen is None:
            return
        role = ModelRole(chosen)
        has_it = now.get(role) == model
        try:
            await asyncio.to_thread(self.host.settings.set_role, role, "" if has_it else model)
        except LmtuiError as error:
            self._tell(error.full_text(), is_error=True)
        else:
            done = f"{role}: the model of the session" if has_it else f"{role}: {model}"
            self._tell(f"{done}; new sessions use it", is_error=False)

    def _is_server_in_use(self, url: str) -> bool:
        active = self._workbench.active
        return active is not None and is_same_server(active.state.model.url, url)

    def roles_of(self, url: str, model: str) -> tuple[str, ...]:
        """Return the roles of a model; only those of the server in use have some."""
        names, roles = (model, model.removesuffix(":latest")), self.host.settings.roles()
        return tuple(str(role) for role, own in roles.items() if own.model in names and self._is_server_in_use(url))

    def load(self, model: ModelId, window_tokens: int) -> None:
        """Begin to load a model."""

        async def work(servers: ModelServers) -> str:
            last = LoadProgress("")

            def show(step: LoadProgress) -> None:
                nonlocal last
                last = step
                self._put(model, step)

            await servers.load(*model, window_tokens, show)
            return last.text

        self._begin(model, work)

    def unload(self, model: ModelId) -> None:
        """Begin to unload a model."""

        async def work(servers: ModelServers) -> str:
            self._put(model, LoadProgress("unloading"))
            await servers.unload(*model)
            return "unloaded"

        self._begin(model, work)

    def examine(self, model: ModelId) -> None:
        """Begin to test how a model calls tools."""

        async def work(servers: ModelServers) -> str:
            self._put(model, LoadProgress("testing its tool calls"))
            result = await servers.examine(*model)
            if not result.call_form:
                raise LmtuiError(f"{model[1]}: {exam_text(result)}")
            return exam_text(result)

        self._begin(model, work)

    def _begin(self, model: ModelId, work: Work) -> None:
        if model not in self._workers:
            self._workers[model] = self._workbench.app.run_worker(self._do(model, work, self.host.servers), group="model-loads")

    async def _do(self, model: ModelId, work: Work, servers: ModelServers) -> None:
        """Do something with a model and say how it ended."""
        is_done = False
        try:
            said, is_done = f"{model[1]}: {await work(servers)}", True
        except LmtuiError as error:
            said = error.full_text()
        finally:
            self._workers.pop(model, None)
            if self.progress.pop(model, None) is not None:
                self.changed()
        self._tell(said, is_error=not is_done)
        active = self._workbench.active
        if is_done and active is not None and not active.state.model.role and self.is_in_use(*model):
            active.session.set_model(model[1])  # the window that is served now is asked for again

    def _put(self, model: ModelId, step: LoadProgress) -> None:
        self.progress[model] = step
        self.changed()

    def give_up(self, model: ModelId) -> None:
        """Give up a load or a test."""
        worker = self._workers.get(model)
        if worker is not None:
            worker.cancel()
            self._tell(f"{model[1]}: given up", is_error=False)

    def _tell(self, text: str, *, is_error: bool) -> None:
        screen = self._workbench.app.screen
        if isinstance(screen, Models):
            screen.said(text, is_error=is_error)
        else:
            self._workbench.say(text, "error" if is_error else "info")


def place_text(url: str) -> str:
    """Return where a server is, in words."""
    near = "as your settings say" if url == PROFILES_URL else "on this machine"
    return f"at {sanitize_line(url)}" if "//" in url else near
