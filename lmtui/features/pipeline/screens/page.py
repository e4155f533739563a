"""The page of the pipeline: the tasks of a plan on a board or in a list, what is known of one, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, ClassVar

from textual import on
from textual.app import App
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.features.pipeline.commands import SCOPE, START
from lmtui.features.pipeline.screens.board import (
    CHECKING,
    CODING,
    COLUMNS,
    DONE,
    GAP_CELLS,
    NEEDS_YOU,
    READY,
    BlockingQuestion,
    Board,
    Item,
    cards_of,
    detail_lines,
)
from lmtui.features.pipeline.task_list import read_spec, spec_text
from lmtui.features.pipeline.values import (
    OVER,
    WORKING,
    PipelinePlan,
    PipelineTask,
    TaskAction,
    WorkspacePipeline,
    is_planning,
)
from lmtui.features.pipeline.values import PipelineState as State
from lmtui.tui.commands import Scope, bindings, command, first_key
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.patch import parse_patch
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.lines.table import BAR_CELLS, Table
from lmtui.tui.modals.picker import AskText, Confirm, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.beside import BesideChat
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.summary import SHORT_CELLS
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Part, Verbs
from lmtui.tui.widgets.start_page import TALL_ROWS
from lmtui.tui.workbench_api import FeatureController, Handler

EMPTY = "No plans yet. /pipeline PLAN.md works through a plan file."
PLANNING = "Planning. The tasks of the plan appear here."
NO_CHANGES = "The attempt changed no files."
TICK_S = 0.25
LOOK_S = 5.0  # another process may be at work
MOST_PATCH_BYTES = 4_000_000
STOP = ("Stop the pipeline?", "What is under way is ready again and starts over. What is done stays.")
_TEXT_ROWS = 3
_LIST_ORDER = (NEEDS_YOU, CODING, CHECKING, READY, DONE)
_VERBS = ("open", "diff", "details", "retry", "skip", "pause", "edit", "answer")
_KEYS = ("next_column", "earlier", "later", "pause_all", "plans", "new", "stop")
Say = Callable[[str], None]


class PlanPanes(Vertical):
    """The tasks of a plan on the board, below the names of its columns."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.board = Board(now, id="pipeline-board")
        self.head = Static("", id="pipeline-head", markup=False)
        super().__init__(self.head, self.board, id="pipeline-panes")

    def chosen_task(self, say: Say) -> PipelineTask | None:
        """Return the task under the cursor; `say` so where it is a question."""
        item = self.board.current
        if isinstance(item, BlockingQuestion):
            say(f"This is a question; {first_key(command('pipeline.answer'))} answers it.")
        return item if isinstance(item, PipelineTask) else None

    def show(self, plan: PipelinePlan | None) -> None:
        """Show the tasks of a plan."""
        self.board.show(cards_of(plan) if plan is not None else [[] for _ in COLUMNS], self.board.current)
        self.place()

    def place(self) -> None:
        """Lay out for the size, with the names of the columns."""
        self.styles.padding = (int(self.app.size.height >= TALL_ROWS), 1, 0, 1)
        self.head.display = bool(self.board.current)
        if self.head.display:
            self.call_after_refresh(self._draw_head)
        focused = self.screen.focused
        if focused is None or not focused.display:
            self.board.focus()

    def _draw_head(self) -> None:
        source, names, rules = self.board.source, list[Content](), list[Content]()
        cells = source.cells
        for (name, role), cards in ((COLUMNS[each], source.columns[each]) for each in source.shown):
            is_waiting = role == "warn" and bool(cards)
            style = {"muted": "bold $text", "accent": "bold $accent", "good": "bold $success"}.get(role, "bold $warning")
            style = style if cards else "$text-muted"
            count = f"{len(cards)}"
            names.append(
                Content.assemble(
                    (f"  {name}", style),
                    " " * (cells - len(name) - len(count) - 3),
                    (f"{count} ", style if is_waiting else "$text-muted"),
                )
            )
            rules.append(Content.styled(("━" if is_waiting else "─") * cells, "$warning" if is_waiting else "$faint"))
        gap = Content(" " * GAP_CELLS)
        lead = Content(" " * BAR_CELLS)
        self.head.update(Content("\n").join([lead + gap.join(names), lead + gap.join(rules)]))


