"""Tells that something changed in a few folders: the kernel wakes the event loop, so nothing runs while nothing happens.

Linux only (inotify(7)); elsewhere, and where the kernel's limit is reached, it says so once and watches nothing.
"""

from __future__ import annotations

import asyncio
import ctypes
import errno
import os
import struct
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

from lmtui.core.workspace_files import FoldersChanged
from lmtui.plain_files import open_plain_folder

DEBOUNCE_S = 0.2
_CLOSE_WRITE, _MOVED, _CREATE, _DELETE, _GONE = 0x8, 0xC0, 0x100, 0x200, 0xC00
_ONLY_FOLDER, _EXCLUDE_UNLINKED = 0x0100_0000, 0x0400_0000
_MASK = _CLOSE_WRITE | _MOVED | _CREATE | _DELETE | _GONE | _ONLY_FOLDER | _EXCLUDE_UNLINKED
_WAS_MOVED, _IS_OVERFLOW, _IS_FORGOTTEN = 0x800, 0x4000, 0x8000
_HEADER = struct.Struct("iIII")
_READ_BYTES = 65_536
_GIT = ".git"
_OWN_NAMES = (b".lmtui-", b".lmagent")
_ELSEWHERE = "Changes by other programs are seen when a step ends: this system cannot tell of them at once."
_LIMIT = (
    "Changes by other programs are seen when a step ends: the limit of watched folders is reached "
    "(sysctl fs.inotify.max_user_watches, max_user_instances)."
)


class FolderWatch:
    """Watches folders of one workspace and calls a listener on the event loop, at most five times a second."""

    def __init__(self, root: Path, listener: Callable[[FoldersChanged], object]) -> None:
        self.root = root
        self._listener = listener
        self._libc = ctypes.CDLL(None, use_errno=True) if sys.platform == "linux" else None
        self._fd = -1
        self._is_off = False
        self._by_folder: dict[str, int] = {}
        self._by_number: dict[int, str] = {}
        self._changed: set[str] = set()
        self._timer: asyncio.TimerHandle | None = None

    @property
    def folders(self) -> frozenset[str]:
        """Return what is watched, git's own folder not counted."""
        return frozenset(self._by_folder) - {_GIT}

    def watch(self, folders: frozenset[str]) -> None:
        """Watch just these folders, and git's own."""
        if self._is_off or not self._open():
            return
        for folder in set(self._by_folder) - folders - {_GIT}:
            number = self._by_folder.pop(folder)
            self._forget(number)
        for folder in (folders | {_GIT}) - set(self._by_folder):
            if not self._add(folder):
                return

    def close(self) -> None:
        """Watch nothing any more; idempotent."""
        self._is_off = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._fd >= 0:
            with suppress(RuntimeError):  # the loop is closed already
                asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
        self._by_folder.clear()
        self._by_number.clear()

    def _open(self) -> bool:
        if self._fd >= 0:
            return True
        self._fd = self._libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC) if self._libc is not None else -1
        if self._fd < 0:
            self._give_up(_ELSEWHERE if self._libc is None else _LIMIT)
            return False
        asyncio.get_running_loop().add_reader(self._fd, self._read)
        return True

    def _add(self, folder: str) -> bool:
        """Watch a folder if it is one, reached without a link; False where no more can be watched."""
        try:
            opened = open_plain_folder(self.root, folder)
        except OSError:
            return True
        assert self._libc is not None
        path = f"/proc/self/fd/{opened}".encode()
        number = self._libc.inotify_add_watch(self._fd, ctypes.c_char_p(path), ctypes.c_uint32(_MASK))
        os.close(opened)
        if number >= 0:
            self._by_folder[folder], self._by_number[number] = number, folder
        elif ctypes.get_errno() in (errno.ENOSPC, errno.ENOMEM):
            self._give_up(_LIMIT)
            return False
        return True

    def _forget(self, number: int) -> None:
        self._by_number.pop(number, None)
        assert self._libc is not None
        self._libc.inotify_rm_watch(self._fd, number)

    def _give_up(self, problem: str) -> None:
        self.close()
        self._listener(FoldersChanged(problem=problem))

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except OSError:
            return
        for number, mask, name in _events(data):
            if mask & _IS_OVERFLOW:
                self._changed |= set(self._by_folder)
            folder = self._by_number.get(number)
            if folder is None or name.startswith(_OWN_NAMES) or (folder == _GIT and name.endswith(b".lock")):
                continue
            self._changed.add(folder)
            if mask & _WAS_MOVED:  # the watch would follow it to its new name, and the old name may come back
                self._forget(number)
            elif mask & _IS_FORGOTTEN:
                del self._by_number[number]
            if mask & (_WAS_MOVED | _IS_FORGOTTEN):
                self._by_folder.pop(folder, None)
        if self._changed and self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(DEBOUNCE_S, self._tell)

    def _tell(self) -> None:
        self._timer = None
        changed, self._changed = frozenset(self._changed), set()
        self._listener(FoldersChanged(changed - {_GIT}, _GIT in changed))


def _events(data: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield watch number, mask and name of each event in what the kernel wrote (inotify(7))."""
    at = 0
    while at + _HEADER.size <= len(data):
        number, mask, _cookie, size = _HEADER.unpack_from(data, at)
        at += _HEADER.size
        yield number, mask, data[at : at + size].rstrip(b"\0")
        at += size
