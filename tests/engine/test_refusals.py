from __future__ import annotations

import json
from collections.abc import Sequence
from functools import partial

import pytest

from lmtui.core.agent_events import AgentFinished
from lmtui.core.events import ApprovalRequested, TurnEnded, TurnReason
from lmtui.core.messages import StreamChunk
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Effect, Mode, Verdict, parse_rule
from lmtui.core.ports import Limits
from lmtui.engine.subagent_runs import TeamParts
from lmtui.tools.registry import child_tools
from tests.engine.seen import ran, seen
from tests.fakes import FakeProvider, Rig, answer
from tests.sets import for_each

Pieces = Sequence[StreamChunk | Exception | float]

TEAM = TeamParts(partial(child_tools, ""), Limits(), lambda: 1, 3)


def calling(tool: str, **arguments: object) -> tuple[str, str]:
    return tool, json.dumps(arguments)


WRITE = answer("", calling("write", path="a.txt", content="x"))
SEND = answer("", calling("delegate", objective="think"))


def rig_with(*answers: Pieces) -> Rig:
    return Rig(FakeProvider(*answers), mode=Mode.NORMAL, is_attended=False, team=TEAM)


def reasons(rig: Rig) -> list[TurnReason]:
    return [event.reason for event in seen(rig, TurnEnded)]


async def test_a_refusal_blocks_its_own_turn_and_no_later_one() -> None:
    rig = rig_with(WRITE, answer("I could not."), answer("It is a text."), WRITE, answer("I could not."))
    for text in ("write it", "what is it?", "write it again"):
        await rig.run(text)
    assert reasons(rig) == [TurnReason.BLOCKED, TurnReason.DONE, TurnReason.BLOCKED]
    assert rig.session.unattended == ("Write(a.txt)", "Write(a.txt)")


async def test_after_a_refused_turn_open_work_is_named_again() -> None:
    add = answer("", calling("todo_add", description="look"))
    rig = await ran(rig_with(WRITE, answer("I could not."), add, answer("Done."), answer("Done.")), "write it")
    await rig.run("look at it")
    assert reasons(rig) == [TurnReason.BLOCKED, TurnReason.UNFINISHED]
    assert any(event.text.startswith("Not finished yet") for event in seen(rig, Reminder))


@pytest.mark.parametrize(("answers", "outcome", "reason"), [
    ((WRITE, SEND, answer("42"), answer("I could not.")), "done", TurnReason.BLOCKED),
    ((SEND, WRITE, answer("I could not."), answer("Then it is 42.")), "blocked", TurnReason.DONE),
])  # fmt: skip
async def test_a_refusal_blocks_the_agent_that_it_was_told_and_no_other(
    answers: tuple[Pieces, ...], outcome: str, reason: TurnReason
) -> None:
    rig = await ran(rig_with(*answers))
    assert ([event.outcome for event in seen(rig, AgentFinished)], reasons(rig)) == ([outcome], [reason])


async def test_once_somebody_is_there_nothing_is_blocked_and_calls_are_asked_about() -> None:
    rig = await ran(rig_with(WRITE, answer("I could not."), WRITE), "write it")
    rig.session.sleep.attend()
    assert rig.session.unattended == ()
    rig.session.submit("write it again")
    again = await rig.until(lambda event: isinstance(event, ApprovalRequested) and event.approval_id.endswith("_2"))
    assert isinstance(again, ApprovalRequested)
    await rig.session.close()


async def test_a_turn_that_somebody_comes_to_is_not_blocked_by_what_was_refused_before() -> None:
    rig = rig_with(WRITE, [0.05, *answer("It is a text.")])
    rig.session.submit("write it")
    await rig.until(lambda event: event.kind == "tool_call_finished")
    rig.session.sleep.attend()
    await rig.session.wait_idle()
    assert reasons(rig) == [TurnReason.DONE]


def offered(rig: Rig) -> set[str]:
    return {tool.name for tool in rig.provider.requests[-1].tools}


@for_each("rule", ["Shell", "Read(**)", "Edit(.)", "git_commit", "Delegate", "*", "Look(*)"])
async def test_a_tool_that_is_denied_for_all_that_it_may_be_about_is_not_offered(rule: str) -> None:
    whole = await ran(Rig(FakeProvider(answer("hi"))))
    rules = (parse_rule(rule, Effect.DENY, "settings"),)
    rig = await ran(Rig(FakeProvider(answer("hi")), rules=rules))
    access = {"shell": Access.EXECUTE, "write": Access.WRITE, "edit": Access.WRITE, "git_commit": Access.WRITE}
    for name in offered(whole):
        if name == "shell" and rule.startswith(("Read", "Look")):
            continue  # what a command may read is decided for each one
        decision = decide_all(name, access.get(name, Access.READ), ("some/odd.txt",), Mode.AUTO, rules)
        assert (name in offered(rig)) == (decision.verdict is not Verdict.DENY), name


@pytest.mark.parametrize("rule", ["Shell(rm *)", "Read(secrets/**)", "Write(*.lock)"])
async def test_a_tool_that_is_denied_for_some_things_is_offered(rule: str) -> None:
    rig = await ran(Rig(FakeProvider(answer("hi")), rules=(parse_rule(rule, Effect.DENY, "settings"),)))
    assert {"shell", "read", "write"} <= offered(rig)
