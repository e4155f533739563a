"""Long work in words: sub-agents, budgets and reports, in a line or a text for the user."""

from __future__ import annotations

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.budgets import Budgets, BudgetSet, ReportWritten, SessionBudget, read_budget, whole_budget
from lmtui.core.clean import clean, clean_line
from lmtui.core.errors import UsageError
from lmtui.core.events import Event
from lmtui.core.model_events import Compacting

_MAX_CHARS = 200
_DEEP_FORM = "/deep 3h 200 steps port the parser"


def long_words(event: Event) -> str:
    """Return what an event says of long work, empty for others."""
    match event:
        case AgentStarted(agent=agent, title=title, work=work):
            reads = ", only reading" if work == "explore" else ""
            return f"sub-agent {clean_line(agent)} begins{reads}: {clean_line(title)}"
        case AgentFinished(agent=agent, outcome=outcome, summary=summary):
            said = clean_line(summary)[:_MAX_CHARS]
            return f"sub-agent {clean_line(agent)} ends: {clean_line(outcome)}" + (f", {said}" if said else "")
        case BudgetSet(budget=budget):
            return f"this session may spend {budget}" if budget else "this session has no budget any more"
        case ReportWritten(text=text):
            return clean(text)
        case Compacting():
            return "the model sums up what was said, to make room"
        case _:
            return ""


def budget_words(budgets: Budgets) -> str:
    """Return what a session may spend, and what it has spent."""
    budget, spent = budgets.in_force()
    if not budget:
        return f"no budget; {spent} used. /budget and, for example, 3h 200 steps sets one"
    return f"budget: {budget}; {spent} used ({budget.used(spent):.0%})"


def set_budget(budgets: Budgets, words: str) -> None:
    """Set a session's budget by words, or with `off` take it away.

    Raises:
        UsageError: the words are no budget.
    """
    if words.strip() == "off":
        budgets.give(SessionBudget())
        return
    budgets.give(whole_budget(words))


def begin_deep(budgets: Budgets, words: str) -> str:
    """Set the budget that the words begin with and return the task behind it.

    Raises:
        UsageError: there is no budget, or no task behind it.
    """
    if not words.strip():
        raise UsageError("/deep needs a budget and a task", f"Write it like {_DEEP_FORM}.")
    budget, task = read_budget(words)
    if not task:
        raise UsageError("there is no task behind the budget", f"Write it like {_DEEP_FORM}.")
    budgets.give(budget)
    return task
