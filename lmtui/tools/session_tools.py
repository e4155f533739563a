"""The tools that work on the session itself: todos, plan steps, the counted state of a task, and sub-agents."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema

from lmtui.core import subagents, task_state
from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import fit_values, read_loose_json
from lmtui.core.permissions.rules import Access
from lmtui.core.plan import Plan, TaskState, Todo, TodoStatus, check_order, complete_step, current_step, named, waits_for
from lmtui.core.ports import Sandbox, ToolContext, ToolResult
from lmtui.core.proposals import FORM, read_proposal
from lmtui.core.task_state import step_words, todo_lines
from lmtui.tools.tool import Arguments, EmptyArguments, SessionTool, Told, Tool, argument

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
TODOS = (TODO_ADD, TODO_COMPLETE, TODO_UPDATE, TODO_LIST, TODO_SET, MANAGE_TASKS)


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


_MOST_FILES = 10_000  # as far as one answer of the sandbox holds their names


def _split(value: object) -> object:
    """Return the names that a text lists, a line or a comma each; models send that in place of a list."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return value
    return [name for line in value.splitlines() for name in line.split(",") if name.strip()]


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


class TaskUpdateArguments(Arguments):
    """What changes of a task's state; what is not told to models is taken all the same."""

    objective: str | None = argument(None)
    pattern: str = argument("", also=("glob", "inventory", "path"), doc="queues files, docs/*.md")
    remaining_queue: Names | None = argument(None, also=("queue", "remaining"))
    done: Names = argument((), also=("processed", "completed", "done_items"))
    next_action: str | None = argument(None, is_told=False)
    total_count: int | None = argument(None, also=("total",), is_told=False)
    processed_count: int | None = argument(None, is_told=False)
    added: Names = argument((), also=("add", "queue_add"), is_told=False)
    completion_gate: str | None = argument(None, is_told=False)
    rename_map: dict[str, str] | None = argument(None, also=("renames",), is_told=False)
    last_error: str | None = argument(None, is_told=False)
    recovery_instruction: str | None = argument(None, is_told=False)

    def changes(self) -> dict[str, Any]:
        """Return what is given but the pattern."""
        given = self.model_dump(exclude_unset=True, exclude={"pattern"})
        return {name: value for name, value in given.items() if value is not None}

    @property
    def looks(self) -> bool:
        """Tell whether the state is to be compared with the disk."""
        return bool(self.pattern.strip()) or not self.changes()


async def _update_state(arguments: TaskUpdateArguments, context: ToolContext) -> ToolResult:
    """Change the state, and compare it with the disk where a pattern is given, or nothing at all."""
    before, given = context.plan.task, arguments.changes()
    pattern = arguments.pattern.strip()
    if before is None and not given and not pattern:
        raise ToolError("no task state yet", "Begin one, for example with a pattern such as docs/*.md.")
    state = task_state.change_task(before, task_state.TaskChange(**given)) if given else before or TaskState()
    if not arguments.looks:
        return _kept(context, state)
    pattern, found = pattern or state.inventory, _Findings(state)
    await _look_at_renames(found, context.sandbox)
    await _look_at_queue(found, context.sandbox)
    if pattern:
        _look_at_inventory(found, pattern, sorted(await context.sandbox.glob(pattern, _MOST_FILES)))
    return _kept(context, found.state, *(found.lines or ["the disk agrees with the state"]))


def _kept(context: ToolContext, state: TaskState, *told: str) -> ToolResult:
    """Keep a state and say how it is."""
    context.set_plan(replace(context.plan, task=state))
    lines = list(told)
    if not state.remaining_queue and state.queue_rest:
        more = f"{state.queue_rest:,} more wait without a name here"
        lines.append(f"{more}: call task_state_update without arguments to get the next ones.")
    elif state.is_finished and state.total_count:
        lines.append("all of it is processed: finish the task")
    count = f"{state.processed_count:,}" + (f"/{state.total_count:,}" if state.total_count else "")
    return ToolResult("\n".join((*task_state.task_lines(state), *lines)), count)


@dataclass(slots=True)
class _Findings:
    """What a look at the disk found, next to the state that follows from it."""

    state: TaskState
    lines: list[str] = field(default_factory=list)

    def say(self, names: Sequence[str], text: str) -> None:
        """Tell of names, if there are any."""
        if names:
            self.lines.append(f"{text}: {task_state.shown(names, 10)}")


