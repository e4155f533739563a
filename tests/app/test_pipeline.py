"""The pipeline inside one process: what models are loaded for it, what puts a task off, what blocks its end."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lmtui.app.host import Runtime
from lmtui.core.errors import UsageError
from lmtui.features.pipeline import runner
from lmtui.features.pipeline.plan_queue import run_lock
from lmtui.features.pipeline.service import PipelineService
from lmtui.features.pipeline.values import PipelinePlan, PipelineState, TaskAction, WorkspacePipeline
from lmtui.models.demo_scripts import ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.app.conftest import Open, Serve
from tests.waiting import PATIENCE_S, until

TASK = "- [ ] Write {name}\n  files: {name}\n  check: test -s {name}\n"
DONE = ScriptedTurn("It is done.")


def plan_of(*names: str) -> str:
    return "# Files\n\n" + "".join(TASK.format(name=name) for name in names)


def write(name: str) -> ScriptedTurn:
    return ScriptedTurn("I write it.", calls=(ScriptedCall("write", {"path": name, "content": "text\n"}),))


def service_of(runtime: Runtime) -> PipelineService:
    found = runtime.extensions[WorkspacePipeline]
    assert isinstance(found, PipelineService)
    return found


async def worked(open_one: Open, url: str, workspace: Path, text: str, **settings: Any) -> tuple[PipelineService, PipelinePlan]:
    (workspace / "PLAN.md").write_text(text)
    service = service_of(open_one(url, **{"sandbox": "bubblewrap", "verify": "off"} | settings))
    return service, await service.work("PLAN.md", service.options())


def states(plan: PipelinePlan) -> list[str]:
    return [str(each.state) for each in plan.tasks]


@pytest.mark.full
async def test_a_server_that_is_away_costs_no_attempt(
    open_one: Open, serve: Serve, workspace: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(runner, "_COOLDOWN_S", 1.0)
    away = await serve(write("a.txt"), DONE)
    url = away.url
    (workspace / "PLAN.md").write_text(plan_of("a.txt"))
    service = service_of(open_one(url, sandbox="bubblewrap", verify="off", max_retries=0))
    await service.planned("PLAN.md", service.options())
    await away.__aexit__(None, None, None)
    work = asyncio.create_task(service.work("PLAN.md", service.options()))
    await until(lambda: any(task.why.startswith("the model server is away") for plan in service.known for task in plan.tasks))
    port = int(url.rsplit(":", 1)[1].partition("/")[0])
    back = ScriptedServer(*away._scenarios)
    back._server = await asyncio.start_server(back._accept, "127.0.0.1", port, limit=1 << 20)
    async with asyncio.timeout(PATIENCE_S):
        plan = await work
    assert (states(plan), len(plan.tasks[0].attempts)) == (["done"], 1)
    await back.__aexit__(None, None, None)


async def test_what_the_user_did_not_commit_is_not_swept_into_commits(open_one: Open, serve: Serve, workspace: Path) -> None:
    for words in (["init", "-q"], ["config", "user.name", "A"], ["config", "user.email", "a@example.org"]):
        await (await asyncio.create_subprocess_exec("git", *words, cwd=workspace)).wait()
    (workspace / "a.txt").write_text("mine\n")
    call = ScriptedCall("shell", {"command": "echo theirs >> a.txt"})
    server = await serve(ScriptedTurn("I add it.", calls=(call,)), DONE)
    text = "- [ ] Add a line\n  check: grep -q theirs a.txt\n"
    notes: list[str] = []
    (workspace / "PLAN.md").write_text(text)
    service = service_of(open_one(server.url, sandbox="bubblewrap", verify="off"))
    service.on_note = notes.append
    plan = await service.work("PLAN.md", service.options())
    assert (states(plan), plan.tasks[0].commit, (workspace / "a.txt").read_text()) == (["done"], "", "mine\ntheirs\n")
    assert any("not committed" in each and "a.txt" in each for each in notes)


@pytest.mark.full
async def test_tasks_can_be_paused_skipped_and_edited_while_nothing_runs(open_one: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(write("b.txt"), DONE)
    (workspace / "PLAN.md").write_text(plan_of("a.txt", "b.txt"))
    service = service_of(open_one(server.url, sandbox="bubblewrap", verify="off"))
    await service.planned("PLAN.md", service.options())
    with pytest.raises(UsageError, match="wait for each other"):
        await service.edit("PLAN", 1, replace((await service.read())[0].task(1).spec, after=(1,)))
    await service.do("PLAN", 1, TaskAction.PAUSE)
    plan = await service.work("PLAN.md", service.options())
    assert states(plan) == ["ready", "done"]
    await service.do("PLAN", 1, TaskAction.SKIP)
    assert (await service.work("PLAN.md", service.options())).is_done
    assert service.known[0].counts[PipelineState.SKIPPED] == 1


@pytest.mark.full
async def test_a_plan_that_was_stopped_or_paused_is_resumed(open_attended: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(write("a.txt"), DONE)
    (workspace / "PLAN.md").write_text(plan_of("a.txt"))
    service = service_of(open_attended(server.url, sandbox="bubblewrap", verify="off"))
    await service.planned("PLAN.md", service.options())
    await service.pause("PLAN", is_paused=True)
    ran = [service.is_running]
    (workspace / "PLAN.md").write_text(plan_of("b.txt"))
    with pytest.raises(UsageError, match="has changed since it was planned"):
        await service.pause("PLAN", is_paused=False)
    assert (await service.read())[0].is_paused
    (workspace / "PLAN.md").write_text(plan_of("a.txt"))
    await service.pause("PLAN", is_paused=False)
    ran.append(service.is_running)
    await until(lambda: not service.is_running)
    (plan,) = await service.read()
    assert (plan.is_done, plan.is_paused) == (True, False)
    await service.pause("PLAN", is_paused=False)
    assert [*ran, service.is_running] == [False, True, False]


async def test_what_cannot_be_begun_is_said_at_once(open_one: Open, open_attended: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(write("a.txt"))
    with pytest.raises(UsageError, match="plans cannot run in the background here"):
        await service_of(open_one(server.url)).begin("PLAN.md")
    service = service_of(open_attended(server.url, sandbox="bubblewrap"))
    with pytest.raises(UsageError, match=r"the plan nope\.md cannot be read"):
        await service.begin("nope.md")
    texts = {" \n": "is empty", "x" * 1_000_001: "has more than 1,000,000 bytes", "- [x] a\n": r"no open tasks in PLAN\.md"}
    for text, problem in texts.items():
        (workspace / "PLAN.md").write_text(text)
        with pytest.raises(UsageError, match=problem):
            await service.begin("PLAN.md")
    (workspace / "PLAN.md").write_text(plan_of("a.txt"))
    with run_lock(workspace), pytest.raises(UsageError, match="another lmtui is working on a plan"):
        await service.begin("PLAN.md")
    assert await service.check_plan("PLAN.md") == ("Start 1 task?", "no commits · 3 attempts each")


@pytest.mark.full
async def test_criteria_of_a_specification_and_open_questions_hold_the_end_up(
    open_one: Open, serve: Serve, workspace: Path
) -> None:
    server = await serve(write("a.txt"), DONE)
    (workspace / "SPEC.md").write_text("# Spec\n\n- AC-1: there is b.txt\n  check: test -s b.txt\n- BLOCKING: Who pays?\n")
    service, plan = await worked(open_one, server.url, workspace, f"{plan_of('a.txt')}\nBLOCKING: Which licence?\n")
    assert (plan.is_done, states(plan)) == (False, ["done"])
    assert "Which licence?" in plan.problem
    with pytest.raises(UsageError, match="no question 3"):
        await service.answer("PLAN", 3, "MIT")
    await service.answer("PLAN", 1, "MIT")
    assert (await service.gate("PLAN"))[1][0] == "BLOCKING question 2 has no answer: Who pays?"
    await service.answer("PLAN", 2, "We do")
    assert not any("BLOCKING" in each for each in (await service.gate("PLAN"))[1])
    (workspace / "SPEC.md").write_text("# Spec\n\n- AC-1: there is b.txt\n  check: test -s b.txt\n")
    _, reasons = await service.gate("PLAN")
    assert len(reasons) == 1
    assert "`test -s b.txt` exits with 1" in reasons[0]
    (workspace / "b.txt").write_text("b\n")
    assert (await service.gate("PLAN"))[1] == []
