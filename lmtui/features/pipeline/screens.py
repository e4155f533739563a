"""The list of the pipeline: the tasks of a plan by state, what is known of one, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from textual.content import Content
from textual.style import Style

from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.verification import CheckOutcome
from lmtui.features.pipeline.task_list import read_spec, spec_text
from lmtui.features.pipeline.values import (
    MOST_TASK_ATTEMPTS,
    OVER,
    WORKING,
    PipelinePlan,
    PipelineTask,
    TaskAction,
    TaskAttempt,
    WorkspacePipeline,
    is_planning,
)
from lmtui.features.pipeline.values import PipelineState as State
from lmtui.tui.commands import Command, command
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.patch import MINUS, parse_patch
from lmtui.tui.lines.styled_text import Line, Span, crop, fit, indent, row
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog, content_of
from lmtui.tui.modals.picker import AskText, Confirm, Picker, Reading
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.widgets.bars import Part, Spinner
from lmtui.tui.wording import tokens_text
from lmtui.tui.workbench_api import FeatureController, Handler, tried

TICK_S = 0.25
LOOK_S = 5.0  # another process may be at work
MOST_PATCH_BYTES = 4_000_000
STOP = ("Stop the pipeline?", "What is under way is ready again and starts over. What is done stays.")
NO_PLANS = "No plans yet. /pipeline PLAN.md works through a plan file."
_GROUPS: Mapping[str, tuple[State, ...]] = {
    "Needs you": (State.FAILED,),
    "Working": (State.CODING,),
    "Checking": (State.CHECKING, State.REVIEWING, State.MERGING),
    "Ready": (State.READY,),
    "Done": (State.DONE, State.SKIPPED),
}
_SIGNS: Mapping[str, Span] = {
    CheckOutcome.PASSED: ("✓", "good"),
    CheckOutcome.FLAKY: ("✓", "warn"),
    CheckOutcome.KNOWN: ("!", "warn"),
    CheckOutcome.FAILED: ("✗", "bad"),
    CheckOutcome.NOT_RUN: ("–", "muted"),
}
_TASK_SIGNS: Mapping[State, Span] = {
    State.READY: ("○", "muted"), State.FAILED: ("▲", "warn"), State.DONE: ("✓", "good"), State.SKIPPED: ("–", "muted"),
}  # fmt: skip


class BlockingQuestion(NamedTuple):
    """A question that the user has to answer, counted from 1."""

    id: int
    text: str


Item = PipelineTask | BlockingQuestion


def rows_of(plan: PipelinePlan | None) -> list[Item | str]:
    """Return the tasks below the states that they are in, in the order of the plan; what is done last comes first."""
    found: list[Item | str] = []
    for name, states in _GROUPS.items() if plan is not None else ():
        items: list[Item] = [task for task in plan.tasks if task.state in states] if plan is not None else []
        if name == "Needs you" and plan is not None:
            items[:0] = [BlockingQuestion(*each) for each in plan.open_questions.items()]
        if name == "Done":
            items.reverse()
        found += [f"{name}  {len(items)}", *items] if items else []
    return found


def _notes(plan: PipelinePlan, task: PipelineTask, now: datetime) -> str:
    """Return where a task is, in a few words."""
    time = _elapsed_text(task, task.last, now)
    match task.state:
        case State.READY:
            notes = [_waits(plan, task), "paused" * task.is_paused, sanitize_line(task.why)]
        case State.DONE:
            notes = [time or "done"]
        case State.SKIPPED:
            notes = ["skipped"]
        case State.FAILED:
            notes = [sanitize_line(task.why) or "failed"]
        case _:
            number = max(1, len(task.attempts))
            attempt = f"attempt {number}" + (f" of {MOST_TASK_ATTEMPTS}" if number <= MOST_TASK_ATTEMPTS else "")
            notes = [attempt, time] if task.state in (State.CODING, State.CHECKING) else [task.state.value, time, attempt]
            notes += ["pauses after it"] if task.is_paused else []
    return " · ".join(filter(None, notes))


def _waits(plan: PipelinePlan, task: PipelineTask) -> str:
    waits = plan.waits_for(task) if task.state is State.READY else ()
    return f"after {', '.join(f'#{number}' for number in waits)}" if waits else ""


def _elapsed_text(task: PipelineTask, attempt: TaskAttempt, now: datetime) -> str:
    """Return how long an attempt took, or takes until now: `4:12`; empty where it is not known."""
    is_under_way = attempt is task.last and task.state in WORKING
    elapsed = now - attempt.started if is_under_way and attempt.started else timedelta(seconds=attempt.elapsed_s)
    minutes, seconds = divmod(max(0, int(elapsed.total_seconds())), 60)
    return f"{minutes}:{seconds:02}" if elapsed else ""


def _lines_line(attempt: TaskAttempt) -> Line:
    """Return how many lines an attempt added and removed; nothing where it changed none."""
    added, removed = attempt.lines
    return ((f"+{added} ", "good"), (f"{MINUS}{removed}", "bad")) if added or removed else ()


def detail_lines(plan: PipelinePlan, item: Item, width: int, now: datetime) -> list[Line]:
    """Return what is known of a task or a question; what attempts came to is before the text of the task."""
    width = max(20, width - 2)
    if not isinstance(item, PipelineTask):
        head: Line = ((f"Question {item.id}", "warn strong"), ("  has to be answered before the plan is done", "muted"))
        return indent([head, *whole_text(item.text, width)], ((" ", ""),))
    found = [_head(plan, item, width)]
    found += [line for each in reversed(item.attempts) for line in _attempt(item, each, width, now)]
    found += [(), *whole_text(item.spec.text, width)] if item.spec.text.strip() else []
    found += [line for each in _facts(item) for line in whole_text(each, width, "muted")]
    return indent(found, ((" ", ""),))


def _head(plan: PipelinePlan, task: PipelineTask, width: int) -> Line:
    why = " · ".join(filter(None, (task.state.value, sanitize_line(task.why))))
    title = fit(sanitize_line(task.spec.title), max(16, width * 3 // 5))
    notes = ["paused" * task.is_paused, _waits(plan, task), sanitize_line(task.last.model)]
    notes += [f"{tokens_text(task.last.tokens)} tokens"] if task.last.tokens else []
    left: Line = ((f"#{task.id} ", "muted"), (title, "strong"), ("  ", ""))
    left += ((why, "warn" if task.state is State.FAILED else "muted"), *((f" · {each}", "muted") for each in notes if each))
    return row(left, _lines_line(task.last), width)


def _facts(task: PipelineTask) -> list[str]:
    spec = task.spec
    named = [("Phase", [spec.phase]), ("Files", spec.files), ("After", [f"#{each}" for each in spec.after])]
    named += [("Checks", spec.checks), ("Budget", [spec.budget])]
    return [f"{name}: {', '.join(values)}" for name, values in named if any(values)]


def _checks_line(attempt: TaskAttempt) -> Line:
    found: list[Span] = []
    for rung, outcome in attempt.checks.items():
        found += [(f"{sanitize_line(rung)} ", "muted"), _SIGNS.get(outcome, ("○", "muted")), (" ", "")]
    return tuple(found)


def _attempt(task: PipelineTask, attempt: TaskAttempt, width: int, now: datetime) -> list[Line]:
    is_under_way = attempt is task.last and task.state in WORKING
    sign: Span = (Spinner.sign(now), "accent") if is_under_way else ("✗", "bad") if attempt.stage else ("✓", "good")
    notes = f"failed at {sanitize_line(attempt.stage)}" if attempt.stage else task.state.value if is_under_way else ""
    line: list[Span] = [(f"Attempt {attempt.number:<3} ", "muted"), sign, ("  ", ""), *_checks_line(attempt)]
    line.append(("  " + " · ".join(filter(None, (_elapsed_text(task, attempt, now), notes))), "muted"))
    found = [crop(tuple(line), width)]
    for finding in attempt.findings:
        found += indent(whole_text(finding, width - 14), ((" " * 12, ""), ("! ", "bad")), ((" " * 14, ""),))
    return found


class PipelineList(ListDialog[Item, None]):
    """Shows the newest plan, or a chosen one.  `open_session` opens a session."""

    NAME, HEADING, TAB, CHOOSING = "pipeline", "Pipeline", "pipeline.show", "read"
    COLUMNS = (
        Column(most=1), Column("task", 4, is_right=True), Column("", 60), Column("state"), Column("checks", 40, from_width=100),
        Column("lines", 12, is_right=True, from_width=72),
    )  # fmt: skip
    VERBS = (
        ("yes", "answer…"), ("output", "open session"), ("diff", "diff"), ("run", "retry"), ("no", "skip"),
        ("switch", "pause"), ("edit", "edit"), ("stop", "stop"), ("add", "new plan…"), ("load", "plans…"),
    )  # fmt: skip
    REFRESH_S = LOOK_S
    DEFAULT_CSS = "PipelineList #pipeline-box .list-about { max-height: 45%; }"

    def __init__(
        self, plans: WorkspacePipeline, now: Callable[[], datetime], *, open_session: Callable[[str], object], folder: Path
    ) -> None:
        super().__init__()
        self._plans, self._now, self._open_session, self._folder = plans, now, open_session, folder
        self._drafts: dict[tuple[str, int], tuple[str, str]] = {}  # wrong texts of tasks, each with what is wrong
        self._chosen = ""
        self.ends = [plans.follow_changes(self._draw)]

    def on_mount(self) -> None:
        self._ticker = self.set_interval(TICK_S, self.table.redraw, pause=True)

    # -- showing --------------------------------------------------------------------------------------------------------

    @property
    def _plan(self) -> PipelinePlan | None:
        known = self._plans.known
        return next((each for each in known if each.id == self._chosen), next(iter(known), None))

    async def rows(self) -> Sequence[Item | str]:
        """Read the plans, unless they are worked on here."""
        if not self._plans.is_running:
            await self._plans.read()
        plan = self._plan
        is_working = self._plans.is_running or (plan is not None and plan.is_at_work)
        (self._ticker.resume if is_working else self._ticker.pause)()
        head = plan.name if plan is not None else "planning…" if is_planning(self._plans) else ""
        problem = f"\n▲ {sanitize_line(plan.problem)}" if plan is not None and plan.problem else ""
        self.box.show_head(Content.assemble((sanitize_line(head), "$text-muted"), (problem, "$warning")))
        self.box.count(plan.summary() if plan is not None else "")
        return rows_of(plan)

    def _draw(self) -> None:
        if self.is_attached:
            self.reload()

    def key(self, row: Item) -> object:
        """Return what a row is known by."""
        return type(row).__name__, row.id

    def cells(self, row: Item) -> Sequence[Cell]:
        """Return a task or a question in columns."""
        plan = self._plan
        if not isinstance(row, PipelineTask) or plan is None:
            return ("▲", "warn"), "", "Question", sanitize_line(getattr(row, "text", "")), "", ""
        sign = _TASK_SIGNS.get(row.state, (Spinner.sign(self._now()), "accent"))
        notes: Span = (_notes(plan, row, self._now()), "warn" if row.state is State.FAILED else "muted")
        return (
            sign,
            (f"#{row.id}", "muted"),
            sanitize_line(row.spec.title),
            notes,
            _checks_line(row.last),
            _lines_line(row.last),
        )

    def about(self, row: Item | None) -> tuple[str | Content, Sequence[Command]]:
        """Return what is known of a task, and what can be done with it."""
        plan = self._plan
        if plan is None or row is None:
            return NO_PLANS, [each for each in self.verbs() if each.id == "list.add"]
        usable = _usable(plan, row) | ({"load"} if len(self._plans.known) > 1 else set())
        words = {"list.stop": "resume plan"} if is_halted(self._plans, plan) else {}
        words |= {"list.switch": "resume"} if isinstance(row, PipelineTask) and row.is_paused else {}
        verbs = [replace(each, hint=words.get(each.id, each.hint)) for each in self.verbs(*(self.verb_names - usable))]
        return content_of(detail_lines(plan, row, self.table.content_width - 3, self._now())), verbs

    def act(self) -> None:
        """Show all that is known of the current task, or answer the question."""
        plan, item = self._plan, self.current
        if plan is not None and isinstance(item, PipelineTask):
            _ = self.app.push_screen(Reading(f"Task {item.id}", lambda width: detail_lines(plan, item, width, self._now())))
        elif item is not None:
            self.action_list_do("yes")

    # -- what can be done -----------------------------------------------------------------------------------------------

    def do_output(self, task: PipelineTask) -> None:
        """Open the last session of a task."""
        if session := next((each.session for each in reversed(task.attempts) if each.session), ""):
            _ = self.dismiss(None)
            self._open_session(session)
        else:
            self.say("No session yet.", "$warning")

    async def do_diff(self, task: PipelineTask) -> None:
        """Show what the last attempt changed."""
        page = await asyncio.to_thread(_diff_page, task, self._folder)
        _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Task"))

    async def _change(self, task: PipelineTask, action: TaskAction) -> None:
        if (plan := self._plan) is not None:
            await self._plans.do(plan.id, task.id, action)

    async def do_run(self, task: PipelineTask) -> None:
        """Make a failed task ready again."""
        await self._change(task, TaskAction.RETRY)

    async def do_no(self, task: PipelineTask) -> None:
        """Skip a task; those after it go on."""
        await self._change(task, TaskAction.SKIP)

    async def do_switch(self, task: PipelineTask) -> None:
        """Pause a task, or go on with it."""
        await self._change(task, TaskAction.RESUME if task.is_paused else TaskAction.PAUSE)

    async def do_stop(self, _: Item) -> None:
        """Go on with a plan that is paused or stopped; else ask, then stop the work."""
        if (plan := self._plan) is not None and is_halted(self._plans, plan):
            await self._plans.pause(plan.id, is_paused=False)
        elif await self.app.push_screen_wait(Confirm(*STOP)):
            await self._plans.stop()

    async def do_add(self, _: Item | None) -> None:
        """Ask for a plan file, work through it, and show it."""
        asked = AskText("Which plan file?", placeholder="a path in this folder, such as PLAN.md")
        if path := await self.app.push_screen_wait(asked):
            question = await self._plans.check_plan(path)
            if await self.app.push_screen_wait(Confirm(*question, "start")):
                self._chosen = ""
                await self._plans.begin(path)

    async def do_load(self, _: Item) -> None:
        """Ask which plan is to be shown."""
        known = self._plans.known
        choices = [Choice(each.id, sanitize_line(each.name), each.summary(), sanitize_line(each.path)) for each in known]
        chosen = await self.app.push_screen_wait(Picker("Which plan?", choices, chosen=self._chosen, noun="plan"))
        self._chosen = chosen or self._chosen

    async def do_yes(self, item: Item) -> None:
        """Ask for the answer to the current question, else to the first one that is open."""
        plan = self._plan
        number = (
            item.id if isinstance(item, BlockingQuestion) else next(iter(plan.open_questions), 0) if plan is not None else 0
        )
        if plan is not None and number:
            asked = AskText(fit(sanitize_line(plan.questions[number - 1].text), 400), placeholder="your answer")
            if text := await self.app.push_screen_wait(asked):
                await self._plans.answer(plan.id, number, text)

    async def do_edit(self, task: PipelineTask) -> None:
        """Change a task in the user's editor; a wrong text is kept for the next time, with what is wrong in its first line."""
        plan_id = self._plan.id if self._plan is not None else ""
        key = plan_id, task.id
        text, note = self._drafts.get(key, (spec_text(task.spec), "Save and close to change the task."))
        before = f"# {note}\n{text}"
        written = await edit_text(self.app, before, "task.toml", say=lambda why: self.say(why, "$warning"))
        if written is None or written == before:
            return
        try:
            await self._plans.edit(plan_id, task.id, read_spec(written, task.spec))
        except UsageError as error:
            body = written.partition("\n")[2] if written.startswith("#") else written
            self._drafts[key] = body, sanitize_line(str(error))
            raise UsageError(f"not changed: {error}", "Edit it again; what you typed is kept.") from error
        _ = self._drafts.pop(key, None)


