"""`lmtui pipeline run --contracts`: a failing acceptance test is written first, and what passes it is merged with it."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Result, Serve

PLAN = """# One module

- [ ] Write kit.py
  The function one returns 1.
  files: kit.py
- [ ] Write notes.txt
  files: notes.txt
  after: 1
  check: test -s notes.txt
"""
PATH = "tests/acceptance/test_PLAN_1.py"
TEST = """import unittest
import kit


class One(unittest.TestCase):
    def test_one(self):
        self.assertEqual(kit.one(), 1)
"""
WEAK = TEST.replace("kit.one(), 1", "bool(kit), True")
KIT = "def one():\n    return 1\n"
DONE = (ScriptedTurn("It is done."),) * 6


def answers(text: str, match: str, seed: int | None = None) -> Scenario:
    """Return a model's answer with a file in a fence."""
    return Scenario((ScriptedTurn(f"```python\n{text}```"),), match=match, seed=seed)


def works(match: str, *calls: ScriptedCall, rate: float = 0.0) -> Scenario:
    """Return a conversation about a task in which tools are called at once."""
    return Scenario((ScriptedTurn("I do it.", calls=calls, rate=rate), *DONE), match=match)


def write(path: str, content: str) -> ScriptedCall:
    return ScriptedCall("write", {"path": path, "content": content})


NOTES = works("Write notes.txt", write("notes.txt", "done\n"))
CONTRACT = f"Write the complete file {PATH}"


def git(project: Program, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project.workspace, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def project(program: Program) -> Program:
    (program.workspace / "PLAN.md").write_text(PLAN)
    git(program, "init", "-q")
    git(program, "config", "user.name", "Somebody")
    git(program, "config", "user.email", "somebody@example.org")
    return program


def words(url: str, *more: str) -> list[str]:
    return ["pipeline", "run", "PLAN.md", "--url", url, "--sandbox", "bubblewrap", "--json", "-c", "verify=off", *more]


async def run(project: Program, url: str, *more: str) -> Result:
    return await project.run(*words(url, "--contracts", *more))


async def test_a_contract_is_written_first_then_passed_merged_and_committed(project: Program, serve: Serve) -> None:
    server = await serve(
        answers(TEST, CONTRACT),
        answers(KIT.replace("1\n", "2\n"), "Write the complete file kit.py"),
        NOTES,
        works("Write kit.py", write("kit.py", KIT)),
    )
    result = await run(project, server.url)
    assert result.code == 0, result.err
    first, second = result.json["tasks"]
    assert (first["state"], len(first["attempts"]), second["state"], second["contract"]) == ("done", 1, "done", None)
    assert (first["contract"]["path"], first["contract"]["text"]) == (PATH, TEST)
    assert first["spec"]["checks"] == [first["contract"]["command"]]
    assert (project.workspace / PATH).read_text() == TEST
    assert git(project, "show", "--name-only", "--format=", "HEAD~2").split() == ["kit.py", PATH]
    told = [json.dumps(each.body, ensure_ascii=False) for each in server.requests]
    assert sum(CONTRACT in each for each in told) == 1
    drafts = [each for each in told if "Write the complete file kit.py" in each]
    assert all(f"{PATH} is now" in each and "AssertionError: 2 != 1" in each for each in drafts[1:])
    coder = next(each for each in told if "I do it." in each)
    assert f"The acceptance test of this task is {PATH}. It fails now and has to pass. Do not change or delete it." in coder
    report = json.loads((project.workspace / "plans/PLAN/quality_report.json").read_text())
    assert [each["contract"] for each in report["tasks"]] == [{"path": PATH, "problem": ""}, None]
    assert f"## Contracts\n\n- 1 Write kit.py: {PATH}\n" in (project.workspace / "plans/PLAN/quality_report.md").read_text()
    gate = await project.run("pipeline", "done", "--url", server.url, "--sandbox", "bubblewrap", "-c", "verify=off")
    assert gate.code == 0, gate.out
    (project.workspace / "kit.py").write_text(KIT.replace("1\n", "2\n"))
    gate = await project.run("pipeline", "done", "--url", server.url, "--sandbox", "bubblewrap", "-c", "verify=off")
    assert (gate.code, PATH in gate.out) == (2, True), gate.out


async def test_a_test_that_passes_at_once_is_refused_three_times_and_the_task_goes_on(project: Program, serve: Serve) -> None:
    server = await serve(answers(WEAK, CONTRACT), NOTES, works("Write kit.py", write("kit.py", KIT)))
    result = await run(project, server.url)
    assert result.code == 0, result.err
    first = result.json["tasks"][0]
    assert (first["state"], first["spec"]["checks"], first["contract"]["path"]) == ("done", [], "")
    assert first["contract"]["problem"] == "it passes if the files are empty"
    assert "task 1: no contract: it passes if the files are empty" in result.err
    assert not (project.workspace / PATH).exists()
    asked = [each.raw.decode() for each in server.requests if CONTRACT in each.raw.decode()]
    assert ["An earlier test could not be used" in each for each in asked] == [False, True, True]
    report = (project.workspace / "plans/PLAN/quality_report.md").read_text()
    assert "- 1 Write kit.py: none, it passes if the files are empty\n" in report


async def test_without_the_setting_no_contract_is_asked_for(project: Program, serve: Serve) -> None:
    server = await serve(answers(TEST, CONTRACT), NOTES, works("Write kit.py", write("kit.py", KIT)))
    result = await project.run(*words(server.url))
    assert (result.code, result.json["tasks"][0]["contract"]) == (0, None), result.err
    assert not any(CONTRACT in each.raw.decode() for each in server.requests)


@pytest.mark.parametrize(
    "call", [write(PATH, WEAK), ScriptedCall("shell", {"command": f"rm {PATH}; touch tests/acceptance/other.py"})]
)
async def test_an_attempt_that_changes_the_contract_fails(project: Program, serve: Serve, call: ScriptedCall) -> None:
    bad = works("Write kit.py", write("kit.py", KIT), call)
    server = await serve(answers(TEST, CONTRACT), answers("x = (\n", "Write the complete file kit.py"), NOTES, bad)
    result = await run(project, server.url)
    first = result.json["tasks"][0]
    assert (result.code, first["state"], first["attempts"][0]["stage"]) == (2, "failed", "verifier"), result.err
    assert first["attempts"][0]["findings"] == [f"{PATH} was changed: it is the acceptance test, which must stay as it is"]
    assert not (project.workspace / "kit.py").exists()
    assert not (project.workspace / PATH).exists()


async def test_a_kill_after_the_contract_was_written_asks_for_no_other(project: Program, serve: Serve) -> None:
    slow = works("Write kit.py", write("kit.py", KIT), rate=0.2)
    server = await serve(answers(TEST, CONTRACT), answers("x = (\n", "Write the complete file kit.py"), NOTES, slow)
    process = await project.start(*words(server.url, "--contracts"))
    async with asyncio.timeout(90):
        while not any("Write the complete file kit.py" in each.raw.decode() for each in server.requests):
            await asyncio.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    await process.wait()
    assert not (project.workspace / PATH).exists()
    quick = await serve(answers(TEST, CONTRACT), answers(KIT, "Write the complete file kit.py"), NOTES)
    result = await run(project, quick.url)
    assert (result.code, result.json["tasks"][0]["contract"]["text"]) == (0, TEST), result.err
    assert (project.workspace / PATH).read_text() == TEST
    assert not any(CONTRACT in each.raw.decode() for each in quick.requests)
