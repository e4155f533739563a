"""The pipeline of a workspace: plans are read, planned, worked on in the background or the foreground, and reported."""

from __future__ import annotations

import asyncio
import contextlib
import re
import shlex
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from pathlib import Path, PurePosixPath

from lmtui.command_line import NONE, OK, WARNING, CheckRow
from lmtui.core.errors import JobsError, LmtuiError, SandboxError, UsageError
from lmtui.core.events import Event, Level, Notice
from lmtui.core.folders import KnownProject
from lmtui.core.model_events import swaps_of
from lmtui.core.offers import Offers
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Mode, Verdict
from lmtui.core.ports import Policy
from lmtui.core.roles import ModelRole
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.subagents import ChildKind, SessionAgentRunner
from lmtui.engine.tasks import to_the_end
from lmtui.features.pipeline.plan_queue import Change, PipelineFile, find_plan, run_lock
from lmtui.features.pipeline.planner import decompose, files_to_read, survey_text
from lmtui.features.pipeline.report import report_files, report_object, tasks_json, usage_by_role
from lmtui.features.pipeline.runner import CommitTrace, PlanRunner, RunOptions, RunWatcher
from lmtui.features.pipeline.task_list import criteria_checks, open_questions, read_task_list
from lmtui.features.pipeline.tools import offered
from lmtui.features.pipeline.values import (
    MOST_TASK_ATTEMPTS,
    OVER,
    PLANS_FOLDER,
    PipelinePlan,
    PipelineState,
    PipelineTask,
    TaskAction,
    TaskSpec,
    WorkspacePipeline,
    added_task,
    after_action,
    edited_task,
    is_plan_file,
    next_due,
    next_tasks,
    plan_id,
    retried,
    with_spec,
)
from lmtui.features.service import FeatureHost, SessionServices, TaskAttempts, WorkspaceFeature, index_row
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.store.session_logs import SessionStore, load
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools

WATCH_S = 10.0
MAX_PLAN_BYTES = 1_000_000
_OWN_ADDRESS = "<lmtui@localhost>"  # in the sandbox's gitconfig, for users without a name
_NOT_IN_NAMES = re.compile(r"[^\w.-]+")
_MOST_NOTES = 200
_MOST_SURVEYED, _EXCERPT_BYTES, _MOST_SURVEY_CHARS = 2_000, 4_000, 6_000


