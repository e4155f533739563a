"""Plan, todos and task state: values only.  They change through `core.todos`, `core.plan_steps` and `core.task_state`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from graphlib import CycleError, TopologicalSorter
from posixpath import basename
from typing import TypeVar

from lmtui.core.errors import ToolError
from lmtui.core.sanitize import clipped

DEFAULT_GATE = "processed == total"


class TodoStatus(StrEnum):
    """Where a todo is."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do; ids count from 1.

    It belongs to the todo `parent` (0: to none) and is not begun before those of `depends_on` are completed.
    """

    id: int
    text: str
    status: TodoStatus = TodoStatus.PENDING
    notes: str = ""
    parent: int = 0
    depends_on: tuple[int, ...] = ()

    @property
    def is_open(self) -> bool:
        """Tell whether it is neither completed nor cancelled."""
        return self.status not in (TodoStatus.COMPLETED, TodoStatus.CANCELLED)


@dataclass(frozen=True, slots=True)
class PlanStep(Todo):
    """A step of an approved plan.  `verification` says how it is checked, `result` what the check gave.

    `risk` is low, medium or high; `files` and `commands` are what it names to be changed and run.
    """

    verification: str = ""
    result: str = ""
    risk: str = "low"
    files: tuple[str, ...] = ()
    commands: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskState:
    """How far a task over many things is, so that it survives compaction and restart.

    `completion_gate` says in words when it is done; what is counted is `processed_count` of `total_count` (0: not known).
    `remaining_queue` names what is next, and `queue_rest` counts what comes after it and has no room by name; `processed` names
    what was done last.  `rename_map` pairs old paths with new ones, the newest last.  `inventory` is the pattern that lists the
    files on disk, `inventory_hash` the first 16 hex digits of the SHA-256 of their sorted paths as they were listed last.
    """

    objective: str = ""
    completion_gate: str = DEFAULT_GATE
    total_count: int = 0
    processed_count: int = 0
    remaining_queue: tuple[str, ...] = ()
    queue_rest: int = 0
    processed: tuple[str, ...] = ()
    rename_map: tuple[tuple[str, str], ...] = ()
    last_error: str = ""
    recovery_instruction: str = ""
    next_action: str = ""
    inventory: str = ""
    inventory_count: int = 0
    inventory_hash: str = ""

    @property
    def remaining_count(self) -> int:
        """Return how many are left."""
        return max(len(self.remaining_queue) + self.queue_rest, self.total_count - self.processed_count)

    @property
    def is_finished(self) -> bool:
        """Tell whether nothing that it counts is left; a state that counts nothing holds nobody up."""
        return self.remaining_count <= 0


@dataclass(frozen=True, slots=True)
class Plan:
    """What is to be done in a session.

    `steps` is the plan that a person approved, `todos` the model's own list, `task` how far a long task is.
    """

    todos: tuple[Todo, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    task: TaskState | None = None

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        """Return the todos that are neither completed nor cancelled."""
        return tuple(todo for todo in self.todos if todo.is_open)

    @property
    def open_steps(self) -> tuple[PlanStep, ...]:
        """Return the steps that are not completed."""
        return tuple(step for step in self.steps if step.is_open)


Id = TypeVar("Id", bound=Hashable)


def needs(todos: Sequence[Todo]) -> dict[int, tuple[int, ...]]:
    """Return what must be completed before each todo can be: what it depends on, and its parts."""
    found = {todo.id: list(todo.depends_on) for todo in todos}
    for todo in todos:
        if todo.parent in found:
            found[todo.parent].append(todo.id)
    return {each: tuple(dict.fromkeys(wanted)) for each, wanted in found.items()}


def check_order(todos: Sequence[Todo], kind: str = "todo") -> None:
    """Check that all that is referred to is there and that nothing waits for itself.

    Raises:
        ToolError: an id is there twice, not known, or part of a cycle; the text names it.
    """
    ids = [todo.id for todo in todos]
    twice = sorted({each for each in ids if ids.count(each) > 1})
    if twice:
        raise ToolError(f"{kind} {named(twice)} is there twice")
    known = set(ids)
    for todo in todos:
        unknown = [each for each in (todo.parent, *todo.depends_on) if each and each not in known]
        if unknown:
            raise ToolError(f"{kind} {todo.id} refers to {named(unknown)}, which is unknown (known: {named(ids)})")
    cycle = cycle_of(needs(todos))
    if cycle:
        raise ToolError(f"these {kind}s would wait for one another for ever: {' → '.join(map(str, cycle))}")


def cycle_of(wanted: Mapping[Id, Sequence[Id]]) -> list[Id]:
    """Return the ids of one cycle, the first of them again at the end; empty where there is none."""
    try:
        TopologicalSorter(wanted).prepare()
    except CycleError as error:
        return list(reversed(error.args[1]))
    return []


def waits_for(todo: Todo, todos: Sequence[Todo]) -> list[int]:
    """Return the open todos that a todo depends on."""
    done = {each.id for each in todos if not each.is_open}
    return [each for each in todo.depends_on if each not in done]


def named(ids: Sequence[int]) -> str:
    """Return ids as a text reads them."""
    return ", ".join(map(str, ids)) or "none yet"


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
    """Return the programs that a step's check names: well-known ones, those in backquotes, and those of its commands."""
    check = step.verification
    words = {basename(word) for word in _WORD.findall(check)}
    quoted = {word for text in _QUOTED.findall(check) for word in _words(text)[:1]}
    own = {word for command in step.commands for word in _words(command)}
    firsts = {word for command in step.commands for word in _words(command)[:1]}
    return frozenset((words & _ALONE) | (quoted & (_IN_QUOTES | own)) | (words & firsts))


