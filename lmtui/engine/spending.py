"""What a session has spent of its budget, by all of its agents together: built from events, so that a resume counts on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from lmtui.core import events
from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.budgets import BudgetSet, ReportWritten, SessionBudget
from lmtui.core.model_events import Reminder
from lmtui.core.plan import Plan, TodoStatus

_MOST_NAMED = 20
_MAX_LINE_CHARS = 160


@dataclass(slots=True)
class WorkReport:
    """Files that were changed (lines added and removed), commands with how they ended last, failed calls, sub-agents."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    has_undone: bool = False
    _titles: dict[str, str] = field(default_factory=dict)

    def apply(self, event: events.Event) -> None:
        """Take up an event of any agent."""
        match event:
            case events.ToolCallStarted(tool="shell", call_id=call_id, title=title):
                self._titles[call_id] = title
            case events.ToolCallFinished(call_id=call_id, ok=ok, summary=summary) if call_id in self._titles:
                command = self._titles.pop(call_id)
                self.commands.pop(command, None)
                self.commands[command] = summary or ("ok" if ok else "failed")
            case events.FilesChanged(changes=changes, is_tried=False):
                for change in changes:
                    added, removed = self.files.get(change.path, (0, 0))
                    self.files[change.path] = (added + change.added_lines, removed + change.removed_lines)
            case events.FilesRestored() | events.Rewound():
                self.has_undone = True
            case AgentStarted(agent=agent, title=title):
                self.agents[agent] = title
            case AgentFinished(agent=agent, outcome=outcome) if agent in self.agents:
                self.agents[agent] = f"{self.agents[agent]}: {outcome}"

    def report(self, plan: Plan, budget: SessionBudget, spent: SessionBudget, ending: str) -> str:
        """Return the report as Markdown.

        Args:
            plan: todos, steps and task state as they are.
            budget: what might be spent.
            spent: what was.
            ending: in words how the work ended.
        """
        done = [
            *(f"step {step.id}: {step.text}" for step in plan.steps if not step.is_open),
            *(todo.text for todo in plan.todos if todo.status is TodoStatus.COMPLETED),
            *(f"cancelled: {todo.text}" for todo in plan.todos if todo.status is TodoStatus.CANCELLED),
            *self.agents.values(),
        ]
        if plan.task is not None and plan.task.total_count:
            done.append(f"{plan.task.processed_count:,} of {plan.task.total_count:,} processed")
        checked = [
            *(f"step {step.id}: {step.result}" for step in plan.steps if step.result),
            *(f"`{command}`: {outcome}" for command, outcome in list(self.commands.items())[-_MOST_NAMED:]),
        ]
        left = [
            *(f"step {step.id}: {step.text}" for step in plan.open_steps),
            *(todo.text for todo in plan.open_todos),
            *([f"{plan.task.remaining_count:,} to process"] if plan.task is not None and not plan.task.is_finished else []),
        ]
        parts = [
            f"**Report**: {ending}. {spent} of {budget} used.",
            _section("Done", done, "nothing that was planned"),
            self._changed(),
            _section("Checked", checked, "nothing was run"),
            _section("Open", left, "nothing"),
        ]
        return "\n\n".join(part for part in parts if part)

    def _changed(self) -> str:
        if not self.files:
            return "**Changed**: no file"
        added, removed = sum(plus for plus, _ in self.files.values()), sum(minus for _, minus in self.files.values())
        names = [f"`{path}` +{plus} −{minus}" for path, (plus, minus) in self.files.items()]
        undone = "; some of it was undone since" if self.has_undone else ""
        count = f"{len(names)} file{'s' if len(names) > 1 else ''}"
        return _section(f"Changed {count}, +{added} −{removed} in all steps together{undone}", names, "")


def _section(title: str, lines: list[str], nothing: str) -> str:
    if not lines:
        return f"**{title}**: {nothing}"
    named = [f"- {' '.join(line.split())[:_MAX_LINE_CHARS]}" for line in lines[:_MOST_NAMED]]
    more = [f"- and {len(lines) - _MOST_NAMED} more"] if len(lines) > _MOST_NAMED else []
    return "\n".join([f"**{title}**", *named, *more])


WARN_SHARE = 0.8
TITLER, REFLECTION = "title", "reflection"  # stand in for an agent in what requests next to the session's work cost
BESIDE = frozenset({TITLER, REFLECTION})


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
        self.work = WorkReport()

    @property
    def spent(self) -> SessionBudget:
        """Return what was spent, the time of the turn that runs included; time in which the user was asked is free."""
        if self._since is None:
            return self._spent
        asked = self._monotonic() - self._asked if self._asked is not None else 0.0
        running = self._monotonic() - self._since - self._waited_s - asked
        return self._spent + SessionBudget(seconds=max(0.0, running))

    def apply(self, event: events.Event) -> None:
        """Take up what an event costs, and what it did."""
        self.work.apply(event)
        match event:
            case BudgetSet(budget=budget):
                self.budget, self._spent, self._is_told, self.is_reported = budget, SessionBudget(), False, False
                self.work = WorkReport()
                self._since = self._monotonic() if self._since is not None else None
            case events.UsageUpdated(usage=usage):
                self._spent += SessionBudget(tokens=usage.fresh_tokens, steps=1)
                self.is_reported = self.is_reported and event.agent in BESIDE
            case ReportWritten():
                self.is_reported = True
            case events.TurnStarted(agent=agent) if agent == events.ROOT:
                self._since, self._waited_s = self._monotonic(), 0.0
            case events.TurnEnded(agent=agent, elapsed_s=elapsed_s) if agent == events.ROOT:
                self._since = None
                self._spent += SessionBudget(seconds=max(0.0, elapsed_s - self._waited_s))
            case Reminder(topic="budget"):
                self._is_told = True
            case _:
                self._take_questions(event)

    def _take_questions(self, event: events.Event) -> None:
        """Count the time in which one or more questions are open once."""
        match event:
            case events.ApprovalRequested(approval_id=approval_id):
                self._asked = self._monotonic() if self._asked is None else self._asked
                self._open.add(approval_id)
            case events.ApprovalResolved(approval_id=approval_id, elapsed_ms=elapsed_ms) if approval_id in self._open:
                self._open.discard(approval_id)
                self._longest_ms = max(self._longest_ms, elapsed_ms)
                if not self._open:
                    self._waited_s += self._longest_ms / 1000
                    self._asked, self._longest_ms = None, 0

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
