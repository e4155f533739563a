from __future__ import annotations

import pytest

from lmtui.core.events import PlanChanged
from lmtui.core.model_events import Compacted, ToolSetChanged
from lmtui.core.plan import Plan, PlanStep, adopt_steps
from tests.engine.seen import ran, seen
from tests.engine.test_usage import CountingModel, rig_for
from tests.fakes import Rig

PLAN = adopt_steps(Plan(), (PlanStep(1, "look at it"),))


def sets(rig: Rig) -> list[str]:
    return [event.tools for event in seen(rig, ToolSetChanged)]


async def test_when_room_is_made_a_small_model_learns_of_what_long_work_needs() -> None:
    model = CountingModel(12)
    rig = await ran(rig_for(model, 8192))
    assert rig.of("compacted")
    assert sets(rig) == ["lean", "long"]
    first = next(place for place, event in enumerate(rig.events) if isinstance(event, Compacted))
    assert isinstance(rig.events[first + 1], ToolSetChanged)
    before, after = ([tool.name for tool in request.tools] for request in (model.requests[0], model.requests[-1]))
    assert after[: len(before)] != after
    assert {"todo_add", "task_state_update", "delegate"} <= set(after) - set(before)
    assert model.requests[-1].messages[0].text.startswith(model.requests[0].messages[0].text)
    await rig.run("go on")
    assert sets(rig) == ["lean", "long"]


async def test_an_approved_plan_is_long_work() -> None:
    model = CountingModel(2)
    rig = await ran(rig_for(model, 8192))
    rig.session.emit(PlanChanged(plan=PLAN))
    await rig.run("carry it out")
    assert sets(rig) == ["lean", "long"]
    assert "plan_complete_step" in [tool.name for tool in model.requests[-1].tools]


@pytest.mark.parametrize(("window", "setting"), [(1_500, "auto"), (8_192, "lean"), (60_000, "auto")])
async def test_neither_where_there_is_no_room_nor_against_the_settings(window: int, setting: str) -> None:
    model = CountingModel(2)
    rig = await ran(rig_for(model, window, setting))
    rig.session.emit(PlanChanged(plan=PLAN))
    await rig.run("carry it out")
    assert "long" not in sets(rig)