def is_run_of(programs: frozenset[str], command: str) -> bool:
    """Tell whether a command runs one of some programs."""
    return not programs.isdisjoint(_words(command))


def evidence(step: PlanStep, work: StepWork) -> str:
    """Return what is known of a step's check, in words to be kept with it; empty where there is nothing to compare.

    Raises:
        ToolError: it was not run since the last change, or it failed, and this is said for the first time.
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
            _doubt(work, f"`{clipped(last.command, _SHOWN_CHARS)}` ended with: {last.outcome}")
        return f"`{clipped(last.command, _SHOWN_CHARS)}`: {last.outcome}"
    if work.has_changed and not work.has_looked:
        _doubt(work, f"nothing was read or run since the last change; the check of step {step.id} is: {step.verification}")
        return "nothing was read or run since the last change"
    return ""


def _doubt(work: StepWork, why: str) -> None:
    if not work.is_doubted:
        raise ToolError(
            f"not completed: {why}.", "Check it now and fix what fails. If it is right as it is, complete the step again."
        )


def _words(command: str) -> list[str]:
    """Return the words of a command, programs without their folders."""
    try:
        parts = shlex.split(command)
    except ValueError:  # an open quote
        parts = command.split()
    return [basename(part) for part in parts]


MAX_RESULT_CHARS = 1_000
NOTHING_DONE = StepWork()


def adopt_steps(plan: Plan, steps: Sequence[PlanStep]) -> Plan:
    """Return the plan with these steps in place of the old ones, the first that waits for nothing under way.

    Raises:
        ToolError: an id is there twice, not known, or part of a cycle.
    """
    check_order(steps, "step")
    fresh = tuple(replace(step, status=TodoStatus.PENDING, result="") for step in steps)
    return begin_next(replace(plan, steps=fresh))


def begin_next(plan: Plan) -> Plan:
    """Return the plan with a step under way: the first that is to do and waits for nothing, if none is yet."""
    waiting = (step for step in plan.steps if step.status is TodoStatus.PENDING and not blocked_by(plan, step))
    step = next(waiting, None)
    return _with(plan, replace(step, status=TodoStatus.IN_PROGRESS)) if step and current_step(plan) is None else plan


def current_step(plan: Plan) -> PlanStep | None:
    """Return the step that is under way, None where none is."""
    return next((step for step in plan.steps if step.status is TodoStatus.IN_PROGRESS), None)


def blocked_by(plan: Plan, step: PlanStep) -> list[int]:
    """Return what must be completed before a step can be begun: what it depends on, and its parts."""
    parts = [each.id for each in plan.steps if each.parent == step.id and each.is_open]
    return [*waits_for(step, plan.steps), *parts]


def complete_step(plan: Plan, step_id: int, notes: str = "", work: StepWork = NOTHING_DONE) -> Plan:
    """Return the plan with the step that is under way completed, its check's outcome kept, and the next one begun.

    `notes` is what the model says that the check gave; what was really run is kept behind it, from `work`.

    Raises:
        ToolError: it is not that step's turn, or its check was not named or not done; the text says what is.
    """
    step = find_step(plan, step_id)
    if not step.is_open:
        raise ToolError(f"step {step_id} is already completed")
    current = current_step(plan)
    if current is None or current.id != step_id:
        under_way = f"step {current.id} is: complete that first" if current else "none is"
        raise ToolError(f"step {step_id} is not under way; {under_way}")
    if step.verification and not notes.strip():
        raise ToolError(
            f"step {step_id} is to be checked: {step.verification}", "Check it, and say what that gave in verification_notes."
        )
    known = evidence(step, work)
    summary = notes.strip()[: max(0, MAX_RESULT_CHARS - len(known) - 3)]
    done = replace(step, status=TodoStatus.COMPLETED, result=f"{summary} [{known}]".strip() if known else summary)
    return begin_next(_with(plan, done))


def find_step(plan: Plan, step_id: int) -> PlanStep:
    """Return one step.

    Raises:
        ToolError: no such step; the text lists the ids there are.
    """
    for step in plan.steps:
        if step.id == step_id:
            return step
    if not plan.steps:
        raise ToolError("no approved plan, so no steps", "Your own list is kept by todo_add.")
    raise ToolError(f"no step {step_id} (there are: {named([step.id for step in plan.steps])})")


def _with(plan: Plan, changed: PlanStep) -> Plan:
    return replace(plan, steps=tuple(changed if step.id == changed.id else step for step in plan.steps))
