"""Keep keys out of logs, sessions and requests."""

from __future__ import annotations

import os
from collections.abc import Mapping

from lmtui.config import SETTINGS, Config
from lmtui.core.errors import ConfigError
from lmtui.core.sanitize import Redactor
from lmtui.models.keys import FILE, resolve_key


def key_redactor(config: Config, environ: Mapping[str, str] = os.environ) -> Redactor:
    """Return what takes the model server's keys out of logs, sessions and requests, wherever they are kept."""
    names = SETTINGS["api_key"].metadata["env"]
    return Redactor([_key(config.api_key), *(_key(environ.get(name, "").strip()) for name in names)])


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
