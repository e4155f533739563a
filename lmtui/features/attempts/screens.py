"""The page of attempts: one row for each, the changes of the selected one below, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import partial
from typing import ClassVar

from textual import on
from textual.binding import BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import Static

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.verification import CheckOutcome, Rung
from lmtui.features.attempt_values import Attempt, AttemptState, WorkspaceAttempts, reason
from lmtui.features.attempts.commands import DISCARD, SCOPE
from lmtui.tui.commands import Scope, bindings, command
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.styled_text import Line, Span, fit, pad, width_of
from lmtui.tui.lines.table import Table
from lmtui.tui.modals.list_dialog import ColumnNames
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.screens.beside import BesideChat
from lmtui.tui.screens.effect_review import EffectReviewScreen
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Part, Spinner, Verbs
from lmtui.tui.workbench_api import FeatureController, Handler, WorkbenchApi

EMPTY = "No attempts yet. /attempts 3 TASK tries a task three times, each in an overlay over your folder."
TICK_S = 0.25
_DECIDING = (Rung.GOAL, Rung.SUITE, Rung.TESTS)
_SIGNS: dict[CheckOutcome, Span] = {
    CheckOutcome.PASSED: ("✓", "good"),
    CheckOutcome.FLAKY: ("✓", "warn"),
    CheckOutcome.KNOWN: ("!", "warn"),
    CheckOutcome.FAILED: ("✗", "bad"),
    CheckOutcome.NOT_RUN: ("–", "muted"),
}
_VERBS = ("use", "diff", "hunks", "again", "stop", "discard")
_KEYS = ("attempts.file", "attempts.pane", "attempts.log", "diff.split")


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table: its cells, and the width from which on it is shown; numbers are aligned right."""

    name: str
    cells: int
    draw: Callable[[Attempt], Line]
    is_number: bool = False
    from_width: int = 0

    def line(self, attempt: Attempt) -> Line:
        """Return its part of a row."""
        found = self.draw(attempt)
        rest: Span = (" " * max(0, self.cells - width_of(found)), "")
        return (rest, *found) if self.is_number else (*found, rest)

    def head(self) -> str:
        """Return its name, as wide as its cells."""
        return self.name.rjust(self.cells) if self.is_number else pad(self.name, self.cells)


class AttemptTable(Table[Attempt]):
    """Lists attempts; `now` returns the time."""

    def __init__(self, now: Callable[[], datetime]) -> None:
        super().__init__(self._line, lambda attempt: attempt.number, id="attempts-list")
        self.best = 0
        self._now = now
        self.empty_text = ""

    def names(self, width: int) -> Line:
        """Return the names of the columns."""
        columns = self._columns(width)
        if not self.rows:
            return ()
        return (("  ".join(("   model".ljust(_model_cells(columns, width)), *(each.head() for each in columns))), ""),)

    def _columns(self, width: int) -> list[Column]:
        """Return the columns behind the model that have something to show and room for it."""
        rungs = {rung for each in self.rows for rung in each.checks}
        checks = [Column(str(rung), 5, partial(_check, rung=rung)) for rung in (Rung.PARSE, Rung.LINT) if rung in rungs]
        tests = [Column("tests", 5, _tests)] if rungs & {*_DECIDING} else []
        every = [
            *(replace(each, from_width=88) for each in checks),
            *tests,
            Column("lines", 11, _lines, is_number=True),
            Column("tokens", 6, _tokens, is_number=True, from_width=100),
            Column("time", 5, self._time, is_number=True, from_width=72),
            Column("result", 15, self._result),
        ]
        return [each for each in every if width >= each.from_width]

    def _line(self, attempt: Attempt, width: int) -> Line:
        columns = self._columns(width)
        cells = _model_cells(columns, width) - 3
        heat = f" · {attempt.temperature:g}"
        name = fit(sanitize_line(attempt.model) or "model in use", max(4, cells - len(heat)))
        found: list[Span] = [(f"{attempt.number:>2} ", ""), (name, "strong" if attempt.number == self.best else "")]
        found.append((pad(fit(heat, max(0, cells - len(name))), max(0, cells - len(name))), "muted"))
        for each in columns:
            found += [("  ", ""), *each.line(attempt)]
        return tuple(found)

    def _time(self, attempt: Attempt) -> Line:
        is_running = attempt.state is AttemptState.RUNNING and attempt.started is not None
        seconds = (self._now() - attempt.started).total_seconds() if is_running and attempt.started else attempt.elapsed_s
        return ((f"{int(seconds) // 60}:{int(seconds) % 60:02}", ""),) if attempt.started is not None else ()

    def _result(self, attempt: Attempt) -> Line:
        match attempt.state:
            case AttemptState.WAITING:
                return (("○ waiting", "muted"),)
            case AttemptState.RUNNING:
                return ((f"{Spinner.sign(self._now())} working", "accent"),)
            case AttemptState.USED:
                return (("✓ used", "good"),)
            case _ if attempt.number == self.best:
                return (("best", "good strong"),) if attempt.is_good else (("best, not green", "warn"),)
            case _ if attempt.is_green:
                return (("passes", ""),)
            case _:
                return ((fit(sanitize_line(attempt.verdict), 15), "bad" if attempt.failing else "muted"),)


