"""What a session has spent of its budget, by all of its agents together: built from events, so that a resume counts on."""

from __future__ import annotations

from collections.abc import Callable

from lmtui.core.budgets import BudgetSet, SessionBudget
from lmtui.core.events import ROOT, Event, TurnEnded, TurnStarted, UsageUpdated
from lmtui.engine.deeds import Deeds

WARN_SHARE = 0.8


class Spending:
    """Counts requests, tokens and the time of turns since the budget was set.

    Args:
        monotonic: seconds on a clock that only goes forward.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._spent = SessionBudget()
        self._since: float | None = None
        self._is_told = False
        self.budget = SessionBudget()
        self.deeds = Deeds()

    @property
    def spent(self) -> SessionBudget:
        """Return what was spent, the time of the turn that runs included."""
        running = self._monotonic() - self._since if self._since is not None else 0.0
        return self._spent + SessionBudget(seconds=running)

    def apply(self, event: Event) -> None:
        """Take up what an event costs, and what it did."""
        self.deeds.apply(event)
        match event:
            case BudgetSet(budget=budget):
                self.budget, self._spent, self._is_told = budget, SessionBudget(), False
                self._since = self._monotonic() if self._since is not None else None
            case UsageUpdated(usage=usage):
                self._spent += SessionBudget(tokens=usage.fresh_tokens, steps=1)
            case TurnStarted(agent=agent) if agent == ROOT:
                self._since = self._monotonic()
            case TurnEnded(agent=agent, elapsed_s=elapsed_s) if agent == ROOT:
                self._since = None
                self._spent += SessionBudget(seconds=elapsed_s)
            case _:
                pass

    def over(self) -> str:
        """Return why no further request may be made, empty where one may."""
        if self.budget.used(self.spent) < 1:
            return ""
        return f"the budget of {self.budget} is used up ({self.spent}); /budget gives it more"

    def warning(self) -> str:
        """Return, once, that most of the budget is used."""
        if self._is_told or self.budget.used(self.spent) < WARN_SHARE:
            return ""
        self._is_told = True
        return f"{WARN_SHARE:.0%} of the budget of {self.budget} is used"


class BudgetByHand:
    """Implements `core.budgets.Budgets` over a session's spending.

    Args:
        spending: returns what is counted.
        emit: takes the event that sets a budget; must not raise.
    """

    def __init__(self, spending: Callable[[], Spending], emit: Callable[[Event], None]) -> None:
        self._spending = spending
        self._emit = emit

    def in_force(self) -> tuple[SessionBudget, SessionBudget]:
        """Return the budget and what was spent of it."""
        spending = self._spending()
        return spending.budget, spending.spent

    def give(self, budget: SessionBudget) -> None:
        """Let the session spend so much from now on."""
        self._emit(BudgetSet(budget=budget))
