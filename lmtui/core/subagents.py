"""Sub-agents as values: what one is asked to do, what it reports, and who can be asked to send some.

A brief and a report are written down as `brief.json` and `result.json` (`store/session_logs.py`).
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from lmtui.core.errors import ToolError
from lmtui.core.lenient_json import read_loose_json
from lmtui.core.plan import cycle_of
from lmtui.core.sanitize import clipped

# Runs the work of an agent of a session (both given by id) to its end.
SessionAgentRunner = Callable[[str, str, Coroutine[Any, Any, None]], Coroutine[Any, Any, None]]


class FileState(StrEnum):
    """Whether what a file defines (a skill, a sub-agent) can be used."""

    READY = "ready"
    WAITING = "needs approval"
    REFUSED = "refused by you"
    HIDDEN = "hidden"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class AgentDefinition:
    """A kind of sub-agent: `instructions` are sent with its task, `place` is its file as the user knows it.

    `allowed` are the only tools that it may call, as rules (None: all that it would have anyway), `denied` those that it may
    not.  `model` is empty where it has its parent's.  `problem` is why it is broken or hidden, `warnings` what is wrong with
    one that can be used all the same.
    """

    name: str
    description: str
    place: str
    instructions: str = ""
    allowed: tuple[str, ...] | None = None
    denied: tuple[str, ...] = ()
    model: str = ""
    state: FileState = FileState.READY
    problem: str = ""
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentDefinitions:
    """The sub-agents that are defined.

    `named` returns the definition of a name; it raises `ToolError` where there is none, or it may not be used, and lists those
    there are.
    """

    named: Callable[[str], Awaitable[AgentDefinition]]


MOST_TASKS = 8
MAX_TITLE_CHARS = 120


class ChildKind(StrEnum):
    """What a sub-agent may do: all that its parent may, or only read."""

    WORK = "work"
    EXPLORE = "explore"


class ReportStatus(StrEnum):
    """What became of a sub-agent's task; only what depends on it can be skipped."""

    OK = "ok"
    PARTIAL = "partial"
    BLOCKED = "blocked"
    ERROR = "error"
    SKIPPED = "skipped"

    @property
    def is_usable(self) -> bool:
        """Tell whether what builds on it can be begun."""
        return self in (ReportStatus.OK, ReportStatus.PARTIAL)


@dataclass(frozen=True, slots=True)
class Deliverable:
    """What is to come of a task: a file, several, data or a report; `paths` are relative to the workspace."""

    type: str = "report"
    description: str = ""
    paths: tuple[str, ...] = ()
    format: str = ""


@dataclass(frozen=True, slots=True)
class Brief:
    """One task for a sub-agent.

    `task_id` and `depends_on` tie the tasks of one manifest; `data_hint` says in words what of the parent's results it needs.
    `agent` names a definition (see `core.agent_definitions`), empty for a plain sub-agent.
    """

    objective: str
    kind: ChildKind = ChildKind.WORK
    deliverable: Deliverable = Deliverable()
    constraints: tuple[str, ...] = ()
    data_hint: str = ""
    task_id: str = ""
    depends_on: tuple[str, ...] = ()
    agent: str = ""

    @property
    def title(self) -> str:
        """Return the task in a line."""
        label = " ".join(filter(None, (self.task_id, self.agent)))
        return clipped(f"{label}: {self.objective}" if label else self.objective, MAX_TITLE_CHARS)


@dataclass(frozen=True, slots=True)
class Report:
    """What a sub-agent says at its end."""

    status: ReportStatus
    summary: str = ""
    artifacts: tuple[str, ...] = ()
    data: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class ChildResult:
    """What came of a task, checked: `artifacts` are there, `missing` were claimed or asked for and are not."""

    agent: str
    report: Report
    missing: tuple[str, ...] = ()
    task_id: str = ""

    @property
    def status(self) -> ReportStatus:
        """Return what became of the task."""
        return self.report.status


# Does tasks, each by a separate sub-agent, and returns what came of them in their order.  Tasks that depend on others
# begin when those are done; those of a failed one are skipped.  Raises `ToolError` where a definition cannot be used.
RunTasks = Callable[[Sequence[Brief]], Awaitable[Sequence[ChildResult]]]
_MAX_SUMMARY_CHARS, _MAX_DATA_CHARS, _MAX_ARTIFACTS = 1_200, 2_000, 50


def results_text(results: Sequence[ChildResult]) -> str:
    """Return results as JSON: of a single one the object itself."""
    found = [_result_fields(result) for result in results]
    return json.dumps(found[0] if len(found) == 1 else found, ensure_ascii=False, indent=1)


def _result_fields(result: ChildResult) -> dict[str, object]:
    report = result.report
    found: dict[str, object] = {
        "task_id": result.task_id,
        "success": report.status is ReportStatus.OK,
        "agent_id": result.agent,
        "status": str(report.status),
        "summary": cut(report.summary, _MAX_SUMMARY_CHARS),
        "artifacts": list(report.artifacts[:_MAX_ARTIFACTS]),
        "missing": list(result.missing[:_MAX_ARTIFACTS]),
        "data": cut(report.data, _MAX_DATA_CHARS),
        "error": cut(report.error, _MAX_SUMMARY_CHARS),
    }
    return {name: value for name, value in found.items() if value not in ("", [])}


def cut(text: str, limit_chars: int) -> str:
    """Return a text, the end of a longer one left out and said to be."""
    return text if len(text) <= limit_chars else f"{text[: max(0, limit_chars - 20)]}… (cut)"


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
    for _ in range(2):  # what is in an object may be text again
        if isinstance(value, str):
            try:
                value = read_loose_json(value)
            except ValueError as error:
                raise ToolError(f"the manifest is {error}", f"Send {FORM}.") from error
        if isinstance(value, Mapping):
            tasks = value.get("tasks", value.get("subtasks"))
            value = tasks if tasks is not None else [value] if "objective" in value else []
    if not isinstance(value, list):
        raise ToolError(f"the manifest is not a list of tasks but {type(value).__name__}", f"Send {FORM}.")
    return value


def _brief(task: object, number: int) -> Brief:
    if isinstance(task, str):
        task = {"objective": task}
    if not isinstance(task, Mapping):
        raise ToolError(f"task {number} is not an object", f"Send {FORM}.")
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
    of = f" of task {task_id}" if task_id else ""
    if kind not in DELIVERABLES:
        raise ToolError(f"the deliverable{of} is of type {kind[:40]!r}", f"It is one of {', '.join(DELIVERABLES)}.")
    if kind in ("file", "files") and not paths:
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
        raise ToolError(f"two tasks are called {twice[0]}", "Each task_id names one task.")
    for brief in briefs:
        if brief.task_id in brief.depends_on:
            raise ToolError(f"task {brief.task_id} depends on itself")
        if unknown := [each for each in brief.depends_on if each not in ids]:
            raise ToolError(f"task {brief.task_id} depends on {unknown[0]}, which is not a task", f"Tasks: {', '.join(ids)}.")
    circle = cycle_of({brief.task_id: brief.depends_on for brief in briefs})
    if circle:
        raise ToolError(f"tasks wait for each other in a circle: {' → '.join(circle)}", "Take one of the dependencies out.")
