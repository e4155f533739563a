from __future__ import annotations

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import MessageAdded, PlanChanged, ToolCallStarted, TurnStarted, UsageUpdated
from lmtui.core.messages import Role, Usage
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


async def test_agents_are_a_tree_with_what_each_does_and_how_much() -> None:
    view, state = PlanView(), SessionState()
    usage = Usage(prompt_tokens=1200, completion_tokens=34)
    for envelope in envelopes([
        TurnStarted(turn_id="t"), MessageAdded(role=Role.USER, text="Move the site"),
        AgentStarted(agent="agent_1", title="Rewrite variables.css"),
        AgentStarted(agent="agent_2", title="Convert pages"), AgentStarted(agent="agent_3", parent="agent_2", title="docs/*"),
        MessageAdded(agent="agent_1", role=Role.ASSISTANT, text=""), UsageUpdated(agent="agent_1", usage=usage),
        ToolCallStarted(agent="agent_1", call_id="a", tool="edit", arguments={}, title="styles.css"),
        AgentFinished(agent="agent_3", outcome="done", summary="12 pages\nmore", elapsed_s=112.0),
    ]):  # fmt: skip
        state.apply(envelope)
    async with Stage(view).run_test(size=(70, 30)) as pilot:
        view.show(state)
        await settled(pilot)
        assert [" ".join(line.split()) for line in screen_lines(view)[:10]] == [
            "Agents 3 working", "agent steps tokens time", "● main Move the site 0 0 0:08", "│",
            "├ ● 1 Rewrite variables.css 1 1.2k 0:06", "│ Editing styles.css", "└ ● 2 Convert pages 0 0 0:05", "│",
            "└ ✓ 3 docs/* 0 0 1:52", "done: 12 pages",
        ]  # fmt: skip
    assert state.work.agents.are_several_at_work


def test_a_plan_with_steps_is_stored_and_an_old_one_still_read() -> None:
    (envelope,) = envelopes([PlanChanged(plan=PLAN)])
    line = encode(envelope)
    assert decode(line) == envelope
    old = line.replace(',"verification":"look","result":"seen"', "").replace(',"verification":"pytest -q","result":""', "")
    old = old[: old.index(',"task"')] + "}}"
    found = decode(old).event
    assert isinstance(found, PlanChanged)
    assert found.plan.steps[0] == PlanStep(1, "read it", TodoStatus.COMPLETED)
