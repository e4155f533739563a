"""Jobs in the app: it runs them while it is open, lists them, adds one, and opens what came of them."""

from __future__ import annotations

import logging

from textual.screen import Screen

from lmtui.core.background import BackgroundCommands
from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.jobs import Jobs, NewJob
from lmtui.core.times import LocalZone, moment_text
from lmtui.tui.modals.jobs import NEW, JobList
from lmtui.tui.modals.questions import AskText
from lmtui.tui.stage import Handler, Stage

_log = logging.getLogger(__name__)
WHEN = "in 30m · at 09:00 · every 2h · daily 09:00 · hourly :05 · cron 0 9 * * mon-fri · startup · empty: now"
_WORDS = ("in", "at", "every", "daily", "hourly", "cron", "startup")


class JobsPart:
    """Answers the commands about jobs, and runs the scheduler."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"jobs.show": lambda _: self._show(), "jobs.add": self._add, "background.show": self._background}

    def start(self) -> None:
        """Run what is due from now on; costs nothing but a look at a file name where there are no jobs."""
        jobs = self._jobs()
        if jobs is not None:
            work = self._serve(jobs)
            _ = self._stage.app.run_worker(work, name="scheduler", exclusive=True, group="scheduler", exit_on_error=False)

    async def _serve(self, jobs: Jobs) -> None:
        try:
            await jobs.serve()
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")
        except (OSError, ValueError, TypeError, LookupError, RuntimeError) as error:
            _log.error("the scheduler failed inside", exc_info=error)
            text = f"no jobs are run any more: {clean_line(str(error))}"
            self._stage.say(f"{text}  lmtui.log says where; start lmtui again.", "error")

    def _jobs(self) -> Jobs | None:
        host = self._stage.desk.host
        return host.jobs if host is not None else None

    def _show(self) -> None:
        jobs = self._jobs()
        if jobs is not None:
            _ = self._stage.app.push_screen(JobList(jobs, self._stage.now), self._chosen)

    def _chosen(self, chosen: str | None) -> None:
        if chosen == NEW:
            self._add("")
        elif chosen:
            _ = self._stage.app.run_worker(self._open(chosen), group="open")

    def _background(self, text: str) -> None:
        """Say which background commands there are, or stop one."""
        feed = self._stage.desk.active
        if feed is None:
            return
        background = feed.session.background
        verb, _, identity = text.strip().partition(" ")
        if verb == "stop":
            _ = self._stage.app.run_worker(self._stop(background, identity), group="background")
        else:
            listed = [f"{each.id}  {each.state}  {clean_line(each.command)}" for each in background.commands()]
            self._stage.say("\n".join(listed) or "No command runs in the background. The model starts them.")

    async def _stop(self, background: BackgroundCommands, identity: str) -> None:
        try:
            stopped = await background.stop(identity)
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")
        else:
            self._stage.say(f"{stopped.id} {stopped.state}: {clean_line(stopped.command)}")

    async def _open(self, session_id: str) -> None:
        try:
            _ = await self._stage.desk.open(session_id)
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")

    def _add(self, text: str) -> None:
        _ = self._stage.app.run_worker(self._ask_and_add(text), group="jobs-add", exclusive=True)

    async def _ask_and_add(self, text: str) -> None:
        jobs = self._jobs()
        if jobs is None:
            return
        schedule, task = split_schedule(text)
        if not task:
            task = await self._asked("NEW JOB: WHAT TO DO", "a task, as you would type it")
            schedule = await self._asked("WHEN?", WHEN) if task else ""
        if not task:
            return
        try:
            job = await jobs.add(NewJob(text=task, schedule=schedule))
        except LmtuiError as error:
            self._stage.say(error.full_text(), "error")
            return
        when = moment_text(job.due, self._stage.now(), LocalZone()) if job.due is not None else "at the next start"
        self._stage.say(f"job {job.id}: {clean_line(job.title)}, {when}; what would ask is refused, as nobody is there")

    async def _asked(self, title: str, placeholder: str) -> str:
        question: Screen[str | None] = AskText(title, placeholder=placeholder)
        return await self._stage.app.push_screen_wait(question) or ""


def split_schedule(text: str) -> tuple[str, str]:
    """Return the schedule that a text begins with, up to a colon and a blank, and the task; `daily 09:00: read the logs`."""
    text = text.strip()
    if text.partition(" ")[0].rstrip(":").lower() not in _WORDS or ": " not in text:
        return "", text
    schedule, _, task = text.partition(": ")
    return schedule.strip(), task.strip()
