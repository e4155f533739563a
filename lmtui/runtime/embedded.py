"""Model files of this machine as a server among others: loading one starts llama.cpp from its wheel, unloading stops it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing
from pathlib import Path

from lmtui.core.addresses import root_url
from lmtui.core.errors import Fault, ProviderError
from lmtui.core.servers import LoadProgress, ServedModel, ServerFound, ServerKind
from lmtui.providers.discovery import look_at
from lmtui.providers.embedded.engine import EXTRA, Engine, is_installed
from lmtui.providers.embedded.model_files import ModelFile, find_files

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
            note = f"{len(files)} model files are on this machine; lmtui runs them itself with `pip install 'lmtui[embedded]'`"
            servers.append(ServerFound(ServerKind.FILES, FILES_URL, (), note))
        return servers

    async def load(self, name: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Start a file, by its name in the list or its path; the one that runs ends first."""
        path = self._files[name].path if name in self._files else Path(name)
        if not self._can_run():
            raise ProviderError(Fault.REJECTED, f"llama.cpp's wheel is needed to run {path.name}", EXTRA)
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
        return ServedModel(name, is_loaded=is_loaded, size_bytes=file.size_bytes, quantisation=file.quantisation)


def _shown(file: ModelFile, files: Sequence[ModelFile]) -> str:
    """Return a file's name, with its folder where another has the same."""
    is_only = sum(1 for each in files if each.name == file.name) == 1
    return file.name if is_only else f"{file.name} ({file.place}, {file.path.parent.name})"
