"""A manifest of tasks as models write it: read with tolerance for its form, refused where its tasks cannot be done.  Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from lmtui.core.children import MOST_TASKS, Brief, ChildKind, Deliverable
from lmtui.core.errors import ToolError
from lmtui.core.loose_json import read_loose_json
from lmtui.core.ordering import cycle_of

DELIVERABLES = ("file", "files", "data", "report")
FORM = '[{"task_id": "t1", "objective": "…", "deliverable": {"type": "file", "path": "a.md"}, "depends_on": []}]'
_MAX_OBJECTIVE_CHARS = 4_000
_MAX_CONSTRAINTS, _MAX_CONSTRAINT_CHARS, _MAX_PATHS = 20, 400, 50


def read_manifest(value: object) -> tuple[Brief, ...]:
    """Return the tasks of a manifest: a list, an object with `tasks`, or either as JSON text (in a fence, with stray commas).

    Raises:
        ToolError: it cannot be read, or a task is without what it needs, or depends on what cannot be; says which and why.
    """
    tasks = _task_list(value)
    if not tasks:
        raise ToolError("the manifest has no tasks", f"Send {FORM}.")
    if len(tasks) > MOST_TASKS:
        raise ToolError(f"the manifest has {len(tasks)} tasks, at most {MOST_TASKS} are done", "Put small ones together.")
    briefs = tuple(_brief(task, number) for number, task in enumerate(tasks, 1))
    _check_ids(briefs)
    return briefs


def _task_list(value: object) -> list[Any]:
    if isinstance(value, str):
        value = _from_text(value)
    if isinstance(value, Mapping):
        tasks = value.get("tasks", value.get("subtasks"))
        value = tasks if tasks is not None else [value] if "objective" in value else []
    if isinstance(value, str):
        value = _from_text(value)
    if not isinstance(value, list):
        raise ToolError(f"the manifest is no list of tasks but {type(value).__name__}", f"Send {FORM}.")
    return value


def _from_text(text: str) -> object:
    try:
        return read_loose_json(text)
    except ValueError as error:
        raise ToolError(f"the manifest is {error}", f"Send {FORM}.") from error


def _brief(task: object, number: int) -> Brief:
    if isinstance(task, str):
        task = {"objective": task}
    if not isinstance(task, Mapping):
        raise ToolError(f"task {number} is no object", f"Send {FORM}.")
    task_id = str(task.get("task_id") or task.get("id") or f"t{number}").strip()
    objective = str(task.get("objective") or task.get("description") or task.get("task") or "").strip()
    if not objective:
        raise ToolError(f"task {task_id} has no objective", "Say what is to be done.")
    if len(objective) > _MAX_OBJECTIVE_CHARS:
        raise ToolError(f"the objective of task {task_id} has {len(objective):,} characters (at most {_MAX_OBJECTIVE_CHARS:,})")
    return Brief(
        objective,
        ChildKind.EXPLORE if task.get("kind") == "explore" or task.get("read_only") is True else ChildKind.WORK,
        read_deliverable(task.get("deliverable"), task_id),
        read_constraints(task.get("constraints")),
        str(task.get("data_hint") or ""),
        task_id,
        tuple(str(each).strip() for each in _list(task.get("depends_on") or task.get("dependencies"))),
        str(task.get("agent") or "").strip(),
    )


def read_deliverable(value: object, task_id: str = "") -> Deliverable:
    """Return what is to come of a task: an object with type, description, path or paths and format, or words.

    Raises:
        ToolError: the type is none of `DELIVERABLES`.
    """
    if not isinstance(value, Mapping):
        return Deliverable(description=str(value or ""))
    paths = tuple(str(path).strip() for path in (*_list(value.get("path")), *_list(value.get("paths"))) if str(path).strip())
    kind = str(value.get("type") or ("file" if len(paths) == 1 else "files" if paths else "report")).strip().lower()
    if kind not in DELIVERABLES:
        of = f" of task {task_id}" if task_id else ""
        raise ToolError(f"the deliverable{of} is of type {kind[:40]!r}", f"It is one of {', '.join(DELIVERABLES)}.")
    if kind in ("file", "files") and not paths:
        of = f" of task {task_id}" if task_id else ""
        raise ToolError(f"the deliverable{of} is a file and has no path", "Name the path that is to be written.")
    return Deliverable(kind, str(value.get("description") or ""), paths[:_MAX_PATHS], str(value.get("format") or ""))


def read_constraints(value: object) -> tuple[str, ...]:
    """Return constraints, a text each, bounded."""
    return tuple(str(each)[:_MAX_CONSTRAINT_CHARS] for each in _list(value)[:_MAX_CONSTRAINTS] if str(each).strip())


def _list(value: object) -> list[Any]:
    if value is None or value == "":
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _check_ids(briefs: Sequence[Brief]) -> None:
    ids = [brief.task_id for brief in briefs]
    if twice := sorted({each for each in ids if ids.count(each) > 1}):
        raise ToolError(f"two tasks are called {twice[0]}", "Each task_id stands for one task.")
    for brief in briefs:
        if brief.task_id in brief.depends_on:
            raise ToolError(f"task {brief.task_id} depends on itself")
        if unknown := [each for each in brief.depends_on if each not in ids]:
            raise ToolError(f"task {brief.task_id} depends on {unknown[0]}, which is no task", f"Tasks: {', '.join(ids)}.")
    circle = cycle_of({brief.task_id: brief.depends_on for brief in briefs})
    if circle:
        raise ToolError(f"tasks wait for each other in a circle: {' → '.join(circle)}", "Take one of the dependencies out.")
