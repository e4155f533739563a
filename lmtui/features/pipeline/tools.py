"""The tool by which the model of a conversation steers the pipeline, and when it is offered."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BeforeValidator

from lmtui.core.errors import JobsError, SandboxError, ToolError, UsageError
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.permissions.rules import Access, Verdict
from lmtui.core.ports import Preview, ToolContext, ToolResult
from lmtui.core.sanitize import sanitize_line
from lmtui.features.pipeline import values as pipeline
from lmtui.features.pipeline.planner import is_check
from lmtui.features.pipeline.report import task_checkpoint
from lmtui.features.pipeline.task_list import fitted_title, paths_in, read_task_list, task_item, task_number
from lmtui.plain_files import list_plain
from lmtui.tools.tool import Arguments, BroughtTools, OtherTool, Told, Tool, argument

_MAX_BYTES, _MOST_LINES, _MOST_CHARS, _MOST_CHECKPOINT_CHARS = 262_144, 40, 300, 4_000
_ADD = '{"action": "add", "title": TITLE, "files": [FILE], "checks": [COMMAND], "after": [NUMBER]}'
_SAME = {"list": "status", "show": "status", "create": "add", "resume": "run", "start": "run", "stop": "pause"}
_OTHERS = {
    "status": "pipeline_status queue_status plan_status project_status queue_list queue_next",
    "retry": "retry_failed retry_task",
    "add": "queue_add pipeline_add create_plan add_task create_task", "skip": "skip_task",
    "run": "resume_pipeline run_pipeline start_pipeline run_plan", "pause": "pause_pipeline stop_pipeline pause_plan",
}  # fmt: skip
_READ_BACK = ("files", "checks", "budget")
_ENDS = {"queue_done": "done", "queue_fail": "failed"}
_Listed = BeforeValidator(lambda given: [given] if isinstance(given, str) and not given.lstrip().startswith("[") else given)
_Action = BeforeValidator(lambda given: _SAME.get(str(given).strip().lower(), given))


class PipelineArguments(Arguments):
    """What to do, with which plan or task; the last seven are of a new task."""

    action: Annotated[Literal["status", "add", "retry", "skip", "run", "pause"], _Action] = argument("status")
    plan: str = argument("", also=("name", "plan_name", "path", "plan_file"))
    task: Annotated[int, BeforeValidator(lambda given: task_number(str(given)) or given)] = argument(0, also=("task_id", "id"))
    title: str = argument("", also=("objective", "task_title"))
    text: str = argument("", also=("description", "details", "content"), is_told=False)
    files: Annotated[list[str], _Listed] = argument([], also=("file", "inputs"), is_told=False)
    checks: Annotated[list[str], _Listed] = argument([], also=("check", "command", "commands"), doc="commands")
    acceptance: str = argument("", is_told=False)
    after: Annotated[list[int], _Listed] = argument([], also=("depends_on", "dependencies"), is_told=False)
    max_steps: int = argument(0, also=("steps", "max_tool_calls"), is_told=False, ge=0)
    max_tokens: int = argument(0, also=("tokens", "token_budget"), is_told=False, ge=0)

    def spec(self) -> pipeline.TaskSpec:
        """Return the new task."""
        is_command = is_check(self.acceptance)
        text = self.text.strip() if is_command else f"{self.text}\n{self.acceptance}".strip()
        title, text = fitted_title(" ".join(self.title.split()), text)
        files = tuple(path for each in self.files for path in paths_in(each))
        checks = tuple(" ".join(each.split()) for each in (*self.checks, *[self.acceptance] * is_command))
        return pipeline.TaskSpec(title, text, files, tuple(self.after), checks, "", self.max_steps, self.max_tokens)


def _form(action: str, task: object = "NUMBER") -> str:
    more = f', "task": {task}' if action in ("retry", "skip") else ""
    return _ADD if action == "add" else f'{{"action": "{action}"{more}}}'


def _stem(path: str) -> str:
    return re.sub(r"[^\w-]+", "-", path.strip().lower().removesuffix(".md").rpartition("/")[2]).strip("-")[:60] or "tasks"


def _plans(context: ToolContext) -> pipeline.WorkspacePipeline:
    if pipeline.WorkspacePipeline not in context.features:
        raise ToolError("there is no pipeline here: you work on one task. Do that task.")
    return context.features[pipeline.WorkspacePipeline]


async def _target(given: PipelineArguments, context: ToolContext) -> tuple[str, pipeline.PipelinePlan | None, str, str]:
    """Return the plan that is named, else the newest, else a new one.

    That is its path, itself if it was begun, its text and hash.
    """
    plans, wanted = await _plans(context).read(), given.plan.strip()
    paths = [*(each.path for each in plans), *await _files(plans, context)]
    new = (
        wanted
        if wanted.lower().endswith(".md") and not pipeline.is_outside(wanted)
        else f"{pipeline.PLANS_FOLDER}/{_stem(wanted)}.md"
    )
    path = next((each for each in paths if wanted in ("", each) or _stem(wanted) == _stem(each)), new)
    plan, text, sha256 = next((each for each in plans if each.path == path), None), "", ""
    with contextlib.suppress(SandboxError):
        content = await context.sandbox.read_file(path, _MAX_BYTES)
        text, sha256 = content.data.decode("utf-8", "replace"), content.sha256
    return path, plan, text, sha256


async def _files(plans: Sequence[pipeline.PipelinePlan], context: ToolContext) -> list[str]:
    """Return the plans in the folder `plans` that were not begun."""
    known = {each.path.lower() for each in plans}
    with contextlib.suppress(SandboxError):
        paths = [each.path for each in await context.sandbox.list_directory(pipeline.PLANS_FOLDER) if each.kind == "file"]
        return [each for each in paths if pipeline.is_plan_file(each) and each.lower() not in known]
    return []


async def _add(given: PipelineArguments, context: ToolContext, *, is_real: bool) -> str:
    """Add a task, or only say what would be added."""
    (path, plan, old, sha256), spec = await _target(given, context), given.spec()
    if plan is not None:
        number = pipeline.added_task(plan, spec).id
        _ = await _plans(context).add_task(plan.id, spec) if is_real else None
    else:
        text = (f"{old.rstrip()}\n" if old else f"# {_stem(path)}\n\n") + task_item(spec)
        before, specs = read_task_list(old) if old else [], read_task_list(text) or []
        number, problem = len(specs), pipeline.problem_of(dict(enumerate([*(before or ()), spec], 1)))
        if before is None or context.agent.on_writing(path) is Verdict.DENY:
            problem = f"{sanitize_line(path)} must not be written, or is no task list yet: then first {_form('run')}"
        elif number != len(before) + 1 or any(getattr(specs[-1], each) != getattr(spec, each) for each in _READ_BACK):
            problem = problem or "its text reads as another task: use plain sentences"
        if problem:
            raise UsageError(f"the task was not added: {problem}")
        if is_real:
            await context.sandbox.write_file(path, text.encode(), expect_sha256=sha256)
    what = f"task {number} of {sanitize_line(path)}"
    return f"Added {what}. Next: add more, or {_form('run')}." if is_real else f"add {what}\n\n{task_item(spec)}"


async def _run(given: PipelineArguments, context: ToolContext, *, is_real: bool) -> str:
    """Begin or go on with a plan, or only say what would be done."""
    path, plan, shown, sha256 = await _target(given, context)
    if not shown.strip() or context.seen.setdefault(path, sha256) != sha256:
        raise UsageError(f"{sanitize_line(path)} is not there, or has changed: add a task first with {_ADD}")
    await _plans(context).check_plan(path)
    if plan is not None and pipeline.plan_id(shown) == plan.id:  # else the file has changed, and is planned again
        if plan.counts[pipeline.PipelineState.FAILED] and not plan.counts[pipeline.PipelineState.READY]:
            raise UsageError(f"only failed tasks are left: first {_form('retry')} or {_form('skip')}")
        shown = "\n".join(task_item(each.spec) for each in plan.tasks if each.state not in pipeline.OVER)
        if is_real and plan.is_paused:
            await _plans(context).pause(plan.id, is_paused=False)
    if not is_real:
        return f"work on {sanitize_line(path)} in the background, unattended: what passes its checks is kept\n\n{shown}"
    if not _plans(context).is_running:  # a plan that was paused goes on already
        await _plans(context).begin(path)
    return f"{sanitize_line(path)} runs in the background while lmtui is open. Do not do its tasks yourself. Tell the user."


async def _change(given: PipelineArguments, context: ToolContext, *, is_real: bool) -> str:
    """Retry or skip a task or pause a plan, or only say so."""
    path, plan, *_ = await _target(given, context)
    if plan is None:
        raise UsageError(f"{sanitize_line(path)} was not begun: {_form('run')} begins it")
    failed = [each.id for each in plan.tasks if each.state is pipeline.PipelineState.FAILED and each.attempts]
    tasks = [] if given.action == "pause" else [given.task] if given.task or given.action == "skip" else failed
    if not is_real:
        return " ".join((given.action, *map(str, tasks), f"in the plan {plan.name}"))
    if given.action == "pause":
        await _plans(context).pause(plan.id, is_paused=True)
    for each in tasks:
        await _plans(context).do(plan.id, each, pipeline.TaskAction(given.action))
    return f"ok: {given.action} {', '.join(map(str, tasks))}. To go on: {_form('run')}."


async def _status(given: PipelineArguments, context: ToolContext, *, is_real: bool) -> str:
    (_, plan, *_), plans = await _target(given, context), _plans(context).known
    others = [each for each in plans if plan is None or each.id != plan.id][:5]
    lines = [f"Other plan: {sanitize_line(each.name)}: {each.summary()}" for each in others]
    is_running = _plans(context).is_running
    how = "Not started, or being planned: {}" if is_running else 'Not started: {{"action": "run", "plan": "{}"}}'
    lines += [how.format(sanitize_line(each)) for each in await _files(plans, context)][:5]
    if plan is None or not is_real:
        return "\n".join((*lines, f"Next: {_ADD}."))
    if given.task:
        return task_checkpoint(plan, plan.task(given.task))[:_MOST_CHECKPOINT_CHARS]
    failed = [each for each in plan.tasks if each.state is pipeline.PipelineState.FAILED]
    findings = [(task.id, each) for task in failed for each in task.last.findings[:3]]
    lines += [f"Task {number} failed: {sanitize_line(each)[:_MOST_CHARS]}" for number, each in findings]
    ways = f"{_form('retry', failed[0].id)} or {_form('skip', failed[0].id)}, then {_form('run')}." if failed else _form("run")
    ways = "nothing, all is done." if all(each.state in pipeline.OVER for each in plan.tasks) else ways
    lines.append(f"Next: {'wait, it is running.' if is_running else ways}")
    return "\n".join((*(" ".join(each.split()) for each in pipeline.status_lines([plan])[:_MOST_LINES]), *lines[-_MOST_LINES:]))


async def _do(given: PipelineArguments, context: ToolContext, *, is_real: bool = True) -> ToolResult:
    act = {"status": _status, "add": _add, "run": _run}.get(given.action, _change)
    try:
        return ToolResult(await act(given, context, is_real=is_real), given.action)
    except (UsageError, JobsError) as error:
        raise ToolError(str(error), f"Its form is {_form(given.action)}. {_form('status')} lists the tasks.") from error


async def _preview(given: PipelineArguments, context: ToolContext) -> Preview:
    return Preview((await _do(given, context, is_real=False)).text)


def _refuse(name: str, given: PipelineArguments) -> dict[str, object]:
    told = f"there is no {name}: a task is {_ENDS[name]} when its checks have run, and nobody has to say so."
    forms = f"{_form('run')} to run the plan, {_form('skip', given.task or 'NUMBER')} to leave the task out"
    raise ToolError(told, f"Use the tool pipeline: {forms}, or {_form('pause')} to stop.")


def _convert(action: str, given: PipelineArguments) -> dict[str, object]:
    return given.model_dump(exclude_unset=True) | {"action": action}


PIPELINE = Tool(
    name="pipeline",
    description="Steer the queue of plans: see it, add a task, run it in the background.",
    arguments=PipelineArguments,
    run=_do,
    access=lambda given: {"status": Access.NONE, "run": Access.EXECUTE}.get(given.action, Access.WRITE),
    subject=lambda given: f"{given.action} {given.plan}".strip(),
    title=lambda given: f"{given.action} {given.title or given.task or given.plan}".strip(),
    preview=_preview,
    told=Told.NEVER,
    others=(
        *(OtherTool((*v.split(),), PipelineArguments, "pipeline", partial(_convert, k)) for k, v in _OTHERS.items()),
        *(OtherTool((each,), PipelineArguments, "pipeline", partial(_refuse, each)) for each in _ENDS),
    ),
)


def offered(plans: pipeline.WorkspacePipeline, workspace: Path) -> BroughtTools:
    """Return the tool for a conversation: the model learns of it where there are plans.  Its `offer` blocks (disk)."""

    def offer(tool_set: ToolSet, _: int) -> tuple[ToolSpec, ...]:
        files = list_plain(workspace, pipeline.PLANS_FOLDER)
        has_plans = bool(plans.known) or any(kind == "file" and pipeline.is_plan_file(name) for name, kind in files)
        is_in = tool_set is ToolSet.ALL or (has_plans and tool_set in (ToolSet.FULL, ToolSet.LEAN))
        return (PIPELINE.spec(),) if is_in else ()

    return BroughtTools(offer)
