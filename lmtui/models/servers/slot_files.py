"""Prompt caches in files of a llama.cpp server: what its slots hold, and how that is saved and restored.

Format: `GET /slots`, `GET /props` and `POST /slots/ID?action=save|restore` of llama.cpp's server, started with
`--slot-save-path`; the server owns that folder and takes plain file names only.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lmtui.core.errors import Fault, ProviderError
from lmtui.core.hosts import root_url
from lmtui.core.servers import ServerFound
from lmtui.models.provider_errors import error_text
from lmtui.models.servers.llama_cpp import PROPS, is_props
from lmtui.models.servers.server_client import ServerClient, number, part

SLOTS = "/slots"
_ASK_LIMIT_S = 2.0
_PROBE = f"{SLOTS}/0?action=save"
_NO_NAME = "/"  # refused by every server that saves, so that asking writes nothing
# What a saved cache depends on, as far as `/props` tells; the type of the cache is checked by the server itself.
_TOLD = ("model_path", "model_alias", "model_ftype", "chat_template", "total_slots", "build_info", "modalities")


async def can_save(client: ServerClient, found: ServerFound, limit_s: float) -> bool | None:
    """Ask whether a server saves prompt caches, without saving one; None where that is not told.

    Neither a router nor a server that sleeps is asked: it would load a model for it.
    """
    if found.can_load or not found.models or not found.models[0].is_loaded:
        return None
    reply = await client.post(_PROBE, {"filename": _NO_NAME}, limit_s)
    return None if reply.status in (0, 401, 403, 503) else reply.status == 400


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of the server: how many tokens it holds, and whether it works on a request."""

    id: int
    tokens: int
    is_busy: bool


class SlotFiles:
    """The slots of one server; every method has a limit of time and raises `ProviderError`.

    Args:
        url: the server's address.
        key: sent as a bearer token.
        model: the model's name, for a router.
    """

    def __init__(self, url: str, key: str, model: str = "") -> None:
        self._root, self._key, self._model = root_url(url), key, model

    async def fingerprint(self, *, is_awake: bool = False) -> str:
        """Return a digest of the model, its template, its window and the server's build; empty where they are not told.

        With `is_awake`, it is empty too where the server sleeps, and so holds nothing.
        """
        props = await self._told(PROPS, "&autoload=false")
        if not is_props(props) or (is_awake and props.get("is_sleeping") is True):
            return ""
        settings: dict[str, Any] = props["default_generation_settings"]
        told = {name: props.get(name) for name in _TOLD}
        told |= {"n_ctx": settings.get("n_ctx"), "lora": part(settings, "params").get("lora")}
        return hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:32]

    async def slots(self) -> list[Slot] | None:
        """Return the slots, None where the server does not list them."""
        listed = await self._told(SLOTS)
        if not isinstance(listed, list):
            return None
        items = [each for each in listed if isinstance(each, dict) and isinstance(each.get("id"), int)]
        return [Slot(each["id"], number(each, "n_prompt_tokens"), each.get("is_processing") is True) for each in items]

    async def save(self, slot: int, name: str, limit_s: float) -> tuple[int, int]:
        """Write what a slot holds to a file; return how many tokens and how many bytes that is."""
        value = await self._act(slot, "save", name, limit_s)
        return number(value, "n_saved"), number(value, "n_written")

    async def restore(self, slot: int, name: str, limit_s: float) -> int:
        """Read a file into a slot, over what that held; return how many tokens there were."""
        return number(await self._act(slot, "restore", name, limit_s), "n_restored")

    async def _told(self, path: str, more: str = "") -> Any:
        path += f"?model={quote(self._model, safe='')}{more}" if self._model else ""
        async with ServerClient(self._root, self._key) as client:
            return (await client.get(path, _ASK_LIMIT_S)).ok

    async def _act(self, slot: int, action: str, name: str, limit_s: float) -> Any:
        body: dict[str, object] = {"filename": name, **({"model": self._model} if self._model else {})}
        async with ServerClient(self._root, self._key) as client:
            reply = await client.post(f"{SLOTS}/{slot}?action={action}", body, limit_s)
        if isinstance(reply.ok, dict):
            return reply.ok
        if reply.status in (404, 501):
            raise ProviderError(Fault.NOT_A_MODEL_SERVER, "the server saves no prompt caches")
        why = f"HTTP {reply.status}: {error_text(reply.start)}" if reply.status else reply.why
        raise ProviderError(Fault.SERVER_ERROR, why)
