"""Jobs without a screen: `submit`, `jobs` and `scheduler`, each from settings to exit code."""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from pydantic import BaseModel, TypeAdapter, ValidationError

from lmtui.command_line import EXIT_INTERRUPTED, Parser, add_common, make_parser, say, stopping, with_report
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.features.jobs.job_table import by_column
from lmtui.features.jobs.scheduler import EMPTY_NAP_S
from lmtui.features.jobs.service import WorkspaceJobs
from lmtui.features.jobs.values import JobRecord, Jobs, Missed, NewJob, job_lines, when_text
from lmtui.features.service import CommandCall, FeatureHost, Import, text_to_import
from lmtui.settings import MODES

_DONE = {"run": "due now", "pause": "paused", "resume": "resumed", "remove": "removed"}
_SCHEDULES = ("at", "every", "daily", "hourly", "cron")


def submit_parser() -> Parser:
    """Return the parser of `lmtui submit`."""
    parser = make_parser(
        "submit", "Add a task that runs by itself, now or at its time.", 'lmtui submit "run all tests" --daily 02:30'
    )
    add = parser.add_argument
    add("task", metavar="TASK", help="what to do; - reads it from standard input")
    add("--at", metavar="TIME", help="once: 2026-05-01T09:00 (Z, +02:00 for other zones), 09:00, 'in 30m'")
    add("--every", metavar="SPAN", help="repeat: 90s, 30m, 2h, 1d")
    add("--daily", metavar="HH:MM", help="every day")
    add("--hourly", metavar=":MM", help="every hour")
    add("--cron", metavar="FIELDS", help='five fields: "0 9 * * mon-fri"')
    add("--startup", action="store_true", help="whenever a scheduler starts here")
    add("--zone", metavar="NAME", help="the time zone of these times, such as Europe/Berlin (default: this machine's)")
    add("--missed", choices=("run", "skip"), default="run", help="missed runs: run late or skip")
    add("--mode", choices=MODES, help="permission mode; anything that needs approval is denied")
    add("--allow", action="append", metavar="RULE", help="allow matching calls, for this job")
    add("--deny", action="append", metavar="RULE", help="deny matching calls, for this job")
    add("--name", metavar="TITLE", help="title of the job and of its sessions")
    add("--session", metavar="ID", help="reuse this session for every run (default: a new one)")
    return with_report(parser)


async def submit(call: CommandCall) -> int:
    """Add a job."""
    arguments = call.arguments
    text = sys.stdin.read() if arguments.task == "-" else arguments.task
    wanted = NewJob(
        text=text,
        schedule=schedule_of(arguments),
        zone=arguments.zone or "",
        title=arguments.name or "",
        session=arguments.session or "",
        mode=arguments.mode or "",
        allow=tuple(arguments.allow or ()),
        deny=tuple(arguments.deny or ()),
        missed=Missed(arguments.missed),
    )
    async with call.open_host() as host:
        record = await host.extensions[Jobs].add(wanted)
        is_scheduled = await asyncio.to_thread(host.extensions[Jobs].is_scheduled)
    if arguments.json:
        _print_json([record])
    else:
        say(f"{record.id}  {when_text(record, datetime.now(UTC))}  {record.title}")
    if not is_scheduled:
        say("Nothing runs jobs here now: it waits for `lmtui scheduler`, or for lmtui to be opened.", file=sys.stderr)
    return 0


def schedule_of(arguments: argparse.Namespace) -> str:
    """Return the schedule that the options name, empty for as soon as possible.

    Raises:
        UsageError: they name several.
    """
    given = [f"{name} {getattr(arguments, name)}" for name in _SCHEDULES if getattr(arguments, name) is not None]
    given += ["startup"] if arguments.startup else []
    if len(given) > 1:
        raise UsageError("a job has one schedule", "Leave one of them out: " + ", ".join(given))
    return given[0] if given else ""


def jobs_parser() -> Parser:
    """Return the parser of `lmtui jobs`."""
    parser = make_parser("jobs", "List the jobs of a workspace, or change one.", "lmtui jobs pause 3fa2b1c0")
    parser.add_argument("action", nargs="?", choices=("list", *_DONE), default="list")
    parser.add_argument("id", nargs="?", metavar="ID", help="a job's id, a unique end of it, or its title")
    return with_report(parser)


async def jobs(call: CommandCall) -> int:
    """List the jobs, or change one."""
    arguments = call.arguments
    async with call.open_host() as host:
        if arguments.action != "list":
            if not arguments.id:
                raise UsageError(f"`lmtui jobs {arguments.action}` needs the ID of a job", "`lmtui jobs` lists them.")
            jobs = host.extensions[Jobs]
            changes = {"run": jobs.run_now, "pause": jobs.pause, "resume": jobs.resume, "remove": jobs.remove}
            record = await changes[arguments.action](arguments.id)
            say(f"{_DONE[arguments.action]}: {record.id}  {record.title}", file=sys.stderr)
            return 0
        records = await host.extensions[Jobs].read()
    if arguments.json:
        _print_json(records)
        return 0
    for line in job_lines(records, datetime.now(UTC)):
        say(line)
    return 0


