"""Keys of model servers: in the setting itself, in a file that only its owner can read, or in the system's keyring."""

from __future__ import annotations

import importlib
import stat
from collections.abc import Iterable
from pathlib import Path

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.hosts import origin

FILE, KEYRING = "file:", "keyring:"
_HINT = "Write the key itself, file:PATH, or keyring:NAME (a password called NAME of the service lmtui)."


class ServerKeys:
    """Keys of model servers, each for one address: no other address gets it, whoever names that.

    Args:
        named: addresses, each with its key or where that is (`resolve_key`); the first of two with the same origin counts.
    """

    def __init__(self, named: Iterable[tuple[str, str]] = ()) -> None:
        self._keys: dict[str, str] = {}
        for url, key in named:
            _ = self._keys.setdefault(origin(url), key) if key else None

    def put(self, url: str, key: str) -> None:
        """Let an address have a key."""
        self._keys[origin(url)] = key

    def key_for(self, url: str) -> str:
        """Return the key of an address, empty where it has none.

        Raises:
            ConfigError: see `resolve_key`.
        """
        try:
            return resolve_key(self._keys.get(origin(url), ""))
        except UsageError:
            return ""

    def all(self) -> list[str]:
        return list(self._keys.values())


def resolve_key(value: str) -> str:
    """Return the key that a setting means.

    Raises:
        ConfigError: the file or the keyring has none, others may read the file, or it cannot be a key.
    """
    if value.startswith(FILE):
        return _from_file(Path(value.removeprefix(FILE)).expanduser())
    key = _from_keyring(value.removeprefix(KEYRING)) if value.startswith(KEYRING) else value
    if not key.isascii() or not key.isprintable():
        raise ConfigError("the key holds characters that no request can carry", "Copy it again, without quotes or line breaks.")
    return key


def _from_file(path: Path) -> str:
    try:
        mode = path.stat().st_mode
        text = path.read_text(encoding="ascii").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"the key file {path} cannot be read: {error}", _HINT) from error
    if mode & (stat.S_IRWXG | stat.S_IRWXO):
        raise ConfigError(f"the key file {path} can be read by others", f"Run: chmod 600 {path}")
    if not text or not text.isprintable():
        raise ConfigError(f"the key file {path} holds no key", _HINT)
    return text


def _from_keyring(name: str) -> str:
    try:
        # Imported late: an optional package, and it looks for the desktop's service when it is imported.
        keyring = importlib.import_module("keyring")
    except ImportError as error:
        raise ConfigError("the package keyring is not installed", "Run: pip install keyring, or use file:PATH.") from error
    try:
        found = keyring.get_password("lmtui", name)
    except keyring.errors.KeyringError as error:
        raise ConfigError(f"the keyring cannot be asked: {error}", _HINT) from error
    if not found:
        raise ConfigError(f"the keyring has no password {name!r} of the service lmtui", f"Run: keyring set lmtui {name}")
    return str(found)
