"""Todos in the words of other programs: the whole list at once, or one tool with actions.  Taken, never told."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict

from lmtui.core.errors import ToolError
from lmtui.core.permissions import Access
from lmtui.core.plan import Todo, TodoStatus
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.todos import TodoChange, add_todo, change_todo, drop_todo, set_todos
from lmtui.core.work_words import todo_lines
from lmtui.tools.planning import DESCRIPTION, ID, PARENT, WAITS
from lmtui.tools.tool import Arguments, Tool, always, argument


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


TODO_SET = Tool(
    name="task_todo_set",
    description="Replace all todos.",
    arguments=TodoSetArguments,
    run=_set,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: f"{len(arguments.items)} todos",
    aliases=("todo_write", "todowrite", "write_todos", "todo_set", "update_todos"),
)
MANAGE_TASKS = Tool(
    name="manage_tasks",
    description="Change the todos.",
    arguments=TaskArguments,
    run=_manage,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: f"{arguments.action} {arguments.description or arguments.id or ''}".strip(),
    aliases=("manage_todos", "manage_todo_list"),
)
