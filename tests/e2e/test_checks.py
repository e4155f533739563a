"""Checks of real work: a run that breaks a test is told so, a goal is worked at, and the user's own edits are checked."""

from __future__ import annotations

import json

import pytest

from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Serve

CODE = "def add(a, b):\n    return a + b\n"
TEST = "import unittest\nfrom calc import add\n\nclass T(unittest.TestCase):\n    def test_add(self):\n"
TEST += "        self.assertEqual(add(1, 2), 3)\n"
FLAGS = ("--mode", "auto", "--sandbox", "bubblewrap", "--output", "json")


@pytest.fixture
def project(program: Program) -> Program:
    (program.workspace / "calc.py").write_text(CODE)
    (program.workspace / "test_calc.py").write_text(TEST)
    return program


def edit_of(path: str, old: str, new: str) -> ScriptedTurn:
    return ScriptedTurn("Editing.", calls=(ScriptedCall("edit", {"path": path, "search": old, "replace": new}),))


def written(content: str) -> ScriptedTurn:
    return ScriptedTurn("Writing.", calls=(ScriptedCall("write", {"path": "test_calc.py", "content": content}),))


def edit(old: str, new: str) -> ScriptedTurn:
    return edit_of("calc.py", old, new)


async def test_a_run_that_breaks_a_test_is_told_and_ends_green_once_it_is_repaired(project: Program, serve: Serve) -> None:
    server = await serve(edit("a + b", "a - b"), edit("a - b", "b + a"), ScriptedTurn("All is done."))
    result = await project.run("run", "--url", server.url, *FLAGS, "swap the arguments")
    found = json.loads(result.out)
    assert (result.code, found["status"], found["verified"]) == (0, "done", "green"), result.err
    assert found["checks"][-1]["command"] == "python3 -m unittest discover -q"
    assert found["checks"][-1]["exit_code"] == 0
    assert "test_add" in json.dumps(server.requests[1].body)


GUT = "import unittest\n\nclass T(unittest.TestCase):\n    def test_add(self):\n        pass\n"
RUN = ScriptedTurn("Running.", calls=(ScriptedCall("shell", {"command": "python3 -m unittest -q"}),))


@pytest.mark.parametrize("turns", [
    (written("..."),), (written(GUT),), (edit_of("test_calc.py", "self.assertEqual(add(1, 2), 3)", "pass"), RUN),
])  # fmt: skip
async def test_tests_that_are_gutted_reach_no_goal_nor_where_the_model_runs_its_command_itself(
    project: Program, serve: Serve, turns: tuple[ScriptedTurn, ...]
) -> None:
    (project.workspace / "calc.py").write_text(CODE.replace("+", "-"))
    server = await serve(*turns, *[ScriptedTurn("The tests pass now.")] * 8)
    flags = ("--goal", "python3 -m unittest -q", *FLAGS)
    result = await project.run("run", "--url", server.url, *flags, "The tests fail. Fix the bug.")
    found = json.loads(result.out)
    assert (result.code, found["status"]) == (2, "unfinished"), result.err
    assert found["verified"] == "red" or (found["verified"], turns) == ("none", (written("..."),))  # no such file is written
