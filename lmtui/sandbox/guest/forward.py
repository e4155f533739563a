"""The sandbox's end of the proxy: a port on the loopback, for programs that know proxies by address, joined to the socket.

It only carries bytes; who may go where is decided outside.  It lives in the supervisor's one loop and never waits.
"""

from __future__ import annotations

import selectors
import socket
from contextlib import suppress

PORT = 3128
_CHUNK_BYTES = 65_536
_MOST_WAITING_BYTES = 1_048_576
_MAX_PAIRS = 64


class _End:
    """One end of a pair: its socket, the other end, and what waits to be written to it."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.other: _End | None = None
        self.waiting = bytearray()
        self.is_finished = False
        self.is_closed = False


class Forwarder:
    """Accepts connections on the loopback and joins each to the proxy's socket.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, selector: selectors.BaseSelector, target: str) -> None:
        self._selector = selector
        self._target = target
        self._pairs = 0
        self._listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind(("127.0.0.1", PORT))
        self._listener.listen(32)
        self._listener.settimeout(0)
        selector.register(self._listener, selectors.EVENT_READ, self._accept)

    @property
    def fd(self) -> int:
        """Return the listening descriptor, which keepers must not keep."""
        return self._listener.fileno()

    def _accept(self) -> bool:
        with suppress(OSError):
            near, _ = self._listener.accept()
            far = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM | socket.SOCK_CLOEXEC)
            if self._pairs >= _MAX_PAIRS:
                near.close()
                far.close()
                return True
            try:
                far.connect(self._target)
            except OSError:
                near.close()
                far.close()
                return True
            self._join(_End(near), _End(far))
        return True

    def _join(self, near: _End, far: _End) -> None:
        near.other, far.other = far, near
        self._pairs += 1
        for end in (near, far):
            end.sock.settimeout(0)
            self._watch(end)

    def _watch(self, end: _End) -> None:
        """Register an end for just what it can do now."""
        assert end.other is not None
        events = 0
        if not end.is_finished and len(end.other.waiting) < _MOST_WAITING_BYTES:
            events |= selectors.EVENT_READ
        if end.waiting:
            events |= selectors.EVENT_WRITE
        is_registered = end.sock in self._selector.get_map()
        if end.is_closed or not events:
            if is_registered:
                self._selector.unregister(end.sock)
        elif is_registered:
            self._selector.modify(end.sock, events, lambda: self._move(end))
        else:
            self._selector.register(end.sock, events, lambda: self._move(end))

    def _move(self, end: _End) -> bool:
        """Write what waits, read what is there; end the pair when both directions are done."""
        other = end.other
        assert other is not None
        if end.is_closed:
            return True
        try:
            if end.waiting:
                with suppress(BlockingIOError):
                    del end.waiting[: end.sock.send(end.waiting)]
            if not end.is_finished:
                with suppress(BlockingIOError):
                    piece = end.sock.recv(_CHUNK_BYTES)
                    end.is_finished = not piece
                    other.waiting += piece
        except OSError:
            self._close(end, other)
            return True
        if end.is_finished and not other.waiting:
            with suppress(OSError):
                other.sock.shutdown(socket.SHUT_WR)
        if end.is_finished and other.is_finished and not end.waiting and not other.waiting:
            self._close(end, other)
            return True
        self._watch(end)
        self._watch(other)
        return True

    def _close(self, end: _End, other: _End) -> None:
        self._pairs -= 1
        for each in (end, other):
            each.is_closed = True
            with suppress(KeyError, ValueError):
                self._selector.unregister(each.sock)
            with suppress(OSError):
                each.sock.shutdown(socket.SHUT_RDWR)  # keepers may hold it a while
            each.sock.close()


def environment() -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    address = f"http://127.0.0.1:{PORT}"
    return {
        "HTTPS_PROXY": address, "https_proxy": address, "HTTP_PROXY": address, "http_proxy": address,
        "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
