"""What commands say of a change and what a turn is worth by that; goals, and the findings of a review.

A command decides, a model only proposes.  Nothing here does I/O.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import ClassVar, Protocol

from lmtui.core.errors import ConfigError, UsageError
from lmtui.core.events import (
    ROOT,
    CheckSummary,
    Event,
    FilesChanged,
    FilesRestored,
    ListedRun,
    Rewound,
    ToolCallFinished,
    ToolCallStarted,
    TurnStarted,
    Verified,
)
from lmtui.core.permissions.rules import FileEffect, tools_that
from lmtui.core.remote_marks import mirrored, open_to_network
from lmtui.core.sanitize import pluralize, sanitize_line

_LOOKS = tools_that(FileEffect.NOTHING, FileEffect.SHOWS, FileEffect.LISTS)  # after these a check would say the same
MOST_LINES = 10
_LINE_CHARS = 200
LATE = "did not finish in"  # how the text of a check begins whose time ran out
_LEAST_CONFIDENCE = 0.6
_PROFILE = re.compile(r"([\w.-]+)(?:\s+(build|lint|test))?\s*:\s*(\S.*)")


class Rung(StrEnum):
    """A rung of the ladder, from cheap to dear; `goal` is a command that the user set as the end of the work."""

    PARSE = "parse"
    LINT = "lint"
    TESTS = "tests"
    SUITE = "suite"
    GOAL = "goal"


class CheckOutcome(StrEnum):
    """What came of a check.

    `flaky`: it failed, and passed at once when it was run again; `known`: it failed before the change too, in the same way;
    `not run`: it could not be, so that it says nothing.
    """

    PASSED = "passed"
    FAILED = "failed"
    FLAKY = "flaky"
    KNOWN = "known"
    NOT_RUN = "not run"

    @property
    def is_green(self) -> bool:
        """Tell whether nothing speaks against the change."""
        return self in (CheckOutcome.PASSED, CheckOutcome.FLAKY, CheckOutcome.KNOWN)


@dataclass(frozen=True, slots=True)
class ProjectCheck:
    """A command that checks a project: what it is for, and where it comes from (a file, a setting, the user)."""

    rung: Rung
    command: str
    source: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckRan(Event):
    """A check ran, or could not be.

    `text` is the first failure in at most ten lines, or why it was not run.  `exit_code` is that of its command (124 after a
    timeout), -1 where there is none.  One that `decides` is the dearest that the project has: where it is green, all changes
    are checked.
    """

    rung: Rung
    outcome: CheckOutcome
    command: str = ""
    source: str = ""
    exit_code: int = -1
    text: str = ""
    elapsed_s: float = 0.0
    turn_id: str = ""
    decides: bool = False

    @property
    def line(self) -> str:
        return f"check {self.words}"

    @property
    def words(self) -> str:
        """Return what it was and what came of it, in one line."""
        what = f"{self.rung}: {sanitize_line(self.command)}" if self.command else str(self.rung)
        first = self.text.partition("\n")[0]
        said = {
            CheckOutcome.PASSED: f"passed: {first}" if first else "passed",
            CheckOutcome.FLAKY: "failed, and passed when it ran again",
            CheckOutcome.KNOWN: "fails as it did before the change",
            CheckOutcome.NOT_RUN: first if first.startswith(LATE) else f"not run: {first}",
            CheckOutcome.FAILED: f"failed: {first}",
        }[self.outcome]
        return f"{what} {said}" + (f"  {self.elapsed_s:.1f} s" if self.elapsed_s >= 1 else "")

    @property
    def row(self) -> ListedRun:
        return ListedRun("check", self.command or str(self.rung), self.outcome.is_green, round(self.elapsed_s * 1000))


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckStarted(Event):
    """The command of a check runs."""

    durable: ClassVar[bool] = False
    command: str


CheckEvent = CheckStarted | CheckRan


class Severity(StrEnum):
    """How much a finding matters."""

    CRITICAL = "critical"
    MAJOR = "major"
    MINOR = "minor"


@dataclass(frozen=True, slots=True)
class Finding:
    """A problem in a change: `line` counts from 1 (0: unknown), `confidence` is from 0 to 1, `issue_class` names its kind."""

    severity: Severity
    file: str
    line: int
    message: str
    confidence: float = 1.0
    issue_class: str = ""

    def __str__(self) -> str:
        place = f"{self.file}:{self.line}" if self.line else self.file
        return sanitize_line(f"{self.severity}: {place}{': ' if place else ''}{self.message}")


class Gate(StrEnum):
    """Which findings block the end of a turn: none, critical and major ones that are likely, or all."""

    OFF = "off"
    STANDARD = "standard"
    STRICT = "strict"

    def blocks(self, finding: Finding) -> bool:
        """Tell whether a finding blocks the end of a turn."""
        is_serious = finding.severity is not Severity.MINOR and finding.confidence >= _LEAST_CONFIDENCE
        return self is Gate.STRICT or (self is Gate.STANDARD and is_serious)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewWritten(Event):
    """Findings in the changes of a turn: from the model of the role `reviewer`, or from lmtui's own validators.

    `is_rejected`: a finding blocks the change.  `is_usable`: the answer of the model could be parsed.
    """

    findings: tuple[Finding, ...] = ()
    is_rejected: bool = False
    summary: str = ""
    by: str = "review"
    is_usable: bool = True

    @property
    def line(self) -> str:
        """Return what was found, a finding a line."""
        verdict = ("rejected" if self.is_rejected else "approved") if self.is_usable else "no usable answer"
        verdict = verdict if self.by == "review" else pluralize(len(self.findings), "finding")
        head = f"{self.by}: {verdict}" + (f", {sanitize_line(self.summary)}" if self.summary else "")
        return "\n".join([head, *(f"  {finding}" for finding in self.findings)])


class GoalState(StrEnum):
    """How far a goal is: only one is worked at, those behind it are waiting."""

    WAITING = "waiting"
    ACTIVE = "active"
    PAUSED = "paused"
    REACHED = "reached"
    GIVEN_UP = "given up"


@dataclass(frozen=True, slots=True, kw_only=True)
class GoalChanged(Event):
    """A goal was set, or went on: work until `command` exits with 0.  An empty command means all of them are dropped."""

    command: str
    state: GoalState = GoalState.ACTIVE

    @property
    def line(self) -> str:
        return goal_words(self.command, self.state) if self.command else "all goals are dropped"


@dataclass(frozen=True, slots=True)
class VerificationTracker:
    """What checks say of the changes of a turn, from its events.

    `touched` are the files that the turn changed, each with the number of its last change, of which there are `version`;
    `unchecked` those changed since the last check of all of it was green.  `base` is the checkpoint before the first change.
    `passed` are the commands that exited with 0 in this very state, `failed` the checks that did not; `red` is
    the last failure that no green check followed, `changed_while_red` what was changed since, `ran` every check of the turn.
    """

    touched: Mapping[str, int] = field(default_factory=dict)
    version: int = 0
    unchecked: Mapping[str, None] = field(default_factory=dict)
    base: str = ""
    passed: frozenset[str] = frozenset()
    failed: Mapping[str, CheckRan] = field(default_factory=dict)
    red: CheckRan | None = None
    changed_while_red: Mapping[str, None] = field(default_factory=dict)
    ran: tuple[CheckRan, ...] = ()
    commands: Mapping[str, str] = field(default_factory=dict)
    goals: tuple[tuple[str, GoalState], ...] = ()

    def apply(self, event: Event) -> VerificationTracker:
        """Return this after an event of the session."""
        match event:
            case TurnStarted(agent=agent) if agent == ROOT:
                return VerificationTracker(goals=self.goals)
            case FilesChanged(files=files):
                new = dict.fromkeys(files)
                return replace(
                    self,
                    touched={**self.touched, **dict.fromkeys(files, self.version + 1)},
                    version=self.version + 1,
                    unchecked={**self.unchecked, **new},
                    base=self.base if self.touched else event.before,
                    passed=frozenset(),
                    failed={},
                    changed_while_red={**self.changed_while_red, **new} if self.red else {},
                )
            case FilesRestored() | Rewound():
                return VerificationTracker(goals=self.goals)
            case ToolCallStarted(tool="shell", call_id=call_id, arguments=arguments):
                return replace(self, failed={}, commands={**self.commands, call_id: str(arguments.get("command", ""))})
            case ToolCallStarted(tool=tool) if tool not in _LOOKS:
                return replace(self, failed={}) if self.failed else self
            case ToolCallFinished(call_id=call_id, ok=ok) if call_id in self.commands:
                passed = self.passed | {self.commands[call_id].strip()} if ok else self.passed
                return replace(self, passed=passed)
            case CheckRan():
                return self._take(event)
            case GoalChanged():
                return replace(self, goals=_after(self.goals, event))
            case _:
                return self

    @property
    def goal(self) -> str:
        """Return the command of the goal that is worked at, empty where there is none."""
        return next((command for command, state in self.goals if state is GoalState.ACTIVE), "")

    def known(self, command: str) -> CheckRan | None:
        """Return what a command said in this very state, None where it has to run."""
        if command in self.passed and command not in self.failed:
            return CheckRan(rung=Rung.GOAL, outcome=CheckOutcome.PASSED, command=command, exit_code=0, decides=True)
        return self.failed.get(command)

    @property
    def verified(self) -> Verified:
        """Return what the turn's changes are worth by its checks."""
        if not self.touched:
            return Verified.NONE
        if self.red is not None:
            return Verified.RED
        return Verified.UNVERIFIED if self.unchecked else Verified.GREEN

    def summaries(self) -> tuple[CheckSummary, ...]:
        """Return the checks of the turn, as its end tells them: of each command the last."""
        last = {check.command: check for check in self.ran if check.command}
        return tuple(CheckSummary(check.command, check.exit_code, check.elapsed_s) for check in last.values())

    def _take(self, check: CheckRan) -> VerificationTracker:
        changed = replace(self, ran=(*self.ran, check))
        if check.outcome is CheckOutcome.FAILED:
            return replace(changed, red=check, failed={**self.failed, check.command: check})
        if not check.outcome.is_green:
            return changed
        red = changed.red
        if red is not None and (check.decides or red.rung is check.rung):
            changed = replace(changed, red=None)
        passed = self.passed | {check.command} if check.command else self.passed
        return replace(changed, passed=passed, unchecked={} if check.decides else changed.unchecked)


