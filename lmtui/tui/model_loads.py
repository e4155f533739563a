"""The loads, unloads and exams that go on: they outlive the list that they were asked from, and say how they ended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import aclosing

from lmtui.core.errors import LmtuiError
from lmtui.core.exams import ExamState
from lmtui.core.profile_words import exam_words
from lmtui.core.servers import LoadProgress, ModelServers

ModelId = tuple[str, str]
_Ending = tuple[str, LmtuiError | None]
Ended = Callable[[ModelId, str, LmtuiError | None], None]


class ModelLoads:
    """Knows what is being loaded, unloaded or examined; `exams` names the last.

    Args:
        ended: is told of each end: which model, in words, and the error where it failed.
    """

    def __init__(self, ended: Ended) -> None:
        self._ended = ended
        self.progress: dict[ModelId, LoadProgress] = {}
        self.exams: set[ModelId] = set()
        self.changed: Callable[[], None] = lambda: None

    async def load(self, servers: ModelServers, model: ModelId, window_tokens: int) -> None:
        """Load a model; one that is being loaded already is left to that."""

        async def work() -> _Ending:
            said = ""
            async with aclosing(servers.load(*model, window_tokens)) as steps:
                async for step in steps:
                    said = step.text
                    self._put(model, step)
            return f"{model[1]}: {said}", None

        await self._to_the_end(model, work)

    async def unload(self, servers: ModelServers, model: ModelId) -> None:
        """Let a model go."""

        async def work() -> _Ending:
            self._put(model, LoadProgress("unloading"))
            await servers.unload(*model)
            return f"{model[1]}: unloaded", None

        await self._to_the_end(model, work)

    async def examine(self, servers: ModelServers, model: ModelId) -> None:
        """Examine a model; one that is cancelled has kept what it had when this returns."""

        def show(state: ExamState) -> None:
            if state.doing:
                self._put(model, LoadProgress(f"exam: {state.doing}"))

        async def work() -> _Ending:
            self.exams.add(model)
            self._put(model, LoadProgress("exam: looking at the server"))
            try:
                state = await servers.examine(*model, show)
            finally:
                self.exams.discard(model)
            said = exam_words(state)
            return f"{model[1]}, {said}", LmtuiError(said) if state.has_failed else None

        await self._to_the_end(model, work)

    async def _to_the_end(self, model: ModelId, work: Callable[[], Awaitable[_Ending]]) -> None:
        """Do something with a model that nothing is done with yet, and tell how it ended."""
        if model in self.progress:
            return
        try:
            said, problem = await work()
        except LmtuiError as error:
            said, problem = error.full_text(), error
        finally:
            self._take(model)
        self._ended(model, said, problem)

    def _put(self, model: ModelId, step: LoadProgress) -> None:
        self.progress[model] = step
        self.changed()

    def _take(self, model: ModelId) -> None:
        if self.progress.pop(model, None) is not None:
            self.changed()
