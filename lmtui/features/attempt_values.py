"""Several attempts at one task: facts, which one is best and why, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import Protocol

from lmtui.core.events import TurnEnded, Verified
from lmtui.core.remote_marks import kept_back, mirrored, open_to_network
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.subagents import SessionAgentRunner
from lmtui.core.verification import CheckOutcome, Rung
from lmtui.core.workspace import CommandEffect, EffectReview

MOST_ATTEMPTS = 16


class AttemptState(StrEnum):
    """State of an attempt.  The changes of a `used` one were kept."""

    WAITING = "waiting"
    RUNNING = "running"
    OVER = "over"
    STOPPED = "stopped"
    USED = "used"


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a task.

    `checks` has the last outcome of each rung, `failing` counts checks or tests, `tokens` were computed so far.  `effect` is
    None until it is over, and where it cannot be read: `problem` says why, or that a budget ended it.  `digest` identifies the
    change; it is empty where that is unknown.  `patch` is the path of its patch.
    """

    number: int
    model: str = ""
    temperature: float = 0.0
    session: str = ""
    state: AttemptState = AttemptState.WAITING
    checks: Mapping[Rung, CheckOutcome] = field(default_factory=dict)
    failing: int = 0
    tokens: int = 0
    started: datetime | None = None
    elapsed_s: float = 0.0
    end: TurnEnded | None = None
    effect: CommandEffect | None = None
    problem: str = ""
    digest: str = ""
    patch: str = ""

    @property
    def is_over(self) -> bool:
        """Tell whether it has ended."""
        return self.state not in (AttemptState.WAITING, AttemptState.RUNNING)

    @property
    def is_green(self) -> bool:
        """Tell whether it is done and its checks pass."""
        return self._is_done and self.end is not None and self.end.verified == Verified.GREEN

    @property
    def is_good(self) -> bool:
        """Tell whether it is done and no check fails: it is green, or has no checks."""
        return self._is_done and self.end is not None and not self.end.doubt

    @property
    def _is_done(self) -> bool:
        return self.end is not None and self.end.exit_code == 0 and self.effect is not None

    @property
    def known(self) -> int:
        """Return how many checks fail that already failed before the change."""
        return sum(each is CheckOutcome.KNOWN for each in self.checks.values())

    @property
    def lines(self) -> tuple[int, int]:
        """Return how many lines it added and removed."""
        changes = self.effect.changes if self.effect is not None else ()
        return sum(each.added_lines for each in changes), sum(each.removed_lines for each in changes)

    @property
    def verdict(self) -> str:
        """Return its result in a few words."""
        if self.state in (AttemptState.WAITING, AttemptState.RUNNING, AttemptState.USED):
            return str(self.state)
        if self.state is AttemptState.STOPPED or self.end is None:
            return "stopped" if self.end is not None else "not run"
        if self.effect is None:
            return "unusable"
        if self.is_green:
            return "green"
        return f"{self.failing} failing" if self.failing else self.end.doubt or self.end.status

    def as_object(self, *, is_chosen: bool, is_kept: bool) -> dict[str, object]:
        """Return it as `--output json` has it."""
        added, removed = self.lines
        names = ("session", "model", "temperature", "failing", "tokens", "patch")
        return {name: getattr(self, name) for name in names} | {
            "status": self.end.status if self.end is not None else str(self.state),
            "verified": self.end.verified if self.end is not None else "",
            "files": list(self.effect.paths) if self.effect is not None else [],
            "elapsed_s": round(self.elapsed_s, 1),
            "added": added,
            "removed": removed,
            "chosen": is_chosen,
            "kept": is_kept,
        }

    def __str__(self) -> str:
        if self.effect is None:
            what = f"unusable: {sanitize_line(self.problem)}" if self.problem else "no change"
        else:
            added, removed = self.lines
            what = f"+{added} −{removed} in {pluralize(len(self.effect.paths), 'file')}"
        parts = (f"attempt {self.number}: {self.verdict}", sanitize_line(self.model), what)
        return ", ".join(each for each in (*parts, f"session {self.session}" if self.session else "") if each)


