"""How far a task over many things is: pure functions from a state to a state.  The counting is done here, not by the model."""

from __future__ import annotations

import contextlib
import hashlib
import posixpath
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from lmtui.core.errors import SandboxError, SandboxUnavailable, ToolError
from lmtui.core.plan import DEFAULT_GATE, Plan, PlanStep, TaskState, Todo, TodoStatus, current_step
from lmtui.core.ports import Sandbox
from lmtui.core.sanitize import clipped, pluralize

_MOST_ENTRIES = 10_000
Node = TypeVar("Node", bound=Any)


def path_of(text: str) -> str:
    """Return a path relative to the workspace, empty for one that leads out of it."""
    normal = posixpath.normpath(text.strip().removeprefix("/workspace/")) if text.strip() else ""
    return "" if normal.startswith(("/", "..")) or normal == "." else normal


async def missing(sandbox: Sandbox, paths: Iterable[str]) -> list[str]:
    """Return those of the paths that are not there, in their order; a sandbox that cannot tell accuses nobody.

    Folders are listed once each, so that hundreds of files cost few calls.
    """
    wanted = {path: path_of(path) for path in dict.fromkeys(paths)}
    folders = dict.fromkeys(posixpath.dirname(normal) for normal in wanted.values() if normal)
    there: set[str] = set()
    for folder in folders:
        try:
            there.update(entry.path for entry in await sandbox.unmasked().list_directory(folder, 1, _MOST_ENTRIES))
        except SandboxUnavailable:
            return []
        except SandboxError:
            continue
    absent = {path: normal for path, normal in wanted.items() if normal and normal not in there}
    return [path for path, normal in absent.items() if not await _is_any_file(sandbox, {normal, path})]


async def _is_any_file(sandbox: Sandbox, paths: Iterable[str]) -> bool:
    for path in paths:
        with contextlib.suppress(SandboxError):
            await sandbox.unmasked().read_file(path, 1)
            return True
    return False


MAX_QUEUE_CHARS = 12_000
MAX_NAME_CHARS = 400
MAX_TEXT_CHARS = 500
_SHOWN = 5
_MOST_COUNT = 10**12


@dataclass(frozen=True, slots=True)
class TaskChange:
    """What changes of a task's state; None stays as it is.  `done` are names that leave the queue and count as processed.

    `added` are names that join it at its end.
    """

    objective: str | None = None
    completion_gate: str | None = None
    total_count: int | None = None
    processed_count: int | None = None
    remaining_queue: tuple[str, ...] | None = None
    done: tuple[str, ...] = ()
    added: tuple[str, ...] = ()
    rename_map: Mapping[str, str] | None = None
    last_error: str | None = None
    recovery_instruction: str | None = None
    next_action: str | None = None


def change_task(before: TaskState | None, change: TaskChange) -> TaskState:
    """Return the state after a change; another objective than that of a finished task begins a new one.

    Raises:
        ToolError: the numbers do not fit together, or a name was done before or is not there; nothing is changed then.
    """
    state = before or TaskState()
    is_another = change.objective is not None and change.objective.strip() != state.objective
    if before is not None and is_another and before.is_finished and before.total_count:
        state = TaskState()
    state = _with_texts(state, change)
    if change.remaining_queue is not None:
        state = _queued(state, change.remaining_queue, is_counted=change.processed_count is not None)
    if change.added:
        state = add_to_queue(state, change.added)
    if change.done:
        state = mark_done(state, change.done)
    if change.rename_map:
        state = replace(state, rename_map=_renamed(state, change.rename_map))
    return _counted(state, change)


def mark_done(state: TaskState, names: Sequence[str]) -> TaskState:
    """Return the state with names taken out of the queue and counted; without a queue they are only counted.

    Raises:
        ToolError: one was done before, or is not in the queue; the text names it and says what is next.
    """
    wanted = list(dict.fromkeys(name for each in names if (name := _name(each))))
    again = [name for name in wanted if name in state.processed and name not in state.remaining_queue]
    if again:
        raise ToolError(f"processed already: {shown(again)}; nothing was counted twice", _next_words(state))
    queue = set(state.remaining_queue)
    unknown = [name for name in wanted if name not in queue]
    has_queue = bool(queue) or state.queue_rest > 0
    if has_queue and len(unknown) > state.queue_rest:
        raise ToolError(f"not in the queue: {shown(unknown)}; nothing was counted", _next_words(state))
    gone = set(wanted)
    return replace(
        state,
        remaining_queue=tuple(name for name in state.remaining_queue if name not in gone),
        queue_rest=state.queue_rest - (len(unknown) if has_queue else 0),
        processed=_bounded((*state.processed, *wanted)[::-1])[0][::-1],
        processed_count=state.processed_count + len(wanted),
        total_count=max(state.total_count, state.processed_count + len(wanted)),
    )


