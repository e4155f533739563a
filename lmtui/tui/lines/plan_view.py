"""Plan, todos, counters, sub-agents and jobs of a session in one pane of lines; a part with nothing in it is not there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime, tzinfo
from typing import Unpack

from lmtui.core import events
from lmtui.core.agent_events import BackgroundChanged
from lmtui.core.events import Envelope
from lmtui.core.jobs import JobsChanged, WaitingJob
from lmtui.core.plan import Counter, PlanStep, TaskState, Todo, TodoStatus
from lmtui.core.sanitize import sanitize_line
from lmtui.core.task_state import in_tree
from lmtui.core.workspace import BackgroundCommand
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import Line, LineSource, fit, indent, row, wrap
from lmtui.tui.lines.table import RowCursor
from lmtui.tui.session_state import SessionState, Subagent
from lmtui.tui.timing import WidgetOptions

SIGNS = {
    TodoStatus.PENDING: ("○", "muted"),
    TodoStatus.IN_PROGRESS: ("●", "accent"),
    TodoStatus.COMPLETED: ("✓", "good"),
    TodoStatus.BLOCKED: ("✗", "warn"),
    TodoStatus.CANCELLED: ("–", "muted"),
}
AGENT_SIGNS = {
    "working": ("●", "accent"),
    "waits": ("▲", "warn"),
    "done": ("✓", "good"),
    "partial": ("◑", "warn"),
    "failed": ("✗", "bad"),
}
_BAR_CELLS = 12
_NAME_SHARE = 0.45
_DEEPEST = 4
_WIDE = 64  # from here on an agent has two lines
_DETAIL: Line = (("    ", ""),)
_SHOWN = events.PlanChanged | JobsChanged | BackgroundChanged | events.ApprovalRequested | events.ApprovalResolved


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row: `key` names what it belongs to, `text` is what copying it gives, `agent` what choosing it opens."""

    line: Line
    key: str = ""
    text: str = ""
    agent: str = ""


class PlanRows(LineSource):
    """Plan, todos, counters, sub-agents and jobs as rows; `turned` names those that are folded or unfolded by choice."""

    def __init__(self, zone: tzinfo | None) -> None:
        self.state = SessionState()
        self.turned: set[str] = set()
        self.rows: list[PlanRow] = []
        self._zone = zone

    def total(self) -> int:
        """Return how many rows there are."""
        return len(self.rows)

    def line(self, number: int) -> Line:
        """Return a row."""
        return self.rows[number].line

    def set_width(self, width: int) -> None:
        """Lay out for a width."""
        super().set_width(width)
        self.build()

    def build(self) -> None:
        """Make the rows of what there is now."""
        state, width = self.state, self.width - 1
        plan = state.work.plan
        parts = [
            _listed("Plan", plan.steps, "step", self.turned, width),
            _listed("Todo", plan.todos, "todo", self.turned, width),
            _task_rows(plan.task, self.turned, width) if plan.task is not None else [],
            [_counter_row(each, width) for each in plan.counters],
            _agent_rows([*state.work.agents.in_order()], width),
            _job_rows(state.work.jobs, self._zone, width),
            _background_rows(state.work.background, width),
        ]
        rows: list[PlanRow] = []
        for part in parts:
            if part:
                rows += [PlanRow(()), *part] if rows else part
        self.rows = rows


class PlanCursor(RowCursor):
    """A cursor that passes over headings and blank rows when it is moved, and scrolls where nothing is left to go to."""

    def __init__(self, view: PlanView) -> None:
        super().__init__(view, can_click=lambda row: bool(view.source.rows[row].text))
        self._rows = view.source

    @property
    def current(self) -> PlanRow:
        """Return the row under the cursor; an empty one where there is none."""
        rows = self._rows.rows
        return rows[self.row] if self.row < len(rows) else PlanRow(())

    def move(self, rows: int) -> None:
        """Move to the next row that something can be done with."""
        step = 1 if rows > 0 else -1
        target = self.row + rows
        while 0 <= target < self._rows.total() and not self._rows.rows[target].text:
            target += step
        if 0 <= target < self._rows.total():
            self.put(target)
        else:
            self._view.scroller.move(step)


