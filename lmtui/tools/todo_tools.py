"""Todos and plan steps: views of the session's one plan, shown in its panel."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

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
_STATUS_WORDS = {
    "done": "completed", "complete": "completed", "todo": "pending", "open": "pending", "doing": "in_progress",
    "canceled": "cancelled",
}  # fmt: skip
MAX_TODOS = 200
MAX_TEXT_CHARS = 500
MAX_ID = 10**12


def _status(value: object) -> str:
    """Return our word for a status, where another program has one of its own."""
    word = str(value).strip().lower().replace("-", "_").replace(" ", "_")
    return _STATUS_WORDS.get(word, word)


class TodoArguments(Arguments):
    """Which todo, and what changes of it; None stays as it is.  What is not told to models is taken all the same."""

    id: int = argument(also=ID)
    status: Annotated[TodoStatus, BeforeValidator(_status)] | None = argument(None)
    notes: str | None = argument(None)
    description: str | None = argument(None, also=DESCRIPTION, is_told=False)
    parent: int | None = argument(None, also=PARENT, is_told=False)
    depends_on: tuple[int, ...] | None = argument(None, also=WAITS, is_told=False)


class TodoAddArguments(Arguments):
    """A new todo."""

    description: str = argument(also=DESCRIPTION)
    notes: str = argument("", is_told=False)
    parent: int = argument(0, also=PARENT)
    depends_on: tuple[int, ...] = argument((), also=WAITS)


class TodoIdArguments(Arguments):
    """Which todo."""

    id: int = argument(also=ID)


class ManageArguments(TodoArguments):
    """What is to be done with which todo."""

    action: str = argument(also=("operation", "command"))
    id: int = argument(0, also=ID)


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


class PlanStepArguments(Arguments):
    """Which step, and what its check gave."""

    step_id: int = argument(also=("id", "step", "stepId"))
    verification_notes: str = argument("", also=("notes", "result", "verification", "verificationNotes"))


async def _add(arguments: TodoAddArguments, context: ToolContext) -> ToolResult:
    plan = put_todo(context.plan, TodoArguments(id=0, **arguments.model_dump()))
    context.set_plan(plan)
    return ToolResult(f"todo {plan.todos[-1].id} added", f"#{plan.todos[-1].id}")


async def _update(arguments: TodoArguments, context: ToolContext) -> ToolResult:
    """Change a todo; of one that is completed the answer says how many are left."""
    plan = put_todo(context.plan, arguments, find_todo(context.plan, arguments.id))
    context.set_plan(plan)
    if arguments.status is not TodoStatus.COMPLETED:
        return ToolResult("ok", str(find_todo(plan, arguments.id).status))
    left = plan.open_todos
    freed = [str(todo.id) for todo in left if arguments.id in todo.depends_on]
    is_all = all(todo.status is TodoStatus.COMPLETED for todo in plan.todos)
    over = "all todos are completed" if is_all else "no open todos left"
    told = f"{len(left)} todos open" if left else f"{over}: finish the task"
    told += f"; todo {', '.join(freed)} waited for it" if freed else ""
    return ToolResult("\n".join(filter(None, (told, todo_lines(left[:_SHOWN])))), f"{len(left)} open")


async def _complete(arguments: TodoIdArguments, context: ToolContext) -> ToolResult:
    return await _update(TodoArguments(id=arguments.id, status=TodoStatus.COMPLETED), context)


async def _list(_: EmptyArguments, context: ToolContext) -> ToolResult:
    return _listing(context.plan)


def _listing(plan: Plan) -> ToolResult:
    return ToolResult(todo_lines(plan.todos) or "no todos", f"{len(plan.open_todos)} open")


async def _set(arguments: TodoSetArguments, context: ToolContext) -> ToolResult:
    plan = set_todos(context.plan, [_listed(item) for item in arguments.items if _status(item.status) != "deleted"])
    context.set_plan(plan)
    listing = _listing(plan)
    return replace(listing, text=f"{listing.text}\n{listing.summary}")


def _listed(item: TodoItem) -> Todo:
    """Return a todo of another program's list; an id that counts nothing and a status that says nothing are left out."""
    number = str(item.id).strip()
    status = _status(item.status)
    return Todo(
        int(number) if number.isdecimal() and len(number) < 20 else 0,
        item.content,
        TodoStatus(status) if status in tuple(TodoStatus) else TodoStatus.PENDING,
        item.notes,
    )


_ACTIONS = {"complete": TodoStatus.COMPLETED, "done": TodoStatus.COMPLETED, "cancel": TodoStatus.CANCELLED, "update": None}


