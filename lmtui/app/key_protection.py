"""Keep keys out of logs, sessions and requests."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping

from lmtui.config import SETTINGS, Config
from lmtui.core.errors import ConfigError
from lmtui.core.sanitize import Redactor
from lmtui.models.keys import FILE, resolve_key


def key_redactor(config: Config, environ: Mapping[str, str] = os.environ, more: Iterable[str] = ()) -> Redactor:
    """Return what takes keys (the model server's, the search engine's, `more`) out of logs, sessions and requests."""
    names = [name for each in SETTINGS.values() if each.metadata["is_secret"] for name in each.metadata["env"]]
    keys = (config.api_key, config.web_search_key, *(environ.get(name, "").strip() for name in names), *more)
    return Redactor([_key(key) for key in keys])


def read_secret_file(path: str) -> str:
    """Return the text of a file that only its owner can read.

    Raises:
        ConfigError: it cannot be read, or others can read it.
    """
    return resolve_key(f"{FILE}{path}")


def _key(value: str) -> str:
    try:
        return resolve_key(value)
    except ConfigError:
        return ""  # it is told where the key is needed
