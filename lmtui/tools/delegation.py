"""Work for sub-agents: one task, a manifest of tasks, a question about the folder; and what a sub-agent reports at its end."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Literal

from lmtui.core import subagents
from lmtui.core.errors import ToolError
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.tools.tool import Arguments, SessionTool, argument

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

    manifest: Any = argument(
        also=("manifest_json", "tasks", "subtasks"), doc="[{task_id, objective, deliverable: {type, path}, depends_on}]"
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
    description="Have sub-agents do up to 8 tasks in order.",
    arguments=DecomposeArguments,
    run=_decompose,
)
REPORT_RESULT = SessionTool(
    name="report_result",
    description="Report at the end of your task what came of it.",
    arguments=ReportArguments,
    run=_report,
    title=lambda arguments: arguments.status,
)