async def _manage(arguments: ManageArguments, context: ToolContext) -> ToolResult:
    match action := arguments.action.strip().lower():
        case "create" | "add":
            given = arguments.model_dump(include=set(TodoAddArguments.model_fields), exclude_none=True)
            return await _add(TodoAddArguments(**{"description": ""} | given), context)
        case "delete" | "remove":
            plan = drop_todo(context.plan, arguments.id)
            context.set_plan(plan)
            return _listing(plan)
        case "list" | "get":
            return _listing(context.plan)
        case _ if action in _ACTIONS:
            return await _update(arguments.model_copy(update={"status": _ACTIONS[action] or arguments.status}), context)
        case _:
            raise ToolError(f"no action {action[:40]!r}", "Use one of: create, list, update, complete, cancel, delete.")


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
    arguments=TodoArguments,
    run=_update,
    title=lambda arguments: f"#{arguments.id} {arguments.status or ''}".strip(),
    aliases=("update_todo",),
)
TODO_LIST = SessionTool(
    name="todo_list",
    description="List the todos.",
    arguments=EmptyArguments,
    run=_list,
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
    arguments=ManageArguments,
    run=_manage,
    title=lambda arguments: f"{arguments.action} {arguments.description or arguments.id or ''}".strip(),
    aliases=("manage_todos", "manage_todo_list"),
    told=Told.NEVER,
)


def put_todo(plan: Plan, given: TodoArguments, todo: Todo | None = None) -> Plan:
    """Return the plan with a todo changed, or with one more at its end.

    Raises:
        ToolError: it is completed already and would be again, the list is full, or the order does not allow it; the text names
            what is in the way.
    """
    if todo is None and len(plan.todos) >= MAX_TODOS:
        raise ToolError(f"there are {MAX_TODOS} todos already", "For work over many files use task_state_update with a queue.")
    if todo is not None and given.status is TodoStatus.COMPLETED is todo.status:
        raise ToolError(f"todo {todo.id} is already completed")
    old = todo or Todo(max((each.id for each in plan.todos), default=0) + 1, "")
    changes = given.model_dump(include={"status", "notes", "parent", "depends_on"}, exclude_none=True)
    new = replace(old, **changes, text=old.text if given.description is None else given.description)
    todos = [new if each is todo else each for each in plan.todos] + ([new] if todo is None else [])
    if new.status is TodoStatus.CANCELLED:
        below = _below(new.id, todos)
        todos = [replace(each, status=new.status) if each.id in below and each.is_open else each for each in todos]
    return _checked(plan, todos, new.id)


def set_todos(plan: Plan, todos: Sequence[Todo]) -> Plan:
    """Return the plan with another list in place of the old one; a todo without an id (0) gets the next free one.

    Raises:
        ToolError: the new list does not hold together.
    """
    if len(todos) > MAX_TODOS:
        raise ToolError(f"a list holds at most {MAX_TODOS} todos")
    if any(todo.id > MAX_ID for todo in todos):
        raise ToolError(f"the id of a todo is at most {MAX_ID:,}", "Number them from 1.")
    free = itertools.count(max((todo.id for todo in todos), default=0) + 1)
    return _checked(plan, [replace(todo, id=todo.id or next(free)) for todo in todos])


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


def _below(todo_id: int, todos: Iterable[Todo]) -> set[int]:
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


def _checked(plan: Plan, todos: Iterable[Todo], first: int = 0) -> Plan:
    """Return the plan with these todos, with short texts and each id once; models write 0 for none.

    Raises:
        ToolError: they do not hold together; what is wrong with the todo `first` is said before all else.
    """
    clean = tuple(
        replace(
            todo,
            text=_clip(todo.text),
            notes=_clip(todo.notes),
            depends_on=tuple(dict.fromkeys(each for each in todo.depends_on if each)),
        )
        for todo in todos
    )
    if not all(todo.text for todo in clean):
        raise ToolError("a todo needs a text")
    check_order(clean)
    for todo in sorted(clean, key=lambda each: each.id != first):
        _check_status(todo, clean)
    return replace(plan, todos=clean)


def _check_status(todo: Todo, todos: Sequence[Todo]) -> None:
    """Check that a todo may be where it is: nothing is begun or over that an open one comes before.

    Raises:
        ToolError: it may not; the text names the others that it is about.
    """
    begun = (TodoStatus.IN_PROGRESS, TodoStatus.COMPLETED)
    if todo.status in begun and (waited := waits_for(todo, todos)):
        raise ToolError(f"todo {todo.id} waits for todo {named(waited)}: complete that first")
    parts = [each.id for each in todos if each.parent == todo.id and each.is_open]
    if not todo.is_open and parts:
        raise ToolError(f"todo {todo.id} has open parts: complete todo {named(parts)} first")
    over = [each.id for each in todos if each.id == todo.parent and not each.is_open]
    over += [each.id for each in todos if todo.id in each.depends_on and each.status in begun]
    if todo.is_open and over:
        raise ToolError(f"todo {todo.id} comes before todo {named(over)}, which is begun or done: set that to pending first")


def _clip(text: str) -> str:
    text = text.strip()
    return text if len(text) <= MAX_TEXT_CHARS else f"{text[: MAX_TEXT_CHARS - 1]}…"
