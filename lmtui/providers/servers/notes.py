"""What is wrong at an address, in words for the user."""

from __future__ import annotations

import re

from lmtui.core.clean import clean_line
from lmtui.core.servers import ServerKind
from lmtui.providers.servers.client import Reply

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
    return "it refuses the key" if key else "it wants a key (--api-key, LLM_API_KEY)"


def is_loading(reply: Reply) -> bool:
    """Tell whether a server says that its model is not there yet."""
    return reply.status == 503 and "loading" in reply.start.lower()


def what_answers(reply: Reply) -> str:
    """Return what it is that answers where a model server was expected."""
    if not reply.status:
        return f"something is there, but {reply.why}; {CHECK}"
    if 300 <= reply.status < 400:
        return f"it sends elsewhere (HTTP {reply.status}): a proxy or a login stands before it; {CHECK}"
    is_page = "html" in reply.content_type or reply.start.lstrip()[:1] == "<"
    if is_page and _LOGIN.search(reply.start):
        return f"a login page answers (HTTP {reply.status}): a proxy stands before the server, or this is another service"
    if is_page:
        return f"a web page answers (HTTP {reply.status}), no model server; {CHECK}"
    if reply.status == 404:
        return f"it answers, but has no list of models (HTTP 404); {CHECK}"
    if reply.status >= 500:
        return f"it fails (HTTP {reply.status}: {_start(reply)}); look at its log"
    if reply.value is not None:
        return f"it answers with JSON that is no list of models (HTTP {reply.status}: {_start(reply)}); {CHECK}"
    return f"it answers, but not as a model server (HTTP {reply.status}: {_start(reply) or 'nothing'}); {CHECK}"


def _start(reply: Reply) -> str:
    return clean_line(" ".join(reply.start.split())[:60])
