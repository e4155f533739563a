"""The server that the user chose last, kept at user level, so that the next start asks nothing."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

from lmtui.core.addresses import base_url
from lmtui.core.errors import UsageError
from lmtui.paths import state_dir


@dataclass(frozen=True, slots=True)
class ServerChoice:
    """An address and a model on it; an empty address is no choice.  Keys are never kept here."""

    url: str = ""
    model: str = ""


def read_choice() -> ServerChoice:
    """Return what was chosen last; an unreadable file is no choice."""
    try:
        found = json.loads(_file().read_text(encoding="utf-8"))
        url, model = found["url"], found["model"]
        if isinstance(url, str) and isinstance(model, str) and base_url(url):
            return ServerChoice(url, model)
    except (OSError, ValueError, KeyError, TypeError, RecursionError, UsageError):
        pass
    return ServerChoice()


def write_choice(choice: ServerChoice) -> None:
    """Keep a choice; where that cannot be written the next start asks again."""
    try:
        _file().parent.mkdir(parents=True, exist_ok=True)
        _file().write_text(json.dumps({"url": choice.url, "model": choice.model}), encoding="utf-8")
    except OSError:
        return


def _file() -> Path:
    return state_dir() / "server.json"