class PipelineService(WorkspaceFeature):
    """Implements `WorkspacePipeline`."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        extensions.add(WorkspacePipeline, self)
        self.known: Sequence[PipelinePlan] = ()
        self._file = PipelineFile(host.workspace)
        self._listeners: list[Callable[[], None]] = []
        self._task: asyncio.Task[None] | None = None
        self._runner: PlanRunner | None = None
        self._run_agents: SessionAgentRunner | None = None
        self.on_note: Callable[[str], None] = self._notice
        self._told: set[str] = set()

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Add the pipeline.  Blocks (a small query)."""
        del sandbox
        with contextlib.suppress(JobsError):  # it is said where the queue is used
            self.known = self.known or self._file.read(only_looks=True)
            self._changed()
        session.features.add(WorkspacePipeline, self)

    def tools(self, own: ToolRegistry, kind: ChildKind | None = None) -> Sequence[BroughtTools]:
        """Return the tool that steers it, which sub-agents do not get."""
        del own
        return [offered(self, self.host.workspace)] if kind is None else ()

    @property
    def is_running(self) -> bool:
        return self._task is not None or self._runner is not None

    def own_work(self) -> str:
        return "a plan" if self.is_running else ""

    def follow_changes(self, listener: Callable[[], None]) -> Callable[[], None]:
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def run_agents_in(self, runner: SessionAgentRunner) -> None:
        self._run_agents = runner

    async def read(self) -> Sequence[PipelinePlan]:
        plans = await asyncio.to_thread(self._file.read)
        live = self._runner.plan.id if self._runner is not None else ""
        shown = {each.id: each for each in self.known}
        self.known = [shown.get(each.id, each) if each.id == live else each for each in plans]
        self._changed()
        return self.known

    async def check_plan(self, path: str) -> tuple[str, str]:
        if not self.host.is_attended:  # the program ends with its turn
            raise UsageError(f"plans cannot run in the background here: use `lmtui pipeline run {shlex.quote(path)}`")
        text, name = await self.plan_text(path), sanitize_line(path)
        if self.is_running:
            raise UsageError("this lmtui is already working on a plan", "Stop it first: /pipeline stop")
        with run_lock(self.host.workspace):
            pass
        if (listed := read_task_list(text)) == []:
            raise UsageError(f"no open tasks in {name}", "Write each one as `- [ ] Title`.")
        known = next((each.tasks for each in self.known if each.id == plan_id(text)), ())
        count = sum(each.state not in OVER for each in known) or len(listed or ())
        question = f"Start {pluralize(count, 'task')}?" if count else f"Plan and start {name}?"
        branch = await CommitTrace(await self.host.sandbox(), self.options()).branch()
        commits = f"commit to {branch}" if branch else "no commits"
        return question, f"{commits} · {MOST_TASK_ATTEMPTS} attempts each"

    async def begin(self, path: str) -> None:
        await self.check_plan(path)
        self._task = asyncio.create_task(self._in_background(path, self.options()))
        self._changed()
        await asyncio.sleep(0)

    def options(self) -> RunOptions:
        """Return how plans are worked on, as the settings have it."""
        config = self.host.config
        return RunOptions(has_commits=config.plan_commits != "off", has_trailers=config.plan_commits == "trailers")

    async def _in_background(self, path: str, options: RunOptions) -> None:
        try:
            plan = await self.work(path, options)
            level = Level.INFO if plan.is_done else Level.WARNING
            text = f"The plan {sanitize_line(plan.name)} is done." if plan.is_done else f"{plan.name}: {plan.summary()}."
            self._notice(f"{text} /pipeline shows it.", level)
        except LmtuiError as error:
            self._notice(f"The pipeline stopped: {error.full_text()}", Level.ERROR)
        finally:
            self._task = None
            self._changed()

    async def work(self, path: str, options: RunOptions, *, is_alone: bool = False) -> PipelinePlan:
        """Plan a file, if that was not done, work on it to its end, write the report, and return the plan.

        Raises:
            UsageError: it cannot be planned, or another process works on a plan in this folder; with `is_alone` none can.
        """
        with contextlib.nullcontext() if is_alone else run_lock(self.host.workspace):
            started, notes = time.monotonic(), list[str]()
            plan = await self.planned(path, options)
            _require_phase(plan, options.phase)
            self._show(plan)

            def note(text: str) -> None:
                notes.append(text)
                self.on_note(text)

            watcher = RunWatcher(self._show, note, self._prepare)
            runner = self._runner = PlanRunner(self.host, self._file, plan, options, watcher)
            try:
                await runner.run()
            finally:
                self._runner = None
            reasons = await self._judge(runner)
            if runner.plan == plan:  # nothing was left to do, and it came to the same
                return plan
            sessions = [runner.plan.session, runner.role_session.id if runner.role_session is not None else ""]
            sessions += [attempt.session for task in runner.plan.tasks for attempt in task.attempts]
            swaps, usage = await asyncio.to_thread(_measured, SessionStore(self.host.workspace), sessions)
            elapsed_s = time.monotonic() - started
            report = report_object(runner.plan, reasons, notes[:_MOST_NOTES], elapsed_s=elapsed_s, swaps=swaps, usage=usage)
            await self.write(runner.plan, report_files(runner.plan, report), "Add the report", options)
            return runner.plan

    async def watch(self, options: RunOptions, *, is_once: bool) -> list[PipelinePlan]:
        """Work on the plans in the folder `plans`, one after the other, as they come; return those that were worked on.

        One that cannot be planned is said once, and looked at again when its file changes.  With `is_once` it ends when there
        is none; else when it is cancelled, and what may pass, such as a model server that is away, is waited for.

        Raises:
            UsageError: another process works on plans in this folder.
            LmtuiError: with `is_once`: a plan cannot be worked on now.
        """
        with run_lock(self.host.workspace):
            worked: dict[str, PipelinePlan] = {}
            refused: set[tuple[str, str]] = set()
            told: dict[str, str] = {}
            while True:
                plans, has_to_wait = await asyncio.to_thread(self._file.read), False
                waiting = [each for each in await self.waiting(plans, options.phase) if each not in refused]
                for path, digest in waiting:
                    try:
                        worked[path] = await self.work(path, options, is_alone=True)
                    except LmtuiError as error:
                        if isinstance(error, UsageError):
                            refused.add((path, digest))
                        elif is_once:
                            raise
                        else:
                            has_to_wait = True
                        if told.get(path) != (text := f"{path}: {error.full_text()}"):
                            self.on_note(text)
                        told[path] = text
                if is_once and (options.is_once or not waiting):
                    return [*worked.values()]
                if has_to_wait or not waiting:
                    await asyncio.sleep(WATCH_S)

    def _prepare(self, attempts: TaskAttempts) -> None:
        if self._run_agents is not None:
            attempts.run_agents_in(self._run_agents)

    async def stop(self) -> None:
        task = self._task
        if task is not None and task is not asyncio.current_task():
            task.cancel()
            await asyncio.wait({task})

    async def close(self) -> None:
        """Stop the work and let go of the queue."""
        await self.stop()
        await asyncio.to_thread(self._file.close)

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Look at the queue, and who the author of a plan's commits is."""
        del is_offline
        return (await index_row("plans", self._file), await _git_row(self.host))

    async def pause(self, plan: str, *, is_paused: bool) -> None:
        found = await self.find(plan)
        begins = not (is_paused or self.is_running or found.is_at_work or found.is_done)
        if begins and plan_id(await self.plan_text(found.path)) != found.id:
            path = sanitize_line(found.path)
            raise UsageError(f"{path} has changed since it was planned", f"/pipeline {path} plans it again.")
        await self._change(found.id, lambda now: [replace(now, is_paused=is_paused)])
        if begins:
            await self.begin(found.path)

    async def do(self, plan: str, task_id: int, action: TaskAction) -> None:
        await self._change(plan, lambda now: [*after_action(now, task_id, action), replace(now, problem="")])

    async def retry_failed(self, plan: str) -> PipelinePlan:
        """Make all failed tasks of a plan ready again, without their attempts."""
        return await self._change(plan, lambda now: [*retried(now), replace(now, problem="")])

    async def add_task(self, plan: str, spec: TaskSpec) -> PipelinePlan:
        return await self._change(plan, lambda now: [added_task(now, spec), replace(now, is_done=False, problem="")])

    async def edit(self, plan: str, task_id: int, spec: TaskSpec) -> None:
        await self._change(plan, lambda now: [edited_task(now, task_id, spec)])

    async def answer(self, plan: str, number: int, text: str) -> None:

        def change(now: PipelinePlan) -> Iterable[PipelinePlan]:
            if not 0 < number <= len(now.questions):
                raise UsageError(f"the plan {now.name} has no question {number}", "`lmtui pipeline status` lists them.")
            asked = [replace(each, answer=text.strip()) if at == number else each for at, each in enumerate(now.questions, 1)]
            return [replace(now, questions=tuple(asked))]

        await self._change(plan, change)

    async def gate(self, plan: str) -> tuple[PipelinePlan, list[str]]:
        """Return why a plan is not done, empty where it is; its checks run."""
        runner = PlanRunner(self.host, self._file, await self.find(plan), self.options(), RunWatcher(on_note=self.on_note))
        reasons = await self._judge(runner)
        return runner.plan, reasons

    async def _judge(self, runner: PlanRunner) -> list[str]:
        """Keep and return why a plan is not done, empty where it is."""
        plan_text, spec_text = await self._texts(runner.plan.path)
        await runner.change(lambda now: [with_spec(now, open_questions(spec_text))])
        reasons = await runner.done_gate([*criteria_checks(plan_text), *criteria_checks(spec_text)])
        await runner.change(lambda now: [replace(now, is_done=not reasons, problem=reasons[0] if reasons else "")])
        return reasons

    async def _change(self, wanted: str, change: Change) -> PipelinePlan:
        plan_id = (await self.find(wanted)).id
        if self._runner is not None and self._runner.plan.id == plan_id:
            await self._runner.change(change)
            self._runner.wake.set()
            return self._runner.plan
        changed = await asyncio.to_thread(self._file.change, plan_id, change)
        self._show(changed)
        return changed

    async def planned(self, path: str, options: RunOptions) -> PipelinePlan:
        """Return the plan of a file; the same text is planned once."""
        text = await self.plan_text(path)
        plans = await asyncio.to_thread(self._file.read)
        if (found := next((each for each in plans if each.id == plan_id(text)), None)) is not None:
            return found
        is_listed = read_task_list(text) is not None
        if not is_listed and (silent := await self.host.servers.silent()):
            raise LmtuiError(f"no model server answers at {silent}", "Start it, and run the plan again.")
        session = await self.host.new_session(Policy(is_attended=False))
        session.rename(f"{PurePosixPath(path).stem}: planning")
        requests = session.role_requests
        try:
            specs = await decompose(
                text,
                lambda system, prompt, schema: requests.ask(ModelRole.PLANNER, "plan", (system, prompt), schema=schema),
                await requests.window_tokens(),
                self.host.count_tokens,
                survey="" if is_listed else await self._survey(text),
                known=await asyncio.to_thread(self._file.parts),
                keep=lambda digest, answer: asyncio.to_thread(self._file.keep_part, digest, answer),
            )
        finally:
            await to_the_end(session.close())
        name = _NOT_IN_NAMES.sub("-", PurePosixPath(path).stem)[:60].strip("-.") or "plan"
        tasks = tuple(PipelineTask(number, spec) for number, spec in specs.items())
        plan = PipelinePlan(plan_id(text), name, path, datetime.now(UTC), tasks, open_questions(text), session.id)
        plan = with_spec(plan, open_questions((await self._texts(path))[1]))
        await self.write(plan, {"tasks.json": tasks_json(plan)}, "Add the task list", options)
        await asyncio.to_thread(self._file.add, plan)
        return plan

    async def find(self, wanted: str) -> PipelinePlan:
        """Return a plan of the queue; see `find_plan`."""
        return find_plan(await asyncio.to_thread(self._file.read), wanted)

    async def plan_text(self, path: str) -> str:
        """Return the text of a plan's file.

        Raises:
            UsageError: it is not there, empty, too long, or no text.
        """
        name = f"the plan {sanitize_line(path)}"
        try:
            content = await (await self.host.sandbox()).read_file(path, MAX_PLAN_BYTES + 1)
        except SandboxError as error:
            raise UsageError(f"{name} cannot be read: {error.full_text()}") from error
        if content.size_bytes > MAX_PLAN_BYTES:
            raise UsageError(f"{name} has more than {MAX_PLAN_BYTES:,} bytes", "Divide it into several plans.")
        try:
            text = content.data.decode("utf-8-sig")
        except UnicodeDecodeError as error:
            raise UsageError(f"{name} is not UTF-8 text") from error
        if not text.strip():
            raise UsageError(f"{name} is empty", "Write into it what to do.")
        return text

    async def waiting(self, plans: Sequence[PipelinePlan], phase: str = "") -> list[tuple[str, str]]:
        """Return paths and ids of plans in the folder `plans` that can be begun or gone on with; `README.md` is none.

        A plan that a task wrote is begun only by its name: nobody has asked for it.
        """
        try:
            entries = await (await self.host.sandbox()).list_directory(PLANS_FOLDER)
        except SandboxError:
            return []
        now = datetime.now(UTC)
        over = {each.id for each in plans if not next_tasks(each, 1, now, phase) and next_due(each, phase) is None}
        named = {each.id for each in plans}
        written = {path for each in plans for task in each.tasks if task.merge is not None for path in task.merge.paths}
        found: list[tuple[str, str]] = []
        for path in sorted(each.path for each in entries if each.kind == "file" and is_plan_file(each.path)):
            text = ""
            with contextlib.suppress(UsageError):  # it is said when the plan is begun
                text = await self.plan_text(path)
            digest = plan_id(text)
            if digest in over:
                continue
            if path in written and digest not in named:
                if digest not in self._told:
                    self.on_note(f"{path}: a task wrote this plan. To work on it: lmtui pipeline run {shlex.quote(path)}")
                self._told.add(digest)
                continue
            found.append((path, digest))
        return found

    async def window_tokens(self) -> int:
        """Return the window that a server tells for the model in use, 0 where none does."""
        config = self.host.config
        found = [model for server in await self.host.servers.find() for model in server.models]
        named = [model for model in found if model.name == config.model]
        return next((model.window_tokens for model in named or found if model.window_tokens), config.context_tokens)

    async def _survey(self, text: str) -> str:
        """Return a survey of the folder for the planner."""
        sandbox = await self.host.sandbox()
        try:
            entries = await sandbox.list_directory("", depth=5, max_entries=_MOST_SURVEYED)
        except SandboxError:
            return ""
        files, excerpts = [each.path for each in entries if each.kind == "file"], dict[str, str]()
        for path in files_to_read(files, text):
            with contextlib.suppress(SandboxError):
                excerpts[path] = (await sandbox.read_file(path, _EXCERPT_BYTES)).data.decode("utf-8", "replace")
        return survey_text(files, excerpts, _MOST_SURVEY_CHARS)

    async def _texts(self, path: str) -> list[str]:
        """Return the texts of a plan and of the SPEC.md next to it, empty where there is none."""
        texts = ["", ""]
        for number, each in enumerate((path, str(PurePosixPath(path).with_name("SPEC.md")))):
            with contextlib.suppress(UsageError):
                texts[number] = await self.plan_text(each)
        return texts

    async def write(self, plan: PipelinePlan, files: dict[str, str], what: str, options: RunOptions) -> None:
        """Write files of a plan into its folder, and commit them."""
        sandbox = await self.host.sandbox()
        paths = {f"{plan.folder}/{name}": text for name, text in files.items()}
        try:
            decision = decide_all("write", Access.WRITE, tuple(paths), Mode.AUTO, self.host.rules())
            if decision.verdict is Verdict.DENY:
                raise SandboxError(f"{decision.why}; nothing was written in its folder")
            for path, text in paths.items():
                await sandbox.write_file(path, _portable(text, self.host.workspace).encode("utf-8", "replace"))
            await CommitTrace(sandbox, options).commit(plan, what, [*paths])
        except SandboxError as error:
            self.on_note(f"{plan.name}: {error.full_text()}")

    def _show(self, plan: PipelinePlan) -> None:
        self.known = [plan if each.id == plan.id else each for each in self.known] or [plan]
        if all(each.id != plan.id for each in self.known):
            self.known = [plan, *self.known]
        self._changed()

    def _changed(self) -> None:
        for listener in tuple(self._listeners):
            listener()

    def _notice(self, text: str, level: Level = Level.WARNING) -> None:
        for session in self.host.sessions:
            if not session.is_closed:
                session.emit(Notice(level=level, text=text))


