"""What checks run with (commands and how they ended, the files of the workspace), and what came of them in lines."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.permissions.rules import Decision, Verdict
from lmtui.core.ports import Sandbox
from lmtui.core.sanitize import sanitize_line
from lmtui.core.verification import CheckEvent, CheckOutcome, CheckRan, CheckStarted, ProjectCheck, Rung
from lmtui.core.workspace import ExecResult

_MAX_BYTES = 1_000_000
_NEEDS_READ_ONLY = "it needs a read-only sandbox"


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


def ended_of(result: ExecResult, note: str = "") -> CommandEnded:
    """Return how a command in the sandbox ended."""
    return CommandEnded(result.exit_code, result.output, result.elapsed_ms / 1000, result.is_timed_out, note=note)


class CheckRunner(ABC):
    """What a ladder may do: run a command as the permissions have it, read files, and look at what was before the change.

    A file that cannot be read is not there.
    """

    def __init__(self, files: Sandbox) -> None:
        self._files = files

    async def run(self, command: str, *, limit_s: int, may_write: bool = True) -> CommandEnded:
        """Run a command where it can change nothing; where it has to write, as the permissions and the user have it."""
        try:
            decision, is_read_only = await self._begin(command, limit_s)
            if decision.verdict is Verdict.DENY:
                return CommandEnded(why_not=decision.why)
            if is_read_only:
                ended = await self._files.read_only().run_command(command, timeout_s=limit_s)
                if not may_write or ended.exit_code == 0 or not wants_to_write(ended.output):
                    return ended_of(ended)
            return await self._run_writing(command, limit_s, decision) if may_write else CommandEnded(why_not=_NEEDS_READ_ONLY)
        except (SandboxError, ToolError) as error:
            return CommandEnded(why_not=error.full_text())

    @abstractmethod
    async def _begin(self, command: str, limit_s: int) -> tuple[Decision, bool]:
        """Say that a command runs; return what the permissions say, and whether it runs in the read-only instance first."""

    @abstractmethod
    async def _run_writing(self, command: str, limit_s: int, decision: Decision) -> CommandEnded:
        """Run a command that changes files."""

    @abstractmethod
    async def before(self, paths: Sequence[str]) -> Mapping[str, bytes | None] | None:
        """Return files as they were before the change (None: not there), None where that is not known."""

    @abstractmethod
    def tell(self, check: CheckRan) -> None:
        """Write down what came of a check."""

    async def read(self, path: str) -> bytes | None:
        """Return a file of the workspace, None where it cannot be read or is large."""
        with contextlib.suppress(SandboxError):
            content = await self._files.read_file(path, _MAX_BYTES)
            return content.data if content.size_bytes <= len(content.data) else None
        return None

    async def search(self, pattern: str, glob: str) -> Sequence[str]:
        """Return the files whose text matches a regular expression, at most 200."""
        with contextlib.suppress(SandboxError):
            return tuple(dict.fromkeys(match.path for match in await self._files.grep(pattern, glob=glob)))
        return ()

    async def glob(self, pattern: str) -> Sequence[str]:
        """Return the files that match, at most 200."""
        with contextlib.suppress(SandboxError):
            return await self._files.glob(pattern)
        return ()


Ask = Callable[[str], Awaitable[str]]


def wants_to_write(output: str) -> bool:
    """Tell whether a command failed for want of a place to write; a cache that cannot be written does not count."""
    lines = output.lower().splitlines()
    return any("read-only file system" in line and "cache" not in line for line in lines)


_SIGNS = {CheckOutcome.PASSED: "✓", CheckOutcome.FAILED: "✗"}


def check_lines(checks: Iterable[CheckRan]) -> list[str]:
    """Return what came of checks, each failure with its lines."""
    lines: list[str] = []
    for check in checks:
        lines.append(f"{_SIGNS.get(check.outcome, '!')} {check.words}")
        lines += [f"    {line}" for line in check.text.splitlines()[1:]]
    return lines


def command_lines(checks: Iterable[ProjectCheck], rules: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the commands that would run, and the rules behind them, in columns."""
    rows = [(str(check.rung), f"{sanitize_line(check.command)}  ({sanitize_line(check.source)})") for check in checks]
    return [f"{name:<7} {words}" for name, words in (*rows, *rules)]


def lacks_suite(checks: Sequence[CheckRan | ProjectCheck]) -> bool:
    """Tell whether no command among these decides."""
    return not any(check.decides if isinstance(check, CheckRan) else check.rung is Rung.SUITE for check in checks)


def started_line(event: CheckEvent, shown: set[str]) -> str:
    """Return the line about a command that begins; empty for one that was `shown`, because a red one runs again."""
    if not isinstance(event, CheckStarted) or event.command in shown:
        return ""
    shown.add(event.command)
    return f"… {sanitize_line(event.command)}"
