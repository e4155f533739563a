"""The report on a plan, as JSON with a version of its schema and as Markdown; reading reports, also of an earlier version."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from textwrap import indent
from typing import Any

from lmtui.core.errors import UsageError
from lmtui.core.events import ROOT, Event, UsageUpdated
from lmtui.core.model_events import ModelLoaded
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.features.pipeline.values import ENDED, OVER, PipelinePlan, PipelineState, PipelineTask, Stage, TaskAttempt, TaskSpec

SCHEMA_VERSION, _OLDEST_VERSION = 2, 1  # 2 added `usage`


def report_object(
    plan: PipelinePlan,
    reasons: Sequence[str],
    notes: Sequence[str],
    *,
    elapsed_s: float = 0.0,
    swaps: Mapping[str, int] | None = None,
    usage: Mapping[str, Mapping[str, float]] | None = None,
) -> dict[str, Any]:  # Any: JSON
    """Return the report: what came of each task with every attempt, the totals, and why the plan is not done."""
    attempts = [each for task in plan.tasks for each in task.attempts]
    done = [task for task in plan.tasks if task.state is PipelineState.DONE]
    counts = {str(state): count for state, count in plan.counts.items() if count}
    return {
        "schema_version": SCHEMA_VERSION,
        "plan": {"id": plan.id, "name": plan.name, "path": plan.path, "created": plan.created.isoformat()},
        "status": "not done" if reasons else "done",
        "reasons": [*reasons],
        "tasks": [_task_object(each) for each in plan.tasks],
        "totals": {
            "tasks": len(plan.tasks), **counts, "attempts": len(attempts),
            "rework": sum(max(0, len(each.attempts) - 1) for each in done),
            "findings": sum(len(each.findings) for each in attempts),
            "failed_at": {str(stage): count for stage in Stage if (count := sum(each.stage == stage for each in attempts))},
        },
        "efficiency": {
            "elapsed_s": round(elapsed_s, 1), "model_s": round(sum(each.elapsed_s for each in attempts), 1),
            "tokens": sum(each.tokens for each in attempts), **(swaps or {}),
        },
        "usage": {role: dict(each) for role, each in (usage or {}).items()},
        "notes": [*notes],
    }  # fmt: skip


def _task_object(task: PipelineTask) -> dict[str, Any]:  # Any: JSON
    spec = asdict(task.spec)
    return {
        "id": task.id,
        "title": spec.pop("title"),
        "state": str(task.state),
        **spec,
        "attempts": [asdict(each) | {"started": each.started and each.started.isoformat()} for each in task.attempts],
        "commit": task.commit,
        "why": task.why,
    }


def usage_by_role(history: Iterable[Event]) -> dict[str, dict[str, float]]:
    """Return what events say of requests, tokens and loads of models, by the role that they were for."""
    found: dict[str, dict[str, float]] = {}
    for event in history:
        match event:
            case UsageUpdated(agent=agent, usage=usage):
                role = _ROLES.get(agent, "other")
                added = (1, usage.prompt_tokens, usage.completion_tokens, 0, 0, 0.0)
            case ModelLoaded(role=role, ok=True, unloaded=unloaded, elapsed_s=elapsed_s):
                added = (0, 0, 0, 1, len(unloaded), elapsed_s)
            case _:
                continue
        total = found.setdefault(role or _ROLES[ROOT], dict.fromkeys(_USAGE, 0))
        for name, number in zip(_USAGE, added, strict=True):
            total[name] = round(total[name] + number, 1)
    return found


_USAGE = ("requests", "prompt_tokens", "completion_tokens", "loads", "unloads", "load_s")
_ROLES = {ROOT: "coder", "fix": "coder", "plan": "planner", "review": "reviewer"}  # by who or what for


def report_markdown(report: Mapping[str, Any]) -> str:  # Any: JSON
    """Return a report for people."""
    plan, totals, cost = report["plan"], report["totals"], report["efficiency"]
    tasks, attempts = pluralize(totals["tasks"], "task"), pluralize(totals["attempts"], "attempt")
    sums = f"{totals.get('done', 0)} of {tasks} done, {attempts}, {cost['tokens']:,} tokens, {cost['model_s']:.0f} s."
    lines = [f"# {sanitize_line(plan['name'])}: {report['status']}", "", sums]
    lines += ["", *(f"- {sanitize(each)}" for each in report["reasons"])] if report["reasons"] else []
    lines += ["", "| task | state | attempts | lines | commit | why |", "|---|---|---|---|---|---|"]
    for each in report["tasks"]:
        added, removed = each["attempts"][-1]["lines"] if each["attempts"] else (0, 0)
        title, size = f"{each['id']} {each['title']}", f"+{added} −{removed}"
        cells = (title, each["state"], len(each["attempts"]), size, each["commit"][:9], each["why"])
        lines.append(f"| {' | '.join(sanitize_line(str(cell)).replace('|', '·') for cell in cells)} |")
    rows = [(sanitize_line(role), *(each.get(name, 0) for name in _USAGE)) for role, each in report.get("usage", {}).items()]
    if rows:
        lines += ["", f"| role | {' | '.join(each.replace('_', ' ') for each in _USAGE)} |", "|---" * (1 + len(_USAGE)) + "|"]
        lines += [f"| {role} | {' | '.join(f'{value:,}' for value in values)} |" for role, *values in rows]
    lines += ["", "## Notes", "", *(f"- {sanitize_line(each)}" for each in report["notes"])] if report["notes"] else []
    return "\n".join([*lines, ""])


def report_files(plan: PipelinePlan, report: Mapping[str, Any]) -> dict[str, str]:  # Any: JSON
    """Return what is written at the end of the work on a plan, by the paths in its folder."""
    return {
        "quality_report.json": report_json(report),
        "quality_report.md": report_markdown(report),
        **{f"tasks/{each.id}.md": task_checkpoint(plan, each) for each in plan.tasks if each.state in ENDED},
    }


def task_checkpoint(plan: PipelinePlan, task: PipelineTask) -> str:
    """Return what a task came to, as Markdown: what was done, changed and checked, what comes next, and what blocks."""
    last = task.last
    is_done = task.state in OVER
    changed = [f"`{sanitize_line(each)}`" for each in last.files]
    following = [each for each in plan.tasks if each.state is PipelineState.READY and not plan.waits_for(each)]
    lost = [each for each in plan.tasks if task.id in each.spec.after and each.state not in OVER]
    sections = {
        "Done": [_attempt_line(each) for each in task.attempts]
        + ([f"> {sanitize_line(' '.join(last.summary.split()))}"] if last.summary else []),
        "Changed": [*changed, *([f"commit {task.commit}"] if task.commit else [])] if is_done else [],
        "Checks": [*_checks(task, last), *(f"{sanitize_line(rung)}: {outcome}" for rung, outcome in last.checks.items())],
        "Review": [sanitize(each) for each in last.findings if is_done],
        "Next": [f"`lmtui pipeline retry {sanitize_line(plan.name)} {task.id}`"] * (task.state is PipelineState.FAILED)
        + [f"task {each.id}: {sanitize_line(each.spec.title)}" for each in following[:5]],
        "Blockers": [] if is_done else [*map(sanitize, last.findings), *(f"task {each.id} waits for it" for each in lost)],
    }
    why = f": {sanitize_line(task.why)}" if task.why else ""
    cost = f"{sum(each.tokens for each in task.attempts):,} tokens, {sum(each.elapsed_s for each in task.attempts):.0f} s"
    head = f"# Task {task.id}: {sanitize_line(task.spec.title)}\n\n{task.state}{why}, {cost}\n"
    return head + "".join(
        f"\n## {name}\n\n" + "".join(f"- {indent(each, '  ').strip()}\n" for each in lines or ["nothing"])
        for name, lines in sections.items()
        if lines or name != "Review"
    )


def _attempt_line(attempt: TaskAttempt) -> str:
    came = f"failed at {attempt.stage}" if attempt.stage else "passed"
    added, removed = attempt.lines
    return f"attempt {attempt.number}: {came}, +{added} −{removed} (session {attempt.session}, {sanitize_line(attempt.model)})"


def _checks(task: PipelineTask, last: TaskAttempt) -> list[str]:
    """Return what is known of the task's own commands: they run after the verifier, all of them."""
    is_run = last.number and last.stage not in (Stage.CODER, Stage.VERIFIER)
    failed = [why.partition("` ")[0][1:] for why in last.findings if last.stage == Stage.ACCEPTANCE]
    came = dict.fromkeys(task.spec.checks, "passed" if is_run else "not run")
    came |= {each: "failed" for each in came if each in failed}
    return [f"`{sanitize_line(each)}`: {what}" for each, what in came.items()]


