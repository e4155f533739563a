"""A Python interpreter that stays between calls: what it is asked and what comes of it.  Values only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.pictures import Image


@dataclass(frozen=True, slots=True)
class Ran:
    """What code did: `output` as it was printed, the value of its last line included, and the pictures that it showed.

    `is_fresh`: a new interpreter ran it, which knew nothing of earlier code; `is_lost`: the interpreter had to be ended, and
    what it knew is gone.  `total_chars` counts all that was printed, also what is left out of `output`.  `left` says what it
    made for programs outside and was set aside.
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

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> Ran:
        """Run code; a cancel stops it and keeps what it knew, where it lets itself be stopped.

        Raises:
            SandboxError: it cannot be started.
        """

    async def close(self) -> None:
        """End it; the next code gets a fresh one."""


class NoInterpreter:
    """Stands where there is none."""

    async def run(self, code: str, *, timeout_s: float, on_output: Callable[[str], None]) -> Ran:
        """Say so."""
        del code, timeout_s, on_output
        raise SandboxUnavailable("there is no Python here", "Use shell.")

    async def close(self) -> None:
        """Do nothing."""
