"""The page of the pipeline: the tasks of a plan as cards in columns, what is known of one, and what can be done with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import ClassVar, NamedTuple

from textual import events, on, work
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.verification import CheckOutcome
from lmtui.features.pipeline.commands import SCOPE, START
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
from lmtui.tui.commands import Scope, bindings, command, first_key
from lmtui.tui.editor import edit_text
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.patch import MINUS, parse_patch
from lmtui.tui.lines.styled_text import Line, LineSource, Span, StyleRole, crop, fill, fit, indent, join_roles, row
from lmtui.tui.lines.table import BAR_CELLS, Table
from lmtui.tui.modals.picker import AskText, Confirm, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.beside import BesideChat
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.summary import SHORT_CELLS
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Part, Spinner, Verbs
from lmtui.tui.widgets.start_page import TALL_ROWS
from lmtui.tui.wording import tokens_text
from lmtui.tui.workbench_api import FeatureController, Handler, tried

TICK_S = 0.25
LOOK_S = 5.0  # another process may be at work
MOST_PATCH_BYTES = 4_000_000
STOP = ("Stop the pipeline?", "What is under way is ready again and starts over. What is done stays.")
_VERBS = ("open", "diff", "details", "retry", "skip", "pause", "edit", "answer")
_KEYS = ("column", "pause_all", "plans", "new", "stop")
GAP_CELLS, CARD_ROWS = 2, 3  # two lines and a blank one
_LEAST_CELLS = 112  # for all columns
COLUMNS: Line = (("Ready", "muted"), ("Working", "accent"), ("Checking", "accent"), ("Needs you", "warn"), ("Done", "good"))
READY, CODING, CHECKING, NEEDS_YOU, DONE = range(len(COLUMNS))
_COLUMN_OF = {
    State.READY: READY, State.CODING: CODING, State.CHECKING: CHECKING, State.REVIEWING: CHECKING, State.MERGING: CHECKING,
    State.FAILED: NEEDS_YOU, State.DONE: DONE, State.SKIPPED: DONE,
}  # fmt: skip
_SIGNS: Mapping[str, Span] = {
    CheckOutcome.PASSED: ("✓", "good"),
    CheckOutcome.FLAKY: ("✓", "warn"),
    CheckOutcome.KNOWN: ("!", "warn"),
    CheckOutcome.FAILED: ("✗", "bad"),
    CheckOutcome.NOT_RUN: ("–", "muted"),
}


class BlockingQuestion(NamedTuple):
    """A question that the user has to answer, counted from 1."""

    id: int
    text: str


Item = PipelineTask | BlockingQuestion


def columns_of(plan: PipelinePlan | None) -> list[list[Item]]:
    """Return what is in each column: in the order of the plan, what is done last first."""
    found: list[list[Item]] = [[] for _ in COLUMNS]
    if plan is not None:
        found[NEEDS_YOU] += [BlockingQuestion(*each) for each in plan.open_questions.items()]
        for task in plan.tasks:
            found[_COLUMN_OF[task.state]].append(task)
    found[DONE].reverse()
    return found


def _card(plan: PipelinePlan, item: Item, now: datetime) -> tuple[Line, Line]:
    """Return the two lines of a card."""
    if not isinstance(item, PipelineTask):
        return (("▲ ", "warn"), (f"Question {item.id}", "strong")), ((sanitize_line(item.text), "muted"),)
    title: Line = ((f"#{item.id} ", "muted"), (sanitize_line(item.spec.title), "strong"))
    time = _elapsed_text(item, item.last, now)
    match item.state:
        case State.READY:
            notes = [_waits(plan, item), "paused" * item.is_paused, sanitize_line(item.why)]
            return title, ((" · ".join(filter(None, notes)), "muted"),)
        case State.DONE:
            return title, (("✓ ", "good"), (time or "done", "muted"), ("  ", ""), *_lines_line(item.last))
        case State.SKIPPED:
            return title, (("– skipped", "muted"),)
        case State.FAILED:
            return title, ((f"▲ {sanitize_line(item.why) or 'failed'}", "warn strong"),)
        case _:
            number = max(1, len(item.attempts))
            of = f" of {MOST_TASK_ATTEMPTS}" if number <= MOST_TASK_ATTEMPTS else ""
            attempt = f"attempt {number}{of}"
            notes = [attempt, time] if item.state in (State.CODING, State.CHECKING) else [item.state.value, time, attempt]
            notes += ["pauses after it"] if item.is_paused else []
            return title, ((f"{Spinner.sign(now)} ", "accent"), (" · ".join(filter(None, notes)), "muted"))


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


class BoardLines(LineSource):
    """Columns of cards as lines; the cursor is on one card, by `column` and `index`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.plan: PipelinePlan | None = None
        self.columns: Sequence[Sequence[Item]] = columns_of(None)
        self.column = self.index = 0
        self._now = now

    @property
    def shown(self) -> Sequence[int]:
        """Return the columns that there is room for: all, or the one with the cursor."""
        return range(len(self.columns)) if self.width >= _LEAST_CELLS else (self.column,)

    @property
    def cells(self) -> int:
        """Return how wide a column is."""
        return max(8, (self.width - BAR_CELLS + GAP_CELLS) // len(self.shown) - GAP_CELLS)

    def total(self) -> int:
        """Return how many lines the highest column takes."""
        return max(0, CARD_ROWS * max(len(self.columns[column]) for column in self.shown) - 1)

    def line(self, number: int) -> Line:
        """Return a line across all columns."""
        found: list[Span] = [(" " * BAR_CELLS, "")]
        for column in self.shown:
            found += [*self._part(column, *divmod(number, CARD_ROWS)), (" " * GAP_CELLS, "")]
        return tuple(found[:-1])

    def _part(self, column: int, index: int, part: int) -> Line:
        if self.plan is None or index >= len(self.columns[column]) or part == CARD_ROWS - 1:
            return ((" " * self.cells, ""),)
        line = _card(self.plan, self.columns[column][index], self._now())[part]
        ground: StyleRole = "cursor" if (column, index) == (self.column, self.index) else "own"
        body = fill(((" ", ""), *crop(line, self.cells - 3)), self.cells - 1, ground)
        return ("▌", join_roles(ground, COLUMNS[column][1])), *body


class Board(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows the tasks of a plan in columns.  The keys move from card to card; a card is marked where it is drawn."""

    source: BoardLines
    empty_text = ""

    @property
    def current(self) -> Item | None:
        """Return what the card under the cursor is of."""
        items = self.source.columns[self.source.column]
        return items[self.source.index] if self.source.index < len(items) else None

    def show(self, plan: PipelinePlan | None) -> None:
        """Show a plan; the cursor stays on its card, or in its place."""
        source, wanted = self.source, self.current
        source.plan, source.columns = plan, columns_of(plan)
        filled = [column for column, items in enumerate(source.columns) if items]
        places = [
            (column, index)
            for column, items in enumerate(source.columns)
            for index, item in enumerate(items)
            if wanted is not None and (type(item), item.id) == (type(wanted), wanted.id)
        ]
        if places:
            source.column, source.index = places[0]
        elif filled:
            first = next((column for column in (NEEDS_YOU, CODING, CHECKING) if column in filled), filled[0])
            source.column = source.column if wanted is not None and source.column in filled else first
        self.put(source.column, source.index)

    def put(self, column: int, index: int) -> None:
        """Go to a card of a column, or the nearest one."""
        self.source.column, self.source.index = column, max(0, min(index, len(self.source.columns[column]) - 1))
        self.redraw()
        self.post_message(Table.Marked())
        if self.size and self.is_running:
            self.call_after_refresh(self.reveal)

    def action_move(self, step: str) -> None:
        """Go to another card of the column."""
        page, end = max(1, self.size.height // CARD_ROWS), self.source.total()
        steps = {"up": -1, "down": 1, "page_up": -page, "page_down": page, "home": -end, "end": end}
        self.put(self.source.column, self.source.index + steps[step])

    def step_column(self, step: int) -> None:
        """Go to the next column with cards, to the card at the height of the current one; the last leads to the first."""
        filled = [column for column, items in enumerate(self.source.columns) if items]
        if filled and self.current is not None:
            self.put(filled[(filled.index(self.source.column) + step) % len(filled)], self.source.index)

    def reveal(self) -> None:
        """Bring the card into view."""
        start, top, height = CARD_ROWS * self.source.index, self.scroll_offset.y, self.size.height
        self.jump(min(start, max(top, start + CARD_ROWS - height)))

    def on_click(self, event: events.Click) -> None:
        source, line = self.source, event.y + self.scroll_offset.y
        place = (event.x - BAR_CELLS) // (source.cells + GAP_CELLS)
        if self.text_selection is None and 0 <= place < len(source.shown) and source.columns[source.shown[place]]:
            self.put(source.shown[place], line // CARD_ROWS)


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


def _attempt(task: PipelineTask, attempt: TaskAttempt, width: int, now: datetime) -> list[Line]:
    is_under_way = attempt is task.last and task.state in WORKING
    sign: Span = (Spinner.sign(now), "accent") if is_under_way else ("✗", "bad") if attempt.stage else ("✓", "good")
    notes = f"failed at {sanitize_line(attempt.stage)}" if attempt.stage else task.state.value if is_under_way else ""
    line: list[Span] = [(f"Attempt {attempt.number:<3} ", "muted"), sign, ("  ", "")]
    for rung, outcome in attempt.checks.items():
        line += [(f"{sanitize_line(rung)} ", "muted"), _SIGNS.get(outcome, ("○", "muted")), (" ", "")]
    line.append(("  " + " · ".join(filter(None, (_elapsed_text(task, attempt, now), notes))), "muted"))
    found = [crop(tuple(line), width)]
    for finding in attempt.findings:
        found += indent(whole_text(finding, width - 14), ((" " * 12, ""), ("! ", "bad")), ((" " * 14, ""),))
    return found


class PipelineScreen(BesideChat):
    """Shows the newest plan, or a chosen one.  `open_session` opens a session."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP, Scope.MOVING)
    SCOPE: ClassVar[str] = SCOPE
    DEFAULT_CSS = """
    PipelineScreen #pipeline-head { height: auto; width: 1fr; background: $background; }
    PipelineScreen #pipeline-panes { height: 1fr; }
    PipelineScreen #changes-note { background: $background; }
    PipelineScreen #pipeline-about { height: 36%; }
    PipelineScreen #pipeline-detail { background: $surface; border-left: outer $accent; }
    PipelineScreen Verbs { padding: 0 2; background: $surface; border-left: outer $accent; }
    PipelineScreen #pipeline-about.-empty { display: none; }
    PipelineScreen.-low #pipeline-about, PipelineScreen.-flat #pipeline-about { display: none; }
    """
    tab = "Pipeline"

    def __init__(
        self, plans: WorkspacePipeline, now: Callable[[], datetime], *, open_session: Callable[[str], object], folder: Path
    ) -> None:
        super().__init__()
        self._plans, self._now, self._open_session, self._folder = plans, now, open_session, folder
        self._board, self._head = Board(BoardLines(now), id="pipeline-board"), Static("", id="pipeline-head", markup=False)
        self._said.styles.padding = (0, 2)
        self._detail, self._verbs = PageView(lambda _: [], id="pipeline-detail"), Verbs()
        self._drafts: dict[tuple[str, int], tuple[str, str]] = {}  # wrong texts of tasks, each with what is wrong
        self._chosen = ""

    def content(self) -> Iterable[Widget]:
        """Return the note, the tasks, what is known of one, and its actions."""
        panes = Vertical(self._head, self._board, id="pipeline-panes")
        return self._said, panes, Vertical(self._detail, self._verbs, id="pipeline-about")

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
        self._place_board()
        self._about()

    def _place_board(self) -> None:
        self.query_one("#pipeline-panes").styles.padding = (int(self.app.size.height >= TALL_ROWS), 1, 0, 1)
        self._head.display = self._board.current is not None
        if self._head.display:
            self.call_after_refresh(self._draw_head)
        if self.focused is None or not self.focused.display:
            self._board.focus()

    def _draw_head(self) -> None:
        """Name the columns, each with how many cards it has."""
        source, names, rules = self._board.source, list[Content](), list[Content]()
        for (name, role), items in ((COLUMNS[column], source.columns[column]) for column in source.shown):
            is_waiting = role == "warn" and bool(items)
            style = {"muted": "bold $text", "accent": "bold $accent", "good": "bold $success"}.get(role, "bold $warning")
            style, count = style if items else "$text-muted", f"{len(items)}"
            gap = " " * (source.cells - len(name) - len(count) - 3)
            names.append(Content.assemble((f"  {name}", style), gap, (f"{count} ", style if is_waiting else "$text-muted")))
            rules.append(Content.styled(("━" if is_waiting else "─") * source.cells, "$warning" if is_waiting else "$faint"))
        lead, between = Content(" " * BAR_CELLS), Content(" " * GAP_CELLS)
        self._head.update(Content("\n").join([lead + between.join(names), lead + between.join(rules)]))

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
        self._board.show(plan)
        self._place_board()
        if is_planning(self._plans):
            self.say_below("Planning. The tasks of the plan appear here.", "$accent")
        elif plan is None:
            self.say_below("No plans yet. /pipeline PLAN.md works through a plan file.", "$text-muted")
        else:
            self.say_below(f"▲ {plan.problem}" if plan.problem else "")
        if plan is None:
            self.draw_tabs()
        else:
            name = fit(sanitize_line(plan.name), max(8, self.app.size.width // 4))
            summary = plan.summary() if self.app.size.width >= SHORT_CELLS else plan.summary().partition(",")[0]
            self.draw_tabs([Part(name, "$text-muted", 5), Part(summary, "$text", 1)])
        self._about()

    def _tick(self) -> None:
        self._board.touch(0)
        item, plan = self._board.current, self._plan
        if isinstance(item, PipelineTask) and item.state in WORKING and plan is not None:
            self._detail.show(lambda width: detail_lines(plan, item, width, self._now()))

    @on(Table.Marked)
    def _about(self) -> None:
        """Show what is known of the current task, and what can be done with it."""
        plan, item = self._plan, self._board.current
        self.query_one("#pipeline-about").set_class(plan is None or item is None, "-empty")
        if plan is None or item is None:
            self.show_keys([command("pipeline.new")])
            return
        self._detail.show(lambda width: detail_lines(plan, item, width, self._now()))
        usable = _usable(plan, item) | {"column"} | ({"stop"} if self._plans.is_running else set())
        usable |= {"plans"} if len(self._plans.known) > 1 else set()
        shown = {each: command(f"pipeline.{each}") for each in (*_VERBS, *_KEYS) if each in usable}
        if isinstance(item, PipelineTask) and item.is_paused and "pause" in shown:
            shown["pause"] = replace(shown["pause"], hint="resume")
        if is_halted(self._plans, plan):
            shown["pause_all"] = replace(shown["pause_all"], hint="resume plan")
        self._verbs.show([each for name, each in shown.items() if name in _VERBS])
        self.show_keys(each for name, each in shown.items() if name in _KEYS)

    def _chosen_task(self) -> PipelineTask | None:
        """Return the task under the cursor; say so where it is a question."""
        item = self._board.current
        if isinstance(item, BlockingQuestion):
            self._say(f"This is a question; {first_key(command('pipeline.answer'))} answers it.")
        return item if isinstance(item, PipelineTask) else None

    def _say(self, text: str, *, is_error: bool = False) -> None:
        self.app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)

    @work(group="pipeline")
    async def _do(self, wanted: Awaitable[object]) -> None:
        """Do something with the plan, one after the other; show why if it fails."""
        try:
            _ = await wanted
        except LmtuiError as error:
            self._say(error.full_text(), is_error=True)
        self._load()

    # -- actions --------------------------------------------------------------------------------------------------------

    def action_pipeline_column(self, step: int) -> None:
        """Go to the next column, or the one before."""
        self._board.step_column(step)
        self._place_board()

    def action_pipeline_open(self) -> None:
        """Open the last session of the task; answer a question."""
        match self._board.current:
            case BlockingQuestion():
                self.action_pipeline_answer()
            case PipelineTask(state=state) if state in WORKING:
                self._say("You can open the session when the attempt is done.")
            case PipelineTask(attempts=attempts):
                if session := next((each.session for each in reversed(attempts) if each.session), ""):
                    _ = self.dismiss(None)
                    self._open_session(session)
                else:
                    self._say("No session yet.")

    def action_pipeline_diff(self) -> None:
        """Show what the last attempt changed."""

        async def show(task: PipelineTask) -> None:
            page = await asyncio.to_thread(_diff_page, task, self._folder)
            _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Task"))

        if (task := self._chosen_task()) is not None:
            self._do(show(task))

    def action_pipeline_details(self) -> None:
        """Show all that is known of the current task."""
        plan, item = self._plan, self._board.current
        if plan is not None and item is not None:
            page = CallPage([], [], lambda width: detail_lines(plan, item, width, self._now()))
            _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Task"))

    def action_pipeline_do(self, what: str) -> None:
        """Do something with the current task."""
        plan, task = self._plan, self._chosen_task()
        if plan is not None and task is not None:
            action = TaskAction.RESUME if what == TaskAction.PAUSE and task.is_paused else TaskAction(what)
            self._do(self._plans.do(plan.id, task.id, action))

    def action_pipeline_pause_all(self) -> None:
        """Pause the plan, or go on with it."""
        if (plan := self._plan) is not None:
            self._do(self._plans.pause(plan.id, is_paused=not is_halted(self._plans, plan)))

    def action_pipeline_stop(self) -> None:
        """Ask, then stop the work."""
        if self._plans.is_running:
            self._do(self._stop())
        else:
            self._say("Nothing is being worked on here.")

    async def _stop(self) -> None:
        if await self.app.push_screen_wait(Confirm(*STOP)):
            await self._plans.stop()

    def action_pipeline_new(self) -> None:
        """Ask for a plan file, work through it, and show it."""
        self._do(self._begin())

    async def _begin(self) -> None:
        asked = AskText("Which plan file?", placeholder="a path in this folder, such as PLAN.md")
        if path := await self.app.push_screen_wait(asked):
            await self._plans.check_plan(path)
            if await self.app.push_screen_wait(Confirm(f"Work through {sanitize_line(path)}?", START)):
                self._chosen = ""
                await self._plans.begin(path)

    def action_pipeline_plans(self) -> None:
        """Ask which plan is to be shown."""
        if (plan := self._plan) is not None:
            self._do(self._choose(plan))

    async def _choose(self, plan: PipelinePlan) -> None:
        known = self._plans.known
        choices = [Choice(each.id, sanitize_line(each.name), each.summary(), sanitize_line(each.path)) for each in known]
        chosen = await self.app.push_screen_wait(Picker("Which plan?", choices, chosen=plan.id, noun="plan"))
        self._chosen = chosen or self._chosen

    def action_pipeline_answer(self) -> None:
        """Ask for the answer to the current question, else to the first one that is open."""
        plan, item = self._plan, self._board.current
        first = next(iter(plan.open_questions), 0) if plan is not None else 0
        number = item.id if isinstance(item, BlockingQuestion) else first
        if plan is not None and number:
            self._do(self._answer(plan, number))
        elif plan is not None:
            self._say("No question is open.")

    async def _answer(self, plan: PipelinePlan, number: int) -> None:
        asked = AskText(fit(sanitize_line(plan.questions[number - 1].text), 400), placeholder="your answer")
        if text := await self.app.push_screen_wait(asked):
            await self._plans.answer(plan.id, number, text)

    def action_pipeline_edit(self) -> None:
        """Edit the current task in the user's editor."""
        plan, task = self._plan, self._chosen_task()
        if task is not None and task.state in WORKING:
            self._say(f"Task {task.id} is being worked on; pause it to edit it afterwards.", is_error=True)
        elif plan is not None and task is not None:
            self._do(self._edit(plan.id, task))

    async def _edit(self, plan_id: str, task: PipelineTask) -> None:
        """Change a task in the user's editor; a wrong text is kept for the next time, with what is wrong in its first line."""
        key = plan_id, task.id
        text, note = self._drafts.get(key, (spec_text(task.spec), "Save and close to change the task."))
        before = f"# {note}\n{text}"
        written = await edit_text(self.app, before, "task.toml", say=self._say)
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
    """Return the actions that count for a task or a question."""
    usable = {"details", "pause_all", "new"}
    usable |= {"answer"} if plan.open_questions else set()
    if not isinstance(item, PipelineTask):
        return usable
    is_working = item.state in WORKING
    usable |= {"open"} if item.attempts and not is_working else set()
    usable |= {"diff"} if any(each.patch for each in item.attempts) else set()
    usable |= {"retry"} if item.state is State.FAILED else set()
    usable |= {"skip"} if item.state in (State.READY, State.FAILED) else set()
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
        if not isinstance(self.workbench.app.screen, PipelineScreen):
            folder = Path(self.host.workspace)
            screen = PipelineScreen(self._plans, self.workbench.now, open_session=self.open_session, folder=folder)
            _ = self.workbench.app.push_screen(screen)
