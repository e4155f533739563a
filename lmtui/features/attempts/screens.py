"""The list of attempts: what each changes, and what can be done with it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.verification import CheckOutcome, Rung
from lmtui.features.attempt_values import Attempt, AttemptState, WorkspaceAttempts, reason
from lmtui.features.attempts.commands import DISCARD, SCOPE
from lmtui.tui.commands import Command, Scope, bindings
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.styled_text import Line, Span, fit, pad, width_of
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.screens.effect_review import EffectReviewScreen
from lmtui.tui.screens.output_screen import CallPage, OutputScreen
from lmtui.tui.widgets.bars import Part, Spinner
from lmtui.tui.wording import tokens_text
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
_MOST_FILES = 8
Column = tuple[str, int, Line]
"""A name, its cells (negative: numbers, which are aligned right), and what is in it in a row."""


class AttemptList(ListDialog[Attempt, None]):
    """Lists the attempts and opens what each changes; the active session gets what is used."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP)
    NAME, HEADING, SCOPE, CHOOSING = "attempts", "Attempts", SCOPE, ""

    def __init__(self, attempts: WorkspaceAttempts, workbench: WorkbenchApi, open_session: Callable[[str], object]) -> None:
        super().__init__()
        self._attempts, self._workbench, self._open_session = attempts, workbench, open_session
        self._best = 0
        self._unfollow: Callable[[], None] = lambda: None

    def on_mount(self) -> None:
        self._unfollow = self._attempts.follow_changes(self._load)
        self._ticker = self.set_interval(TICK_S, self.table.redraw, pause=not self._attempts.is_running)
        self._load()

    def on_unmount(self) -> None:
        self._unfollow()

    @property
    def _session_id(self) -> str:
        active = self._workbench.active
        return active.session.id if active is not None else ""

    def _load(self) -> None:
        listed, is_running = list(self._attempts.listed()), self._attempts.is_running
        (self._ticker.resume if is_running else self._ticker.pause)()
        self._best = listed[0].number if listed and not is_running and listed[0].effect is not None else 0
        over = sum(each.is_over for each in listed)
        self.box.count((f"{over} done, {len(listed) - over} running" if is_running else f"{over} done") if listed else "")
        used = next((each.number for each in listed if each.state is AttemptState.USED), 0)
        best = f"Best: {reason(listed, listed[0])}. " if listed and not is_running else ""
        about = f"{best}Your folder is unchanged until you use one."
        about = f"Changes of attempt {used} are in your folder; /undo reverts them." if used else about
        self.box.show_head(f"{sanitize_line(self._attempts.task)}\n{sanitize_line(about)}" if listed else "")
        self.show(listed)

    def key(self, row: Attempt) -> int:
        """Return its number."""
        return row.number

    def about(self, row: Attempt | None) -> tuple[str, Sequence[Command]]:
        """Return what an attempt did in words, and what can be done with it."""
        if row is None:
            return EMPTY, ()
        text = nothing_text(row) if row.effect is None or row.effect.is_empty else "\n".join(row.effect.lines()[:_MOST_FILES])
        return text, self.verbs(*(("attempts.stop",) if row.is_over else ("attempts.use", "attempts.diff", "attempts.hunks")))

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        if not self.all_rows:
            return ()
        columns = self._columns(self.all_rows[0], width)
        names = (name.rjust(-cells) if cells < 0 else pad(name, cells) for name, cells, _ in columns)
        return (("  ".join(("   model".ljust(_model_cells(columns, width)), *names)), ""),)

    def _columns(self, row: Attempt, width: int) -> list[Column]:
        """Return the columns behind the model that have something to show and room for it."""
        rungs = {rung for each in self.all_rows for rung in each.checks}
        every: list[tuple[int, Column]] = [
            *((88, (str(rung), 5, _check(row, rung))) for rung in (Rung.PARSE, Rung.LINT) if rung in rungs),
            *([(0, ("tests", 5, _check(row, *_DECIDING)))] if rungs & {*_DECIDING} else []),
            (0, ("lines", -11, _lines(row))),
            (100, ("tokens", -6, ((tokens_text(row.tokens), ""),) if row.tokens else ())),
            (72, ("time", -5, self._time(row))),
            (0, ("result", 15, self._result(row))),
        ]
        return [column for from_width, column in every if width >= from_width]

    def line(self, row: Attempt, width: int) -> Line:
        """Return an attempt in aligned columns."""
        columns = self._columns(row, width)
        room = _model_cells(columns, width) - 3
        heat = f" · {row.temperature:g}"
        name = fit(sanitize_line(row.model) or "model in use", max(4, room - len(heat)))
        found: list[Span] = [(f"{row.number:>2} ", ""), (name, "strong" if row.number == self._best else "")]
        found.append((pad(fit(heat, max(0, room - len(name))), max(0, room - len(name))), "muted"))
        for _, cells, line in columns:
            rest: Span = (" " * max(0, abs(cells) - width_of(line)), "")
            found += [("  ", ""), *((rest, *line) if cells < 0 else (*line, rest))]
        return tuple(found)

    def _time(self, attempt: Attempt) -> Line:
        if attempt.started is None:
            return ()
        is_running = attempt.state is AttemptState.RUNNING
        seconds = (self._workbench.now() - attempt.started).total_seconds() if is_running else attempt.elapsed_s
        return ((f"{int(seconds) // 60}:{int(seconds) % 60:02}", ""),)

    def _result(self, attempt: Attempt) -> Line:
        match attempt.state:
            case AttemptState.WAITING:
                return (("○ waiting", "muted"),)
            case AttemptState.RUNNING:
                return ((f"{Spinner.sign(self._workbench.now())} working", "accent"),)
            case AttemptState.USED:
                return (("✓ used", "good"),)
            case _ if attempt.number == self._best:
                return (("best", "good strong"),) if attempt.is_good else (("best, not green", "warn"),)
            case _ if attempt.is_green:
                return (("passes", ""),)
            case _:
                return ((fit(sanitize_line(attempt.verdict), 15), "bad" if attempt.failing else "muted"),)

    def act(self) -> None:
        """Show all that the marked attempt would change."""
        row = self.current
        if row is None or row.effect is None or not row.effect.changes:
            self.say(nothing_text(row) if row is not None else EMPTY, "$warning")
            return
        added, removed = row.lines
        title = [Part(f"Attempt {row.number}", "bold"), Part(pluralize(len(row.effect.changes), "file"), "$text-muted")]
        note = [Part(f"+{added} {MINUS}{removed}", "$text-muted", 1)]
        page = CallPage(title, note, lambda _: [], patches_of(row.effect.ordered))
        _ = self.app.push_screen(OutputScreen(lambda _: page, tab="Attempt"))

    def action_attempts_diff(self) -> None:
        """Show all that the marked attempt would change."""
        self.act()

    def action_attempts_hunks(self) -> None:
        """Choose which files and hunks of the marked attempt are kept."""
        if self.current is not None:
            with self.showing_errors():
                review = self._attempts.review(self.current.number, self._session_id)
                about = fit(sanitize_line(self._attempts.task), max(8, self.app.size.width // 3))
                _ = self.app.push_screen(EffectReviewScreen(review, f"Attempt {self.current.number}", about))

    def action_attempts_log(self) -> None:
        """Open the session of the marked attempt."""
        row = self.current
        if row is None or not row.session or not row.is_over:
            self.say("You can open the session when the attempt is done.", "$warning")
            return
        _ = self.dismiss(None)
        self._open_session(row.session)

    def action_attempts_do(self, what: str) -> None:
        """Use the marked attempt, run one more like it, stop it, or discard all of them; say why if that fails."""
        again, stop = self._attempts.again, self._attempts.stop
        work = {"use": self._use, "again": again, "stop": stop, "discard": self._discard}[what]
        if self.current is not None:
            self.run_worker(self._do(work, self.current.number), group="attempts", exclusive=True)

    async def _use(self, number: int) -> None:
        if notes := await self._attempts.use(number, self._session_id):
            self.say("; ".join(notes), "$warning")

    async def _discard(self, _: int) -> None:
        if await self.app.push_screen_wait(Confirm(*DISCARD)):
            await self._attempts.discard()

    async def _do(self, work: Callable[[int], Awaitable[None]], number: int) -> None:
        with self.showing_errors():
            await work(number)


def _model_cells(columns: Sequence[Column], width: int) -> int:
    return max(12, min(48, width - sum(abs(cells) + 2 for _, cells, _ in columns)))


def _check(attempt: Attempt, *rungs: Rung) -> Line:
    """Return the outcome of the first of some checks that ran, and how many tests fail."""
    rung = next((each for each in rungs if each in attempt.checks), None)
    if rung is None:
        return ()
    sign, role = _SIGNS[attempt.checks[rung]]
    is_red = rung in _DECIDING and attempt.checks[rung] is CheckOutcome.FAILED and attempt.failing
    return ((f"{sign} {attempt.failing}" if is_red else sign, role),)


def _lines(attempt: Attempt) -> Line:
    added, removed = attempt.lines
    return ((f"+{added}", "good"), (f"{MINUS}{removed}".rjust(5), "bad")) if attempt.effect is not None else ()


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
        if not isinstance(self.workbench.app.screen, AttemptList):
            _ = self.workbench.app.push_screen(AttemptList(self._known, self.workbench, self.open_session))