def scheduler_parser() -> Parser:
    """Return the parser of `lmtui scheduler`."""
    parser = make_parser("scheduler", "Run jobs at their time, without a screen, until stopped.", "lmtui scheduler --once")
    parser.add_argument("--once", action="store_true", help="run what is due now, then end")
    parser.add_argument(
        "--interval-s", type=float, default=EMPTY_NAP_S, metavar="N", help="seconds between checks for a first job"
    )
    add_common(parser)
    return parser


async def scheduler(call: CommandCall) -> int:
    """Run what is due until it is stopped, or with `--once` what is due now."""
    arguments = call.arguments
    async with call.open_host() as host:
        jobs = host.extensions[Jobs]
        assert isinstance(jobs, WorkspaceJobs)
        jobs.on_problem = lambda text: print(f"lmtui: {sanitize_line(text)}", file=sys.stderr, flush=True)
        if await asyncio.to_thread(jobs.is_scheduled):
            jobs.on_problem("another lmtui process runs this folder's jobs; this one takes over when it ends")
        teller = _Teller(await jobs.read())
        _ = jobs.follow_changes(teller.take)
        stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        with stopping(stop.cancel):
            serving = asyncio.ensure_future(jobs.serve(until_empty=arguments.once, interval_s=arguments.interval_s))
            await asyncio.wait({serving, stop}, return_when=asyncio.FIRST_COMPLETED)
            is_stopped = not serving.done()
            await jobs.stop()
        if not is_stopped:
            serving.result()
        text, has_failed = teller.end(await jobs.read(), is_stopped=is_stopped)
        say(text, file=sys.stderr, flush=True)
    return EXIT_INTERRUPTED if is_stopped else int(has_failed)


class _Teller:
    """Says on standard error what begins and what ends, and at last what came of it all.

    Args:
        records: the jobs as they are before the first of them begins.
    """

    def __init__(self, records: Sequence[JobRecord]) -> None:
        self._told = {job.id: _state(job) for job in records}
        self._runs = {job.id: job.runs for job in records}

    def take(self, records: Sequence[JobRecord]) -> None:
        """Take the jobs as they are now."""
        for job in records:
            line = f"{job.title}  begins" if job.claim else f"{job.title}  {job.last_outcome}  {job.last_session}"
            state = _state(job)
            if (job.claim or job.runs or job.tries) and self._told.get(job.id) != state:
                print(f"{datetime.now().astimezone():%H:%M:%S}  {job.id}  {sanitize_line(line)}", file=sys.stderr, flush=True)
            self._told[job.id] = state

    def end(self, records: Sequence[JobRecord], *, is_stopped: bool) -> tuple[str, bool]:
        """Return how many jobs ran and what is next, in one line; and whether one of those that ran did not end well."""
        ran = [job for job in records if job.runs > self._runs.get(job.id, 0)]
        cut = sum(bool(job.begun_session) and not job.claim for job in records)
        waiting = [job for job in records if job.next_time is not None and job.is_enabled and not job.claim]
        coming = min(waiting, key=lambda job: job.next_time or job.created, default=None)
        parts = [
            "stopped" if is_stopped else "nothing more is due",
            f"{pluralize(sum(job.runs - self._runs.get(job.id, 0) for job in ran), 'job')} ran",
            *([f"{pluralize(cut, 'job')} to be gone on with"] if cut else []),
            f"next is {sanitize_line(coming.title)}, {when_text(coming, datetime.now(UTC))}" if coming else "none to come",
        ]
        return "; ".join(parts), any(not job.last_outcome.startswith("done") for job in ran)


def _state(job: JobRecord) -> str:
    return f"{job.runs} {job.tries} {job.claim or job.last_outcome}"


def _print_json(records: Sequence[JobRecord]) -> None:
    rows = [by_column(record) | {"state": record.state} for record in records]
    print(json.dumps(rows, indent=2, ensure_ascii=False))


class _CronJob(BaseModel):
    """A job of a `cron.json`, with a cron expression as its schedule."""

    schedule: str
    prompt: str
    name: str = ""


def imports(host: FeatureHost) -> list[Import]:
    """Return the jobs of a `cron.json`; they are added as paused."""
    jobs = host.extensions[Jobs]

    async def add(job: _CronJob) -> str:
        if any(each.text == job.prompt for each in await jobs.read()):
            return "it already exists"
        record = await jobs.add(NewJob(text=job.prompt, schedule=f"cron {job.schedule}", title=job.name))
        await jobs.pause(record.id)
        return f"paused; to start it, run `lmtui jobs resume {record.id}`"

    try:
        found = TypeAdapter(list[_CronJob]).validate_json(text_to_import(host.workspace, "cron.json") or "[]")
    except ValidationError as error:
        raise UsageError(f"cron.json is not a list of jobs: {error.errors()[0]['msg']}", "Fix it, or rename it.") from error
    return [Import(f"job from cron.json, {job.schedule}: {job.prompt}", partial(add, job)) for job in found]
