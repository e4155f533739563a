from __future__ import annotations

import itertools
from functools import partial
from typing import Any

import pytest

from lmtui.core.budgets import BudgetSet, ReportWritten, SessionBudget
from lmtui.core.events import ApprovalResolved, MessageAdded, Notice, Outcome, TurnReason
from lmtui.core.messages import Role, StreamChunk
from lmtui.core.permissions.rules import Mode
from lmtui.core.ports import Limits
from lmtui.core.workspace import ExecResult
from lmtui.engine.subagent_runs import TeamParts
from lmtui.tools.registry import child_tools
from tests.engine.seen import call, ending, question, ran, reply, seen, shell, user_texts
from tests.fakes import FakeProvider, Rig, answer


def reads(count: int) -> list[list[StreamChunk]]:
    return [answer("", ("glob", call(pattern=f"**/part{number}.py"))) for number in range(count)]


def with_budget(rig: Rig, **budget: Any) -> Rig:
    rig.session.set_budget(SessionBudget(**budget))
    return rig


def report(rig: Rig) -> str:
    return seen(rig, ReportWritten)[-1].text


async def test_tokens_from_the_cache_cost_nothing_and_time_counts_while_a_turn_runs() -> None:
    rig = await ran(with_budget(Rig(FakeProvider(*reads(20))), tokens=33))  # of 10 tokens 4 are cached, 5 written
    assert len(rig.provider.requests) == 3
    rig = await ran(with_budget(Rig(FakeProvider(*reads(20))), seconds=0.0005))  # the clock of the tests goes on by itself
    assert ending(rig).reason is TurnReason.LIMIT
    assert not rig.provider.requests
    provider = FakeProvider(answer("", ("delegate", call(objective="look"))), *reads(20))
    rig = await ran(with_budget(Rig(provider, team=TeamParts(partial(child_tools, ""), max_depth=1)), steps=5))
    assert (len(rig.provider.requests), ending(rig).reason) == (5, TurnReason.LIMIT)


async def test_report_says_what_was_done_checked_and_is_open() -> None:
    work = FakeProvider(
        answer("", ("todo_add", call(description="write it")), ("todo_add", call(description="document it"))),
        answer("", ("write", call(path="a.py", content="x = 1\n")), shell("pytest -q")),
        answer("", ("todo_complete", call(id=1))),
        answer("written"),
        answer("BLOCKED: nobody knows how to document it"),
    )
    rig = Rig(work, mode=Mode.AUTO)
    rig.sandbox.commands["pytest -q"] = ExecResult(0, "3 passed\n", 9, 20)
    rig.session.set_budget(SessionBudget(steps=100))
    await rig.run()
    text = report(rig)
    assert "**Report**: blocked." in text
    assert "**Done**\n- write it" in text
    assert "`a.py` +1 −0" in text
    assert "**Checked**\n- `pytest -q`: " in text
    assert "**Open**\n- document it" in text


async def test_resumed_session_counts_on_and_more_can_be_given() -> None:
    live = await ran(with_budget(Rig(FakeProvider(*reads(20))), steps=4))
    again = Rig(FakeProvider(*reads(20)), past=live.log.events)
    budget, spent = again.session.budget()
    assert (budget.steps, spent.steps) == (4, 4)
    await again.run("go on")
    assert not again.provider.requests
    again.session.set_budget(SessionBudget(steps=2))
    await again.run("go on")
    assert len(again.provider.requests) == 2
    assert sum(isinstance(envelope.event, BudgetSet) for envelope in again.session.history()) == 2


async def test_session_stops_when_its_steps_are_used_up_and_the_model_is_told_before() -> None:
    rig = await ran(with_budget(Rig(FakeProvider(*reads(20))), steps=10))
    assert ending(rig).reason is TurnReason.LIMIT
    assert "the budget of 10 steps is used up" in ending(rig).error
    assert len(rig.provider.requests) == 10
    assert report(rig).startswith("**Report**: stopped early.")
    warnings = [event.text for event in seen(rig, Notice)]
    assert sum("80% of the budget of 10 steps is used" in text for text in warnings) == 1
    assert sum("Begin nothing new" in text for text in user_texts(rig)) == 1
    rig = await ran(Rig(FakeProvider(*reads(20)), limits=Limits(max_iterations=10)))
    counts = [sum("Only 3 more steps" in message.text for message in request.messages) for request in rig.provider.requests]
    assert (list(itertools.accumulate(counts, max)), counts.index(1)) == (counts, 7)
    assert not rig.of("report_written"), "there was no budget"


async def test_steps_are_counted_by_task_and_not_by_life() -> None:
    limits = Limits(max_iterations=6)
    live = await ran(Rig(FakeProvider(*reads(20)), limits=limits))
    assert len(live.provider.requests) == 6
    cut = next(place for place, each in enumerate(live.log.events) if each.event.kind == "message_added" and place > 20)
    made = sum(
        isinstance(each.event, MessageAdded) and each.event.role is Role.ASSISTANT for each in live.log.events[: cut + 1]
    )
    again = await ran(Rig(FakeProvider(*reads(20)), limits=limits, past=live.log.events[: cut + 1]), "Go on.")
    assert len(again.provider.requests) == 6 - made
    await again.run("go on")  # it was stopped by the limit, and the user wants it to go on
    assert len(again.provider.requests) == 6 - made + 6
    other = await ran(Rig(FakeProvider(*reads(20)), limits=limits, past=live.log.events[: cut + 1]), "something else")
    assert len(other.provider.requests) == 6


def spent_s(rig: Rig) -> float:
    return rig.session.budget()[1].seconds


async def test_time_in_which_a_question_waits_is_free_and_that_of_a_turn_that_a_crash_cut_off_counts() -> None:
    rig = with_budget(
        Rig(FakeProvider(answer("", ("write", call(path="a.txt", content="x"))), answer("done")), mode=Mode.NORMAL),
        seconds=1000,
    )
    asked = await question(rig, "go")
    before = spent_s(rig)
    for _ in range(500):
        rig.clock.monotonic()
    assert spent_s(rig) - before < 0.01
    await reply(rig, asked, Outcome.NO)
    assert seen(rig, ApprovalResolved)[0].elapsed_ms >= 500
    assert spent_s(rig) < 0.3
    assert spent_s(Rig(FakeProvider(), past=rig.log.events)) == pytest.approx(spent_s(rig), abs=0.01)
    live = await ran(with_budget(Rig(FakeProvider(*reads(5))), seconds=1000))
    cut = live.log.events[:-1]
    again = Rig(FakeProvider(), past=cut)
    begun = next(each for each in cut if each.event.kind == "turn_started")
    assert spent_s(again) == pytest.approx((cut[-1].time - begun.time).total_seconds(), abs=0.01)


def reports(rig: Rig) -> int:
    return len(rig.of("report_written"))


async def test_report_is_written_once_however_often_the_user_goes_on_past_the_end() -> None:
    rig = with_budget(Rig(FakeProvider(*reads(20))), steps=3)
    for words in ("do it", "go on", "go on", "and now?"):
        await rig.run(words)
        assert ending(rig).reason is TurnReason.LIMIT
        assert "is used up" in ending(rig).error
    assert reports(rig) == 1
    again = await ran(Rig(FakeProvider(*reads(20)), past=rig.log.events), "go on")
    assert reports(again) == 0
    again.session.set_budget(SessionBudget(steps=2))
    await again.run("go on")
    assert reports(again) == 1
