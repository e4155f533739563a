"""Which model server is in use, the provider that talks to it, and which provider each session has."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial

from lmtui.app.key_protection import key_redactor
from lmtui.app.prompt_caches import PromptCaches, SessionPromptCache, is_conversation
from lmtui.config import Config
from lmtui.core import events
from lmtui.core.connection_profiles import ConnectionProfile, PoolEntry, find_connection, parse_connections, parse_pool
from lmtui.core.errors import ConfigError, Fault, ProviderError, UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url
from lmtui.core.messages import Completion, ModelRequest, StreamChunk
from lmtui.core.ports import Provider
from lmtui.core.roles import ModelRole, RoleModel, parse_roles, unasked_roles
from lmtui.core.sanitize import Redactor, sanitize_line
from lmtui.core.servers import KEY_NOTES, NO_ANSWER, PoolRow, ServedModel, ServerFound, ServerKind
from lmtui.models.discovery import ServerChoice, find_servers, keep_choice, look_at, model_of, read_choices
from lmtui.models.endpoint import is_reachable
from lmtui.models.endpoint_pool import PoolHost, PoolMember, ServerPool, host_addresses
from lmtui.models.keys import ServerKeys, resolve_key
from lmtui.models.openai_client import OpenAICompatible
from lmtui.models.provider_errors import RetryPolicy

_MOST_NAMED = 20
_LOOK_LIMIT_S = 4.0


class ModelConnection:
    """The server in use: from the settings, else what the user chose last, else what is found; and the `keys` of servers."""

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
        self.keys = self._keys()
        self._providers: dict[str, OpenAICompatible] = {}
        self._retired: list[OpenAICompatible | ServerPool] = []
        self.asked_as: dict[tuple[str, str], str] = {}  # what a server calls a model with the window that a role wants
        self._unasked = unasked_roles(parse_roles(config.roles))
        self.was_asked = False  # the user chose a server since the start

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
        """Return the model's name, empty for the server's own default."""
        return self._choice.model

    def problems(self) -> Sequence[str]:
        """Return what the settings name that has no effect yet; once."""
        unasked, self._unasked = self._unasked, ""
        return [unasked] if unasked else []

    @property
    def redactor(self) -> Redactor:
        """Return what takes the keys out of events."""
        return key_redactor(self._config, more=self.keys.all())

    def provider(self) -> OpenAICompatible | ServerPool:
        """Return the provider for the server in use, or the pool if that server belongs to it.

        Raises:
            UsageError: none is chosen.
        """
        if not self._choice.url:
            raise UsageError("no model server is chosen yet", "Name one with --url; `lmtui models` shows what is running.")
        return self._pool() if self.is_pooled(self._choice.url) else self.provider_at(self._choice.url)

    def is_pooled(self, url: str) -> bool:
        """Tell whether a server belongs to the pool."""
        return self._entry(url) is not None

    def _entry(self, url: str) -> PoolEntry | None:
        """Return the pool entry of a server: its own, or that of its host, discovered or not."""
        own = next((each for each in self._pooled if is_same_server(url, each.url)), None)
        hosts = (each for each in self._pooled if each.is_host)
        return own or next((each for each in hosts if any(is_same_server(url, at) for at in host_addresses(each.url))), None)

    def is_in_use(self, url: str) -> bool:
        """Tell whether a server is in use, alone or as part of the pool."""
        if not self._choice.url:
            return False
        return is_same_server(url, self._choice.url) or (self.is_pooled(url) and self.is_pooled(self._choice.url))

    def session_provider(self, url: str) -> OpenAICompatible | ServerPool:
        """Return the provider for a session on a server: the pool if the server belongs to it."""
        return self._pool() if self.is_pooled(url) else self.provider_at(url)

    def _pool(self) -> ServerPool:
        """Return the pool, created on first use."""
        if self._made_pool is None:
            retry = RetryPolicy(retries=self._config.max_retries, first_delay_s=self._config.retry_delay_s)
            named = [self._member(each.url) for each in self._pooled if not each.is_host]
            hosts = [PoolHost(each.url, self._member) for each in self._pooled if each.is_host]
            self._made_pool = ServerPool(named, retry, hosts=hosts)
        return self._made_pool

    def _member(self, url: str) -> PoolMember:
        once = RetryPolicy(retries=0, loading_limit_s=0)  # the pool tries the next server
        return PoolMember(self._new_provider(url, once), self.keys.key_for(url))

    def pool_rows(self) -> Sequence[PoolRow]:
        """Return the servers of the pool, empty without a pool or if another server is in use."""
        is_used = self._made_pool is not None and bool(self._choice.url) and self.is_pooled(self._choice.url)
        return self._made_pool.rows() if self._made_pool is not None and is_used else ()

    def provider_at(self, url: str) -> OpenAICompatible:
        """Return the provider for a server; sessions on the same server share its slots."""
        member = self._pool().member_at(url) if self.is_pooled(url) else None
        if member is not None:
            return member.provider
        config, at = self._config, base_url(url)
        if at not in self._providers:
            retry = RetryPolicy(retries=config.max_retries, first_delay_s=config.retry_delay_s)
            self._providers[at] = self._new_provider(url, retry)
        return self._providers[at]

    def _new_provider(self, url: str, retry: RetryPolicy) -> OpenAICompatible:
        config, roles = self._config, parse_roles(self._config.roles)
        return OpenAICompatible(
            url,
            self.keys.key_for(url),
            stall_timeout_s=config.stall_timeout_s,
            retry=retry,
            slots=config.slots,
            context_tokens=roles.get(ModelRole.CODER, RoleModel()).context_length or config.context_tokens,
            windows={each.model: each.context_length for each in roles.values() if each.model and each.context_length},
        )

    def slot_count(self) -> int:
        """Return how many requests the server in use works on at once."""
        return self.provider().slot_count

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, at the server in use, at those of the pool and at those that were used before."""
        pool = self._pool() if self._pooled else None
        if pool is not None:
            await pool.look(is_now=True)
        own = (self._choice.url,) if self._choice.url and not self.is_pooled(self._choice.url) else ()
        found = await find_servers(own, self.key_for, tuple(url for url in self.kept() if not self.is_pooled(url)))
        if pool is None:
            return found
        members = [each.found for each in pool.members if each.found is not None]
        found = [*members, *(each for each in found if not any(is_same_server(each.url, its.url) for its in members))]
        rows = self.pool_rows()
        silent = [row for row in rows if not any(is_same_server(row.url, each.url) for each in found)]
        return [
            *(replace(each, pool=_row_of(each.url, rows)) for each in found),
            *(ServerFound(ServerKind.POOL, _shown_url(row.url), (), NO_ANSWER, pool=row) for row in silent),
        ]

    def _keys(self) -> ServerKeys:
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

    def kept(self) -> tuple[str, ...]:
        """Return the addresses of the servers that were chosen or used, the newest first."""
        return tuple(each.url for each in self._kept)

    def key_for(self, url: str) -> str:
        """Return the key for an address, empty also where it cannot be read: that is told when the server is used."""
        try:
            return self.keys.key_for(url)
        except ConfigError:
            return ""

    def profiles(self) -> Sequence[ConnectionProfile]:
        """Return the named connections of the settings."""
        return [*parse_connections(self._config.profiles).values()]

    def profile(self, name: str) -> ConnectionProfile:
        """Return a named connection, whose key its server gets from now on; one without a server is of the one in use.

        Raises:
            ConfigError: the profile does not exist, or its key cannot be read.
        """
        found = find_connection(self._config.profiles, name)
        if found.api_key:
            self._put_key(found.url, resolve_key(found.api_key))
        return found if found.url else replace(found, url=self._choice.url)

    def put_key(self, url: str, key: str) -> None:
        """Let an address have a key from now on, whatever the settings say."""
        self._given[url] = key
        self._put_key(url, key)

    def _put_key(self, url: str, key: str) -> None:
        self.keys.put(url, key)
        self._retired += [each for each in [self._providers.pop(base_url(url), None)] if each is not None]

    def remember(self, url: str, model: str, key: str = "", *, is_kept: bool = True) -> None:
        """Use this server from now on, with a `key` if one is given, and, if it `is_kept`, at the next start."""
        self.use(root_url(url) if "//" in url else url, model)
        self.was_asked = True
        if key:
            self.put_key(url, key)
        if is_kept:
            self._keep(replace(self._choice, key=key))

    def keep_used(self, envelope: events.Envelope) -> None:
        """Keep the server in use once it answers, where the settings name it; the next start still uses what was chosen."""
        if not isinstance(envelope.event, events.UsageUpdated) or self._choice.url in self._answered:
            return
        self._answered.add(self._choice.url)
        if self._config.url and is_same_server(self._choice.url, self._config.url):
            self._keep(replace(self._choice, url=root_url(self._choice.url)), is_next=False)

    def _keep(self, choice: ServerChoice, *, is_next: bool = True) -> None:
        keep_choice(choice, is_next=is_next)
        self._kept = read_choices()

    def use(self, url: str, model: str) -> None:
        """Use this server from now on; open sessions keep theirs."""
        self._choice = ServerChoice(url, model)

    def use_config(self, config: Config) -> None:
        """Take other settings; another server or model that they name is used from now on."""
        is_other = (config.url, _named_model(config)) != (self._config.url, _named_model(self._config))
        self._pooled = parse_pool(config.servers, config.profiles)
        self._config = config
        self.keys = self._keys()
        self._retire()
        if config.url and is_other:
            self._choice = self._choice_of(config)

    def _retire(self) -> None:
        self._retired += [each for each in (*self._providers.values(), self._made_pool) if each is not None]
        self._made_pool = None
        self._providers.clear()

    async def choose(self, among: Sequence[str] = ()) -> str:
        """Take the first server found, where none was chosen; return a line that says so, or an empty string.

        Where no model is named, the first of `among` that the server has is taken; with `among` none needs to be.

        Raises:
            ProviderError: none is there.
            UsageError: the one that was chosen has several models, and none is named; or it lacks one that a role names.
        """
        if self._choice.url:
            await self._require_one_model(among)
            await self._require_roles()
            return ""
        found = [server for server in await find_servers() if server.chat_models]
        if not found:
            raise ProviderError(
                Fault.UNREACHABLE,
                "no model server answers on the usual ports (LM Studio 1234, Ollama 11434, llama.cpp 8080, vLLM 8000)",
                "Start one, or name another with --url; `lmtui demo` needs none.",
            )
        server = found[0]
        first = next((model for model in server.chat_models if model.is_loaded), server.chat_models[0])
        model = _named_model(self._config) or first.name
        self.use(server.url, model)
        await self._require_roles()
        return f"using {server.kind} at {server.url}, model {model}"

    async def _require_one_model(self, among: Sequence[str]) -> None:
        found = None if self._choice.model else await self._look()
        models = found.chat_models if found is not None else ()
        if len(models) > 1 and among:
            found_names = (each.name for name in among for each in models if name.lower() in each.name.lower())
            self._choice = replace(self._choice, model=next(found_names, models[0].name))
        elif found is not None and found.needs_model:
            names = ", ".join(sanitize_line(model.name) for model in models[:_MOST_NAMED])
            more = f" and {len(models) - _MOST_NAMED} more" if len(models) > _MOST_NAMED else ""
            raise UsageError("the server has several models and none is named", f"Name one with --model: {names}{more}")

    async def _look(self) -> ServerFound | None:
        """Return what the server in use, or the pool as one server, reports."""
        if not self.is_pooled(self._choice.url):
            return await look_at(self._choice.url, self.key_for(self._choice.url), _LOOK_LIMIT_S)
        await self._pool().look(is_now=True)
        return self._pool().merged()

    async def problem(self) -> ServerFound | None:
        """Return the server in use if it refuses its key, or has several models and none is named; else None."""
        found = None if self.is_pooled(self._choice.url) else await self._look()
        is_lacking = found is not None and (found.note in KEY_NOTES or (found.needs_model and not self.model))
        return found if is_lacking else None

    def narrowed(self, found: ServerFound) -> ServerFound:
        """Return a server with the model in use alone, if it is the server in use and has that model."""
        own = model_of(found, self.model) if self.model and is_same_server(found.url, self._choice.url) else None
        return replace(found, models=(own,)) if own is not None else found

    async def _require_roles(self) -> None:
        found = await self._look() if _named_models(self._config) else None
        if found is not None and (lacks := lacking_models(self._config, found)):
            there = ", ".join(sanitize_line(name) for name in sorted(model.name for model in found.models)[:_MOST_NAMED])
            raise UsageError(
                f"the server has no such model: {lacks}",
                f"It has {there}. Name one of them with --ROLE-model, or in the setting roles.",
            )

    async def close(self) -> None:
        self._retire()
        while self._retired:
            await self._retired.pop(0).close()


