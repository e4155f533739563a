"""Finding model servers on this machine and what they really serve.  Looking never loads a model; `Loader` does.

All places are asked at once, and each for every kind of server: the kinds are told apart by endpoints of their own, never by
the port.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from pydantic import TypeAdapter

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
from lmtui.models.servers import llama_cpp, lm_studio, ollama
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
        found = TypeAdapter(list[ServerChoice]).validate_python([newest, *newest.get("earlier", ())])
        return tuple(each for each in found if base_url(each.url))[:MOST_KEPT]
    except (OSError, ValueError, TypeError, AttributeError, RecursionError, UsageError):
        return ()


def keep_choice(choice: ServerChoice, *, is_next: bool = True) -> None:
    """Keep a server; with `is_next` the next start uses it, else only if no other is known.

    Where it cannot be written the next start asks again.
    """
    kept = read_choices()
    if not is_next and kept and is_same_server(kept[0].url, choice.url):
        return
    known_keys = (each.key for each in kept if is_same_server(each.url, choice.url))
    choice = replace(choice, key=choice.key or next(known_keys, ""))
    others = [each for each in kept if not is_same_server(each.url, choice.url)]
    others.insert(0 if is_next else 1, choice)
    newest, *earlier = (asdict(each) for each in others[:MOST_KEPT])
    with suppress(OSError):
        _file().parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=_file().parent) as folder:
            draft = Path(folder, "draft")
            draft.touch(0o600)  # it holds keys
            draft.write_text(json.dumps({**newest, "earlier": earlier}), encoding="utf-8")
            draft.replace(_file())


def _file() -> Path:
    return state_dir() / "server.json"


LOADING = "it is still loading its model; look again in a moment"
CHECK = "check the address and the port"
_LOGIN = re.compile(r"log.?in|sign.?in|password|captive|authenticat", re.IGNORECASE)
_NO_MODELS: dict[str, str] = {
    ServerKind.LM_STUDIO: "it has no models yet: download one in LM Studio",
    ServerKind.OLLAMA: "it has no models yet: get one with `ollama pull NAME`",
    ServerKind.LLAMA_CPP: "it lists no models: start it with -m FILE, or with --models-dir DIR",
}


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
    told = f"(HTTP {reply.status}: {sanitize_line(' '.join(reply.start.split())[:60]) or 'nothing'})"
    if reply.status >= 500:
        return f"it fails {told}; look at its log"
    what = ", but not as a model server" if reply.value is None else " with JSON that is not a list of models"
    return f"it answers{what} {told}; {CHECK}"


_OWNERS = {"vllm": ServerKind.VLLM, "sglang": "SGLang", "koboldcpp": "KoboldCpp", "tabbyapi": "TabbyAPI"}
_WINDOW_PLACES = {
    "KoboldCpp": ("/api/extra/true_max_context_length", "", "value"),
    "TabbyAPI": ("/v1/model", "parameters", "max_seq_len"),
}
_ALWAYS_LOADED = (ServerKind.VLLM, "SGLang", "KoboldCpp")


def kind_of(value: Any) -> str:
    """Return the kind of server that a listing is from, as its models' owner says."""
    listed = items(value, "data")
    owners = {text(each, "owned_by").lower() for each in listed}
    told = next((kind for owner, kind in _OWNERS.items() if owner in owners), "")
    return told or (ServerKind.VLLM if any("max_model_len" in each for each in listed) else ServerKind.OTHER)


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
        paths = (f"{base_url(url)}/models", lm_studio.V1, lm_studio.V0, ollama.TAGS, ollama.RUNNING, llama_cpp.PROPS)
        answers = await asyncio.gather(*(client.get(path, limit_s * _FIRST_SHARE) for path in paths))
        found = _recognise(root, key, answers)
        if found is not None:
            left_s = end - asyncio.get_running_loop().time()
            found = await _with_details(client, found, max(0.1, left_s))
            note = found.note or ("" if found.models else _NO_MODELS.get(found.kind, "it lists no models"))
            return replace(found, note=note)
    if is_named and answers[0].is_there:
        return ServerFound(ServerKind.UNKNOWN, root, (), what_answers(answers[0]))
    return None


def model_of(server: ServerFound, model: str) -> ServedModel | None:
    """Return a model of a server (the only or the loaded one, if the name is empty), None where it has none such."""
    if model:
        names = (model, f"{model}:latest") if server.kind == ServerKind.OLLAMA else (model,)
        fitting = [each for each in server.models if each.name in names or each.instance == model]
    else:
        chatting = [each for each in server.models if not each.is_embedder]
        fitting = [each for each in chatting if each.is_loaded] or (chatting if len(chatting) == 1 else [])
    return replace(fitting[0], server=str(server.kind)) if fitting else None


