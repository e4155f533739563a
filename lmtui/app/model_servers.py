"""What front ends may do with model servers: find, load, probe and use them.  Implements `core.servers.ModelServers`."""

from __future__ import annotations

import asyncio
import difflib
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from lmtui.app.connection import ModelConnection
from lmtui.config import Config
from lmtui.core.connection_profiles import PROFILES_URL
from lmtui.core.errors import Fault, ProviderError, UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url
from lmtui.core.messages import Priority
from lmtui.core.ports import Provider
from lmtui.core.roles import parse_roles
from lmtui.core.servers import (
    BY_HAND,
    EXAM,
    KEY_NOTES,
    NO_ANSWER,
    ExamResult,
    LoadProgress,
    LoadState,
    ModelKey,
    ModelProfile,
    PoolRow,
    Profiles,
    ServedModel,
    ServerFound,
    ServerKind,
)
from lmtui.engine.review import find_call_form, wake
from lmtui.models.discovery import LOOK_LIMIT_S, Loader, look_at
from lmtui.models.embedded.embedded_server import Engine, ModelFile, find_files, is_installed
from lmtui.models.endpoint import is_reachable
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.servers.server_client import MemoryGate
from lmtui.paths import install_hint
from lmtui.store.model_profiles import ProfileStore
from lmtui.tools.registry import ToolRegistry


async def _examine(profiles: Profiles, provider: Provider, model: str) -> ExamResult:
    """Probe how a model calls tools, and keep the form unless the user set one.

    Some servers tell more of a model once it is loaded, so it is kept for what was told before, too.
    """
    started_s = time.monotonic()
    before = await provider.served(model)  # from here on it is asked in the way that its kind of server knows
    await wake(provider, model)
    served = await provider.served(model)
    form, note = await find_call_form(provider, ToolRegistry(), model, served)
    kept = "nothing was kept"
    if form is not None:
        kept = "kept for new sessions"
        for each in {each for each in (before, served) if each is not None} or {ServedModel(model)}:
            key = ModelKey(provider.url, model or each.name, each.quantisation, each.template)
            if (known := profiles.get(key)).source == BY_HAND:
                kept = "the form of calls stays as you set it"
            else:
                profiles.put(key, replace(known, call_form=form, note=f"measured: {note}", source=EXAM))
    return ExamResult(provider.url, model, form, note, round(time.monotonic() - started_s, 1), kept)


def _key(url: str, model: ServedModel) -> ModelKey:
    return ModelKey(base_url(url), model.name, model.quantisation, model.template)


async def examine_named(config: Config, name: str) -> ExamResult:
    """Find a model by its name on the servers that answer, and examine it.

    Raises:
        UsageError: no server answers, or none has such a model.
        ProviderError: the server cannot be asked.
    """
    connection = ModelConnection(config)
    try:
        server, model = which_model(await connection.find(), name, config.url)
        connection.use(server.url, model)
        return await _examine(ProfileStore(), connection.provider(), model)
    finally:
        await connection.close()


def which_model(servers: Sequence[ServerFound], name: str, named_url: str = "") -> tuple[ServerFound, str]:
    """Return the server and the whole name of the model that a name means: its own, else the only one that holds it.

    Raises:
        UsageError: none or several are meant; or the server that was named answers otherwise.
    """
    if not servers:
        where = f"at {named_url}" if named_url else "on the usual ports"
        raise UsageError(f"no model server answers {where}", "Start one, or name another with --url.")
    if named_url and servers[0].note and not servers[0].models:
        raise UsageError(f"{servers[0].url}: {servers[0].note}", "Put that right, or name another server with --url.")
    offers = [(server, model.name) for server in servers for model in server.models]
    chats = [(server, model.name) for server in servers for model in server.chat_models]
    exact = [each for each in chats if each[1] == name]
    near = exact or [each for each in chats if name.lower() in each[1].lower()]
    if exact or len(near) == 1:
        return near[0]
    if any(each[1] == name for each in offers):
        raise UsageError(f"{name} embeds only: it cannot chat, so there is nothing to examine")
    if near:
        raise UsageError(f"{name!r} may be {', '.join(each[1] for each in near[:4])}", "Give more of the name.")
    names = [each[1] for each in chats]
    close = difflib.get_close_matches(name, names, n=1) or names[:1]
    raise UsageError(
        f"no server that answers has a model {name!r}", f"`lmtui models` lists them, for example {close[0]}." if close else ""
    )


FILES_URL = "gguf:"
_LOOK_LIMIT_S = 5.0


