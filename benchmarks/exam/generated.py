"""Small tasks and repairs that nobody has seen: a generator with seeds, for figures that nothing was fitted to.

    python -m benchmarks.exam.generated tasks --url http://127.0.0.1:8080 --count 100
    python -m benchmarks.exam.generated repairs --url http://127.0.0.1:8080 --count 20

Of each task is said whether it was done and how it ended: a failure that ends as done is worse than a failure.  Repairs break
one function of a small package from PyPI (its sdist has tests) by one change, and ask for it to be repaired.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.exam.tasks import Task

_LIMIT_S = 900
_WORDS = (
    "amber", "birch", "cobalt", "dune", "ember", "fjord", "glade", "heron", "iris", "jade", "kelp", "lagoon", "maple", "nectar",
    "onyx", "pebble", "quartz", "raven", "slate", "thistle", "umber", "violet", "willow", "yarrow", "zephyr",
)  # fmt: skip
_PACKAGES = (
    "python-slugify", "roman", "shortuuid", "texttable", "parse", "Unidecode", "more-itertools", "num2words", "cachetools",
    "toposort", "xmltodict", "sqlparse", "webcolors", "natsort", "intervaltree", "bidict", "jsonpointer", "jsonpatch",
)  # fmt: skip


def _read(folder: Path, name: str) -> str:
    try:
        return (folder / name).read_text()
    except (OSError, UnicodeDecodeError):
        return ""


def _name(dice: random.Random, ending: str) -> str:
    return f"{dice.choice(_WORDS)}_{dice.choice(_WORDS)}{ending}"


def _create(dice: random.Random) -> Task:
    name, text = _name(dice, ".txt"), " ".join(dice.sample(_WORDS, 4))
    return Task("create", f"Create a file {name} that contains exactly: {text}", lambda f, _: _read(f, name).strip() == text)


def _append(dice: random.Random) -> Task:
    name, line, old = (
        _name(dice, ".log"),
        " ".join(dice.sample(_WORDS, 3)),
        "".join(f"{word}\n" for word in dice.sample(_WORDS, 5)),
    )
    ask = f"Append the line '{line}' to the end of {name}. Keep what is in it."
    return Task("append", ask, lambda f, _: _read(f, name).rstrip("\n") == f"{old}{line}", {name: old})


def _rename(dice: random.Random) -> Task:
    old, new, text = _name(dice, ".md"), _name(dice, "_new.md"), f"{dice.choice(_WORDS)}\n"
    ask = f"Rename {old} to {new}."
    return Task("rename", ask, lambda f, _: _read(f, new) == text and not (f / old).exists(), {old: text})


def _count(dice: random.Random) -> Task:
    name, word, lines = _name(dice, ".txt"), dice.choice(_WORDS), dice.randint(11, 40)
    rows = [dice.choice(_WORDS) for _ in range(lines)]
    ask = f"How many lines of {name} contain the word {word}? Answer with the number."
    number = sum(word in row for row in rows)
    return Task("count", ask, lambda _, said: str(number) in said, {name: "".join(f"{row}\n" for row in rows)})


def _sum(dice: random.Random) -> Task:
    name, numbers = _name(dice, ".csv"), [dice.randint(2, 99) for _ in range(dice.randint(5, 12))]
    text = "name,amount\n" + "".join(f"{dice.choice(_WORDS)},{number}\n" for number in numbers)
    ask = f"What is the sum of the column amount in {name}?"
    return Task("sum", ask, lambda _, said: str(sum(numbers)) in said.replace(",", ""), {name: text})


def _extract(dice: random.Random) -> Task:
    source, target, names = _name(dice, ".csv"), _name(dice, "_names.txt"), dice.sample(_WORDS, 4)
    text = "id,name\n" + "".join(f"{number},{name}\n" for number, name in enumerate(names, 1))
    ask = f"Write the values of the column name of {source} to {target}, one a line, without the heading."
    return Task("extract", ask, lambda f, _: _read(f, target).split() == names, {source: text})


def _setting(dice: random.Random) -> Task:
    name, key, old, new = _name(dice, ".json"), dice.choice(_WORDS), dice.randint(1, 50), dice.randint(51, 99)
    other = dice.choice([word for word in _WORDS if word != key])
    ask = f"In {name}, set {key} to {new}."

    def is_done(folder: Path, _: str) -> bool:
        try:
            return bool(json.loads(_read(folder, name)) == {key: new, other: True})
        except ValueError:
            return False

    return Task("setting", ask, is_done, {name: json.dumps({key: old, other: True}, indent=2) + "\n"})


def _find(dice: random.Random) -> Task:
    word, *others = dice.sample(_WORDS, 7)
    names = [f"{name}.txt" for name in others[:3]]
    right = dice.choice(names)
    files = {name: f"{others[4]} and {word if name == right else others[5]}\n" for name in names}
    ask = f"Which file mentions {word}? Name only that file."
    return Task("find", ask, lambda _, said: right in said and not any(x in said for x in names if x != right), files)


def _function(dice: random.Random) -> Task:
    name, function, number = _name(dice, ".py"), dice.choice(_WORDS), dice.randint(3, 9)
    ask = f"Write a Python file {name} with a function {function}(x) that returns x multiplied by {number}."
    check = f"import sys; sys.path.insert(0, '.'); import {name[:-3]} as m; assert m.{function}(7) == {7 * number}"
    return Task("function", ask, lambda f, _: _passes(f, check))


def _repair(dice: random.Random) -> Task:
    name, function, (good, bad) = _name(dice, ".py"), dice.choice(_WORDS), dice.choice((("+", "-"), ("*", "+"), ("max", "min")))
    body = f"{good}(a, b)" if good == "max" else f"a {good} b"
    broken, what = body.replace(good, bad), {"+": "the sum", "*": "the product", "max": "the larger"}[good]
    text = f"def {function}(a, b):\n    return {broken}\n"
    ask = f"The function {function} in {name} should return {what} of its arguments, but it does not. Fix it."
    number = {"+": 8, "*": 15, "max": 5}[good]
    check = f"import sys; sys.path.insert(0, '.'); import {name[:-3]} as m; assert m.{function}(5, 3) == {number}"
    return Task("repair", ask, lambda f, _: _passes(f, check), {name: text})


def _passes(folder: Path, check: str) -> bool:
    """Run what a model wrote in a process that can reach nothing but its folder's copy."""
    with tempfile.TemporaryDirectory() as scratch:
        for path in folder.glob("*.py"):
            shutil.copy(path, scratch)
        command = ["unshare", "-r", "-n", sys.executable, "-I", "-c", check]
        return subprocess.run(command, cwd=scratch, capture_output=True, timeout=20, check=False).returncode == 0


