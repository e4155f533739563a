"""What a session has spent of its budget, by all of its agents together: built from events, so that a resume counts on."""

from __future__ import annotations

from collections.abc import Callable

from lmtui.core.budgets import BudgetSet, ReportWritten, SessionBudget
from lmtui.core.events import ROOT, ApprovalRequested, ApprovalResolved, Event, TurnEnded, TurnStarted, UsageUpdated
from lmtui.core.model_events import Reminder
from lmtui.engine.deeds import Deeds

WARN_SHARE = 0.8
TITLER = "title"  # stands in for an agent in what the request for a title cost


class Spending:
    """Counts requests, tokens and the time of turns since the budget was set.

    `is_reported`: what came of the work was told, and no request was made for it since.

    Args:
        monotonic: seconds on a clock that only goes forward.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._spent = SessionBudget()
        self._since: float | None = None
        self._is_told = False
        self.is_reported = False
        self._open: set[str] = set()
        self._asked: float | None = None
        self._longest_ms = 0
        self._waited_s = 0.0
        self.budget = SessionBudget()
        self.deeds = Deeds()

    @property
    def spent(self) -> SessionBudget:
        """Return what was spent, the time of the turn that runs included; time in which the user was asked is free."""
        if self._since is None:
            return self._spent
        asked = self._monotonic() - self._asked if self._asked is not None else 0.0
        running = self._monotonic() - self._since - self._waited_s - asked
        return self._spent + SessionBudget(seconds=max(0.0, running))

    def apply(self, event: Event) -> None:
        """Take up what an event costs, and what it did."""
        self.deeds.apply(event)
        match event:
            case BudgetSet(budget=budget):
                self.budget, self._spent, self._is_told, self.is_reported = budget, SessionBudget(), False, False
                self._since = self._monotonic() if self._since is not None else None
            case UsageUpdated(usage=usage):
                self._spent += SessionBudget(tokens=usage.fresh_tokens, steps=1)
                self.is_reported = self.is_reported and event.agent == TITLER
            case ReportWritten():
                self.is_reported = True
            case TurnStarted(agent=agent) if agent == ROOT:
                self._since, self._waited_s = self._monotonic(), 0.0
            case TurnEnded(agent=agent, elapsed_s=elapsed_s) if agent == ROOT:
                self._since = None
                self._spent += SessionBudget(seconds=max(0.0, elapsed_s - self._waited_s))
            case Reminder(topic="budget"):
                self._is_told = True
            case _:
                self._take_questions(event)

    def _take_questions(self, event: Event) -> None:
        """Count the time in which one or more questions are open once."""
        match event:
            case ApprovalRequested(approval_id=approval_id):
                self._asked = self._monotonic() if self._asked is None else self._asked
                self._open.add(approval_id)
            case ApprovalResolved(approval_id=approval_id, elapsed_ms=elapsed_ms) if approval_id in self._open:
                self._open.discard(approval_id)
                self._longest_ms = max(self._longest_ms, elapsed_ms)
                if not self._open:
                    self._waited_s += self._longest_ms / 1000
                    self._asked, self._longest_ms = None, 0
            case _:
                pass

    def over(self) -> str:
        """Return why no further request may be made, empty where one may."""
        if self.budget.used(self.spent) < 1:
            return ""
        return f"the budget of {self.budget} is used up ({self.spent}); /budget gives it more"

    def warning(self) -> str:
        """Return that most of the budget is used, until it was told."""
        if self._is_told or self.budget.used(self.spent) < WARN_SHARE:
            return ""
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