def tasks_json(plan: PipelinePlan) -> str:
    """Return the task list of a plan as JSON."""
    tasks = [{"id": each.id, **asdict(each.spec)} for each in plan.tasks]
    return report_json({"schema_version": SCHEMA_VERSION, "plan": plan.id, "tasks": tasks})


def read_report(data: bytes) -> dict[str, Any]:  # Any: JSON
    """Return a report of this version, or of an earlier one that can be read.

    Raises:
        UsageError: it is none, or one of another version; the text names what is wrong with it.
    """
    try:
        found: dict[str, Any] = json.loads(data)  # Any: JSON
        version = int(str(found["schema_version"]))  # 1e999 is infinite
        _ = report_markdown(found)
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        why = f"{error} is missing" if isinstance(error, KeyError) else sanitize_line(str(error))[:200]
        raise UsageError(f"the report cannot be read: {why}", "Run the plan again for a new one.") from error
    if not _OLDEST_VERSION <= version <= SCHEMA_VERSION:
        hint = "Run the plan again for a new one." if version < SCHEMA_VERSION else "Use a newer lmtui."
        raise UsageError(f"the report has schema version {version}, not {SCHEMA_VERSION}", hint)
    return found


def migrated(report: Mapping[str, Any]) -> dict[str, Any]:  # Any: JSON
    """Return a report that was read as one of this version; what an earlier version did not record is empty."""
    tasks = [
        {**_task_object(PipelineTask(0, TaskSpec(""))), **task, "attempts": [_NO_ATTEMPT | each for each in task["attempts"]]}
        for task in report["tasks"]
    ]
    return {"usage": {}, **report, "schema_version": SCHEMA_VERSION, "tasks": tasks}


_NO_ATTEMPT = asdict(TaskAttempt(0))


def report_json(report: Mapping[str, Any]) -> str:  # Any: JSON
    """Return a report as its file has it."""
    return json.dumps(report, indent=1, ensure_ascii=False) + "\n"