KINDS: tuple[Callable[[random.Random], Task], ...] = (
    _create, _append, _rename, _count, _sum, _extract, _setting, _find, _function, _repair,
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Change:
    """One change that breaks a function: what is replaced in a file, by the place in its text."""

    path: str
    function: str
    start: int
    end: int
    new: str


def changes(path: str, text: str) -> Iterator[Change]:
    """Yield each single change that may break a function of a file: an operator, a branch, a number, a guard."""
    starts = [0]
    for line in text.encode().splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    flips = {ast.Lt: ">", ast.Gt: "<", ast.LtE: ">", ast.GtE: "<", ast.Eq: "!=", ast.NotEq: "=="}
    for function in (node for node in ast.walk(ast.parse(text)) if isinstance(node, ast.FunctionDef)):
        for node in ast.walk(function):
            if not hasattr(node, "end_col_offset"):
                continue
            start = starts[node.lineno - 1] + node.col_offset  # type: ignore[attr-defined]  # it has an end, so it has a start
            end = starts[node.end_lineno - 1] + node.end_col_offset  # type: ignore[attr-defined]  # the same
            source = text.encode()[start:end].decode()
            if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in flips:
                left, right = ast.unparse(node.left), ast.unparse(node.comparators[0])
                yield Change(path, function.name, start, end, f"{left} {flips[type(node.ops[0])]} {right}")
            elif isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add | ast.Sub):
                sign = "-" if isinstance(node.op, ast.Add) else "+"
                yield Change(path, function.name, start, end, f"{ast.unparse(node.left)} {sign} {ast.unparse(node.right)}")
            elif isinstance(node, ast.Constant) and type(node.value) is int and source == str(node.value):
                yield Change(path, function.name, start, end, str(node.value + 1))
            elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Return | ast.Raise):
                test = node.test
                first = starts[test.lineno - 1] + test.col_offset
                yield Change(
                    path, function.name, first, starts[(test.end_lineno or 1) - 1] + (test.end_col_offset or 0), "False"
                )


def packages(into: Path) -> list[Path]:
    """Fetch the packages and return the folders of those whose own tests pass as they are."""
    for name in _PACKAGES:
        command = [sys.executable, "-m", "pip", "download", "-q", "--no-deps", "--no-binary", ":all:"]
        _ = subprocess.run([*command, "-d", str(into / "sdists"), name], capture_output=True, check=False)
    for archive in sorted((into / "sdists").glob("*.tar.gz")):
        with tarfile.open(archive) as tar:
            tar.extractall(into / "packages", filter="data")
    return [folder for folder in sorted((into / "packages").glob("*")) if folder.is_dir() and _tests_pass(folder)]


def _tests_pass(folder: Path) -> bool:
    command = [sys.executable, "-m", "unittest", "discover", "-q"]
    ended = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
    return ended.returncode == 0 and "Ran 0 tests" not in ended.stderr


