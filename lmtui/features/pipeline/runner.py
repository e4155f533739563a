"""The work on a plan: wave after wave of tasks, each from the coder to the integrator.  What decides are commands that ran.

Each change of a task is written to the queue before the next step begins, so that a killed process is gone on with.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from typing import Any

from lmtui.core.budgets import SessionBudget
from lmtui.core.errors import Fault, SandboxError
from lmtui.core.events import Verified
from lmtui.core.permissions.decide import decide
from lmtui.core.permissions.rules import Access, Mode, Verdict
from lmtui.core.ports import Policy
from lmtui.core.roles import ModelRole, parse_roles
from lmtui.core.sanitize import clipped, pluralize, sanitize_line, sanitize_path
from lmtui.core.verification import Gate, Rung, WorkspaceChecks, bounded
from lmtui.core.workspace import ExecResult
from lmtui.engine.review import blocking_findings
from lmtui.engine.session import EngineSession
from lmtui.engine.syntax import unparsed
from lmtui.engine.tasks import to_the_end, together
from lmtui.features.attempt_values import Attempt
from lmtui.features.pipeline.plan_queue import Change, PipelineFile, changed_plan
from lmtui.features.pipeline.values import (
    MOST_TASK_ATTEMPTS,
    OVER,
    Merge,
    PipelinePlan,
    PipelineState,
    PipelineTask,
    Stage,
    TaskAttempt,
    failed,
    next_due,
    next_tasks,
    recovered,
)
from lmtui.features.service import FeatureHost, TaskAttempts
from lmtui.sandbox.overlays import full_disk
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_AWAY = frozenset({Fault.UNREACHABLE, Fault.LOADING, Fault.BUSY})
_COOLDOWN_S, _MOST_COOLDOWN_S = 30.0, 1_800.0
_LOOK_S = 5.0
_MOST_FINDINGS = 12
_MOST_FILES, _MOST_SUMMARY_CHARS = 50, 600
_AGAIN = "An earlier attempt at this task failed ({stage}):\n{findings}\nThe folder is as it was before that attempt."
_NO_PYC = "export PYTHONDONTWRITEBYTECODE=1"  # a compiled file is taken for that of any source as old and as long


@dataclass(frozen=True, slots=True)
class RunOptions:
    """How a plan is worked on.

    Only tasks of `phase`, where one is named; `is_once`: one wave, then the end.  `batch` tasks are coded before they are
    reviewed (0: as many as the server has slots).  `has_trailers`: commits name the plan and the task in trailers.
    """

    phase: str = ""
    is_once: bool = False
    batch: int = 0
    has_commits: bool = True
    has_trailers: bool = False


@dataclass(frozen=True, slots=True)
class RunWatcher:
    """Who follows the work on a plan.

    `on_change` gets the plan on every change, with what is known of work under way; `on_note` a line for people; `prepare` what
    tries a task before it begins.
    """

    on_change: Callable[[PipelinePlan], None] = lambda _: None
    on_note: Callable[[str], None] = lambda _: None
    prepare: Callable[[TaskAttempts], None] = lambda _: None


@dataclass(slots=True)
class _TaskWork:
    """One task under way: what tries it, the best attempt, and how much had been merged when it began."""

    task: PipelineTask
    attempts: TaskAttempts
    merges: int
    best: Attempt | None = None
    record: TaskAttempt = field(default_factory=lambda: TaskAttempt(0))


class PlanRunner:
    """Works on one plan.  Set `wake` after a change of the queue: it is read again at once.

    Args:
        host: of the workspace.
        file: where its plans are.
        plan: the plan.
        watcher: gets every change, and notes for people.
    """

    def __init__(
        self, host: FeatureHost, file: PipelineFile, plan: PipelinePlan, options: RunOptions, watcher: RunWatcher
    ) -> None:
        self._host, self._file, self._options, self._watcher = host, file, options, watcher
        self.plan = plan
        self._live: dict[int, TaskAttempt] = {}
        self._suite: list[str] | None = None
        self._away: dict[int, int] = {}
        self._merges = 0
        self.wake = asyncio.Event()
        self.role_session: EngineSession | None = None

    async def run(self) -> None:
        """Work until nothing more can be begun.  Cancelled, what is under way becomes ready again.

        Raises:
            LmtuiError: the work cannot go on at all (no overlays, no model server chosen).
        """
        await self.change(lambda plan: [replace(plan, problem="", is_done=False)])
        await self._recover()
        try:
            while not self.plan.is_paused:
                slots = max(1, await self._host.slot_count())
                most = self._options.batch or slots
                if wave := next_tasks(self.plan, most, datetime.now(UTC), self._options.phase):
                    if full := await asyncio.to_thread(full_disk, self._host.workspace):
                        for each in wave:
                            await self._put_off(each.id, full, "the disk is full")
                    else:
                        await self._wave(wave, slots)
                    if self._options.is_once:
                        break
                elif (due := next_due(self.plan, self._options.phase)) is None:
                    break
                else:
                    await self._nap((due - datetime.now(UTC)).total_seconds())
                await self.change(lambda _: ())  # takes up what other processes changed
        finally:
            if self.role_session is not None:
                await to_the_end(self.role_session.close())

    async def change(self, change: Change) -> None:
        """Change the plan in the queue."""
        self.plan = await asyncio.to_thread(self._file.change, self.plan.id, change)
        self._show()

    async def _set(self, task_id: int, state: PipelineState, **changes: Any) -> None:  # Any: fields of a task
        await self.change(lambda plan: [replace(plan.task(task_id), state=state, **changes)])

    def _show(self) -> None:
        tasks = [each for each in self.plan.tasks if each.id in self._live]
        live = [replace(each, attempts=(*each.attempts, self._live[each.id])) for each in tasks]
        self._watcher.on_change(changed_plan(self.plan, live))

    async def _nap(self, seconds: float) -> None:
        self.wake.clear()
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.wake.wait(), min(max(seconds, 0.05), _LOOK_S))

    async def _recover(self) -> None:
        """Make ready what a killed process was working on, and finish what it was merging."""
        await self.change(recovered)
        for task in [each for each in self.plan.tasks if each.state is PipelineState.MERGING]:
            if task.merge is not None and await self._is_merged(task, task.merge):
                await self._finish(task.id, task.merge.to_commit)
            else:
                await self._set(task.id, PipelineState.READY, merge=None, why="lmtui was stopped before its changes were kept")

    async def _is_merged(self, task: PipelineTask, merge: Merge) -> bool:
        """Tell whether the changes of a task are in the workspace; where others are in the same files, its checks decide."""
        sandbox = await self._host.sandbox()
        with contextlib.suppress(SandboxError):
            now = (await sandbox.checkpoints.snapshot()).id
            if not await sandbox.checkpoints.changes(merge.after, now, merge.paths):
                return True
            if not await sandbox.checkpoints.changes(merge.before, now, merge.paths):
                return False
        return bool(task.spec.checks) and not await self.failing(task.spec.checks)

    async def _wave(self, tasks: Sequence[PipelineTask], slots: int) -> None:
        """Do some tasks, one step for all and then the next, so that models are loaded rarely.  Each is merged on its own."""
        budgets = [SessionBudget(tokens=each.spec.max_tokens, steps=each.spec.max_steps) for each in tasks]
        works = [_TaskWork(*each, self._merges) for each in zip(tasks, map(self._host.new_attempts, budgets), strict=True)]
        free = asyncio.Semaphore(slots)
        is_whole = False
        try:
            await together(self._code(free, each) for each in works)
            for stage in (self._review, self._merge):
                for work in works:
                    if work.best is not None:
                        await stage(work, work.best)
            is_whole = True
        finally:
            self._live = {}
            if not is_whole:  # one whose changes are being kept is looked at at the next start
                ids = {each.id for each in tasks}
                await to_the_end(self.change(lambda plan: [each for each in recovered(plan) if each.id in ids]))
            for work in works:
                await to_the_end(work.attempts.close())

    async def _code(self, free: asyncio.Semaphore, work: _TaskWork) -> None:
        """Have a task done in an overlay and judge it; what passes stays in `work.best`."""
        async with free:
            task = work.task
            await self._set(task.id, PipelineState.CODING, why="")
            unfollow = work.attempts.follow_changes(lambda: self._follow(work))
            self._watcher.prepare(work.attempts)
            try:
                prompt, title = task_prompt(self.plan, task), f"{self.plan.name} {task.id}: {task.spec.title}"
                best = await work.attempts.try_task(prompt, title, task.spec.checks, len(task.attempts))
            finally:
                unfollow()
        work.record = _record(best, len(task.attempts) + 1)
        if best.end is not None and best.end.fault in _AWAY:
            await self._put_off(task.id, best.end.error)
            return
        self._live[task.id] = work.record
        await self._set(task.id, PipelineState.CHECKING)
        stage, findings = await self._judge(work, best)
        if stage is None:
            work.best = best
        else:
            await self._reject(work, stage, findings)

    def _follow(self, work: _TaskWork) -> None:
        """Show an attempt under way."""
        running = [each for each in work.attempts.listed() if each.session]
        if running:
            self._live[work.task.id] = _record(running[-1], len(work.task.attempts) + 1)
            self._show()

    async def _put_off(self, task_id: int, why: str, cause: str = "the model server is away") -> None:
        """Try a task again later; this does not count as an attempt."""
        self._live.pop(task_id, None)
        tries = self._away[task_id] = self._away.get(task_id, 0) + 1
        wait = timedelta(seconds=min(_COOLDOWN_S * 2 ** (tries - 1), _MOST_COOLDOWN_S))
        await self._set(task_id, PipelineState.READY, not_before=datetime.now(UTC) + wait, why=f"{cause}: {why}")

    async def _judge(self, work: _TaskWork, best: Attempt) -> tuple[Stage | None, Sequence[str]]:
        """Return the first stage at which an attempt fails, and why."""
        spec, end = work.task.spec, best.end
        if best.effect is None or end is None:
            return Stage.CODER, [best.problem or "it ended before its turn"]
        sandbox = work.attempts.sandbox_of(best)
        if best.problem and (not spec.checks or await self.failing(spec.checks, sandbox)):
            return Stage.CODER, [best.problem]
        if not best.effect.paths:
            if spec.checks and not await self.failing(spec.checks, sandbox):
                return None, ()
            return Stage.CODER, [await asyncio.to_thread(full_disk, self._host.workspace) or "it changed nothing"]
        missing = [path for path in spec.files if path not in best.effect.paths and not await _exists(sandbox, path)]
        broken = await unparsed(sandbox, best.effect.paths)
        problems = [f"{sanitize_path(path)} is not there" for path in missing]
        problems += [f"{sanitize_path(path)} does not parse: {why}" for path, why in broken.items()]
        if problems:
            return Stage.VERIFIER, problems
        if findings := await self.failing(spec.checks, sandbox):
            return Stage.ACCEPTANCE, findings
        failed_checks = work.attempts.failures_of(best)
        failures = [each for each in failed_checks if each.rung is not Rung.GOAL or not spec.checks]
        if end.verified == Verified.RED and (failures or not failed_checks):
            texts = [f"`{each.command or each.rung}` fails:\n{each.text}" for each in failures]
            return Stage.CHECKS, texts or ["a check fails"]
        if end.verified in (Verified.NONE, Verified.RED) and (
            findings := await self.failing(await self._passing_suite(), sandbox)
        ):
            return Stage.CHECKS, findings  # the session did not check what its budget ended
        if not spec.checks and end.exit_code != 0:
            return Stage.CODER, [end.error or end.doubt or end.status]
        return None, ()

    async def _passing_suite(self) -> Sequence[str]:
        """Return the commands that check everything and pass in the folder as it was when they were first asked for."""
        if self._suite is None:
            extensions, is_on = self._host.extensions, self._host.config.verify != "off"
            listed = await extensions[WorkspaceChecks].listed() if is_on and WorkspaceChecks in extensions else ()
            suite = [each.command for each in listed if each.rung is Rung.SUITE]
            self._suite = [each for each in suite if not await self.failing([each])]
        return self._suite

    async def failing(self, commands: Sequence[str], sandbox: WorkspaceSandbox | None = None) -> list[str]:
        """Run commands, without a sandbox each in an overlay that is dropped, and return in words what failed."""
        found: list[str] = []
        for command in commands:
            overlay = (await self._host.sandbox()).overlay() if sandbox is None else None
            try:
                if decide("shell", Access.EXECUTE, command, Mode.NORMAL, self._host.rules()).verdict is Verdict.DENY:
                    raise SandboxError("denied by a rule")
                place = overlay.sandbox if overlay is not None else sandbox
                assert place is not None
                ended = await place.fresh().run_command(f"{_NO_PYC}\n{command}", timeout_s=self._host.config.check_limit_s)
            except SandboxError as error:
                found.append(f"`{command}` could not be run: {error.full_text()}")
                continue
            finally:
                if overlay is not None:
                    await overlay.close()
            if ended.exit_code != 0:
                lines = [line for line in ended.output.splitlines() if line.strip()]
                found.append(f"`{command}` exits with {ended.exit_code}:\n{bounded(lines[-10:])}")
        return found

    async def _reject(self, work: _TaskWork, stage: Stage, findings: Sequence[str]) -> None:
        """Record why an attempt failed; another follows, unless there were too many or it only repeated an earlier one."""
        self._live.pop(work.task.id, None)
        work.best = None
        record = replace(work.record, stage=str(stage), findings=tuple(findings[:_MOST_FINDINGS]))

        def change(plan: PipelinePlan) -> Iterable[PipelineTask]:
            before = plan.task(work.task.id)
            task = replace(before, state=PipelineState.READY, attempts=(*before.attempts, record))
            is_same = any(each.findings == record.findings and each.digest == record.digest for each in before.attempts)
            failures = sum(each.stage == stage for each in task.attempts)
            if failures >= MOST_TASK_ATTEMPTS:
                return failed(plan, task, f"{pluralize(failures, 'attempt')} failed: {stage}")
            return failed(plan, task, f"no progress: {stage}") if is_same and record.digest else [task]

        await self.change(change)

    async def _review(self, work: _TaskWork, best: Attempt) -> None:
        """Have the reviewer look at the change, where there is one; it rejects for what would hold up a turn."""
        config = self._host.config
        if ModelRole.REVIEWER not in parse_roles(config.roles) or best.effect is None or best.effect.is_empty:
            return
        await self._set(work.task.id, PipelineState.REVIEWING)
        if self.role_session is None:
            self.role_session = await self._host.new_session(Policy(is_attended=False))
            self.role_session.rename(f"{self.plan.name}: reviews")
        diff = "\n".join(each.diff or f"{each.kind} {each.path}" for each in best.effect.ordered)
        written = await self.role_session.role_requests.review(task_prompt(self.plan, work.task), diff)
        if not written.is_usable:
            self._watcher.on_note(f"task {work.task.id}: not reviewed, the reviewer gave no usable answer")
        work.record = replace(work.record, findings=tuple(str(each) for each in written.findings[:_MOST_FINDINGS]))
        if blocking := blocking_findings(written, Gate(config.gate)):
            await self._reject(work, Stage.REVIEWER, [str(each) for each in blocking])

    async def _merge(self, work: _TaskWork, best: Attempt) -> None:
        """Make the change of a task real, check it again where others were merged meanwhile, and commit it."""
        assert best.effect is not None
        task, sandbox, paths = work.task, await self._host.sandbox(), tuple(best.effect.paths)
        try:
            uncommitted = await CommitTrace(sandbox, self._options).uncommitted(paths)
        except SandboxError as error:
            uncommitted = frozenset(paths)  # nothing of the user's may get into a commit
            self._watcher.on_note(f"task {task.id}: {error.full_text()}")
        ours = tuple(each for each in paths if each not in uncommitted)
        await self._set(task.id, PipelineState.MERGING, merge=Merge(best.effect.before, best.effect.after, paths, ours))
        problem = "" if best.effect.is_empty else await to_the_end(self._keep(work, sandbox, best, paths))
        if problem:
            await self._reject(work, Stage.INTEGRATOR, [problem])
            return
        self._merges += 1
        if left := sorted({*paths} & uncommitted):
            self._watcher.on_note(f"task {task.id}: not committed, because you had changed them before: {', '.join(left)}")
        await self._finish(task.id, ours, work.record)

    async def _keep(self, work: _TaskWork, sandbox: WorkspaceSandbox, best: Attempt, paths: Sequence[str]) -> str:
        """Keep an attempt's changes; return why they cannot stay, empty where they can."""
        try:
            kept = await work.attempts.keep(best, None, ())
            for note in kept.notes:
                self._watcher.on_note(f"task {work.task.id}: {note}")
        except SandboxError as error:
            return error.full_text()
        if work.merges == self._merges or not (findings := await self.failing(work.task.spec.checks)):
            return ""
        assert kept.before is not None
        try:
            after = kept.after or kept.before  # what somebody changed since the merge stays
            await sandbox.checkpoints.restore(kept.before.id, paths, expected=after.id)
        except SandboxError as error:
            self._watcher.on_note(f"task {work.task.id}: its changes could not be undone: {error.full_text()}")
        return f"after other tasks were merged, {findings[0]}"

    async def _finish(self, task_id: int, paths: Sequence[str], record: TaskAttempt | None = None) -> None:
        """Commit what a task changed, and call it done."""
        task, commit = self.plan.task(task_id), ""
        try:
            trace = CommitTrace(await self._host.sandbox(), self._options)
            commit = await trace.commit(self.plan, task.spec.title, paths, task_id)
        except SandboxError as error:
            self._watcher.on_note(f"task {task_id}: {error.full_text()}")
        self._live.pop(task_id, None)
        attempts = (*task.attempts, record) if record is not None else task.attempts
        await self._set(task_id, PipelineState.DONE, attempts=attempts, commit=commit, why="")

    async def done_gate(self, criteria: Sequence[str] = ()) -> list[str]:
        """Return why the plan is not done, empty where it is: every task's checks and the criteria's run on the whole."""
        plan, reasons = self.plan, list[str]()
        rest = [each for each in plan.tasks if each.state not in OVER]
        if rest:
            only = f" (only the phase {self._options.phase} was worked on)" if self._options.phase else ""
            reasons.append(f"{pluralize(len(rest), 'task')} not done: {', '.join(str(each.id) for each in rest[:20])}{only}")
        asked = "BLOCKING question {} has no answer: {}"
        reasons += [asked.format(number, text) for number, text in plan.open_questions.items()]
        done = [each for each in plan.tasks if each.state is PipelineState.DONE]
        commands = dict.fromkeys([*(command for each in done for command in each.spec.checks), *criteria])
        return [*reasons, *(await self.failing([*commands]))]