def _row_of(url: str, rows: Sequence[PoolRow]) -> PoolRow | None:
    return next((row for row in rows if is_same_server(row.url, url)), None)


def _shown_url(url: str) -> str:
    return root_url(url) if "//" in url else url


def lacking_models(config: Config, server: ServerFound) -> str:
    """Return the roles whose models a server does not have; nothing if it lists none."""
    names = {model.name for model in server.models}
    lacks = [f"{who}: {name}" for who, name in _named_models(config) if not {name, f"{name}:latest"} & names]
    return sanitize_line(", ".join(lacks)) if names else ""


def largest_model(config: Config, server: ServerFound) -> ServedModel | None:
    """Return the largest of the models that the settings name, as far as the server tells sizes."""
    names = {_named_model(config), *(name for _, name in _named_models(config))}
    found = [model for model in server.models if model.size_bytes and model.name.removesuffix(":latest") in names]
    return max(found, key=lambda model: model.size_bytes, default=None)


def _named_models(config: Config) -> list[tuple[str, str]]:
    """Return which roles work with which model, as far as the settings name one."""
    return [(str(role), each.model) for role, each in parse_roles(config.roles).items() if each.model]


def _named_model(config: Config) -> str:
    return parse_roles(config.roles).get(ModelRole.CODER, RoleModel()).model or config.model


