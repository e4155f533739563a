"""`lmtui pipeline`: work through a plan without a screen, and look at what came of it."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict, replace
from datetime import UTC, datetime
from typing import Any

from lmtui.command_line import EXIT_INTERRUPTED, Parser, add_common, add_task_options, make_parser, say, until_stopped
from lmtui.core.errors import LmtuiError, SandboxError, UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import json_value
from lmtui.features.pipeline.plan_queue import PipelineFile, find_plan, run_lock
from lmtui.features.pipeline.planner import ideate_task, preflight
from lmtui.features.pipeline.report import SCHEMA_VERSION, migrated, read_report, report_json, report_markdown, report_object
from lmtui.features.pipeline.service import PipelineService
from lmtui.features.pipeline.values import PipelinePlan, TaskAction, WorkspacePipeline, status_lines, task_line
from lmtui.features.service import CommandCall

EXIT_NOT_DONE = 2
_MAX_REPORT_BYTES = 64_000_000
_COUNTS = {"status": (0,), "preflight": (1,), "answer": range(3, 10_000)} | dict.fromkeys(map(str, TaskAction), (2,))
_TAKES = {"status": "no more words", "preflight": "PLAN", "answer": "PLAN N TEXT"}
_TAKES |= dict.fromkeys(map(str, TaskAction), "PLAN N")
_ACTIONS = ("run", "preflight", "status", "retry-failed", "done", "gates", "report", "answer", *map(str, TaskAction))


def pipeline_parser() -> Parser:
    """Return the parser of `lmtui pipeline`."""
    doc = (
        "Work through a plan: an agent does each task in an overlay, commands check it, and what passes is kept.\n\n"
        "  run PLAN.md            plan it if needed, then work until no task can start\n"
        "  run                    work on each plan in the folder plans, then wait for more until stopped\n"
        "  preflight PLAN.md      show the size, parts and problems of a plan; changes nothing\n"
        "  status                 list plans and tasks\n"
        "  retry-failed [PLAN]    make failed tasks ready again\n"
        "  retry|skip|pause|resume PLAN N    change task N\n"
        "  answer PLAN N TEXT     answer a BLOCKING question\n"
        "  done|gates [PLAN]      run all checks of a plan again, and say why it is not done\n"
        "  report [PLAN]          print the report of a plan\n"
        "  report check|migrate FILE    check a report, or rewrite one of schema version 1 as version 2\n"
        "Exit code of run, done and preflight: 0 done, 2 not done or a problem, 1 error, 64 wrong usage, 130 interrupted."
    )
    parser = make_parser("pipeline", doc, "lmtui pipeline run PLAN.md")
    add = parser.add_argument
    add("action", choices=_ACTIONS, metavar="ACTION", help="what to do, see above")
    add("words", nargs="*", metavar="PLAN", help="the file of a plan, or its name")
    add("--single-run", action="store_true", help="run: stop after one round of tasks, or without a plan when none is left")
    add("--phase", default="", metavar="NAME", help="run: only the tasks of this phase")
    add("--phase-gated", action="store_true", help="run: write several tasks, then review them, so that models load less often")
    add("--batch-size", type=int, default=0, metavar="N", help="run: as --phase-gated, with this many tasks (default 4)")
    add("--architect-only", action="store_true", help="run: only plan")
    add("--no-git", action="store_true", help="run: commit nothing")
    add("--json", action="store_true", help="one JSON value instead of text")
    add_common(parser)
    return parser


async def pipeline(call: CommandCall) -> int:
    """Run the action."""
    arguments = call.arguments
    match arguments.action, arguments.words:
        case "status", []:
            return await _status(call)
        case "report", ["check" | "migrate" as verb, path]:
            return await _read_report(call, path, migrates=verb == "migrate")
        case action, words if len(words) not in _COUNTS.get(action, range(2)):
            takes = _TAKES.get(action, "at most one PLAN")
            raise UsageError(f"`lmtui pipeline {action}` takes {takes}", "`lmtui pipeline --help` lists the actions.")
        case _, [_, number, *_] if not number.isdecimal():
            raise UsageError(f"{number[:40]!r} is not a task number")
        case "run", [] if arguments.architect_only:
            raise UsageError("--architect-only needs the file of a plan", "lmtui pipeline run PLAN.md --architect-only")
        case "run", _ if arguments.batch_size < 0:
            raise UsageError(f"--batch-size is {arguments.batch_size}", "Give a number of 1 or more.")
        case _, words:
            async with call.open_host() as host:
                service = host.extensions[WorkspacePipeline]
                assert isinstance(service, PipelineService)
                return await _act(service, arguments, *words)


async def _act(service: PipelineService, arguments: argparse.Namespace, wanted: str = "", number: str = "", *text: str) -> int:
    match arguments.action:
        case "run":
            return await _run(service, wanted, arguments)
        case "preflight":
            return await _preflight(service, wanted, arguments)
        case "retry-failed":
            say("\n".join(status_lines([await service.retry_failed(wanted)])))
        case "report":
            plan = find_plan(await service.read(), wanted)
            report = report_object(plan, [] if plan.is_done else [plan.problem or plan.summary()], [])
            _tell(arguments, report, report_markdown(report))
        case "done" | "gates":
            plan, reasons = await service.gate(wanted)
            lines = [f"{plan.name}: {'not done' if reasons else 'done'}", *(f"- {sanitize_line(each)}" for each in reasons)]
            _tell(arguments, {"plan": plan.name, "done": not reasons, "reasons": reasons}, "\n".join(lines))
            return EXIT_NOT_DONE if reasons else 0
        case "answer":
            await service.answer(wanted, int(number), " ".join(text))
        case action:
            await service.do(wanted, int(number), TaskAction(action))
            plan = await service.find(wanted)
            say(task_line(plan, plan.task(int(number))))
    return 0


def _tell(arguments: argparse.Namespace, value: object, text: str) -> None:
    """Print a value where JSON is wanted, else a text."""
    if arguments.json:
        print(json.dumps(value, ensure_ascii=False))
    else:
        say(text)


async def _run(service: PipelineService, path: str, arguments: argparse.Namespace) -> int:
    told = _ProgressLines(await service.read())
    service.on_note = told.note
    if path:
        _ = await service.plan_text(path)
    _ = await service.host.choose_server()
    await service.host.require_sandbox()
    unfollow = service.follow_changes(lambda: told.take(service.known))
    options, once = service.options(), arguments.single_run
    batch = arguments.batch_size or (4 if arguments.phase_gated else 0)
    has_commits = options.has_commits and not arguments.no_git
    options = replace(options, phase=arguments.phase, is_once=once, batch=batch, has_commits=has_commits)
    work = service.planned if arguments.architect_only else service.work
    plans = asyncio.gather(work(path, options)) if path else service.watch(options, is_once=once)
    try:
        done = await until_stopped(plans, "finished work is kept, and the next run continues")
    finally:
        unfollow()
        await service.close()
    if done is None:
        return EXIT_INTERRUPTED
    found = [*map(plan_object, done)]
    lines = status_lines(done) if done else ["Nothing to do: no plan is left."]
    _tell(arguments, found[0] if path else found, "\n".join(lines))
    if not arguments.json:
        say("\n".join(f"report: {plan.folder}/quality_report.md" for plan in done), file=sys.stderr)
    return 0 if arguments.architect_only or all(plan.is_done for plan in done) else EXIT_NOT_DONE


async def _preflight(service: PipelineService, path: str, arguments: argparse.Namespace) -> int:
    text = await service.plan_text(path)
    window_tokens = 0
    with contextlib.suppress(LmtuiError):
        window_tokens = await service.window_tokens()
    rows = preflight(text, window_tokens or 8_192, service.host.count_tokens)
    window = f"{window_tokens:,} tokens" if window_tokens else "unknown; 8,192 assumed"
    problems = [value for name, _, value in rows if name == "problem"]
    found = {name.replace(" ", "_"): value for name, _, value in rows if name != "problem"}
    lines = [f"{name:<12} {told}" for name, told, _ in [("window", window, None), *rows]]
    _tell(arguments, {"window": window_tokens or None, **found, "problems": problems}, "\n".join(lines))
    return EXIT_NOT_DONE if problems else 0


async def _status(call: CommandCall) -> int:
    file = PipelineFile(call.workspace.workspace)
    try:
        plans = await asyncio.to_thread(file.read)
    finally:
        await asyncio.to_thread(file.close)
    _tell(call.arguments, [*map(plan_object, plans)], "\n".join(status_lines(plans)))
    if not call.arguments.json and any(each.is_at_work for each in plans):
        with contextlib.suppress(UsageError), run_lock(call.workspace.workspace):
            say("Nothing works on this any more: `lmtui pipeline run PLAN.md` continues it.", file=sys.stderr)
    return 0


async def _read_report(call: CommandCall, path: str, *, migrates: bool) -> int:
    """Check a report, or rewrite one of an earlier version."""
    sandbox, name = await call.workspace.sandbox(), sanitize_line(path)
    try:
        content = await sandbox.read_file(path, _MAX_REPORT_BYTES)
        report = read_report(content.data)
    except (UsageError, SandboxError) as error:
        say(error.full_text() if isinstance(error, SandboxError) else f"{name}: {error.full_text()}", file=sys.stderr)
        return EXIT_NOT_DONE
    version = report["schema_version"]
    if not migrates:
        print(f"{name}: schema version {version}, {pluralize(len(report['tasks']), 'task')}, {sanitize_line(report['status'])}")
    elif version == SCHEMA_VERSION:
        say(f"{name}: already has schema version {version}, not changed")
    else:
        await sandbox.write_file(path, report_json(migrated(report)).encode("utf-8", "replace"), expect_sha256=content.sha256)
        say(f"{name}: migrated from schema version {version} to {SCHEMA_VERSION}")
    return 0


def plan_object(plan: PipelinePlan) -> dict[str, Any]:  # Any: JSON
    """Return a plan as `--json` has it."""
    found: dict[str, Any] = json.loads(json.dumps(asdict(plan), default=json_value))  # Any: JSON
    return found | {"summary": plan.summary()}


class _ProgressLines:
    """Says on standard error what begins and what ends."""

    def __init__(self, known: Sequence[PipelinePlan]) -> None:
        self._told = {(plan.id, task.id): (str(task.state), task.why) for plan in known for task in plan.tasks}

    def take(self, plans: Sequence[PipelinePlan]) -> None:
        """Take the plans as they are now."""
        for plan in plans:
            for task in plan.tasks:
                if self._told.get((plan.id, task.id), ("ready", "")) != (now := (str(task.state), task.why)):
                    self._told[plan.id, task.id] = now
                    self.note(f"{f'{plan.name}: ' if len(plans) > 1 else ''}{task_line(plan, task)}")

    def note(self, text: str) -> None:
        """Say a line."""
        print(f"{datetime.now(UTC).astimezone():%H:%M:%S}  {sanitize_line(text)}", file=sys.stderr, flush=True)


def ideate_parser() -> Parser:
    """Return the parser of `lmtui ideate`."""
    text = "Turn a topic into SPEC.md: the model asks you questions, then writes numbered acceptance criteria.\n"
    text += "Without a terminal nobody can answer: what is open is marked BLOCKING in SPEC.md."
    parser = make_parser("ideate", text, 'lmtui ideate "a calculator for the terminal"')
    parser.add_argument("task", metavar="TOPIC", help="what to specify; - reads it from standard input")
    add_task_options(parser)
    parser.set_defaults(allow=["Write(SPEC.md)"])  # it is all that the command is for
    return parser


ideate = ideate_task
