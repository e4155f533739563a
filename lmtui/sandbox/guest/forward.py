"""The sandbox's end of the proxy: a port on the loopback, for programs that know proxies by address, joined to the socket.

It only carries bytes; who may go where is decided outside.  It lives in the supervisor's one loop and never waits.
"""

from __future__ import annotations

import selectors
import socket
from collections.abc import Callable
from contextlib import suppress

PORT = 3128
_CHUNK_BYTES = 65_536
_MOST_DIRECTIONS = 128


class _Direction:
    """One direction of a connection: what its source says goes to its target, one piece at a time."""

    def __init__(
        self, selector: selectors.BaseSelector, source: socket.socket, target: socket.socket, on_end: Callable[[], None]
    ) -> None:
        self._selector, self._source, self._target, self._on_end = selector, source, target, on_end
        self._piece = b""
        self._watched = source
        for sock in (source, target):
            sock.settimeout(0)
        selector.register(source, selectors.EVENT_READ, self._move)

    def _move(self) -> bool:
        """Read and write what can be; the end of the source ends this direction, an error the whole connection."""
        try:
            with suppress(BlockingIOError):
                self._piece = self._piece or self._source.recv(_CHUNK_BYTES)
                if not self._piece:
                    return self._end(socket.SHUT_WR, self._target)
                self._piece = self._piece[self._target.send(self._piece) :]
        except OSError:
            return self._end(socket.SHUT_RDWR, self._source, self._target)
        wanted = self._target if self._piece else self._source
        if wanted is not self._watched:
            self._selector.unregister(self._watched)
            self._selector.register(wanted, selectors.EVENT_WRITE if self._piece else selectors.EVENT_READ, self._move)
            self._watched = wanted
        return True

    def _end(self, how: int, *ended: socket.socket) -> bool:
        self._selector.unregister(self._watched)
        for sock in ended:
            with suppress(OSError):
                sock.shutdown(how)  # keepers may hold it a while
        self._source.close()
        self._target.close()
        self._on_end()
        return True


class Forwarder:
    """Accepts connections on the loopback and joins each to the proxy's socket.

    Raises:
        OSError: the port is taken.
    """

    def __init__(self, selector: selectors.BaseSelector, target: str) -> None:
        self._selector = selector
        self._target = target
        self._open = 0
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
            try:
                if self._open >= _MOST_DIRECTIONS:
                    raise ConnectionRefusedError
                far.connect(self._target)
            except OSError:
                near.close()
                far.close()
                return True
            for source, target in ((near, far), (far.dup(), near.dup())):
                self._open += 1
                _Direction(self._selector, source, target, self._ended)
        return True

    def _ended(self) -> None:
        self._open -= 1


def environment() -> dict[str, str]:
    """Return the variables by which programs find the proxy."""
    address = f"http://127.0.0.1:{PORT}"
    return {
        "HTTPS_PROXY": address, "https_proxy": address, "HTTP_PROXY": address, "http_proxy": address,
        "NO_PROXY": "localhost,127.0.0.1", "no_proxy": "localhost,127.0.0.1",
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }  # fmt: skip
