"""Skills in use by an agent: which tools they leave it until the turn ends, and how the user has one followed."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from lmtui.core.errors import UsageError
from lmtui.core.events import Event, MessageAdded, TurnEnded
from lmtui.core.messages import Role
from lmtui.core.permissions.decide import SkillScope
from lmtui.core.permissions.rules import Effect, Rule, parse_rule
from lmtui.core.skills import PROMOTE_TOOL, SkillUse, SkillUsed
from lmtui.engine.inbox import UserInput


@dataclass(frozen=True, slots=True)
class SkillTracker:
    """Which skills limit an agent, from its events; `inherited` are those of the agent that sent it."""

    inherited: tuple[SkillScope, ...] = ()
    in_use: tuple[SkillScope, ...] = ()
    announced: Mapping[str, SkillScope] = field(default_factory=dict)

    @property
    def scopes(self) -> tuple[SkillScope, ...]:
        """Return what limits the agent's calls now; a call has to be within all of them."""
        return (*self.inherited, *self.in_use)

    def apply(self, event: Event) -> SkillTracker:
        """Return this after an event of the agent."""
        match event:
            case SkillUsed(is_limited=True, digest=""):
                return self._with(_scope(event))
            case SkillUsed(is_limited=True, digest=digest):
                return replace(self, announced={**self.announced, digest: _scope(event)})
            case MessageAdded(role=Role.USER, text=text) if self.announced and (digest := _digest(text)) in self.announced:
                others = {each: scope for each, scope in self.announced.items() if each != digest}
                return replace(self, announced=others)._with(self.announced[digest])
            case TurnEnded():
                return replace(self, in_use=())
            case _:
                return self

    def _with(self, scope: SkillScope) -> SkillTracker:
        return self if scope in self.in_use else replace(self, in_use=(*self.in_use, scope))


def used_event(used: SkillUse, agent: str, digest: str = "") -> SkillUsed:
    """Return the event that says that a skill is in use."""
    is_limited = used.allowed is not None
    return SkillUsed(
        agent=agent, skill=used.name, source=str(used.source), is_limited=is_limited, allowed=used.allowed or (), digest=digest
    )


class SkillControls:
    """Implements `core.skills.SkillsInUse`.

    Args:
        agent: the id of the agent whose turn it will be.
        emit: takes the event; must not raise.
        put: takes the user's words.
    """

    def __init__(self, agent: str, emit: Callable[[Event], None], put: Callable[[UserInput], None]) -> None:
        self._agent, self._emit, self._put = agent, emit, put

    def begin(self, used: SkillUse, words: str) -> None:
        """Put a skill before the model with what the user says to it."""
        said = words.strip() or f"Follow the skill {used.name}."
        text = f"{said}\n\n{used.text}"
        self._emit(used_event(used, self._agent, _digest(text)))
        self._put(UserInput(text, typed=said))

    def promote(self, path: str, function: str, name: str = "") -> None:
        """Ask whether a function of a file may become a tool, behind the running turn."""
        arguments = json.dumps({"path": path, "function_name": function, "tool_name": name})
        typed = f" /promote {path} {function} {name}".rstrip()
        self._put(UserInput(arguments, typed=typed, is_command=True, is_told=False, tool=PROMOTE_TOOL))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _scope(event: SkillUsed) -> SkillScope:
    rules: list[Rule] = []
    for text in event.allowed:
        with contextlib.suppress(UsageError):  # a log may hold anything; what is no rule names no tool
            rules.append(parse_rule(text, Effect.ALLOW, f"skill {event.skill}"))
    return SkillScope(event.skill, tuple(rules))
