"""Plan and todos: values, changed by tools through the functions here, shown by one panel."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum

from lmtui.core.errors import ToolError


class TodoStatus(StrEnum):
    """Where a todo stands."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    COMPLETED = "completed"
    BLOCKED = "blocked"


@dataclass(frozen=True, slots=True)
class Todo:
    """One thing to do; ids count from 1 and are never reused.

    It belongs to the todo `parent` (0: to none) and is not begun before those of `depends_on` are completed.
    """

    id: int
    text: str
    status: TodoStatus = TodoStatus.PENDING
    notes: str = ""
    parent: int = 0
    depends_on: tuple[int, ...] = ()


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
class Plan:
    """What is to be done in a session.

    `steps` is the plan that a person approved, `todos` the model's own list, `counters` is what the task counts.
    """

    todos: tuple[Todo, ...] = ()
    steps: tuple[PlanStep, ...] = ()
    counters: tuple[Counter, ...] = ()

    @property
    def open_todos(self) -> tuple[Todo, ...]:
        """Return the todos that are not completed."""
        return tuple(todo for todo in self.todos if todo.status is not TodoStatus.COMPLETED)


def add_todo(plan: Plan, text: str, notes: str = "") -> Plan:
    """Return the plan with one more todo at the end.

    Raises:
        ToolError: the text is blank.
    """
    if not text.strip():
        raise ToolError("a todo needs a text")
    next_id = max((todo.id for todo in plan.todos), default=0) + 1
    return replace(plan, todos=(*plan.todos, Todo(next_id, text.strip(), notes=notes.strip())))


def update_todo(plan: Plan, todo_id: int, status: TodoStatus | None = None, notes: str | None = None) -> Plan:
    """Return the plan with one todo changed.

    Raises:
        ToolError: no such todo, or it is already completed and would be completed again.
    """
    todo = find_todo(plan, todo_id)
    if status is TodoStatus.COMPLETED and todo.status is TodoStatus.COMPLETED:
        raise ToolError(f"todo {todo_id} is already completed")
    changed = replace(todo, status=status or todo.status, notes=todo.notes if notes is None else notes.strip())
    return replace(plan, todos=tuple(changed if each.id == todo_id else each for each in plan.todos))


def find_todo(plan: Plan, todo_id: int) -> Todo:
    """Return one todo.

    Raises:
        ToolError: no such todo; the text lists the ids there are.
    """
    for todo in plan.todos:
        if todo.id == todo_id:
            return todo
    known = ", ".join(str(todo.id) for todo in plan.todos) or "none yet"
    raise ToolError(f"no todo {todo_id} (there are: {known})")
