"""`lmtui pipeline`: plans that are worked through by a scripted model, in real overlays and a real repository."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from typing import Any

import pytest

from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from tests.e2e.conftest import Program, Result, Serve
from tests.sandbox.conftest import BUBBLEWRAP, DOCKER

PLAN = """# Two modules

- [ ] Write a.py
  files: a.py
  check: python3 -c "import a; assert a.one == 1"
- [ ] Write b.py
  It uses a.py.
  files: b.py
  after: 1
  check: python3 -c "import b; assert b.two == 2"
"""
A, B = "one = 1\n", "from a import one\n\ntwo = one + 1\n"


def writes(path: str, content: str, match: str, seed: int | None = None) -> Scenario:
    """Return a conversation about a task in which a file is written."""
    call = ScriptedCall("write", {"path": path, "content": content})
    turns = (ScriptedTurn("I write it.", calls=(call,)), *[ScriptedTurn("It is done.")] * 6)
    return Scenario(turns, match=match, seed=seed, name=f"{path} {seed}")


@pytest.fixture
def project(program: Program) -> Program:
    (program.workspace / "PLAN.md").write_text(PLAN)
    return program


def git(project: Program, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=project.workspace, check=True, capture_output=True, text=True)
    return done.stdout


@pytest.fixture
def repository(project: Program) -> Program:
    git(project, "init", "-q")
    git(project, "config", "user.name", "Somebody")
    git(project, "config", "user.email", "somebody@example.org")
    git(project, "add", "PLAN.md")
    git(project, "commit", "-q", "-m", "Begin")
    return project


async def pipeline(project: Program, url: str, *words: str, sandbox: str = "bubblewrap") -> Result:
    return await project.run("pipeline", *words, "--url", url, "--sandbox", sandbox, "--json", "-c", "verify=off")


def states(told: Any) -> dict[int, str]:
    return {task["id"]: task["state"] for task in told["tasks"]}


@pytest.mark.parametrize("sandbox", [BUBBLEWRAP, DOCKER])
async def test_a_plan_is_worked_through_and_each_task_is_a_commit(repository: Program, serve: Serve, sandbox: str) -> None:
    server = await serve(writes("b.py", B, "Write b.py"), writes("a.py", A, "Write a.py"))
    (repository.workspace / "mine.txt").write_text("not committed\n")
    result = await pipeline(repository, server.url, "run", "PLAN.md", sandbox=sandbox)
    assert (result.code, states(result.json)) == (0, {1: "done", 2: "done"}), result.err
    assert (repository.workspace / "a.py").read_text() == A
    assert (repository.workspace / "b.py").read_text() == B
    subjects = git(repository, "log", "--format=%s").splitlines()
    assert subjects == ["PLAN: Add the report", "PLAN: Write b.py", "PLAN: Write a.py", "PLAN: Add the task list", "Begin"]
    assert git(repository, "show", "--name-only", "--format=", "HEAD~1").split() == ["b.py"]
    assert git(repository, "status", "--porcelain").splitlines()[0] == "?? .lmagent/" or "mine.txt" in git(
        repository, "status", "--porcelain"
    )
    report = json.loads((repository.workspace / "plans/PLAN/quality_report.json").read_text())
    assert (report["status"], report["totals"]["attempts"]) == ("done", 2)
    assert [each["commit"] for each in report["tasks"]] == [git(repository, "rev-parse", f"HEAD~{n}").strip() for n in (2, 1)]
    assert (await repository.run("pipeline", "gates", "PLAN", "--sandbox", sandbox)).out == "PLAN: done\n"
    checked = await repository.run("pipeline", "report", "check", "plans/PLAN/quality_report.json", "--sandbox", sandbox)
    assert checked.code == 0, checked.err
    assert str(repository.workspace) not in json.dumps(report)
    head = git(repository, "rev-parse", "HEAD")
    again = await pipeline(repository, server.url, "run", "PLAN.md", sandbox=sandbox)
    assert (again.code, again.json["tasks"], git(repository, "rev-parse", "HEAD")) == (0, result.json["tasks"], head)


KILLS = int(os.environ.get("LMTUI_PIPELINE_KILLS", "3"))
_KILLED = """
import os, signal, sys
from lmtui.features.pipeline import service

at, is_before, arguments = int(sys.argv[1]), sys.argv[2] == "before", sys.argv[3:]
change, counted = service.PipelineFile.change, [0]

def counting(self, *given):
    counted[0] += 1
    if is_before and counted[0] == at:
        os.kill(os.getpid(), signal.SIGKILL)
    changed = change(self, *given)
    if counted[0] == at:
        os.kill(os.getpid(), signal.SIGKILL)
    return changed

service.PipelineFile.change = counting
from lmtui.__main__ import main
sys.argv = ["lmtui", *arguments]
sys.exit(main())
"""


@pytest.mark.parametrize("number", range(KILLS))
async def test_a_kill_at_any_change_of_state_is_gone_on_from(repository: Program, serve: Serve, number: int) -> None:
    server = await serve(writes("b.py", B, "Write b.py"), writes("a.py", A, "Write a.py"))
    at, when = 3 + (number * 5) % 14, "before" if number % 2 else "after"
    common = ("--url", server.url, "--sandbox", "bubblewrap", "-c", "verify=off")
    process = await repository.start_python("-c", _KILLED, str(at), when, "pipeline", "run", "PLAN.md", *common)
    _, err = await process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0), err.decode()
    result = await pipeline(repository, server.url, "run", "PLAN.md")
    assert (result.code, states(result.json)) == (0, {1: "done", 2: "done"}), (at, when, result.err)
    assert (repository.workspace / "b.py").read_text() == B
    subjects = [each for each in git(repository, "log", "--format=%s").splitlines() if "Write" in each]
    assert subjects == ["PLAN: Write b.py", "PLAN: Write a.py"], (at, when)
    assert not list(repository.home.rglob("upper"))
    assert len([each for task in result.json["tasks"] for each in task["attempts"]]) <= 2
