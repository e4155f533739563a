"""What front ends may do with model servers: find, look, load, unload and use them.  Implements `core.servers.ModelServers`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from pathlib import Path

from lmtui.config import Config
from lmtui.core.addresses import is_same_server, root_url
from lmtui.core.errors import Fault, ProviderError, UsageError
from lmtui.core.exams import ExamState, OnStep
from lmtui.core.profiles import ModelProfile, Profiles
from lmtui.core.roles import parse_roles
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound, ServerKind
from lmtui.providers.discovery import look_at
from lmtui.providers.openai_compat import OpenAICompatible
from lmtui.providers.reach import is_reachable
from lmtui.providers.servers.loading import LOOK_LIMIT_S, Loader
from lmtui.runtime.connection import Connection
from lmtui.runtime.embedded import FILES_URL, Embedded
from lmtui.runtime.exam import Examiner
from lmtui.store.profiles import ProfileStore


class Servers:
    """The model servers around one connection.

    Args:
        connection: knows the server in use and whom the user's key may go to.
        one_model: tells whether LM Studio is to hold one large model at a time.
        embedded: the model files that lmtui runs itself.
        profiles: where what is known of models is kept.
    """

    def __init__(
        self,
        connection: Connection,
        one_model: Callable[[], bool] = lambda: False,
        embedded: Embedded | None = None,
        profiles: Profiles | None = None,
    ) -> None:
        self._connection = connection
        self._one_model = one_model
        self._embedded = embedded or Embedded()
        self._examiner = Examiner(profiles or ProfileStore())

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, where the environment points, at the server in use, and for model files."""
        found = await self._connection.find()
        own = self._embedded.url
        others = [server for server in found if not own or not is_same_server(server.url, own)]
        return [*others, *await self._embedded.found(is_alone=not others)]

    async def look(self, url: str) -> ServerFound | None:
        """Look at one server again."""
        return await look_at(url, self._key_for(url), LOOK_LIMIT_S, is_named=True)

    async def silent(self) -> str:
        """Return the address in use where nothing takes connections there, else an empty string."""
        url = self._connection.provider().url
        return "" if await is_reachable(url) else url

    async def silent_choice(self) -> str:
        """Return the address that the user chose last if it refuses connections, else an empty string."""
        return await self.silent() if self._connection.is_remembered else ""

    def load(self, url: str, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Load a model and tell how far it is."""
        if url == FILES_URL:
            return self._embedded.load(model, window_tokens)
        return self._loader(url).load(model, window_tokens)

    async def unload(self, url: str, model: str) -> None:
        """Let a model go."""
        if url == FILES_URL:
            await asyncio.to_thread(self._embedded.stop)
            return
        await self._loader(url).unload(model)

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model; a model file that does not run has no address to be known by."""
        return ModelProfile() if url == FILES_URL else self._examiner.known(url, model)

    async def examine(self, url: str, model: str, on_step: OnStep, *, is_quick: bool = False) -> ExamState:
        """Measure a model and keep the result; on the server in use the session's own requests go first."""
        if url == FILES_URL:
            raise UsageError(f"{model} does not run yet", "Load it first.")
        is_in_use = self._connection.is_chosen and is_same_server(url, self._connection.provider().url)
        provider = self._connection.provider() if is_in_use else OpenAICompatible(url, self._key_for(url))
        try:
            return await self._examiner.examine(provider, model, on_step, is_quick=is_quick)
        finally:
            if not is_in_use:
                await provider.close()

    async def use(self, url: str, model: str) -> None:
        """Use this server for sessions opened from now on, and store it as the user's choice.

        Raises:
            ProviderError: nothing answers there, or something that is not a model server.
        """
        if url == FILES_URL:
            async for _ in self._embedded.load(model):
                pass
            self._use_own()
        elif self._embedded.key_for(url):
            self._use_own()
        else:
            await self._check(url)
            self._connection.remember(url, model)

    async def _check(self, url: str) -> None:
        found = await look_at(url, self._key_for(url), LOOK_LIMIT_S, is_named=True)
        if found is None:
            what = f"no answer from {root_url(url)}"
            raise ProviderError(Fault.UNREACHABLE, what, "Check the address, start the server, and try again.")
        if found.kind is ServerKind.UNKNOWN:
            what = f"{root_url(url)} is not a model server: {found.note}"
            raise ProviderError(Fault.UNREACHABLE, what, "Check the port. To use this address anyway, pass it with --url.")

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
        self._connection.use(url, self._embedded.model, self._embedded.key_for(url))

    def _key_for(self, url: str) -> str:
        return self._embedded.key_for(url) or self._connection.key_for(url)

    def _loader(self, url: str) -> Loader:
        return Loader(url, self._key_for(url), one_model=self._one_model())


def is_one_model(config: Config) -> bool:
    """Tell whether LM Studio is to hold one large model at a time; where roles name models of their own, several are wanted."""
    if config.one_model == "auto":
        return not any(each.model for each in parse_roles(config.roles).values())
    return config.one_model == "on"
