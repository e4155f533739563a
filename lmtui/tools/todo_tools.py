"""Todos and plan steps: views of the session's one plan, shown in its panel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import fit_values, read_loose_json
from lmtui.core.plan import Plan, Todo, TodoStatus, check_order, complete_step, current_step, named, waits_for
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.proposals import FORM, read_proposal
from lmtui.core.task_state import step_words, todo_lines
from lmtui.tools.tool import Arguments, EmptyArguments, SessionTool, Told, argument

_MOST_TITLE_CHARS = 120


class ProposePlanArguments(Arguments):
    """A plan, or its fields without it; its form is told with plan mode, so that the tool costs little when it is off."""

    model_config = ConfigDict(extra="allow", populate_by_name=True, frozen=True)

    plan: Any = Field(None, json_schema_extra={"type": "object"})


def read_loosely(text: str) -> dict[str, object]:
    """Return the arguments of a plan; fences and trailing commas are taken, a bare list is that of the steps.

    Raises:
        ToolError: they are not JSON, or nested too deep.
    """
    try:
        value = read_loose_json(text or "{}")
        value = read_loose_json(value) if isinstance(value, str) else value
    except ValueError as error:
        raise ToolError("propose_plan was not run: its arguments are not a complete JSON object.", f"Give it {FORM}") from error
    return fit_values(PROPOSE_PLAN.name, value if isinstance(value, dict) else {"steps": value})


def _given(arguments: ProposePlanArguments) -> dict[str, object]:
    given = {**(arguments.model_extra or {}), "plan": arguments.plan}
    return {key: value for key, value in given.items() if value not in (None, "")}


def _title(arguments: ProposePlanArguments) -> str:
    given = _given(arguments)
    inner = given.get("plan")
    found = {**given, **inner} if isinstance(inner, dict) else given
    return " ".join(str(found.get("title", "")).split())[:_MOST_TITLE_CHARS]


async def _propose(arguments: ProposePlanArguments, context: ToolContext) -> ToolResult:
    proposal = read_proposal(_given(arguments))
    told = context.agent.propose(proposal)
    count = len(proposal.steps)
    return ToolResult(told, f"{count} step{'s' * (count != 1)}")


PROPOSE_PLAN = SessionTool(
    name="propose_plan",
    description="In plan mode: propose your plan.",
    arguments=ProposePlanArguments,
    run=_propose,
    title=_title,
    aliases=("exit_plan_mode", "submit_plan"),
    read=read_loosely,
)


DESCRIPTION = ("text", "content", "task", "title", "todo")
WAITS = ("dependencies", "dependsOn", "blocked_by", "after")
PARENT = ("parent_id", "parentId")
ID = ("todo_id", "todoId", "task_id", "taskId")
_SHOWN = 5


class TodoAddArguments(Arguments):
    """A new todo."""

    description: str = argument(also=DESCRIPTION)
    notes: str = argument("", is_told=False)
    parent: int = argument(0, also=PARENT)
    depends_on: tuple[int, ...] = argument((), also=WAITS)


class TodoIdArguments(Arguments):
    """Which todo."""

    id: int = argument(also=ID)


class TodoUpdateArguments(TodoIdArguments):
    """Which todo, and what changes; what is not told to models is taken all the same."""

    status: TodoStatus | None = argument(None)
    notes: str | None = argument(None)
    description: str | None = argument(None, also=DESCRIPTION, is_told=False)
    parent: int | None = argument(None, also=PARENT, is_told=False)
    depends_on: tuple[int, ...] | None = argument(None, also=WAITS, is_told=False)


class PlanStepArguments(Arguments):
    """Which step, and what its check gave."""

    step_id: int = argument(also=("id", "step", "stepId"))
    verification_notes: str = argument("", also=("notes", "result", "verification", "verificationNotes"))


async def _add(arguments: TodoAddArguments, context: ToolContext) -> ToolResult:
    plan = add_todo(
        context.plan, arguments.description, arguments.notes, parent=arguments.parent, depends_on=arguments.depends_on
    )
    context.set_plan(plan)
    return ToolResult(f"todo {plan.todos[-1].id} added", f"#{plan.todos[-1].id}")


async def _complete(arguments: TodoIdArguments, context: ToolContext) -> ToolResult:
    return _changed(context, change_todo(context.plan, arguments.id, TodoChange(TodoStatus.COMPLETED)), arguments.id)


async def _update(arguments: TodoUpdateArguments, context: ToolContext) -> ToolResult:
    change = TodoChange(arguments.status, arguments.notes, arguments.description, arguments.parent, arguments.depends_on)
    plan = change_todo(context.plan, arguments.id, change)
    if arguments.status is TodoStatus.COMPLETED:
        return _changed(context, plan, arguments.id)
    context.set_plan(plan)
    return ToolResult("ok", str(find_todo(plan, arguments.id).status))


def _changed(context: ToolContext, plan: Plan, todo_id: int) -> ToolResult:
    """Keep a plan in which a todo was completed, and say how many are left."""
    context.set_plan(plan)
    left = plan.open_todos
    freed = [str(todo.id) for todo in left if todo_id in todo.depends_on]
    is_all = all(todo.status is TodoStatus.COMPLETED for todo in plan.todos)
    over = "all todos are completed" if is_all else "no open todos left"
    told = f"{len(left)} todos open" if left else f"{over}: finish the task"
    told += f"; todo {', '.join(freed)} waited for it" if freed else ""
    return ToolResult("\n".join(filter(None, (told, todo_lines(left[:_SHOWN])))), f"{len(left)} open")


async def _list(_: EmptyArguments, context: ToolContext) -> ToolResult:
    return ToolResult(todo_lines(context.plan.todos) or "no todos", f"{len(context.plan.open_todos)} open")


async def _complete_step(arguments: PlanStepArguments, context: ToolContext) -> ToolResult:
    plan = complete_step(context.plan, arguments.step_id, arguments.verification_notes, context.step_work)
    context.set_plan(plan)
    done = f"step {arguments.step_id} is completed"
    left = len(plan.open_steps)
    if not left:
        return ToolResult(f"{done}: so are all steps of the plan. Finish the task.", "all steps done")
    current = current_step(plan)
    told = f"Now {step_words(current)}" if current else f"{left} steps are open, and none of them can be begun"
    return ToolResult(f"{done}. {told}", f"{left} open")


TODO_ADD = SessionTool(
    name="todo_add",
    description="Add a todo.",
    arguments=TodoAddArguments,
    run=_add,
    title=lambda arguments: arguments.description,
    aliases=("add_todo",),
)
TODO_COMPLETE = SessionTool(
    name="todo_complete",
    description="Mark a todo as completed.",
    arguments=TodoIdArguments,
    run=_complete,
    title=lambda arguments: f"#{arguments.id}",
    aliases=("complete_todo",),
    told=Told.NEVER,
)
TODO_UPDATE = SessionTool(
    name="todo_update",
    description="Change a todo's status or notes.",
    arguments=TodoUpdateArguments,
    run=_update,
    title=lambda arguments: f"#{arguments.id} {arguments.status or ''}".strip(),
    aliases=("update_todo",),
)
TODO_LIST = SessionTool(
    name="todo_list",
    description="List the todos.",
    arguments=EmptyArguments,
    run=_list,
    title=lambda _: "",
    aliases=("list_todos", "todo_read", "task_todo_get", "todoread"),
    told=Told.NEVER,
)
PLAN_COMPLETE_STEP = SessionTool(
    name="plan_complete_step",
    description="End a plan step, once checked.",
    arguments=PlanStepArguments,
    run=_complete_step,
    title=lambda arguments: f"step {arguments.step_id}",
    aliases=("complete_plan_step", "complete_step"),
)


class TodoItem(BaseModel):
    """One todo of a whole list, in the words of other programs."""

    model_config = ConfigDict(extra="ignore")

    id: int | str = 0
    content: str = argument(also=("description", *DESCRIPTION))
    status: str = "pending"
    notes: str = ""


class TodoSetArguments(Arguments):
    """A whole list in place of the old one."""

    items: tuple[TodoItem, ...] = argument(also=("todos", "tasks", "list"))


class TaskArguments(Arguments):
    """What is to be done with which todo."""

    action: str = argument(also=("operation", "command"))
    id: int = argument(0, also=ID)
    description: str = argument("", also=DESCRIPTION)
    notes: str | None = argument(None)
    status: str = argument("")
    parent: int | None = argument(None, also=PARENT)
    depends_on: tuple[int, ...] | None = argument(None, also=WAITS)


_STATUS_WORDS = {
    "done": "completed", "complete": "completed", "todo": "pending", "open": "pending", "doing": "in_progress",
    "canceled": "cancelled",
}  # fmt: skip


def listed(item: TodoItem) -> Todo | None:
    """Return a todo of another program's list, None for one that is deleted."""
    status = _status(item.status)
    if item.status.strip().lower() == "deleted":
        return None
    number = int(item.id) if isinstance(item.id, int) or (item.id.strip().isdecimal() and len(item.id) < 20) else 0
    return Todo(max(0, number), item.content, status or TodoStatus.PENDING, item.notes)


