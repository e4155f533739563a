"""The sub-agents of one session: what they are made of, which are at work, and how many there were."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from lmtui.core.agent_definitions import AgentDefinition, AgentDefinitions, NoAgentDefinitions
from lmtui.core.children import Brief, ChildKind, ChildResult
from lmtui.core.messages import ToolSet, Urgency
from lmtui.core.ports import Limits, Toolbox
from lmtui.engine.agent_scope import denied_rules, instructions_text, narrowed, scopes_of
from lmtui.engine.briefs import child_prompt
from lmtui.engine.context import Conversation
from lmtui.engine.desk import Desk
from lmtui.engine.guiding import guidance_chars
from lmtui.engine.inbox import Inbox
from lmtui.engine.places import Places
from lmtui.engine.skills import SkillWatch

_STEPS = 60


class Papers(Protocol):
    """Where the briefs and results of sub-agents lie while they work, and after it where the settings say so.

    What cannot be written is passed over: the log has it all.
    """

    def put_brief(self, agent: str, brief: Brief, told: str, *, parent: str, depth: int) -> None:
        """Keep a brief: whose agent it is for, how deep that stands, and the words in which it was told of it."""

    def put_result(self, agent: str, result: ChildResult) -> None:
        """Keep a result, or clear away what was kept of the agent."""


class NoPapers:
    """Keeps nothing."""

    def put_brief(self, agent: str, brief: Brief, told: str, *, parent: str, depth: int) -> None:
        """Keep nothing."""

    def put_result(self, agent: str, result: ChildResult) -> None:
        """Keep nothing."""


def _no_tools(kind: ChildKind, *, can_send: bool) -> Toolbox:
    raise NotImplementedError(f"no tools for {kind} agents ({can_send=})")


@dataclass(frozen=True, slots=True)
class TeamParts:
    """What the sub-agents of a session are made of.

    `toolbox` returns the tools of a kind of agent, with or without those that send others; `limits` are those of each agent,
    `parallel` tells how many may work at once.  With a `max_depth` of 0 there are none.  `definitions` are those that the user
    and the folder define.
    """

    toolbox: Callable[..., Toolbox] = _no_tools
    limits: Limits = field(default_factory=lambda: Limits(max_iterations=_STEPS))
    parallel: Callable[[], int] = lambda: 1
    max_depth: int = 0
    papers: Papers = field(default_factory=NoPapers)
    definitions: AgentDefinitions = field(default_factory=NoAgentDefinitions)


class Team:
    """Those that are at work now, by their ids, and how many there were so far (a replay counts them again).

    The server does not have the models of `missing_models`, which definitions name.
    """

    def __init__(self, parts: TeamParts) -> None:
        self.parts = parts
        self.desks: dict[str, Desk] = {}
        self.places = Places(parts.parallel)
        self.count = 0
        self.missing_models: set[str] = set()

    def next_id(self) -> str:
        """Return the id of the next one."""
        return f"agent_{self.count + 1}"

    def can_send(self, depth: int) -> bool:
        """Tell whether an agent at a depth may have others work for it."""
        return depth < self.parts.max_depth

    def seat(self, parent: Desk, agent: str, kind: ChildKind, definition: AgentDefinition | None = None) -> Desk:
        """Return the desk of a new agent: the parent's model, sandbox, rules and approvals, nothing of its conversation.

        A definition adds instructions, and takes tools away.
        """
        is_narrow = kind is ChildKind.EXPLORE or parent.is_narrow
        depth = parent.depth + 1
        prompt = _prompt(parent, kind, definition)
        scopes = (*parent.scopes.scopes, *(scopes_of(definition) if definition else ()))
        desk = Desk(
            provider=parent.provider,
            toolbox=narrowed(self.parts.toolbox(kind, can_send=self.can_send(depth)), scopes),
            sandbox=parent.sandbox,
            conversation=Conversation(agent, lambda *_: prompt, parent.conversation.picture),
            approvals=parent.approvals,
            inbox=Inbox(),
            settings=parent.settings,
            role=parent.role,
            limits=self.parts.limits,
            mode=parent.mode,
            rules=(*parent.rules, *(denied_rules(definition) if definition else ())),
            emit=parent.emit,
            now=parent.now,
            monotonic=parent.monotonic,
            warm_up=parent.warm_up,
            agent=agent,
            window_tokens=parent.window_tokens,
            sandbox_name=parent.sandbox_name,
            sandbox_text=parent.sandbox_text,
            asks_each_command=parent.asks_each_command,
            checkpoints=parent.checkpoints,
            images=parent.images,
            model=parent.model.another(),
            window=parent.window.another(),
            tool_set=ToolSet.LEAN if parent.tool_set is ToolSet.LONG else parent.tool_set,
            edits=parent.edits,
            main=parent.main,
            roles=parent.roles,
            vision=parent.vision,
            sees=parent.sees,
            eyes=parent.eyes,
            depth=depth,
            is_narrow=is_narrow,
            urgency=Urgency.CHILD,
            turn_id=parent.turn_id,
            call_ids=parent.call_ids,
            spending=parent.spending,
            writing=parent.writing,
            hooking=parent.hooking.another(),
            web=parent.web,
            scopes=SkillWatch(scopes),
            borrowed=parent.borrowed,
        )
        self.desks[agent] = desk
        return desk


def _prompt(parent: Desk, kind: ChildKind, definition: AgentDefinition | None) -> str:
    """Return the system prompt of a sub-agent."""
    told = instructions_text(definition, guidance_chars(parent.window_tokens)) if definition else ""
    return "\n\n".join(part for part in (child_prompt(kind), told, parent.conversation.guidance.instructions) if part)
