"""Server-sent events, incrementally.  Format: WHATWG HTML, section 9.2 "Server-sent events"."""

from __future__ import annotations

from lmtui.core.errors import Fault, ProviderError

MAX_EVENT_BYTES = 16 * 1024 * 1024


class SseDecoder:
    """Turns bytes into the `data` of events; however the bytes are split, the events are the same."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._data: list[bytes] = []
        self._data_bytes = 0

    def feed(self, chunk: bytes) -> list[str]:
        """Return the data of each event that this chunk completes.

        Raises:
            ProviderError: an event is larger than 16 MiB.
        """
        self._buffer += chunk
        _check_size(len(self._buffer))
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        held = b"\r" if self._buffer.endswith(b"\r") else b""
        text = bytes(self._buffer[: len(self._buffer) - len(held)]).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        lines = text.split(b"\n")
        self._buffer = bytearray(lines.pop() + held)
        return [event for line in lines if (event := self._take(line)) is not None]

    def finish(self) -> list[str]:
        """Return what the stream's end completes (servers forget the last blank line)."""
        events = self.feed(b"\n") + self.feed(b"\n\n")
        self._buffer.clear()
        return events

    def _take(self, line: bytes) -> str | None:
        if line:
            field, _, value = line.partition(b":")
            if field == b"data":
                self._data.append(value.removeprefix(b" "))
            elif line.startswith(b"{"):
                self._data.append(line)
            else:
                return None
            self._data_bytes += len(line) + 1
            _check_size(self._data_bytes)
            return None
        if not self._data:
            return None
        data, self._data, self._data_bytes = b"\n".join(self._data), [], 0
        return data.decode("utf-8", "replace")


def _check_size(size_bytes: int) -> None:
    if size_bytes > MAX_EVENT_BYTES:
        raise ProviderError(Fault.GARBAGE, "the server sent an event of more than 16 MiB")
