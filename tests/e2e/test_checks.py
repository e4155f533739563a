"""Checks of real work: a run that breaks a test is told so, a goal is worked at, and the user's own edits are checked."""

from __future__ import annotations

import json
import subprocess

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


@pytest.mark.quick
async def test_a_run_that_breaks_a_test_is_told_and_ends_green_once_it_is_repaired(project: Program, serve: Serve) -> None:
    server = await serve(edit("a + b", "a - b"), edit("a - b", "b + a"), ScriptedTurn("All is done."))
    result = await project.run("run", "--url", server.url, *FLAGS, "swap the arguments")
    found = json.loads(result.out)
    assert (result.code, found["status"], found["verified"]) == (0, "done", "green"), result.err
    assert found["checks"][-1]["command"] == "python3 -m unittest discover -q"
    assert found["checks"][-1]["exit_code"] == 0
    assert "test_add" in json.dumps(server.requests[1].body)


async def test_a_run_that_stays_red_is_unfinished_with_exit_code_2(project: Program, serve: Serve) -> None:
    server = await serve(edit("a + b", "a - b"), ScriptedTurn("All is done."), ScriptedTurn("All is done."))
    result = await project.run("run", "--url", server.url, *FLAGS, "swap the arguments")
    found = json.loads(result.out)
    assert (result.code, found["status"], found["verified"]) == (2, "unfinished", "red")
    assert "unittest" in found["error"]
    shown = await project.run("show", found["session"])
    assert "red" in shown.out


async def test_a_paused_goal_is_said_resumed_replaced_and_dropped_without_a_screen(project: Program, serve: Serve) -> None:
    server = await serve(*[ScriptedTurn("It is done.")] * 20)
    go_on = ("run", "--url", server.url, *FLAGS, "--continue")
    first = await project.run("run", "--url", server.url, *FLAGS, "--goal", "false", "try it")
    assert first.code == 2, first.err
    asked = len(server.requests)
    worked = await project.run(*go_on, "go on")
    assert (worked.code, "The goal is paused" in worked.err, '"/goal resume"' in worked.err) == (0, True, True), worked.err
    resumed = await project.run(*go_on, "/goal resume")
    assert (resumed.code, json.loads(resumed.out)["checks"][-1]["command"]) == (2, "false"), resumed.err
    assert "exits with 0" in json.dumps(server.requests[asked + 1].body)
    listed = await project.run(*go_on[:-1], "--resume", json.loads(first.out)["session"], "/goal")
    assert "paused: false" in listed.out
    other = await project.run(*go_on, "--goal", "true")
    assert (other.code, json.loads(other.out)["checks"][-1]["command"]) == (0, "true"), other.err
    assert "goal" in (await project.run(*go_on, "/goal clear")).out
    assert "The goal is paused" not in (await project.run(*go_on, "go on")).err


async def test_a_goal_that_cannot_run_stops_before_the_model_is_asked(project: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("It is done."))
    result = await project.run("run", "--url", server.url, *FLAGS, "--goal", "nosuchcmd", "work")
    assert (result.code, [each for each in server.requests if "messages" in json.dumps(each.body)]) == (2, [])
    assert "nosuchcmd: command not found" in json.loads(result.out)["error"]
    broken = await project.run("run", "--url", server.url, *FLAGS, "--goal", "echo 'x", "work")
    assert (broken.code, "Close the quote" in broken.err) == (64, True)


async def test_check_tells_the_user_of_their_own_edits(project: Program) -> None:
    good = await project.run("check", "--sandbox", "bubblewrap")
    lines = ["… python3 -m unittest discover -q", "✓ suite: python3 -m unittest discover -q passed"]
    assert (good.code, good.out.splitlines()) == (0, lines), good.err
    (project.workspace / "calc.py").write_text(CODE.replace("+", "-"))
    bad = await project.run("check", "--sandbox", "bubblewrap", "--json")
    (check,) = json.loads(bad.out)
    assert (bad.code, check["outcome"]) == (1, "failed")
    git = ("git", "-c", "user.name=a", "-c", "user.email=a@b")
    for words in (("init", "-q"), ("add", "."), ("commit", "-qm", "x")):
        subprocess.run([*git, *words], cwd=project.workspace, check=True)
    clean = await project.run("check", "--sandbox", "bubblewrap")
    assert (clean.code, "✗ suite" in clean.out) == (1, True)
    listed = await project.run("check", "--list", "--sandbox", "bubblewrap")
    assert "suite   python3 -m unittest discover -q" in listed.out
    (project.workspace / "test_calc.py").unlink()
    nothing = await project.run("check", "--sandbox", "bubblewrap")
    assert nothing.code == 2
    assert "--verify" in nothing.out
    listed = await project.run("check", "--list", "--json", "--sandbox", "bubblewrap")
    assert [each["rung"] for each in json.loads(listed.out)] == ["gate", "review"]


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
