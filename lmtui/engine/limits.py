"""How far a turn may go: the limits of the agent and the budget of the session, and the words when they come near."""

from __future__ import annotations

from lmtui.core.budgets import ReportWritten
from lmtui.core.events import Level, Notice, TurnReason
from lmtui.core.messages import Usage
from lmtui.core.model_events import Reminder
from lmtui.engine.desk import Desk

LAST_STEPS = 3
_LEAST_STEPS = 10  # of so few none is worth a warning
_FINISH = "Finish and check what is begun, then say what is done and what is open."
_ENDINGS = {
    TurnReason.DONE: "done",
    TurnReason.LIMIT: TurnReason.LIMIT.words,
    TurnReason.BLOCKED: "blocked",
    TurnReason.ERROR: "stopped by an error",
}
_ENDINGS_USED_UP = {
    TurnReason.WAITING: "waiting, with the budget used up",
    TurnReason.INTERRUPTED: "stopped by you, with the budget used up",
}


def limit_reached(desk: Desk, usage: Usage) -> str:
    """Return why no further request may be made in a turn that used so much, empty where one may."""
    limits = desk.limits
    if 0 < limits.max_iterations <= desk.task_steps.count:
        return f"the limit of {limits.max_iterations} steps was reached"
    if 0 < limits.max_tokens <= usage.fresh_tokens:
        return f"the limit of {limits.max_tokens:,} tokens was reached"
    return desk.spending.over()


def tell_what_is_left(desk: Desk) -> None:
    """Tell the model that the last steps begin, and model and user that most of the budget is used; each once."""
    limits = desk.limits
    if limits.max_iterations >= _LEAST_STEPS and limits.max_iterations - desk.task_steps.count == LAST_STEPS:
        desk.emit(Reminder(agent=desk.agent, text=f"Only {LAST_STEPS} more steps are allowed. {_FINISH}", turn_id=desk.turn_id))
    if warning := desk.spending.warning():
        desk.emit(Notice(agent=desk.agent, level=Level.WARNING, text=f"{warning[0].upper()}{warning[1:]}."))
        text = f"{warning}. Begin nothing new. {_FINISH}"
        desk.emit(Reminder(agent=desk.agent, text=text, turn_id=desk.turn_id, topic="budget"))


def write_report(desk: Desk, reason: TurnReason) -> None:
    """Tell what work under a budget came to; once, until there is more work to tell of."""
    spending = desk.spending
    ending = _ENDINGS.get(reason) or (_ENDINGS_USED_UP.get(reason) if spending.over() else None)
    if desk.depth or not spending.budget or spending.is_reported or ending is None:
        return
    text = spending.deeds.report(desk.plan, spending.budget, spending.spent, ending)
    desk.emit(ReportWritten(agent=desk.agent, text=text, turn_id=desk.turn_id))
