"""The model of a session: chosen from all that the servers have, loaded and unloaded."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from textual.worker import Worker

from lmtui.core.addresses import is_same_server
from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.model_words import calls_words, set_calls
from lmtui.core.profiles import ModelProfile
from lmtui.core.servers import ModelServers, ServedModel, ServerFound
from lmtui.tui.modals.models import ModelPicked, Models
from lmtui.tui.model_loads import ModelId, ModelLoads
from lmtui.tui.stage import Handler, Stage


class ModelsPart:
    """Opens the list of models and does what is asked there; loads go on when it is left."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage
        self.loads = ModelLoads(self._ended)
        self._workers: dict[ModelId, Worker[None]] = {}

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"model.choose": self._choose, "calls.show": self._calls}

    def _calls(self, form: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        calls = active.session.calls
        if not form:
            self._stage.say(calls_words(calls))
            return
        try:
            set_calls(calls, form)
        except UsageError as error:
            self._stage.say(error.full_text(), "error")

    def _choose(self, name: str) -> None:
        desk = self._stage.desk
        if name and desk.active is not None:
            desk.active.session.set_model(name)
        elif desk.host is not None:
            _ = self._stage.app.push_screen(Models(self), self._picked)

    def _picked(self, picked: ModelPicked | None) -> None:
        desk = self._stage.desk
        if picked is None or desk.host is None:
            return
        if desk.active is not None and is_same_server(desk.active.facts.url, picked.url):
            desk.active.session.set_model(picked.model)
        else:
            _ = self._stage.app.run_worker(self._use(desk.host.servers, picked), group="model-use", exclusive=True)

    async def _use(self, servers: ModelServers, picked: ModelPicked) -> None:
        """Use another server from now on; a model file is started for it, which takes a while."""
        name = clean_line(picked.model)
        self._stage.say(f"taking {name} …")
        try:
            await servers.use(picked.url, picked.model)
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")
            return
        place = place_text(picked.url)
        self._stage.say(f"sessions opened from now on use {name} {place}; this one stays with its server (f4 opens one)")

    # -- what the list can have done ------------------------------------------------------------------------------------

    async def find(self) -> Sequence[ServerFound]:
        """Look for servers."""
        host = self._stage.desk.host
        return await host.servers.find() if host is not None else ()

    def is_in_use(self, url: str, model: str) -> bool:
        """Tell whether the session on screen uses a model."""
        active = self._stage.desk.active
        return active is not None and active.facts.model == model and is_same_server(active.facts.url, url)

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
        host = self._stage.desk.host
        if host is not None and model not in self.loads.progress:
            self._workers[model] = self._stage.app.run_worker(work(host.servers), group="model-loads")

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model before."""
        host = self._stage.desk.host
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
        active = self._stage.desk.active
        if error is None and active is not None and not active.facts.role and self.is_in_use(*model):
            active.session.set_model(model[1])  # the window that is served now is asked for again

    def _tell(self, text: str, *, is_error: bool) -> None:
        screen = self._stage.app.screen
        if isinstance(screen, Models):
            screen.said(text, is_error=is_error)
        else:
            self._stage.say(text, "error" if is_error else "info")


def place_text(url: str) -> str:
    """Return where a server is, in words."""
    return f"at {clean_line(url)}" if "//" in url else "on this machine"
