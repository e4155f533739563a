"""The list of attempts: what each changes, and what can be done with it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.verification import CheckOutcome, Rung
from lmtui.features.attempt_values import Attempt, AttemptState, WorkspaceAttempts, reason
from lmtui.features.attempts.commands import DISCARD
from lmtui.tui.commands import Command
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.styled_text import Line, Span, fit
from lmtui.tui.modals.effect_question import EffectReviewScreen
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import Confirm
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


class AttemptList(ListDialog[Attempt, None]):
    """Lists the attempts and opens what each changes; the active session gets what is used."""

    NAME, HEADING, TAB, CHOOSING = "attempts", "Attempts", "attempts.show", "diff with your folder"
    COLUMNS = (
        Column(is_right=True, most=2), Column("model"), Column("parse", 5, from_width=88), Column("lint", 5, from_width=88),
        Column("tests", 8), Column("lines", 12, is_right=True), Column("tokens", 6, is_right=True, from_width=100),
        Column("time", 6, is_right=True, from_width=72), Column("result", 15),
    )  # fmt: skip
    VERBS = (
        ("yes", "use"), ("edit", "choose hunks…"), ("run", "run again"), ("stop", "stop"), ("output", "open session"),
        ("no_all", "discard all"),
    )  # fmt: skip

    def __init__(self, attempts: WorkspaceAttempts, workbench: WorkbenchApi, open_session: Callable[[str], object]) -> None:
        super().__init__()
        self._attempts, self._workbench, self._open_session = attempts, workbench, open_session
        self._best = 0
        self.ends = [attempts.follow_changes(self.reload)]

    def on_mount(self) -> None:
        self._ticker = self.set_interval(TICK_S, self.table.redraw, pause=not self._attempts.is_running)

    @property
    def _session_id(self) -> str:
        active = self._workbench.active
        return active.session.id if active is not None else ""

    async def rows(self) -> Sequence[Attempt]:
        """Return the attempts, and say which is the best."""
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
        return listed

    def key(self, row: Attempt) -> int:
        """Return its number."""
        return row.number

    def about(self, row: Attempt | None) -> tuple[str, Sequence[Command]]:
        """Return what an attempt did in words, and what can be done with it."""
        if row is None:
            return EMPTY, ()
        text = nothing_text(row) if row.effect is None or row.effect.is_empty else "\n".join(row.effect.lines()[:_MOST_FILES])
        return text, self.verbs(*(("stop",) if row.is_over else ("yes", "picker.open", "edit")))

    def cells(self, row: Attempt) -> Sequence[Cell]:
        """Return an attempt in columns."""
        name = sanitize_line(row.model) or "model in use"
        model: Line = ((name, "strong" if row.number == self._best else ""), (f" · {row.temperature:g}", "muted"))
        checks = (_check(row, Rung.PARSE), _check(row, Rung.LINT), _check(row, *_DECIDING))
        tokens = tokens_text(row.tokens) if row.tokens else ""
        return str(row.number), model, *checks, _lines(row), tokens, self._time(row), self._result(row)

    def _time(self, attempt: Attempt) -> str:
        if attempt.started is None:
            return ""
        is_running = attempt.state is AttemptState.RUNNING
        seconds = (self._workbench.now() - attempt.started).total_seconds() if is_running else attempt.elapsed_s
        return f"{int(seconds) // 60}:{int(seconds) % 60:02}"

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

    def do_edit(self, row: Attempt) -> None:
        """Choose which files and hunks of an attempt are kept."""
        review = self._attempts.review(row.number, self._session_id)
        about = fit(sanitize_line(self._attempts.task), max(8, self.app.size.width // 3))
        _ = self.app.push_screen(EffectReviewScreen(review, f"Attempt {row.number}", about))

    def do_output(self, row: Attempt) -> None:
        """Open the session of an attempt."""
        if row.session and row.is_over:
            _ = self.dismiss(None)
            self._open_session(row.session)
        else:
            self.say("You can open the session when the attempt is done.", "$warning")

    async def do_yes(self, row: Attempt) -> None:
        """Use an attempt."""
        if notes := await self._attempts.use(row.number, self._session_id):
            self.say("; ".join(notes), "$warning")

    async def do_run(self, row: Attempt) -> None:
        """Run one more attempt like this."""
        await self._attempts.again(row.number)

    async def do_stop(self, row: Attempt) -> None:
        """Stop an attempt."""
        await self._attempts.stop(row.number)

    async def do_no_all(self, _: Attempt) -> None:
        """Discard all attempts, after a question."""
        if await self.app.push_screen_wait(Confirm(*DISCARD)):
            await self._attempts.discard()


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
