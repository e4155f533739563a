"""Texts that an agent follows and that may limit its tools: skills, and the files of slash commands.  Pure."""

from __future__ import annotations

import contextlib
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lmtui.core.errors import UsageError
from lmtui.core.events import Event, MessageAdded, Rewound, TurnEnded, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.model_events import Compacted, Reminder
from lmtui.core.permissions.decide import SkillScope
from lmtui.core.permissions.rules import Effect, Rule, parse_rule
from lmtui.core.sanitize import sanitize_line


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillUsed(Event):
    """A skill is in use; where it `is_limited` only the tools of `allowed` (rules) may be called meanwhile.

    One that `stays` is in use until it is ended, others until the turn ends.  With a `digest` it comes into use with the
    user's message of that hash, else at once.
    """

    skill: str
    source: str = ""
    is_limited: bool = False
    allowed: tuple[str, ...] = ()
    digest: str = ""
    stays: bool = False

    @property
    def line(self) -> str:
        until = ", until /skill off" if self.stays else ", until the turn ends" if self.is_limited else ""
        limits = f" only with {', '.join(self.allowed) or 'no tools'}" if self.is_limited else ""
        return sanitize_line(f"skill {self.skill} ({self.source}){until}{limits}")


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillEnded(Event):
    """A skill (without a name: every skill) is no longer in use.  The model ends only what it began (`by` user or model)."""

    skill: str = ""
    by: str = "user"


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
        return "until the user ends it (/skill off)" if self.is_users else "until you end it (skill, name: off)"


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
            case SkillUsed(digest=digest):
                scope = _scope(event) if event.is_limited else None
                used = SkillInUse(event.skill, scope, event.stays, is_users=bool(digest))
                return replace(self, announced={**self.announced, digest: used}) if digest else self._with(used)
            case MessageAdded(role=Role.USER, text=text) if self.announced and (digest := digest_of(text)) in self.announced:
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


def digest_of(text: str) -> str:
    """Return the hash by which a user's message is known."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def _scope(event: SkillUsed) -> SkillScope:
    rules: list[Rule] = []
    for text in event.allowed:
        with contextlib.suppress(UsageError):  # a log may hold anything; what is no rule names no tool
            rules.append(parse_rule(text, Effect.ALLOW, f"skill {event.skill}"))
    return SkillScope(event.skill, tuple(rules))
