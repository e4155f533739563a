"""The token of a user's host: a private file.  It is never taken from an address and never written anywhere but there."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

from lmtui.core.errors import ConfigError

FILE_NAME = "host.token"
LEAST_TOKEN_CHARS, _MOST_TOKEN_BYTES = 32, 4096


def ensure_token(folder: Path) -> str:
    """Return the token of this user's host, made on the first use: a file (0600) in a private folder (0700).

    Blocks (disk).

    Raises:
        ConfigError: the folder or the file cannot be made, belongs to another user, or can be read by others.
    """
    path = folder / FILE_NAME
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        _check_private(folder, folder.lstat(), is_folder=True)
        with contextlib.suppress(FileExistsError):
            _make(path)
        return read_token(path)
    except OSError as error:
        raise ConfigError(f"{path} cannot be made: {error.strerror}", "Make its folder writable.") from error


def read_token(path: Path) -> str:
    """Return the token in a file.  Blocks (disk).

    Raises:
        ConfigError: it cannot be read, holds no token, belongs to another user, or can be read by others.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}", "Start the host: `lmtui host start`.") from error
    try:
        _check_private(path, os.fstat(descriptor), is_folder=False)
        token = os.read(descriptor, _MOST_TOKEN_BYTES).decode("ascii", "replace").strip()
    finally:
        os.close(descriptor)
    if len(token) < LEAST_TOKEN_CHARS or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigError(f"{path} does not contain a token", "Delete it; the host makes a new one.")
    return token


def _make(path: Path) -> None:
    """Write a new token whole or not at all; one that is there stays.

    Raises:
        FileExistsError: there is one.
    """
    draft = path.with_name(f".{path.name}.{secrets.token_hex(6)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            _ = file.write(secrets.token_urlsafe(32) + "\n")
        path.hardlink_to(draft)  # fails where somebody was quicker
    finally:
        draft.unlink()


def _check_private(path: Path, found: os.stat_result, *, is_folder: bool) -> None:
    is_kind = stat.S_ISDIR(found.st_mode) if is_folder else stat.S_ISREG(found.st_mode)
    if not is_kind:
        raise ConfigError(f"{path} is not a {'folder' if is_folder else 'regular file'}", "Remove it.")
    if found.st_uid != os.geteuid():
        raise ConfigError(f"{path} belongs to another user", "Remove it, or set LMTUI_HOME to a folder of your own.")
    if found.st_mode & 0o077:
        raise ConfigError(
            f"{path} can be read by other users", f"Run `chmod {'700' if is_folder else '600'} {path}`, then delete the token."
        )
