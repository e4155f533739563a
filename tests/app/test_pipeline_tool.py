"""The model of a conversation steers the pipeline: when it is told of that, what it may do, and what it is told back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from lmtui.core.events import ApprovalRequested, Envelope, Outcome
from lmtui.core.ports import Policy
from lmtui.features.pipeline.service import PipelineService
from lmtui.features.pipeline.values import PipelinePlan
from lmtui.models.demo_scripts import Scenario, ScriptedCall, ScriptedTurn
from lmtui.models.scripted_server import ScriptedServer
from tests.app.answering import answering
from tests.app.conftest import DONE, Open, Serve, results, run
from tests.app.test_pipeline import plan_of, service_of, states, write
from tests.waiting import until

SETTINGS: dict[str, Any] = {"sandbox": "bubblewrap", "verify": "off"}
ADDED: dict[str, Any] = {"title": "Write a.txt", "files": ["a.txt"], "checks": ["test -s a.txt"]}


def call(action: str, name: str = "pipeline", /, **arguments: Any) -> ScriptedTurn:
    given = {"action": action, **arguments} if action else arguments
    return ScriptedTurn("I use it.", calls=(ScriptedCall(name, given),))


def bodies(server: ScriptedServer) -> list[dict[str, Any]]:
    return [each.body for each in server.requests]


def told(server: ScriptedServer) -> list[set[str]]:
    """Return the tools that each request names."""
    return [{tool["function"]["name"] for tool in body.get("tools", ())} for body in bodies(server)]


async def queued(service: PipelineService, workspace: Path, text: str) -> PipelinePlan:
    (workspace / "plans").mkdir(exist_ok=True)
    (workspace / "plans/files.md").write_text(text)
    return await service.planned("plans/files.md", service.options())


async def finished(service: PipelineService) -> PipelinePlan:
    await until(lambda: not service.is_running)
    return (await service.read())[0]


async def test_it_is_told_of_only_where_there_are_plans_or_a_setting_says_so(
    open_one: Open, serve: Serve, workspace: Path
) -> None:
    server = await serve(DONE)
    await run(await open_one(server.url, tools="all", **SETTINGS).new_session())
    runtime = open_one(server.url, **SETTINGS)
    session = await runtime.new_session()
    await run(session)
    (workspace / "plans").mkdir()
    (workspace / "plans/README.md").write_text("About plans.")
    await run(session)
    await queued(service_of(runtime), workspace, plan_of("a.txt"))
    await run(session)  # which stays as it began
    (workspace / "plans/files.md").unlink()
    await run(await open_one(server.url, **SETTINGS).new_session())  # it is in the queue
    assert ["pipeline" in each for each in told(server)] == [True, False, False, False, True]


async def test_a_task_that_is_added_and_run_ends_done(open_attended: Open, workspace: Path) -> None:
    chat = Scenario((call("add", **ADDED), call("run"), DONE), match="do it")
    async with ScriptedServer(chat, Scenario((write("a.txt"), DONE))) as server:
        runtime = open_attended(server.url, **SETTINGS)
        session = await runtime.new_session(Policy(is_attended=True))
        asked = answering(session, Outcome.ONCE)
        events = await run(session)
        plan = await finished(service_of(runtime))
    assert (workspace / "plans/tasks.md").read_text() == (
        "# tasks\n\n- [ ] Write a.txt\n  files: `a.txt`\n  check: test -s a.txt\n"
    )
    assert (plan.path, states(plan), plan.is_done) == ("plans/tasks.md", ["done"], True), plan
    assert [each.tool for each in asked] == ["pipeline", "pipeline"]
    assert "test -s a.txt" in asked[0].text
    assert "in the background" in asked[1].text
    assert "unattended" in asked[1].text
    assert 'Next: add more, or {"action": "run"}' in results(events)[0]


async def test_what_changes_something_asks_and_a_no_changes_nothing(open_attended: Open, serve: Serve, workspace: Path) -> None:
    actions = ("add", "run", "retry", "skip", "pause")
    turns = [call(action, task=1, **(ADDED if action == "add" else {})) for action in actions]
    server = await serve(*(turn for each in turns for turn in (each, DONE)))
    runtime = open_attended(server.url, **SETTINGS)
    before = await queued(service_of(runtime), workspace, plan_of("a.txt"))
    session = await runtime.new_session(Policy(is_attended=True))
    asked = answering(session, Outcome.NO)
    for number in range(len(actions)):
        await run(session)
        assert [each.tool for each in asked] == ["pipeline"] * (number + 1), actions[number]
    assert await service_of(runtime).read() == [before]
    assert not service_of(runtime).is_running


async def test_nobody_there_and_try_mode_refuse_what_asks(open_one: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(call("run"), call("status"), DONE)
    runtime = open_one(server.url, **SETTINGS)
    await queued(service_of(runtime), workspace, plan_of("a.txt"))
    refused, shown = results(await run(await runtime.new_session()))
    assert "1 ready Write a.txt" in shown
    assert "ready" not in refused
    server = await serve(call("run"), DONE)
    events = await run(await open_one(server.url, mode="try", **SETTINGS).new_session())
    assert "try mode allows nothing outside its overlay" in results(events)[0]
    server = await serve(call("run"), DONE)
    events = await run(await open_one(server.url, mode="auto", **SETTINGS).new_session())
    assert "use `lmtui pipeline run plans/files.md`" in results(events)[0]
    assert not service_of(runtime).is_running


@pytest.mark.full
async def test_status_says_what_failed_and_why_and_what_comes_next(open_one: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(DONE)
    runtime = open_one(server.url, **SETTINGS)
    service = service_of(runtime)
    await queued(service, workspace, plan_of("a.txt", "b.txt"))
    await service.work("plans/files.md", service.options())
    server = await serve(call("", "pipeline_status"), call("", "retry_failed"), call("skip", task=2), DONE)
    later = open_one(server.url, **SETTINGS)
    session = await later.new_session(Policy(is_attended=True))
    answering(session, Outcome.ONCE)
    shown, retried, skipped = results(await run(session))
    assert "Task 1 failed: it changed nothing" in shown
    assert shown.splitlines()[-1].startswith('Next: {"action": "retry", "task": 1} or {"action": "skip", "task": 1}, then')
    assert retried.startswith("ok: retry 1, 2.")
    assert skipped.startswith("ok: skip 2.")
    assert states((await service.read())[0]) == ["ready", "skipped"]


WRONG = (
    (call("frobnicate"), "'status', 'add', 'retry', 'skip', 'run' or 'pause'"),
    (call("add"), 'task 2 has no title Its form is {"action": "add", "title": TITLE'),
    (call("add", title="More", after=[7]), "task 2 waits for 7, which is not in the plan"),
    (call("add", title="More", files=["../x"]), "names ../x, which is not in the workspace"),
    (call("skip", task=9), 'the plan files has no task 9 Its form is {"action": "skip", "task": NUMBER}'),
    (call("skip"), "has no task 0"),
    (call("retry", task="task 1"), "task 1 is ready: retry is not possible"),
    (call("run", plan="other"), "plans/other.md is not there, or has changed: add a task first with"),
)


async def test_a_wrong_call_is_told_the_right_form(open_one: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(*(turn for each, _ in WRONG for turn in (each, DONE)))
    runtime = open_one(server.url, **SETTINGS)
    before = await queued(service_of(runtime), workspace, plan_of("a.txt"))
    session = await runtime.new_session(Policy(is_attended=True))
    answering(session, Outcome.ONCE)
    for _, said in WRONG:
        (result,) = results(await run(session))
        assert said in " ".join(result.replace(". Its", " Its").split())
    assert await service_of(runtime).read() == [before]


async def test_prose_and_a_task_that_reads_as_several_are_refused(open_one: Open, serve: Serve, workspace: Path) -> None:
    (workspace / "plans").mkdir()
    (workspace / "plans/prose.md").write_text("Make the site faster.\n")
    hostile = "fine\n# Tasks\n- [ ] Another\n  check: rm -rf ."
    server = await serve(call("add", title="More"), call("add", plan="new", title="One", text=hostile), DONE)
    first, second = results(await run(await open_one(server.url, **SETTINGS, mode="auto").new_session()))
    assert "plans/prose.md must not be written, or is no task list yet: then first" in first
    assert "its text reads as another task" in second
    assert not (workspace / "plans/new.md").exists()


@pytest.mark.full
async def test_a_task_of_the_queue_neither_sees_nor_steers_the_pipeline(open_one: Open, serve: Serve, workspace: Path) -> None:
    server = await serve(call("status"), call("add", **ADDED), write("a.txt"), DONE)
    runtime = open_one(server.url, tools="all", **SETTINGS)
    service = service_of(runtime)
    await queued(service, workspace, plan_of("a.txt"))
    plan = await service.work("plans/files.md", service.options())
    assert states(plan) == ["done"]
    assert not any("pipeline" in each for each in told(server))
    refusals = [each["content"] for body in bodies(server) for each in body["messages"] if each["role"] == "tool"]
    assert sum("there is no pipeline here" in str(each) for each in refusals) >= 2


async def test_what_is_asked_is_what_will_be_written_and_planned_and_a_plan_that_changes_meanwhile_is_not_run(
    open_attended: Open, serve: Serve, workspace: Path
) -> None:
    server = await serve(call("add", title="Two\nlines", checks="true"), DONE, call("run"), DONE, call("run"), DONE)
    runtime = open_attended(server.url, **SETTINGS)
    session = await runtime.new_session(Policy(is_attended=True))
    asked: list[ApprovalRequested] = answering(session, Outcome.ONCE)
    await run(session)
    assert (workspace / "plans/tasks.md").read_text().endswith(asked[0].text.partition("\n\n")[2])
    assert "- [ ] Two lines\n  check: true\n" in asked[0].text

    def change(envelope: Envelope) -> None:
        if isinstance(envelope.event, ApprovalRequested):
            (workspace / "plans/tasks.md").write_text("- [ ] Something else\n")

    unfollow = session.subscribe(change)
    (result,) = results(await run(session))
    unfollow()
    assert ("Two lines" in asked[1].text, "has changed" in result) == (True, True)
    assert not service_of(runtime).is_running
    await run(session)
    assert "Something else" in asked[2].text
