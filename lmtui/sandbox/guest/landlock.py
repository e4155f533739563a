"""Landlock: a process gives up, for itself and its children, every file but those below some folders, and what it asks more.

It can only add: a path inside a folder that is granted cannot be taken out again.  Numbers and layouts from linux/landlock.h.
"""

from __future__ import annotations

import os
import stat
import struct
from collections.abc import Iterable

from . import linux

OLDEST_ABI = 3  # the first that also guards truncation
_SYS_CREATE, _SYS_ADD, _SYS_RESTRICT = 444, 445, 446  # the same on every architecture
_ASK_FOR_ABI = 1
_BELOW_PATH = 1

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_MAKE_CHAR, _MAKE_BLOCK, _IOCTL_DEVICE = 1 << 6, 1 << 11, 1 << 15
_TRUNCATE = 1 << 14
_ALL_FILES = {3: (1 << 15) - 1, 4: (1 << 15) - 1}  # from ABI 5 on: also ioctl on devices
_ALL_FILES_NOW = (1 << 16) - 1
_OF_A_FILE = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE
_READ = _EXECUTE | _READ_FILE | _READ_DIR
_WRITE = _ALL_FILES_NOW & ~(_MAKE_CHAR | _MAKE_BLOCK | _IOCTL_DEVICE)
_TCP = 0b11  # bind, connect
_SCOPES = 0b11  # abstract unix sockets, signals
_TCP_ABI, _SCOPE_ABI = 4, 6


def abi() -> int:
    """Return the kernel's version of the interface; 0 where there is none or it is switched off."""
    try:
        return linux.call(_SYS_CREATE, None, 0, _ASK_FOR_ABI)
    except OSError:
        return 0


def restrict(reads: Iterable[str], writes: Iterable[str], devices: Iterable[str], *, has_network: bool) -> None:
    """Give up everything else.  Needs no_new_privs.  Paths that do not exist are left out.

    Signals and abstract sockets reach only what is as restricted (ABI 6); without network TCP is refused (ABI 4).

    Raises:
        OSError: the kernel refuses; the process is as free as before then.
    """
    version = abi()
    if version < OLDEST_ABI:
        raise OSError(f"Landlock is at version {version} here, {OLDEST_ABI} is needed")
    handled = _ALL_FILES.get(version, _ALL_FILES_NOW)
    tcp = _TCP if version >= _TCP_ABI and not has_network else 0
    scopes = _SCOPES if version >= _SCOPE_ABI else 0
    size = 24 if version >= _SCOPE_ABI else 16 if version >= _TCP_ABI else 8
    ruleset = linux.call(_SYS_CREATE, struct.pack("=QQQ", handled, tcp, scopes), size, 0)
    try:
        for paths, rights in ((reads, _READ), (writes, _WRITE), (devices, _READ_FILE | _WRITE_FILE)):
            for path in paths:
                _grant(ruleset, path, rights & handled)
        linux.call(_SYS_RESTRICT, ruleset, 0)
    finally:
        os.close(ruleset)


def _grant(ruleset: int, path: str, rights: int) -> None:
    try:
        fd = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return  # not on this machine, or not for this user
    try:
        if not stat.S_ISDIR(os.fstat(fd).st_mode):
            rights &= _OF_A_FILE
        linux.call(_SYS_ADD, ruleset, _BELOW_PATH, struct.pack("=Qi", rights, fd), 0)
    finally:
        os.close(fd)