def look_at(project: KnownProject) -> KnownProject:
    """Return a project with the state of its plans; nothing in its folder is changed.  Blocks; raises `JobsError`."""
    plans = PipelineFile(Path(project.path)).read(only_looks=True)
    states = [task.state for plan in plans for task in plan.tasks]
    failed, done = states.count(PipelineState.FAILED), states.count(PipelineState.DONE)
    questions = sum(len(plan.open_questions) for plan in plans if not plan.is_done)
    needs = ((failed, "failed task"), (questions, "open question"))
    words = tuple(pluralize(count, what) for count, what in needs if count)
    return replace(project, plans=len(plans), done=done, tasks=len(states), failed=failed, needs=words)


def _portable(text: str, workspace: Path) -> str:
    """Return a text without this machine's paths: the workspace is `.`, the home folder `~`."""
    for place, short in ((workspace, "."), (Path.home(), "~")):
        text = re.sub(rf"{re.escape(str(place))}(?![\w.-])", short, text) if place != Path("/") else text
    return text


def _require_phase(plan: PipelinePlan, phase: str) -> None:
    """Raise `UsageError` where a phase is named that the plan does not have."""
    known = dict.fromkeys(each.spec.phase for each in plan.tasks)
    if phase and phase not in known:
        named = ", ".join(sanitize_line(each) for each in known if each)
        raise UsageError(f"the plan {plan.name} has no phase {sanitize_line(phase)[:60]!r}", f"Its phases: {named or 'none'}.")


