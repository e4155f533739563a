"""Sub-agents as values: what one is told to do, what it reports, and who can be asked to send some.

A brief and a report are written down as `brief.json` and `result.json` (`store/papers.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

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
        words = " ".join(self.objective.split())
        label = " ".join(filter(None, (self.task_id, self.agent)))
        named = f"{label}: {words}" if label else words
        return named if len(named) <= MAX_TITLE_CHARS else named[: MAX_TITLE_CHARS - 1] + "…"


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


class Children(Protocol):
    """Who sends sub-agents on behalf of one agent."""

    async def run(self, briefs: Sequence[Brief]) -> Sequence[ChildResult]:
        """Do the tasks, each by a sub-agent of its own, and return what came of them in the order of the tasks.

        Tasks that depend on others begin when those are done; those of a failed one are skipped.

        Raises:
            ToolError: a task names a definition that cannot be used; nothing was begun.
        """
