"""The panes around the prompt, mounted after the first frame; they draw and ask nothing.

The plan has todos, sub-agents and jobs of a session in one view of lines; a part with nothing in it is not there.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import tzinfo
from typing import Unpack

from textual import on
from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from lmtui.core import events
from lmtui.core.agent_events import BackgroundChanged
from lmtui.core.events import Envelope, WaitingChanged, WaitingTask
from lmtui.core.plan import PlanStep, TaskState, Todo, TodoStatus
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.task_state import in_tree
from lmtui.core.workspace import BackgroundCommand, FileChange, FileChangeKind
from lmtui.tui.lines.file_tree import FileTree
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.patch import MINUS, counts_line
from lmtui.tui.lines.styled_text import STYLES, Line, LineSource, Span, StyleRole, fit, fit_middle, indent, row, width_of, wrap
from lmtui.tui.lines.table import RowCursor, Table
from lmtui.tui.lines.tool_log import ToolLog
from lmtui.tui.lines.transcript import Transcript
from lmtui.tui.router import SessionView
from lmtui.tui.session_state import Agents, SessionState
from lmtui.tui.timing import WidgetOptions
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import SIDE_PANES, Columns
from lmtui.tui.wording import tokens_text

SIGNS: dict[TodoStatus, Span] = {
    TodoStatus.PENDING: ("○", "muted"),
    TodoStatus.IN_PROGRESS: ("●", "accent"),
    TodoStatus.COMPLETED: ("✓", "good"),
    TodoStatus.BLOCKED: ("✗", "warn"),
    TodoStatus.CANCELLED: ("–", "muted"),
}
WAITS_SIGN: Span = ("◌", "muted")
AGENT_SIGNS: dict[str, Span] = {
    "working": ("●", "accent"),
    "waits": ("▲", "warn"),
    "done": ("✓", "good"),
    "partial": ("◑", "warn"),
    "failed": ("✗", "bad"),
}
_DEEPEST = 4
_WIDE = 64  # from here on an agent has two lines
_DETAIL: Line = (("    ", ""),)
_SHOWN = events.PlanChanged | WaitingChanged | BackgroundChanged | events.ApprovalRequested | events.ApprovalResolved


@dataclass(frozen=True, slots=True)
class PlanRow:
    """One row: `key` names what it belongs to, `text` is what copying it gives, `agent` what choosing it opens."""

    line: Line
    key: str = ""
    text: str = ""
    agent: str = ""


class PlanRows(LineSource):
    """Plan, todos, sub-agents and jobs as rows; `turned` names those that are folded or unfolded by choice."""

    def __init__(self, zone: tzinfo | None) -> None:
        self.state = SessionState()
        self.turned: set[str] = set()
        self.rows: list[PlanRow] = []
        self._zone = zone

    def total(self) -> int:
        return len(self.rows)

    def line(self, number: int) -> Line:
        return self.rows[number].line

    def set_width(self, width: int) -> None:
        """Lay out for a width."""
        super().set_width(width)
        self.build()

    def build(self) -> None:
        """Make the rows of what there is now."""
        state, width = self.state, self.width - 1
        plan = state.work.plan
        agents = state.work.agents
        parts = [
            _listed("Plan", plan.steps, "step", self.turned, width) if plan.steps else [],
            _listed("Todo", plan.todos, "todo", self.turned, width) if plan.todos else [],
            _task_rows(plan.task, self.turned, width) if plan.task is not None else [],
            _agent_rows(agents, state.title, width) if agents.by_id else [],
            _job_rows(state.work.jobs, self._zone, width) if state.work.jobs else [],
            _background_rows(state.work.background, width) if state.work.background else [],
        ]
        rows: list[PlanRow] = []
        for part in parts:
            if part:
                rows += [PlanRow(()), *part] if rows else part
        self.rows = rows


class PlanView(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows them from a session's state.  `open_agent` is called with the agent that was chosen."""

    empty_text = "No plan yet."
    source: PlanRows
    cursor: RowCursor

    def __init__(self, zone: tzinfo | None = None, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(PlanRows(zone), **options)
        self.cursor = RowCursor(self, can_click=lambda row: bool(self.source.rows[row].text))
        self.open_agent: Callable[[str], None] = lambda _: None

    @property
    def current(self) -> PlanRow:
        """Return the row under the cursor, an empty one if there is none."""
        rows = self.source.rows
        return rows[self.cursor.row] if self.cursor.row < len(rows) else PlanRow(())

    def apply(self, envelope: Envelope) -> None:
        """Draw again where one of the parts is another; the state has it already."""
        agents = self.source.state.work.agents.by_id
        if isinstance(envelope.event, _SHOWN) or envelope.event.agent in agents or (agents and envelope.event.durable):
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
        if not self.current.text:
            self.cursor.move(1)
        chosen = self.current
        if chosen.agent:
            self.open_agent(chosen.agent)
        elif chosen.key:
            self.source.turned ^= {chosen.key}
            self._build()

    def copy_text(self) -> str:
        """Return what the cursor is on, whole."""
        return self.current.text

    def _build(self) -> None:
        self.source.build()
        self.cursor.clamp()
        if not self.current.text:  # a heading: begin below it
            rows = enumerate(self.source.rows)
            self.cursor.row = next((at for at, each in rows if each.text and at >= self.cursor.row), self.cursor.row)
        self.redraw()


def _head(title: str, note: str, width: int) -> PlanRow:
    return PlanRow(row(((f" {title}", "strong"),), ((note, "muted"),) if note else (), width))


def _listed(title: str, todos: Sequence[Todo], kind: str, turned: set[str], width: int) -> list[PlanRow]:
    """Return a list with its head, each todo below the one that it belongs to."""
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
    """Return a todo: a line, and of the current one the rest; choosing it turns that over."""
    sign, role = WAITS_SIGN if waits and todo.status is TodoStatus.PENDING else SIGNS[todo.status]
    style: StyleRole = "muted" if not todo.is_open else "strong" if todo.status is TodoStatus.IN_PROGRESS else ""
    name = f"{todo.id} {sanitize_line(todo.text)}" if isinstance(todo, PlanStep) else sanitize_line(todo.text)
    more = [f"waits for {waits}"] if waits else []
    more += [sanitize_line(todo.notes)] if todo.notes else []
    if isinstance(todo, PlanStep):
        more += [f"check: {sanitize_line(todo.verification)}"] if todo.verification else []
        more += [f"→ {sanitize_line(todo.result)}"] if todo.result else []
        more += [f"risk: {sanitize_line(todo.risk)}"] if todo.risk != "low" and todo.is_open else []
    whole = "\n".join([sanitize_line(todo.text), *more])
    lead: Line = ((f" {sign} ", role),)
    room = max(8, width - 3)
    if (todo.status is TodoStatus.IN_PROGRESS) == (key in turned):
        return [PlanRow((*lead, (fit(name, room), style)), key, whole)]
    first, *rest = wrap(((name, style),), room)
    lines = [(*lead, *first), *indent(rest, (("   ", ""),))]
    lines += [line for text in more for line in indent(wrap(((text, "muted"),), max(8, width - 4)), _DETAIL)]
    return [PlanRow(line, key, whole) for line in lines]


def _task_rows(task: TaskState, turned: set[str], width: int) -> list[PlanRow]:
    """Return a task's state: its purpose, how far it is, what comes next and what went wrong."""
    rows = [_head("Task", "done" if task.is_finished and task.total_count else "", width)]
    if task.objective:
        rows += _todo_rows(Todo(0, task.objective, TodoStatus.IN_PROGRESS), "task", turned, width)
    if task.total_count or task.processed_count:
        total = max(task.total_count, task.processed_count + task.remaining_count)
        numbers = f"{task.processed_count:,} of {total:,}"
        rows.append(PlanRow(row(((" processed", ""),), ((numbers, ""),), width), "", f"processed: {numbers}"))
    following = task.next_action or next(iter(task.remaining_queue), "")
    for name, text in (("next", following), ("failed", task.last_error), ("then", task.recovery_instruction)):
        if text:
            line: Line = ((f" {name}: ", "muted"), (sanitize_line(text), "warn" if name == "failed" else ""))
            rows.append(PlanRow(row(line, (), width), "", f"{name}: {sanitize_line(text)}"))
    return rows


def _agent_rows(agents: Agents, title: str, width: int) -> list[PlanRow]:
    """Return the agents as a tree with what each does, with `main` if there are several."""
    listed = in_tree([*agents.by_id.values()])
    if len(listed) > 1:
        agents.main.title = title
        listed = [(0, agents.main), *((depth + 1, agent) for depth, agent in listed)]
    counts = Counter(agent.state for _, agent in listed)
    note = " · ".join(f"{counts[state]} {state}" for state in ("working", "waits", "failed") if counts[state])
    rows = [_head("Agents", note or f"{len(listed)} done", width)]
    is_wide = width >= _WIDE
    if is_wide:
        rows.append(PlanRow(row(((" agent", "muted"),), ((_figures("steps", "tokens", "time"), "muted"),), width)))
    for at, (depth, agent) in enumerate(listed):
        sign, role = AGENT_SIGNS[agent.state]
        first, rest = _branches([depth for depth, _ in listed], at)
        time = f"{int(agent.elapsed_s) // 60}:{int(agent.elapsed_s) % 60:02}"
        lead: Line = ((f" {first}", "muted"), (f"{sign} ", role), (agent.name, "strong"))
        told = f" {agent.title}" if " " not in agent.name else agent.title.removeprefix(agent.name.partition(" ")[2])
        doing = {"waits": "waits for you: ", "failed": "failed: ", "done": "done: "}.get(agent.state, "") + agent.doing
        right = _figures(str(agent.steps), tokens_text(agent.tokens), time) if is_wide else f"  {time}"
        line = row((*lead, (f" {told}".rstrip(), "muted")), ((right, "muted"),), width)
        rows.append(PlanRow(line, "", f"{agent.name}: {agent.title}\n{doing}".strip(), agent.id))
        if is_wide:
            below: Line = ((f" {rest}  ", "muted"), (doing, role if role in ("warn", "bad") else "muted"))
            rows.append(PlanRow(row(below, (), width)))
    return rows


def _figures(steps: str, tokens: str, time: str) -> str:
    return f"{steps:>5}  {tokens:>6}  {time:>6}"


def _branches(depths: Sequence[int], at: int) -> tuple[str, str]:
    """Return what leads to a row of a tree, and what leads past the rows below it."""
    depth, first, rest = depths[at], "", ""
    for level in range(1, depth + 1):
        later = next((each for each in depths[at + 1 :] if each <= level), 0)
        goes_on = later == level
        first += ("├ " if goes_on else "└ ") if level == depth else "│ " if goes_on else "  "
        rest += "│ " if goes_on else "  "
    return first, rest + ("│ " if depths[at + 1 : at + 2] and depths[at + 1] > depth else "")


def _job_rows(jobs: Iterable[WaitingTask], zone: tzinfo | None, width: int) -> list[PlanRow]:
    listed = sorted(jobs, key=lambda job: (job.next_time is None, job.next_time.timestamp() if job.next_time else 0.0))
    rows = [_head("Jobs", "", width)]
    for job in listed:
        when = f"{job.next_time.astimezone(zone):%a %d %b %H:%M}" if job.next_time else "paused"
        left: Line = ((" ◔ ", "muted"), (sanitize_line(job.title), ""), (f"  {sanitize_line(job.schedule)}", "muted"))
        rows.append(PlanRow(row(left, ((when, "muted"),), width), "", f"{job.title}  {job.schedule}  {when}"))
    return rows


def _background_rows(commands: Iterable[BackgroundCommand], width: int) -> list[PlanRow]:
    """Return the background commands, those that run first."""
    listed = sorted(commands, key=lambda each: each.exit_code is not None)
    rows = [_head("Background", f"{sum(each.exit_code is None for each in listed)} running", width)]
    for each in listed:
        is_running, text = each.exit_code is None, sanitize_line(each.command)
        sign: Line = ((" ● ", "good") if is_running else (" ○ ", "muted"), (f"{each.id} ", "muted"), (text, ""))
        state = "" if is_running else each.why or f"exit {each.exit_code}"
        rows.append(PlanRow(row(sign, ((state, "muted"),), width), "", f"{each.id}  {text}  {state}"))
    return rows


CHANGED_FROM_ROWS, MOST_CHANGED, LEAST_FOLDER = 40, 8, 10


@dataclass
class SessionPanes:
    """The panes of one session; they stay as they are while another session is on screen."""

    transcript: Transcript
    log: ToolLog


class ChangedSection(Vertical):
    """What the session changed, below the files of a high screen.  `open_change` shows how a file was changed."""

    def __init__(self) -> None:
        self._title, self._rows = Bar(id="changed-title"), Table(changed_line, id="changed")
        super().__init__(self._title, self._rows, id="changed-section")
        self.open_change: Callable[[str], object] = lambda _: None

    def show(self, changes: Collection[FileChange]) -> None:
        """List the files, by name, where there are rows for it."""
        listed = sorted(changes, key=lambda change: change.path.rpartition("/")[2])
        self.display = bool(listed) and self.app.size.height >= CHANGED_FROM_ROWS
        if self.display and listed != self._rows.rows:
            added, removed = sum(each.added_lines for each in listed), sum(each.removed_lines for each in listed)
            self._title.show([Part("Changed", "bold $text")], [Part(counts_content(added, removed))])
            self._rows.styles.height = min(len(listed), MOST_CHANGED)
            self._rows.show(listed)

    @property
    def rows(self) -> int:
        """Return how many rows it takes."""
        return min(len(self._rows.rows), MOST_CHANGED) + 3 if self.display else 0

    @on(Table.Chosen)
    def _open(self, event: Table.Chosen) -> None:
        event.stop()
        if self._rows.current is not None:
            self.open_change(self._rows.current.path)


def counts_content(added: int, removed: int) -> Content:
    """Return how many lines were added and removed."""
    return Content.assemble(*((text, STYLES[role]) for text, role in counts_line(added, removed)))


def changed_line(change: FileChange, width: int) -> Line:
    """Return a changed file: its name, its folder where there is room, and the counts."""
    removed = f"{MINUS}{change.removed_lines}" if change.removed_lines else ""
    counts: Line = ((f"+{change.added_lines}" if change.added_lines else "", "good"), (f"{removed:>4}", "bad"))
    folder, slash, name = sanitize_path(change.path).rpartition("/")
    left: Line = ((fit(name, width - width_of(counts) - 1), "muted" if change.kind is FileChangeKind.DELETED else ""),)
    room = width - width_of((*left, *counts)) - 2
    where = fit_middle(f"{folder}{slash}", room) if room >= min(LEAST_FOLDER, len(folder) + 1) else ""
    return row((*left, (f" {where}", "muted")), counts, width, gap=1)


class Panes(Columns):
    """All panes; their number depends on the open sessions and on nothing in them."""

    def __init__(self) -> None:
        super().__init__(id="panes")
        self._focused = ""
        self._by_session: dict[str, SessionPanes] = {}
        self.current: SessionPanes | None = None
        self.files, self.plan = FileTree(id="files"), PlanView(id="plan")
        self.changed = ChangedSection()
        self._files_title, self._log_title = Bar(id="files-title"), Bar(id="log-title")

    def compose(self) -> ComposeResult:
        yield from (self.files_pane, self.chat_pane, self.side_pane)

    async def on_mount(self) -> None:
        await self.files_pane.mount(self._files_title, self.files, self.changed)
        await self.plan_pane.mount(self.plan)
        await self.log_pane.mount(self._log_title)
        self.watch(self.plan, "virtual_size", self._plan_grew, init=False)  # a narrow pane wraps its rows
        self.watch(self.files, "virtual_size", self._place_changed, init=False)

    def _plan_grew(self) -> None:
        self.begin(has_begun=self.has_begun, has_team=self.has_team)

    def _place_changed(self) -> None:
        """Let what is changed be directly below the files, as many of them as there is room for."""
        room = self.files_pane.size.height - self.changed.rows - 1
        self.files.styles.height = max(1, min(room, self.files.source.total())) if self.changed.display else "1fr"

    @property
    def plan_rows(self) -> int:
        """Return how many rows plan, todos and agents have."""
        return self.plan.source.total()

    def show_session(self, view: SessionView) -> None:
        """Bring a session's own panes to the front, made if they are not there, and the shared ones in line with it."""
        session_id = view.session.id
        if session_id not in self._by_session:
            panes = SessionPanes(Transcript(classes="transcript"), ToolLog(classes="log"))
            self._by_session[session_id] = panes
            view.panels = (panes.transcript, panes.log)
            _ = self.chat_pane.mount(panes.transcript)
            _ = self.log_pane.mount(panes.log)
        self.current = self._by_session[session_id]
        for each, shown in self._by_session.items():
            shown.log.display = each == session_id
            shown.transcript.display = each == session_id
        self.plan.show(view.state)
        self.files.show_changes(view.state.work.changed_files)

    def mark_focus(self, focused: str) -> None:
        """Let the title of the pane in focus are out."""
        if focused != self._focused:
            self._focused = focused
            self.files_pane.set_class(focused == "files", "-focused")
            self.side_pane.set_class(focused in SIDE_PANES, "-focused")
            self._draw_titles()

    def draw_titles(self) -> None:
        """Draw the panes' first lines, and what is changed."""
        self.changed.show(self.files.source.marks.agent.net.values())
        self._place_changed()
        self._draw_titles()

    def _draw_titles(self) -> None:
        changed = len(self.files.source.marks.agent.net)
        note = Part(f"{changed} changed" if changed else "", "$text-muted", 1)
        self._files_title.show([Part("Files", self._style_of("files"))], [note])
        log = self.current.log if self.current is not None else None
        notes = ["{:,} of {:,}".format(*log.source.counts)] if log is not None and log.source.is_narrowed else []
        notes += ["live"] if log is not None and log.scroller.is_following else []
        self._log_title.show([Part("Log", self._style_of("log"))], [Part(" · ".join(notes), "$text-muted", 1)])

    def _style_of(self, pane: str) -> str:
        return "bold $accent" if pane == self._focused else "bold $text"

    async def forget(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
        panes = self._by_session.pop(session_id, None)
        if panes is not None:
            self.current = None if self.current is panes else self.current
            await panes.transcript.remove()
            await panes.log.remove()

    def pane(self, name: str) -> Widget | None:
        """Return the widget of a pane by its name: chat, files, plan or log."""
        if name in ("files", "plan"):
            return self.files if name == "files" else self.plan
        current = self.current
        return None if current is None else current.log if name == "log" else current.transcript

    def cover_end(self, rows: int) -> None:
        """Keep the end of the conversation above so many rows that something floats over."""
        if self.current is not None and self.current.transcript.covered_rows != rows:
            self.current.transcript.covered_rows = rows
            self.current.transcript.touch()

    def page_chat(self, pages: int) -> None:
        """Scroll the conversation by pages, a line kept."""
        if self.current is not None:
            chat = self.current.transcript
            chat.scroller.move(pages * max(1, chat.size.height - 1))

    def follow_chat(self) -> None:
        """Follow the end of the conversation until the user scrolls up again."""
        if self.current is not None and not self.current.transcript.copy_mode.is_on:
            self.current.transcript.scroller.set_following(True)
            self.current.transcript.touch()

    def copied_text(self) -> str:
        """Return what copying gives where the focus is."""
        focused = self.screen.focused
        return focused.copy_text() if isinstance(focused, FileTree | PlanView | ToolLog | Transcript) else ""
