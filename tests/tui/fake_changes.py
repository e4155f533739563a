"""The changes of a fake session: steps that the test adds, plans made from them, and the events that applying one gives."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from lmtui.core import events
from lmtui.core.errors import SandboxError
from lmtui.core.workspace import FileChange, FileChangeKind, Restoration, Step
from tests.tui.fakes import FakeSession


class FakeChanges:
    """A session's steps.  Plans are made from them; `apply` tells the session, as the engine does."""

    def __init__(self, session: FakeSession) -> None:
        self.session = session
        session.fake_changes = self
        self.conflicts: tuple[str, ...] = ()
        self.left_out: tuple[str, ...] = ()
        self.failure: SandboxError | None = None
        self.applied: list[tuple[Restoration, bool]] = []
        self.restored: list[tuple[str, str, int | None]] = []
        self._steps: dict[str, Step] = {}

    def add(self, call_id: str, tool: str, title: str, *changes: FileChange) -> None:
        turn_id = self.session.turn_id
        paths = tuple(change.path for change in changes)
        self.session.emit(events.FilesChanged(call_id=call_id, files=paths, changes=changes, before="b", after="a"))
        step = events.step_id(self.session.history()[-1].seq)
        self._steps[step] = Step(step, turn_id, tool, title, self.session.clock(), changes)

    def steps(self) -> Sequence[Step]:
        return tuple(self._steps.values())

    async def total(self) -> tuple[FileChange, ...]:
        if self.failure is not None:
            raise self.failure
        return tuple({change.path: change for step in self.steps() if not step.is_undone for change in step.changes}.values())

    async def of_turn(self, turn_id: str) -> tuple[FileChange, ...]:
        steps = [step for step in self.steps() if step.turn_id == turn_id and not step.is_undone]
        return tuple(change for step in steps for change in step.changes)

    async def plan_undo(self, count: int = 1) -> Restoration:
        undoable = [step for step in self.steps() if not step.is_undone]
        return self._plan("undo", undoable[-count:])

    async def plan_redo(self, count: int = 1) -> Restoration:
        return self._plan("redo", [step for step in self.steps() if step.is_undone][:count], is_back=False)

    async def plan_restore(self, step_id: str, path: str, hunk: int | None = None) -> Restoration:
        self.restored.append((step_id, path, hunk))
        step = self._steps[step_id]
        return self._plan("restore", [replace(step, changes=tuple(each for each in step.changes if each.path == path))])

    async def plan_rewind(self, turn_id: str) -> Restoration:
        return replace(self._plan("rewind", [step for step in self.steps() if step.turn_id == turn_id]), turn_id=turn_id)

    def _plan(self, action: str, steps: Sequence[Step], *, is_back: bool = True) -> Restoration:
        if not steps and action in ("undo", "redo"):
            raise SandboxError(f"there is nothing to {action}")
        changes = tuple(reversed_change(change) if is_back else change for step in steps for change in step.changes)
        calls = tuple(step.id for step in steps)
        return Restoration(action, calls, changes, conflicts=self.conflicts, left_out=self.left_out)

    async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
        if self.failure is not None:
            raise self.failure
        self.applied.append((plan, with_files))
        if with_files and plan.changes:
            if plan.action != "restore":
                for call in plan.calls:
                    self._steps[call] = replace(self._steps[call], is_undone=plan.action != "redo")
            paths = tuple(change.path for change in plan.changes)
            self.session.emit(events.FilesRestored(action=plan.action, calls=plan.calls, files=paths, changes=plan.changes))
        if plan.turn_id:
            self.session.emit(events.Rewound(turn_id=plan.turn_id))


def reversed_change(change: FileChange) -> FileChange:
    """Return what takes a change back."""
    kinds = {FileChangeKind.ADDED: FileChangeKind.DELETED, FileChangeKind.DELETED: FileChangeKind.ADDED}
    swapped = {"+": "-", "-": "+"}
    lines = [
        re.sub(r"-(\S+) \+(\S+)", r"-\2 +\1", line, count=1)
        if line.startswith("@@")
        else swapped.get(line[:1], line[:1]) + line[1:]
        for line in change.diff.split("\n")
        if not line.startswith(("---", "+++"))
    ]
    runs = groupby(lines, key=lambda line: line.startswith(("+", "-")))
    lines = [line for is_changed, run in runs for line in sorted(run, key=lambda line: is_changed and line[0] == "+")]
    kind = kinds.get(change.kind, change.kind)
    return FileChange(change.path, kind, change.removed_lines, change.added_lines, "\n".join(lines))
