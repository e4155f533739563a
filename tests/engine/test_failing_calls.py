from __future__ import annotations

import json
from typing import Any

from lmtui.core.events import TurnEnded, TurnReason
from lmtui.core.permissions.rules import Mode
from lmtui.core.workspace import ExecResult
from tests.engine.seen import ran, seen
from tests.engine.test_loops import Agent, read
from tests.fakes import FakeProvider, FakeSandbox, Rig, answer


def fails(command: str, result: str) -> dict[str, Any]:
    return {"tool": "shell", "arguments": {"command": command}, "result": result, "ok": False}


def test_a_command_that_fails_in_another_way_each_time_is_no_error_of_the_turn() -> None:
    agent = Agent()
    assert [agent.step(fails("pytest -q", f"{20 - each} failed, 3 passed in {each}.1 s")) for each in range(15)] == [None] * 15
    assert [agent.step(fails(f"make part{each}", f"part{each}.c:{each}: error")) for each in range(15)] == [None] * 15


def test_a_command_that_fails_in_the_same_way_is_a_loop_all_the_same() -> None:
    number, loop = Agent().steps_until_over(fails("pytest -q", "2 failed: test_a and test_b, both for want of a value"))
    assert number == 5
    assert "same call" in loop.what
    said = "bash: line 1: the program that was asked for: command not found"
    number, loop = Agent().steps_until_over(*(fails(f"./tool{each}", said) for each in range(40)))
    assert number == 6
    assert "every call failed" in loop.what


def test_one_success_between_failures_begins_their_count_anew() -> None:
    agent = Agent()
    for each in range(30):
        step = read(f"f{each}", f"text {each}") if each % 4 == 3 else {**read(f"f{each}", f"f{each} is missing"), "ok": False}
        loop = agent.step(step)
        assert loop is None or not loop.is_over


async def test_five_calls_of_tools_that_are_not_there_end_the_turn_whatever_their_names() -> None:
    rig = await ran(Rig(FakeProvider(*[answer("", (f"nosuch{each}", "{}")) for each in range(40)])))
    (end,) = seen(rig, TurnEnded)
    assert (end.reason, end.iterations) == (TurnReason.LIMIT, 5)
    assert "every call failed" in end.error


async def test_twelve_test_runs_that_fail_otherwise_each_time_do_not_end_the_turn() -> None:
    commands: dict[str, ExecResult | float] = {
        f"pytest test_{each}.py": ExecResult(1, f"test_{each}: assert {each} == 0\n", 9, 20) for each in range(12)
    }
    calls = [answer("", ("shell", json.dumps({"command": each}))) for each in commands]
    rig = await ran(Rig(FakeProvider(*calls, answer("All of them fail.")), FakeSandbox(commands=commands), mode=Mode.AUTO))
    (end,) = seen(rig, TurnEnded)
    assert (end.reason, end.iterations) == (TurnReason.DONE, 13)