async def _look_at_renames(found: _Findings, sandbox: Sandbox) -> None:
    """See which renames hold: the new file is there.  One whose old file still is alone was not done."""
    renames = found.state.rename_map
    gone = set(await task_state.missing(sandbox, [path for pair in renames for path in pair]))
    held = [old for old, new in renames if new not in gone and old in found.state.remaining_queue and old in gone]
    if held:
        found.state = task_state.mark_done(found.state, held)
        found.say(held, "renamed already, so done")
    undone = [old for old, new in renames if new in gone and old not in gone]
    if undone:
        back = [old for old in undone if old in found.state.processed]
        kept = tuple(pair for pair in found.state.rename_map if pair[0] not in undone)
        found.state = replace(task_state.put_back(found.state, back), rename_map=kept)
        found.say(undone, "not renamed after all, back in the queue")
    found.say([f"{old} → {new}" for old, new in renames if new in gone and old in gone], "neither old nor new is on the disk")


async def _look_at_queue(found: _Findings, sandbox: Sandbox) -> None:
    """See which names of the queue and of what is done are not files; a queue of other things is left alone."""
    state = found.state
    renamed = {old for old, _ in state.rename_map}
    gone = set(await task_state.missing(sandbox, (*state.remaining_queue, *state.processed)))
    if len(gone) == len(state.remaining_queue) + len(state.processed):
        return
    found.say([name for name in state.remaining_queue if name in gone], "in the queue but not on the disk")
    found.say(
        [name for name in state.processed if name in gone and name not in renamed], "processed and not on the disk any more"
    )


def _look_at_inventory(found: _Findings, pattern: str, files: Sequence[str]) -> None:
    """Compare with the files that match: the first time they become the queue, later what is new is told or fills it up."""
    state = found.state
    digest = task_state.inventory_hash(files)
    is_first = not (state.remaining_queue or state.processed_count or state.total_count)
    known = {*state.remaining_queue, *state.processed, *(path for pair in state.rename_map for path in pair)}
    fresh = [path for path in files if path not in known]
    if len(files) >= _MOST_FILES:
        found.lines.append(f"only the newest {_MOST_FILES:,} files that match are looked at: use patterns that match fewer")
    if is_first:
        state = task_state.add_to_queue(state, files)
        found.lines.append(f"the queue holds the {len(files):,} files that match {pattern}")
    elif state.queue_rest:
        state = _filled_up(state, fresh)
        found.lines.append(f"{len(state.remaining_queue):,} are in the queue by name")
    elif len(state.processed) == state.processed_count:
        found.say(fresh, "on the disk, and neither queued nor processed (`added` queues them)")
    if state.inventory == pattern and state.inventory_hash and digest != state.inventory_hash:
        found.lines.append(f"the files that match {pattern} changed: {state.inventory_count:,} before, {len(files):,} now")
    found.state = replace(state, inventory=pattern, inventory_count=len(files), inventory_hash=digest)


def _filled_up(state: TaskState, fresh: Sequence[str]) -> TaskState:
    """Return the state with the next files named in its queue: those that sort behind all it knows by name."""
    last = max((*state.remaining_queue, *state.processed), default="")
    names = [path for path in fresh if path > last][: state.queue_rest]
    filled = task_state.add_to_queue(replace(state, queue_rest=state.queue_rest - len(names)), names)
    return replace(filled, total_count=state.total_count)


TASK_STATE_UPDATE = Tool(
    name="task_state_update",
    description="Keep count of work over many files.",
    arguments=TaskUpdateArguments,
    run=_update_state,
    access=lambda arguments: Access.READ if arguments.looks else Access.NONE,
    subject=lambda arguments: arguments.pattern,
    title=lambda arguments: (
        arguments.objective or task_state.shown(arguments.done, 2) or arguments.next_action or arguments.pattern
    ),
    aliases=(
        "update_task_state", "task_update", "task_state_set", "task_state_get", "get_task_state", "task_state", "task_get",
        "task_reconcile", "reconcile_task", "reconcile",
    ),
)  # fmt: skip


_PLAIN = "general-purpose"  # what models that know it from elsewhere send for a sub-agent without a definition
_MAX_SUMMARY_CHARS, _MAX_DATA_CHARS, _MAX_ARTIFACTS = 4_000, 20_000, 200


class DelegateArguments(Arguments):
    """One task."""

    objective: str = argument(also=("task", "instructions", "goal", "prompt", "description"), min_length=1, max_length=4_000)
    deliverable_type: Literal["file", "files", "data", "report"] = argument("report", is_told=False)
    deliverable_path: str = argument("", also=("file_path", "path"), doc="file to write")
    deliverable_description: str = argument("", is_told=False)
    deliverable_format: str = argument("", is_told=False)
    constraints: list[str] | str | None = argument(None, is_told=False)
    data_hint: str = argument("", doc="results it needs")
    agent: str = argument("", is_told=False, also=("subagent_type",))


