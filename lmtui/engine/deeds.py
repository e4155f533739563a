"""What a session did since its budget was set, told at the end as it was: done, checked, open.  Built from events alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.budgets import BudgetSet, SessionBudget
from lmtui.core.events import Event, ToolCallFinished, ToolCallStarted
from lmtui.core.file_events import FilesChanged, FilesRestored, Rewound
from lmtui.core.plan import Plan, TodoStatus

_MOST_NAMED = 20
_MAX_LINE_CHARS = 160


@dataclass(slots=True)
class Deeds:
    """Files that were changed (lines added and removed), commands with how they ended last, failed calls, sub-agents."""

    files: dict[str, tuple[int, int]] = field(default_factory=dict)
    commands: dict[str, str] = field(default_factory=dict)
    agents: dict[str, str] = field(default_factory=dict)
    has_undone: bool = False
    _titles: dict[str, str] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        """Take up an event of any agent."""
        match event:
            case BudgetSet():
                self.files, self.commands, self.agents, self._titles, self.has_undone = {}, {}, {}, {}, False
            case ToolCallStarted(tool="shell", call_id=call_id, title=title):
                self._titles[call_id] = title
            case ToolCallFinished(call_id=call_id, ok=ok, summary=summary) if call_id in self._titles:
                command = self._titles.pop(call_id)
                self.commands.pop(command, None)
                self.commands[command] = summary or ("ok" if ok else "failed")
            case FilesChanged(changes=changes):
                for change in changes:
                    added, removed = self.files.get(change.path, (0, 0))
                    self.files[change.path] = (added + change.added_lines, removed + change.removed_lines)
            case FilesRestored() | Rewound():
                self.has_undone = True
            case AgentStarted(agent=agent, title=title):
                self.agents[agent] = title
            case AgentFinished(agent=agent, outcome=outcome) if agent in self.agents:
                self.agents[agent] = f"{self.agents[agent]}: {outcome}"
            case _:
                pass

    def report(self, plan: Plan, budget: SessionBudget, spent: SessionBudget, ending: str) -> str:
        """Return the report as Markdown.

        Args:
            plan: todos, steps and task state as they stand.
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
