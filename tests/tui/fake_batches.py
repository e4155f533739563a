"""A batch in a list, for screens: tasks with different results, two of them overlapping."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lmtui.core.errors import SandboxError, UsageError
from lmtui.core.workspace import EffectPart, EffectReview
from lmtui.features.batch.values import BatchState, overlaps_of
from lmtui.features.batch.values import TaskResult as Row

STARTED_S = datetime(2026, 3, 14, 14, 1, 20, tzinfo=UTC).timestamp()
ROWS = (
    Row("1", "green", "Add type hints to parser/lexer.py", ("parser/lexer.py",), 14, 6, "x", elapsed_s=48, decision="accepted"),
    Row("2", "green", "Add type hints to parser/tokens.py", ("parser/tokens.py",), 9, 3, diff="x", elapsed_s=31.0),
    Row("3", "unverified", "Sort the imports of parser/tokens.py [red]\x1b[2J", ("parser/tokens.py",), 2, 2, diff="x"),
    Row("4", "red", "Add type hints to parser/ast.py", ("parser/ast.py",), 22, 7, diff="x", tries=2, error="2 tests fail"),
    Row("5", "unchanged", "Add type hints to parser/__init__.py", elapsed_s=4.0),
    Row("6", "", "Add type hints to parser/errors.py"),
    Row("7", "green", "Add type hints to parser/grammar.py", ("parser/grammar.py",), 31, 12, diff="x", elapsed_s=44.0),
    Row("8", "", "Add type hints to parser/visitor.py"),
)
PROGRESS = (
    "4 of 8 done · 1 failed · 1 unchanged · 1 running · 1 waiting · about 2 min left\n"
    "● gpu1:8080  1/2 busy · 41 tok/s\n"
    "○ gpu2:8080  down  it no longer accepts connections"
)


class FakeReview:
    """Implements `core.workspace.EffectReview`."""

    def __init__(self, batches: FakeBatches, task_id: str) -> None:
        self._batches, self._id = batches, task_id

    async def parts(self) -> Sequence[EffectPart]:
        self._batches.check_disk()
        return ()

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        await self._batches.may_go_on.wait()
        if self._id in self._batches.stale:
            raise SandboxError("its files have changed since: parser/tokens.py", "Undo the other change first.")
        self._batches.decide(self._id, "accepted" if units is None else "partly accepted")
        return ()

    async def drop(self) -> None:
        self._batches.decide(self._id, "rejected")


class FakeBatches:
    """Implements `values.WorkspaceBatches`."""

    def __init__(self) -> None:
        self.rows: Sequence[Row] = ()
        self.progress = ""
        self.stale: set[str] = set()
        self.opened = ""
        self.is_disk_full = False
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    def check_disk(self) -> None:
        if self.is_disk_full:
            raise UsageError("the batch cannot be written: No space left on device")

    def decide(self, task_id: str, decision: str) -> None:
        self.check_disk()
        self.rows = [replace(row, decision=decision) if row.id == task_id else row for row in self.rows]

    async def read(self, path: str = "") -> BatchState:
        folder = "" if path.startswith(("--", "nothing")) else path or "/home/ada/.local/state/lmtui/batches/1"
        running = {row.id: STARTED_S for row in self.rows if row.id == "6"}
        return BatchState(folder, tuple(self.rows), self.progress, running, overlaps_of(self.rows))

    def review(self, path: str, task_id: str, session_id: str) -> EffectReview:
        assert session_id
        return FakeReview(self, task_id)

    async def reject(self, path: str, task_id: str) -> None:
        self.decide(task_id, "rejected")

    async def count_new(self, words: str) -> int:
        if words == "nothing":
            raise UsageError("nothing cannot be read", "Give a file with one task per line.")
        return 3 if words.startswith("--") else 0

    async def open(self, words: str, session_id: str) -> str:
        assert session_id
        self.opened = words
        return ""

    async def resume(self, path: str, session_id: str) -> None:
        assert path
        assert session_id
        self.progress = PROGRESS

    async def halt(self, path: str) -> None:
        assert path
        self.progress = ""
