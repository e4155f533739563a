from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lmtui.features.pipeline.plan_queue import PipelineFile
from lmtui.features.pipeline.values import PipelinePlan, PipelineState, PipelineTask, TaskSpec
from lmtui.models.demo_scripts import ScriptedTurn
from tests.e2e.conftest import Program, Serve

FLAGS = ("--sandbox", "process", "--mode", "auto")


async def test_a_folder_is_a_project_once_a_session_was_opened_in_it(program: Program, serve: Serve) -> None:
    server = await serve(ScriptedTurn("Done."), ScriptedTurn("Done."))
    assert (await program.run("projects")).out.startswith("No projects yet.")
    assert (await program.run("run", "--url", server.url, *FLAGS, "do it")).code == 0
    (project,) = (await program.run("projects", "--json")).json
    assert (project["path"], project["name"], project["needs"]) == (str(program.workspace), "work", [])
    assert datetime.fromisoformat(project["last_used"]).tzinfo is not None
    assert (await program.run("demo", "--headless", "--sandbox", "process")).code in (0, 1)
    assert len((await program.run("projects", "--json")).json) == 1  # the demo is none


async def test_projects_are_scanned_tagged_used_and_removed(program: Program) -> None:
    (program.workspace / "one" / ".lmagent").mkdir(parents=True)
    (program.workspace / "two" / "plans").mkdir(parents=True)
    (program.workspace / "two" / "plans" / "a.md").touch()
    found = await program.run("projects", "scan")
    assert (found.code, "2 projects found, 2 new" in found.err) == (0, True)
    assert (await program.run("projects", "add", "two", "--tag", "rust")).code == 0
    assert "  #rust" in (await program.run("projects")).out
    assert (await program.run("projects", "use", "two")).out == f"{program.workspace}/two\n"
    assert (await program.run("projects", "remove", str(program.workspace / "one"))).code == 0
    assert [each["name"] for each in (await program.run("projects", "list", "--json")).json] == ["two"]
    for words in (("remove", "one"), ("use",), ("add", "nothing"), ("scan", "--tag", "x")):
        wrong = await program.run("projects", *words)
        assert (wrong.code, wrong.out) == (64, ""), words


async def test_what_needs_the_user_is_listed_and_is_the_exit_code(program: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    await program.run("projects", "add")
    quiet = await program.run("projects", "needs-action")
    assert (quiet.code, quiet.out) == (0, "Nothing needs you.\n")
    monkeypatch.setenv("LMTUI_HOME", str(program.home))
    file = PipelineFile(program.workspace)
    task = PipelineTask(1, TaskSpec("a task"), PipelineState.FAILED)
    file.add(PipelinePlan("a" * 16, "plan", "plan.md", datetime.now(UTC), (task,)))
    file.close()
    loud = await program.run("projects", "needs-action")
    assert (loud.code, "needs you: 1 failed task" in loud.out) == (2, True)
    assert (await program.run("projects", "needs-action", "--json")).json[0]["failed"] == 1
