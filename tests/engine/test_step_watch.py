from __future__ import annotations

from lmtui.core.events import PlanChanged, ToolCallFinished
from lmtui.core.plan import Plan, PlanStep, adopt_steps
from tests.engine.seen import call, seen
from tests.fakes import FakeCheckpoints, FakeProvider, FakeSandbox, Rig, answer

WRITE = ("write", call(path="a.py", content="x = 1\n"))
CHECK = ("shell", call(command="pytest -q"))
CLAIM = ("plan_complete_step", call(step_id=1, verification_notes="3 passed"))


async def played(*calls: tuple[str, str]) -> Rig:
    sandbox = FakeSandbox({"b.py": b"y\n"})
    provider = FakeProvider(*[answer("", each) for each in calls], answer("Done."))
    rig = Rig(provider, sandbox, checkpoints=FakeCheckpoints(sandbox))
    step = PlanStep(1, "write a.py", verification="pytest -q passes")
    rig.session.emit(PlanChanged(plan=adopt_steps(Plan(), (step,))))
    await rig.run("carry it out")
    return rig


def claims(rig: Rig) -> list[ToolCallFinished]:
    return [event for event in seen(rig, ToolCallFinished) if event.tool == "plan_complete_step"]


def result(rig: Rig) -> str:
    plans = [event.plan for event in seen(rig, PlanChanged)]
    return plans[-1].steps[0].result


async def test_a_step_whose_check_ran_after_the_change_is_completed_at_once() -> None:
    rig = await played(WRITE, CHECK, CLAIM)
    assert ([each.ok for each in claims(rig)], result(rig)) == ([True], "3 passed [`pytest -q`: exit 0]")


async def test_a_check_before_the_change_does_not_count() -> None:
    rig = await played(CHECK, WRITE, CLAIM, CHECK, CLAIM)
    assert [each.ok for each in claims(rig)] == [False, True]
    assert "pytest was not run since the last change" in claims(rig)[0].result
    assert result(rig) == "3 passed [`pytest -q`: exit 0]"


async def test_who_insists_is_believed_and_it_is_written_down() -> None:
    rig = await played(WRITE, CLAIM, CLAIM)
    assert ([each.ok for each in claims(rig)], result(rig)) == ([False, True], "3 passed [not run: pytest]")


async def test_other_calls_in_between_are_no_answer_to_a_doubt() -> None:
    rig = await played(WRITE, CLAIM, ("read", call(path="b.py")), CLAIM)
    assert [each.ok for each in claims(rig)] == [False, True]


async def test_a_change_after_a_doubt_is_doubted_again() -> None:
    rig = await played(WRITE, CLAIM, ("write", call(path="c.py", content="z = 1\n")), CLAIM, CHECK, CLAIM)
    assert [each.ok for each in claims(rig)] == [False, False, True]
