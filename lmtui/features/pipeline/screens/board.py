"""The tasks of a plan as cards in columns, which one view draws as lines and scrolls together; and what is known of one."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import accumulate
from typing import Unpack

from textual import events

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.verification import CheckOutcome
from lmtui.features.pipeline.values import MOST_TASK_ATTEMPTS, OVER, WORKING, PipelinePlan, PipelineTask, TaskAttempt
from lmtui.features.pipeline.values import PipelineState as State
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.page_view import whole_text
from lmtui.tui.lines.patch import MINUS
from lmtui.tui.lines.styled_text import (
    Line,
    LineSource,
    Span,
    StyleRole,
    crop,
    fill,
    fit,
    indent,
    join_roles,
    plain,
    row,
    slice_line,
    width_of,
    wrap,
)
from lmtui.tui.lines.table import BAR_CELLS, Table
from lmtui.tui.timing import WidgetOptions
from lmtui.tui.widgets.bars import Spinner
from lmtui.tui.wording import tokens_text

_FINDING_ROWS = 2
GAP_CELLS = 2
_LEAST_CELLS = 112  # for all columns
TICK_MICROSECONDS = 250_000
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


@dataclass(frozen=True, slots=True)
class BlockingQuestion:
    """A question that the user has to answer, counted from 1."""

    id: int
    text: str


Item = PipelineTask | BlockingQuestion


def key_of_item(item: Item) -> tuple[bool, int]:
    """Return what identifies a task or a question while the plan changes."""
    return isinstance(item, BlockingQuestion), item.id


@dataclass(frozen=True, slots=True)
class Row:
    """What a card says in one line, drawn for a width and a moment; a text of so many `cells` takes two where it has to."""

    draw: Callable[[int, datetime], Line]
    cells: int = 0

    def lines(self, width: int, now: datetime) -> list[Line]:
        """Return it in a line, or two; what is too long for these is cut."""
        whole = self.draw(width, now)
        if self.cells <= width:
            return [crop(whole, width)]
        first = wrap(whole, width)[0]
        text = plain(whole)
        start = len(text) - len(text[len(plain(first)) :].lstrip())
        return [first, crop(slice_line(whole, start, len(text)), width)]


@dataclass(frozen=True, slots=True)
class Card:
    """A task or a question, and what is said of it; the first row names it."""

    item: Item
    rows: tuple[Row, ...] = ()

    def height(self, width: int) -> int:
        """Return how many lines it takes."""
        return sum(1 + (each.cells > width) for each in self.rows)

    def lines(self, width: int, now: datetime) -> list[Line]:
        return [line for each in self.rows for line in each.lines(width, now)]


def cards_of(plan: PipelinePlan) -> list[list[Card]]:
    """Return the cards of each column: in the order of the queue, what is done last first."""
    over = {each.id for each in plan.tasks if each.state in OVER}
    found: list[list[Card]] = [[] for _ in COLUMNS]
    for number, question in enumerate(plan.questions, 1):
        if not question.answer:
            head: Line = (("▲ ", "warn"), (f"Question {number}", "strong"))
            text: Line = ((sanitize_line(question.text), "muted"),)
            found[NEEDS_YOU].append(Card(BlockingQuestion(number, question.text), (_fixed(head), _fixed(text, wraps=True))))
    for task in plan.queue:
        waits = [each for each in task.spec.after if each not in over] if task.state is State.READY else []
        found[_COLUMN_OF[task.state]].append(Card(task, _rows(task, waits)))
    found[DONE].reverse()
    return found


def _rows(task: PipelineTask, waits: Sequence[int]) -> tuple[Row, ...]:
    rows = [_fixed(((f"#{task.id} ", "muted"), (sanitize_line(task.spec.title), "strong")), wraps=True)]
    last = task.attempts[-1] if task.attempts else None
    match task.state:
        case State.READY:
            notes = [f"after {', '.join(f'#{each}' for each in waits)}"] if waits else []
            notes += ["paused"] if task.is_paused else []
            notes += [sanitize_line(task.why)] if task.why else []
            return (*rows, _fixed(((" · ".join(notes), "muted"),))) if notes else tuple(rows)
        case State.DONE:
            return (*rows, Row(partial(_done, task)))
        case State.SKIPPED:
            return (*rows, _fixed((("– skipped", "muted"),)))
        case State.FAILED:
            tries = f"{pluralize(len(task.attempts), 'attempt')} failed" if task.attempts else "failed"
            rows.append(_fixed(((f"▲ {sanitize_line(task.why) or tries}", "warn strong"),), wraps=True))
        case _:
            rows.append(Row(partial(_working, task)))
    if last is not None and last.checks:
        rows.append(Row(lambda width, _: checks_line(last, width)))
    if last is not None and last.findings:
        rows.append(_fixed((("! ", "bad"), (pluralize(len(last.findings), "finding"), "bad"))))
    return tuple(rows)


def _fixed(line: Line, *, wraps: bool = False) -> Row:
    return Row(lambda _, __: line, width_of(line) if wraps else 0)


def _working(task: PipelineTask, width: int, now: datetime) -> Line:
    is_named = task.state in (State.CODING, State.CHECKING)
    number, time = max(1, len(task.attempts)), elapsed_text(task, now)
    count, limit = f"attempt {number}", f" of {MOST_TASK_ATTEMPTS}" if number <= MOST_TASK_ATTEMPTS else ""
    room = width - 2 - len(count) - len(time) - (0 if is_named else len(f"{task.state} · "))
    count += limit if len(limit) <= room else ""
    notes = [f"{count}{time}"] if is_named else [f"{task.state}{time}", count]
    notes += ["pauses after it"] if task.is_paused else []
    while len(notes) > 1 and len(" · ".join(notes)) > width - 2:
        _ = notes.pop()
    return ((f"{Spinner.sign(now)} ", "accent"), (" · ".join(notes), "muted"))


def _done(task: PipelineTask, width: int, now: datetime) -> Line:
    del width
    time = elapsed_text(task, now).removeprefix(" · ")
    lines = lines_line(task.attempts[-1]) if task.attempts else ()
    return (("✓ ", "good"), (time or "done", "muted"), ("  ", ""), *lines)


def elapsed_text(task: PipelineTask, now: datetime, attempt: TaskAttempt | None = None) -> str:
    """Return how long an attempt took, or takes until now: ` · 4:12`; empty where it is not known."""
    attempt = attempt or (task.attempts[-1] if task.attempts else None)
    if attempt is None:
        return ""
    is_under_way = attempt is task.attempts[-1] and task.state in WORKING and attempt.started is not None
    elapsed = now - attempt.started if is_under_way and attempt.started else timedelta(seconds=attempt.elapsed_s)
    minutes, seconds = divmod(max(0, int(elapsed.total_seconds())), 60)
    return f" · {minutes}:{seconds:02}" if elapsed else ""


def checks_line(attempt: TaskAttempt, width: int) -> Line:
    """Return the last outcome of each check; without enough room, those that passed are counted."""

    def named(rungs: Mapping[str, str]) -> Line:
        found: list[Span] = []
        for rung, each in rungs.items():
            found += [(f"{sanitize_line(rung)} ", "muted"), _SIGNS.get(each, ("○", "muted")), (" ", "")]
        return tuple(found[:-1])

    found = named(attempt.checks)
    passed = sum(each == CheckOutcome.PASSED for each in attempt.checks.values())
    if width_of(found) <= width or not passed:
        return found
    rest = named({rung: each for rung, each in attempt.checks.items() if each != CheckOutcome.PASSED})
    return ((f"{pluralize(passed, 'check')} ", "muted"), ("✓", "good"), *(((" ", ""), *rest) if rest else ()))


def lines_line(attempt: TaskAttempt) -> Line:
    """Return how many lines an attempt added and removed; nothing where it changed none."""
    added, removed = attempt.lines
    return ((f"+{added} ", "good"), (f"{MINUS}{removed}", "bad")) if added or removed else ()


class BoardLines(LineSource):
    """Columns of cards as lines; the cursor is on one card, by `column` and `index`."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        self.columns: Sequence[Sequence[Card]] = ()
        self.column = self.index = 0
        self._tops: list[list[int]] = []
        self._drawn: dict[tuple[int, int], list[Line]] = {}
        self._drawn_at: datetime | None = None
        self._now = now

    @property
    def shown(self) -> Sequence[int]:
        """Return the columns that there is room for: all, or the one with the cursor."""
        return range(len(self.columns)) if self.width >= _LEAST_CELLS else (self.column,)

    @property
    def cells(self) -> int:
        """Return how wide a column is."""
        return max(8, (self.width - BAR_CELLS + GAP_CELLS) // max(1, len(self.shown)) - GAP_CELLS)

    def take(self, columns: Sequence[Sequence[Card]]) -> None:
        """Show these cards."""
        self.columns, self._drawn_at = columns, None
        room = self._room
        self._tops = [[*accumulate((card.height(room) + 1 for card in each), initial=0)] for each in columns]

    def set_width(self, width: int) -> None:
        """Take up the width of the pane in cells."""
        super().set_width(width)
        self.take(self.columns)

    @property
    def _room(self) -> int:
        """Return how many cells of a card are for its text."""
        return self.cells - 3

    def total(self) -> int:
        """Return how many lines the highest column takes."""
        return max((self._tops[each][-1] - 1 for each in self.shown if self._tops), default=0)

    def line(self, number: int) -> Line:
        """Return a line across all columns."""
        now = self._now()
        now = now.replace(microsecond=now.microsecond // TICK_MICROSECONDS * TICK_MICROSECONDS)
        if now != self._drawn_at:  # each card is asked for line by line
            self._drawn, self._drawn_at = {}, now
        found: list[Span] = [(" " * BAR_CELLS, "")]
        for column in self.shown if self.columns else ():
            part = self._part(column, number, now)
            found += [*part, (" " * (self.cells + GAP_CELLS - width_of(part)), "")]
        return tuple(found[:-1])

    def place(self, column: int, index: int) -> tuple[int, int]:
        """Return the first line of a card and the one behind its last."""
        return self._tops[column][index], self._tops[column][index + 1] - 1

    def index_at(self, column: int, line: int) -> int:
        """Return which card of a column is at a line, or the last one above it; -1 where there is none."""
        return min(bisect_right(self._tops[column], line), len(self.columns[column])) - 1

    def _part(self, column: int, number: int, now: datetime) -> Line:
        index = self.index_at(column, number)
        if index < 0 or not self._tops[column][index] <= number < self._tops[column][index + 1] - 1:
            return ()
        lines = self._drawn.get((column, index))
        if lines is None:
            lines = self._drawn[column, index] = self.columns[column][index].lines(self._room, now)
        ground: StyleRole = "cursor" if (column, index) == (self.column, self.index) else "own"
        body = fill(((" ", ""), *lines[number - self._tops[column][index]]), self.cells - 1, ground)
        return ("▌", join_roles(ground, COLUMNS[column][1])), *body


class BoardCursor:
    """What the keys move: from card to card in a column."""

    def __init__(self, view: Board) -> None:
        self._view = view

    def move(self, rows: int) -> None:
        """Go to another card of the column."""
        self._view.put(self._view.source.column, self._view.source.index + rows)

    def page(self, pages: int) -> None:
        """Go on by as many cards as there are in a page."""
        source = self._view.source
        if source.total():
            target = source.place(source.column, source.index)[0] + pages * max(1, self._view.size.height - 1)
            self._view.put(source.column, source.index_at(source.column, max(0, target)))

    def to_edge(self, *, is_end: bool) -> None:
        """Go to the first or the last card of the column."""
        source = self._view.source
        self._view.put(source.column, len(source.columns[source.column]) - 1 if is_end and source.columns else 0)

    def mark(self, line: int, content: Line) -> Line:
        """Return a line as it is: the card is marked where it is drawn."""
        del line
        return content

    def can_click(self, line: int, /) -> bool:
        """Tell that no whole line does anything."""
        del line
        return False

    def click(self, line: int) -> None:
        """Do nothing: the board knows the column."""

    def focus_changed(self) -> None:
        """Do nothing: the card stays marked."""


class Board(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows the tasks of a plan in columns, with a cursor on a card."""

    source: BoardLines
    empty_text = ""

    def __init__(self, now: Callable[[], datetime], **options: Unpack[WidgetOptions]) -> None:
        super().__init__(BoardLines(now), **options)
        self.cursor = BoardCursor(self)

    @property
    def current(self) -> Item | None:
        """Return what the card under the cursor is of."""
        source = self.source
        cards = source.columns[source.column] if source.columns else ()
        return cards[source.index].item if source.index < len(cards) else None

    def show(self, columns: Sequence[Sequence[Card]], at: Item | None = None) -> None:
        """Show cards; the cursor goes to those of `at`, else stays on its own, or in its place."""
        source, wanted = self.source, at or self.current
        source.take(columns)
        key = key_of_item(wanted) if wanted is not None else None
        found = [
            (column, index)
            for column, cards in enumerate(columns)
            for index, card in enumerate(cards)
            if key is not None and key_of_item(card.item) == key
        ]
        filled = [column for column, cards in enumerate(columns) if cards]
        if found:
            source.column, source.index = found[0]
        elif filled:
            first = next((each for each in (NEEDS_YOU, CODING, CHECKING) if each in filled), filled[0])
            source.column = source.column if wanted is not None and source.column in filled else first
            source.index = min(source.index, len(columns[source.column]) - 1)
        self.redraw()
        self.post_message(Table.Marked())
        if self.size and self.is_running:
            self.call_after_refresh(self.reveal)

    def put(self, column: int, index: int) -> None:
        """Go to a card of a column."""
        source = self.source
        if source.columns and source.columns[column]:
            before = source.column, source.index
            source.column, source.index = column, max(0, min(index, len(source.columns[column]) - 1))
            if column != before[0] and len(source.shown) == 1:
                self.redraw()
            self.reveal()
            for card in {before, (source.column, source.index)}:
                for line in range(*source.place(*card)):
                    self.strips.forget(line)
            self.post_message(Table.Marked())

    def step_column(self, step: int) -> None:
        """Go to the next column with cards, to the card at the height of the current one; the last leads to the first."""
        source = self.source
        filled = [column for column, cards in enumerate(source.columns) if cards]
        if filled and self.current is not None:
            line = source.place(source.column, source.index)[0]
            column = filled[(filled.index(source.column) + step) % len(filled)]
            self.put(column, source.index_at(column, line))

    def reveal(self) -> None:
        """Bring the card into view."""
        if self.current is None:
            return
        (start, end), top, height = (
            self.source.place(self.source.column, self.source.index),
            self.scroll_offset.y,
            self.size.height,
        )
        if start < top or self.source.index == 0:
            self.jump(start)
        elif end > top + height:
            self.jump(min(start, end - height))

    def on_click(self, event: events.Click) -> None:
        source, line = self.source, event.y + self.scroll_offset.y
        place = (event.x - BAR_CELLS) // (source.cells + GAP_CELLS)
        if self.text_selection is None and 0 <= place < len(source.shown) and line < source.total():
            self.put(source.shown[place], source.index_at(source.shown[place], line))


def detail_lines(plan: PipelinePlan, item: Item | None, width: int, now: datetime, most: int = 0) -> list[Line]:
    """Return what is known of a task or a question: all of it, or at most so many lines of each text."""
    width = max(20, width - 2)
    if item is None:
        return []
    if not isinstance(item, PipelineTask):
        head: Line = ((f"Question {item.id}", "warn strong"), ("  has to be answered before the plan is done", "muted"))
        return indent([head, *_wrapped(item.text, width, most)], ((" ", ""),))
    found = [_head(plan, item, width)]
    found += [line for each in _facts(item) for line in _wrapped(each, width, 0, "muted")] if not most else []
    found += _wrapped(item.spec.text, width, most) if item.spec.text.strip() else []
    found += [()] if most != 1 else []
    found += [line for each in reversed(item.attempts) for line in _attempt(item, each, width, now, most)]
    return indent(found, ((" ", ""),))


def _head(plan: PipelinePlan, task: PipelineTask, width: int) -> Line:
    last = task.attempts[-1] if task.attempts else None
    waits = plan.waits_for(task) if task.state is State.READY else ()
    why = " · ".join(each for each in (task.state.value, sanitize_line(task.why)) if each)
    notes = ["", "paused" if task.is_paused else "", f"after {', '.join(f'#{each}' for each in waits)}" if waits else ""]
    notes += (
        [sanitize_line(last.model), f"{tokens_text(last.tokens)} tokens" if last.tokens else ""] if last is not None else []
    )
    title = fit(sanitize_line(task.spec.title), max(16, width * 3 // 5))
    left: Line = ((f"#{task.id} ", "muted"), (title, "strong"), ("  ", ""))
    left = (*left, (why, "warn" if task.state is State.FAILED else "muted"))
    left = (*left, *((f" · {each}", "muted") for each in notes if each))
    return row(left, lines_line(last) if last is not None else (), width)


def _facts(task: PipelineTask) -> list[str]:
    spec = task.spec
    after = [f"#{each}" for each in spec.after]
    named = [("Phase", [spec.phase]), ("Files", spec.files), ("After", after), ("Checks", spec.checks)]
    named += [("Budget", [spec.budget])]
    return [f"{name}: {', '.join(values)}" for name, values in named if any(values)]


def _attempt(task: PipelineTask, attempt: TaskAttempt, width: int, now: datetime, most: int) -> list[Line]:
    is_under_way = attempt is task.attempts[-1] and task.state in WORKING
    sign: Span = (Spinner.sign(now), "accent") if is_under_way else ("✗", "bad") if attempt.stage else ("✓", "good")
    notes = f"failed at {sanitize_line(attempt.stage)}" if attempt.stage else task.state.value if is_under_way else ""
    time = elapsed_text(task, now, attempt).removeprefix(" · ")
    checks = checks_line(attempt, width)
    line: Line = ((f"Attempt {attempt.number:<3} ", "muted"), sign, ("  ", ""), *checks, ("   " if checks else " ", ""))
    found = [crop((*line, (" · ".join(each for each in (time, notes) if each), "muted")), width)]
    for each in attempt.findings:
        lines = _wrapped(each, width - 14, min(most, _FINDING_ROWS))
        found += indent(lines, ((" " * 12, ""), ("! ", "bad")), ((" " * 14, ""),))
    return found


def _wrapped(text: str, width: int, most: int, role: StyleRole = "") -> list[Line]:
    """Return a text in lines, at most so many (0: all of them)."""
    if not most:
        return whole_text(text, width, role)
    lines = wrap(((sanitize_line(" ".join(text.split())), role),), width)
    return lines if len(lines) <= most else [*lines[: most - 1], crop((*lines[most - 1], ("…", role)), width)]
