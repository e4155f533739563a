"""The agents of a session as a tree, reduced from its events: whose child each is, its task, and what it does."""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.clean import clean_line, clean_path
from lmtui.core.events import ROOT, Envelope

_STATES = {"done": "done", "partial": "partial", "limit": "partial"}


@dataclass(slots=True)
class Agent:
    """A sub-agent.  `state` is working, waits, done, partial or failed; `doing` its latest call, or its report at the end."""

    id: str
    parent: str
    title: str
    state: str = "working"
    doing: str = ""


class Agents:
    """Every sub-agent of a session in the order in which they began."""

    def __init__(self) -> None:
        self.by_id: dict[str, Agent] = {}
        self._asked: dict[str, str] = {}

    def apply(self, envelope: Envelope) -> bool:
        """Take in one event; True if something of an agent is another."""
        event = envelope.event
        if isinstance(event, AgentStarted):
            self.by_id[event.agent] = Agent(event.agent, event.parent, clean_line(event.title))
            return True
        if isinstance(event, events.ApprovalResolved):
            agent = self.by_id.get(self._asked.pop(event.approval_id, ""))
        else:
            agent = self.by_id.get(event.agent)
        if agent is None:
            return False
        match event:
            case AgentFinished():
                agent.state = _STATES.get(event.outcome, "failed")
                agent.doing = clean_line(event.summary or event.outcome)
            case events.ApprovalRequested():
                self._asked[event.approval_id] = agent.id
                agent.state = "waits"
            case events.ApprovalResolved() if agent.state == "waits":
                agent.state = "working"
            case events.ToolCallStarted():
                agent.doing = clean_path(f"{event.tool} {event.title}".strip())
            case _:
                return False
        return True

    def in_order(self) -> list[tuple[int, Agent]]:
        """Return the agents, each behind its parent, with how deep it stands (from 0)."""
        children: dict[str, list[Agent]] = {}
        for agent in self.by_id.values():
            parent = agent.parent if agent.parent in self.by_id and agent.parent != agent.id else ROOT
            children.setdefault(parent, []).append(agent)
        found: list[tuple[int, Agent]] = []
        seen: set[str] = set()
        stack = [(0, agent) for agent in reversed(children.get(ROOT, []))]
        while stack:
            depth, agent = stack.pop()
            if agent.id not in seen:
                seen.add(agent.id)
                found.append((depth, agent))
                stack += [(depth + 1, child) for child in reversed(children.get(agent.id, []))]
        return found
