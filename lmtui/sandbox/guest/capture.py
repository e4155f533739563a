"""What is kept of a command's output: head and tail for the answer, the first megabyte in a file, live pieces for the screen.

The pipe is always drained; memory stays bounded whatever a command writes.
"""

from __future__ import annotations

import os
from importlib import import_module

HEAD_BYTES = 32_768
TAIL_BYTES = 32_768
_SAVED_BYTES = 1_048_576
_LIVE_BYTES = 16_384
_MAX_SAVED_FILES = 16


class Spool:
    """The folder of saved outputs, made at first need, with the newest few kept."""

    def __init__(self) -> None:
        self.folder = ""
        self._paths: list[str] = []

    def create(self) -> tuple[int, str]:
        """Open a fresh file and return its descriptor and path.

        Raises:
            OSError: no room or no right.
        """
        if not self.folder:
            self.folder = str(import_module("tempfile").mkdtemp(prefix="lmtui-output-"))  # late: few commands need it
        if len(self._paths) >= _MAX_SAVED_FILES:
            os.unlink(self._paths.pop(0))
        path = f"{self.folder}/{os.urandom(6).hex()}.txt"
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        self._paths.append(path)
        return fd, path

    def remove(self) -> None:
        """Delete the folder with everything in it."""
        if self.folder:
            import_module("shutil").rmtree(self.folder, ignore_errors=True)


class Capture:
    """The output of one command."""

    def __init__(self, spool: Spool) -> None:
        self.total_bytes = 0
        self.saved_path = ""
        self.head = bytearray()
        self.tail = bytearray()  # as far as it is not in the head
        self._spool = spool
        self._saved_fd = -1
        self._saved_bytes = 0
        self.live = bytearray()  # waits to be shown
        self._live_skipped = 0

    def add(self, data: bytes) -> None:
        """Take up what the command wrote."""
        self.total_bytes += len(data)
        self.live += data
        surplus = max(0, len(self.live) - _LIVE_BYTES)
        del self.live[:surplus]
        self._live_skipped += surplus
        room = HEAD_BYTES - len(self.head)
        self.head += data[:room]
        if rest := data[room:]:
            self.tail += rest
            if self._saved_fd >= 0 or self.total_bytes > HEAD_BYTES + TAIL_BYTES:
                self._save(rest)
            del self.tail[:-TAIL_BYTES]

    def take_live(self) -> tuple[bytes, int]:
        """Return what is to be shown now and how many bytes before it were skipped."""
        taken = bytes(self.live), self._live_skipped
        self.live.clear()
        self._live_skipped = 0
        return taken

    def close(self) -> None:
        """Close the saved file."""
        if self._saved_fd >= 0:
            os.close(self._saved_fd)
            self._saved_fd = -1

    def _save(self, rest: bytes) -> None:
        """Append to the saved file; the first time, everything that came before too (it is all still in memory)."""
        if self._saved_bytes >= _SAVED_BYTES:
            return
        try:
            if self._saved_fd < 0:
                self._saved_fd, self.saved_path = self._spool.create()
                rest = bytes(self.head + self.tail)
            self._saved_bytes += os.write(self._saved_fd, rest[: _SAVED_BYTES - self._saved_bytes])
        except OSError:
            self._saved_bytes = _SAVED_BYTES  # no room: the answer still has head and tail