def is_halted(plans: WorkspacePipeline, plan: PipelinePlan) -> bool:
    """Tell whether a plan can be resumed: it is paused, or nobody works on it."""
    return plan.is_paused or not (plans.is_running or plan.is_at_work)


def _usable(plan: PipelinePlan, item: Item) -> set[str]:
    """Return the verbs that count for a task or a question."""
    usable = {"stop", "add"} | ({"yes"} if plan.open_questions else set())
    if not isinstance(item, PipelineTask):
        return usable
    is_working = item.state in WORKING
    usable |= {"output"} if item.attempts and not is_working else set()
    usable |= {"diff"} if any(each.patch for each in item.attempts) else set()
    usable |= {"run"} if item.state is State.FAILED else set()
    usable |= {"no"} if item.state in (State.READY, State.FAILED) else set()
    usable |= {"switch"} if item.state not in OVER else set()
    return usable | ({"edit"} if not is_working and item.state not in OVER else set())


def _diff_page(task: PipelineTask, folder: Path) -> CallPage:
    """Return the page with what the last attempt that has a patch changed, as much as can be shown.  Blocks (disk)."""
    title = [Part(f"#{task.id}", "$text-muted"), Part(fit(sanitize_line(task.spec.title), 60), "bold")]
    attempt = next((each for each in reversed(task.attempts) if each.patch), None)
    if attempt is None:
        text = "No diff was kept for this task." if task.state in OVER else "No attempt at this task has a diff yet."
        return CallPage(title, [], lambda width: whole_text(text, width, "muted"))
    path = folder / attempt.patch
    try:
        with path.open("rb") as file:
            text = file.read(MOST_PATCH_BYTES).decode("utf-8", "replace")
    except OSError as error:
        raise UsageError(f"the diff cannot be read: {sanitize_path(str(path))}: {error.strerror}") from error
    note = [Part(f"attempt {attempt.number}", "$text-muted", 1)]
    none = "The attempt changed no files."
    return CallPage(title, note, lambda width: whole_text(none, width, "muted"), patches=parse_patch(text))