class NoServer:
    """Stands in for the server of a session that asks no model; implements `core.ports.Provider`."""

    url = ""

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        del request
        raise ProviderError(Fault.UNREACHABLE, "this session asks no model")

    async def served(self, model: str) -> ServedModel | None:
        """Return that nothing is known about any model."""

    async def close(self) -> None:
        """Do nothing."""


class SessionProvider:
    """The provider of one session and its agents, which may become another between two requests; implements `Provider`.

    Args:
        provider: the first one.
        names: what a server, by its root, calls a model, where that is another name.
    """

    def __init__(self, provider: Provider, names: Mapping[tuple[str, str], str]) -> None:
        self._provider, self._names = provider, names
        self.cache: SessionPromptCache | None = None
        self.session_id = ""  # set once the session is open

    @property
    def url(self) -> str:
        return self._provider.url

    def switch(self, provider: Provider) -> None:
        """Send requests to another server from the next one on."""
        self._provider = provider

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        asked, provider = replace(request, model=self._name(request.model)), self._provider
        if isinstance(provider, ServerPool) and is_conversation(request):
            return provider.stream(asked, self.session_id)
        if self.cache is not None and isinstance(provider, OpenAICompatible) and is_conversation(request):
            return _with_cache(provider, self.cache, asked)
        return provider.stream(asked)

    async def served(self, model: str) -> ServedModel | None:
        return await self._provider.served(self._name(model))

    async def close(self) -> None:
        if self.cache is not None:
            await self.cache.sleep()

    def _name(self, model: str) -> str:
        return self._names.get((root_url(self.url), model), model) if self._names else model


