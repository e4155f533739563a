"""Model servers and what they offer, as values; and what a front end may do with them.  Nothing here does I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lmtui.core.exams import ExamState, OnStep
from lmtui.core.profiles import ModelProfile


class ServerKind(StrEnum):
    """The kinds that are told apart, by their own endpoints."""

    LM_STUDIO = "LM Studio"
    OLLAMA = "Ollama"
    LLAMA_CPP = "llama.cpp"
    VLLM = "vLLM"
    OTHER = "OpenAI-compatible"
    FILES = "model files"
    UNKNOWN = "no model server"


@dataclass(frozen=True, slots=True)
class ServedModel:
    """A model that a server offers.  Zeros, empty texts and None are what the server does not tell.

    `window_tokens` is the window that is really served (of the loaded instance), `max_window_tokens` what the model could do.
    `slots` is how many requests the server works on at once.  `thinks`: it reasons before it answers.  `drops_tools`: its chat
    template has no place for tools, so that they would be lost in silence.  `template` is a digest of its chat template.
    `instance` names a loaded instance where that is not the model's own name.  `is_embedder`: it embeds and cannot chat.
    `server` is the kind of its server, where the model was asked about by itself.
    """

    name: str
    window_tokens: int = 0
    is_loaded: bool | None = None
    has_tools: bool | None = None
    has_vision: bool | None = None
    thinks: bool | None = None
    max_window_tokens: int = 0
    size_bytes: int = 0
    quantisation: str = ""
    slots: int = 0
    drops_tools: bool = False
    template: str = ""
    instance: str = ""
    is_embedder: bool = False
    is_loading: bool = False
    server: str = ""


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A model server that answered.  `note` says what is wrong with it; `can_load`: it loads and unloads models when asked.

    `kind` is one of `ServerKind` or another name that a server gives itself.
    """

    kind: str
    url: str
    models: tuple[ServedModel, ...]
    note: str = ""
    can_load: bool = False

    @property
    def chat_models(self) -> tuple[ServedModel, ...]:
        """Return the models that can chat: all but the embedders."""
        return tuple(model for model in self.models if not model.is_embedder)


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a server is with loading a model: `ratio` is 0 to 1, -1 where it does not tell; `text` says it in words."""

    text: str
    ratio: float = -1.0


class ModelServers(Protocol):
    """What a front end may ask of model servers.  Looking never loads a model."""

    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports and where the settings and the environment point, all at once, within about a second."""

    async def look(self, url: str) -> ServerFound | None:
        """Look at one server again, None where it does not answer."""

    def load(self, url: str, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Load a model and tell how far it is; `window_tokens` 0 leaves the window to the server.

        Raises:
            ProviderError: the server refused or failed, in words that name the way out.
        """

    async def unload(self, url: str, model: str) -> None:
        """Let a model go.

        Raises:
            ProviderError: the server refused or failed.
        """

    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model before; an empty profile where nothing was."""

    async def examine(self, url: str, model: str, on_step: OnStep, *, is_quick: bool = False) -> ExamState:
        """Measure a model on purpose and keep the result; one that is cancelled keeps what it has.  It may load the model."""

    async def silent_choice(self) -> str:
        """Return the address that the user chose last if it refuses connections, else an empty string."""

    async def use(self, url: str, model: str) -> None:
        """Send the requests of sessions opened from now on to this server and model, and keep it as the user's choice."""
