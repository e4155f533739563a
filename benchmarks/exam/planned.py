"""The plan of twelve on a real model: by the pipeline, and as one long conversation, judged by checks that neither sees.

    python -m benchmarks.exam.planned --url http://127.0.0.1:8080 --model qwen2.5-coder-1.5b

A task is *done* where the plan's own checks pass at the end, *right* where the hidden ones do too.  Both run in the sandbox.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.features.pipeline.task_list import read_task_list
from lmtui.features.pipeline.values import TaskSpec

PLAN = Path(__file__).parent / "plan"
HIDDEN = "hidden.py"
_ASK = (
    "Do all tasks of this plan, one after the other, in this folder. After each task run its check, and fix what is wrong "
    "before you begin the next one. Stop when all are done.\n\n"
)


@dataclass(frozen=True, slots=True)
class Ended:
    """How one way of working on the plan ended: by task whether it was claimed, done and right."""

    name: str
    seconds: float
    claimed: Sequence[bool]
    done: Sequence[bool]
    right: Sequence[bool]

    @property
    def wrong(self) -> int:
        """Return how many tasks are green and wrong."""
        return sum(green and not right for green, right in zip(self.claimed, self.right, strict=True))


def main() -> int:
    """Run the plan both ways and print a report."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exam.planned", description="A plan of twelve on a real model.")
    parser.add_argument("--url", required=True, help="the server's address")
    parser.add_argument("--model", default="", help="its model (default: the server's own)")
    parser.add_argument("--hours", type=float, default=2.0, help="limit of each way (default: 2)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", choices=("pipeline", "conversation"), help="one way only")
    parser.add_argument("--keep", default="", metavar="DIR", help="keep the folders and the sessions here")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lmtui-plan-") as scratch:
        root = Path(arguments.keep or scratch)
        ways = [arguments.only] if arguments.only else ["pipeline", "conversation"]
        ended = [_run(arguments, way, root / way) for way in ways]
    print(_report(arguments.model or arguments.url, ended))
    return 0


def tasks() -> Sequence[TaskSpec]:
    """Return the tasks of the plan."""
    found = read_task_list((PLAN / "PLAN.md").read_text(encoding="utf-8"))
    assert found
    return found


def _run(arguments: argparse.Namespace, way: str, root: Path) -> Ended:
    folder = root / "project"
    shutil.copytree(PLAN, folder, ignore=shutil.ignore_patterns(HIDDEN, "__pycache__"))
    shared = ["--workspace", str(folder), "--url", arguments.url, "--mode", "auto", "--seed", str(arguments.seed)]
    shared += ["--model", arguments.model] if arguments.model else []
    if way == "pipeline":
        command = ["pipeline", "run", "PLAN.md", "--no-git", *shared]
    else:
        plan = (folder / "PLAN.md").read_text(encoding="utf-8")
        command = ["run", _ASK + plan, *shared, "--max-iterations", "400"]
    environment = {**os.environ, "LMTUI_HOME": str(root / "home")}
    began = time.monotonic()
    with (root / "log").open("w", encoding="utf-8") as log:
        try:
            subprocess.run(
                [sys.executable, "-m", "lmtui", *command],
                stdout=log, stderr=log, check=False, env=environment, timeout=arguments.hours * 3600,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            print(f"{way}: stopped after {arguments.hours:g} hours", file=sys.stderr)
    seconds = time.monotonic() - began
    done, right = asyncio.run(_judge(folder))
    claimed = _claimed(folder, environment) if way == "pipeline" else done
    return Ended(way, seconds, claimed, done, right)


def _claimed(folder: Path, environment: dict[str, str]) -> list[bool]:
    """Return which tasks the pipeline called done."""
    command = [sys.executable, "-m", "lmtui", "pipeline", "status", "--json", "--workspace", str(folder)]
    found = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    (plan,) = json.loads(found.stdout)
    return [each["state"] == "done" for each in sorted(plan["tasks"], key=lambda each: int(each["id"]))]


async def _judge(folder: Path) -> tuple[list[bool], list[bool]]:
    """Return which tasks pass their own checks, and which the hidden ones; a model's code runs in the sandbox only."""
    runtime = Runtime(folder, Config(), is_attended=False)
    done, right = list[bool](), list[bool]()
    try:
        sandbox = await runtime.sandbox()
        for number, spec in enumerate(tasks(), 1):
            done.append(all([(await sandbox.run_command(each)).exit_code == 0 for each in spec.checks]))
            shutil.copy(PLAN / HIDDEN, folder / HIDDEN)
            right.append((await sandbox.run_command(f"python {HIDDEN} {number}")).exit_code == 0)
            (folder / HIDDEN).unlink()
    finally:
        await runtime.close()
    return done, right


def _report(name: str, ended: Sequence[Ended]) -> str:
    lines = [f"## {name}", "", "| task | " + " | ".join(each.name for each in ended) + " |", "|---" * (len(ended) + 1) + "|"]
    for place, spec in enumerate(tasks()):
        cells = ["right" if each.right[place] else "green, but wrong" if each.claimed[place] else "–" for each in ended]
        lines.append(f"| {spec.title} | {' | '.join(cells)} |")
    for each in ended:
        counts = f"{sum(each.claimed)} of {len(each.claimed)} green, {sum(each.right)} right, {each.wrong} wrong-green"
        lines += ["", f"{each.name}: {counts}, {each.seconds / 60:.0f} minutes."]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