def _model_cells(columns: Sequence[Column], width: int) -> int:
    return max(12, min(48, width - sum(each.cells + 2 for each in columns)))


def _check(attempt: Attempt, rung: Rung) -> Line:
    outcome = attempt.checks.get(rung)
    return (_SIGNS[outcome],) if outcome is not None else ()


def _tests(attempt: Attempt) -> Line:
    rung = next((each for each in _DECIDING if each in attempt.checks), None)
    if rung is None:
        return ()
    sign, role = _SIGNS[attempt.checks[rung]]
    is_red = attempt.checks[rung] is CheckOutcome.FAILED and attempt.failing
    return ((f"{sign} {attempt.failing}" if is_red else sign, role),)


def _lines(attempt: Attempt) -> Line:
    added, removed = attempt.lines
    return ((f"+{added}", "good"), (f"{MINUS}{removed}".rjust(5), "bad")) if attempt.effect is not None else ()


def _tokens(attempt: Attempt) -> Line:
    count = f"{attempt.tokens / 1000:.1f}k" if attempt.tokens >= 1000 else f"{attempt.tokens}"
    return ((count, ""),) if attempt.tokens else ()


class AttemptsScreen(BesideChat):
    """Lists the attempts and shows what each changes; the active session gets what is used."""

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.DIFF, Scope.APP, Scope.MOVING)
    SCOPE: ClassVar[str] = SCOPE
    DEFAULT_CSS = """
    AttemptsScreen ColumnNames { height: 1; padding: 0 0 0 1; background: $background; }
    AttemptsScreen #attempts-list { height: auto; max-height: 40%; }
    AttemptsScreen #attempts-note { height: auto; padding: 1 1 1 6; background: $background; }
    AttemptsScreen.-short #attempts-note, AttemptsScreen.-low #attempts-note { padding: 0 1; }
    AttemptsScreen.-flat #attempts-note { display: none; }
    AttemptsScreen #attempts-diff { padding: 0 1; }
    AttemptsScreen Verbs { padding: 0 1; background: $background; }
    AttemptsScreen.-low Verbs, AttemptsScreen.-flat Verbs { display: none; }
    """
    tab = "Attempts"

    def __init__(self, attempts: WorkspaceAttempts, workbench: WorkbenchApi, open_session: Callable[[str], object]) -> None:
        super().__init__()
        self._attempts, self._workbench, self._open_session = attempts, workbench, open_session
        self._table = AttemptTable(workbench.now)
        self._names = ColumnNames(self._table, self._table.names)
        self._note, self._verbs = Static("", id="attempts-note", markup=False), Verbs()
        self._diff = DiffView(id="attempts-diff")
        self._shown: object = None

    def content(self) -> Iterable[Widget]:
        """Return the list, the note, the diff and the actions."""
        return self._names, self._table, self._note, self._diff, self._verbs

    def on_mount(self) -> None:
        self.end = self._attempts.follow_changes(self._load)
        self._ticker = self.set_interval(TICK_S, self._table.redraw, pause=not self._attempts.is_running)
        self._load()
        self._table.focus()

    def placed(self) -> None:
        """Show the names of the columns and the keys."""
        self.call_after_refresh(self._names.show)
        self._show_current()

    def tab_parts(self) -> list[Part]:
        """Return the title."""
        return [Part("Attempts", "bold")]

    # -- showing --------------------------------------------------------------------------------------------------------

    def _load(self) -> None:
        if not self.is_attached:
            return
        listed, is_running = list(self._attempts.listed()), self._attempts.is_running
        (self._ticker.resume if is_running else self._ticker.pause)()
        self._table.best = listed[0].number if listed and not is_running and listed[0].effect is not None else 0
        self._table.show(listed)
        self._table.styles.height = max(1, len(listed))
        self.call_after_refresh(self._names.show)
        over = sum(each.is_over for each in listed)
        counts = f"{over} done, {len(listed) - over} running" if is_running else f"{over} done"
        task = Part(fit(sanitize_line(self._attempts.task), max(8, self.app.size.width // 2)), "$text-muted", 2)
        self.draw_tabs([task, Part(counts, "$text", 1)] if listed else [])
        self._tell(listed)
        self._show_current()

    def _tell(self, listed: Sequence[Attempt]) -> None:
        """Say which is best and why, and that the folder is unchanged."""
        used = next((each for each in listed if each.state is AttemptState.USED), None)
        if used is not None:
            self._say(f"Changes of attempt {used.number} are in your folder; /undo reverts them.", "$success")
        elif listed:
            best = f"Best: {reason(listed, listed[0])}. " if not self._attempts.is_running else ""
            self._say(f"{best}Your folder is unchanged until you use one.", "$text-muted")
        else:
            self._say(EMPTY, "$text-muted")

    def _say(self, text: str, style: str = "$warning") -> None:
        self._note.display = bool(text)
        self._note.update(Content.styled(sanitize_line(text), style))

    @on(Table.Marked)
    def _show_current(self) -> None:
        current = self._table.current
        shown = (current.number, current.effect, current.state) if current is not None else None
        if shown != self._shown:
            self._shown = shown
            self._diff.empty_text = nothing_text(current) if current is not None else ""
            effect = current.effect if current is not None else None
            self._diff.show_patches(patches_of(effect.ordered if effect is not None else ()))
        self._show_verbs()

    def _show_verbs(self) -> None:
        current = self._table.current
        if current is None:
            self._verbs.show([])
            self.show_keys([])
            return
        verbs = [command(f"attempts.{each}") for each in _VERBS]
        verbs[0] = replace(verbs[0], hint=f"use attempt {current.number}")
        left_out = {"attempts.stop"} if current.is_over else {"attempts.use", "attempts.diff", "attempts.hunks"}
        self._verbs.show([each for each in verbs if each.id not in left_out])
        self.show_keys(map(command, _KEYS))

    # -- actions --------------------------------------------------------------------------------------------------------

    def action_attempts_file(self, step: int) -> None:
        """Go to the next file, or the one before."""
        self._diff.scroller.step_file(step)

    def action_attempts_pane(self) -> None:
        """Go from the list to the diff, or back."""
        (self._diff if self._table.has_focus else self._table).focus()

    def action_split(self) -> None:
        """Show old and new side by side, or in one column."""
        self._diff.toggle_split()

    def action_attempts_diff(self) -> None:
        """Show all that the current attempt would change."""
        current = self._table.current
        if current is None or current.effect is None or not current.effect.changes:
            self._say(nothing_text(current) if current is not None else "")
            return
        added, removed = current.lines
        title = [Part(f"Attempt {current.number}", "bold"), Part(pluralize(len(current.effect.changes), "file"), "$text-muted")]
        note = [Part(f"+{added} {MINUS}{removed}", "$text-muted", 1)]
        page = CallPage(title, note, lambda _: [], patches_of(current.effect.ordered))
        _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Attempt"))

    def action_attempts_hunks(self) -> None:
        """Choose which files and hunks of the current attempt are kept."""
        current = self._table.current
        if current is None:
            return
        try:
            review = self._attempts.review(current.number, self._session_id)
        except LmtuiError as error:
            self._say(error.full_text(), "$error")
            return
        about = fit(sanitize_line(self._attempts.task), max(8, self.app.size.width // 3))
        _ = self.app.push_screen(EffectReviewScreen(review, f"Attempt {current.number}", about))

    def action_attempts_log(self) -> None:
        """Open the session of the current attempt."""
        current = self._table.current
        if current is None or not current.session or not current.is_over:
            self._say("You can open the session when the attempt is done.")
            return
        _ = self.dismiss(None)
        self._open_session(current.session)

    def action_attempts_do(self, what: str) -> None:
        """Use the current attempt, run one more like it, stop it, or discard all of them; show why if that fails."""
        again, stop = self._attempts.again, self._attempts.stop
        work = {"use": self._use_one, "again": again, "stop": stop, "discard": self._discard}[what]
        if (current := self._table.current) is not None:
            self.run_worker(self._do(work, current.number), group="attempts", exclusive=True)

    @property
    def _session_id(self) -> str:
        active = self._workbench.active
        return active.session.id if active is not None else ""

    async def _use_one(self, number: int) -> None:
        if notes := await self._attempts.use(number, self._session_id):
            self._say("; ".join(notes))

    async def _discard(self, _: int) -> None:
        if await self.app.push_screen_wait(Confirm(*DISCARD)):
            await self._attempts.discard()

    async def _do(self, work: Callable[[int], Awaitable[None]], number: int) -> None:
        try:
            await work(number)
        except LmtuiError as error:
            self._say(error.full_text(), "$error")


def nothing_text(attempt: Attempt) -> str:
    """Return why an attempt has nothing to show."""
    if not attempt.is_over:
        return "Still working." if attempt.state is AttemptState.RUNNING else "Waiting for a free slot."
    return sanitize_line(attempt.problem) or ("It changed no files." if attempt.end is not None else "It was not run.")


class AttemptController(FeatureController):
    """Opens the page of attempts."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"attempts.show": lambda _: self._show()}

    @property
    def _known(self) -> WorkspaceAttempts:
        return self.host.extensions[WorkspaceAttempts]

    def start(self) -> None:
        """Run the agents of attempts in workers of the app, and count those that work."""
        self.workbench.sessions.counts.append(lambda: sum(not row.is_over for row in self._known.listed()))
        self._known.run_agents_in(self.workbench.sessions.run_agent)

    def _show(self) -> None:
        if not isinstance(self.workbench.app.screen, AttemptsScreen):
            _ = self.workbench.app.push_screen(AttemptsScreen(self._known, self.workbench, self.open_session))