def _measured(store: SessionStore, sessions: Iterable[str]) -> tuple[dict[str, int], dict[str, dict[str, float]]]:
    """Count how often models were changed and loaded in sessions, and what each role used.  Blocks (disk)."""
    total, found = Counter[str](), list[Event]()
    for session in dict.fromkeys(filter(None, sessions)):
        with contextlib.suppress(LmtuiError):
            history = load(store.path(session)).events
            total.update(asdict(swaps_of(history)))
            found += [each.event for each in history]
    return dict(total), usage_by_role(found)


async def _git_row(host: FeatureHost) -> CheckRow:
    try:
        check_workspace(host.workspace)
        result = await (await host.sandbox()).run_git(["var", "GIT_COMMITTER_IDENT"])
    except LmtuiError as error:
        return CheckRow("git", NONE, f"not tried: {sanitize_line(str(error))}")
    output = sanitize_line(result.output)
    if result.exit_code != 0:
        return CheckRow("git", WARNING, output[:200] or "git failed", "Tasks of plans are not committed until git works.")
    hint = "To commit as yourself, set your name: git config --global user.name NAME, and the same with user.email"
    is_own = _OWN_ADDRESS not in output
    return CheckRow("git", OK if is_own else NONE, f"plans commit as {output.rpartition('>')[0]}>", "" if is_own else hint)
