"""`lmtui batch`: begin, continue and look at many tasks, with a progress table on standard error."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from lmtui.command_line import Parser, add_common, make_parser
from lmtui.core.budgets import NO_BUDGET, whole_budget
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.servers import pool_text
from lmtui.features.batch.batch_folder import FINAL, GOOD, BatchFolder, TaskResult
from lmtui.features.batch.batch_runner import BatchOptions, BatchProgress, BatchRunner
from lmtui.features.batch.cluster import MOST_FILES, Cluster, open_cluster, pack
from lmtui.features.batch.service import newest
from lmtui.features.batch.task_file import MOST_TASKS, BatchTask, read_tasks, tasks_for_files
from lmtui.features.service import CommandCall, FeatureHost, stopping
from lmtui.paths import batches_dir

EXIT_NOT_DONE, EXIT_INTERRUPTED = 1, 130
_MAX_BYTES = 268_435_456
_SIGNS = {"green": "✓", "unverified": "✓", "unchanged": "–", "red": "✗", "failed": "✗", "away": "…"}


def batch_parser() -> Parser:
    """Return the parser of `lmtui batch`."""
    doc = "Work on many tasks, each in its own overlay; results and diffs go to a folder.\n"
    doc += "Tasks are lines of a file (JSON or text; - reads standard input), or one for each file of --glob.\n"
    doc += "`lmtui batch status [DIR]` shows a batch, `lmtui batch resume [DIR]` continues it."
    parser = make_parser("batch", doc, 'lmtui batch --glob "src/*.py" "Add type hints to {file}"')
    add = parser.add_argument
    add("words", nargs="*", metavar="FILE|TASK", help="a file of tasks, the task of --glob, or status|resume DIR")
    add("--glob", metavar="PATTERN", help="one task for each file; {file} in the task is its path")
    add("--out", metavar="DIR", help="folder for results (default: .lmagent/batches/TIME)")
    add("--workers", type=int, default=0, metavar="N", help="tasks at once (default: the slots of the servers)")
    add("--tries", type=int, default=2, metavar="N", help="tries for each task until its checks pass (default: 2)")
    add("--cluster", default="", metavar="local|ADDRESS", help="run tasks on Dask workers: started here, or of a scheduler")
    add("--total", default="", metavar="BUDGET", help='budget for all tasks: "8h 5M tokens"; --budget is for each')
    add("--retry-failed", action="store_true", help="resume: do tasks again that ended red or failed")
    add("--json", action="store_true", help="print the results as JSON lines")
    add_common(parser)
    return parser


async def batch(call: CommandCall) -> int:
    """Run the action."""
    words = call.arguments.words
    folders = batches_dir(call.workspace.workspace)
    match words:
        case ["status", *rest]:
            return await asyncio.to_thread(_status, _folder_of(rest, folders), is_json=call.arguments.json)
        case ["resume", *rest]:
            folder = BatchFolder(_folder_of(rest, folders))
            tasks, options = await asyncio.to_thread(folder.read)
            return await _run(call, folder, tasks, options)
        case _:
            return await _begin(call, folders)


def _folder_of(rest: Sequence[str], folders: Path) -> Path:
    """Return the folder that is named, else the newest.  Blocks."""
    if rest:
        return Path(rest[0])
    found = newest(folders)
    if found is None:
        raise UsageError("there is no batch in this folder", 'Begin one: lmtui batch --glob "src/*.py" "Fix {file}"')
    return found


async def _begin(call: CommandCall, folders: Path) -> int:
    arguments, words = call.arguments, call.arguments.words
    if arguments.glob:
        files = await (await call.workspace.sandbox()).glob(arguments.glob, MOST_TASKS + 1)
        tasks = tasks_for_files(" ".join(words), sorted(files))
    else:
        tasks, problems = read_tasks(await asyncio.to_thread(_read, words))
        for problem in problems:
            print(f"lmtui: {sanitize_line(problem)}", file=sys.stderr)
        if not tasks:
            raise UsageError("there is no task in it", 'A line is a text, or an object such as {"task": "Fix a.py"}.')
    options = {name: getattr(arguments, name) for name in ("workers", "tries", "total", "budget", "cluster")}
    folder = BatchFolder(Path(arguments.out) if arguments.out else folders / f"{datetime.now(UTC):%Y%m%d_%H%M%S}")
    _ = _options(options)
    await asyncio.to_thread(folder.begin, tasks, options)
    return await _run(call, folder, tasks, options)


def _read(words: Sequence[str]) -> str:
    if len(words) != 1:
        raise UsageError("name one file of tasks", 'Or use --glob: lmtui batch --glob "src/*.py" "Fix {file}"')
    try:
        data = sys.stdin.buffer.read(_MAX_BYTES) if words[0] == "-" else Path(words[0]).read_bytes()[:_MAX_BYTES]
    except OSError as error:
        raise UsageError(f"{words[0]} cannot be read: {error.strerror}", "Name a file with one task a line.") from error
    return data.decode("utf-8", "replace")


def _options(given: dict[str, object]) -> BatchOptions:
    workers, tries = int(str(given.get("workers") or 0)), int(str(given.get("tries") or 1))
    if workers < 0 or tries < 1:
        raise UsageError("--workers and --tries have to be positive", "Leave them out for the defaults.")
    budget, total = (str(given.get(name) or "") for name in ("budget", "total"))
    return BatchOptions(
        workers, tries, whole_budget(budget) if budget else NO_BUDGET, whole_budget(total) if total else NO_BUDGET
    )


async def _run(call: CommandCall, folder: BatchFolder, tasks: Sequence[BatchTask], options: dict[str, object]) -> int:
    chosen, cluster = _options(options), call.arguments.cluster or str(options.get("cluster") or "")
    await asyncio.to_thread(folder.lock)
    try:
        async with call.open_host() as host, contextlib.AsyncExitStack() as stack:
            _ = await host.choose_server()
            remote = await stack.enter_async_context(await _joined(cluster, host, chosen)) if cluster else None
            if remote is None:
                await host.require_sandbox()
            print(f"{pluralize(len(tasks), 'task')}; results: {folder.path}", file=sys.stderr)
            return await _work(BatchRunner(host, folder, chosen, _teller(host, folder), remote), tasks, call)
    finally:
        folder.unlock()


async def _joined(address: str, host: FeatureHost, options: BatchOptions) -> AbstractAsyncContextManager[Cluster]:
    """Return what opens a cluster for the files of the workspace."""
    packed = await asyncio.to_thread(pack, host.workspace, await (await host.sandbox()).glob("**", MOST_FILES))

    def tell(text: str) -> None:
        print(f"lmtui: {text}", file=sys.stderr)

    tries, budget = options.tries, options.budget
    return open_cluster(address, options.workers, packed, host.config, tries=tries, budget=budget, tell=tell)


async def _work(runner: BatchRunner, tasks: Sequence[BatchTask], call: CommandCall) -> int:
    running = asyncio.ensure_future(runner.run(tasks, retries_failed=call.arguments.retry_failed))
    with stopping(running):
        await asyncio.wait({running})
    if running.cancelled():
        print("lmtui: interrupted; `lmtui batch resume` continues", file=sys.stderr)
        return EXIT_INTERRUPTED
    progress = running.result()
    if call.arguments.json:
        for task in tasks:
            if task.id in progress.results:
                print(json.dumps(asdict(progress.results[task.id]), ensure_ascii=False))
    print(progress.line, file=sys.stderr)
    return 0 if progress.done == progress.total else EXIT_NOT_DONE


def _teller(host: FeatureHost, folder: BatchFolder) -> Callable[[TaskResult, BatchProgress], None]:
    """Return what says each end of a task, and how the work goes."""

    def tell(result: TaskResult, progress: BatchProgress) -> None:
        boxes = [f"{sanitize_line(row.url)}: {pool_text(row)}" for row in host.servers.pool()]
        print(f"{result_line(result)}\n  {progress.line}", file=sys.stderr, flush=True)
        folder.tell("\n".join([progress.line, *boxes]))

    return tell


def result_line(result: TaskResult) -> str:
    """Return how a task ended, in one line."""
    about = [f"{result.elapsed_s:.0f} s"] if result.elapsed_s else []
    about += [f"+{result.added} −{result.removed}"] if result.diff else []
    about += [f"try {result.tries}"] if result.tries > 1 else []
    about += [sanitize_line(result.error)[:120]] if result.error else []
    return f"{_SIGNS[result.status]} {result.id:>5}  {result.status:<10} {result.task[:60]}  {' · '.join(about)}".rstrip()


def _status(path: Path, *, is_json: bool) -> int:
    folder = BatchFolder(path)
    tasks, _ = folder.read()
    results = folder.results()
    found = [results.get(task.id, TaskResult(task.id, "waiting", task.title)) for task in tasks]
    if is_json:
        print("\n".join(json.dumps(asdict(each), ensure_ascii=False) for each in found))
    else:
        print("\n".join(result_line(each) for each in found if each.id in results))
        ended = sum(each.status in FINAL for each in found)
        done = sum(each.status in GOOD for each in found)
        print(f"{done} of {len(found)} done · {ended - done} failed · {len(found) - ended} waiting")
    return 0 if all(each.status in GOOD for each in found) else EXIT_NOT_DONE