async def _with_cache(
    provider: OpenAICompatible, cache: SessionPromptCache, request: ModelRequest
) -> AsyncGenerator[StreamChunk, None]:
    """Yield the pieces of an answer to a conversation whose prompt cache may have to be restored first."""
    async with aclosing(provider.stream(request, partial(cache.wake, provider, request))) as pieces:
        async for piece in pieces:
            if isinstance(piece, Completion):
                cache.answered(provider, request, piece)
            yield piece


@dataclass(frozen=True, slots=True)
class AskedModel:
    """What a session asks: its provider and the model's name.  `note` says why it is not what it asked last."""

    provider: SessionProvider
    model: str
    note: str = ""


class SessionModels:
    """Which server and model each open session asks.

    Args:
        connection: the server in use.
        caches: the prompt caches of the sessions.
        is_forced: the command line names the model, so it holds for sessions that are opened again too.
    """

    def __init__(self, connection: ModelConnection, caches: PromptCaches, *, is_forced: bool) -> None:
        self._connection, self.caches = connection, caches
        self._is_forced = is_forced
        self._providers: dict[str, SessionProvider] = {}

    def in_use(self, note: str = "") -> AskedModel:
        """Return the server and model in use."""
        return self._asked(self._connection.provider(), self._connection.model, note)

    def _asked(self, provider: Provider, model: str, note: str = "") -> AskedModel:
        return AskedModel(SessionProvider(provider, self._connection.asked_as), model, note)

    def at(self, url: str, model: str) -> AskedModel:
        """Return a server and a model; where one is not named, it is that in use."""
        connection = self._connection
        provider = connection.session_provider(url) if url else connection.provider()
        return self._asked(provider, model or connection.model)

    @staticmethod
    def none() -> AskedModel:
        """Return what a session asks in which only others make calls."""
        return AskedModel(SessionProvider(NoServer(), {}), "")

    async def last(self, past: Sequence[events.Envelope]) -> AskedModel:
        """Return the server and model that a session used last if they are still there, else those in use."""
        connection, used = self._connection, last_model(past)
        is_just_chosen = connection.was_asked and not self._providers
        if used is None or self._is_forced or is_just_chosen:
            return self.in_use()
        is_same = connection.is_in_use(used.url)
        if is_same and used.model == connection.model:
            return self.in_use()
        is_pooled, key = connection.is_pooled(used.url), connection.key_for(used.url)
        lacks = "" if is_pooled else await _lacks(used, key, is_only_choice=is_same)
        if lacks:
            at = "" if is_same else f" at {connection.provider().url}"
            model = sanitize_line(connection.model) or "the default model"
            return self.in_use(f"{lacks}, which this session used last. It goes on with {model}{at}.")
        return self._asked(connection.provider() if is_same else connection.session_provider(used.url), used.model)

    def keep(self, session_id: str, asked: AskedModel, tell: Callable[[events.Notice], object]) -> None:
        """Take note of what an open session asks; `tell` takes what there is to say of its prompt cache."""
        self._providers[session_id] = asked.provider
        asked.provider.session_id = session_id
        if asked.provider.cache is not None:
            asked.provider.cache.tell = tell

    async def sleep(self, session_id: str = "", url: str = "") -> None:
        """Save the prompt cache of an open session, or of all at a server, before that forgets it."""
        for each, provider in tuple(self._providers.items()):
            if each == session_id or (url and is_same_server(provider.url, url)):
                await provider.close()

    def renew(self) -> None:
        """Let each open session ask its server with the keys and settings of now, from its next request on."""
        for provider in self._providers.values():
            if provider.url:
                provider.switch(self._connection.session_provider(provider.url))

    def switch(self, session_id: str) -> None:
        """Let an open session ask the server in use, from its next request on."""
        self._providers[session_id].switch(self._connection.provider())

    def forget(self, session_id: str) -> None:
        """Forget a session that was closed."""
        _ = self._providers.pop(session_id, None)


def last_model(past: Sequence[events.Envelope]) -> events.ModelChanged | None:
    """Return the last change of a session's own model."""
    changes = (each.event for each in reversed(past) if isinstance(each.event, events.ModelChanged))
    return next((each for each in changes if each.agent == events.ROOT and not (each.role or each.is_for_turn)), None)


async def _lacks(used: events.ModelChanged, key: str, *, is_only_choice: bool) -> str:
    """Return in words what is not there any more of a server and its model, empty where both are or nothing else is."""
    url = sanitize_line(used.url)
    if not await is_reachable(used.url):
        return "" if is_only_choice else f"No server at {url}"
    found = await look_at(used.url, key, _LOOK_LIMIT_S)
    wanted = {used.model, f"{used.model}:latest"}
    if found is None or not found.models or not used.model:
        return ""
    has = any(model.name in wanted or model.instance == used.model for model in found.models)
    return "" if has else f"{url} no longer has the model {sanitize_line(used.model)}"