class PipelineController(FeatureController):
    """Opens the page of the pipeline, and keeps the header up to date."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"pipeline.show": lambda _: self._show()}

    @property
    def _plans(self) -> WorkspacePipeline:
        return self.host.extensions[WorkspacePipeline]

    def _draw(self) -> None:
        self.header = self._part()
        self.workbench.draw()

    def _part(self) -> Part | None:
        """Return how far the newest plan is, while it is worked on or needs the user; always as wide for the same plan."""
        plan, planning = next(iter(self._plans.known), None), is_planning(self._plans)
        opens = Style.from_meta({"verb": command("pipeline.show").action})
        if planning:
            return Part(Content.styled("  pipeline planning", "$accent").stylize(opens), "", 3)
        if plan is None or plan.is_done:
            return None
        states = [each.state for each in plan.tasks]
        needs_user = State.FAILED in states or bool(plan.open_questions)
        if not (needs_user or self._plans.is_running or plan.is_at_work):
            return None
        total = f"{len(states)}"
        done = f"{sum(each in OVER for each in states):>{len(total)}}"
        style = "bold $warning" if needs_user else "$accent"
        text = Content.styled(f"{'▲' if needs_user else ' '} pipeline {done}/{total}", style)
        return Part(text.stylize(opens), "", 2 if needs_user else 3)

    def start(self) -> None:
        """Run the agents of tasks in workers of the app, and follow the plans."""
        self.workbench.sessions.counts.append(self._working)
        self._plans.run_agents_in(self.workbench.sessions.run_agent)
        _ = self._plans.follow_changes(self._draw)
        _ = self.workbench.app.run_worker(tried(self.workbench, self._plans.read()), group="pipeline")

    def _working(self) -> int:
        plans = self._plans.known if self._plans.is_running else ()
        return sum(each.state in WORKING for plan in plans for each in plan.tasks)

    def _show(self) -> None:
        if not isinstance(self.workbench.app.screen, PipelineList):
            folder = Path(self.host.workspace)
            screen = PipelineList(self._plans, self.workbench.now, open_session=self.open_session, folder=folder)
            _ = self.workbench.app.push_screen(screen)
