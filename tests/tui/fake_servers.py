"""Model servers that keep the promises of the port, scripted by the test: a load goes on as far as the script lets it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from lmtui.core.errors import Fault, LmtuiError, ProviderError
from lmtui.core.messages import ToolCallFormat
from lmtui.core.servers import (
    ExamResult,
    LoadProgress,
    LoadState,
    ModelProfile,
    PoolRow,
    ServedModel,
    ServerFound,
)


class Choosing(Protocol):
    used: tuple[str, str] | None
    setup_note: str


class FakeServers:
    """Two servers, one of which loads.  `error` is raised by loads and unloads, `refusal` by a use; `gate` holds a load."""

    def __init__(self, host: Choosing) -> None:
        self._host = host
        self.found: Sequence[ServerFound] = SERVERS
        self.pooled: Sequence[PoolRow] = ()
        self.looked = 0
        self.loads: list[tuple[str, str, int]] = []
        self.unloads: list[str] = []
        self.keys: dict[str, str] = {}
        self.given_up: list[str] = []
        self.profiles: dict[tuple[str, str], ModelProfile] = {}
        self.error: LmtuiError | None = None
        self.refusal: LmtuiError | None = None
        self.problem: ServerFound | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def find(self) -> Sequence[ServerFound]:
        self.looked += 1
        return self.found

    def pool(self) -> Sequence[PoolRow]:
        return self.pooled

    async def look(self, url: str, key: str = "") -> ServerFound | None:
        del key
        return next((server for server in self.found if server.url == url), None)

    async def load(self, url: str, model: str, window_tokens: int, on_step: Callable[[LoadProgress], None]) -> None:
        self.loads.append((url, model, window_tokens))
        is_whole = False
        try:
            on_step(LoadProgress(f"loading {model}, 0 s"))
            await self.gate.wait()
            if self.error is not None:
                raise self.error
            is_whole = True
            window = window_tokens or 4096
            self._change(url, model, load=LoadState.LOADED, window_tokens=window)
            on_step(LoadProgress(f"loaded, window {window:,}", 1.0))
        finally:
            if not is_whole:
                self.given_up.append(model)

    async def unload(self, url: str, model: str) -> None:
        if self.error is not None:
            raise self.error
        self.unloads.append(model)
        self._change(url, model, load=LoadState.UNLOADED, window_tokens=0)

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        return self.profiles.get((url, model.name), ModelProfile())

    async def examine(self, url: str, model: str) -> ExamResult:
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.given_up.append(model)
            raise
        if self.error is not None:
            raise self.error
        profile = ModelProfile(ToolCallFormat.TEXT, read_tokens_per_s=78.2, write_tokens_per_s=23.2, source="exam")
        self.profiles[url, model] = profile
        note = "native: it writes its calls as text; text: works"
        return ExamResult(url, model, ToolCallFormat.TEXT, note, 8.0, "kept for new sessions")

    async def choice_problem(self) -> ServerFound | None:
        return self.problem

    async def silent(self) -> str:
        return ""

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        raise AssertionError(model)

    async def use(self, url: str, model: str, key: str = "") -> None:
        if self.refusal is not None:
            raise self.refusal
        self.keys[url] = key
        self._host.used = (url, model)
        self._host.setup_note = ""

    def _change(self, url: str, name: str, *, load: LoadState, window_tokens: int) -> None:
        def changed(each: ServedModel) -> ServedModel:
            return replace(each, load=load, window_tokens=window_tokens) if each.name == name else each

        self.found = tuple(
            replace(server, models=tuple(map(changed, server.models))) if server.url == url else server for server in self.found
        )


class WantsKey(FakeServers):
    """Servers at `box`, which need the key sk-9, and others."""

    async def look(self, url: str, key: str = "") -> ServerFound | None:
        return ServerFound("a server", url, (ServedModel("one"), ServedModel("two")) if key == "sk-9" else ())

    async def use(self, url: str, model: str, key: str = "") -> None:
        if "box" in url and key != "sk-9":
            raise ProviderError(Fault.KEY_REFUSED, f"{url}: API key required")
        await super().use(url, model, key)


SERVERS = (
    ServerFound(
        "LM Studio",
        "http://127.0.0.1:1234/v1",
        (ServedModel("qwen2.5-coder-7b-instruct", window_tokens=8192, load=LoadState.LOADED, has_tools=True),),
    ),
    ServerFound(
        "Ollama",
        "http://127.0.0.1:11434/v1",
        (
            ServedModel("qwen2.5-coder:7b", window_tokens=32768, load=LoadState.UNLOADED, has_tools=True),
            ServedModel("llama3.2:3b", load=LoadState.UNLOADED, has_tools=False),
        ),
        can_load=True,
    ),
)
