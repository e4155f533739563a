"""A pipeline: the tasks of a plan, each done by an agent in its own overlay and judged by commands.  Values and decisions.

Nothing here does I/O.  `plan_queue` keeps the values in the workspace's index, `service` does the work.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath
from typing import Protocol

from lmtui.core.errors import UsageError
from lmtui.core.plan import cycle_of
from lmtui.core.remote_marks import kept_back, open_to_network
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.subagents import SessionAgentRunner

PLANS_FOLDER = "plans"
MOST_TASKS = 1_000
MOST_NAMED = 50
MOST_TASK_ATTEMPTS = 3  # at one stage of a task
MAX_TITLE_CHARS = 200
MAX_TEXT_CHARS = 8_000


class PipelineState(StrEnum):
    """Where a task is.  A `failed` one needs the user; one that is `skipped` counts as done for those that wait for it."""

    READY = "ready"
    CODING = "coding"
    CHECKING = "checking"
    REVIEWING = "reviewing"
    MERGING = "merging"
    DONE = "done"
    FAILED = "failed"
    SKIPPED = "skipped"


WORKING = frozenset({PipelineState.CODING, PipelineState.CHECKING, PipelineState.REVIEWING, PipelineState.MERGING})
OVER = frozenset({PipelineState.DONE, PipelineState.SKIPPED})
ENDED = frozenset({PipelineState.DONE, PipelineState.FAILED})


class Stage(StrEnum):
    """What judges a task, in this order."""

    CODER = "coder"
    VERIFIER = "verifier"
    CHECKS = "checks"
    ACCEPTANCE = "acceptance"
    REVIEWER = "reviewer"
    INTEGRATOR = "integrator"


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """What is to be done: `after` are the ids of tasks that come first, `checks` commands that have to exit with 0.

    `max_steps` and `max_tokens` are what one attempt may spend in requests and tokens, 0 for no limit.
    """

    title: str
    text: str = ""
    files: tuple[str, ...] = ()
    after: tuple[int, ...] = ()
    checks: tuple[str, ...] = ()
    phase: str = ""
    max_steps: int = 0
    max_tokens: int = 0

    @property
    def budget(self) -> str:
        """Return what one attempt may spend, as a plan says it; empty where it is not limited."""
        limits = ((self.max_steps, "steps"), (self.max_tokens, "tokens"))
        return " ".join(f"{number} {unit}" for number, unit in limits if number)


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """One attempt at a task: its session, and what came of it.

    `stage` is where it failed, empty where it did not; `findings` say why.  `checks` has the last outcome of each rung.
    `digest` identifies the resulting files.  `lines` were added and removed.  `started` (UTC) is when it was begun.  It changed
    `files`, and `summary` is the beginning of what the model said at its end.
    """

    number: int
    session: str = ""
    model: str = ""
    stage: str = ""
    findings: tuple[str, ...] = ()
    checks: Mapping[str, str] = field(default_factory=dict)
    tokens: int = 0
    elapsed_s: float = 0.0
    digest: str = ""
    lines: tuple[int, int] = (0, 0)
    patch: str = ""
    started: datetime | None = None
    files: tuple[str, ...] = ()
    summary: str = ""


@dataclass(frozen=True, slots=True)
class Merge:
    """What the integrator is about to keep, or has kept: files, as they are before and after (ids of checkpoints).

    `to_commit` are those without changes of the user's own, which git gets.
    """

    before: str
    after: str
    paths: tuple[str, ...]
    to_commit: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PipelineTask:
    """One task of a plan.  `why` says in words why it is where it is.

    `not_before` (UTC) is when a task whose model server was away is tried again.  `commit` is the commit with its changes.
    """

    id: int
    spec: TaskSpec
    state: PipelineState = PipelineState.READY
    attempts: tuple[TaskAttempt, ...] = ()
    is_paused: bool = False
    why: str = ""
    not_before: datetime | None = None
    merge: Merge | None = None
    commit: str = ""

    @property
    def last(self) -> TaskAttempt:
        """Return the last attempt, one that says nothing where there is none."""
        return self.attempts[-1] if self.attempts else TaskAttempt(0)


@dataclass(frozen=True, slots=True)
class OpenQuestion:
    """A question that has to be answered before the plan is done; `answer` is empty until then.

    `is_of_spec`: it is in the `SPEC.md` next to the plan, not in the plan itself.
    """

    text: str
    answer: str = ""
    is_of_spec: bool = False


@dataclass(frozen=True, slots=True)
class PipelinePlan:
    """A plan: `id` is a digest of its text, `path` its file relative to the workspace, `session` where it was planned.

    `problem` says why it cannot go on, or why it is not done although all its tasks are.
    """

    id: str
    name: str
    path: str
    created: datetime
    tasks: tuple[PipelineTask, ...] = ()
    questions: tuple[OpenQuestion, ...] = ()
    session: str = ""
    is_paused: bool = False
    is_done: bool = False
    problem: str = ""

    @property
    def folder(self) -> str:
        """Return where its files are, relative to the workspace."""
        return f"{PLANS_FOLDER}/{self.name}"

    def task(self, task_id: int) -> PipelineTask:
        """Return a task by its id.

        Raises:
            UsageError: there is none.
        """
        found = next((each for each in self.tasks if each.id == task_id), None)
        if found is None:
            raise UsageError(
                f"the plan {sanitize_line(self.name)} has no task {task_id}", "`lmtui pipeline status` lists them."
            )
        return found

    def waits_for(self, task: PipelineTask) -> tuple[int, ...]:
        """Return the ids of the tasks that have to be done before a task."""
        over = {each.id for each in self.tasks if each.state in OVER}
        return tuple(each for each in task.spec.after if each not in over)

    @property
    def open_questions(self) -> Mapping[int, str]:
        """Return the questions without an answer, each by its number, counted from 1."""
        return {number: each.text for number, each in enumerate(self.questions, 1) if not each.answer}

    @property
    def counts(self) -> Mapping[PipelineState, int]:
        """Return how many tasks are in each state."""
        return {state: sum(each.state is state for each in self.tasks) for state in PipelineState}

    @property
    def is_at_work(self) -> bool:
        """Tell whether a task is being worked on, by whichever process."""
        return any(each.state in WORKING for each in self.tasks)

    def summary(self) -> str:
        """Return how far it is, in one line."""
        counts = self.counts
        parts = [f"{counts[PipelineState.DONE]} of {pluralize(len(self.tasks), 'task')} done"]
        working = sum(counts[each] for each in WORKING)
        rest = (working, "working"), (counts[PipelineState.FAILED], "failed"), (counts[PipelineState.SKIPPED], "skipped")
        parts += [f"{count} {what}" for count, what in rest if count]
        return ", ".join([*parts, *["paused"] * self.is_paused])


def plan_id(text: str) -> str:
    """Return what identifies a plan: 16 digits of the SHA-256 of its text."""
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()[:16]


def with_spec(plan: PipelinePlan, asked: Iterable[OpenQuestion]) -> PipelinePlan:
    """Return a plan with the questions that its specification asks now; those that were answered stay so."""
    own, answers = [each for each in plan.questions if not each.is_of_spec], {each.text: each.answer for each in plan.questions}
    more = [replace(each, answer=each.answer or answers.get(each.text, ""), is_of_spec=True) for each in asked]
    return replace(plan, questions=(*own, *(each for each in more if all(each.text != known.text for known in own))))


def problem_of(specs: Mapping[int, TaskSpec]) -> str:
    """Return why these tasks, by id, cannot be a plan; empty where they can."""
    if not 0 < len(specs) <= MOST_TASKS:
        return f"it has {len(specs)} tasks, and at most {MOST_TASKS} are allowed" if specs else "no tasks found"
    for number, spec in specs.items():
        if problem := _problem_of_task(spec, specs):
            return f"task {number} {problem}"
    circle = cycle_of({number: spec.after for number, spec in specs.items()})
    return f"tasks {' → '.join(map(str, circle))} wait for each other" if circle else ""


def _problem_of_task(spec: TaskSpec, known: Collection[int]) -> str:
    if not spec.title.strip():
        return "has no title"
    if len(spec.title) > MAX_TITLE_CHARS or len(spec.text) > MAX_TEXT_CHARS:
        return f"has a title of more than {MAX_TITLE_CHARS} or a text of more than {MAX_TEXT_CHARS} characters"
    if max(len(spec.files), len(spec.checks), len(spec.after)) > MOST_NAMED:
        return f"names more than {MOST_NAMED} files, checks or tasks"
    if min(spec.max_steps, spec.max_tokens) < 0:
        return "has a budget below 0"
    unknown = [each for each in spec.after if each not in known]
    if unknown:
        return f"waits for {', '.join(map(str, unknown))}, which is not in the plan"
    outside = next((each for each in spec.files if is_outside(each)), None)
    return f"names {sanitize_line(outside)}, which is not in the workspace" if outside is not None else ""


def is_outside(path: str) -> bool:
    """Tell whether a path is not below the workspace, or is in a folder that tools may not touch."""
    parts = PurePosixPath(path).parts
    return not parts or path.startswith(("/", "~")) or ".." in parts or parts[0] in (".git", ".lmagent") or "\0" in path


def is_plan_file(path: str) -> bool:
    """Tell whether a file of the folder `plans` can be a plan: it is Markdown, and not the README."""
    name = PurePosixPath(path).name.lower()
    return name.endswith(".md") and name != "readme.md"


def added_task(plan: PipelinePlan, spec: TaskSpec) -> PipelineTask:
    """Return a further task of a plan, the last one in its queue; raise `UsageError` if it cannot be one."""
    number = max((each.id for each in plan.tasks), default=0) + 1
    _require_possible(plan, number, spec, "added")
    return PipelineTask(number, spec)


def edited_task(plan: PipelinePlan, task_id: int, spec: TaskSpec) -> PipelineTask:
    """Return a task that is about something else; raise `UsageError` if it cannot be changed so."""
    task = plan.task(task_id)
    if task.state in WORKING or task.state is PipelineState.DONE:
        raise UsageError(f"task {task_id} is {task.state}: it cannot be changed")
    _require_possible(plan, task_id, spec, "changed")
    return replace(task, spec=spec)


def _require_possible(plan: PipelinePlan, task_id: int, spec: TaskSpec, what: str) -> None:
    if problem := problem_of({each.id: each.spec for each in plan.tasks} | {task_id: spec}):
        raise UsageError(f"the task was not {what}: {problem}")


def next_tasks(plan: PipelinePlan, most: int, now: datetime, phase: str = "") -> list[PipelineTask]:
    """Return the tasks that can be begun, in their order: at most `most`, no two of which name the same file."""
    found: list[PipelineTask] = []
    taken = {path for each in plan.tasks if each.state in WORKING for path in each.spec.files}
    for task in () if plan.is_paused else _startable(plan, phase):
        if (task.not_before is not None and task.not_before > now) or taken & {*task.spec.files}:
            continue
        if len(found) == most:
            break
        found.append(task)
        taken |= {*task.spec.files}
    return found


def next_due(plan: PipelinePlan, phase: str = "") -> datetime | None:
    """Return when the next task that waits for a model server is tried again; None where none does."""
    return min((each.not_before for each in _startable(plan, phase) if each.not_before is not None), default=None)


def _startable(plan: PipelinePlan, phase: str) -> Iterator[PipelineTask]:
    """Yield the tasks that nothing but a date holds up, in their order."""
    over = {each.id for each in plan.tasks if each.state in OVER}
    for task in plan.tasks:
        is_ready = task.state is PipelineState.READY and not task.is_paused and phase in ("", task.spec.phase)
        if is_ready and over.issuperset(task.spec.after):
            yield task


def recovered(plan: PipelinePlan) -> Iterator[PipelineTask]:
    """Yield the tasks that a killed process was working on as those that are ready again; what was being merged is left."""
    for task in plan.tasks:
        if task.state in WORKING and task.state is not PipelineState.MERGING:
            yield replace(task, state=PipelineState.READY, why="lmtui was stopped during this task")


def failed(plan: PipelinePlan, task: PipelineTask, why: str) -> Iterator[PipelineTask]:
    """Yield a task as failed, and with it those that wait for it."""
    yield replace(task, state=PipelineState.FAILED, why=why)
    for each, cause in _dependents((each for each in plan.tasks if each.state is PipelineState.READY), (task.id,)):
        yield replace(each, state=PipelineState.FAILED, why=f"task {cause} failed")


def _dependents(tasks: Iterable[PipelineTask], task_ids: Collection[int]) -> Iterator[tuple[PipelineTask, int]]:
    """Yield those of some tasks that wait for others, directly or not, each with the first one that it waits for."""
    found, rest = {*task_ids}, [*tasks]
    while more := [each for each in rest if found & {*each.spec.after} and each.id not in found]:
        yield from ((each, next(number for number in each.spec.after if number in found)) for each in more)
        found |= {each.id for each in more}


def retried(plan: PipelinePlan, task_ids: Collection[int] = ()) -> Iterator[PipelineTask]:
    """Yield failed tasks, all or some, as ready with no attempts; and those that failed only because of these."""
    chosen = [each for each in plan.tasks if each.state is PipelineState.FAILED and (not task_ids or each.id in task_ids)]
    for task in chosen:
        yield replace(task, state=PipelineState.READY, attempts=(), why="", not_before=None)
    yield from _freed(plan, {each.id for each in chosen})


def _freed(plan: PipelinePlan, task_ids: Collection[int]) -> Iterator[PipelineTask]:
    """Yield the tasks as ready that failed without an attempt because they wait for some others, directly or not."""
    untried = (each for each in plan.tasks if each.state is PipelineState.FAILED and not each.attempts)
    for task, _ in _dependents(untried, task_ids):
        yield replace(task, state=PipelineState.READY, why="", not_before=None)


class TaskAction(StrEnum):
    """What the user may do with a task."""

    RETRY = "retry"
    SKIP = "skip"
    PAUSE = "pause"
    RESUME = "resume"


def after_action(plan: PipelinePlan, task_id: int, action: TaskAction) -> list[PipelineTask]:
    """Return the tasks that change by an action.

    Raises:
        UsageError: the state of the task does not allow it.
    """
    task = plan.task(task_id)
    if task.state in WORKING and action is not TaskAction.PAUSE:
        raise UsageError(f"task {task_id} is being worked on", "Pause the pipeline first.")
    match action:
        case TaskAction.RETRY if task.state is PipelineState.FAILED:
            return [*retried(plan, (task_id,))]
        case TaskAction.SKIP if task.state in (PipelineState.READY, PipelineState.FAILED):
            return [replace(task, state=PipelineState.SKIPPED, why="skipped by the user"), *_freed(plan, (task_id,))]
        case TaskAction.PAUSE | TaskAction.RESUME if task.state not in OVER:
            return [replace(task, is_paused=action is TaskAction.PAUSE)]
        case _:
            raise UsageError(f"task {task_id} is {task.state}: {action} is not possible")


def status_lines(plans: Sequence[PipelinePlan]) -> list[str]:
    """Return the plans and their tasks in lines for people."""
    lines: list[str] = []
    for plan in plans:
        lines.append(f"{sanitize_line(plan.name)}  {plan.id}  {plan.summary()}")
        lines += [f"  not done: {sanitize_line(plan.problem)}"] if plan.problem else []
        lines += [f"  BLOCKING {number}: {sanitize_line(text)}" for number, text in plan.open_questions.items()]
        lines += [f"  {task_line(plan, task)}" for task in plan.tasks]
    return lines or ["No plans yet. `lmtui pipeline run PLAN.md` begins one."]


def task_line(plan: PipelinePlan, task: PipelineTask) -> str:
    """Return a task in one line."""
    waits = plan.waits_for(task) if task.state is PipelineState.READY else ()
    after = f"after {', '.join(map(str, waits))}" if waits else ""
    tries = pluralize(len(task.attempts), "attempt") if task.attempts else ""
    note = " · ".join(filter(None, (tries, after, "paused" * task.is_paused, sanitize_line(task.why))))
    return f"{task.id:>3}  {task.state:<9}  {sanitize_line(task.spec.title)}" + (f"  ({note})" if note else "")


class WorkspacePipeline(Protocol):
    """The plans of a workspace, as front ends see them.  What takes an id takes a unique beginning, or the plan's name."""

    @property
    @open_to_network
    def known(self) -> Sequence[PipelinePlan]:
        """Return the plans as they were when last looked at, with what is known of work under way; the newest first."""

    @property
    @open_to_network
    def is_running(self) -> bool:
        """Tell whether this process works on a plan."""

    @open_to_network
    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        """Call `listener` on every change, on the event loop; the returned function ends it."""

    @kept_back
    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        """Let a front end run the agents of tasks that begin from now on; see `Session.run_agents_in`."""

    @open_to_network
    async def read(self) -> Sequence[PipelinePlan]:
        """Read the plans, which another process may have changed."""

    async def check_plan(self, path: str) -> tuple[str, str]:
        """Return what to ask before work on a file of the workspace begins, and what is done then.

        Raises:
            UsageError: it cannot be planned, or this process or another already works on a plan.
        """

    async def begin(self, path: str) -> None:
        """Check the file, plan it if that was not done, and work on it in the background."""

    @open_to_network
    async def stop(self) -> None:
        """Stop the work; what was under way is ready again."""

    async def pause(self, plan: str, *, is_paused: bool) -> None:
        """Begin no more tasks of a plan, or go on with it; where this process works on none, it works on this one then."""

    async def do(self, plan: str, task_id: int, action: TaskAction) -> None:
        """Do something with a task."""

    async def add_task(self, plan: str, spec: TaskSpec) -> PipelinePlan:
        """Add a task to a plan, which is not done any more then; it gets the highest id."""

    async def edit(self, plan: str, task_id: int, spec: TaskSpec) -> None:
        """Change what a task that is not being worked on is about."""

    async def answer(self, plan: str, number: int, text: str) -> None:
        """Answer a question of a plan, counted from 1."""


def is_planning(pipeline: WorkspacePipeline) -> bool:
    """Tell whether this process makes the tasks of a plan that is not known yet."""
    return pipeline.is_running and all(each.is_done for each in pipeline.known[:1])