def _after(goals: tuple[tuple[str, GoalState], ...], event: GoalChanged) -> tuple[tuple[str, GoalState], ...]:
    """Return the goals that are open after an event: what was reached or given up is gone, and the next is taken up."""
    if not event.command:
        return ()
    known = dict(goals)
    if event.state in (GoalState.REACHED, GoalState.GIVEN_UP):
        known.pop(event.command, None)
    else:
        is_behind = event.state is GoalState.ACTIVE and event.command not in known and GoalState.ACTIVE in known.values()
        known[event.command] = GoalState.WAITING if is_behind else event.state
    if known and not {GoalState.ACTIVE, GoalState.PAUSED} & set(known.values()):
        known[next(iter(known))] = GoalState.ACTIVE
    return tuple(known.items())


class Goals(Protocol):
    """The goals of a session: commands that end its work."""

    @open_to_network
    @mirrored
    def listed(self) -> Sequence[tuple[str, GoalState]]:
        """Return the goals that are open, the one that is worked at first."""

    def set(self, command: str) -> None:
        """Work until a command exits with 0, behind the goals that are there."""

    @open_to_network
    def pause(self) -> None:
        """Let turns end without the goal that is worked at."""

    @open_to_network
    def resume(self) -> None:
        """Work at the goal again that was paused."""

    @open_to_network
    def clear(self) -> None:
        """Drop all goals."""


