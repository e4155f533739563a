"""Was a plan step checked?  What its check names is compared with what was run since the last change.  Pure.

A check that was not run, or that failed, is doubted once; the same claim again is taken, and the plan keeps what really was.
"""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from posixpath import basename

from lmtui.core.errors import ToolError
from lmtui.core.plan import PlanStep

REFUSED = "refused"
WELL = "exit 0"
_SHOWN_CHARS = 80
_ALONE = frozenset({
    "pytest", "unittest", "doctest", "py_compile", "tox", "nox", "ruff", "mypy", "pyright", "flake8", "pylint", "npm", "npx",
    "yarn", "pnpm", "jest", "vitest", "mocha", "tsc", "eslint", "cargo", "clippy", "rustc", "gcc", "clang", "mvn", "gradle",
    "ctest", "cmake", "rspec", "phpunit", "shellcheck", "curl",
})  # fmt: skip
_IN_QUOTES = frozenset({"make", "go", "node", "python", "python3", "bash", "sh", "git", "dotnet", "deno", "bun", "just"})
_QUOTED = re.compile(r"`([^`\n]+)`")
_WORD = re.compile(r"[A-Za-z0-9_.+-]+")


@dataclass(frozen=True, slots=True)
class CommandRun:
    """A command that was called for, and how it ended: `exit N`, `timed out`, or `refused` where it was not let run."""

    command: str
    outcome: str = WELL


@dataclass(frozen=True, slots=True)
class StepWork:
    """What was done on the step under way.

    `runs` are the commands since the last change, the oldest first; `has_changed` tells whether it changed files, `has_looked`
    whether anything was read or run since, `is_doubted` whether the same claim was doubted and nothing done about it.
    """

    runs: tuple[CommandRun, ...] = ()
    has_changed: bool = False
    has_looked: bool = False
    is_doubted: bool = False


def programs_of(step: PlanStep) -> frozenset[str]:
    """Return the programs that a step's check names: well-known ones, those in backquotes, and those of its own commands."""
    told = step.verification
    words = {basename(word) for word in _WORD.findall(told)}
    quoted = {word for text in _QUOTED.findall(told) for word in _words(text)[:1]}
    own = {word for command in step.commands for word in _words(command)}
    firsts = {word for command in step.commands for word in _words(command)[:1]}
    return frozenset((words & _ALONE) | (quoted & (_IN_QUOTES | own)) | (words & firsts))


def is_run_of(programs: frozenset[str], command: str) -> bool:
    """Tell whether a command runs one of some programs."""
    return not programs.isdisjoint(_words(command))


def evidence(step: PlanStep, work: StepWork) -> str:
    """Return what is known of a step's check, in words to be kept with it; empty where there is nothing to compare.

    Raises:
        ToolError: it was not run since the last change, or it failed, and this is told for the first time.
    """
    if not step.verification:
        return ""
    programs = programs_of(step)
    runs = [run for run in work.runs if is_run_of(programs, run.command)]
    if programs and not runs:
        names = ", ".join(sorted(programs))
        since = " since the last change" if work.has_changed else ""
        _doubt(work, f"{names} was not run{since}; the check of step {step.id} is: {step.verification}")
        return f"not run: {names}"
    if runs:
        last = runs[-1]
        if last.outcome not in (WELL, REFUSED):
            _doubt(work, f"`{_shown(last.command)}` ended with: {last.outcome}")
        return f"`{_shown(last.command)}`: {last.outcome}"
    if work.has_changed and not work.has_looked:
        _doubt(work, f"nothing was read or run since the last change; the check of step {step.id} is: {step.verification}")
        return "nothing was read or run since the last change"
    return ""


def _doubt(work: StepWork, why: str) -> None:
    if not work.is_doubted:
        raise ToolError(
            f"not completed: {why}.", "Check it now and mend what fails. If it is right as it is, complete the step again."
        )


def _words(command: str) -> list[str]:
    """Return the words of a command, programs without their folders."""
    try:
        parts = shlex.split(command)
    except ValueError:  # an open quote
        parts = command.split()
    return [basename(part) for part in parts]


def _shown(command: str) -> str:
    line = " ".join(command.split())
    return line if len(line) <= _SHOWN_CHARS else f"{line[: _SHOWN_CHARS - 1]}…"
