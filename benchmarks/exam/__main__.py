"""Ten small tasks on a real model, by lmtui and by a bare loop, and a report in Markdown.

    python -m benchmarks.exam --url http://127.0.0.1:8080 --model qwen2.5-coder-1.5b --runs 3

The server is the user's own and nothing is downloaded.  Exit code 1 where fewer tasks were done than `--at-least`.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.exam.bare import run_bare
from benchmarks.exam.tasks import TASKS, Task

_LIMIT_S = 600


@dataclass(frozen=True, slots=True)
class Tried:
    """One task, tried once: whether it was done, seconds, steps, and how it ended."""

    task: str
    is_done: bool
    seconds: float
    steps: int = 0
    ending: str = ""


def main() -> int:
    """Run the exam and print its report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exam", description="Ten small tasks on a real model.")
    parser.add_argument("--url", required=True, help="the server's address")
    parser.add_argument("--model", default="", help="its model (default: the server's own)")
    parser.add_argument("--runs", type=int, default=1, metavar="N")
    parser.add_argument("--tasks", default="", metavar="NAMES", help="only these, separated by commas")
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--at-least", type=int, default=0, metavar="N", help="tasks that must be done in every run")
    parser.add_argument("--no-bare", action="store_true", help="without the bare loop")
    parser.add_argument("--keep", default="", metavar="DIR", help="keep the folders and the sessions here")
    arguments = parser.parse_args()
    wanted = arguments.tasks.split(",") if arguments.tasks else [task.name for task in TASKS]
    tasks = [task for task in TASKS if task.name in wanted]
    with tempfile.TemporaryDirectory(prefix="lmtui-exam-") as scratch:
        root = Path(arguments.keep or scratch)
        runs = [_run_all(arguments, tasks, root / f"run{number}") for number in range(1, arguments.runs + 1)]
        bare = [] if arguments.no_bare else [_try_bare(arguments, task, root / "bare") for task in tasks]
    print(_report(arguments.model or arguments.url, runs, bare))
    return 0 if all(sum(each.is_done for each in run) >= arguments.at_least for run in runs) else 1


def _run_all(arguments: argparse.Namespace, tasks: Sequence[Task], root: Path) -> list[Tried]:
    """Try every task once, as one user would: one home, so that what was learned of the model is kept from task to task."""
    tried = []
    for task in tasks:
        found = _try(arguments, task, root)
        tried.append(found)
        sign = "done" if found.is_done else "NOT "
        print(f"{sign} {task.name:8} {found.seconds:6.1f} s, {found.steps} steps, {found.ending}", file=sys.stderr, flush=True)
    return tried


def _folder(root: Path, task: Task) -> Path:
    folder = root / task.name.replace(" ", "-")
    folder.mkdir(parents=True)
    for name, text in task.files.items():
        (folder / name).write_text(text)
    return folder


def _try(arguments: argparse.Namespace, task: Task, root: Path) -> Tried:
    folder = _folder(root, task)
    settings = {"LMTUI_HOME": str(root / "home"), "LLM_MAX_TOKENS": os.environ.get("LLM_MAX_TOKENS", "512")}
    command = [
        sys.executable, "-m", "lmtui", "run", task.ask, "--workspace", str(folder), "--url", arguments.url, "--json",
        "--mode", "auto", "--sandbox", arguments.sandbox, "--temperature", "0", "--max-iterations", "10",
    ]  # fmt: skip
    if arguments.model:
        command += ["--model", arguments.model]
    began = time.monotonic()
    try:
        found = subprocess.run(
            command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env={**os.environ, **settings}
        )
        ended = json.loads(found.stdout)
    except (subprocess.TimeoutExpired, ValueError) as error:
        return Tried(task.name, is_done=False, seconds=time.monotonic() - began, ending=f"no result: {error}")
    seconds = time.monotonic() - began
    is_done = task.is_done(folder, str(ended.get("text", "")))
    return Tried(task.name, is_done, seconds, int(ended.get("iterations", 0)), str(ended.get("error") or ended.get("status")))


def _try_bare(arguments: argparse.Namespace, task: Task, root: Path) -> Tried:
    folder = _folder(root, task)
    url = arguments.url.rstrip("/")
    began = time.monotonic()
    answer = run_bare(url if url.endswith("/v1") else f"{url}/v1", arguments.model, folder, task.ask)
    seconds = time.monotonic() - began
    return Tried(task.name, task.is_done(folder, answer), seconds)


def _report(name: str, runs: Sequence[Sequence[Tried]], bare: Sequence[Tried]) -> str:
    bare_by_name = {each.task: each for each in bare}
    lines = [f"## {name}", "", "| task | done | seconds | steps | bare loop |", "|---|---|---|---|---|"]
    for position, first in enumerate(runs[0]):
        each = [run[position] for run in runs]
        seconds = statistics.median(found.seconds for found in each)
        steps = statistics.median(found.steps for found in each)
        other = bare_by_name.get(first.task)
        beside = f"{'done' if other.is_done else 'not'}, {other.seconds:.1f} s" if other else "–"
        lines.append(f"| {first.task} | {sum(x.is_done for x in each)} of {len(each)} | {seconds:.1f} | {steps:g} | {beside} |")
    lines += ["", f"Done by lmtui: {', '.join(str(sum(x.is_done for x in run)) for run in runs)} of {len(runs[0])}."]
    if bare:
        lines.append(f"Done by the bare loop: {sum(x.is_done for x in bare)}.")
        both = [(found.seconds, bare_by_name[found.task].seconds) for run in runs for found in run]
        whole = sum(mine for mine, _ in both) / sum(its for _, its in both)
        each_ratio = statistics.median(mine / its for mine, its in both)
        lines.append(f"Seconds ÷ bare loop: {each_ratio:.2f} (median of tasks), {whole:.2f} (all together).")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
