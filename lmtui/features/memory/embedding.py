"""Vectors for the search, made by the model that the settings name for the role `embedder`.

A failure is tried again later; until then the search goes by words alone.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence

from lmtui.core.errors import Fault, LmtuiError, ProviderError
from lmtui.core.sanitize import sanitize_line

_log = logging.getLogger(__name__)
BATCH = 10
_QUERY_S = 1.5
_FIRST_RETRY_S, _LAST_RETRY_S = 30.0, 600.0
_LEAST_CHARS = 200
# What the models were trained with: their cards on Hugging Face say so (nomic-embed-text-v1.5, multilingual-e5-large).
_PREFIXES = {"nomic": ("search_query: ", "search_document: "), "e5-": ("query: ", "passage: ")}
_TOO_LONG = (Fault.REJECTED, Fault.OVERFLOW, Fault.SERVER_ERROR)

Embed = Callable[[str, Sequence[str]], Awaitable[Sequence[Sequence[float]]]]
"""Asks the server for vectors: the model's name and the texts; raises `ProviderError` or `UsageError`."""


class Embedder:
    """Makes vectors with one model of the server in use.

    `name` is that of the model with the size of its vectors, by which those in the index are told apart; it is empty until
    that is known.  `problem` says why there are none at the moment.
    """

    def __init__(self, model: str, ask: Embed) -> None:
        self.model, self._ask = model, ask
        self.name = self.problem = ""
        self._query, self._document = next((each for key, each in _PREFIXES.items() if key in model.lower()), ("", ""))
        self._retry_s, self._rest_s = 0.0, _FIRST_RETRY_S

    @property
    def size(self) -> int:
        """Return how many numbers its vectors have, 0 where that is not known."""
        return int(self.name.rpartition("/")[2] or 0)

    @property
    def is_resting(self) -> bool:
        """Tell whether the server failed a moment ago."""
        return time.monotonic() < self._retry_s

    async def of_query(self, text: str) -> Sequence[float]:
        """Return the vector of a question, an empty one where the server does not make it at once."""
        if self.is_resting:
            return ()
        try:
            async with asyncio.timeout(_QUERY_S):
                return (await self._vectors([self._query + text]))[0]
        except TimeoutError:
            return ()  # it works on something else, or loads the model
        except LmtuiError as error:
            self._failed(error)
            return ()

    async def of_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vectors of texts, none where the server fails; of a text that it refuses one without direction."""
        if self.is_resting:
            return ()
        try:
            return await self._of_all([self._document + text for text in texts])
        except LmtuiError as error:
            self._failed(error)
            return ()

    async def _of_all(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        try:
            return await self._vectors(texts)
        except ProviderError as error:
            if error.fault not in _TOO_LONG or (len(texts[0]) <= _LEAST_CHARS and not self.name):
                raise
        if len(texts) > 1:
            return [vector for text in texts for vector in await self._of_all([text])]
        if len(texts[0]) > _LEAST_CHARS:
            return await self._of_all([texts[0][: len(texts[0]) // 2]])
        return [[0.0] * self.size]

    async def _vectors(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        found = await self._ask(self.model, texts)
        self.name = f"{self.model}/{len(found[0])}"
        self.problem, self._rest_s = "", _FIRST_RETRY_S
        return found

    def _failed(self, error: LmtuiError) -> None:
        text = sanitize_line(str(error))
        if text != self.problem:
            _log.warning("searching by words only until %s returns vectors: %s", self.model, text)
        self.problem = text
        self._retry_s = time.monotonic() + self._rest_s
        self._rest_s = min(2 * self._rest_s, _LAST_RETRY_S)