def task_prompt(plan: PipelinePlan, task: PipelineTask) -> str:
    """Return the prompt of a task; after a failed attempt also why that failed."""
    spec = task.spec
    parts = [spec.title if spec.title.endswith((".", "!", "?")) else f"{spec.title}.", spec.text]
    parts += [f"Files: {', '.join(spec.files)}"] if spec.files else []
    parts += ["Done when these commands exit with 0:\n" + "\n".join(f"  {each}" for each in spec.checks)] if spec.checks else []
    answers = [f"{each.text} {each.answer}" for each in plan.questions if each.answer]
    parts += ["\n".join(["Decided:", *answers])] if answers else []
    if task.last.findings:
        findings = "\n".join(f"- {each}" for each in task.last.findings)
        parts.append(_AGAIN.format(stage=task.last.stage, findings=findings))
    return "\n\n".join(each for each in parts if each)


def _record(attempt: Attempt, number: int) -> TaskAttempt:
    return TaskAttempt(
        number,
        attempt.session,
        attempt.model,
        checks={str(rung): str(outcome) for rung, outcome in attempt.checks.items()},
        tokens=attempt.tokens,
        elapsed_s=round(attempt.elapsed_s, 1),
        digest=attempt.digest,
        lines=attempt.lines,
        patch=attempt.patch,
        started=attempt.started,
        files=tuple(attempt.effect.paths)[:_MOST_FILES] if attempt.effect is not None else (),
        summary=attempt.end.text.strip()[:_MOST_SUMMARY_CHARS] if attempt.end is not None else "",
    )