def ranked(attempts: Sequence[Attempt]) -> list[Attempt]:
    """Return those that are over, the best first: green, else not checked, else with the fewest failing tests.

    Of several green ones, those without checks that already failed before come first.  Then the smallest change counts; one
    that changed nothing comes after those that did.
    """

    def rank(attempt: Attempt) -> tuple[int, int, int, bool, int, int]:
        tier = 0 if attempt.is_green else 1 if attempt.is_good else 2 if attempt.effect is not None else 3
        is_empty = attempt.effect is None or attempt.effect.is_empty
        return tier, attempt.known, attempt.failing, is_empty, sum(attempt.lines), attempt.number

    return sorted((each for each in attempts if each.is_over), key=rank)


def reason(attempts: Sequence[Attempt], best: Attempt) -> str:
    """Return why an attempt is the best, in a few words without a full stop."""
    if best.effect is None:
        return "no attempt can be used"
    if best.effect.is_empty:
        return "no attempt changed anything"
    if best.is_green:
        equals = sum(each.is_over and each.is_green and each.known == best.known for each in attempts)
        pass_words = "nothing fails that did not fail before" if best.known else "all checks pass"
        return f"{pass_words} with the smallest change" if equals > 1 else pass_words
    if best.is_good:
        return "no checks ran; it is the smallest change"
    fails = f"fewest failing tests ({best.failing})" if best.failing else f"it ended as {best.verdict}"
    return f"none is green; {fails}"


def attempt_lines(listed: Sequence[Attempt]) -> list[str]:
    """Return the attempts in lines for people."""
    if not listed:
        return ["No attempts yet. /attempts 3 TASK tries a task three times."]
    lines = [str(each) for each in listed]
    if all(each.is_over for each in listed):
        lines.append(f"Best: attempt {listed[0].number}, {reason(listed, listed[0])}.")
    return [*lines, "Your folder is unchanged until you use one: /attempts use 1"]


class WorkspaceAttempts(Protocol):
    """The attempts at one task in a workspace; they stay until new ones begin or they are discarded."""

    @property
    @open_to_network
    def task(self) -> str:
        """Return the task, empty without attempts."""

    @property
    @open_to_network
    def is_running(self) -> bool:
        """Tell whether one is still running or waiting."""

    @open_to_network
    @mirrored
    def listed(self) -> Sequence[Attempt]:
        """Return the attempts: by number while one is running, then the best first."""

    @open_to_network
    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on every change of the attempts; the returned function ends that."""

    @kept_back
    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        """Let a front end run the agents of attempts that begin from now on; see `Session.run_agents_in`."""

    @open_to_network
    async def begin(self, task: str, count: int, session_id: str) -> None:
        """Begin attempts at a task; a notice in an open session says when they are done.

        Raises:
            UsageError: others are still running, or attempts cannot run here.
        """

    @open_to_network
    async def again(self, number: int) -> None:
        """Run one more attempt with the settings of another and a new seed."""

    @open_to_network
    async def stop(self, number: int) -> None:
        """Stop an attempt; its changes so far stay."""

    @open_to_network
    async def use(self, number: int, session_id: str) -> Sequence[str]:
        """Keep the changes of an attempt as a step of an open session; return what was quarantined or cannot be kept.

        Raises:
            UsageError: it is not done, or changed nothing.
            SandboxError: a turn of the session is running, or files have changed since; nothing was kept.
        """

    @open_to_network
    def review(self, number: int, session_id: str) -> EffectReview:
        """Return the effect of an attempt, to be kept in parts as steps of an open session; `drop` discards the attempt.

        Raises:
            UsageError: see `use`.
        """

    @open_to_network
    async def discard(self) -> None:
        """Stop all of them and delete their changes and patches."""