class WorkspaceChecks(Protocol):
    """The checks of a workspace, for who runs them without an agent."""

    def choose(self, profile: str) -> None:
        """Use a profile of commands in this workspace until lmtui exits; `auto` returns to the settings.

        Raises:
            UsageError: no such profile.
        """

    @open_to_network
    def rules(self) -> Sequence[tuple[str, str]]:
        """Return the other rules that decide, as name and text: the profile, the gate and the reviewer."""

    @open_to_network
    def why_nothing(self) -> str:
        """Return why no command decides: there is none, or checks are off."""

    @open_to_network
    async def listed(self) -> Sequence[ProjectCheck]:
        """Return the commands that would run, with where each comes from."""

    async def run(self, on_event: Callable[[CheckEvent], None] | None = None) -> Sequence[CheckRan]:
        """Check what is changed in the workspace and return what came of each; empty where there is nothing to check.

        Args:
            on_event: called before each command runs, and with what came of each check.
        """

    @open_to_network
    def cancel(self) -> bool:
        """Stop the checks that run; return whether there were any."""


def bounded(lines: Sequence[str]) -> str:
    """Return at most ten lines of at most 200 characters each, cleaned."""
    return "\n".join(sanitize_line(line)[:_LINE_CHARS] for line in lines[:MOST_LINES])


def check_goal(command: str) -> None:
    """Refuse a command that no shell takes.

    Raises:
        UsageError: a quote is open in it.
    """
    try:
        shlex.split(command, comments=True)
    except ValueError as error:
        raise UsageError(f"the goal is not a complete command: {error}", "Close the quote.") from error


def goal_words(command: str, state: GoalState) -> str:
    """Return the text for the user about a goal."""
    how = " (/goal resume works at it again)" if state is GoalState.PAUSED else ""
    return f"goal {state}: {sanitize_line(command)}{how}"


def parse_profiles(texts: Iterable[str]) -> dict[str, dict[str, str]]:
    """Read the setting `check_profiles`: the commands of each profile by what they are for (build, lint or test).

    Raises:
        ConfigError: an entry cannot be read; the text names it.
    """
    profiles: dict[str, dict[str, str]] = {}
    for text in texts:
        found = _PROFILE.fullmatch(text.strip())
        if found is None or found[1] in ("auto", "off"):
            hint = 'Write it as "NAME: COMMAND" (the test), "NAME build: COMMAND" or "NAME lint: COMMAND".'
            raise ConfigError(f"check_profiles: {text!r} is not a profile", hint)
        profiles.setdefault(found[1], {})[found[2] or "test"] = found[3]
    return profiles
