"""A key of the user's, outside every workspace: what a table of jobs holds counts only where it was signed with it.

A cloned folder may bring a table with jobs in it; nobody but this user's lmtui can sign one for this folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import json
import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from lmtui.core.errors import JobsError
from lmtui.paths import state_dir

_KEY_BYTES = 32


def key_file() -> Path:
    """Return the file of the key."""
    return state_dir() / "jobs.key"


class Signer:
    """Signs rows for one workspace; the key is made with the first signature."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = str(workspace.resolve())
        self._key = b""

    def sign(self, values: Sequence[object]) -> str:
        """Return the signature of a row (HMAC-SHA256, hex).

        Raises:
            JobsError: the key cannot be made or read.
        """
        return self._digest(self._load(), values)

    def is_ours(self, values: Sequence[object], signature: str) -> bool:
        """Tell whether this user's lmtui signed a row, for this folder; it signs nothing but numbers and whole text."""
        if not signature.isascii() or not all(map(_is_plain, values)):
            return False
        try:
            key = self._key or _read()
        except JobsError:
            return False
        self._key = key
        return bool(key) and hmac.compare_digest(self._digest(key, values), signature)

    def _digest(self, key: bytes, values: Sequence[object]) -> str:
        data = json.dumps([self._workspace, *values], ensure_ascii=True, separators=(",", ":"))
        return hmac.new(key, data.encode(), hashlib.sha256).hexdigest()

    def _load(self) -> bytes:
        self._key = self._key or _read() or _make()
        return self._key


def _is_plain(value: object) -> bool:
    """Tell whether a value is a number, or a text without the lone surrogates that stand for bytes of no text."""
    if not isinstance(value, str):
        return isinstance(value, int)
    try:
        _ = value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _read() -> bytes:
    """Return the key, nothing where there is none."""
    try:
        key = key_file().read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise _cannot("read", error) from error
    if len(key) != _KEY_BYTES:
        raise JobsError(f"{key_file()} is damaged", "Remove it; jobs that were added before must be added again.")
    return key


def _make() -> bytes:
    """Make the key, whole or not at all; where another lmtui was quicker, take its."""
    draft = key_file().with_suffix(f".{secrets.token_hex(4)}")
    try:
        draft.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(_KEY_BYTES))
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileExistsError):
            os.link(draft, key_file())
        draft.unlink()
    except OSError as error:
        raise _cannot("make", error) from error
    return _read()


def _cannot(verb: str, error: OSError) -> JobsError:
    return JobsError(f"cannot {verb} {key_file()}: {error.strerror}", "Check the folder's owner and rights.")