async def _set(arguments: TodoSetArguments, context: ToolContext) -> ToolResult:
    plan = set_todos(context.plan, [todo for item in arguments.items if (todo := listed(item)) is not None])
    context.set_plan(plan)
    left = len(plan.open_todos)
    return ToolResult(f"{todo_lines(plan.todos) or 'no todos'}\n{left} open", f"{left} open")


def _status(text: str) -> TodoStatus | None:
    """Return the status that another program's word means, None for one that means none of them."""
    word = text.strip().lower().replace("-", "_").replace(" ", "_")
    word = _STATUS_WORDS.get(word, word)
    return TodoStatus(word) if word in tuple(TodoStatus) else None


async def _manage(arguments: TaskArguments, context: ToolContext) -> ToolResult:
    plan, action = context.plan, arguments.action.strip().lower()
    parent, depends_on = arguments.parent, arguments.depends_on
    match action:
        case "create" | "add":
            plan = add_todo(plan, arguments.description, arguments.notes or "", parent=parent or 0, depends_on=depends_on or ())
        case "complete" | "done":
            plan = change_todo(plan, arguments.id, TodoChange(TodoStatus.COMPLETED))
        case "update":
            text, status = arguments.description or None, _status(arguments.status)
            if arguments.status and status is None:
                raise ToolError(f"unknown status {arguments.status[:40]!r}", f"Use one of: {', '.join(TodoStatus)}.")
            plan = change_todo(plan, arguments.id, TodoChange(status, arguments.notes, text, parent, depends_on))
        case "cancel":
            plan = change_todo(plan, arguments.id, TodoChange(TodoStatus.CANCELLED))
        case "delete" | "remove":
            plan = drop_todo(plan, arguments.id)
        case "list" | "get":
            return ToolResult(todo_lines(plan.todos) or "no todos", f"{len(plan.open_todos)} open")
        case _:
            raise ToolError(f"no action {action[:40]!r}", "Use one of: create, list, update, complete, cancel, delete.")
    context.set_plan(plan)
    number = plan.todos[-1].id if action in ("create", "add") else arguments.id
    left = len(plan.open_todos)
    return ToolResult(f"todo {number}: {action} done; {left} open", f"{left} open")


TODO_SET = SessionTool(
    name="task_todo_set",
    description="Replace all todos.",
    arguments=TodoSetArguments,
    run=_set,
    title=lambda arguments: f"{len(arguments.items)} todos",
    aliases=("todo_write", "todowrite", "write_todos", "todo_set", "update_todos"),
    told=Told.NEVER,
)
MANAGE_TASKS = SessionTool(
    name="manage_tasks",
    description="Change the todos.",
    arguments=TaskArguments,
    run=_manage,
    title=lambda arguments: f"{arguments.action} {arguments.description or arguments.id or ''}".strip(),
    aliases=("manage_todos", "manage_todo_list"),
    told=Told.NEVER,
)


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