def broken(folder: Path, into: Path, dice: random.Random) -> Change | None:
    """Copy a package and break one function so that its tests see it; None where no change of a few does."""
    sources = [path for path in folder.rglob("*.py") if "test" not in str(path.relative_to(folder)) and path.name != "setup.py"]
    found = [change for path in sources for change in changes(str(path.relative_to(folder)), path.read_text(errors="replace"))]
    for change in dice.sample(found, min(25, len(found))):
        shutil.rmtree(into, ignore_errors=True)
        shutil.copytree(folder, into)
        data = (into / change.path).read_bytes()
        _ = (into / change.path).write_bytes(data[: change.start] + change.new.encode() + data[change.end :])
        if not _tests_pass(into):
            for cache in into.rglob("__pycache__"):
                shutil.rmtree(cache)
            return change
    return None


@dataclass(frozen=True, slots=True)
class Result:
    """One task: whether it was done, how it ended, and seconds."""

    kind: str
    is_done: bool
    status: str
    seconds: float


def run(arguments: argparse.Namespace, folder: Path, home: Path, ask: str, *flags: str) -> tuple[str, str, float]:
    """Run one task and return the answer, the status and the seconds."""
    command = [
        sys.executable, "-m", "lmtui", "run", ask, "--workspace", str(folder), "--url", arguments.url, "--json",
        "--mode", "auto", "--sandbox", arguments.sandbox, "--max-iterations", "12", *flags,
    ]  # fmt: skip
    began = time.monotonic()
    environment = {**os.environ, "LMTUI_HOME": str(home), "LLM_MAX_TOKENS": os.environ.get("LLM_MAX_TOKENS", "700")}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=_LIMIT_S, check=False, env=environment)
        told = json.loads(ended.stdout)
    except (subprocess.TimeoutExpired, ValueError):
        return "", "no result", time.monotonic() - began
    return str(told.get("text", "")), str(told.get("status")), time.monotonic() - began


def small_tasks(arguments: argparse.Namespace, root: Path, dice: random.Random) -> Iterator[Result]:
    """Run tasks of all kinds in turn."""
    for number in range(arguments.count):
        task = KINDS[number % len(KINDS)](dice)
        folder = root / f"{number:03}-{task.name}"
        folder.mkdir(parents=True)
        for name, text in task.files.items():
            _ = (folder / name).write_text(text)
        said, status, seconds = run(arguments, folder, root / "home", task.ask)
        yield Result(task.name, task.is_done(folder, said), status, seconds)


def repairs(arguments: argparse.Namespace, root: Path, dice: random.Random) -> Iterator[Result]:
    """Break packages one function at a time, and have each repaired."""
    folders = packages(root)
    number = 0
    while folders and number < arguments.count:
        folder = dice.choice(folders)
        copy = root / f"{number:03}-{folder.name}"
        change = broken(folder, copy, dice)
        number += 1
        if change is None:
            continue
        ask = "A test fails: `python3 -m unittest discover -q` has to pass. Find the bug and fix it."
        _, status, seconds = run(arguments, copy, root / "home", ask, "--goal", "python3 -m unittest discover -q")
        yield Result(f"{folder.name} {change.function}", _tests_pass(copy), status, seconds)


def report(results: Sequence[Result], seed: int) -> str:
    """Return the figures in a few lines."""
    done = [each for each in results if each.is_done]
    failed = [each for each in results if not each.is_done]
    false_done = sum(each.status == "done" for each in failed)
    doubted = sum(each.status != "done" for each in done)
    seconds = statistics.median([each.seconds for each in results] or [0.0])
    return (
        f"seed {seed}: {len(done)} of {len(results)} done; {false_done} of {len(failed)} failures ended as done; "
        f"{doubted} of {len(done)} that are done ended otherwise; median {seconds:.1f} s"
    )


def main() -> int:
    """Run what was asked for and print each result, then the figures."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.exam.generated", description="Tasks that nobody has seen.")
    parser.add_argument("what", choices=("tasks", "repairs"))
    parser.add_argument("--url", required=True)
    parser.add_argument("--count", type=int, default=20)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(1_000_000))
    parser.add_argument("--sandbox", default="auto")
    parser.add_argument("--keep", default="", metavar="DIR")
    arguments = parser.parse_args()
    dice = random.Random(arguments.seed)
    results = []
    with tempfile.TemporaryDirectory(prefix="lmtui-generated-") as scratch:
        make = small_tasks if arguments.what == "tasks" else repairs
        for result in make(arguments, Path(arguments.keep or scratch), dice):
            results.append(result)
            sign = "done" if result.is_done else "NOT "
            print(f"{sign} {result.kind:24} {result.status:12} {result.seconds:6.1f} s", file=sys.stderr, flush=True)
    print(report(results, arguments.seed))
    return 0


if __name__ == "__main__":
    sys.exit(main())
