from __future__ import annotations

from lmtui.core.agent_events import AgentStarted
from lmtui.core.events import Event
from lmtui.core.task_state import in_tree
from lmtui.tui.session_state import Agents
from tests.tui.lines.stage import envelopes


def agents_after(*events: Event) -> Agents:
    agents = Agents()
    for envelope in envelopes(events):
        agents.apply(envelope)
    return agents


def test_agents_that_name_each_other_as_parent_end_the_walk() -> None:
    agents = agents_after(
        AgentStarted(agent="a", parent="b"), AgentStarted(agent="b", parent="a"), AgentStarted(agent="x", parent="x")
    )
    assert [agent.id for _, agent in in_tree([*agents.by_id.values()])] == ["x"]