def put_back(state: TaskState, names: Sequence[str]) -> TaskState:
    """Return the state with names in the queue again that were counted as processed and are not done."""
    back = [name for each in names if (name := _name(each)) and name not in state.remaining_queue]
    queue, rest = _bounded((*back, *state.remaining_queue))
    return replace(
        state,
        remaining_queue=queue,
        queue_rest=state.queue_rest + rest,
        processed=tuple(name for name in state.processed if name not in back),
        processed_count=max(0, state.processed_count - len(back)),
    )


def add_to_queue(state: TaskState, names: Sequence[str]) -> TaskState:
    """Return the state with more names at the end of the queue."""
    fresh = [name for name in dict.fromkeys(map(_name, names)) if name and name not in state.remaining_queue]
    queue, rest = _bounded((*state.remaining_queue, *fresh))
    return replace(state, remaining_queue=queue, queue_rest=state.queue_rest + rest, total_count=state.total_count + len(fresh))


def inventory_hash(paths: Iterable[str]) -> str:
    """Return the first 16 hex digits of the SHA-256 of the sorted paths, a line each."""
    return hashlib.sha256("\n".join(sorted(set(paths))).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def shown(names: Sequence[str], limit: int = _SHOWN) -> str:
    """Return the first names, and how many more there are."""
    more = len(names) - limit
    return ", ".join(names[:limit]) + (f" and {more:,} more" if more > 0 else "")


def _with_texts(state: TaskState, change: TaskChange) -> TaskState:
    given = {
        name: text.strip()[:MAX_TEXT_CHARS]
        for name in ("objective", "completion_gate", "last_error", "recovery_instruction", "next_action")
        if (text := getattr(change, name)) is not None
    }
    return replace(state, **given)


def _queued(state: TaskState, names: Sequence[str], *, is_counted: bool) -> TaskState:
    """Return the state with another queue; names that only left it count as processed, unless the number is given."""
    wanted = [name for name in dict.fromkeys(map(_name, names)) if name]
    left = [name for name in state.remaining_queue if name not in set(wanted)]
    is_rest = bool(state.remaining_queue) and set(wanted) <= set(state.remaining_queue)
    if is_rest and left and not is_counted and not state.queue_rest:
        return mark_done(state, left)
    queue, rest = _bounded(wanted)
    total = max(state.total_count, state.processed_count + len(wanted))
    return replace(state, remaining_queue=queue, queue_rest=rest, total_count=total)


def _counted(state: TaskState, change: TaskChange) -> TaskState:
    """Return the state with the numbers that were given, if they fit.

    Raises:
        ToolError: they do not.
    """
    total = state.total_count if change.total_count is None else change.total_count
    processed = state.processed_count if change.processed_count is None else change.processed_count
    queued = len(state.remaining_queue) + state.queue_rest
    if total < 0 or processed < 0:
        raise ToolError("counts begin at 0")
    if max(total, processed) > _MOST_COUNT:
        raise ToolError(f"counts end at {_MOST_COUNT:,}")
    if total and processed > total:
        raise ToolError(f"processed_count {processed} is more than total_count {total}")
    if queued and total and queued > total - processed:
        way = "Name what is done in `done`: it leaves the queue and is counted."
        raise ToolError(f"total_count {total} and processed_count {processed} do not fit {queued} names in the queue", way)
    return replace(state, total_count=total, processed_count=processed)


def _renamed(state: TaskState, renames: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Return the map with more pairs, the newest last; the oldest go without a room."""
    pairs = dict(state.rename_map)
    for old, new in renames.items():
        pairs.pop(_name(old), None)
        if _name(old) and _name(new):
            pairs[_name(old)] = _name(new)
    kept: list[tuple[str, str]] = []
    room = MAX_QUEUE_CHARS
    for old, new in reversed(pairs.items()):
        room -= len(old) + len(new)
        if room < 0:
            break
        kept.append((old, new))
    return tuple(reversed(kept))


def _name(text: str) -> str:
    """Return a name in its one form.

    Raises:
        ToolError: it is too long to be one.
    """
    name = text.strip().removeprefix("./")
    if len(name) > MAX_NAME_CHARS:
        raise ToolError(f"a name in the queue has at most {MAX_NAME_CHARS} characters: {name[:60]}…")
    return name


def _bounded(names: Sequence[str]) -> tuple[tuple[str, ...], int]:
    """Return the first names as far as there is room, and how many come after them."""
    room = MAX_QUEUE_CHARS
    for place, name in enumerate(names):
        room -= len(name)
        if room < 0:
            return tuple(names[:place]), len(names) - place
    return tuple(names), 0


def _next_words(state: TaskState) -> str:
    return f"Next in the queue: {shown(state.remaining_queue)}." if state.remaining_queue else "The queue is empty."


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


def in_tree(nodes: Sequence[Node]) -> list[tuple[int, Node]]:
    """Return what has an `id` and a `parent`, each behind that and with how deep it is."""
    known = {node.id for node in nodes}
    below: dict[object, list[Node]] = {}
    for node in nodes:
        is_below = node.parent in known and node.parent != node.id
        below.setdefault(node.parent if is_below else None, []).append(node)
    found: list[tuple[int, Node]] = []
    stack = [(0, node) for node in reversed(below.get(None, []))]
    while stack:
        depth, node = stack.pop()
        found.append((depth, node))
        stack += [(depth + 1, each) for each in reversed(below.pop(node.id, []))]
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
    """Return how all of it is, what is open first; empty where there is nothing."""
    lines: list[str] = []
    if plan.steps:
        current = current_step(plan)
        done = len(plan.steps) - len(plan.open_steps)
        now = f"; under way is {clipped(step_words(current), _TEXT_CHARS)}" if current else ""
        lines.append(f"plan: {done} of {pluralize(len(plan.steps), 'step')} done{now}")
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
    names = shown([clipped(f"{todo.id} {todo.text}", 60) for todo in todos])
    return f"{len(todos)} {kind}{'s' if len(todos) > 1 else ''} open ({names})"


def _few(todos: Sequence[Todo], head: str) -> list[str]:
    lines = [f"- {head}: {todo.id} {clipped(todo.text, _TEXT_CHARS)}{_beside(todo)}" for todo in todos[:_MOST_SHOWN]]
    more = len(todos) - _MOST_SHOWN
    return [*lines, *([f"- and {more} more"] if more > 0 else [])]


def _beside(todo: Todo) -> str:
    parts = [clipped(todo.notes, _TEXT_CHARS)] if todo.notes else []
    parts += [f"waits for {', '.join(map(str, todo.depends_on))}"] if todo.depends_on and todo.is_open else []
    parts += ["blocked"] if todo.status is TodoStatus.BLOCKED else []
    return f" ({'; '.join(parts)})" if parts else ""


_FILE = re.compile(r"(?<![\w/.@:-])((?:[\w-][\w.-]*/)*[\w-][\w-]*\.(?:[A-Za-z]\w{1,4}|[chrdm]))(?![\w/(:])")
_IN_TICKS = re.compile(r"`([^`\n]{2,200})`")
_HAS_TO = re.compile(
    r"\b(?:pass(?:es)?|succeeds?|works?|green|exits? with 0|runs? clean(?:ly)?|no longer fails?|fails?|is failing)\b",
    re.IGNORECASE,
)
_PROGRAM = re.compile(
    r"(?:\./|\.venv/|bash |sh |python|pytest|np[mx] |pnpm |yarn |node |make\b|just\b|go |cargo |tox\b|ruff |mypy |uv |mvn )"
)


def files_in(task: str) -> list[str]:
    """Return the files that a task names, each once, in its order."""
    return list(dict.fromkeys(match[1] for match in _FILE.finditer(task)))


def without_files(task: str) -> str:
    """Return a task without the names of files."""
    return _FILE.sub(" ", task)


def must_pass(task: str) -> str:
    """Return the command that a task names between backticks and says has to pass, empty where it names none."""
    for match in _IN_TICKS.finditer(task):
        around = task[max(0, match.start() - 40) : match.start()] + " " + task[match.end() : match.end() + 40]
        if _PROGRAM.match(match[1]) and _HAS_TO.search(around):
            return match[1].strip()
    return ""