async def _exists(sandbox: WorkspaceSandbox, path: str) -> bool:
    with contextlib.suppress(SandboxError):
        _ = await sandbox.read_file(path, 1)
        return True
    return False


MAX_SUBJECT_CHARS = 72
_AT_ONCE = 200  # paths for one call of git


@dataclass(frozen=True, slots=True)
class CommitTrace:
    """Commits the work on one plan in the workspace of a sandbox, unless the options rule that out or git is missing.

    A repository that is there is respected: what the user has not committed stays uncommitted.
    """

    sandbox: WorkspaceSandbox
    options: RunOptions

    async def uncommitted(self, paths: Sequence[str]) -> frozenset[str]:
        """Return those of the files that differ from the last commit or are unknown to git.

        Raises:
            SandboxError: git did not tell.
        """
        if not (self.options.has_commits and paths):
            return frozenset()
        top = (await self.sandbox.run_git(["rev-parse", "--show-prefix"])).output.strip()
        results = await self._git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=all", paths=paths)
        problem = next((each.output for each in results if each.exit_code != 0), None)
        if problem is not None and await self.branch():
            raise SandboxError(f"git status failed: {sanitize_line(problem.strip()[-200:])}")
        return frozenset(entry[3:].removeprefix(top) for each in results for entry in each.entries())

    async def commit(self, plan: PipelinePlan, what: str, paths: Sequence[str], task_id: int = 0) -> str:
        """Commit the changes in some files and return the commit; one that is there already is not made again.

        Raises:
            SandboxError: git could not be asked, or refused.
        """
        if not (paths and await self.branch()):
            return ""
        subject = clipped(sanitize_line(f"{plan.name}: {what}"), MAX_SUBJECT_CHARS)
        _ = await self._git("add", paths=paths, writes=True)
        results = await self._git("diff", "--cached", "--name-only", "-z", "--no-renames", paths=paths)
        if staged := [path for each in results for path in each.entries()]:
            trailers = [f"Plan: {plan.id}", *([f"Task: {task_id}"] if task_id else [])] if self.options.has_trailers else []
            message = "\n\n".join(filter(None, (subject, "\n".join(trailers))))
            result = await self.sandbox.run_git(["commit", "-q", "-m", message, "--", *staged], writes=True)
            if result.exit_code != 0:
                raise SandboxError(f"not committed: {sanitize_line(result.output.strip()[-200:])}")
        last = await self.sandbox.run_git(["log", "-1", "--format=%H %s", "--", *paths[:_AT_ONCE]])
        commit, _, found = last.output.strip().partition(" ")
        return commit if last.exit_code == 0 and found == subject else ""

    async def branch(self) -> str:
        """Return the branch that gets the commits, empty where the options or the folder rule them out."""
        with contextlib.suppress(SandboxError):
            found = await self.sandbox.run_git(["branch", "--show-current"])
            if self.options.has_commits and found.exit_code == 0:
                return sanitize_line(found.output.strip()) or "no branch (detached HEAD)"
        return ""

    async def _git(self, *arguments: str, paths: Sequence[str], writes: bool = False) -> list[ExecResult]:
        """Run git on files, some at a time."""
        batches = (paths[start : start + _AT_ONCE] for start in range(0, len(paths), _AT_ONCE))
        return [await self.sandbox.run_git([*arguments, "--", *batch], writes=writes) for batch in batches]
