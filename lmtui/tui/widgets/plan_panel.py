"""The plan and the todos of a session, one line each."""

from __future__ import annotations

from textual.containers import VerticalScroll
from textual.content import Content
from textual.widgets import Static

from lmtui.core import events
from lmtui.core.clean import clean_line
from lmtui.core.events import Envelope
from lmtui.core.plan import Plan, Todo, TodoStatus

SIGNS = {
    TodoStatus.PENDING: ("○", "$text-muted"),
    TodoStatus.IN_PROGRESS: ("●", "$accent"),
    TodoStatus.COMPLETED: ("✓", "$success"),
    TodoStatus.BLOCKED: ("✗", "$warning"),
}
EMPTY = "What the agent means to do stands here once it writes todos."


class PlanPanel(VerticalScroll):
    """Draws the plan as it is; two widgets whatever its length."""

    DEFAULT_CSS = """
    PlanPanel { height: 1fr; scrollbar-size-vertical: 1; background: transparent; }
    PlanPanel Static { height: auto; width: 1fr; }
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self._lines = Static(Content.styled(EMPTY, "$text-muted"), markup=False)

    def compose(self) -> list[Static]:
        """Make the one child."""
        return [self._lines]

    def apply(self, envelope: Envelope) -> None:
        """Draw a new plan."""
        if isinstance(envelope.event, events.PlanChanged):
            self.show(envelope.event.plan)

    def show(self, plan: Plan) -> None:
        """Draw a plan."""
        self._lines.update(plan_content(plan))


def plan_content(plan: Plan) -> Content:
    """Return the plan's steps and todos as lines; only done and running ones are counted and coloured."""
    blocks = [_block(title, todos) for title, todos in (("PLAN", plan.steps), ("TODO", plan.todos)) if todos]
    return Content("\n\n").join(blocks) if blocks else Content.styled(EMPTY, "$text-muted")


def _block(title: str, todos: tuple[Todo, ...]) -> Content:
    done = sum(todo.status is TodoStatus.COMPLETED for todo in todos)
    head = Content.assemble((title, "$text-muted"), (f"  {done}/{len(todos)}", "$text-muted"))
    return Content("\n").join([head, *map(_line, todos)])


def _line(todo: Todo) -> Content:
    sign, color = SIGNS[todo.status]
    is_done = todo.status is TodoStatus.COMPLETED
    line = Content.assemble((f"{sign} ", color), (clean_line(todo.text), "$text-muted" if is_done else "$text"))
    return Content.assemble(line, (f"\n  {clean_line(todo.notes)}", "$text-muted")) if todo.notes and not is_done else line