class PlanView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows them from a session's state.  `open_agent` is called with the agent that was chosen."""

    empty_text = "No plan yet."
    source: PlanRows
    cursor: PlanCursor

    def __init__(self, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(PlanRows(zone), **options)
        self.cursor = PlanCursor(self)
        self.open_agent: Callable[[str], None] = lambda _: None

    def apply(self, envelope: Envelope) -> None:
        """Draw again where one of the parts is another; the state has it already."""
        if isinstance(envelope.event, _SHOWN) or envelope.event.agent != events.ROOT:
            self._build()

    def show(self, state: SessionState) -> None:
        """Draw a session's parts."""
        if state is not self.source.state:
            self.source.state = state
            self.source.turned.clear()
            self.cursor.row = 0
        self._build()

    def action_select(self) -> None:
        """Open an agent's conversation, or unfold what the cursor is on; from a heading, what is below it."""
        if not self.cursor.current.text:
            self.cursor.move(1)
        chosen = self.cursor.current
        if chosen.agent:
            self.open_agent(chosen.agent)
        elif chosen.key:
            self.source.turned ^= {chosen.key}
            self._build()

    def copy_text(self) -> str:
        """Return what the cursor is on, whole."""
        return self.cursor.current.text

    def _build(self) -> None:
        self.source.build()
        self.cursor.clamp()
        if not self.cursor.current.text:  # a heading: begin below it
            rows = enumerate(self.source.rows)
            self.cursor.row = next((at for at, each in rows if each.text and at >= self.cursor.row), self.cursor.row)
        self.redraw()


def _head(title: str, note: str, width: int) -> PlanRow:
    return PlanRow(row(((f" {title}", "strong"),), ((note, "muted"),) if note else (), width))


def _listed(title: str, todos: Iterable[Todo], kind: str, turned: set[str], width: int) -> list[PlanRow]:
    """Return a list with its head, each todo below the one that it belongs to."""
    todos = list(todos)
    if not todos:
        return []
    done = {todo.id for todo in todos if not todo.is_open}
    rows = [_head(title, f"{len(done)} of {len(todos)}", width)]
    for depth, todo in in_tree(todos):
        open_ones = [each for each in todos if each.id in todo.depends_on and each.is_open]
        is_step = isinstance(todo, PlanStep)  # they show their numbers, todos do not
        waits = ", ".join(str(each.id) if is_step else fit(sanitize_line(each.text), 40) for each in open_ones)
        lead = "  " * min(depth, _DEEPEST)
        below = _todo_rows(todo, f"{kind} {todo.id}", turned, width - len(lead), waits)
        rows += [replace(shown, line=((lead, ""), *shown.line)) for shown in below] if lead else below
    return rows


def _todo_rows(todo: Todo, key: str, turned: set[str], width: int, waits: str = "") -> list[PlanRow]:
    """Return a todo: its first line, and below it the rest, unless it is done; choosing it turns that over."""
    sign, role = ("◌", "muted") if waits and todo.status is TodoStatus.PENDING else SIGNS[todo.status]
    is_done = not todo.is_open
    style = "muted" if is_done else "strong" if todo.status is TodoStatus.IN_PROGRESS else ""
    name = f"{todo.id} {sanitize_line(todo.text)}" if isinstance(todo, PlanStep) else sanitize_line(todo.text)
    more = [f"waits for {waits}"] if waits else []
    more += [sanitize_line(todo.notes)] if todo.notes else []
    if isinstance(todo, PlanStep):
        more += [f"check: {sanitize_line(todo.verification)}"] if todo.verification else []
        more += [f"→ {sanitize_line(todo.result)}"] if todo.result else []
        more += [f"risk: {sanitize_line(todo.risk)}"] if todo.risk != "low" and todo.is_open else []
    whole = "\n".join([sanitize_line(todo.text), *more])
    lead: Line = ((f" {sign} ", role),)
    is_open = is_done == (key in turned)
    room = max(8, width - 3)
    if not is_open:
        return [PlanRow((*lead, (fit(name, room), style)), key, whole)]
    first, *rest = wrap(((name, style),), room)
    lines = [(*lead, *first), *indent(rest, (("   ", ""),))]
    lines += [line for text in more for line in indent(wrap(((text, "muted"),), max(8, width - 4)), _DETAIL)]
    return [PlanRow(line, key, whole) for line in lines]


def _task_rows(task: TaskState, turned: set[str], width: int) -> list[PlanRow]:
    """Return a task's state: what it is for, how far it is, what comes next and what went wrong last."""
    rows = [_head("Task", "done" if task.is_finished and task.total_count else "", width)]
    if task.objective:
        rows += _todo_rows(Todo(0, task.objective, TodoStatus.IN_PROGRESS), "task", turned, width)
    if task.total_count or task.processed_count:
        total = max(task.total_count, task.processed_count + task.remaining_count)
        rows.append(_counter_row(Counter("processed", task.processed_count, total), width))
    parts = (
        ("next", task.next_action or (task.remaining_queue[0] if task.remaining_queue else ""), ""),
        ("failed", task.last_error, "warn"),
        ("then", task.recovery_instruction, ""),
    )
    for name, text, role in parts:
        if text:
            line: Line = ((f" {name}: ", "muted"), (fit(sanitize_line(text), max(8, width - len(name) - 3)), role))
            rows.append(PlanRow(line, "", f"{name}: {sanitize_line(text)}"))
    return rows


def _counter_row(counter: Counter, width: int) -> PlanRow:
    """Return a counter: its name, a bar, and the numbers; no bar where the end is not known."""
    name, done = sanitize_line(counter.name), max(0, counter.done)
    numbers = f"{done:,}/{counter.total:,}" if counter.total > 0 else f"{done:,}"
    filled = min(_BAR_CELLS, done * _BAR_CELLS // counter.total) if counter.total > 0 else 0
    bar: Line = (("█" * filled, "good" if done >= counter.total else "accent"), ("░" * (_BAR_CELLS - filled), "muted"))
    right: Line = (*(bar if counter.total > 0 else ()), (f" {numbers:>9}", ""))
    return PlanRow(row(((" " + fit(name, max(6, int(width * _NAME_SHARE))), ""),), right, width), "", f"{name}: {numbers}")


def _agent_rows(agents: list[tuple[int, Subagent]], width: int) -> list[PlanRow]:
    if not agents:
        return []
    at_work = sum(agent.state in ("working", "waits") for _, agent in agents)
    rows = [_head("Agents", f"{at_work} working" if at_work else f"{len(agents)}", width)]
    for depth, agent in agents:
        sign, role = AGENT_SIGNS[agent.state]
        lead: Line = ((f" {'  ' * min(depth, 6)}{sign} ", role), (sanitize_line(agent.id), "strong"))
        is_wide = width >= _WIDE
        text = f"  {agent.title}" + (f" · {agent.doing}" if agent.doing and not is_wide else "")
        note: Line = ((agent.state, "warn"),) if agent.state in ("waits", "partial") else ()
        shown = row((*lead, (text, "muted")), note, width)
        rows.append(PlanRow(shown, "", f"{agent.id}: {agent.title}\n{agent.doing}".strip(), agent.id))
        if is_wide:
            below = f"   {'  ' * min(depth, 6)}{agent.doing or agent.state}"
            rows.append(PlanRow(row(((below, role if role in ("warn", "bad") else "muted"),), (), width)))
    return rows


def _job_rows(jobs: Iterable[WaitingJob], zone: tzinfo | None, width: int) -> list[PlanRow]:
    listed = sorted(jobs, key=lambda job: (job.next_time is None, job.next_time.timestamp() if job.next_time else 0.0))
    if not listed:
        return []
    rows = [_head("Jobs", "", width)]
    for job in listed:
        when = _when(job.next_time, zone)
        left: Line = ((" ◔ ", "muted"), (sanitize_line(job.title), ""), (f"  {sanitize_line(job.schedule)}", "muted"))
        rows.append(PlanRow(row(left, ((when, "muted"),), width), "", f"{job.title}  {job.schedule}  {when}"))
    return rows


def _background_rows(commands: Iterable[BackgroundCommand], width: int) -> list[PlanRow]:
    """Return the background commands, those that run first."""
    listed = sorted(commands, key=lambda each: each.exit_code is not None)
    if not listed:
        return []
    rows = [_head("Background", f"{sum(each.exit_code is None for each in listed)} running", width)]
    for each in listed:
        is_running, text = each.exit_code is None, sanitize_line(each.command)
        sign: Line = ((" ● ", "ok") if is_running else (" ○ ", "muted"), (f"{each.id} ", "muted"), (text, ""))
        state = "" if is_running else each.why or f"exit {each.exit_code}"
        rows.append(PlanRow(row(sign, ((state, "muted"),), width), "", f"{each.id}  {text}  {state}"))
    return rows


def _when(time: datetime | None, zone: tzinfo | None) -> str:
    return f"{time.astimezone(zone):%a %d %b %H:%M}" if time is not None else "paused"