class Embedded:
    """The one model file that runs inside lmtui, and those that could.

    Args:
        find: returns the files there are; blocks (disk).
        can_run: tells whether llama.cpp's wheel is installed.
    """

    def __init__(
        self, find: Callable[[], list[ModelFile]] = lambda: find_files(Path.home()), can_run: Callable[[], bool] = is_installed
    ) -> None:
        self._find, self._can_run = find, can_run
        self._files: dict[str, ModelFile] = {}
        self._engine: Engine | None = None

    @property
    def url(self) -> str:
        """Return the address of the server that runs, empty where none does."""
        return self._engine.url if self._engine is not None else ""

    def key_for(self, url: str) -> str:
        """Return the key of our own server for its address, none for any other."""
        engine = self._engine
        return engine.key if engine is not None and engine.url and root_url(engine.url) == root_url(url) else ""

    async def found(self, *, is_alone: bool) -> Sequence[ServerFound]:
        """Return the server that runs, and the files as another; without the wheel they are only hinted at."""
        files = await asyncio.to_thread(self._find)
        self._files = {_shown(file, files): file for file in files}
        running = await look_at(self.url, self.key_for(self.url), _LOOK_LIMIT_S) if self.url else None
        servers = [running] if running is not None else []
        if files and self._can_run():
            models = tuple(self._as_model(name, file) for name, file in self._files.items())
            servers.append(ServerFound(ServerKind.FILES, FILES_URL, models, can_load=True))
        elif files and is_alone:
            note = f"{len(files)} model files are on this machine; lmtui runs them itself. {install_hint('embedded')}"
            servers.append(ServerFound(ServerKind.FILES, FILES_URL, (), note))
        return servers

    async def load(self, name: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Start a file, by its name in the list or its path; the one that runs ends first."""
        path = self._files[name].path if name in self._files else Path(name)
        if not self._can_run():
            raise ProviderError(Fault.REJECTED, f"llama.cpp's wheel is needed to run {path.name}", install_hint("embedded"))
        before, engine = self._engine, Engine(path, window_tokens)
        self._engine = engine  # before anything is waited for: of two loads at once the later one stays, the other is stopped
        if before is not None:
            await asyncio.to_thread(before.stop)
        async with aclosing(engine.starting()) as steps:
            async for step in steps:
                yield step
        found = await look_at(engine.url, engine.key, _LOOK_LIMIT_S)
        window = found.models[0].window_tokens if found is not None and found.models else 0
        yield LoadProgress(f"runs at {engine.url}" + (f", window {window:,}" if window else ""), 1.0)

    def run(self, path: Path) -> None:
        """Start a file and wait for it; blocks.

        Raises:
            ProviderError: it does not run.
        """
        self.stop()
        self._engine = Engine(path)
        self._engine.start()

    @property
    def model(self) -> str:
        """Return the name of the model that runs, empty where none does."""
        return self._engine.name if self._engine is not None and self._engine.url else ""

    def stop(self) -> None:
        """End what runs; idempotent."""
        engine, self._engine = self._engine, None
        if engine is not None:
            engine.stop()

    def _as_model(self, name: str, file: ModelFile) -> ServedModel:
        is_loaded = self._engine is not None and bool(self._engine.url) and self._engine.path == file.path
        return ServedModel(name, load=LoadState.of(is_loaded), size_bytes=file.size_bytes, quantisation=file.quantisation)


def _shown(file: ModelFile, files: Sequence[ModelFile]) -> str:
    """Return a file's name, with its folder where another has the same."""
    is_only = sum(1 for each in files if each.name == file.name) == 1
    return file.name if is_only else f"{file.name} ({file.place}, {file.path.parent.name})"


class Servers:
    """The model servers around one connection.

    Args:
        connection: knows the server in use and whom the user's key may go to.
        config: returns the settings in force.
        embedded: the model files that lmtui runs itself.
        profiles: where what is known of models is kept.
    """

    def __init__(
        self,
        connection: ModelConnection,
        config: Callable[[], Config] = Config,
        embedded: Embedded | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self._connection = connection
        self._config, self.on_demand = config, OnDemandLoader(self, connection, config)
        self._embedded = embedded or Embedded()
        self.profiles = profiles or ProfileStore()
        self.before_unload: Callable[[str], Awaitable[None]] = _nothing  # called with the address
        self.key_changed: Callable[[], None] = lambda: None

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, where the environment points, at the servers that were used, and for model files."""
        found = await self._connection.find()
        own = self._embedded.url
        others = [server for server in found if not own or not is_same_server(server.url, own)]
        silent = [url for url in self._connection.kept() if not any(is_same_server(url, each.url) for each in found)]
        return [
            *self._profiles(),
            *others,
            *await self._embedded.found(is_alone=not others),
            *(ServerFound(ServerKind.KEPT, url, (), NO_ANSWER) for url in silent),
        ]

    def _profiles(self) -> Sequence[ServerFound]:
        models = tuple(ServedModel(each.name, instance=each.text) for each in self._connection.profiles())
        return [ServerFound(ServerKind.PROFILES, PROFILES_URL, models)] if models else []

    async def look(self, url: str, key: str = "") -> ServerFound | None:
        found = await look_at(url, key or self.key_for(url), LOOK_LIMIT_S, is_named=True)
        return found and self._connection.narrowed(found)

    def pool(self) -> Sequence[PoolRow]:
        return self._connection.pool_rows()

    async def silent(self) -> str:
        """Return the address in use where nothing takes connections there, else an empty string."""
        url, rows = self._connection.provider().url, self.pool()
        urls = [row.url for row in rows] or [url]
        is_there = any(await asyncio.gather(*(is_reachable(each) for each in urls if "//" in each)))
        return "" if is_there or not all("//" in each for each in urls) else url

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return vectors that the server in use makes; see `features.service.ModelAnswers.embed`."""
        return await self._connection.provider().embed(model, texts)

    async def choice_problem(self) -> ServerFound | None:
        if self._embedded.url or not self._connection.is_chosen:
            return None
        silent = await self.silent()
        return ServerFound(ServerKind.KEPT, silent, (), NO_ANSWER) if silent else await self._connection.problem()

    def load(self, url: str, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        if url == FILES_URL:
            return self._load_file(model, window_tokens)
        return self._loader(url).load(model, window_tokens)

    async def _load_file(self, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        if self._embedded.url:
            await self.before_unload(self._embedded.url)
        async with aclosing(self._embedded.load(model, window_tokens)) as steps:
            async for step in steps:
                yield step

    def place_of(self, url: str) -> str:
        """Return the name under which a server is known, however its address changes: our own has another at each start."""
        return FILES_URL if self._embedded.key_for(url) else root_url(url)

    async def unload(self, url: str, model: str) -> None:
        await self.before_unload(self._embedded.url if url == FILES_URL else url)
        if url == FILES_URL:
            await asyncio.to_thread(self._embedded.stop)
            return
        await self._loader(url).unload(model)

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model; a model file that does not run has no address to be known by."""
        return ModelProfile() if url in (FILES_URL, PROFILES_URL) else self.profiles.get(_key(url, model))

    async def examine(self, url: str, model: str) -> ExamResult:
        """Probe how a model calls tools and keep the result; on the server in use the session's own requests go first."""
        if url in (FILES_URL, PROFILES_URL):
            raise UsageError(f"{model} does not run yet", "Load it first." if url == FILES_URL else "Use the profile first.")
        is_in_use = self._connection.is_in_use(url)
        provider = self._connection.provider_at(url) if is_in_use else OpenAICompatible(url, self.key_for(url))
        try:
            return await _examine(self.profiles, provider, model)
        finally:
            if not is_in_use:
                await provider.close()

    async def use(self, url: str, model: str, key: str = "", *, is_kept: bool = True) -> None:
        """Use this server for sessions opened from now on, and store it as the user's choice if it `is_kept`.

        Raises:
            ProviderError: nothing answers there, or something that is not a model server, or it refuses the key.
            ConfigError: the profile does not exist, or its key cannot be read.
        """
        if url == PROFILES_URL:
            await self._use_profile(model)
        elif url == FILES_URL:
            async for _ in self._load_file(model):
                pass
            self._use_own()
        elif self._embedded.key_for(url):
            self._use_own()
        else:
            model = model or _first_model(await self._check(url, key))
            self._connection.remember(url, model, key, is_kept=is_kept)
            if key:
                self.key_changed()

    async def _use_profile(self, name: str) -> None:
        """Use a named connection; it is not kept as a choice, as its key goes with it."""
        profile = self._connection.profile(name)
        found = await self._check(profile.url)
        self._connection.use(root_url(profile.url), profile.model or _first_model(found))

    async def _check(self, url: str, key: str = "") -> ServerFound:
        found = await self.look(url, key)
        if found is None:
            what = f"No server at {base_url(url)}"
            raise ProviderError(Fault.UNREACHABLE, what, "Start it or correct the address, then try again.")
        if found.kind is ServerKind.UNKNOWN:
            what = f"{root_url(url)} is not a model server: {found.note}"
            raise ProviderError(Fault.UNREACHABLE, what, "Check the port. To use this address anyway, pass it with --url.")
        if found.note in KEY_NOTES:
            raise ProviderError(Fault.KEY_REFUSED, f"{root_url(url)}: {found.note}")
        return found

    def run_file(self, path: Path) -> None:
        """Run a model file and use it for sessions opened from now on; blocks until it is ready.

        Raises:
            ProviderError: it does not run.
        """
        self._embedded.run(path)
        self._use_own()

    async def close(self) -> None:
        """End the model file that runs."""
        await asyncio.to_thread(self._embedded.stop)

    def _use_own(self) -> None:
        """Use our own server; it is not kept as a choice, as its address is another at each start."""
        url = self._embedded.url
        self._connection.put_key(url, self._embedded.key_for(url))
        self._connection.use(url, self._embedded.model)

    def key_for(self, url: str) -> str:
        """Return the key that goes to an address."""
        return self._embedded.key_for(url) or self._connection.key_for(url)

    def _loader(self, url: str) -> Loader:
        return Loader(url, self.key_for(url), gate=MemoryGate(), one_model=is_one_model(self._config()))


def _first_model(server: ServerFound) -> str:
    """Return the model that is loaded, else the first; empty where there is none."""
    models = server.chat_models
    return next((each.name for each in models if each.is_loaded), models[0].name if models else "")


async def _nothing(_: str) -> None:
    pass


class OnDemandLoader:
    """Loads the model of a role before a request goes to it; implements `core.servers.ModelLoader`.

    It does nothing where the settings name no role's model or window, unless the server is llama.cpp's router, which would load
    it without a word; and where the server has no way to load.
    """

    def __init__(self, servers: Servers, connection: ModelConnection, config: Callable[[], Config]) -> None:
        self._servers, self._connection, self._config = servers, connection, config
        self._last: dict[str, tuple[str, int]] = {}

    async def ensure(self, url: str, model: str, window_tokens: int, priority: Priority) -> AsyncGenerator[LoadProgress, None]:
        wanted, at = (model, window_tokens), root_url(url)
        if not model or self._last.get(at) == wanted:
            return
        provider = self._connection.provider_at(url)
        if not (self._is_on() or provider.is_router):
            return
        async with provider.slots.take(id(self), priority):  # a model that still answers is not unloaded
            found = await look_at(url, self._servers.key_for(url), LOOK_LIMIT_S)
            name = self._lacking(found, model, window_tokens) if found is not None and found.can_load else ""
            if not name:
                self._last[at] = wanted
                return
            asked_tokens = 0 if found is not None and found.kind == ServerKind.LLAMA_CPP else window_tokens
            try:
                async with aclosing(self._servers.load(url, name, asked_tokens)) as steps:
                    async for step in self._in_time(steps, model):
                        if step.name:
                            self._connection.asked_as[at, model] = step.name
                        yield step
            except ProviderError:
                self._last[at] = wanted  # it is not tried again before each request; one that the user stopped is
                raise
            self._last[at] = wanted

    def _is_on(self) -> bool:
        return any(each.model or each.context_length for each in parse_roles(self._config().roles).values())

    def _lacking(self, found: ServerFound, model: str, window_tokens: int) -> str:
        """Return the name under which a server lists a model that is to be loaded, empty where nothing is to be done."""
        known = {each.name: each for each in found.models}
        copy = known.get(self._connection.asked_as.get((root_url(found.url), model), ""))
        if copy is not None and copy.is_loaded:
            return ""
        served = known.get(model) or known.get(f"{model}:latest")
        is_followed = found.kind == ServerKind.LLAMA_CPP  # how far it is can be told of any load
        if served is None or served.is_loaded is None or (served.is_loading and not is_followed):
            return ""
        can_have_more = found.kind != ServerKind.LLAMA_CPP and 0 < served.window_tokens < window_tokens
        return served.name if can_have_more or not served.is_loaded else ""

    async def _in_time(self, steps: AsyncGenerator[LoadProgress, None], model: str) -> AsyncGenerator[LoadProgress, None]:
        clock, limit_s = asyncio.get_running_loop().time, self._config().stall_timeout_s
        end = clock() + limit_s
        async for step in steps:
            yield step
            if limit_s > 0 and clock() >= end:
                raise ProviderError(
                    Fault.TIMEOUT,
                    f"{model} was not loaded within {limit_s:g} s",
                    "Raise LLM_TIMEOUT to wait longer.",
                )


def is_one_model(config: Config) -> bool:
    """Tell whether LM Studio is to hold one large model at a time; where roles name models of their own, several are wanted."""
    if config.one_model == "auto":
        return not any(each.model for each in parse_roles(config.roles).values())
    return config.one_model == "on"
