"""Jobs in the app: it runs them while it is open, lists them, adds one, and opens what came of them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from datetime import datetime

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize_line
from lmtui.features.jobs.values import JobRecord, Jobs, by_time, job_text, when_text
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Span
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.workbench_api import FeatureController, Handler

NEW = "new"
SIGNS: dict[str, Span] = {
    "running": ("●", "accent"), "waiting": ("◔", ""), "paused": ("–", "muted"), "done": ("✓", "good"), "failed": ("✗", "bad"),
}  # fmt: skip
EMPTY = """\
No jobs yet. A job is a task that runs at its scheduled time, while
lmtui is open in this folder or `lmtui scheduler` is running there.

Press a to create one. From the prompt:
  /submit daily 09:00: read the logs
and from a shell:
  lmtui submit "read the logs" --daily 09:00"""
_BAD = ("error", "failed", "given up", "blocked", "limit", "unfinished", "stopped")


class JobList(ListDialog[JobRecord, str | None]):
    """Lists the jobs; the result is the session to open, or `NEW`."""

    NAME, HEADING, TAB, CHOOSING = "jobs", "Jobs", "jobs.show", "open"
    COLUMNS = (Column(most=1), Column("job"), Column("when", 24), Column("last run", 16))
    VERBS = (("add", "new"), ("run", "run now"), ("switch", "pause"), ("delete", "remove"))

    def __init__(self, jobs: Jobs, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._jobs, self._now = jobs, now
        self.ends = [jobs.follow_changes(lambda _: self.reload())]

    async def rows(self) -> Sequence[JobRecord]:
        """Read the jobs."""
        return by_time(await self._jobs.read())

    def key(self, row: JobRecord) -> str:
        """Return the job's id."""
        return row.id

    def cells(self, row: JobRecord) -> Sequence[Cell]:
        """Return a job in columns."""
        outcome = "no server yet" if row.tries else sanitize_line(row.last_outcome).partition(":")[0]
        when: Span = (when_text(row, self._now()), "muted")
        return SIGNS[row.shown_state], sanitize_line(row.title), when, (outcome, "bad" if outcome.startswith(_BAD) else "muted")

    def about(self, row: JobRecord | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a job; without any, only a new one can be made."""
        if row is None:
            return EMPTY, self.verbs("picker.open", "run", "switch", "delete")
        return job_text(row, self._now()), self.verbs()

    def act(self) -> None:
        """Open the session of the marked job's last run."""
        if self.current is not None and (session := self.current.last_session or self.current.session):
            _ = self.dismiss(session)
        elif self.current is not None:
            self.say("not run yet", "$text-muted")

    def do_add(self, row: JobRecord | None) -> None:
        """Ask for a new job."""
        del row
        _ = self.dismiss(NEW)

    async def do_run(self, job: JobRecord) -> None:
        """Run a job now."""
        _ = await self._jobs.run_now(job.id)
        self.say(f"due now: {sanitize_line(job.title)}", "$warning")

    async def do_switch(self, job: JobRecord) -> None:
        """Pause a job, or let it go on."""
        _ = await (self._jobs.pause if job.is_enabled else self._jobs.resume)(job.id)
        self.say(f"{'paused' if job.is_enabled else 'resumed'}: {sanitize_line(job.title)}", "$warning")

    async def do_delete(self, job: JobRecord) -> None:
        """Ask, then remove a job."""
        if await self.app.push_screen_wait(Confirm("Remove this job?", f"{sanitize_line(job.title)}\nIts sessions stay.")):
            _ = await self._jobs.remove(job.id)


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
            text = f"The job scheduler stopped: {sanitize_line(str(error))}"
            self.workbench.say(f"{text}  See lmtui.log and restart lmtui.", "error")

    def _show(self) -> None:
        _ = self.workbench.app.push_screen(JobList(self.host.extensions[Jobs], self.workbench.now), self._chosen)

    def _chosen(self, chosen: str | None) -> None:
        if chosen == NEW:
            _ = self.workbench.app.run_worker(self.workbench.action_run_command("jobs.add"), group="commands")
        elif chosen:
            self.open_session(chosen)
