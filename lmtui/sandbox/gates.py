"""Who is asked about a host: the command that was started last, as a connection does not say which command it is of."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from lmtui.core.hosts import HostGate


class Gates:
    """The gates of the commands under way."""

    def __init__(self) -> None:
        self._open: list[HostGate] = []

    @contextlib.contextmanager
    def open(self, gate: HostGate | None) -> Iterator[None]:
        """Let a command's gate be asked while it runs."""
        if gate is None:
            yield
            return
        self._open.append(gate)
        try:
            yield
        finally:
            self._open.remove(gate)

    def current(self) -> HostGate | None:
        """Return the gate to ask, None where no command runs."""
        return self._open[-1] if self._open else None
