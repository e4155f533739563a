"""The model servers: which is in use, the providers that talk to them, and what front ends may do with them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path

from lmtui.app.key_protection import key_redactor
from lmtui.config import Config
from lmtui.core import events
from lmtui.core.connection_profiles import PROFILES_URL, find_connection, parse_connections, parse_pool
from lmtui.core.errors import ConfigError, Fault, ProviderError, UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url
from lmtui.core.messages import Priority
from lmtui.core.roles import ModelRole, RoleModel, parse_roles, unasked_roles
from lmtui.core.sanitize import Redactor, sanitize_line
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
    ServedModel,
    ServerFound,
    ServerKind,
)
from lmtui.engine.review import find_call_form, wake
from lmtui.models.discovery import (
    LOOK_LIMIT_S,
    Loader,
    ServerChoice,
    find_servers,
    keep_choice,
    look_at,
    model_of,
    read_choices,
)
from lmtui.models.embedded.embedded_server import Engine, ModelFiles, find_files, is_installed
from lmtui.models.endpoint import is_reachable
from lmtui.models.endpoint_pool import PoolHost, PoolMember, ServerPool, host_addresses
from lmtui.models.keys import ServerKeys, resolve_key
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy
from lmtui.store.model_profiles import ProfileStore
from lmtui.tools.registry import ToolRegistry

FILES_URL = "gguf:"
NO_SERVER = (
    "no model server answers on the usual ports (LM Studio 1234, Ollama 11434, llama.cpp 8080, vLLM 8000)",
    "Start one, or name another with --url; `lmtui demo` needs none.",
)
_MOST_NAMED = 20
_LOOK_LIMIT_S, _IN_USE_LIMIT_S = 5.0, 4.0


def silent_address(config: Config, servers: Sequence[ServerFound]) -> str:
    """Return the address that the settings name, if no server was found there; else an empty string."""
    is_silent = config.url and not any(is_same_server(server.url, config.url) for server in servers)
    return root_url(config.url) if is_silent else ""


async def examine_named(config: Config, name: str) -> ExamResult:
    """Find a model by its name on the servers that answer, and examine it.

    Raises:
        UsageError: no server answers, or none has such a model.
        ProviderError: the server cannot be asked.
    """
    servers = Servers(config)
    try:
        server, model = which_model(await servers.find_answering(), name, config.url)
        servers.set_in_use(server.url, model)
        return await servers.examine(server.url, model)
    finally:
        await servers.close()


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
    chats = [(server, model.name) for server in servers for model in server.chat_models]
    near = [each for each in chats if name.lower() in each[1].lower()]
    exact = [each for each in near if each[1] == name]
    if exact or len(near) == 1:
        return (exact or near)[0]
    listed = f"{name!r} may be {', '.join(each[1] for each in near[:4])}" if near else f"no chat model is called {name!r}"
    raise UsageError(listed, "`lmtui models` lists them.")


def _first_model(server: ServerFound) -> str:
    """Return the model that is loaded, else the first; empty where there is none."""
    models = server.chat_models
    return next((each.name for each in models if each.is_loaded), models[0].name if models else "")


def _shown_url(url: str) -> str:
    return root_url(url) if "//" in url else url


def lacking_models(config: Config, server: ServerFound, model: str = "") -> str:
    """Return the roles whose models a server does not have, and a `model` that it does not have; nothing if it lists none."""
    names = {name for found in server.models for name in (found.name, found.instance) if name}
    named = [*([("model", model)] if model else []), *_named_models(config)]
    lacks = [f"{who}: {name}" for who, name in named if not {name, f"{name}:latest"} & names]
    return sanitize_line(", ".join(lacks)) if names else ""


def _named_models(config: Config) -> list[tuple[str, str]]:
    """Return which roles work with which model, as far as the settings name one."""
    return [(str(role), each.model) for role, each in parse_roles(config.roles).items() if each.model]


def _named_model(config: Config) -> str:
    return parse_roles(config.roles).get(ModelRole.CODER, RoleModel()).model or config.model


class Embedded:
    """The one model file that runs inside lmtui, and those that could.

    Args:
        find: returns the files there are; blocks (disk).
        can_run: tells whether llama.cpp's wheel is installed.
    """

    def __init__(
        self, find: Callable[[], ModelFiles] = lambda: find_files(Path.home()), can_run: Callable[[], bool] = is_installed
    ) -> None:
        self._find, self._can_run = find, can_run
        self._files: ModelFiles = {}
        self._engine: Engine | None = None

    @property
    def url(self) -> str:
        """Return the address of the server that runs, empty where none does."""
        return self._engine.url if self._engine is not None else ""

    def key_for(self, url: str) -> str:
        """Return the key of our own server for its address, none for any other."""
        engine = self._engine
        return engine.key if engine is not None and engine.url and root_url(engine.url) == root_url(url) else ""

    async def found(self) -> Sequence[ServerFound]:
        """Return the server that runs, and with the wheel the files as another."""
        self._files = await asyncio.to_thread(self._find) if self._can_run() else {}
        running = await look_at(self.url, self.key_for(self.url), _LOOK_LIMIT_S) if self.url else None
        loaded = self._engine.path if self._engine is not None and self.url else None
        models = tuple(
            ServedModel(name, load=LoadState.of(path == loaded), size_bytes=size_bytes)
            for name, (path, size_bytes) in self._files.items()
        )
        files = [ServerFound(ServerKind.FILES, FILES_URL, models, can_load=True)] if models else []
        return [*([running] if running is not None else []), *files]

    async def load(self, name: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Start a file, by its name in the list or its path; the one that runs ends first."""
        before, engine = self._engine, Engine(self._files.get(name, (Path(name), 0))[0], window_tokens)
        self._engine = engine  # before anything is waited for: of two loads at once the later one stays, the other is stopped
        if before is not None:
            await asyncio.to_thread(before.stop)
        async with aclosing(engine.starting()) as steps:
            async for step in steps:
                yield step
        yield LoadProgress(f"runs at {engine.url}", 1.0)

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


