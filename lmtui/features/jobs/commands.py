"""Commands of jobs: list them, add one."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import Ask, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.sanitize import sanitize_line
from lmtui.core.times import LocalZone, moment_text
from lmtui.features.jobs.values import Jobs, NewJob, job_lines

SCHEDULE_FORMS = "in 30m · at 09:00 · every 2h · daily 09:00 · hourly :05 · cron 0 9 * * mon-fri · startup · empty: now"
_SCHEDULE_WORDS = ("in", "at", "every", "daily", "hourly", "cron", "startup")


async def show_jobs(context: CommandContext, _: str) -> OpenView:
    """List the jobs."""

    async def lines() -> Iterable[str]:
        records = await context.host.extensions[Jobs].read()
        return (*job_lines(records, context.now()), "change them with `lmtui submit` and `lmtui jobs` in a shell")

    return OpenView("jobs.show", text=lines)


async def add_job(context: CommandContext, text: str) -> Result:
    """Let a task run by itself; what is not said is asked."""

    async def add(task: str, schedule: str) -> Output:
        job = await context.host.extensions[Jobs].add(NewJob(text=task, schedule=schedule))
        when = moment_text(job.due, context.now(), LocalZone()) if job.due is not None else "at the next start"
        return Output((f"job {job.id}: {sanitize_line(job.title)}, {when}; anything that needs approval is denied",))

    async def ask_when(task: str) -> Result:
        return Ask("WHEN?", lambda schedule: add(task, schedule), placeholder=SCHEDULE_FORMS) if task else None

    schedule, task = split_schedule(text)
    if task:
        return await add(task, schedule)
    return Ask("NEW JOB: TASK", ask_when, placeholder="a task, as you would type it")


async def _status(context: CommandContext) -> tuple[str, str]:
    offers = context.host.extensions
    return "jobs", str(len(await offers[Jobs].read() if Jobs in offers else ()) or "")


def split_schedule(text: str) -> tuple[str, str]:
    """Return the schedule that a text begins with, up to a colon and a blank, and the task; `daily 09:00: read the logs`."""
    text = text.strip()
    if text.partition(" ")[0].rstrip(":").lower() not in _SCHEDULE_WORDS or ": " not in text:
        return "", text
    schedule, _, task = text.partition(": ")
    return schedule.strip(), task.strip()


COMMANDS: tuple[Command, ...] = (
    Command("jobs.show", Scope.WORKBENCH, "Jobs", "List scheduled jobs; run, pause or remove one, or open its last session.",
        slash=("jobs",), tab=("Runs", "Jobs"), handler=show_jobs, status=_status, instead="`lmtui jobs`"),
    Command("jobs.add", Scope.WORKBENCH, "New job", "Schedule a task: now, or at a time such as daily 09:00.",
        slash=("submit",), is_rare=True, argument="[daily 09:00: task]", handler=add_job, instead='`lmtui submit "TASK"`'),
)  # fmt: skip