class PipelineScreen(BesideChat):
    """Shows the newest plan, or a chosen one.  `open_session` opens a session; `confirm` asks before the work is stopped."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(SCOPE), *bindings(Scope.APP), *bindings(Scope.MOVING)]
    SCOPE: ClassVar[str] = SCOPE
    DEFAULT_CSS = """
    PipelineScreen #pipeline-head { height: auto; width: 1fr; background: $background; }
    PipelineScreen #pipeline-panes { height: 1fr; padding: 0 1; }
    PipelineScreen #pipeline-note { height: auto; padding: 0 2; background: $background; }
    PipelineScreen #pipeline-about { height: 36%; }
    PipelineScreen #pipeline-detail { padding: 1 1 0 1; background: $surface; border-left: outer $accent; }
    PipelineScreen Verbs { padding: 0 2; background: $surface; border-left: outer $accent; }
    PipelineScreen.-short #pipeline-detail { padding: 0 1; }
    PipelineScreen #pipeline-about.-empty { display: none; }
    PipelineScreen.-low #pipeline-about, PipelineScreen.-flat #pipeline-about { display: none; }
    """
    tab = "Pipeline"

    def __init__(
        self,
        plans: WorkspacePipeline,
        now: Callable[[], datetime],
        *,
        open_session: Callable[[str], object],
        folder: Path,
        confirm: Callable[[str, str], Confirm] = Confirm,
    ) -> None:
        super().__init__()
        self._plans, self._now, self._open_session, self._folder, self._confirm = plans, now, open_session, folder, confirm
        self._panes_of_plan = PlanPanes(now)
        self._note = Static("", id="pipeline-note", markup=False)
        self._detail, self._verbs = PageView(lambda _: [], id="pipeline-detail"), Verbs()
        self._edits = TaskEdits(plans, self._say)
        self._chosen = ""

    def content(self) -> Iterable[Widget]:
        """Return the note, the tasks, what is known of one, and its actions."""
        return self._note, self._panes_of_plan, Vertical(self._detail, self._verbs, id="pipeline-about")

    def on_mount(self) -> None:
        self.end = self._plans.follow_changes(self._load)
        self._ticker = self.set_interval(TICK_S, self._tick, pause=True)

        def look() -> None:
            if not self._plans.is_running:
                self._do(self._plans.read())

        self.set_interval(LOOK_S, look)
        self._load()
        self._do(self._plans.read())

    def placed(self) -> None:
        """Show what there is room for, and the keys."""
        self._detail.styles.padding = (int(self.app.size.height >= TALL_ROWS), 1, 0, 1)
        self._panes_of_plan.place()
        self._about()

    def tab_parts(self) -> list[Part]:
        """Return the title."""
        return [Part("Pipeline", "bold", 4)]

    # -- showing --------------------------------------------------------------------------------------------------------

    @property
    def _plan(self) -> PipelinePlan | None:
        known = self._plans.known
        return next((each for each in known if each.id == self._chosen), next(iter(known), None))

    def _load(self) -> None:
        if not self.is_attached:
            return
        plan = self._plan
        is_working = self._plans.is_running or (plan is not None and plan.is_at_work)
        (self._ticker.resume if is_working else self._ticker.pause)()
        self._panes_of_plan.show(plan)
        text = Content.styled(EMPTY if plan is None else "", "$text-muted")
        if is_planning(self._plans):
            text = Content.styled(PLANNING, "$accent")
        elif plan is not None and plan.problem:
            text = Content.styled(f"▲ {sanitize_line(plan.problem)}", "$warning")
        self._note.update(text)
        self._note.display = bool(text)
        if plan is None:
            self.draw_tabs()
        else:
            name = fit(sanitize_line(plan.name), max(8, self.app.size.width // 4))
            summary = plan.summary() if self.app.size.width >= SHORT_CELLS else plan.summary().partition(",")[0]
            self.draw_tabs([Part(name, "$text-muted", 5), Part(summary, "$text", 1)])
        self._about()

    def _tick(self) -> None:
        self._panes_of_plan.board.touch(0)
        item, plan = self._panes_of_plan.board.current, self._plan
        if isinstance(item, PipelineTask) and item.state in WORKING and plan is not None:
            _show_detail(self._detail, plan, item, self._now)

    @on(Table.Marked)
    def _about(self) -> None:
        """Show what is known of the current task, and what can be done with it."""
        plan, item = self._plan, self._panes_of_plan.board.current
        self.query_one("#pipeline-about").set_class(plan is None or item is None, "-empty")
        if plan is None or item is None:
            self.show_keys([command("pipeline.new")])
            return
        _show_detail(self._detail, plan, item, self._now)
        usable = _usable(plan, item) | {"next_column"} | ({"stop"} if self._plans.is_running else set())
        usable |= {"plans"} if len(self._plans.known) > 1 else set()
        verbs = [command(f"pipeline.{each}") for each in _VERBS if each in usable]
        is_paused = isinstance(item, PipelineTask) and item.is_paused
        self._verbs.show(
            [replace(each, hint="resume") if each.id == "pipeline.pause" and is_paused else each for each in verbs]
        )
        halted = is_halted(self._plans, plan)
        keys = [command(f"pipeline.{each}") for each in _KEYS if each in usable]
        self.show_keys(
            replace(each, hint="resume plan") if each.id == "pipeline.pause_all" and halted else each for each in keys
        )

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)

    def _do(self, work: Awaitable[object]) -> None:
        """Do something with the plan, one after the other; show why if it fails."""

        async def done() -> None:
            try:
                _ = await work
            except LmtuiError as error:
                self._say(error.full_text(), is_error=True)
            self._load()

        _ = self.run_worker(done(), group="pipeline")

    # -- actions --------------------------------------------------------------------------------------------------------

    def action_pipeline_column(self, step: int) -> None:
        """Go to the next column, or the one before."""
        self._panes_of_plan.board.step_column(step)
        self._panes_of_plan.place()

    def action_pipeline_open(self) -> None:
        """Open the last session of the task; answer a question."""
        item = self._panes_of_plan.board.current
        if item is None:
            return
        if not isinstance(item, PipelineTask):
            self.action_pipeline_answer()
            return
        session = next((each.session for each in reversed(item.attempts) if each.session), "")
        if item.state in WORKING:
            self._say("You can open the session when the attempt is done.")
        elif session:
            _ = self.dismiss(None)
            self._open_session(session)
        else:
            self._say("No session yet.")

    def action_pipeline_diff(self) -> None:
        """Show what the last attempt changed."""

        async def show(task: PipelineTask) -> None:
            page = await asyncio.to_thread(_diff_page, task, self._folder)
            _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Task"))

        if (task := self._panes_of_plan.chosen_task(self._say)) is not None:
            self._do(show(task))

    def action_pipeline_details(self) -> None:
        """Show all that is known of the current task."""
        plan, item = self._plan, self._panes_of_plan.board.current
        if plan is not None and item is not None:
            page = CallPage([], [], lambda width: detail_lines(plan, item, width, self._now()))
            _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Task"))

    def action_pipeline_do(self, what: str) -> None:
        """Do something with the current task."""
        plan, task = self._plan, self._panes_of_plan.chosen_task(self._say)
        if plan is not None and task is not None:
            action = TaskAction.RESUME if what == TaskAction.PAUSE and task.is_paused else TaskAction(what)
            self._do(self._plans.do(plan.id, task.id, action))

    def action_pipeline_pause_all(self) -> None:
        """Pause the plan, or go on with it."""
        if (plan := self._plan) is not None:
            self._do(self._plans.pause(plan.id, is_paused=not is_halted(self._plans, plan)))

    def action_pipeline_stop(self) -> None:
        """Ask, then stop the work."""
        if not self._plans.is_running:
            self._say("Nothing is being worked on here.")
            return
        _ = self.app.push_screen(self._confirm(*STOP), lambda is_sure: self._do(self._plans.stop()) if is_sure else None)

    def action_pipeline_new(self) -> None:
        """Ask for a plan file, work through it, and show it."""

        def begin(path: str | None) -> None:
            if path:
                self._do(ask(path))

        async def ask(path: str) -> None:
            await self._plans.check_plan(path)
            asked = self._confirm(f"Work through {sanitize_line(path)}?", START)
            _ = self.app.push_screen(asked, lambda is_sure: work(path) if is_sure else None)

        def work(path: str) -> None:
            self._chosen = ""
            self._do(self._plans.begin(path))

        _ = self.app.push_screen(AskText("Which plan file?", placeholder="a path in this folder, such as PLAN.md"), begin)

    def action_pipeline_plans(self) -> None:
        """Ask which plan is to be shown."""

        def show(plan_id: str | None) -> None:
            self._chosen = plan_id or self._chosen
            self._load()

        plan, known = self._plan, self._plans.known
        if plan is not None:
            choices = [Choice(each.id, sanitize_line(each.name), each.summary(), sanitize_line(each.path)) for each in known]
            _ = self.app.push_screen(Picker("Which plan?", choices, chosen=plan.id, noun="plan"), show)

    def action_pipeline_answer(self) -> None:
        """Ask for the answer to the current question, else to the first one that is open."""
        plan, item = self._plan, self._panes_of_plan.board.current
        if plan is None:
            return
        is_task = item is None or isinstance(item, PipelineTask)
        number = (
            next((at for at, each in enumerate(plan.questions, 1) if not each.answer), 0)
            if is_task or item is None
            else item.id
        )
        if not number:
            self._say("No question is open.")
            return
        ask = AskText(fit(sanitize_line(plan.questions[number - 1].text), 400), placeholder="your answer")
        plan_id = plan.id
        _ = self.app.push_screen(ask, lambda text: self._do(self._plans.answer(plan_id, number, text)) if text else None)

    def action_pipeline_edit(self) -> None:
        """Edit the current task in the user's editor."""
        plan, task = self._plan, self._panes_of_plan.chosen_task(self._say)
        if plan is None or task is None:
            return
        if task.state in WORKING:
            self._say(f"Task {task.id} is being worked on; pause it to edit it afterwards.", is_error=True)
            return
        self._do(self._edits.edit(self.app, plan.id, task))


