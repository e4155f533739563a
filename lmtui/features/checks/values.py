"""What checks run with: commands and how they ended, edits of definitions.  No I/O."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.verification import CheckRan


@dataclass(frozen=True, slots=True)
class CommandEnded:
    """How the command of a check ended.  `why_not` says why it did not run; the rest is empty then.

    `note` says what else there is to know of the run.
    """

    exit_code: int = 0
    output: str = ""
    elapsed_s: float = 0.0
    is_timed_out: bool = False
    why_not: str = ""
    note: str = ""


class CheckRunner(Protocol):
    """What a ladder may do: run a command as the permissions have it, read files, and look at what was before the change."""

    async def run(self, command: str, *, limit_s: int, may_write: bool = True) -> CommandEnded:
        """Run a command where it can change nothing; where it has to write, as the permissions and the user have it."""

    async def read(self, path: str) -> bytes | None:
        """Return a file of the workspace, None where it cannot be read or is large."""

    async def search(self, pattern: str, glob: str) -> Sequence[str]:
        """Return the files whose text matches a regular expression, at most 200."""

    async def glob(self, pattern: str) -> Sequence[str]:
        """Return the files that match, at most 200."""

    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        """Return files as they were before the change (None: not there), None where that is not known."""

    def tell(self, check: CheckRan) -> None:
        """Write down what came of a check."""


Ask = Callable[[str], Awaitable[str]]


def wants_to_write(output: str) -> bool:
    """Tell whether a command failed for want of a place to write; a cache that cannot be written does not count."""
    lines = output.lower().splitlines()
    return any("read-only file system" in line and "cache" not in line for line in lines)
