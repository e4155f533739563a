"""Loads and unloads models where a server offers it, and says how far it is.  Which calls that takes is each kind's own."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import root_url
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound, ServerKind
from lmtui.models.discovery import look_at
from lmtui.models.provider_errors import unreachable
from lmtui.models.servers import llama_cpp, lm_studio, ollama
from lmtui.models.servers.load_request import TICK_S, LoadRequest, MemoryGate
from lmtui.models.servers.server_client import ServerClient

LOOK_LIMIT_S = 10.0
_HOW_ELSE = {
    ServerKind.LM_STUDIO: "Load it in LM Studio, or update that to 0.4 or later.",
    ServerKind.LLAMA_CPP: "It serves the model that it was started with; started without -m it takes several.",
    ServerKind.VLLM: "It serves the model that it was started with.",
}
_LOAD: dict[str, Callable[[ServerClient, LoadRequest, MemoryGate], AsyncGenerator[LoadProgress, None]]] = {
    ServerKind.LM_STUDIO: lm_studio.load,
    ServerKind.OLLAMA: ollama.load,
    ServerKind.LLAMA_CPP: llama_cpp.load,
}
_UNLOAD: dict[str, Callable[[ServerClient, ServerFound, ServedModel], Coroutine[None, None, None]]] = {
    ServerKind.LM_STUDIO: lm_studio.unload,
    ServerKind.OLLAMA: ollama.unload,
    ServerKind.LLAMA_CPP: llama_cpp.unload,
}


class Loader:
    """Loads and unloads the models of one server.

    Args:
        key: goes to this server only.
        gate: what waits until memory has come back.
        one_model: on LM Studio, other large models are unloaded before one is loaded.
        tick_s: how often progress is told.
    """

    def __init__(
        self, url: str, key: str = "", *, gate: MemoryGate | None = None, one_model: bool = False, tick_s: float = TICK_S
    ) -> None:
        self._root, self._key = root_url(url), key
        self._gate = gate or MemoryGate()
        self._one_model, self._tick_s = one_model, tick_s

    async def load(self, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Load a model; see `core.servers.ModelServers.load`.  Closing the generator gives it up."""
        server = await self._server()
        wanted = LoadRequest(server, _known(server, model), window_tokens, self._one_model, self._tick_s)
        async with (
            ServerClient(self._root, self._key) as client,
            aclosing(_LOAD[server.kind](client, wanted, self._gate)) as steps,
        ):
            async for step in steps:
                yield step

    async def unload(self, model: str) -> None:
        """Let a model go; see `core.servers.ModelServers.unload`."""
        server = await self._server()
        async with ServerClient(self._root, self._key) as client:
            await _UNLOAD[server.kind](client, server, _known(server, model))

    async def _server(self) -> ServerFound:
        found = await look_at(self._root, self._key, LOOK_LIMIT_S, is_named=True)
        if found is None:
            raise unreachable(self._root, "nothing listens there")
        if found.note and not found.models:
            raise ProviderError(Fault.REJECTED, f"{self._root}: {found.note}")
        if not found.can_load or found.kind not in _LOAD:
            hint = next((words for kind, words in _HOW_ELSE.items() if kind == found.kind), "")
            raise ProviderError(Fault.REJECTED, f"{found.kind} at {self._root} does not load or unload models for others", hint)
        return found


def _known(server: ServerFound, name: str) -> ServedModel:
    """Return a model of a server by its name.

    Raises:
        ProviderError: it has none of that name (any more).
    """
    for model in server.models:
        if model.name == name:
            return model
    raise ProviderError(Fault.UNKNOWN_MODEL, f"{server.url} has no model {name!r} (any more)", "Look again to see what it has.")
