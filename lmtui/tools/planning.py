"""Todos: the model's own list, kept in the session and shown in its panel."""

from __future__ import annotations

from lmtui.core.permissions import Access
from lmtui.core.plan import Plan, TodoStatus, add_todo, find_todo, update_todo
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.tools.tool import Arguments, Tool, always, argument

_SIGNS = {
    TodoStatus.PENDING: "[ ]",
    TodoStatus.IN_PROGRESS: "[~]",
    TodoStatus.COMPLETED: "[x]",
    TodoStatus.BLOCKED: "[!]",
}


class TodoAddArguments(Arguments):
    """A new todo."""

    description: str = argument(also=("text", "content", "task", "title", "todo"))
    notes: str = argument("")


class TodoIdArguments(Arguments):
    """Which todo."""

    id: int = argument(also=("todo_id", "todoId"))


class TodoUpdateArguments(TodoIdArguments):
    """Which todo, and what changes."""

    status: TodoStatus | None = argument(None)
    notes: str | None = argument(None)


class TodoListArguments(Arguments):
    """No arguments."""


async def _add(arguments: TodoAddArguments, context: ToolContext) -> ToolResult:
    plan = add_todo(context.plan, arguments.description, arguments.notes)
    context.set_plan(plan)
    return ToolResult(f"todo {plan.todos[-1].id} added", f"#{plan.todos[-1].id}")


async def _complete(arguments: TodoIdArguments, context: ToolContext) -> ToolResult:
    plan = update_todo(context.plan, arguments.id, TodoStatus.COMPLETED)
    context.set_plan(plan)
    left = len(plan.open_todos)
    return ToolResult(f"{left} todos open" if left else "all todos are completed", f"{left} open")


async def _update(arguments: TodoUpdateArguments, context: ToolContext) -> ToolResult:
    plan = update_todo(context.plan, arguments.id, arguments.status, arguments.notes)
    context.set_plan(plan)
    return ToolResult("ok", str(find_todo(plan, arguments.id).status))


async def _list(_: TodoListArguments, context: ToolContext) -> ToolResult:
    return ToolResult(todo_lines(context.plan) or "no todos", f"{len(context.plan.open_todos)} open")


def todo_lines(plan: Plan) -> str:
    """Return the todos, a line each: `[ ] 1 text (notes)`."""
    lines = (f"{_SIGNS[todo.status]} {todo.id} {todo.text}" + (f" ({todo.notes})" if todo.notes else "") for todo in plan.todos)
    return "\n".join(lines)


TODO_ADD = Tool(
    name="todo_add",
    description="Add a todo.",
    arguments=TodoAddArguments,
    run=_add,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: arguments.description,
    aliases=("add_todo",),
)
TODO_COMPLETE = Tool(
    name="todo_complete",
    description="Mark a todo as completed.",
    arguments=TodoIdArguments,
    run=_complete,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: f"#{arguments.id}",
    aliases=("complete_todo",),
)
TODO_UPDATE = Tool(
    name="todo_update",
    description="Change a todo's status or notes.",
    arguments=TodoUpdateArguments,
    run=_update,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: f"#{arguments.id} {arguments.status or ''}".strip(),
    aliases=("update_todo",),
)
TODO_LIST = Tool(
    name="todo_list",
    description="List the todos.",
    arguments=TodoListArguments,
    run=_list,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda _: "",
    aliases=("list_todos", "todo_read"),
)
