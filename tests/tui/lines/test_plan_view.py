from __future__ import annotations

from lmtui.core.agent_events import AgentStarted
from lmtui.core.events import PlanChanged
from lmtui.core.plan import Plan, PlanStep, Todo, TodoStatus
from lmtui.store.session_logs import decode, encode
from lmtui.tui.session_state import SessionState
from lmtui.tui.widgets.panes import PlanView
from tests.tui.lines.stage import Stage, envelopes, screen_lines, settled

PLAN = Plan(
    steps=(
        PlanStep(1, "read it", TodoStatus.COMPLETED, verification="look", result="seen"),
        PlanStep(2, "change what is there", TodoStatus.IN_PROGRESS, verification="pytest -q"),
    ),
    todos=(Todo(1, "a\x1b[2Jb", TodoStatus.BLOCKED, notes="why not"),),
)


async def test_choosing_unfolds_a_step_and_opens_an_agent() -> None:
    view = PlanView()
    opened: list[str] = []
    view.open_agent = opened.append
    state = SessionState()
    for envelope in envelopes([PlanChanged(plan=PLAN), AgentStarted(agent="tester")]):
        state.apply(envelope)
    async with Stage(view).run_test(size=(44, 30)) as pilot:
        view.show(state)
        await settled(pilot)
        assert screen_lines(view, has_bar=True)[1][:1] == "▌"  # not on the heading
        await pilot.press("enter")
        assert [line.strip() for line in screen_lines(view)[2:4]] == ["check: look", "→ seen"]
        assert view.copy_text() == "read it\ncheck: look\n→ seen"
        await pilot.press("end", "enter")
        assert opened == ["tester"]


def test_a_plan_with_steps_is_stored_and_an_old_one_still_read() -> None:
    (envelope,) = envelopes([PlanChanged(plan=PLAN)])
    line = encode(envelope)
    assert decode(line) == envelope
    old = line.replace(',"verification":"look","result":"seen"', "").replace(',"verification":"pytest -q","result":""', "")
    old = old[: old.index(',"task"')] + "}}"
    found = decode(old).event
    assert isinstance(found, PlanChanged)
    assert found.plan.steps[0] == PlanStep(1, "read it", TodoStatus.COMPLETED)
