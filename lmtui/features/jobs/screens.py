"""Jobs in the app: it runs them while it is open, lists them, adds one, and opens what came of them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import work
from textual.binding import BindingType

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.jobs.commands import SCOPE
from lmtui.features.jobs.values import JobRecord, Jobs, by_time, job_text, when_text
from lmtui.tui.commands import Command, Scope, bindings, command
from lmtui.tui.lines.styled_text import Line, Span, fit, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.workbench_api import FeatureController, Handler

NEW = "new"
SIGNS: dict[str, Span] = {
    "running": ("●", "accent"), "waiting": ("◔", ""), "paused": ("–", "muted"), "done": ("✓", "good"), "failed": ("✗", "bad"),
}  # fmt: skip
EMPTY = """\
No jobs yet. A job is a task that runs at its scheduled time, while
lmtui is open in this folder or `lmtui scheduler` is running there.

Press n to create one. From the prompt:
  /submit daily 09:00: read the logs
and from a shell:
  lmtui submit "read the logs" --daily 09:00"""
_WHEN_CELLS = 16
_BAD = ("error", "failed", "given up", "blocked", "limit", "unfinished", "stopped")


class JobList(ListDialog[JobRecord, str | None]):
    """Lists the jobs; the result is the session to open, or `NEW`."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP)
    NAME, HEADING, SCOPE, CHOOSING = "jobs", "Jobs", SCOPE, "open"

    def __init__(self, jobs: Jobs, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._jobs, self._now = jobs, now
        self._unfollow: Callable[[], None] = lambda: None

    def on_mount(self) -> None:
        self._unfollow = self._jobs.follow_changes(self._show)
        self._read()

    def on_unmount(self) -> None:
        self._unfollow()

    @work(group="jobs-read", exclusive=True)
    async def _read(self, said: str = "") -> None:
        with self.showing_errors():
            self._show(await self._jobs.read())
            if said:
                self.say(said, "$warning")

    def _show(self, records: Sequence[JobRecord]) -> None:
        self.show(by_time(records))

    def key(self, row: JobRecord) -> str:
        """Return the job's id."""
        return row.id

    def line(self, row: JobRecord, width: int) -> Line:
        """Return a job in aligned columns."""
        sign, style = SIGNS[row.shown_state]
        outcome = "no server yet" if row.tries else sanitize_line(row.last_outcome).partition(":")[0]
        room = max(10, width - _WHEN_CELLS - 5 - 18)
        return (
            (f" {sign} ", style),
            (pad(fit(sanitize_line(row.title), room), room), ""),
            (f" {pad(fit(when_text(row, self._now()), _WHEN_CELLS), _WHEN_CELLS)}", "muted"),
            (fit(outcome, 16), "bad" if outcome.startswith(_BAD) else "muted"),
        )

    def about(self, row: JobRecord | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a job; without any, only a new one can be made."""
        if row is None:
            return EMPTY, [command("jobs.new")]
        return job_text(row, self._now()), self.verbs()

    def act(self) -> None:
        """Open the session of the marked job's last run."""
        job = self.current
        if job is None:
            return
        if job.last_session or job.session:
            _ = self.dismiss(job.last_session or job.session)
        else:
            self.say("not run yet", "$text-muted")

    def action_jobs_new(self) -> None:
        """Ask for a new job."""
        _ = self.dismiss(NEW)

    def action_jobs_run(self) -> None:
        """Run the marked job now."""
        if self.current is not None:
            self._change(self._jobs.run_now, "due now", self.current)

    def action_jobs_pause(self) -> None:
        """Pause the marked job, or let it go on."""
        job = self.current
        if job is not None:
            change, word = (self._jobs.pause, "paused") if job.is_enabled else (self._jobs.resume, "resumed")
            self._change(change, word, job)

    @work(group="jobs", exclusive=True)
    async def action_jobs_remove(self) -> None:
        """Ask, then remove the marked job."""
        job = self.current
        if job is None:
            return
        text = f"{sanitize_line(job.title)}\nIts sessions stay."
        if await self.app.push_screen_wait(Confirm("Remove this job?", text)):
            self._change(self._jobs.remove, "removed", job)

    @work(group="jobs", exclusive=True)
    async def _change(self, change: Callable[[str], Awaitable[JobRecord]], word: str, job: JobRecord) -> None:
        with self.showing_errors():
            _ = await change(job.id)
            self._read(f"{word}: {sanitize_line(job.title)}")


_log = logging.getLogger(__name__)


class JobController(FeatureController):
    """Answers the commands about jobs, and runs the scheduler."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"jobs.show": lambda _: self._show()}

    def start(self) -> None:
        """Run what is due from now on; costs nothing but a look at a file name without jobs."""
        work = self._serve()
        _ = self.workbench.app.run_worker(work, name="scheduler", exclusive=True, group="scheduler", exit_on_error=False)

    async def _serve(self) -> None:
        try:
            await self.host.serve()
        except LmtuiError as error:
            self.workbench.say(error.full_text(), "error")
        except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
            _log.error("the scheduler failed inside", exc_info=error)
            text = f"no jobs are run any more: {sanitize_line(str(error))}"
            self.workbench.say(f"{text}  lmtui.log says where; start lmtui again.", "error")

    def _show(self) -> None:
        _ = self.workbench.app.push_screen(JobList(self.host.extensions[Jobs], self.workbench.now), self._chosen)

    def _chosen(self, chosen: str | None) -> None:
        if chosen == NEW:
            _ = self.workbench.app.run_worker(self.workbench.action_run_command("jobs.add"), group="commands")
        elif chosen:
            self.open_session(chosen)
