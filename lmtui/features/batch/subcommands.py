"""`lmtui batch`: starts, resumes, shows and applies batches, with a progress table on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from lmtui.command_line import EXIT_INTERRUPTED, Parser, add_common, make_parser, say, stopping
from lmtui.core.errors import LmtuiError, UsageError
from lmtui.core.ports import Policy
from lmtui.core.sanitize import pluralize, sanitize, sanitize_line
from lmtui.features.batch.batch_folder import BatchFolder, find_batch, new_batch
from lmtui.features.batch.batch_runner import BatchRunner
from lmtui.features.batch.cluster import MOST_FILES, open_cluster, pack
from lmtui.features.batch.progress import result_line
from lmtui.features.batch.service import load_tasks, parse_options
from lmtui.features.batch.task_file import MOST_BYTES, BatchTask, decoded, read_tasks
from lmtui.features.batch.values import DONE, FAILED, WorkspaceBatches
from lmtui.features.service import CommandCall

EXIT_NOT_DONE = 1


def batch_parser() -> Parser:
    """Return the parser of `lmtui batch`."""
    doc = "Run many tasks, each in its own overlay; results and diffs go to a folder.\n"
    doc += "Tasks are lines of a file (JSON or text; - reads standard input), or one for each file of --glob.\n"
    doc += "`lmtui batch status [BATCH]` shows a batch, `lmtui batch resume [BATCH]` continues it,\n"
    doc += "`lmtui batch apply [BATCH] ID… | --all` applies changes to the folder."
    parser = make_parser("batch", doc, 'lmtui batch --glob "src/*.py" "Add type hints to {file}"')
    add = parser.add_argument
    add("words", nargs="*", metavar="FILE|TASK", help="a task file, the task for --glob, or status|resume|apply BATCH")
    add("--glob", metavar="PATTERN", help="one task for each file; {file} in the task is its path")
    add("--workers", type=int, metavar="N", help="tasks at once (default: the slots of the servers)")
    add("--tries", type=int, metavar="N", help="tries for each task until its checks pass (default: 2)")
    add(
        "--cluster", metavar="local|ADDRESS", help="run tasks on Dask workers: local ones, or those of the scheduler at ADDRESS"
    )
    add("--total", metavar="BUDGET", help='budget for the whole run: "8h 5M tokens"; --budget limits each task (default: 2h)')
    add("--retry-failed", action="store_true", help="resume: rerun tasks that are red or failed")
    add("--all", action="store_true", help="apply: all green tasks that do not overlap with others")
    add("--json", action="store_true", help="print the results as JSON lines")
    add_common(parser)
    return parser


async def batch(call: CommandCall) -> int:
    """Run the action."""
    words = call.arguments.words
    check_action(words, retries_failed=call.arguments.retry_failed, has_all=call.arguments.all)
    workspace = call.workspace.workspace
    match words:
        case ["status", *rest]:
            return await asyncio.to_thread(_status, find_batch(workspace, *rest), is_json=call.arguments.json)
        case ["resume", *rest]:
            folder = BatchFolder(await asyncio.to_thread(find_batch, workspace, *rest))
            tasks, options = await asyncio.to_thread(folder.read)
            return await _run(call, tasks, options | _given(call), folder)
        case ["apply", *rest]:
            return await _apply(call, rest)
        case _:
            return await _begin(call)


def check_action(words: Sequence[str], *, retries_failed: bool, has_all: bool) -> None:
    """Reject flags and arguments that do not belong to the action."""
    action = words[0] if words else ""
    if retries_failed and action != "resume":
        raise UsageError("--retry-failed is a flag of resume", "Use: lmtui batch resume --retry-failed")
    if has_all and action != "apply":
        raise UsageError("--all is a flag of apply", "Use: lmtui batch apply --all")
    if action in ("status", "resume") and len(words) > 2:
        raise UsageError(f"{action} takes one batch", f"Use: lmtui batch {action} {sanitize_line(words[1])}")


def _given(call: CommandCall) -> dict[str, object]:
    """Return the options given on the command line."""
    found = {name: getattr(call.arguments, name) for name in ("workers", "tries", "total", "budget")}
    return {name: value for name, value in found.items() if value is not None}


async def _begin(call: CommandCall) -> int:
    arguments, words = call.arguments, call.arguments.words
    if words == ["-"] and not arguments.glob:
        data = await asyncio.to_thread(sys.stdin.buffer.read, MOST_BYTES + 1)
        tasks, problems = read_tasks(decoded(data, "standard input"))
    else:
        tasks, problems = await load_tasks(call.workspace, words, arguments.glob, Path())
    for problem in problems:
        _note(problem)
    if not tasks:
        raise UsageError("the file contains no tasks", 'A line is text, or an object such as {"task": "Fix a.py"}.')
    return await _run(call, tasks, _given(call))


async def _run(
    call: CommandCall, tasks: Sequence[BatchTask], options: dict[str, object], folder: BatchFolder | None = None
) -> int:
    running = asyncio.ensure_future(_opened(call, tasks, options, folder))
    with stopping(running.cancel):  # until all is closed; a second Ctrl+C only speeds that up
        await asyncio.wait({running})
    return EXIT_INTERRUPTED if running.cancelled() else running.result()


def _resume_text(call: CommandCall, folder: BatchFolder) -> str:
    cluster = f" --cluster {shlex.quote(call.arguments.cluster)}" if call.arguments.cluster else ""
    return f"continue with `lmtui batch resume {folder.path.name}{cluster}`"


async def _opened(
    call: CommandCall, tasks: Sequence[BatchTask], given: Mapping[str, object], folder: BatchFolder | None
) -> int:
    """Run a batch; one without a folder is new, and gets one once it can run."""
    cluster, remote = call.arguments.cluster, None  # what was written to a file never says where to connect
    options = parse_options(given)
    async with call.open_host() as host, contextlib.AsyncExitStack() as stack:
        _ = await host.choose_server()
        if cluster:
            packed = await asyncio.to_thread(pack, host.workspace, await (await host.sandbox()).glob("**", MOST_FILES + 1))
            remote = await stack.enter_async_context(open_cluster(cluster, packed, host.config, options, _note))
        else:
            await host.require_sandbox()
        if folder is None:
            folder = await asyncio.to_thread(new_batch, host.workspace, tasks, given)
        await asyncio.to_thread(folder.lock)
        stack.callback(folder.unlock)
        _note(f"{pluralize(len(tasks), 'task')}; results: {folder.path}")
        runner = BatchRunner(host, folder, options, sys.stderr, remote)
        try:
            progress = await runner.run(tasks, retries_failed=call.arguments.retry_failed)
        except asyncio.CancelledError:
            _note(f"interrupted; {_resume_text(call, folder)}")
            raise
        await _report(runner, folder, tasks, call)
        return EXIT_NOT_DONE if progress.failed or progress.open else 0


def _note(text: str) -> None:
    say(f"lmtui: {sanitize_line(text)}", file=sys.stderr, flush=True)


async def _report(runner: BatchRunner, folder: BatchFolder, tasks: Sequence[BatchTask], call: CommandCall) -> None:
    progress = runner.progress
    known = await asyncio.to_thread(folder.results)
    results = [known[task.id] for task in tasks if task.id in known]
    for result in results if call.arguments.json else ():
        print(json.dumps(asdict(result), ensure_ascii=False))
    if runner.is_spent and progress.open:
        _note(f"the budget of this run is used up; {_resume_text(call, folder)}")
    if progress.failed:
        say("\n".join(result_line(each) for each in results if each.status in FAILED), file=sys.stderr)
        _note("`lmtui batch resume --retry-failed` reruns the failed tasks")
    if progress.statuses.total() > progress.failed:
        _note("/batch in the app shows the changes for review; `lmtui batch apply --all` applies them")


async def _apply(call: CommandCall, rest: Sequence[str]) -> int:
    """Apply the changes of tasks, each completely or not at all, as steps of a session that can be undone."""
    workspace, ids, is_json = call.workspace.workspace, rest, call.arguments.json
    try:
        path, ids = await asyncio.to_thread(find_batch, workspace, *rest[:1]), rest[1:]
    except UsageError:
        path = await asyncio.to_thread(find_batch, workspace)
    if bool(ids) == call.arguments.all:
        raise UsageError("give task ids, or --all", "`lmtui batch status` lists them.")
    folder = BatchFolder(path)
    state = await asyncio.to_thread(folder.state)
    by_id = {row.id: row for row in state.rows}
    for name in ids:
        if name not in by_id:
            raise UsageError(f"no task {sanitize_line(name)}", "`lmtui batch status` lists the tasks.")
        if not by_id[name].diff:
            raise UsageError(f"task {sanitize_line(name)} has no changes", "`lmtui batch status` lists the tasks.")
    rows = [by_id[name] for name in ids] or state.mergeable
    if not rows:
        raise UsageError("no task can be applied without review", "Give task ids, or review them with /batch.")
    failed = 0
    async with call.open_host() as host:
        await host.require_sandbox()
        session = await host.new_session(Policy(is_attended=False), has_model=False)
        session.rename(f"changes of {path.name}")
        for row in rows:
            problem = ""
            try:
                if row.decision == "accepted":
                    raise UsageError("already applied")
                _ = await host.extensions[WorkspaceBatches].review(str(path), row.id, session.id).keep(None)
            except LmtuiError as error:
                now = await asyncio.to_thread(folder.state)
                problem, failed = f"{error.full_text()} {now.why_not(row)}".rstrip(), failed + 1
            if is_json:
                print(json.dumps({"id": row.id, "applied": not problem, "error": problem}, ensure_ascii=False), flush=True)
            else:
                print(
                    f"{'✗' if problem else '✓'} {row.id:>5}  {sanitize_line(row.task)[:60]}  {sanitize_line(problem)}".rstrip()
                )
        undo = f"; to undo: `lmtui resume {session.id}`, then /undo" if failed < len(rows) else ""
        say(f"{len(rows) - failed} of {len(rows)} applied{undo}", file=sys.stderr)
        await session.close()
    return EXIT_NOT_DONE if failed else 0


def _status(path: Path, *, is_json: bool) -> int:
    state = BatchFolder(path).state()
    for row in state.rows if is_json else ():
        print(json.dumps(asdict(row) | {"status": row.status or "waiting"}, ensure_ascii=False))
    if not is_json:
        say("\n".join(result_line(row) for row in state.rows if row.status))
        say(f"{state.summary} · results: {path}")
        if state.progress:
            print(f"now: {sanitize(state.progress)}")
    return 0 if all(row.status in DONE for row in state.rows) else EXIT_NOT_DONE
