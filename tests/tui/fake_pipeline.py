"""Plans in a list, for screens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from lmtui.core.errors import UsageError
from lmtui.core.subagents import SessionAgentRunner
from lmtui.features.pipeline.values import PipelinePlan, PipelineTask, TaskAction, TaskSpec, added_task, after_action


class FakePipeline:
    """Implements `features.pipeline.values.WorkspacePipeline`."""

    def __init__(self) -> None:
        self.plans: list[PipelinePlan] = []
        self.begun: list[str] = []
        self.is_stopped = self.is_planning = False
        self.failure: UsageError | None = None
        self._listeners: list[Callable[[], None]] = []

    @property
    def known(self) -> Sequence[PipelinePlan]:
        return self.plans

    @property
    def is_running(self) -> bool:
        return self.is_planning or (not self.is_stopped and any(plan.is_at_work and not plan.is_done for plan in self.plans))

    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        self.runner = runner

    async def read(self) -> Sequence[PipelinePlan]:
        self._check()
        return self.plans

    async def check_plan(self, path: str) -> tuple[str, str]:
        self._check(UsageError("the plan NOSUCH cannot be read") if path == "NOSUCH" else None)
        return f"Plan and start {path}?", "commit to main"

    async def begin(self, path: str) -> None:
        await self.check_plan(path)
        self.begun.append(path)
        self.is_planning = not self.plans
        self._changed()

    async def stop(self) -> None:
        self._check()
        self.is_stopped = True

    async def pause(self, plan: str, *, is_paused: bool) -> None:
        self._check()
        found = replace(self._plan(plan), is_paused=is_paused)
        self.show(found)
        if not is_paused and not self.is_running:
            await self.begin(found.path)

    async def do(self, plan: str, task_id: int, action: TaskAction) -> None:
        self._check()
        found = self._plan(plan)
        self._put(found, *after_action(found, task_id, action))

    async def add_task(self, plan: str, spec: TaskSpec) -> PipelinePlan:
        self._check()
        found = self._plan(plan)
        self.show(replace(found, tasks=(*found.tasks, added_task(found, spec)), is_done=False))
        return self.plans[0]

    async def edit(self, plan: str, task_id: int, spec: TaskSpec) -> None:
        self._check()
        found = self._plan(plan)
        self._put(found, replace(found.task(task_id), spec=spec))

    async def answer(self, plan: str, number: int, text: str) -> None:
        self._check()
        found = self._plan(plan)
        if not 0 < number <= len(found.questions):
            raise UsageError(f"no question {number}", "/pipeline status lists them.")
        questions = [replace(each, answer=text) if at == number else each for at, each in enumerate(found.questions, 1)]
        self.show(replace(found, questions=tuple(questions)))

    def task(self, task_id: int) -> PipelineTask:
        """Return a task of the newest plan."""
        return self.plans[0].task(task_id)

    def show(self, *plans: PipelinePlan) -> None:
        """Have these from now on."""
        self.is_planning = False
        self.plans = [*plans]
        self._changed()

    def _changed(self) -> None:
        for listener in list(self._listeners):
            listener()

    def _put(self, plan: PipelinePlan, *changed: PipelineTask) -> None:
        new = {each.id: each for each in changed}
        after = replace(plan, tasks=tuple(new.get(each.id, each) for each in plan.tasks))
        self.show(*(after if each.id == plan.id else each for each in self.plans))

    def _plan(self, plan_id: str) -> PipelinePlan:
        return next(each for each in self.plans if each.id == plan_id)

    def _check(self, failure: Exception | None = None) -> None:
        if (failure := failure or self.failure) is not None:
            raise failure