async def _nothing(_: str) -> None:
    pass


class Servers:
    """The model servers of one host; implements `core.servers.ModelServers`.

    In use is the server that the settings name, else what the user chose last, else what is found.
    """

    def __init__(self, config: Config) -> None:
        self._config = config
        self._kept = read_choices()
        self._pooled = parse_pool(config.servers, config.profiles)
        self._made_pool: ServerPool | None = None
        self._answered: set[str] = set()
        self._choice = self._choice_of(config)
        if self._choice.url:
            base_url(self._choice.url)
        self._given: dict[str, str] = {}  # keys that the settings do not name, by the address
        self._keys = self._all_keys()
        self._providers: dict[str, OpenAICompatible] = {}
        self._retired: list[OpenAICompatible | ServerPool] = []
        self.asked_as: dict[tuple[str, str], str] = {}  # what a server calls a model with the window that a role wants
        self._unasked = unasked_roles(parse_roles(config.roles))
        self.was_asked = False  # the user chose a server since the start
        self._embedded = Embedded()
        self._last_loaded: dict[str, tuple[str, int]] = {}
        self.profiles = ProfileStore()
        self.before_unload: Callable[[str], Awaitable[None]] = _nothing  # called with the address
        self.key_changed: Callable[[], None] = lambda: None

    # the server in use, and providers

    def _choice_of(self, config: Config) -> ServerChoice:
        first = config.url or (self._pooled[0].url if self._pooled else "")
        saved = next((each for each in self._kept if not first or is_same_server(each.url, first)), ServerChoice())
        return ServerChoice(first or saved.url, _named_model(config) or saved.model)

    @property
    def is_chosen(self) -> bool:
        """Tell whether there is a server to ask."""
        return bool(self._choice.url)

    @property
    def model(self) -> str:
        """Return the name of the model in use, empty for the server's own default."""
        return self._choice.model

    def unasked_roles(self) -> str:
        """Return in words which roles the settings name that nothing uses yet; once, and then an empty string."""
        unasked, self._unasked = self._unasked, ""
        return unasked

    @property
    def redactor(self) -> Redactor:
        """Return what takes the keys out of events."""
        return key_redactor(self._config, more=self._keys.all())

    def provider(self, url: str = "") -> OpenAICompatible | ServerPool:
        """Return the provider for a session on a server, or on the one in use: the pool if the server belongs to it.

        Raises:
            UsageError: none is chosen.
        """
        url = url or self._choice.url
        if not url:
            raise UsageError("no model server is chosen yet", "Name one with --url; `lmtui models` shows what is running.")
        return self._pool() if self.is_pooled(url) else self.provider_at(url)

    def is_pooled(self, url: str) -> bool:
        """Tell whether a server belongs to the pool: it is named, or one of the servers of its host, discovered or not."""
        addresses = (at for each in self._pooled for at in (each.url, *(host_addresses(each.url) if each.is_host else ())))
        return any(is_same_server(url, at) for at in addresses)

    def is_in_use(self, url: str) -> bool:
        """Tell whether a server is in use, alone or as part of the pool."""
        if not self._choice.url:
            return False
        return is_same_server(url, self._choice.url) or (self.is_pooled(url) and self.is_pooled(self._choice.url))

    def _pool(self) -> ServerPool:
        """Return the pool, created on first use."""
        if self._made_pool is None:
            named = [self._member(each.url) for each in self._pooled if not each.is_host]
            hosts = [PoolHost(each.url, self._member) for each in self._pooled if each.is_host]
            self._made_pool = ServerPool(named, self._retry, hosts=hosts)
        return self._made_pool

    def _member(self, url: str) -> PoolMember:
        once = RetryPolicy(retries=0, loading_limit_s=0)  # the pool tries the next server
        return PoolMember(self._new_provider(url, once), self._keys.key_for(url))

    @property
    def _retry(self) -> RetryPolicy:
        return RetryPolicy(retries=self._config.max_retries, first_delay_s=self._config.retry_delay_s)

    def provider_at(self, url: str) -> OpenAICompatible:
        """Return the provider for a server; sessions on the same server share its slots."""
        member = self._pool().member_at(url) if self.is_pooled(url) else None
        if member is not None:
            return member.provider
        at = base_url(url)
        if at not in self._providers:
            self._providers[at] = self._new_provider(url, self._retry)
        return self._providers[at]

    def _new_provider(self, url: str, retry: RetryPolicy) -> OpenAICompatible:
        config, roles = self._config, parse_roles(self._config.roles)
        return OpenAICompatible(
            url,
            self._embedded.key_for(url) or self._keys.key_for(url),
            stall_timeout_s=config.stall_timeout_s,
            retry=retry,
            slots=config.slots,
            context_tokens=roles.get(ModelRole.CODER, RoleModel()).context_length or config.context_tokens,
            windows={each.model: each.context_length for each in roles.values() if each.model and each.context_length},
        )

    def _all_keys(self) -> ServerKeys:
        """Return the keys that are given, of the settings, and of the servers that were chosen.

        The one in force is that of `url`, and of servers of the pool without their own.
        """
        config, profiles = self._config, parse_connections(self._config.profiles)
        key, profile = resolve_key(config.api_key), profiles.get(config.profile)
        is_profiles = profile is not None and bool(profile.url) and profile.api_key == config.api_key
        own = [config.url] if config.url else []
        own += [each.url for each in self._pooled if not (is_profiles or each.is_host or each.api_key)]
        named = [(each.url, each.api_key) for each in profiles.values() if each.api_key]
        kept = [(each.url, each.key) for each in self._kept]
        return ServerKeys([*self._given.items(), *((url, key) for url in own), *named, *kept])

    def key_for(self, url: str) -> str:
        """Return the key for an address, empty also where it cannot be read: that is told when the server is used."""
        try:
            return self._embedded.key_for(url) or self._keys.key_for(url)
        except ConfigError:
            return ""

    def _give_key(self, url: str, key: str) -> None:
        """Let an address have a key from now on, whatever the settings say."""
        self._given[url] = key
        self._keys.put(url, key)
        self._retired += [each for each in [self._providers.pop(base_url(url), None)] if each is not None]

    def set_in_use(self, url: str, model: str) -> None:
        """Use this server from now on; open sessions keep theirs."""
        self._choice = ServerChoice(url, model)

    def keep_used(self, _: events.Envelope) -> None:
        """Keep the server in use once it answers, where the settings name it; the next start still uses what was chosen."""
        if self._choice.url in self._answered:
            return
        self._answered.add(self._choice.url)
        if self._config.url and is_same_server(self._choice.url, self._config.url):
            self._keep(replace(self._choice, url=root_url(self._choice.url)), is_next=False)

    def _keep(self, choice: ServerChoice, *, is_next: bool = True) -> None:
        keep_choice(choice, is_next=is_next)
        self._kept = read_choices()

    def use_config(self, config: Config) -> None:
        """Take other settings; another server or model that they name is used from now on."""
        is_other = (config.url, _named_model(config)) != (self._config.url, _named_model(self._config))
        self._pooled = parse_pool(config.servers, config.profiles)
        self._config = config
        self._keys = self._all_keys()
        self._retire()
        if config.url and is_other:
            self._choice = self._choice_of(config)

    def _retire(self) -> None:
        self._retired += [each for each in (*self._providers.values(), self._made_pool) if each is not None]
        self._made_pool = None
        self._providers.clear()

    async def choose(self, among: Sequence[str] = (), *, is_model_named: bool = False) -> str:
        """Take the first server found, where none was chosen; return a line that says so, or an empty string.

        Where no model is named, the first of `among` that the server has is taken; with `among` none needs to be.  One that
        `is_model_named` on the command line has to be there.

        Raises:
            ProviderError: none is there.
            UsageError: the one that was chosen has several models, and none is named; or it lacks one that a role names.
        """
        said = ""
        if not self._choice.url:
            servers = [server for server in await find_servers() if server.chat_models]
            if not servers:
                raise ProviderError(Fault.UNREACHABLE, *NO_SERVER)
            model = _named_model(self._config) or _first_model(servers[0])
            self.set_in_use(servers[0].url, model)
            said = f"using {servers[0].kind} at {servers[0].url}, model {model}"
        found = await self._look() if is_model_named or not self.model or _named_models(self._config) else None
        if found is not None and not self.model:
            self._choose_model(found, among)
        is_checked = is_model_named and found is not None and found.kind != ServerKind.LLAMA_CPP  # which has just one
        if found is not None and (lacks := lacking_models(self._config, found, self.model if is_checked else "")):
            there = ", ".join(sanitize_line(name) for name in sorted(model.name for model in found.models)[:_MOST_NAMED])
            raise UsageError(
                f"the server has no {lacks}",
                f"It has {there}. Name one of them with --model or --ROLE-model, or in your settings.",
            )
        return said

    def _choose_model(self, server: ServerFound, among: Sequence[str]) -> None:
        models = server.chat_models
        if len(models) > 1 and among:
            found = (each.name for name in among for each in models if name.lower() in each.name.lower())
            self._choice = replace(self._choice, model=next(found, models[0].name))
        elif server.needs_model:
            names = ", ".join(sanitize_line(model.name) for model in models[:_MOST_NAMED])
            raise UsageError("the server has several models and none is named", f"Name one with --model: {names}")

    async def _look(self) -> ServerFound | None:
        """Return what the server in use, or the pool as one server, reports."""
        if not self.is_pooled(self._choice.url):
            return await look_at(self._choice.url, self.key_for(self._choice.url), _IN_USE_LIMIT_S)
        await self._pool().look(is_now=True)
        return self._pool().merged()

    async def close(self) -> None:
        """End the model file that runs, and every provider."""
        await asyncio.to_thread(self._embedded.stop)
        self._retire()
        while self._retired:
            await self._retired.pop(0).close()

    # what front ends may do

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, where the environment points, at the servers that were used, and for model files."""
        found = await self.find_answering()
        own = self._embedded.url
        others = [server for server in found if not own or not is_same_server(server.url, own)]
        silent = [each.url for each in self._kept if not any(is_same_server(each.url, its.url) for its in found)]
        profiles = parse_connections(self._config.profiles).values()
        models = tuple(ServedModel(each.name, instance=each.text) for each in profiles)
        return [
            *([ServerFound(ServerKind.PROFILES, PROFILES_URL, models)] if models else []),
            *others,
            *await self._embedded.found(),
            *(ServerFound(ServerKind.KEPT, url, (), NO_ANSWER) for url in silent),
        ]

    async def find_answering(self) -> Sequence[ServerFound]:
        """Look on the usual ports, at the server in use, at those of the pool and at those that were used before."""
        pool = self._pool() if self._pooled else None
        if pool is not None:
            await pool.look(is_now=True)
        own = (self._choice.url,) if self._choice.url and not self.is_pooled(self._choice.url) else ()
        found = await find_servers(own, self.key_for, tuple(each.url for each in self._kept if not self.is_pooled(each.url)))
        if pool is None:
            return found
        members = [each.found for each in pool.members if each.found is not None]
        found = [*members, *(each for each in found if not any(is_same_server(each.url, its.url) for its in members))]
        rows = self.pool()
        silent = [row for row in rows if not any(is_same_server(row.url, each.url) for each in found)]
        return [
            *(replace(each, pool=next((row for row in rows if is_same_server(row.url, each.url)), None)) for each in found),
            *(ServerFound(ServerKind.POOL, _shown_url(row.url), (), NO_ANSWER, pool=row) for row in silent),
        ]

    def pool(self) -> Sequence[PoolRow]:
        """Return the servers of the pool, empty without a pool or if another server is in use."""
        pool, url = self._made_pool, self._choice.url
        return pool.rows() if pool is not None and url and self.is_pooled(url) else ()

    async def look(self, url: str, key: str = "") -> ServerFound | None:
        found = await look_at(url, key or self.key_for(url), LOOK_LIMIT_S, is_named=True)
        if found is None or not self.model or not is_same_server(found.url, self._choice.url):
            return found
        own = model_of(found, self.model)
        return replace(found, models=(own,)) if own is not None else found

    async def silent(self) -> str:
        url, rows = self.provider().url, self.pool()
        urls = [row.url for row in rows] or [url]
        is_there = any(await asyncio.gather(*(is_reachable(each) for each in urls if "//" in each)))
        return "" if is_there or not all("//" in each for each in urls) else url

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return await self.provider().embed(model, texts)

    async def choice_problem(self) -> ServerFound | None:
        if self._embedded.url or not self.is_chosen:
            return None
        if silent := await self.silent():
            return ServerFound(ServerKind.KEPT, silent, (), NO_ANSWER)
        found = None if self.is_pooled(self._choice.url) else await self._look()
        is_lacking = found is not None and (found.note in KEY_NOTES or (found.needs_model and not self.model))
        return found if is_lacking else None

    async def load(self, url: str, model: str, window_tokens: int, on_step: Callable[[LoadProgress], None]) -> None:
        async with aclosing(self._loading(url, model, window_tokens)) as steps:
            async for step in steps:
                on_step(step)

    def _loading(self, url: str, model: str, window_tokens: int) -> AsyncGenerator[LoadProgress, None]:
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
        key = ModelKey(base_url(url), model.name, model.quantisation, model.template)
        return ModelProfile() if url in (FILES_URL, PROFILES_URL) else self.profiles.get(key)

    async def examine(self, url: str, model: str) -> ExamResult:
        """Probe how a model calls tools, and keep the form unless the user set one.

        On the server in use the session's own requests go first.  Some servers tell more of a model once it is loaded, so it
        is kept for what was told before, too.
        """
        if url in (FILES_URL, PROFILES_URL):
            raise UsageError(f"{model} does not run yet", "Load it first." if url == FILES_URL else "Use the profile first.")
        provider, started_s, kept = self.provider_at(url), time.monotonic(), "nothing was kept"
        before = await provider.served(model)  # from here on it is asked in the way that its kind of server knows
        await wake(provider, model)
        served = await provider.served(model)
        form, note = await find_call_form(provider, ToolRegistry(), model, served)
        if form is not None:
            kept = "kept for new sessions"
            for each in {each for each in (before, served) if each is not None} or {ServedModel(model)}:
                key = ModelKey(provider.url, model or each.name, each.quantisation, each.template)
                if (known := self.profiles.get(key)).source == BY_HAND:
                    kept = "the form of calls stays as you set it"
                else:
                    self.profiles.put(key, replace(known, call_form=form, note=f"measured: {note}", source=EXAM))
        return ExamResult(provider.url, model, form, note, round(time.monotonic() - started_s, 1), kept)

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
            self.set_in_use(_shown_url(url), model)
            self.was_asked = True
            if key:
                self._give_key(url, key)
            if is_kept:
                self._keep(replace(self._choice, key=key))
            if key:
                self.key_changed()

    async def _use_profile(self, name: str) -> None:
        """Use a named connection, or the server in use with its key and model; it is not kept as a choice.

        Raises:
            ConfigError: the profile does not exist, or its key cannot be read.
        """
        profile = find_connection(self._config.profiles, name)
        if profile.api_key:
            self._give_key(profile.url, resolve_key(profile.api_key))
        url = profile.url or self._choice.url
        found = await self._check(url)
        self.set_in_use(root_url(url), profile.model or _first_model(found))

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

    def _use_own(self) -> None:
        """Use our own server; it is not kept as a choice, as its address is another at each start."""
        url = self._embedded.url
        self._give_key(url, self._embedded.key_for(url))
        self.set_in_use(url, self._embedded.model)

    def _loader(self, url: str) -> Loader:
        return Loader(url, self.key_for(url), one_model=not _named_models(self._config))

    # the models of roles

    async def ensure_loaded(
        self, url: str, model: str, window_tokens: int, priority: Priority
    ) -> AsyncGenerator[LoadProgress, None]:
        """Load the model of a role before a request goes to it; implements `core.servers.ModelLoader`.

        It does nothing where the settings name no role's model or window, unless the server is llama.cpp's router, which would
        load it without a word; and where the server has no way to load.
        """
        wanted, at = (model, window_tokens), root_url(url)
        if not model or self._last_loaded.get(at) == wanted:
            return
        provider, roles = self.provider_at(url), parse_roles(self._config.roles).values()
        if not (provider.is_router or any(each.model or each.context_length for each in roles)):
            return
        clock, limit_s = asyncio.get_running_loop().time, self._config.stall_timeout_s
        async with provider.slots.take(id(self), priority):  # a model that still answers is not unloaded
            found = await look_at(url, self.key_for(url), LOOK_LIMIT_S)
            name = self._lacking(found, model, window_tokens) if found is not None and found.can_load else ""
            if not name:
                self._last_loaded[at] = wanted
                return
            asked_tokens = 0 if found is not None and found.kind == ServerKind.LLAMA_CPP else window_tokens
            end = clock() + limit_s
            try:
                async with aclosing(self._loading(url, name, asked_tokens)) as steps:
                    async for step in steps:
                        if step.name:
                            self.asked_as[at, model] = step.name
                        yield step
                        if limit_s > 0 and clock() >= end:
                            what = f"{model} was not loaded within {limit_s:g} s"
                            raise ProviderError(Fault.TIMEOUT, what, "Raise LLM_TIMEOUT to wait longer.")
            except ProviderError:
                self._last_loaded[at] = wanted  # it is not tried again before each request; one that the user stopped is
                raise
            self._last_loaded[at] = wanted

    def _lacking(self, found: ServerFound, model: str, window_tokens: int) -> str:
        """Return the name under which a server lists a model that is to be loaded, empty where nothing is to be done."""
        known = {each.name: each for each in found.models}
        copy = known.get(self.asked_as.get((root_url(found.url), model), ""))
        if copy is not None and copy.is_loaded:
            return ""
        served = known.get(model) or known.get(f"{model}:latest")
        is_followed = found.kind == ServerKind.LLAMA_CPP  # how far it is can be told of any load
        if served is None or served.is_loaded is None or (served.is_loading and not is_followed):
            return ""
        can_have_more = found.kind != ServerKind.LLAMA_CPP and 0 < served.window_tokens < window_tokens
        return served.name if can_have_more or not served.is_loaded else ""
