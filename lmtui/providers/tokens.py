"""Counting tokens without the network: a tokenizer whose data is on this machine, else bytes by four.

tiktoken downloads its data when it has none, without a time limit; so it is used only when its cache holds the file.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

_O200K_URL = "https://openaipublic.blob.core.windows.net/encodings/o200k_base.tiktoken"


def count_tokens(text: str) -> int:
    """Return how many o200k tokens a text has; without data on this machine an estimate that errs upwards for prose."""
    counter = _counter()
    return counter(text) if counter else (len(text.encode("utf-8", "replace")) + 3) // 4


def counter_name() -> str:
    """Return which way of counting is in use: tiktoken, toktok or bytes/4."""
    if _has_tiktoken_data():
        return "tiktoken"
    return "toktok" if importlib.util.find_spec("toktok") else "bytes/4"


@lru_cache(maxsize=1)
def _counter() -> Callable[[str], int] | None:
    name = counter_name()
    if name == "tiktoken":
        encoding = importlib.import_module("tiktoken").get_encoding("o200k_base")
        return lambda text: len(encoding.encode(text.encode("utf-8", "replace").decode(), disallowed_special=()))
    if name == "toktok":
        batch_count = importlib.import_module("toktok").batch_count
        return lambda text: int(batch_count([text.encode("utf-8", "replace").decode()], "o200k_base")[0])
    return None


def _has_tiktoken_data() -> bool:
    folder = os.environ.get("TIKTOKEN_CACHE_DIR") or os.environ.get("DATA_GYM_CACHE_DIR")
    return bool(folder) and (Path(str(folder)) / hashlib.sha1(_O200K_URL.encode()).hexdigest()).is_file()  # noqa: S324 (a file name)
