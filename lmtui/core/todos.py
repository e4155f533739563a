"""The model's own list: todos that may belong to others and wait for others.  Every function goes from a plan to a plan.

What holds afterwards, whatever is asked: ids are known and nothing waits for itself; a todo is completed only after its parts
and after what it depends on, and begun only after the latter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from lmtui.core.errors import ToolError
from lmtui.core.plan import Plan, Todo, TodoStatus, check_order, named, waits_for

MAX_TODOS = 200
MAX_TEXT_CHARS = 500
MAX_ID = 10**12


@dataclass(frozen=True, slots=True)
class TodoChange:
    """What changes of a todo; None stays as it is."""

    status: TodoStatus | None = None
    notes: str | None = None
    text: str | None = None
    parent: int | None = None
    depends_on: tuple[int, ...] | None = None


def add_todo(plan: Plan, text: str, notes: str = "", *, parent: int = 0, depends_on: Sequence[int] = ()) -> Plan:
    """Return the plan with one more todo at the end.

    Raises:
        ToolError: the text is blank, the list is full, or an id is not known.
    """
    if not text.strip():
        raise ToolError("a todo needs a text")
    if len(plan.todos) >= MAX_TODOS:
        raise ToolError(f"there are {MAX_TODOS} todos already", "For work over many files use task_state_update with a queue.")
    next_id = max((todo.id for todo in plan.todos), default=0) + 1
    todo = Todo(next_id, _clip(text), notes=_clip(notes), parent=parent, depends_on=_once(depends_on))
    todos = (*plan.todos, todo)
    check_order(todos)
    _check_place(todo, todos)
    return replace(plan, todos=todos)


def change_todo(plan: Plan, todo_id: int, change: TodoChange) -> Plan:
    """Return the plan with one todo changed.

    Raises:
        ToolError: no such todo, it is completed already and would be again, or the order does not allow it; the text names
            what is in the way.
    """
    todo = find_todo(plan, todo_id)
    if change.status is TodoStatus.COMPLETED is todo.status:
        raise ToolError(f"todo {todo_id} is already completed")
    if change.text is not None and not change.text.strip():
        raise ToolError("a todo needs a text")
    changed = replace(
        todo,
        status=change.status or todo.status,
        notes=todo.notes if change.notes is None else _clip(change.notes),
        text=todo.text if change.text is None else _clip(change.text),
        parent=todo.parent if change.parent is None else change.parent,
        depends_on=todo.depends_on if change.depends_on is None else _once(change.depends_on),
    )
    todos = tuple(changed if each.id == todo_id else each for each in plan.todos)
    if changed.status is TodoStatus.CANCELLED:
        below = _below(todo_id, todos)
        todos = tuple(replace(each, status=changed.status) if each.id in below and each.is_open else each for each in todos)
    if (changed.parent, changed.depends_on) != (todo.parent, todo.depends_on):
        check_order(todos)
        _check_place(changed, todos)
    _check_status(changed, todos)
    return replace(plan, todos=todos)


def update_todo(plan: Plan, todo_id: int, status: TodoStatus | None = None, notes: str | None = None) -> Plan:
    """Return the plan with a todo's status or notes changed; see `change_todo`."""
    return change_todo(plan, todo_id, TodoChange(status, notes))


def set_todos(plan: Plan, todos: Sequence[Todo]) -> Plan:
    """Return the plan with another list in place of the old one; a todo without an id (0) gets the next free one.

    Raises:
        ToolError: the new list does not hold together.
    """
    if len(todos) > MAX_TODOS:
        raise ToolError(f"a list holds at most {MAX_TODOS} todos")
    free = max((todo.id for todo in todos), default=0) + 1
    listed: list[Todo] = []
    for todo in todos:
        if not todo.text.strip():
            raise ToolError("a todo needs a text")
        if todo.id > MAX_ID:
            raise ToolError(f"the id of a todo is at most {MAX_ID:,}", "Number them from 1.")
        listed.append(replace(todo, id=todo.id or free, text=_clip(todo.text), notes=_clip(todo.notes)))
        free += todo.id == 0
    check_order(listed)
    for todo in listed:
        _check_status(todo, listed)
    return replace(plan, todos=tuple(listed))


def drop_todo(plan: Plan, todo_id: int) -> Plan:
    """Return the plan without a todo and its parts; nothing waits for them any more.

    Raises:
        ToolError: no such todo.
    """
    find_todo(plan, todo_id)
    gone = {todo_id, *_below(todo_id, plan.todos)}
    kept = (todo for todo in plan.todos if todo.id not in gone)
    left = (replace(todo, depends_on=tuple(each for each in todo.depends_on if each not in gone)) for todo in kept)
    return replace(plan, todos=tuple(left))


def _below(todo_id: int, todos: Sequence[Todo]) -> set[int]:
    """Return the ids of a todo's subtasks, recursively."""
    found = {todo_id}
    while more := {todo.id for todo in todos if todo.parent in found} - found:
        found |= more
    return found - {todo_id}


def find_todo(plan: Plan, todo_id: int) -> Todo:
    """Return one todo.

    Raises:
        ToolError: no such todo; the text lists the ids there are.
    """
    for todo in plan.todos:
        if todo.id == todo_id:
            return todo
    raise ToolError(f"no todo {todo_id} (there are: {named([todo.id for todo in plan.todos])})")


def _check_status(todo: Todo, todos: Sequence[Todo]) -> None:
    """Check that a todo may be where it is.

    Raises:
        ToolError: it may not; the text names the others that it is about.
    """
    if todo.status in (TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED) and (waited := waits_for(todo, todos)):
        raise ToolError(f"todo {todo.id} waits for todo {named(waited)}: complete that first")
    parts = [each.id for each in todos if each.parent == todo.id and each.is_open]
    if not todo.is_open and parts:
        raise ToolError(f"todo {todo.id} has open parts: complete todo {named(parts)} first")
    if todo.is_open:
        _check_place(todo, todos)


def _check_place(todo: Todo, todos: Sequence[Todo]) -> None:
    """Check that nothing is completed, or under way, that an open todo comes before.

    Raises:
        ToolError: something is.
    """
    if not todo.is_open:
        return
    over = [each.id for each in todos if each.id == todo.parent and not each.is_open]
    begun = (TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED)
    over += [each.id for each in todos if todo.id in each.depends_on and each.status in begun]
    if over:
        raise ToolError(f"todo {todo.id} comes before todo {named(over)}, which is begun or done: set that to pending first")


def _once(ids: Sequence[int]) -> tuple[int, ...]:
    """Return each id once; models write 0 for none."""
    return tuple(dict.fromkeys(each for each in ids if each))


def _clip(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"
