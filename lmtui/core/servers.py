"""Model servers and what they offer, as values; and what a front end may do with them.  Nothing here does I/O."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lmtui.core.errors import NotFound
from lmtui.core.hosts import is_same_server
from lmtui.core.messages import Priority, ToolCallFormat
from lmtui.core.remote_marks import open_to_network
from lmtui.core.sanitize import sanitize_line, sanitize_path

LEARNED, EXAM, BY_HAND = "learned", "exam", "hand"


@dataclass(frozen=True, slots=True)
class ModelKey:
    """What a profile belongs to.  `quantisation` and `template` (a digest of the chat template) are empty where unknown."""

    url: str
    model: str
    quantisation: str = ""
    template: str = ""


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """What is known of a model; zeros, empty texts and None are unknown.

    `token_ratio` is tokens as the server counts them ÷ tokens as we do.  `window_tokens` is what an overflow showed.
    `source` is `learned`, `exam` or `hand`; `note` says in words why the call form is what it is.  `seen_form` is another one
    that a single session came to.
    """

    call_form: ToolCallFormat | None = None
    window_tokens: int = 0
    read_tokens_per_s: float = 0.0
    write_tokens_per_s: float = 0.0
    token_ratio: float = 0.0
    source: str = LEARNED
    note: str = ""
    seen_form: ToolCallFormat | None = None


class Profiles(Protocol):
    """Where profiles are kept, at user level."""

    def get(self, key: ModelKey) -> ModelProfile:
        """Return what is known of a model; an empty profile where nothing is."""

    def put(self, key: ModelKey, profile: ModelProfile) -> None:
        """Keep a profile; where it cannot be written it holds for this process."""


@dataclass(frozen=True, slots=True)
class ExamResult:
    """What a short probe of a model found: the form of its tool calls (None: it calls in none), and what became of each form.

    `kept` says in words what of it was kept.
    """

    url: str
    model: str
    call_form: ToolCallFormat | None
    note: str
    elapsed_s: float = 0.0
    kept: str = ""


@dataclass(frozen=True, slots=True)
class PoolRow:
    """A server of a pool for a list: its slots, running, queued and answered requests, speed, why it is down, and its model."""

    url: str
    is_up: bool = True
    slots: int = 0
    busy: int = 0
    waiting: int = 0
    answered: int = 0
    tokens_per_s: float = 0.0
    problem: str = ""
    model: str = ""


def pool_cells(row: PoolRow) -> str:
    """Return the state of a pool server for a table: slots, queue and speed, or that it is down."""
    if not row.is_up:
        return f"down: {sanitize_line(row.problem)}" if row.problem else "down"
    cells = [f"{row.busy}/{row.slots} busy"]
    cells += [f"{row.waiting} queued"] if row.waiting else []
    cells += [f"{row.tokens_per_s:.0f} tok/s"] if row.tokens_per_s else []
    return " · ".join(cells)


_SOURCES = {BY_HAND: "set manually", EXAM: "tested"}


def profile_details(profile: ModelProfile) -> list[str]:
    """Return what is known, the weightiest first; nothing of what is not."""
    source = _SOURCES.get(profile.source, profile.source)
    facts = [f"calls: {profile.call_form} ({source})"] if profile.call_form else []
    facts += [speed_words(profile)] if speed_words(profile) else []
    facts += [f"window {profile.window_tokens:,} (learned)"] if profile.window_tokens else []
    return facts


def exam_text(result: ExamResult) -> str:
    """Return what a probe found, in one line."""
    found = f"calls: {result.call_form}" if result.call_form else "it calls tools in no form"
    return f"{found} ({sanitize_line(result.note)}; {result.elapsed_s:.0f} s)"


def speed_words(profile: ModelProfile) -> str:
    """Return how fast a model reads and writes, empty where neither is known."""
    speeds = (("reads", profile.read_tokens_per_s), ("writes", profile.write_tokens_per_s))
    text = ", ".join(f"{verb} {speed:,.0f}" for verb, speed in speeds if speed)
    return f"{text} tokens/s" if text else ""


class ServerKind(StrEnum):
    """The kinds that can be recognized by their own endpoints."""

    LM_STUDIO = "LM Studio"
    OLLAMA = "Ollama"
    LLAMA_CPP = "llama.cpp"
    VLLM = "vLLM"
    OTHER = "OpenAI-compatible"
    FILES = "model files"
    KEPT = "used before"
    POOL = "server pool"
    PROFILES = "profiles"
    UNKNOWN = "no model server"


class LoadState(StrEnum):
    """Whether a server has a model in memory."""

    UNKNOWN = "unknown"
    UNLOADED = "unloaded"
    LOADING = "loading"
    LOADED = "loaded"

    @classmethod
    def of(cls, is_loaded: bool | None) -> LoadState:
        """Return the state of a model that is not being loaded."""
        return cls.UNKNOWN if is_loaded is None else cls.LOADED if is_loaded else cls.UNLOADED


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
    load: LoadState = LoadState.UNKNOWN
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
    server: str = ""

    @property
    def is_loaded(self) -> bool | None:
        """Tell whether it is in memory; None where the server does not tell."""
        return None if self.load is LoadState.UNKNOWN else self.load is LoadState.LOADED

    @property
    def is_loading(self) -> bool:
        """Tell whether it is being loaded."""
        return self.load is LoadState.LOADING


@dataclass(frozen=True, slots=True)
class ServerFound:
    """A model server that answered.  `note` says what is wrong with it; `can_load`: it loads and unloads models when asked.
    `saves_prompts`: it keeps prompt caches in files; None where it does not tell.

    `kind` is one of `ServerKind` or another name that a server gives itself; `pool` is its state in the pool.
    """

    kind: str
    url: str
    models: tuple[ServedModel, ...]
    note: str = ""
    can_load: bool = False
    saves_prompts: bool | None = None
    pool: PoolRow | None = None

    @property
    def chat_models(self) -> tuple[ServedModel, ...]:
        """Return the models that can chat: all but the embedders."""
        return tuple(model for model in self.models if not model.is_embedder)

    @property
    def needs_model(self) -> bool:
        """Tell whether a model must be named: several can chat, and not just one of them is loaded."""
        return len(self.chat_models) > 1 and sum(model.is_loaded is True for model in self.chat_models) != 1


@dataclass(frozen=True, slots=True)
class LoadProgress:
    """How far a server is with loading a model: `ratio` is 0 to 1, -1 where it does not tell; `text` says it in words.

    `unloads` is the model that is unloaded in this step; `name` the one under which the model is asked from now on, if not its
    own.
    """

    text: str
    ratio: float = -1.0
    unloads: str = ""
    name: str = ""


ModelLoader = Callable[[str, str, int, Priority], AsyncGenerator[LoadProgress, None]]
"""Loads a model (URL, name) that its server is known not to have in memory, before a request of that priority goes to it.