class TaskEdits:
    """Edits tasks as texts; a wrong one is kept for the next time, with what is wrong in its first line."""

    def __init__(self, plans: WorkspacePipeline, say: Say) -> None:
        self._plans, self._say = plans, say
        self._drafts: dict[tuple[str, int], tuple[str, str]] = {}

    async def edit(self, app: App[Any], plan_id: str, task: PipelineTask) -> None:
        """Change a task as it is written in the user's editor."""
        key = plan_id, task.id
        text, note = self._drafts.get(key, (spec_text(task.spec), "Save and close to change the task."))
        before = f"# {note}\n{text}"
        written = await edit_text(app, before, "task.toml", say=self._say)
        if written is None or written == before:
            return
        try:
            await self._plans.edit(plan_id, task.id, read_spec(written, task.spec))
        except UsageError as error:
            body = written.partition("\n")[2] if written.startswith("#") else written
            self._drafts[key] = body, sanitize_line(str(error))
            raise UsageError(f"not changed: {error}", "Edit it again; what you typed is kept.") from error
        _ = self._drafts.pop(key, None)


def _show_detail(view: PageView, plan: PipelinePlan, item: Item, now: Callable[[], datetime]) -> None:
    most = _TEXT_ROWS if view.app.size.height >= TALL_ROWS else 1
    view.show(lambda width: detail_lines(plan, item, width, now(), most))


