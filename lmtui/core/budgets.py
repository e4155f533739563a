"""What a session may spend in all: tokens, steps, time.  Read from words such as `3h 200 steps 1.5M tokens`.  Pure."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, replace

from lmtui.core.errors import UsageError
from lmtui.core.events import Event
from lmtui.core.sanitize import pluralize
from lmtui.core.times import time_text

FORM = "3h 200 steps 1.5M tokens"
_UNITS = r"tokens?|tok|steps?|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s|days?|d"
_PART = re.compile(rf"(\d{{1,12}}(?:\.\d{{1,9}})?)\s*([kKmM]?)\s*({_UNITS})\b")
_TIMES = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0}
_SCALES = {"": 1, "k": 1_000, "m": 1_000_000}


@dataclass(frozen=True, slots=True)
class SessionBudget:
    """Tokens that are read again and written, requests, and seconds of work; 0 means no limit."""

    tokens: int = 0
    steps: int = 0
    seconds: float = 0.0

    def __bool__(self) -> bool:
        return bool(self.tokens or self.steps or self.seconds)

    def used(self, spent: SessionBudget) -> float:
        """Return how much of it is used, 1 for all: of what is limited, that of which most is used."""
        pairs = ((spent.tokens, self.tokens), (spent.steps, self.steps), (spent.seconds, self.seconds))
        return max((have / limit for have, limit in pairs if limit), default=0.0)

    def tighter(self, other: SessionBudget) -> SessionBudget:
        """Return what neither of two budgets lets be exceeded."""

        def least(one: float, two: float) -> float:
            return min(one, two) if one and two else one or two

        tokens, steps = int(least(self.tokens, other.tokens)), int(least(self.steps, other.steps))
        return SessionBudget(tokens, steps, least(self.seconds, other.seconds))

    def __add__(self, other: SessionBudget) -> SessionBudget:
        return SessionBudget(self.tokens + other.tokens, self.steps + other.steps, self.seconds + other.seconds)

    def __str__(self) -> str:
        parts = (
            time_text(self.seconds) if self.seconds else "",
            pluralize(self.steps, "step") if self.steps else "",
            pluralize(self.tokens, "token") if self.tokens else "",
        )
        return ", ".join(part for part in parts if part) or "nothing"


NO_BUDGET = SessionBudget()


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSet(Event):
    """The session may spend so much from now on; an empty budget means no limit."""

    budget: SessionBudget


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportWritten(Event):
    """Work under a budget came to an end, or paused: what was done, what was checked, what is open, as Markdown."""

    text: str
    turn_id: str = ""


def read_budget(text: str) -> tuple[SessionBudget, str]:
    """Return the budget that a text begins with, and the rest of the text.

    Raises:
        UsageError: it begins with none.
    """
    budget, rest = SessionBudget(), text.strip()
    while found := _PART.match(rest):
        budget = _with(budget, float(found[1]), found[2].lower(), found[3].lower())
        rest = rest[found.end() :].lstrip(" ,;")
    if not budget:
        raise UsageError(f"{text[:40]!r} does not begin with a budget", f"Write it like {FORM}.")
    return budget, rest.removeprefix("and ").strip()


def whole_budget(text: str) -> SessionBudget:
    """Return the budget that a whole text is.

    Raises:
        UsageError: it is none, or more than one.
    """
    budget, rest = read_budget(text)
    if rest:
        raise UsageError(f"{rest[:40]!r} is not a part of a budget", f"Write it like {FORM}.")
    return budget


def _with(budget: SessionBudget, number: float, scale: str, unit: str) -> SessionBudget:
    amount = number * _SCALES[scale]
    if unit.startswith("tok"):
        return replace(budget, tokens=math.ceil(amount))
    if unit.startswith("step"):
        return replace(budget, steps=math.ceil(amount))
    return replace(budget, seconds=budget.seconds + amount * _TIMES[unit[0]])
