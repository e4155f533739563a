"""Finding model servers on this machine and what they really serve.  Looking never loads a model; `Loader` does.

All places are asked at once, and each for every kind of server: the kinds are told apart by endpoints of their own, never by
the port.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from lmtui.core.errors import Fault, ProviderError, UsageError
from lmtui.core.hosts import base_url, is_same_server, root_url, without_alias
from lmtui.core.sanitize import sanitize_line
from lmtui.core.servers import (
    KNOWN_ADDRESSES,
    NO_KEY,
    WRONG_KEY,
    LoadProgress,
    LoadState,
    ServedModel,
    ServerFound,
    ServerKind,
)
from lmtui.models.endpoint import is_local, llama_cpp_url, ollama_url
from lmtui.models.provider_errors import unreachable
from lmtui.models.servers import llama_cpp, lm_studio, ollama, slot_files
from lmtui.models.servers.server_client import (
    TICK_S,
    LoadRequest,
    MemoryGate,
    ServerClient,
    ServerReply,
    has_list,
    items,
    number,
    part,
    text,
    words,
)
from lmtui.paths import state_dir

MOST_KEPT = 20


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """An address, a model on it, and the key that the user typed for it; an empty address is not a choice."""

    url: str = ""
    model: str = ""
    key: str = field(default="", repr=False)


def read_choices() -> tuple[ServerChoice, ...]:
    """Return the servers that were chosen or used, the newest first; an unreadable file has none."""
    try:
        newest = json.loads(_file().read_text(encoding="utf-8"))
        return tuple(map(_choice, [newest, *newest.get("earlier", ())]))[:MOST_KEPT]
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError, UsageError):
        return ()


def _choice(found: dict[str, Any]) -> ServerChoice:
    url, model, key = found["url"], found["model"], found.get("key", "")
    if not (isinstance(url, str) and isinstance(model, str) and isinstance(key, str) and base_url(url)):
        raise TypeError(url)
    return ServerChoice(url, model, key)


def keep_choice(choice: ServerChoice, *, is_next: bool = True) -> None:
    """Keep a server; with `is_next` the next start uses it, else only if no other is known.

    Where it cannot be written the next start asks again.
    """
    kept = read_choices()
    if not is_next and kept and is_same_server(kept[0].url, choice.url):
        return
    others = [each for each in kept if not is_same_server(each.url, choice.url)]
    choice = replace(choice, key=choice.key or next((each.key for each in kept if is_same_server(each.url, choice.url)), ""))
    others.insert(0 if is_next else 1, choice)
    newest, *earlier = (asdict(each) for each in others[:MOST_KEPT])
    draft = _file().with_suffix(f".{os.getpid()}.new")
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        draft.unlink(missing_ok=True)
        with os.fdopen(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as file:
            file.write(json.dumps({**newest, "earlier": earlier}))
        draft.replace(_file())
    except OSError:
        return


def _file() -> Path:
    return state_dir() / "server.json"


LOADING = "it is still loading its model; look again in a moment"
CHECK = "check the address and the port"
_LOGIN = re.compile(r"log.?in|sign.?in|password|captive|authenticat", re.IGNORECASE)
_NO_MODELS = {
    ServerKind.LM_STUDIO: "it has no models yet: download one in LM Studio",
    ServerKind.OLLAMA: "it has no models yet: get one with `ollama pull NAME`",
    ServerKind.LLAMA_CPP: "it lists no models: start it with -m FILE, or with --models-dir DIR",
}


def no_models(kind: str) -> str:
    """Return what is said of a server without models."""
    return next((note for each, note in _NO_MODELS.items() if each == kind), "it lists no models")


def refused(key: str) -> str:
    """Return what is said where the key is not taken."""
    return WRONG_KEY if key else NO_KEY


def is_loading(reply: ServerReply) -> bool:
    """Tell whether a server says that its model is not there yet."""
    return reply.status == 503 and "loading" in reply.start.lower()


def what_answers(reply: ServerReply) -> str:
    """Return what it is that answers where a model server was expected."""
    if not reply.status:
        return f"something is there, but {reply.why}; {CHECK}"
    if 300 <= reply.status < 400:
        return f"it sends elsewhere (HTTP {reply.status}): a proxy or a login is in front of it; {CHECK}"
    is_page = "html" in reply.content_type or reply.start.lstrip()[:1] == "<"
    if is_page and _LOGIN.search(reply.start):
        return f"a login page answers (HTTP {reply.status}): a proxy is in front of the server, or this is another service"
    if is_page:
        return f"a web page answers (HTTP {reply.status}), no model server; {CHECK}"
    if reply.status == 404:
        return f"it answers, but has no list of models (HTTP 404); {CHECK}"
    if reply.status >= 500:
        return f"it fails (HTTP {reply.status}: {_start(reply)}); look at its log"
    if reply.value is not None:
        return f"it answers with JSON that is not a list of models (HTTP {reply.status}: {_start(reply)}); {CHECK}"
    return f"it answers, but not as a model server (HTTP {reply.status}: {_start(reply) or 'nothing'}); {CHECK}"


def _start(reply: ServerReply) -> str:
    return sanitize_line(" ".join(reply.start.split())[:60])


_OWNERS = {"vllm": ServerKind.VLLM, "sglang": "SGLang", "koboldcpp": "KoboldCpp", "tabbyapi": "TabbyAPI"}
_WINDOW_PLACES = {
    "KoboldCpp": ("/api/extra/true_max_context_length", "", "value"),
    "TabbyAPI": ("/v1/model", "parameters", "max_seq_len"),
}
_ALWAYS_LOADED = (ServerKind.VLLM, "SGLang", "KoboldCpp")


def is_listing(value: Any) -> bool:
    """Tell whether this is a list of models in OpenAI's form."""
    return has_list(value, "data")


