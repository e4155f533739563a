"""Todos and plan steps: views of the session's one plan, shown in its panel."""

from __future__ import annotations

from lmtui.core.permissions import Access
from lmtui.core.plan import Plan, TodoStatus
from lmtui.core.plan_steps import complete_step, current_step
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.todos import TodoChange, add_todo, change_todo, find_todo
from lmtui.core.work_words import step_words, todo_lines
from lmtui.tools.tool import Arguments, Tool, always, argument

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


class TodoListArguments(Arguments):
    """No arguments."""


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


async def _list(_: TodoListArguments, context: ToolContext) -> ToolResult:
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
    aliases=("list_todos", "todo_read", "task_todo_get", "todoread"),
)
PLAN_COMPLETE_STEP = Tool(
    name="plan_complete_step",
    description="End a plan step, once checked.",
    arguments=PlanStepArguments,
    run=_complete_step,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda arguments: f"step {arguments.step_id}",
    aliases=("complete_plan_step", "complete_step"),
)
