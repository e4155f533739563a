"""Which server and model each open session asks, and its prompt cache there."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import replace
from functools import partial

from lmtui.app.model_servers import Servers
from lmtui.app.prompt_caches import PromptCaches, SessionPromptCache, is_conversation
from lmtui.core import events
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import is_same_server, root_url
from lmtui.core.messages import Completion, ModelRequest, StreamChunk
from lmtui.core.ports import Provider
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import ServedModel
from lmtui.engine.session import EngineSession
from lmtui.models.discovery import look_at, model_of
from lmtui.models.endpoint import is_reachable
from lmtui.models.endpoint_pool import ServerPool
from lmtui.models.openai_client import OpenAICompatible

_LOOK_LIMIT_S = 4.0


class SessionProvider:
    """The provider of one session and its agents, which may become another between two requests; implements `Provider`.

    Args:
        provider: the first one; None for a session that asks no model.
        names: what a server, by its root, calls a model, where that is another name.
        model: the name of the model that is asked first.
        note: why that is not what the session asked last.
    """

    def __init__(
        self, provider: Provider | None, names: Mapping[tuple[str, str], str], model: str = "", note: str = ""
    ) -> None:
        self._provider, self._names = provider, names
        self.model, self.note = model, note
        self.cache: SessionPromptCache | None = None
        self.session_id = ""  # set once the session is open

    @property
    def url(self) -> str:
        return self._provider.url if self._provider is not None else ""

    def switch(self, provider: Provider) -> None:
        """Send requests to another server from the next one on."""
        self._provider = provider

    def stream(self, request: ModelRequest) -> AsyncGenerator[StreamChunk, None]:
        asked, provider = replace(request, model=self._name(request.model)), self._provider
        if provider is None:
            raise ProviderError(Fault.UNREACHABLE, "this session asks no model")
        if isinstance(provider, ServerPool) and is_conversation(request):
            return provider.stream(asked, self.session_id)
        if self.cache is not None and isinstance(provider, OpenAICompatible) and is_conversation(request):
            return _with_cache(provider, self.cache, asked)
        return provider.stream(asked)

    async def served(self, model: str) -> ServedModel | None:
        return await self._provider.served(self._name(model)) if self._provider is not None else None

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


class SessionModels:
    """Which server and model each open session asks.

    Args:
        servers: know the one in use.
        caches: the prompt caches of the sessions.
        is_forced: the command line names the model, so it holds for sessions that are opened again too.
    """

    def __init__(self, servers: Servers, caches: PromptCaches, *, is_forced: bool) -> None:
        self._servers, self.caches = servers, caches
        self.is_forced = is_forced
        self._providers: dict[str, SessionProvider] = {}

    def at(self, url: str = "", model: str = "", note: str = "") -> SessionProvider:
        """Return what asks a server and a model; where one is not named, it is that in use."""
        servers = self._servers
        return SessionProvider(servers.provider(url), servers.asked_as, model or servers.model, note)

    async def last(self, past: Sequence[events.Envelope]) -> SessionProvider:
        """Return what asks the server and model that a session used last if they are still there, else those in use."""
        servers, used = self._servers, last_model(past)
        is_just_chosen = servers.was_asked and not self._providers
        if used is None or self.is_forced or is_just_chosen:
            return self.at()
        is_same = servers.is_in_use(used.url)
        if is_same and used.model == servers.model:
            return self.at()
        is_pooled, key = servers.is_pooled(used.url), servers.key_for(used.url)
        if not is_pooled and (lacks := await _lacks(used, key, is_only_choice=is_same)):
            at = "" if is_same else f" at {servers.provider().url}"
            model = sanitize_line(servers.model) or "the default model"
            return self.at(note=f"{lacks}, which this session used last. It continues with {model}{at}.")
        return SessionProvider(servers.provider("" if is_same else used.url), servers.asked_as, used.model)

    def keep(self, session: EngineSession, asked: SessionProvider) -> None:
        """Take note of what an open session asks, until it is closed; it is told what there is to say of its prompt cache."""
        self._providers[session.id] = asked
        session.when_closed.append(partial(self._providers.pop, session.id, None))
        asked.session_id = session.id
        if asked.cache is not None:
            asked.cache.tell = session.emit

    async def sleep(self, session_id: str = "", url: str = "") -> None:
        """Save the prompt cache of an open session, or of all at a server, before that forgets it."""
        for each, provider in tuple(self._providers.items()):
            if each == session_id or (url and is_same_server(provider.url, url)):
                await provider.close()

    def renew(self) -> None:
        """Let each open session ask its server with the keys and settings of now, from its next request on."""
        for provider in self._providers.values():
            if provider.url:
                provider.switch(self._servers.provider(provider.url))

    def switch(self, session_id: str, url: str = "") -> None:
        """Let an open session ask another server (empty: the one in use) from its next request on."""
        self._providers[session_id].switch(self._servers.provider(url))


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
    names = used.model, f"{used.model}:latest"  # so Ollama names it behind a gateway, too
    if found is None or not found.models or not used.model or any(model_of(found, each) for each in names):
        return ""
    return f"{url} no longer has the model {sanitize_line(used.model)}"