def is_halted(plans: WorkspacePipeline, plan: PipelinePlan) -> bool:
    """Tell whether a plan can be resumed: it is paused, or nobody works on it."""
    return plan.is_paused or not (plans.is_running or plan.is_at_work)


def _usable(plan: PipelinePlan, item: Item) -> set[str]:
    """Return the actions that count for a task or a question."""
    usable = {"details", "pause_all", "new"}
    usable |= {"answer"} if any(not each.answer for each in plan.questions) else set()
    if not isinstance(item, PipelineTask):
        return usable
    is_working = item.state in WORKING
    usable |= {"open"} if item.attempts and not is_working else set()
    usable |= {"diff"} if any(each.patch for each in item.attempts) else set()
    usable |= {"retry"} if item.state is State.FAILED else set()
    usable |= {"skip"} if item.state in (State.READY, State.FAILED) else set()
    usable |= {"earlier", "later"} if item.state is State.READY else set()
    usable |= {"pause"} if item.state not in OVER else set()
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
    return CallPage(title, note, lambda width: whole_text(NO_CHANGES, width, "muted"), patches=parse_patch(text))


class PipelineController(FeatureController):
    """Opens the page of the pipeline, and keeps the header up to date."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"pipeline.show": lambda _: self._show()}

    @property
    def _plans(self) -> WorkspacePipeline:
        return self.host.extensions[WorkspacePipeline]

    def header_part(self) -> Part | None:
        """Return how far the newest plan is, while it is worked on or needs the user; always as wide for the same plan."""
        plan, planning = next(iter(self._plans.known), None), is_planning(self._plans)
        opens = Style.from_meta({"verb": command("pipeline.show").action})
        if planning:
            return Part(Content.styled("  pipeline planning", "$accent").stylize(opens), "", 3)
        if plan is None or plan.is_done:
            return None
        states = [each.state for each in plan.tasks]
        needs_user = State.FAILED in states or any(not each.answer for each in plan.questions)
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
        _ = self._plans.follow_changes(self.workbench.draw)
        _ = self.workbench.app.run_worker(self._read(), group="pipeline")

    def _working(self) -> int:
        plans = self._plans.known if self._plans.is_running else ()
        return sum(each.state in WORKING for plan in plans for each in plan.tasks)

    async def _read(self) -> None:
        try:
            _ = await self._plans.read()
        except LmtuiError as error:
            self.workbench.say(error.full_text(), "error")
        self.workbench.draw()

    def _show(self) -> None:
        if not isinstance(self.workbench.app.screen, PipelineScreen):
            folder = Path(self.host.workspace)
            screen = PipelineScreen(self._plans, self.workbench.now, open_session=self.open_session, folder=folder)
            _ = self.workbench.app.push_screen(screen)
