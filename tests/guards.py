"""Breaks each important guard once, in a copy of the repository, and looks which test fails: `make guards`.

A guard is a line of code that keeps something from happening.  Each entry of `guards.json` names a file, a piece of it that
occurs once, what stands there when the guard is broken, and the tests to run, those of the quick suite.  Where they pass all
the same, those of `make full` are run; the end is 1 if a break is seen by neither.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[1]
GUARDS = Path(__file__).with_name("guards.json")
WORKERS = 2
LIMIT_S = 600
_FAILED = re.compile(r"^(?:FAILED|ERROR) (\S+)", re.MULTILINE)


@dataclass(frozen=True)
class Guard:
    """What is broken, and where that is to be seen."""

    name: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]


def read() -> list[Guard]:
    """Return the guards; each piece has to occur once."""
    found = [Guard(**{**each, "tests": tuple(each["tests"])}) for each in json.loads(GUARDS.read_text("utf-8"))]
    wrong = [each.name for each in found if (ROOT / each.file).read_text("utf-8").count(each.old) != 1]
    wrong += [f"{each.name}: {test}" for each in found for test in each.tests if not (ROOT / test).exists()]
    assert not wrong, f"these do not occur once, or have no such tests: {wrong}"
    return found


def seen(guard: Guard, folder: Path) -> tuple[str, str]:
    """Return by which suite, and by which test, a break is seen; empty where it is not."""
    file = folder / guard.file
    whole = file.read_text("utf-8")
    file.write_text(whole.replace(guard.old, guard.new), "utf-8")
    try:
        for suite, marks in (("quick", "not full"), ("full", "full or not full")):
            command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marks, *guard.tests]
            try:
                ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=LIMIT_S)
            except subprocess.TimeoutExpired:
                continue  # which shows nothing
            if ended.returncode not in (0, 5):
                return suite, next(iter(_FAILED.findall(ended.stdout)), "no test can be collected")
        return "", ""
    finally:
        file.write_text(whole, "utf-8")


def main() -> int:
    """Break all guards, or those whose names contain a word of the command line."""
    guards = [each for each in read() if all(word in each.name for word in sys.argv[1:])]
    with tempfile.TemporaryDirectory(prefix="lmtui-guards-") as base:
        folders = [Path(base, str(number)) for number in range(WORKERS)]
        listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
        for folder in folders:
            for name in filter(None, listed.split("\0")):
                if (ROOT / name).is_file():
                    (folder / name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copy2(ROOT / name, folder / name)
        free = list(folders)

        def one(guard: Guard) -> tuple[Guard, str, str]:
            folder = free.pop()
            try:
                suite, test = seen(guard, folder)
            finally:
                free.append(folder)
            print(f"{suite or 'NOT SEEN':8} {guard.name}: {test}", flush=True)
            return guard, suite, test

        with ThreadPoolExecutor(WORKERS) as pool:
            ended = list(pool.map(one, guards))
    quick = sum(suite == "quick" for _, suite, _ in ended)
    unseen = [guard.name for guard, suite, _ in ended if not suite]
    print(f"{len(ended) - len(unseen)} of {len(ended)} breaks seen, {quick} by the quick suite")
    return 1 if unseen else 0


if __name__ == "__main__":
    sys.exit(main())
