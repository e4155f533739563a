"""Skills in use by an agent: which tools they leave it, how long, and how the user has one followed and ends it."""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from lmtui.core.errors import UsageError
from lmtui.core.events import Event, MessageAdded, Rewound, TurnEnded, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.decide import SkillScope
from lmtui.core.permissions.rules import Effect, Rule, parse_rule
from lmtui.core.skills import OFF, PROMOTE_TOOL, SKILL_OFF, SkillEnded, SkillUse, SkillUsed
from lmtui.engine.inbox import UserInput


@dataclass(frozen=True, slots=True)
class SkillInUse:
    """A skill in use since a turn: one that `stays` until it is ended, others until the turn ends.

    `scope` is what it leaves to be called, None where it limits nothing; one that `is_users` only the user ends.
    """

    name: str
    scope: SkillScope | None
    stays: bool
    is_users: bool
    turn: str = ""

    @property
    def ends(self) -> str:
        """Return when it is over, for the model."""
        if not self.stays:
            return "until this turn ends"
        return f"until the user ends it ({SKILL_OFF})" if self.is_users else f"until you end it (skill, name: {OFF})"


@dataclass(frozen=True, slots=True)
class SkillTracker:
    """Which skills an agent uses, from its events; `inherited` are the limits of the agent that sent it.

    `announced` come into use with the user's message of a hash.  `ended` are those that the model does not know of yet; with
    `is_lost` it may have lost the text of those in use.  `turns` are the ids of the turns so far.
    """

    inherited: tuple[SkillScope, ...] = ()
    in_use: tuple[SkillInUse, ...] = ()
    announced: Mapping[str, SkillInUse] = field(default_factory=dict)
    ended: tuple[str, ...] = ()
    is_lost: bool = False
    turns: tuple[str, ...] = ()

    @property
    def scopes(self) -> tuple[SkillScope, ...]:
        """Return what limits the agent's calls now; a call has to be within all of them."""
        return (*self.inherited, *(replace(each.scope, ends=each.ends) for each in self.in_use if each.scope is not None))

    def apply(self, event: Event) -> SkillTracker:
        """Return this after an event of the agent."""
        match event:
            case SkillUsed(digest=""):
                return self._with(_in_use(event))
            case SkillUsed(digest=digest):
                return replace(self, announced={**self.announced, digest: _in_use(event)})
            case MessageAdded(role=Role.USER, text=text) if self.announced and (digest := _digest(text)) in self.announced:
                others = {each: skill for each, skill in self.announced.items() if each != digest}
                return replace(self, announced=others)._with(self.announced[digest])
            case SkillEnded():
                return self._without(event)
            case TurnStarted(turn_id=turn_id):
                return replace(self, turns=(*self.turns, turn_id))
            case TurnEnded() if self.in_use:
                return replace(self, in_use=tuple(each for each in self.in_use if each.stays))
            case Rewound(turn_id=turn_id) if turn_id in self.turns:
                gone = self.turns[self.turns.index(turn_id) :]
                return replace(self, in_use=tuple(each for each in self.in_use if each.turn not in gone))
            case Compacted(kept_from=kept_from) if kept_from:
                return replace(self, is_lost=bool(self.in_use))
            case Reminder(topic="skill"):
                return replace(self, ended=(), is_lost=False)
            case _:
                return self

    def _with(self, skill: SkillInUse) -> SkillTracker:
        skill = replace(skill, turn=self.turns[-1] if self.turns else "")
        kept = [each for each in self.in_use if (each.name, each.scope) != (skill.name, skill.scope)]
        same = [each for each in self.in_use if each not in kept]
        is_users = skill.is_users or any(each.is_users for each in same)
        place = self.in_use.index(same[0]) if same else len(kept)
        return replace(self, in_use=(*kept[:place], replace(skill, is_users=is_users), *kept[place:]))

    def _without(self, event: SkillEnded) -> SkillTracker:
        """Return this without what ended; the limits of what the model took up in this turn and ends hold for its rest."""
        kept: list[SkillInUse] = []
        gone: list[str] = []
        for each in self.in_use:
            is_models = event.by == "model"
            if event.skill not in ("", each.name) or (is_models and each.is_users):
                kept.append(each)
            elif is_models and each.scope is not None and each.turn in self.turns[-1:]:
                kept.append(replace(each, stays=False))
            elif not is_models:
                gone.append(each.name)
        return replace(self, in_use=tuple(kept), ended=tuple(dict.fromkeys((*self.ended, *gone))))


