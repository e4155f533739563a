"""Decisions about the tasks of a plan: which are ready again, and when the next one is due."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

from lmtui.features.pipeline.values import (
    PipelinePlan,
    PipelineState,
    PipelineTask,
    TaskAction,
    TaskAttempt,
    TaskSpec,
    after_action,
    failed,
    next_due,
)

NOW = datetime(2026, 3, 14, 14, 2, tzinfo=UTC)


def plan_of(*after: tuple[int, ...]) -> PipelinePlan:
    """Return a plan whose tasks wait for others."""
    tasks = (PipelineTask(number, TaskSpec(f"Do {number}", after=each)) for number, each in enumerate(after, 1))
    return PipelinePlan("0", "p", "p.md", NOW, tuple(tasks))


def changed(plan: PipelinePlan, tasks: list[PipelineTask]) -> PipelinePlan:
    new = {each.id: each for each in tasks}
    return replace(plan, tasks=tuple(new.get(each.id, each) for each in plan.tasks))


def failed_at(plan: PipelinePlan, task_id: int) -> PipelinePlan:
    task = replace(plan.task(task_id), attempts=(TaskAttempt(1, stage="coder"),))
    return changed(plan, [*failed(plan, task, "no progress: coder")])


def states(plan: PipelinePlan) -> list[str]:
    return [str(each.state) for each in plan.tasks]


def test_a_skipped_task_frees_what_waited_for_it_and_a_paused_one_is_not_due() -> None:
    plan = failed_at(plan_of((2,), (3,), ()), 3)
    assert (states(plan), states(changed(plan, after_action(plan, 3, TaskAction.RETRY)))) == (["failed"] * 3, ["ready"] * 3)
    plan = failed_at(plan_of((), (1,), (2,), ()), 1)
    assert states(changed(plan, after_action(plan, 1, TaskAction.SKIP))) == ["skipped", "ready", "ready", "ready"]
    plan = failed_at(failed_at(plan_of((), (), (1, 2)), 1), 2)
    assert changed(plan, after_action(plan, 1, TaskAction.SKIP)).task(2).state is PipelineState.FAILED
    task = PipelineTask(1, TaskSpec("Do it"), not_before=NOW)
    plan = replace(plan_of(()), tasks=(task,))
    assert next_due(plan) == NOW
    assert next_due(replace(plan, tasks=(replace(task, is_paused=True),))) is None
