"""Plan, todos and task state: values only.  They change through `core.todos`, `core.plan_steps` and `core.task_state`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

DEFAULT_GATE = "processed == total"


class TodoStatus(StrEnum):
    """Where a todo stands."""

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
class Counter:
    """How far something countable is: `done` of `total` (0 where the end is not known)."""

    name: str
    done: int
    total: int = 0


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

    `steps` is the plan that a person approved, `todos` the model's own list, `counters` is what the task counts, `task` how far
    a long task is.
    """

    todos: tuple[Todo, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    counters: tuple[Counter, ...] = ()
    task: TaskState | None = None

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        """Return the todos that are neither completed nor cancelled."""
        return tuple(todo for todo in self.todos if todo.is_open)

    @property
    def open_steps(self) -> tuple[PlanStep, ...]:
        """Return the steps that are not completed."""
        return tuple(step for step in self.steps if step.is_open)
