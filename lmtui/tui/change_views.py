"""Which changes can be looked at: of steps, of turns, of the whole session, against git; each a list of rows with a count."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from lmtui.core.sessions import Changes, Step
from lmtui.core.workspace import FileChange
from lmtui.core.workspace_files import Files
from lmtui.tui.lines.patch import Hunk, patches_of
from lmtui.tui.lines.step_list import StepRow, rows_by_file, rows_by_step, rows_by_turn
from lmtui.tui.turns import Turn


class ChangeView(Enum):
    """A way to look: its words in the title, and since when it counts."""

    STEPS = ("by step, newest first", "since the session began")
    TURNS = ("by turn, newest first", "since the session began")
    SESSION = ("the whole session, by file", "since the session began")
    GIT = ("against git, by file", "since the last commit")


@dataclass(frozen=True, slots=True)
class Listed:
    """The rows of a view, and the changes that its counts are about."""

    rows: list[StepRow]
    total: Sequence[FileChange]


@dataclass(frozen=True, slots=True)
class ChangeSources:
    """Where changes come from.  Without `changes` there is only what events told; without `files` no git."""

    changes: Changes | None
    told: Mapping[str, FileChange]
    files: Files | None = None
    turns: Sequence[Turn] = ()

    async def listed(self, view: ChangeView) -> Listed:
        """Return what a view shows.

        Raises:
            SandboxError: it cannot be had; the text says why.
        """
        if view is ChangeView.GIT:
            against = await self.files.git_changes() if self.files is not None else ()
            return Listed(rows_by_file(against), against)
        if self.changes is None:
            return self.told_only()
        total = await self.changes.total()
        if view is ChangeView.SESSION:
            return Listed(rows_by_file(total), total)
        if view is ChangeView.TURNS:
            changed = {step.turn_id for step in self.changes.steps()}
            turns = [(turn, await self.changes.of_turn(turn.id)) for turn in self.turns if turn.id in changed]
            return Listed(rows_by_turn(turns), total)
        return Listed(rows_by_step(self.changes.steps()), total)

    def told_only(self) -> Listed:
        """Return what events told: all there is where nothing else can be had."""
        total = tuple(self.told.values())
        return Listed(rows_by_step(self.changes.steps()) if self.changes is not None else rows_by_file(total), total)

    def steps_of(self, row: StepRow) -> list[Step]:
        """Return the steps that changed a row's file, oldest first: of its turn, or of the session."""
        steps = self.changes.steps() if self.changes is not None else ()
        return [
            step
            for step in steps
            if any(change.path == row.path for change in step.changes) and row.turn_id in ("", step.turn_id)
        ]

    def step_of_hunk(self, row: StepRow, number: int) -> tuple[Step, int] | None:
        """Return the step that last made just the change of a row's hunk, and which hunk of it that is; None for no such."""
        hunks = [hunk for file in patches_of(row.changes) for hunk in file.hunks]
        if not 0 <= number < len(hunks):
            return None
        wanted = _changed(hunks[number])
        for step in reversed(self.steps_of(row)):
            own = [change for change in step.changes if change.path == row.path]
            for index, hunk in enumerate(hunk for file in patches_of(own) for hunk in file.hunks):
                if not step.is_undone and _changed(hunk) == wanted:
                    return step, index
        return None


def _changed(hunk: Hunk) -> list[tuple[str, str]]:
    return [(line.sign, line.text) for line in hunk.lines if line.sign != " "]