It tells how far it is, nothing where the model is there, and loads it again if its window is smaller than the given tokens
(0: any will do).  Raises `ProviderError` if it is not loaded in time; the request may still have the server load it.
"""


class ModelServers(Protocol):
    """What a front end may ask of model servers.  Looking never loads a model."""

    @open_to_network
    async def find(self) -> Sequence[ServerFound]:
        """Look on the usual ports, where settings and environment point, and at servers that were used, all at once.

        A server that was used and does not answer is listed too, last, with that as its note.
        """

    @open_to_network
    def pool(self) -> Sequence[PoolRow]:
        """Return the current state of the pool's servers, empty without a pool; sends no requests."""

    async def look(self, url: str, key: str = "") -> ServerFound | None:
        """Look at one server again, with this key instead of the one in use; None where it does not answer.

        Of the server in use, only the model in use is listed, if one was named and it is there.
        """

    async def load(self, url: str, model: str, window_tokens: int, on_step: Callable[[LoadProgress], None]) -> None:
        """Load a model and tell how far it is; `window_tokens` 0 leaves the window to the server.

        Raises:
            ProviderError: the server refused or failed, in words that name the way out.
        """

    async def unload(self, url: str, model: str) -> None:
        """Let a model go.

        Raises:
            ProviderError: the server refused or failed.
        """

    @open_to_network
    def known(self, url: str, model: ServedModel) -> ModelProfile:
        """Return what was learned or measured of a model before; an empty profile where nothing was."""

    async def examine(self, url: str, model: str) -> ExamResult:
        """Find out in about ten seconds how a model calls tools, and keep the result.  It may load the model.

        Raises:
            ProviderError: the server cannot be asked.
        """

    @open_to_network
    async def choice_problem(self) -> ServerFound | None:
        """Return the server in use if it does not answer (`ServerKind.KEPT`), refuses its key or needs a model; else None."""

    async def silent(self) -> str:
        """Return the address in use where nothing takes connections there, else an empty string."""

    async def embed(self, model: str, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return vectors of one size for some texts, made by the server in use; requests of sessions come first.

        Raises:
            ProviderError: the server cannot make them.
            UsageError: no server is chosen.
        """

    async def use(self, url: str, model: str, key: str = "") -> None:
        """Send the requests of sessions opened from now on to this server and model, and keep it as the user's choice.

        A `key` is kept for this server, and sessions that are open on it use it from their next request on.

        Raises:
            ProviderError: nothing answers there, or something that is not a model server, or it refuses the key.
        """


# Where servers listen by default; the most used first.
KNOWN_ADDRESSES = (
    ("LM Studio", "http://127.0.0.1:1234"),
    ("Ollama", "http://127.0.0.1:11434"),
    ("llama.cpp", "http://127.0.0.1:8080"),
    ("vLLM", "http://127.0.0.1:8000"),
    ("SGLang", "http://127.0.0.1:30000"),
    ("KoboldCpp", "http://127.0.0.1:5001"),
    ("TabbyAPI", "http://127.0.0.1:5000"),
    ("Jan", "http://127.0.0.1:1337"),
)

NO_ANSWER = "no answer"
NO_KEY, WRONG_KEY = KEY_NOTES = "API key required", "wrong API key"
KEY_HINT = "Set LLM_API_KEY, or run `lmtui` and enter the key (in the full-screen app: Alt+E)."
UNKNOWN_WINDOW = "window unknown"


def lack_text(server: ServerFound) -> str:
    """Return why a chosen server cannot be used as it is; see `ModelServers.choice_problem`."""
    url = sanitize_line(server.url)
    if server.kind == ServerKind.KEPT:
        return f"No server at {url}"
    return f"{url}: {server.note}" if server.note in KEY_NOTES else f"{url} has several models, and none is chosen"


def window_fix(server: str) -> str:
    """Return how the window is made larger on a kind of server; all of them where the kind is not known."""
    return _WINDOW_FIXES.get(server) or f"Raise the context length: {'; '.join(_WINDOW_FIXES.values())}."


_WINDOW_FIXES: Mapping[str, str] = {
    ServerKind.OLLAMA: "Ollama: set OLLAMA_CONTEXT_LENGTH (or num_ctx in the Modelfile) and start it again",
    ServerKind.LM_STUDIO: "LM Studio: load the model with a larger context length (Alt+E, l)",
    ServerKind.LLAMA_CPP: "llama.cpp: start it with a larger -c; with --parallel N each slot gets its Nth part",
    ServerKind.VLLM: "vLLM: start it with a larger --max-model-len",
}


def size_text(size_bytes: int) -> str:
    """Return a file's size in units of a thousand, as model pages give it; empty where it is unknown."""
    if not size_bytes:
        return ""
    billions = size_bytes / 1_000_000_000
    return f"{billions:.1f} GB" if billions >= 1 else f"{size_bytes / 1_000_000:.0f} MB"


def state_text(model: ServedModel) -> str:
    """Return whether a model is loaded; empty where the server does not tell."""
    if model.is_loading:
        return "loading"
    return "" if model.is_loaded is None else "loaded" if model.is_loaded else "not loaded"


def short_details(model: ServedModel) -> str:
    """Return the facts that matter most, where there is little room: `loaded 8k tools`."""
    most, served = model.max_window_tokens, model.window_tokens
    window = _thousands(served) if served else f"≤{_thousands(most)}" if most else "window?"
    return " ".join([*(["loaded"] if model.is_loaded else []), window, *abilities(model)])


def _thousands(tokens: int) -> str:
    return f"{tokens // 1024}k" if tokens % 1024 == 0 else f"{tokens:,}"


def window_words(model: ServedModel) -> str:
    """Return the window that is served, and what the model could do where that is more."""
    most = model.max_window_tokens
    if model.window_tokens:
        return f"window {model.window_tokens:,}" + (f" of {most:,}" if most > model.window_tokens else "")
    return f"{UNKNOWN_WINDOW}, up to {most:,}" if most else UNKNOWN_WINDOW


def abilities(model: ServedModel) -> list[str]:
    """Return what a model can do, and what it cannot that an agent needs."""
    if model.is_embedder:
        return ["embeds only"]
    found = ["tools"] if model.has_tools else []
    found += ["drops tools"] if model.drops_tools else ["no tools"] if model.has_tools is False else []
    found += ["vision"] if model.has_vision else []
    return found + (["thinks"] if model.thinks else [])


def model_details(model: ServedModel) -> list[str]:
    """Return everything that is known of a model, the weightiest first."""
    facts = [state_text(model), window_words(model), *abilities(model), model.quantisation, size_text(model.size_bytes)]
    if model.slots:
        facts.append("1 request at a time" if model.slots == 1 else f"{model.slots} requests at a time")
    return [fact for fact in facts if fact]


_LEAST_NAME = 20


def server_with(found: Iterable[ServerFound], model: str, url: str = "") -> str:
    """Return the address of the first server that has a model, or of the one at `url`; without a model, `url` itself.

    Raises:
        NotFound: none of the servers has it.
    """
    at = [server for server in found if (is_same_server(server.url, url) if url else model)]
    lists_some = any(server.models for server in at)  # one that lists none takes any name
    has = [server for server in at if not lists_some or not model or model in {known.name for known in server.models}]
    if not has:
        what = f"no server has the model {model}" if at else f"{url} is not one of your servers"
        raise NotFound(sanitize_path(what)[:200], "/model and `lmtui models` list what there is.")
    return url or has[0].url


def server_lines(servers: Sequence[ServerFound]) -> Iterator[str]:
    """Yield a table of models, each server's own line above them."""
    rows = [_cells(model) for server in servers for model in server.models]
    widths = [max((len(row[at]) for row in rows), default=0) for at in range(5)]
    for server in servers:
        is_told = server.pool is not None and bool(server.pool.problem)
        note = f"  ({sanitize_line(server.note)})" if server.note and not is_told else ""
        if server.saves_prompts is not None:
            note += f"  saves prompt caches: {'yes' if server.saves_prompts else 'no'}"
        if server.pool is not None:
            note += f"  in the pool, {pool_cells(server.pool)}"
        yield f"{sanitize_line(server.kind)}  {sanitize_line(server.url)}{note}"
        for model in server.models:
            cells = [cell.ljust(width) for cell, width in zip(_cells(model), widths, strict=True)]
            yield f"  {'  '.join(cell for cell in cells if cell)}  {', '.join(abilities(model))}".rstrip()


def _cells(model: ServedModel) -> tuple[str, ...]:
    name = sanitize_line(model.name).ljust(_LEAST_NAME)
    return name, state_text(model), window_words(model), sanitize_line(model.quantisation), size_text(model.size_bytes)
