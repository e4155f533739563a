"""Commands that go on while other calls are made: dev servers, watchers, long builds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class BackgroundCommand:
    """A command that stays; it runs while `exit_code` is None.  `why` tells how it ended where that was not by itself."""

    id: str
    command: str
    elapsed_s: float
    exit_code: int | None = None
    why: str = ""

    @property
    def state(self) -> str:
        """Return how it stands, in a few words."""
        if self.exit_code is None:
            return f"running for {self.elapsed_s:.0f} s"
        return f"{self.why or f'ended, exit code {self.exit_code}'} after {self.elapsed_s:.0f} s"


class BackgroundCommands(Protocol):
    """Commands that stay, of one session; all methods raise `SandboxError` where there is no such command."""

    def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever one starts or ends."""

    def commands(self) -> Sequence[BackgroundCommand]:
        """Return all that were started, the oldest first."""

    async def start(self, command: str) -> BackgroundCommand:
        """Start a command; it ends with the session at the latest."""

    async def read(self, identity: str, wait_s: float = 0.0) -> tuple[str, BackgroundCommand]:
        """Return what a command said since the last time; with `wait_s`, wait so long for something or for its end."""

    async def send(self, identity: str, text: str) -> None:
        """Send a command input."""

    async def stop(self, identity: str) -> BackgroundCommand:
        """Stop a command and all that it started; one that has ended is left as it is."""

    async def close(self) -> None:
        """Stop all of them."""