def kind_of(value: Any) -> str:
    """Return the kind of server that a listing is from, as its models' owner says."""
    listed = items(value, "data")
    owners = {text(each, "owned_by").lower() for each in listed}
    told = next((kind for owner, kind in _OWNERS.items() if owner in owners), "")
    return told or (ServerKind.VLLM if any("max_model_len" in each for each in listed) else ServerKind.OTHER)


def models(value: Any, kind: str) -> tuple[ServedModel, ...]:
    """Return the models; only those that are loaded are listed by some kinds."""
    load = LoadState.LOADED if kind in _ALWAYS_LOADED else LoadState.UNKNOWN
    return tuple(_model(each, load) for each in items(value, "data"))


async def window_of(client: ServerClient, kind: str, limit_s: float) -> int:
    """Return the window of the one model that some kinds serve, from an endpoint of their own; 0 where it is not told."""
    if kind not in _WINDOW_PLACES:
        return 0
    path, inside, key = _WINDOW_PLACES[kind]
    value = (await client.get(path, limit_s)).ok
    return number(part(value, inside) if inside else value, key)


def _model(item: dict[str, Any], load: LoadState) -> ServedModel:
    options = words(item, "supported_parameters")
    takes = words(part(item, "architecture"), "input_modalities")
    return ServedModel(
        name=text(item, "id"),
        window_tokens=number(item, "max_model_len", "context_window", "context_length") or number(part(item, "meta"), "n_ctx"),
        load=load,
        has_tools="tools" in options if options else None,
        has_vision="image" in takes if takes else None,
    )


PROBE_TIMEOUT_S = 0.9
USUAL_PORTS = tuple(int(url.rpartition(":")[2]) for _, url in KNOWN_ADDRESSES)
_PATIENT_S = 4.0  # for one that is far away, or that the user named: it may be busy with loading a model
_KNOWN_SERVER_TIMEOUT_S = 10.0
_FIRST_SHARE = 0.7  # of the time for the lists; the rest is for what each model can do


async def find_servers(
    extra: tuple[str, ...] = (), key_for: Callable[[str], str] = lambda _: "", kept: tuple[str, ...] = ()
) -> list[ServerFound]:
    """Ask the usual ports, where the environment points, and the addresses in `extra` and `kept`; return what answered.

    Of the addresses in `extra` and `kept` it is also told what is wrong with them.  `key_for` returns the key of an address.
    """
    named = {root_url(address) for address in (*extra, *kept)}
    told = (ollama_url(os.environ.get("OLLAMA_HOST", "")), llama_cpp_url(os.environ))
    addresses = [*extra, *kept, *(url for _, url in KNOWN_ADDRESSES), *(url for url in told if url)]
    roots: dict[str, str] = {}
    for root in map(root_url, addresses):
        roots.setdefault(without_alias(root), root)
    patient = {root: root in named or not is_local(root) for root in roots.values()}
    looks = (
        look_at(root, key_for(root), _PATIENT_S if is_patient else PROBE_TIMEOUT_S, is_named=root in named)
        for root, is_patient in patient.items()
    )
    return [server for server in await asyncio.gather(*looks) if server is not None]