def _recognise(root: str, key: str, answers: Sequence[ServerReply]) -> ServerFound | None:
    """Return the server behind some answers; other kinds imitate Ollama's endpoints, so it comes after them."""
    list_reply, v1, v0, tags, running, props_reply = answers
    listed, props, refused = list_reply.ok, props_reply.ok, WRONG_KEY if key else NO_KEY
    owner, is_listing = kind_of(listed), has_list(listed, "data")
    if lm_studio.is_v1(v1.ok):
        return ServerFound(ServerKind.LM_STUDIO, root, lm_studio.models_v1(v1.ok), can_load=True)
    if lm_studio.is_v0(v0.ok):
        return ServerFound(ServerKind.LM_STUDIO, root, lm_studio.models_v0(v0.ok))
    is_other = is_listing and owner != ServerKind.OTHER
    if not is_other and (llama_cpp.is_props(props) or llama_cpp.is_ours(listed)):
        note = refused if props_reply.is_key_refused else ""
        can_load = llama_cpp.is_router(listed, props)
        return ServerFound(ServerKind.LLAMA_CPP, root, llama_cpp.models(listed, props), note, can_load)
    if not is_other and isinstance(tags.ok, dict) and "models" in tags.ok:
        return ServerFound(ServerKind.OLLAMA, root, ollama.models(tags.ok, running.ok), can_load=True)
    if is_listing:
        load = LoadState.LOADED if owner in _ALWAYS_LOADED else LoadState.UNKNOWN
        return ServerFound(owner, root, tuple(_model(each, load) for each in items(listed, "data")))
    if list_reply.is_key_refused or v1.is_key_refused:
        return ServerFound(ServerKind.OTHER, root, (), refused)
    is_loading = list_reply.status == 503 and "loading" in list_reply.start.lower()
    return ServerFound(ServerKind.LLAMA_CPP, root, (), LOADING) if is_loading else None


async def _with_details(client: ServerClient, found: ServerFound, limit_s: float) -> ServerFound:
    """Ask what the lists do not tell."""
    if found.kind == ServerKind.OLLAMA:
        return replace(found, models=await ollama.with_abilities(client, found.models, limit_s))
    if found.kind == ServerKind.LLAMA_CPP and found.can_load:
        return replace(found, models=await llama_cpp.ask_router(client, found.models, limit_s))
    if found.kind == ServerKind.LLAMA_CPP:
        return replace(found, saves_prompts=await llama_cpp.can_save(client, found, limit_s))
    if found.kind in _WINDOW_PLACES and len(found.models) == 1 and not found.models[0].window_tokens:
        path, inside, key = _WINDOW_PLACES[found.kind]
        value = (await client.get(path, limit_s)).ok
        window = number(part(value, inside) if inside else value, key)
        return replace(found, models=(replace(found.models[0], window_tokens=window),))
    return found


LOOK_LIMIT_S = 10.0
_Load = Callable[[ServerClient, LoadRequest], AsyncGenerator[LoadProgress, None]]
_Unload = Callable[[ServerClient, ServerFound, ServedModel], Coroutine[None, None, None]]
_HOW_ELSE: dict[str, str] = {
    ServerKind.LM_STUDIO: "Load it in LM Studio, or update that to 0.4 or later.",
    ServerKind.LLAMA_CPP: "It serves the model that it was started with; started without -m it takes several.",
    ServerKind.VLLM: "It serves the model that it was started with.",
}
_LOADING: dict[str, tuple[_Load, _Unload]] = {
    ServerKind.LM_STUDIO: (lm_studio.load, lm_studio.unload),
    ServerKind.OLLAMA: (ollama.load, ollama.unload),
    ServerKind.LLAMA_CPP: (llama_cpp.load, llama_cpp.unload),
}


class Loader:
    """Loads and unloads the models of one server.

    Args:
        key: goes to this server only.
        gate: what waits until memory has come back.
        one_model: on LM Studio, other large models are unloaded before one is loaded, else where memory lacks.
        tick_s: how often progress is told.
    """

    def __init__(
        self, url: str, key: str = "", *, gate: MemoryGate | None = None, one_model: bool = False, tick_s: float = TICK_S
    ) -> None:
        self._root, self._key = root_url(url), key
        self._gate, self._one_model, self._tick_s = gate or MemoryGate(), one_model, tick_s

    async def load(self, model: str, window_tokens: int = 0) -> AsyncGenerator[LoadProgress, None]:
        """Load a model; see `core.servers.ModelServers.load`.  Closing the generator gives it up."""
        server = await self._server()
        wanted = LoadRequest(server, _known(server, model), window_tokens, self._one_model, self._tick_s, self._gate)
        async with ServerClient(self._root, self._key) as client, aclosing(_LOADING[server.kind][0](client, wanted)) as steps:
            async for step in steps:
                yield step

    async def unload(self, model: str) -> None:
        """Let a model go; see `core.servers.ModelServers.unload`."""
        server = await self._server()
        async with ServerClient(self._root, self._key) as client:
            await _LOADING[server.kind][1](client, server, _known(server, model))

    async def _server(self) -> ServerFound:
        found = await look_at(self._root, self._key, LOOK_LIMIT_S, is_named=True)
        if found is None:
            raise unreachable(self._root, "nothing listens there")
        if found.note and not found.models:
            raise ProviderError(Fault.REJECTED, f"{self._root}: {found.note}")
        if not found.can_load or found.kind not in _LOADING:
            told = f"{found.kind} at {self._root} does not load or unload models for others"
            raise ProviderError(Fault.REJECTED, told, _HOW_ELSE.get(found.kind, ""))
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