class ExploreArguments(Arguments):
    """One question."""

    question: str = argument(also=("objective", "goal", "task", "prompt", "query"), min_length=1, max_length=4_000)


class DecomposeArguments(Arguments):
    """Several tasks."""

    manifest: Annotated[Any, WithJsonSchema({"type": "array", "items": {}})] = argument(
        also=("manifest_json", "tasks", "subtasks"), doc="{task_id, objective, deliverable {type, path}, depends_on}"
    )


class ReportArguments(Arguments):
    """What became of the task."""

    status: Literal["ok", "partial", "blocked", "error"] = argument()
    summary: str = argument("", also=("text", "result", "message", "answer"))
    artifacts: list[str] | str | None = argument(None, also=("files", "paths"))
    data: Any = argument(None)
    error: str = argument("")


async def _delegate(arguments: DelegateArguments, context: ToolContext) -> ToolResult:
    path = arguments.deliverable_path.strip()
    kind = "file" if path and arguments.deliverable_type == "report" else arguments.deliverable_type
    wanted = {
        "type": kind,
        "description": arguments.deliverable_description,
        "paths": [each.strip() for each in path.split(",")] if kind == "files" else [path] if path else [],
        "format": arguments.deliverable_format,
    }
    deliverable = subagents.read_deliverable(wanted)
    constraints, agent = subagents.read_constraints(arguments.constraints), arguments.agent.strip()
    brief = subagents.Brief(arguments.objective, subagents.ChildKind.WORK, deliverable, constraints, arguments.data_hint)
    return await _run((replace(brief, agent="" if agent == _PLAIN else agent),), context)


async def _explore(arguments: ExploreArguments, context: ToolContext) -> ToolResult:
    wanted = subagents.Deliverable("report", "An answer in at most 200 words that names files and lines.")
    return await _run((subagents.Brief(arguments.question, subagents.ChildKind.EXPLORE, wanted),), context)


async def _decompose(arguments: DecomposeArguments, context: ToolContext) -> ToolResult:
    return await _run(subagents.read_manifest(arguments.manifest), context)


async def _run(briefs: tuple[subagents.Brief, ...], context: ToolContext) -> ToolResult:
    if context.agent.children is None:
        raise ToolError("sub-agents cannot be used here", "Do it yourself, a step at a time.")
    results = await context.agent.children(briefs)
    good = sum(result.status is subagents.ReportStatus.OK for result in results)
    summary = str(results[0].status) if len(results) == 1 else f"{good} of {len(results)} ok"
    return ToolResult(subagents.results_text(results), summary, ok=any(result.status.is_usable for result in results))


async def _report(arguments: ReportArguments, context: ToolContext) -> ToolResult:
    if context.agent.report is None:
        raise ToolError("report_result is for sub-agents", "Tell the user in plain words what you did.")
    artifacts = [arguments.artifacts] if isinstance(arguments.artifacts, str) else arguments.artifacts or []
    given_data = "" if arguments.data is None else arguments.data
    data = given_data if isinstance(given_data, str) else json.dumps(given_data, ensure_ascii=False)
    given = subagents.Report(
        subagents.ReportStatus(arguments.status),
        arguments.summary[:_MAX_SUMMARY_CHARS],
        tuple(path.strip() for path in artifacts if path.strip())[:_MAX_ARTIFACTS],
        data[:_MAX_DATA_CHARS],
        arguments.error[:_MAX_SUMMARY_CHARS],
    )
    context.agent.report(given)
    return ToolResult("reported", str(given.status))


DELEGATE = SessionTool(
    name="delegate",
    description="Have a sub-agent do one self-contained task.",
    arguments=DelegateArguments,
    run=_delegate,
    title=lambda arguments: arguments.objective,
    aliases=("task", "spawn_agent"),
)
EXPLORE = SessionTool(
    name="explore",
    description="Have a sub-agent read and find something out.",
    arguments=ExploreArguments,
    run=_explore,
    title=lambda arguments: arguments.question,
    aliases=("agent_run",),
)
DECOMPOSE = SessionTool(
    name="decompose",
    description="Delegate up to 8 tasks in order.",
    arguments=DecomposeArguments,
    run=_decompose,
)
SENDERS = (DELEGATE, EXPLORE, DECOMPOSE)
REPORT_RESULT = SessionTool(
    name="report_result",
    description="Report at the end of your task what came of it.",
    arguments=ReportArguments,
    run=_report,
    title=lambda arguments: arguments.status,
)
