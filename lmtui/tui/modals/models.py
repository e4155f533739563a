"""The models of all servers that answer: take one for the session, load and unload, look again.

Servers are groups of rows, a model in each: whether it is loaded, its window, size and abilities.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from functools import partial

from textual import work
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
    ServerFound,
    exam_text,
    model_details,
    profile_details,
)
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Command, Scope
from lmtui.tui.lines.styled_text import Line
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.model_rows import ModelRow, count_text, head_row, list_row, with_pool
from lmtui.tui.modals.picker import AskText, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.path_index import FuzzyPaths
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
LEAST_WINDOW = 512
_POOL_S = 1.0
NOTHING = "No model server answers. Start one and refresh, or add one by its address."
_WINDOW = re.compile(r"([0-9][0-9.,_ ]{0,20}?)\s*(k?)", re.IGNORECASE)


class Models(ListDialog[ModelRow, ModelId | None]):
    """Lists servers and models; what is loaded continues when the list is left."""

    NAME, HEADING, SCOPE, CHOOSING = "models", "Models", Scope.MODELS, "use"
    FILTER = "Type to filter"

    def __init__(self, actions: ModelController) -> None:
        super().__init__()
        self._actions, self._url = actions, ""
        self.table.empty_text = "Looking for model servers…"

    def on_mount(self) -> None:
        self._actions.changed = self._progressed
        self.set_interval(_POOL_S, partial(_show_pool, self, self._actions))
        self.show()
        self.action_models_again()

    def on_unmount(self) -> None:
        self._actions.changed = lambda: None

    def key(self, row: ModelRow) -> ModelId | None:
        """Return what a model is known by, or a server that needs a key; another server's line is a heading."""
        return row.id if row.model is not None or row.server.note in KEY_NOTES else None

    def line(self, row: ModelRow, width: int) -> Line:
        """Return a server's line or a model's."""
        return list_row(row, width, self._actions.progress)

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        return head_row(width)

    def matching(self, rows: Sequence[ModelRow], typed: str) -> Sequence[ModelRow]:
        """Return the models with these characters, each below its server."""
        names = [row.model.name for row in rows if row.model is not None]
        found = set(FuzzyPaths(names).search(typed)[0])
        servers = {row.server.url for row in rows if row.model is not None and row.model.name in found}
        return [row for row in rows if (row.model.name in found if row.model is not None else row.server.url in servers)]

    def about(self, row: ModelRow | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what is known of a model, or how far its load is."""
        if row is None or row.model is None or row.server.url == PROFILES_URL:
            return "Enter asks for its API key." if row is not None and row.model is None else "", self.verbs()
        step = self._actions.progress.get(row.id)
        known = self._actions.host.servers.known(row.server.url, row.model)
        details = [step.text] if step else [*model_details(row.model), *profile_details(known)]
        name, text = sanitize_line(row.model.name), " · ".join(map(sanitize_line, details))
        return Content.assemble((name, "$text"), (f"  {text}", "$text-muted")), self.verbs()

    @work(group="models-look", exclusive=True)
    async def action_models_again(self) -> None:
        """Look for servers again."""
        in_use, roles = self._actions.is_in_use, self._actions.roles_of
        rows: list[ModelRow] = []
        for server in await self._actions.host.servers.find():
            url = server.url
            rows += [
                ModelRow(server),
                *(ModelRow(server, each, in_use(url, each.name), roles(url, each.name)) for each in server.models),
            ]
        self.table.empty_text = "No model has these characters" if rows else NOTHING
        here = next((row.id for row in rows if row.is_in_use), None)
        self.show(rows, here if self.current is None else None)

    def show(self, rows: Sequence[ModelRow] | None = None, at: object = None) -> None:
        super().show(rows, at)
        self.box.count(count_text(self.all_rows, sum(row.model is not None for row in self.table.rows)))

    def _progressed(self) -> None:
        self.table.redraw()
        self.describe()

    # -- what can be done -----------------------------------------------------------------------------------------------

    def said(self, text: str, *, is_error: bool) -> None:
        """Say how a load or a test ended, until the cursor moves, and look again."""
        self.say(text, "$error" if is_error else "$text")
        if not is_error:
            self.action_models_again()

    def _marked_model(self) -> ModelRow | None:
        return self.current if self.current is not None and self.current.model is not None else None

    def act(self) -> None:
        """Take the marked model, or ask for the key of the marked server."""
        if self._marked_model() is None and self.current is not None:
            self.action_models_add(self.current.server.url)
        elif self.current is not None:
            _ = self.dismiss(self.current.id)

    @work(group="models-ask", exclusive=True)
    async def action_models_add(self, at: str = "") -> None:
        """Ask for the address of a server, if none is given, and its key."""
        refusing = next((row.server.url for row in self.all_rows if row.server.note in KEY_NOTES), "")
        ask, known = self.app.push_screen_wait, self._url or refusing
        url: str | None = at or await ask(AskText("Server URL", value=known, placeholder="http://localhost:8080"))
        key = await ask(AskText("API key", placeholder="empty: no key, or the saved one", is_secret=True)) if url else None
        if url and key is not None:
            self._url = url
            self.say(f"Connecting to {url}…", "$text-muted")
            try:
                await self._actions.host.servers.use(url, "", key)
            except LmtuiError as error:
                self.said(f"✗ {error.full_text()}", is_error=True)
            else:
                self.said(f"Added {url}; new sessions use it", is_error=False)

    def action_models_load(self) -> None:
        """Ask for a window and load the marked model."""
        current = self._marked_model()
        if current is not None and not current.server.can_load:
            self.say(cannot_text(current.server), "$warning")
        elif current is not None:
            _ = self._ask_and_load(current)

    @work(group="models-ask", exclusive=True)
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
            self.say(f"{typed!r} is not a context size; write it as 16384 or 16k", "$error")
            return
        self._actions.load(row.id, window)

    def action_models_unload(self) -> None:
        """Unload the marked model, or give up its load."""
        current = self._marked_model()
        if current is None:
            return
        if current.id in self._actions.progress:
            self._actions.give_up(current.id)
        elif current.server.can_load:
            self._actions.unload(current.id)
        else:
            self.say(cannot_text(current.server), "$warning")

    def action_models_role(self) -> None:
        """Ask which kind of work the marked model is to do."""
        current = self._marked_model()
        if current is not None:
            self.run_worker(self._actions.ask_role(*current.id), group="models-ask", exclusive=True)

    def action_models_exam(self) -> None:
        """Test the marked model, which continues when the list is left."""
        current = self._marked_model()
        if current is not None and current.model is not None and current.model.is_embedder:
            self.say("it embeds only: there is nothing to test", "$warning")
        elif current is not None:
            self._actions.examine(current.id)


def _show_pool(screen: Models, actions: ModelController) -> None:
    """Refresh the state of the pool's servers; redraw only if something changed."""
    rows = with_pool(screen.all_rows, actions.host.servers.pool())
    if rows != screen.all_rows:
        screen.show(rows)


def cannot_text(server: ServerFound) -> str:
    """Return what is said of a server that loads nothing."""
    return f"{server.kind} serves what it was started with; it loads and unloads nothing for others"


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
