"""Where plan, todos and task state stand, in words: for the model, and for what is said of unfinished work."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.counting import counted
from lmtui.core.plan import DEFAULT_GATE, Plan, PlanStep, TaskState, Todo, TodoStatus
from lmtui.core.plan_steps import current_step
from lmtui.core.task_state import shown

_SIGNS = {
    TodoStatus.PENDING: "[ ]",
    TodoStatus.IN_PROGRESS: "[~]",
    TodoStatus.COMPLETED: "[x]",
    TodoStatus.BLOCKED: "[!]",
    TodoStatus.CANCELLED: "[-]",
}
_MOST_SHOWN = 8
_TEXT_CHARS = 120
_QUEUE_SHOWN = 10


def done_words(todos: Sequence[Todo]) -> str:
    """Return how many are done: `2 of 3 done`, `2 of 3 done, 1 cancelled`."""
    done, cancelled = (sum(todo.status is each for todo in todos) for each in (TodoStatus.COMPLETED, TodoStatus.CANCELLED))
    return f"{done} of {len(todos)} done" + (f", {cancelled} cancelled" if cancelled else "")


def todo_lines(todos: Sequence[Todo]) -> str:
    """Return todos, a line each, parts below what they belong to: `[ ] 1 text (notes; waits for 3)`."""
    return "\n".join(
        f"{'  ' * depth}{_SIGNS[todo.status]} {todo.id} {todo.text}{_beside(todo)}" for depth, todo in in_tree(todos)
    )


def in_tree(todos: Sequence[Todo]) -> list[tuple[int, Todo]]:
    """Return todos with how deep they stand, each behind what it belongs to; one whose parent is not there stands on top."""
    known = {todo.id for todo in todos}
    below: dict[int | None, list[Todo]] = {}
    for todo in todos:
        below.setdefault(todo.parent if todo.parent and todo.parent in known else None, []).append(todo)
    found: list[tuple[int, Todo]] = []
    stack = [(0, todo) for todo in reversed(below.get(None, []))]
    while stack:
        depth, todo = stack.pop()
        found.append((depth, todo))
        stack += [(depth + 1, each) for each in reversed(below.pop(todo.id, []))]
    return found


def step_words(step: PlanStep) -> str:
    """Return a step in a line, with how it is checked."""
    check = f" Check: {step.verification}" if step.verification else ""
    return f"step {step.id}: {step.text}{check}"


def task_lines(task: TaskState) -> list[str]:
    """Return a task's state, a line for each part that there is."""
    left = task.remaining_count
    numbers = f"{task.processed_count:,} of {task.total_count:,} processed" if task.total_count else ""
    if not numbers and task.processed_count:
        numbers = f"{task.processed_count:,} processed"
    named = ", ".join(task.remaining_queue[:_QUEUE_SHOWN])
    parts = [
        ("objective", task.objective),
        ("done when", task.completion_gate if task.completion_gate != DEFAULT_GATE else ""),
        ("count", numbers + (f", {left:,} left" if left else "") if numbers or left else ""),
        ("next in the queue", named + (f" (then {left - _QUEUE_SHOWN:,} more)" if left > _QUEUE_SHOWN else "")),
        ("next action", task.next_action),
        ("last error", task.last_error),
        ("to recover", task.recovery_instruction),
        ("renamed", f"{len(task.rename_map):,}, the last {' → '.join(task.rename_map[-1])}" if task.rename_map else ""),
        ("files", f"{task.inventory_count:,} match {task.inventory}" if task.inventory_hash else ""),
    ]
    return [f"{name}: {text}" for name, text in parts if text]


def work_lines(plan: Plan) -> list[str]:
    """Return how all of it stands, what is open first; empty where there is nothing."""
    lines: list[str] = []
    if plan.steps:
        current = current_step(plan)
        done = len(plan.steps) - len(plan.open_steps)
        now = f"; under way is {_clip(step_words(current))}" if current else ""
        lines.append(f"plan: {done} of {counted(len(plan.steps), 'step')} done{now}")
        lines += _few([step for step in plan.open_steps if step is not current], "later")
    if plan.todos:
        lines.append(f"todos: {done_words(plan.todos)}")
        lines += _few(plan.open_todos, "open")
    if plan.task is not None:
        lines += [f"task {line}" for line in task_lines(plan.task)]
    return lines


def open_words(todos: Sequence[Todo], kind: str) -> str:
    """Return how many are open and which: `2 todos open (1 write the lexer, 2 test it)`."""
    if not todos:
        return ""
    names = shown([_clip(f"{todo.id} {todo.text}", 60) for todo in todos])
    return f"{len(todos)} {kind}{'s' if len(todos) > 1 else ''} open ({names})"


def _few(todos: Sequence[Todo], head: str) -> list[str]:
    lines = [f"- {head}: {todo.id} {_clip(todo.text)}{_beside(todo)}" for todo in todos[:_MOST_SHOWN]]
    more = len(todos) - _MOST_SHOWN
    return [*lines, *([f"- and {more} more"] if more > 0 else [])]


def _beside(todo: Todo) -> str:
    parts = [_clip(todo.notes)] if todo.notes else []
    parts += [f"waits for {', '.join(map(str, todo.depends_on))}"] if todo.depends_on and todo.is_open else []
    parts += ["blocked"] if todo.status is TodoStatus.BLOCKED else []
    return f" ({'; '.join(parts)})" if parts else ""


def _clip(text: str, limit: int = _TEXT_CHARS) -> str:
    line = " ".join(text.split())
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