def used_event(used: SkillUse, agent: str, digest: str = "") -> SkillUsed:
    """Return the event that says that a skill is in use."""
    is_limited = used.allowed is not None
    return SkillUsed(
        agent=agent,
        skill=used.name,
        source=str(used.source),
        is_limited=is_limited,
        allowed=used.allowed or (),
        digest=digest,
        stays=True,
    )


def end_skills(agent: str, emit: Callable[[Event], None], tracker: Callable[[], SkillTracker]) -> str:
    """End what the model of an agent took up, and return what it is told."""
    before = tracker().in_use
    own = [each.name for each in before if not each.is_users]
    users = [each.name for each in before if each.is_users]
    if own:
        emit(SkillEnded(agent=agent, by="model"))
    told = [f"Ended: {', '.join(own)}."] if own else []
    if any(not each.stays for each in tracker().in_use):
        told.append("Its tool limits hold until this turn ends.")
    if users:
        told.append(f"The user chose {', '.join(users)}: only they can end it, with {SKILL_OFF}.")
    return " ".join(told) or "No skill is in use."


def skill_note(skills: SkillTracker) -> str:
    """Return what the model has to be told: which skills the user ended, and those in use whose text it may have lost."""
    told = []
    if skills.ended:
        names = ", ".join(skills.ended)
        told.append(f"[The user ended the skill {names}: do not follow it any longer; its tool limits are gone.]")
    if skills.is_lost and (lost := dict.fromkeys(each.name for each in skills.in_use if each.stays)):
        names = ", ".join(lost)
        told.append(f"[In use: the skill {names}. Read it again with `skill` if you need its text.]")
    return "\n".join(told)


class SkillControls:
    """Implements `core.skills.SkillsInUse`.

    Args:
        agent: the id of the agent whose turn it will be.
        emit: takes the event; must not raise.
        put: takes the user's words.
        tracker: returns which skills the agent uses now.
    """

    def __init__(
        self,
        agent: str,
        emit: Callable[[Event], None],
        put: Callable[[UserInput], None],
        tracker: Callable[[], SkillTracker] = SkillTracker,
    ) -> None:
        self._agent, self._emit, self._put, self._tracker = agent, emit, put, tracker

    @property
    def in_use(self) -> Sequence[str]:
        return tuple(dict.fromkeys(each.name for each in self._tracker().in_use))

    def begin(self, used: SkillUse, words: str) -> None:
        said = words.strip() or f"Follow the skill {used.name}."
        text = f"{said}\n\n{used.text}"
        self._emit(used_event(used, self._agent, _digest(text)))
        self._put(UserInput(text, typed=said))

    def end(self, name: str = "") -> None:
        for each in self.in_use:
            if name in ("", each):
                self._emit(SkillEnded(agent=self._agent, skill=each))

    def promote(self, path: str, function: str, name: str = "") -> None:
        arguments = json.dumps({"path": path, "function_name": function, "tool_name": name})
        typed = f" /promote {path} {function} {name}".rstrip()
        self._put(UserInput(arguments, typed=typed, is_command=True, is_told=False, tool=PROMOTE_TOOL))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _in_use(event: SkillUsed) -> SkillInUse:
    scope = _scope(event) if event.is_limited else None
    return SkillInUse(event.skill, scope, event.stays, is_users=bool(event.digest))


def _scope(event: SkillUsed) -> SkillScope:
    rules: list[Rule] = []
    for text in event.allowed:
        with contextlib.suppress(UsageError):  # a log may hold anything; what is no rule names no tool
            rules.append(parse_rule(text, Effect.ALLOW, f"skill {event.skill}"))
    return SkillScope(event.skill, tuple(rules))
