"""A program that serves: started in its own place, talked to over its input and output until it is ended.  Values only."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from lmtui.core.messages import Image


@dataclass(frozen=True, slots=True)
class CodeResult:
    """What code did: `output` as it was printed, the value of its last line included, and the pictures that it showed.

    `is_fresh`: a new interpreter ran it, which knew nothing of earlier code; `is_lost`: the interpreter had to be ended, and
    what it knew is gone.  `total_chars` counts all that was printed, also what is left out of `output`.  `left` says what it
    made for programs outside and was moved aside.
    """

    output: str
    is_ok: bool = True
    images: tuple[Image, ...] = ()
    is_fresh: bool = False
    is_lost: bool = False
    is_timed_out: bool = False
    total_chars: int = 0
    left: tuple[str, ...] = ()


class Interpreter(Protocol):
    """One interpreter of a session, begun at the first use."""

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> CodeResult:
        """Run code; a cancel stops it and keeps what it knew, where it lets itself be stopped.

        Raises:
            SandboxError: it cannot be started.
        """

    async def close(self) -> None:
        """End it; the next code gets a fresh one."""


# Programs that fetch what they then run.
FETCHERS = frozenset({"npx", "npm", "pnpm", "pnpx", "yarn", "bunx", "uvx", "uv", "pipx"})


@dataclass(frozen=True, slots=True)
class Launch:
    """What to start, and what it may reach.

    `variables` are next to the environment of commands, and nothing else of lmtui's own does.  `folder` is where it begins,
    relative to the workspace.  `hosts` are patterns of hosts that it may reach (`*`: all of the network).  `toolchains` are
    folders of the user's that it may read, at the same path.  `can_write`: the workspace is not read-only to it.
    `on_host`: no sandbox is put around it, as the user named that.  `program` is what the user allowed to run, where that is
    not the first of the arguments.  `shows_added`: it may read the folders that the user added to the workspace.  `keeps` names
    the home that it finds again at its next start; without a name its home is empty each time.
    """

    arguments: tuple[str, ...]
    variables: Mapping[str, str] = field(default_factory=dict)
    folder: str = ""
    hosts: tuple[str, ...] = ()
    toolchains: tuple[str, ...] = ()
    can_write: bool = True
    on_host: bool = False
    memory_mb: int = 1024
    program: str = ""
    shows_added: bool = False
    keeps: str = ""


class Served(Protocol):
    """A program that was started."""

    @property
    def place(self) -> str:
        """Return in words what is around it."""

    async def read(self) -> bytes:
        """Return the next of its output; empty where it has ended."""

    async def write(self, data: bytes) -> None:
        """Send it input.

        Raises:
            SandboxError: it has ended.
        """

    async def close(self) -> None:
        """End it with everything below it; idempotent."""
