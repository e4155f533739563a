from __future__ import annotations

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.events import ApprovalRequested, ApprovalResolved, Event, Outcome, ToolCallStarted
from lmtui.tui.session_state import Agents
from tests.tui.lines.stage import envelopes


def agents_after(*events: Event) -> Agents:
    agents = Agents()
    for envelope in envelopes(events):
        agents.apply(envelope)
    return agents


def test_the_tree_has_each_behind_its_parent_in_the_order_they_began() -> None:
    agents = agents_after(
        AgentStarted(agent="a", title="one"),
        AgentStarted(agent="b"),
        AgentStarted(agent="c", parent="a"),
        AgentStarted(agent="d", parent="gone"),
    )
    assert [(depth, agent.id) for depth, agent in agents.in_order()] == [(0, "a"), (1, "c"), (0, "b"), (0, "d")]


def test_agents_that_name_each_other_as_parent_end_the_walk() -> None:
    agents = agents_after(
        AgentStarted(agent="a", parent="b"), AgentStarted(agent="b", parent="a"), AgentStarted(agent="x", parent="x")
    )
    assert [agent.id for _, agent in agents.in_order()] == ["x"]


def test_an_agent_says_what_it_does_waits_for_and_reported() -> None:
    events: list[Event] = [
        AgentStarted(agent="a", title="t"),
        ToolCallStarted(agent="a", call_id="1", tool="shell", arguments={}, title="ls\nx"),
        ApprovalRequested(agent="a", approval_id="q", call_id="1", tool="shell", text="ls"),
    ]
    agent = agents_after(*events).by_id["a"]
    assert (agent.state, agent.doing) == ("waits", "shell ls⏎x")
    events.append(ApprovalResolved(approval_id="q", outcome=Outcome.ONCE))
    assert agents_after(*events).by_id["a"].state == "working"
    for outcome, state in (("done", "done"), ("partial", "partial"), ("limit", "partial"), ("blocked", "failed")):
        agent = agents_after(*events, AgentFinished(agent="a", outcome=outcome, summary="")).by_id["a"]
        assert (agent.state, agent.doing) == (state, outcome)
