"""Keeping keys in this process: other processes of the same user may not read its memory or its environment."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

from lmtui.config import SETTINGS, Config
from lmtui.core.errors import ConfigError
from lmtui.core.redaction import Redactor
from lmtui.providers.keys import resolve_key

_PR_SET_DUMPABLE = 4


def protect_process() -> bool:
    """Make this process undumpable (prctl(2), `PR_SET_DUMPABLE`) where the system can; tell whether it is."""
    if sys.platform != "linux":
        return False
    return bool(ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)


def key_redactor(config: Config, environ: Mapping[str, str] = os.environ) -> Redactor:
    """Return what takes the model server's keys out of logs, sessions and requests, wherever they are kept."""
    names = SETTINGS["api_key"].metadata["env"]
    return Redactor([_key(config.api_key), *(_key(environ.get(name, "").strip()) for name in names)])


def _key(value: str) -> str:
    try:
        return resolve_key(value)
    except ConfigError:
        return ""  # it is told where the key is needed