async def look_at(url: str, key: str = "", limit_s: float = PROBE_TIMEOUT_S, *, is_named: bool = False) -> ServerFound | None:
    """Return what one address serves, None where no model server answers.

    One that refuses the key has no models and a note; with `is_named` so has whatever else answers there.
    """
    root = root_url(url)
    end = asyncio.get_running_loop().time() + limit_s
    async with ServerClient(root, key) as client:
        answers = await _ask(client, base_url(url), limit_s * _FIRST_SHARE)
        found = _recognise(root, key, answers)
        if found is not None:
            left_s = end - asyncio.get_running_loop().time()
            return _said(await _with_details(client, found, max(0.1, left_s)))
    if is_named and answers.listed.is_there:
        return ServerFound(ServerKind.UNKNOWN, root, (), what_answers(answers.listed))
    return None


async def known_server(url: str, key: str) -> ServerFound | None:
    """Return what is told about a server that is in use, None where it does not answer."""
    return await look_at(url, key, _KNOWN_SERVER_TIMEOUT_S)


def model_of(server: ServerFound, model: str) -> ServedModel | None:
    """Return a model of a server (the only or the loaded one, if the name is empty), None where it has none such."""
    found = _named(server, model) if model else _only(server)
    return replace(found, server=str(server.kind)) if found is not None else None


def _named(server: ServerFound, model: str) -> ServedModel | None:
    names = (model, f"{model}:latest") if server.kind == ServerKind.OLLAMA else (model,)
    return next((each for each in server.models if each.name in names or each.instance == model), None)


def _only(server: ServerFound) -> ServedModel | None:
    """Return the model that answers where none is named: the loaded one, or the only one."""
    chatting = [each for each in server.models if not each.is_embedder]
    return next((each for each in chatting if each.is_loaded), chatting[0] if len(chatting) == 1 else None)


@dataclass(frozen=True, slots=True)
class _Answers:
    """What the endpoints that tell the kinds apart answered."""

    listed: ServerReply
    lm_v1: ServerReply
    lm_v0: ServerReply
    tags: ServerReply
    running: ServerReply
    props: ServerReply


async def _ask(client: ServerClient, base: str, limit_s: float) -> _Answers:
    paths = (f"{base}/models", lm_studio.V1, lm_studio.V0, ollama.TAGS, ollama.RUNNING, llama_cpp.PROPS)
    return _Answers(*await asyncio.gather(*(client.get(path, limit_s) for path in paths)))


def _recognise(root: str, key: str, answers: _Answers) -> ServerFound | None:
    """Return the server behind some answers; other kinds imitate Ollama's endpoints, so it comes after them."""
    listed, props = answers.listed.ok, answers.props.ok
    owner = kind_of(listed)
    if lm_studio.is_v1(answers.lm_v1.ok):
        return ServerFound(ServerKind.LM_STUDIO, root, lm_studio.models_v1(answers.lm_v1.ok), can_load=True)
    if lm_studio.is_v0(answers.lm_v0.ok):
        return ServerFound(ServerKind.LM_STUDIO, root, lm_studio.models_v0(answers.lm_v0.ok))
    is_other = is_listing(listed) and owner != ServerKind.OTHER
    if not is_other and (llama_cpp.is_props(props) or llama_cpp.is_ours(listed)):
        note = refused(key) if answers.props.is_key_refused else ""
        can_load = llama_cpp.is_router(listed, props)
        return ServerFound(ServerKind.LLAMA_CPP, root, llama_cpp.models(listed, props), note, can_load)
    if not is_other and isinstance(answers.tags.ok, dict) and "models" in answers.tags.ok:
        return ServerFound(ServerKind.OLLAMA, root, ollama.models(answers.tags.ok, answers.running.ok), can_load=True)
    if is_listing(listed):
        return ServerFound(owner, root, models(listed, owner))
    if answers.listed.is_key_refused or answers.lm_v1.is_key_refused:
        return ServerFound(ServerKind.OTHER, root, (), refused(key))
    if is_loading(answers.listed):
        return ServerFound(ServerKind.LLAMA_CPP, root, (), LOADING)
    return None


async def _with_details(client: ServerClient, found: ServerFound, limit_s: float) -> ServerFound:
    """Ask what the lists do not tell."""
    if found.kind == ServerKind.OLLAMA:
        return replace(found, models=await ollama.with_abilities(client, found.models, limit_s))
    if found.kind == ServerKind.LLAMA_CPP and found.can_load:
        return replace(found, models=await llama_cpp.ask_router(client, found.models, limit_s))
    if found.kind == ServerKind.LLAMA_CPP:
        return replace(found, saves_prompts=await slot_files.can_save(client, found, limit_s))
    if len(found.models) == 1 and not found.models[0].window_tokens:
        window = await window_of(client, found.kind, limit_s)
        return replace(found, models=(replace(found.models[0], window_tokens=window),)) if window else found
    return found


def _said(found: ServerFound) -> ServerFound:
    """Return a server with a note where it has nothing to offer."""
    return found if found.models or found.note else replace(found, note=no_models(found.kind))


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
