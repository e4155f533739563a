from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

import pytest

from lmtui.core.events import ApprovalRequested, CheckpointCreated, Outcome, ToolCallFinished
from lmtui.core.permissions.rules import Effect, Mode, parse_rule
from lmtui.core.sessions import Answer
from lmtui.core.workspace import ExecResult
from tests.engine.seen import ran, reply, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer

REFUSED = ExecResult(1, "sed: couldn't open file x: Read-only file system\n", 0, 1)


def shell(command: str) -> tuple[str, str]:
    return "shell", json.dumps({"command": command})


def rig_of(sandbox: FakeSandbox, *commands: str, mode: Mode = Mode.NORMAL, is_attended: bool = True) -> Rig:
    answers = [answer("", *map(shell, commands)), answer("done")]
    return Rig(FakeProvider(*answers), sandbox, mode=mode, is_attended=is_attended, checkpoints=FakeCheckpoints(sandbox))


def finished(rig: Rig) -> list[ToolCallFinished]:
    return seen(rig, ToolCallFinished)


def is_question(event: object) -> bool:
    return isinstance(event, ApprovalRequested)


async def test_a_command_that_only_reads_runs_where_nothing_can_be_changed_and_keeps_no_state() -> None:
    sandbox = FakeSandbox(has_read_only=True)
    rig = await ran(rig_of(sandbox, "ls | wc -l"), "go")
    assert sandbox.ran_read_only == ["ls | wc -l"]
    assert not any(isinstance(event, CheckpointCreated) for event in rig.events)
    assert finished(rig)[0].why == "it runs where it cannot change your files"


async def test_a_command_that_a_rule_allows_runs_where_it_can_change_things() -> None:
    sandbox = FakeSandbox(has_read_only=True)
    rig = Rig(
        FakeProvider(answer("", shell("make && ls")), answer("done")),
        sandbox,
        mode=Mode.NORMAL,
        rules=(parse_rule("Shell(make)", Effect.ALLOW, "settings"),),
        checkpoints=FakeCheckpoints(sandbox),
    )
    await rig.run("go")
    assert (sandbox.ran, sandbox.ran_read_only) == (["make && ls"], [])
    assert any(isinstance(event, CheckpointCreated) for event in rig.events)


async def test_a_command_that_only_reads_waits_for_no_other_agent_that_changes_files() -> None:
    sandbox = FakeSandbox(has_read_only=True)
    rig = rig_of(sandbox, "ls")
    async with rig.session._agent.services.writing:
        await rig.run("go")
    assert sandbox.ran_read_only == ["ls"]


async def test_without_such_a_place_it_asks() -> None:
    sandbox = FakeSandbox()
    rig = await ran(rig_of(sandbox, "ls", is_attended=False), "go")
    assert (sandbox.ran, finished(rig)[0].summary) == ([], "refused")


@pytest.mark.parametrize("outcome", [Outcome.ONCE, Outcome.NO])
async def test_one_that_tried_to_write_asks_and_runs_again_on_a_yes(outcome: Outcome) -> None:
    sandbox = FakeSandbox(
        has_read_only=True, read_only_commands={"sed p x": REFUSED}, commands={"sed p x": ExecResult(0, "written\n", 0, 1)}
    )
    rig = rig_of(sandbox, "sed p x")
    rig.session.submit("go")
    request = await rig.until(is_question)
    assert isinstance(request, ApprovalRequested)
    assert "tried to change files" in request.why
    await reply(rig, request, Answer(outcome))
    result = finished(rig)[0]
    if outcome is Outcome.ONCE:
        assert (sandbox.ran, sandbox.ran_read_only) == (["sed p x", "sed p x"], ["sed p x"])
        assert "written" in result.result
    else:
        assert sandbox.ran == ["sed p x"]
        assert "Read-only file system" in result.result
        assert "needs approval" in result.result


async def test_one_that_tried_to_write_where_nobody_is_there_keeps_its_output_and_says_why() -> None:
    sandbox = FakeSandbox(has_read_only=True, read_only_commands={"sed p x": REFUSED})
    rig = await ran(rig_of(sandbox, "sed p x", is_attended=False), "go")
    assert sandbox.ran == ["sed p x"]
    assert "couldn't open file x" in finished(rig)[0].result
    assert "needs approval" in finished(rig)[0].result


async def test_secrets_that_an_approved_command_names_are_shown_to_it() -> None:
    sandbox = FakeSandbox()
    rig = rig_of(sandbox, "cat ./.env")
    rig.session.submit("go")
    request = await rig.until(is_question)
    assert isinstance(request, ApprovalRequested)
    assert sandbox.ran == []
    await reply(rig, request, Outcome.ONCE)
    assert ".env" in sandbox.revealed
    assert sandbox.ran == ["cat ./.env"]


async def test_a_long_command_is_decided_beside_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[str] = []
    to_thread = asyncio.to_thread

    async def watched(function: Callable[..., object], *arguments: object) -> object:
        threads.append(function.__name__)
        return await to_thread(function, *arguments)

    monkeypatch.setattr(asyncio, "to_thread", watched)
    await rig_of(FakeSandbox(), "cat <<E\n" + "word 'and' more\n" * 1000 + "E", mode=Mode.AUTO).run("go")
    assert threads[-1] == "decide"
