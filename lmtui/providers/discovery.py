"""Finding model servers on this machine and what they really serve.  Looking never loads a model.

Endpoints: LM Studio `/api/v0/models`, Ollama `/api/tags` and `/api/ps`, llama.cpp `/props`, vLLM `max_model_len`; every kind
has `/v1/models`.  Each is told apart by its own endpoint, all are asked at once, each within a second.
"""

from __future__ import annotations

import asyncio
import json
import os
from typing import TYPE_CHECKING, Any

from lmtui.core.clean import clean_line
from lmtui.core.servers import ServedModel, ServerFound
from lmtui.providers.endpoint import LOCAL_KEY, base_url, ollama_url, root_url, without_alias

if TYPE_CHECKING:
    import httpx2

PROBE_TIMEOUT_S = 1.0
_KNOWN_SERVER_TIMEOUT_S = 10.0
_MAX_REPLY_BYTES = 4_000_000
_KEY_REFUSED = object()
KNOWN_ADDRESSES = (
    ("LM Studio", "http://127.0.0.1:1234"),
    ("Ollama", "http://127.0.0.1:11434"),
    ("llama.cpp", "http://127.0.0.1:8080"),
    ("vLLM", "http://127.0.0.1:8000"),
)


async def find_servers(extra: tuple[str, ...] = (), key: str = "") -> list[ServerFound]:
    """Ask the usual ports, `OLLAMA_HOST` and the addresses in `extra`; return those that answered as model servers.

    The key is sent to the addresses in `extra` only: what happens to listen on a usual port has no claim to it.
    """
    named = {root_url(address) for address in extra}
    ollama = ollama_url(os.environ.get("OLLAMA_HOST", ""))
    addresses = [*extra, *(url for _, url in KNOWN_ADDRESSES), *([ollama] if ollama else [])]
    roots: dict[str, str] = {}
    for root in map(root_url, addresses):
        roots.setdefault(without_alias(root), root)
    found = await asyncio.gather(*(look_at(root, key if root in named else "") for root in roots.values()))
    return [server for server in found if server is not None]


async def look_at(url: str, key: str = "", limit_s: float = PROBE_TIMEOUT_S) -> ServerFound | None:
    """Return what one address serves, None where no model server answers; one that refuses the key has no models and a note."""
    root = root_url(url)
    places = (f"{base_url(url)}/models", *(f"{root}{path}" for path in ("/api/v0/models", "/api/tags", "/api/ps", "/props")))
    async with _client(root, key, limit_s) as client:
        listed, lm_studio, ollama, running, props = await asyncio.gather(*(_get(client, place, limit_s) for place in places))
    if items := _items(lm_studio, "data"):
        chatting = (item for item in items if item.get("type") != "embeddings")
        return ServerFound("LM Studio", root, tuple(_lm_studio_model(item) for item in chatting))
    models = _items(listed, "data")
    if isinstance(props, dict) and "default_generation_settings" in props:
        window = _number(props["default_generation_settings"], "n_ctx")
        return ServerFound("llama.cpp", root, tuple(_plain_model(item, window, is_loaded=True) for item in models))
    if isinstance(ollama, dict) and "models" in ollama:
        return ServerFound("Ollama", root, _ollama_models(ollama, running))
    if models or (isinstance(listed, dict) and "data" in listed):
        kind = "vLLM" if any("max_model_len" in item for item in models) else "OpenAI-compatible"
        return ServerFound(kind, root, tuple(_plain_model(item, 0, is_loaded=None) for item in models))
    if listed is _KEY_REFUSED:
        return ServerFound("OpenAI-compatible", root, (), "it refuses the key" if key else "it wants a key")
    return None


async def served_model(url: str, key: str, model: str) -> ServedModel | None:
    """Return what is told of a model (the only or the loaded one, if the name is empty), None where nothing is."""
    server = await look_at(url, key, _KNOWN_SERVER_TIMEOUT_S)
    for served in server.models if server else ():
        if served.name == model or (not model and (served.is_loaded or len(server.models if server else ()) == 1)):
            return served
    return None


def _client(root: str, key: str, limit_s: float) -> httpx2.AsyncClient:
    import httpx2  # noqa: PLC0415  (not needed before the first look)

    headers = {"Authorization": f"Bearer {key or LOCAL_KEY}"}
    # Certificates take 60 ms of the event loop to load; plain http has none to check.
    is_checked = not root.startswith("http:")
    return httpx2.AsyncClient(timeout=limit_s, headers=headers, trust_env=False, verify=is_checked)


async def _get(client: httpx2.AsyncClient, url: str, limit_s: float) -> Any:
    """Return the JSON at an address, `_KEY_REFUSED` where the key is not taken, None for anything else."""
    import httpx2  # noqa: PLC0415

    data = bytearray()
    try:
        async with asyncio.timeout(limit_s), client.stream("GET", url) as response:
            async for part in response.aiter_bytes():
                data += part
                if len(data) > _MAX_REPLY_BYTES:
                    return None
        value = json.loads(data)
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TimeoutError, RecursionError):
        return None
    if response.status_code in (401, 403) and isinstance(value, dict) and "error" in value:
        return _KEY_REFUSED
    return value if response.status_code == 200 else None


def _items(value: Any, key: str) -> list[dict[str, Any]]:
    items = value.get(key) if isinstance(value, dict) else None
    return [item for item in items if isinstance(item, dict)] if isinstance(items, list) else []


def _number(value: Any, key: str) -> int:
    number = value.get(key) if isinstance(value, dict) else None
    return number if isinstance(number, int) and number > 0 else 0


def _lm_studio_model(item: dict[str, Any]) -> ServedModel:
    is_loaded = item.get("state") == "loaded"
    capabilities = item.get("capabilities")
    return ServedModel(
        clean_line(str(item.get("id", ""))),
        _number(item, "loaded_context_length") if is_loaded else 0,
        is_loaded,
        "tool_use" in capabilities if isinstance(capabilities, list) else None,
        item.get("type") == "vlm",
    )


def _ollama_models(tags: Any, running: Any) -> tuple[ServedModel, ...]:
    loaded = {str(item.get("name")): _number(item, "context_length") for item in _items(running, "models")}
    names = [str(item.get("name", "")) for item in _items(tags, "models")]
    return tuple(ServedModel(clean_line(name), loaded.get(name, 0), name in loaded) for name in names)


def _plain_model(item: dict[str, Any], window: int, *, is_loaded: bool | None) -> ServedModel:
    meta = item.get("meta")
    tokens = window or _number(item, "max_model_len") or _number(meta, "n_ctx")
    return ServedModel(clean_line(str(item.get("id", ""))), tokens, is_loaded)
