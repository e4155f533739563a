"""Ordinary turns that have nothing wrong with them: none is held up, and looking at them costs the model nothing."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from lmtui.app.host import Runtime
from lmtui.config import Config
from lmtui.core.events import TurnEnded, TurnReason, Verified
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.rules import Mode
from lmtui.core.verification import CheckOutcome, CheckRan
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer

CODE = "def add(a, b):\n    return a + b\n"
TEST = "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n"
TEST += "        self.assertEqual(add(1, 2), 3)\n"
PROJECT = {"calc.py": CODE, "test_calc.py": TEST, "README.md": "# calc\n\nIt adds.\n"}
PLAIN = {"notes.md": "# Notes\n", "app.py": "import sys\nprint(sys.argv)\n", "data.csv": "a,b\n1,2\n"}


def read(path: str) -> ScriptedCall:
    return ScriptedCall("read", {"path": path})


def write(path: str, content: str) -> ScriptedCall:
    return ScriptedCall("write", {"path": path, "content": content})


def edit(path: str, old: str, new: str) -> ScriptedCall:
    return ScriptedCall("edit", {"path": path, "search": old, "replace": new})


def shell(command: str) -> ScriptedCall:
    return ScriptedCall("shell", {"command": command})


@dataclass(frozen=True)
class Case:
    """A task, what the model calls step by step, its answer, and the files that are there."""

    task: str
    steps: tuple[tuple[ScriptedCall, ...], ...]
    answer: str
    files: dict[str, str] = field(default_factory=lambda: PROJECT)
    verified: Verified = Verified.NONE
    is_repository: bool = False


def ask(task: str, answer: str, *calls: ScriptedCall, files: dict[str, str] = PROJECT) -> Case:
    return Case(task, tuple((call,) for call in calls), answer, files)


def green(task: str, answer: str, *calls: ScriptedCall) -> Case:
    return Case(task, tuple((call,) for call in calls), answer, PROJECT, Verified.GREEN)


def plain(task: str, answer: str, *calls: ScriptedCall, is_repository: bool = False) -> Case:
    return Case(task, tuple((call,) for call in calls), answer, PLAIN, Verified.UNVERIFIED, is_repository)


LS = ScriptedCall("ls", {"path": "."})
GREP = ScriptedCall("grep", {"pattern": "add"})
DOC = edit("calc.py", "a, b):\n", 'a, b):\n    """Add."""\n')
MUL = "\n\ndef mul(a, b):\n    return a * b\n"
CASES = [
    ask("What does add() in calc.py do?", "It returns the sum of its two arguments.", read("calc.py")),
    ask("Do the tests pass?", "Yes: one test ran and passed.", shell("python3 -m unittest -q")),
    ask("Does notes.md mention sys? What about app.py?", "Only app.py does.", read("notes.md"), read("app.py"), files=PLAIN),
    ask("Tell me in words how to store it in plan.md; don't create plan.md.", "A list of three points would do."),
    green("Add mul to calc.py.", "mul is there.", read("calc.py"), edit("calc.py", "a + b\n", f"a + b\n{MUL}")),
    Case("Rename b to c in calc.py.", ((edit("calc.py", "a, b", "a, c"), edit("calc.py", "a + b", "a + c")),), "Renamed.",
        verified=Verified.GREEN),
    green("Rename calc.py to sums.py, and adapt the test.", "It is sums.py now.",
        shell("mv calc.py sums.py && sed -i 's/from calc/from sums/' test_calc.py")),
    green("Run `python3 -m unittest -q` first, then add a comment to calc.py.", "The comment is there.",
        shell("python3 -m unittest -q"), edit("calc.py", "def", "# Adds.\ndef")),
    green("Add mul, then run the tests.", "All tests pass.", edit("calc.py", "a + b\n", f"a + b\n{MUL}"),
        shell("python3 -m unittest discover -q")),
    plain("Write a Dockerfile and a .env.example.", "Both are there.",
        write("Dockerfile", "FROM python:3.11\n"), write(".env.example", "KEY=\n")),
    plain("Write a script that creates out.txt when it is run; do not run it.", "make.py is there; I did not run it.",
        write("make.py", "open('out.txt', 'w').close()\n")),
    plain("Commit notes.md with a line more.", "It is committed.", edit("notes.md", "# Notes", "# Notes!"),
        ScriptedCall("git_add", {"paths": ["notes.md"]}), ScriptedCall("git_commit", {"message": "notes: Shout"}),
        is_repository=True),
    green("Move add to sums.py; calc.py still has to offer it.", "add is in sums.py.", write("sums.py", CODE),
        write("calc.py", "from sums import add\n")),
    green("Leave a stub of mul in calc.py, I will write it.", "The stub is there.",
        edit("calc.py", "a + b\n", "a + b\n\n\ndef mul(a, b):\n    raise NotImplementedError\n")),
    green("Write shapes.py with a base class and a square.", "Both are there.", write("shapes.py",
        "class Shape:\n    def area(self):\n        raise NotImplementedError\n\n\n"
        "class Square(Shape):\n    def area(self):\n        return 1\n")),
    plain("Write todo.py, which prints what I have to do.", "todo.py is there.",
        write("todo.py", "TODO = ['tea']  # TODO list of the user\nprint(TODO)\n")),
    Case("Print the number of arguments too.", ((edit("app.py", "print(x)", "print(len(x))\nprint(x)"),), ), "It does.",
        {"app.py": "import sys\nx = sys.argv  # TODO: parse them\nprint(x)  # for now\n"}, Verified.UNVERIFIED),
]  # fmt: skip


async def run(case: Case, folder: Path, verify: str = "auto") -> tuple[TurnEnded, list[str], list[CheckRan], ScriptedServer]:
    for path, content in case.files.items():
        (folder / path).write_text(content)
    if case.is_repository:
        git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
        for words in (("init", "-q"), ("config", "user.name", "a"), ("config", "user.email", "a@b"), ("add", "."),
                      ("commit", "-qm", "x")):  # fmt: skip
            subprocess.run([*git, *words], cwd=folder, check=True)
    turns = (*(ScriptedTurn("I work.", calls=calls) for calls in case.steps), ScriptedTurn(case.answer))
    async with ScriptedServer(Scenario(turns)) as server:
        runtime = Runtime(
            folder, Config(url=server.url, sandbox="bubblewrap", mode=str(Mode.AUTO), verify=verify), is_attended=False
        )
        try:
            session = await runtime.new_session()
            session.submit(case.task)
            await session.wait_idle()
            events = [each.event for each in session.history()]
        finally:
            await runtime.close()
    (end,) = [event for event in events if isinstance(event, TurnEnded)]
    told = [event.text for event in events if isinstance(event, Reminder)]
    return end, told, [event for event in events if isinstance(event, CheckRan)], server


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.task[:30])
@pytest.mark.full
async def test_an_ordinary_turn_is_done_without_a_reminder(case: Case, tmp_path: Path) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    end, told, checks, server = await run(case, folder)
    assert (end.reason, end.verified, told) == (TurnReason.DONE, case.verified, []), end.error
    assert end.text == case.answer
    assert len(server.requests) == len(case.steps) + 1
    assert len({check.command for check in checks}) == len(checks)  # nothing was checked twice


@pytest.mark.full
async def test_checks_that_pass_add_no_byte_to_any_request(tmp_path: Path) -> None:
    case = next(each for each in CASES if each.task.startswith("Add mul, then"))
    bodies: list[list[object]] = []
    for verify in ("auto", "off"):
        (folder := tmp_path / verify / "work").mkdir(parents=True)
        *_, checks, server = await run(case, folder, verify=verify)
        bodies.append([each.body["messages"] for each in server.requests])
        assert bool(checks) is (verify == "auto")
    with_checks, without = (re.sub(r" in \d\.\d+s", "", json.dumps(each).replace(str(tmp_path), "")) for each in bodies)
    assert with_checks.replace("/auto/work", "") == without.replace("/off/work", "")


@pytest.mark.full
async def test_many_steps_without_a_change_and_a_repeated_end_run_no_check_again(tmp_path: Path) -> None:
    broken = edit("calc.py", "a + b", "a - b")
    looks = tuple((call,) for call in (LS, GREP, read("calc.py"), read("README.md"), read("test_calc.py")))
    folder = tmp_path / "work"
    folder.mkdir()
    end, told, checks, _ = await run(Case("Look around and change add.", ((broken,), *looks, ()), "It is changed."), folder)
    assert (end.reason, end.verified) == (TurnReason.UNFINISHED, Verified.RED)
    assert len(told) == 2  # after the step, and at the end
    assert [check.outcome for check in checks] == [CheckOutcome.FAILED] * 2
    assert len({check.command for check in checks}) == 2
