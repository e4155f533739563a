"""What front ends may do with model servers: find, look, load, unload and use them.  Implements `core.servers.ModelServers`."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence

from lmtui.core.servers import LoadProgress, ServerFound
from lmtui.providers.discovery import look_at
from lmtui.providers.servers.loading import LOOK_LIMIT_S, Loader
from lmtui.runtime.connection import Connection


class Servers:
    """The model servers around one connection.

    Args:
        connection: knows the server in use and whom the user's key may go to.
        one_model: tells whether LM Studio is to hold one large model at a time.
    """

    def __init__(self, connection: Connection, one_model: Callable[[], bool] = lambda: False) -> None:
        self._connection = connection
        self._one_model = one_model

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, where the environment points, and at the server in use."""
        return await self._connection.find()

    async def look(self, url: str) -> ServerFound | None:
        """Look at one server again."""
        return await look_at(url, self._connection.key_for(url), LOOK_LIMIT_S, is_named=True)

    def load(self, url: str, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Load a model and tell how far it is."""
        return self._loader(url).load(model, window_tokens)

    async def unload(self, url: str, model: str) -> None:
        """Let a model go."""
        await self._loader(url).unload(model)

    async def use(self, url: str, model: str) -> None:
        """Send the requests of sessions opened from now on to this server, and keep it as the user's choice."""
        self._connection.remember(url, model)

    def _loader(self, url: str) -> Loader:
        return Loader(url, self._connection.key_for(url), one_model=self._one_model())
