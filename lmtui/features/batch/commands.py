"""Commands for batches: show the newest one, and accept or reject the changes of its tasks."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import AskYes, Command, CommandContext, OpenView, Result, Scope
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.features.batch.values import NO_BATCH, BatchState, TaskResult, WorkspaceBatches

START = "Each task runs in its own overlay; nothing in your folder changes until you accept it."


async def show_batch(context: CommandContext, argument: str) -> Result:
    """Show a batch, or start one after a question."""
    batches, words = context.host.extensions[WorkspaceBatches], argument.strip()

    async def lines() -> Iterable[str]:
        found = await batches.read(await batches.open(words, context.active.id if context.active is not None else ""))
        return [found.summary, *(_row_text(row, found) for row in found.rows)] if found.rows else [NO_BATCH]

    async def show() -> Result:
        return OpenView("batch.show", words, text=lines, instead="`lmtui batch status`")

    count = await batches.count_new(words)
    question = f"Start {pluralize(count, 'task')}?"
    text = f"{sanitize_line(argument)}\n{START}"
    return AskYes(question, text, show, yes="start") if count else await show()


def _row_text(row: TaskResult, state: BatchState) -> str:
    overlaps = ", ".join(state.overlaps.get(row.id, ()))
    parts = [row.status or "waiting", row.decision, f"also changed by {overlaps}" if overlaps else ""]
    return sanitize_line(f"{row.id}  {row.task}  {' · '.join(filter(None, parts))}")


COMMANDS: tuple[Command, ...] = (
    Command("batch.show", Scope.WORKBENCH, "Batch", "Start a batch of tasks, or review the changes of the newest one.",
        slash=("batch",), argument="[--glob PATTERN TASK | FILE | DIR]", handler=show_batch,
        tab=("Runs", "Batch"), instead="`lmtui batch status`"),
)  # fmt: skip
