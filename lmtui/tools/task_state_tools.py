"""The state of a task over many things: told by the model, counted here, compared with the disk."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated

from pydantic import BeforeValidator

from lmtui.core import task_state
from lmtui.core.errors import ToolError
from lmtui.core.permissions.rules import Access
from lmtui.core.plan import TaskState
from lmtui.core.ports import Sandbox, ToolContext, ToolResult
from lmtui.tools.tool import Arguments, EmptyArguments, SessionTool, Told, Tool, always, argument

_MOST_FILES = 10_000  # as far as one answer of the sandbox holds their names
_BEGIN = "no task state yet; task_state_update begins one, for example with a pattern such as docs/*.md"


def _split(value: object) -> object:
    """Return the names that a text lists, a line or a comma each; models send that in place of a list."""
    if not isinstance(value, str) or value.lstrip().startswith("["):
        return value
    return [name for line in value.splitlines() for name in line.split(",") if name.strip()]


Names = Annotated[tuple[str, ...], BeforeValidator(_split)]


class TaskUpdateArguments(Arguments):
    """What changes of a task's state; what is not told to models is taken all the same."""

    objective: str | None = argument(None)
    pattern: str = argument("", also=("glob", "inventory"), doc="queues files, docs/*.md")
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


class TaskReconcileArguments(Arguments):
    """Which files the task is about."""

    pattern: str = argument("", also=("glob", "inventory", "path"), doc="which files, docs/**/*.md")


async def _update(arguments: TaskUpdateArguments, context: ToolContext) -> ToolResult:
    given = arguments.model_dump(exclude_unset=True)
    if not any(value is not None for value in given.values()):
        raise ToolError("nothing was given", "For example done, or remaining_queue and objective.")
    pattern = str(given.pop("pattern", "")).strip()
    state = task_state.change_task(context.plan.task, task_state.TaskChange(**given))
    if not pattern:
        return _kept(context, state)
    found = _Findings(state)
    _look_at_inventory(found, pattern, sorted(await context.sandbox.glob(pattern, _MOST_FILES)))
    return _kept(context, found.state, *found.lines)


async def _get(_: EmptyArguments, context: ToolContext) -> ToolResult:
    if context.plan.task is None:
        raise ToolError(_BEGIN)
    return ToolResult("\n".join(task_state.task_lines(context.plan.task)) or "nothing is counted", _summary(context.plan.task))


def _kept(context: ToolContext, state: TaskState, *told: str) -> ToolResult:
    """Keep a state and say how it is."""
    context.set_plan(replace(context.plan, task=state))
    lines = list(told)
    if not state.remaining_queue and state.queue_rest:
        lines.append(
            f"{state.queue_rest:,} more wait without a name here: call task_reconcile with the pattern to get the next ones."
        )
    elif state.is_finished and state.total_count:
        lines.append("all of it is processed: finish the task")
    return ToolResult("\n".join((*task_state.task_lines(state), *lines)), _summary(state))


def _summary(state: TaskState) -> str:
    return f"{state.processed_count:,}/{state.total_count:,}" if state.total_count else f"{state.processed_count:,}"


@dataclass(slots=True)
class _Findings:
    """What a look at the disk found, next to the state that follows from it."""

    state: TaskState
    lines: list[str] = field(default_factory=list)

    def say(self, names: Sequence[str], text: str) -> None:
        """Tell of names, if there are any."""
        if names:
            self.lines.append(f"{text}: {task_state.shown(names, 10)}")


async def _reconcile(arguments: TaskReconcileArguments, context: ToolContext) -> ToolResult:
    state = context.plan.task
    pattern = arguments.pattern.strip() or (state.inventory if state else "")
    if state is None and not pattern:
        raise ToolError(_BEGIN)
    found = _Findings(state or TaskState())
    await _look_at_renames(found, context.sandbox)
    await _look_at_queue(found, context.sandbox)
    if pattern:
        files = sorted(await context.sandbox.glob(pattern, _MOST_FILES))
        _look_at_inventory(found, pattern, files)
    if not found.lines:
        found.lines.append("the disk agrees with the state")
    return _kept(context, found.state, *found.lines)


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
    run=_update,
    access=lambda arguments: Access.READ if arguments.pattern else Access.NONE,
    subject=lambda arguments: arguments.pattern,
    title=lambda arguments: (
        arguments.objective or task_state.shown(arguments.done, 2) or arguments.next_action or arguments.pattern
    ),
    aliases=("update_task_state", "task_update", "task_state_set"),
)
TASK_STATE_GET = SessionTool(
    name="task_state_get",
    description="Show the task state.",
    arguments=EmptyArguments,
    run=_get,
    aliases=("get_task_state", "task_state", "task_get"),
    told=Told.NEVER,
)
TASK_RECONCILE = Tool(
    name="task_reconcile",
    description="Compare the task state with the disk; begins one from a pattern.",
    arguments=TaskReconcileArguments,
    run=_reconcile,
    access=always(Access.READ),
    subject=lambda arguments: arguments.pattern,
    aliases=("reconcile_task", "reconcile"),
    told=Told.NEVER,
)
