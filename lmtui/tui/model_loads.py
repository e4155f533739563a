"""The loads, unloads and exams that go on: they outlive the list that they were asked from, and say how they ended."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import aclosing

from lmtui.core.errors import LmtuiError
from lmtui.core.exams import ExamState
from lmtui.core.profile_words import exam_words
from lmtui.core.servers import LoadProgress, ModelServers

ModelId = tuple[str, str]
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
        if model in self.progress:
            return
        said = ""
        try:
            async with aclosing(servers.load(*model, window_tokens)) as steps:
                async for step in steps:
                    said = step.text
                    self._put(model, step)
        except LmtuiError as error:
            self._take(model)
            self._ended(model, error.full_text(), error)
            return
        finally:
            self._take(model)
        self._ended(model, f"{model[1]}: {said}", None)

    async def unload(self, servers: ModelServers, model: ModelId) -> None:
        """Let a model go."""
        if model in self.progress:
            return
        self._put(model, LoadProgress("unloading"))
        try:
            await servers.unload(*model)
        except LmtuiError as error:
            self._take(model)
            self._ended(model, error.full_text(), error)
            return
        finally:
            self._take(model)
        self._ended(model, f"{model[1]}: unloaded", None)

    async def examine(self, servers: ModelServers, model: ModelId) -> None:
        """Examine a model; one that is cancelled has kept what it had when this returns."""
        if model in self.progress:
            return

        def show(state: ExamState) -> None:
            if state.doing:
                self._put(model, LoadProgress(f"exam: {state.doing}"))

        self.exams.add(model)
        self._put(model, LoadProgress("exam: looking at the server"))
        try:
            state = await servers.examine(*model, show)
        except LmtuiError as error:
            self._take(model)
            self._ended(model, error.full_text(), error)
            return
        finally:
            self.exams.discard(model)
            self._take(model)
        said = exam_words(state)
        self._ended(model, f"{model[1]}, {said}", LmtuiError(said) if state.has_failed else None)

    def _put(self, model: ModelId, step: LoadProgress) -> None:
        self.progress[model] = step
        self.changed()

    def _take(self, model: ModelId) -> None:
        if self.progress.pop(model, None) is not None:
            self.changed()
