"""The ways back: plans are made from the session's steps and their checkpoints, shown, and then applied as they are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise, takewhile

from lmtui.core.errors import SandboxError
from lmtui.core.events import Envelope, Event, PlanChanged, SessionOpened
from lmtui.core.file_events import FilesRestored, Rewound, step_id
from lmtui.core.ports import Checkpoints, Sandbox
from lmtui.core.sessions import Restoration, Step
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.engine.hunks import take_back
from lmtui.engine.packing import bare
from lmtui.engine.steps import Ledger, Record, plans_around, read_steps
from lmtui.engine.watching import to_the_end

_NO_CHECKPOINT = "no checkpoint was made for it"
_OF_PARENT = "it belongs to the session that this one was forked from"


class SessionChanges:
    """What one session changed; implements `core.sessions.Changes`.

    Args:
        history: returns the session's events.
        emit: takes what was done.
        is_running: tells whether a turn is under way; nothing is put back then.
        foreign: how many of the events were in a log that is not ours; nothing that they tell of is put back.
    """

    def __init__(
        self,
        checkpoints: Checkpoints,
        sandbox: Sandbox,
        history: Callable[[], Sequence[Envelope]],
        emit: Callable[[Event], None],
        is_running: Callable[[], bool],
        *,
        foreign: int = 0,
    ) -> None:
        self._checkpoints = checkpoints
        self._sandbox = sandbox
        self._history = history
        self._emit = emit
        self._is_running = is_running
        self._foreign = foreign

    def steps(self) -> Sequence[Step]:
        """Return every step that changed files, oldest first."""
        return self._ledger().steps()

    async def total(self) -> tuple[FileChange, ...]:
        """Return the difference between the session's beginning and now, in the files that it touched."""
        records = [record for record in self._ledger().records if record.before]
        if not records:
            return ()
        now = await self._checkpoints.snapshot()
        paths = sorted({path for record in records for path in record.paths})
        return await self._checkpoints.changes(records[0].before, now.id, paths, is_now=True)

    async def of_turn(self, turn_id: str) -> tuple[FileChange, ...]:
        """Return the difference between a turn's first step and its last, by file."""
        records = [record for record in self._ledger().standing() if record.step.turn_id == turn_id]
        if not all(record.step.can_undo for record in records):  # no checkpoints: what each step told
            return tuple(change for record in records for change in record.step.changes)
        if not records:
            return ()
        paths = sorted({path for record in records for path in record.paths})
        changes = await self._checkpoints.changes(records[0].before, records[-1].after, paths)
        unkept = _unkept_after(records)
        return tuple(_as_unkept(change) if change.path in unkept else change for change in changes)

    async def plan_undo(self, count: int = 1) -> Restoration:
        """Plan to take back the last steps that are not taken back yet."""
        standing = self._ledger().standing()
        if not standing:
            raise SandboxError("there is nothing to undo: this session changed no files, or all of it is taken back")
        return await self._back("undo", standing[-max(1, count) :])

    async def plan_redo(self, count: int = 1) -> Restoration:
        """Plan to do again what was taken back last."""
        records = self._ledger().redoable()[: max(1, count)]
        if not records:
            raise SandboxError("there is nothing to redo: nothing is taken back, or something else was changed since")
        return await self._plan("redo", records, source=records[-1].after, expected=records[0].before)

    async def plan_restore(self, step_id: str, path: str, hunk: int | None = None) -> Restoration:
        """Plan to put one file back to what it was before a step, or only one hunk of that step's change to it."""
        record = next((each for each in self._ledger().records if each.step.id == step_id), None)
        change = next((each for each in record.step.changes if each.path == path), None) if record else None
        if record is None or change is None:
            raise SandboxError(f"{path} was not changed in that step")
        if not record.before:
            raise SandboxError(f"{path} cannot be put back: {self._why_not(record)}")
        now = await self._checkpoints.snapshot()
        if hunk is None:
            changes = await self._checkpoints.changes(now.id, record.before, [path])
            if not changes:
                raise SandboxError(f"{path} is as it was before that step")
            differing = await self._checkpoints.changes(record.before, now.id, [path], is_now=True)
            unkept = tuple(each.path for each in differing if not each.is_kept)
            return Restoration("restore", (step_id,), changes, source=record.before, expected=now.id, unkept=unkept)
        text = await self._text(path)
        before = await self._checkpoints.read(record.before, path)
        back = take_back(change.diff, hunk, text, (before or b"").decode("utf-8", "surrogateescape"))
        return Restoration("restore", (step_id,), (change,), expected=now.id, path=path, before=text, text=back)

    async def plan_rewind(self, turn_id: str) -> Restoration:
        """Plan to put back all files to what they were before a turn."""
        ledger = self._ledger()
        if turn_id not in ledger.turns:
            raise SandboxError("that turn is not part of the conversation any more")
        records = ledger.of_turn_on(turn_id)
        if all(record.step.can_undo for record in records):
            plan = await self._back("rewind", records) if records else Restoration("rewind", (), ())
        else:  # the conversation can go back all the same
            plan = Restoration("rewind", (), (), left_out=tuple(sorted({path for each in records for path in each.paths})))
        return replace(plan, turn_id=turn_id)

    async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
        """Do what a plan says."""
        if self._is_running():
            raise SandboxError("a turn is under way: stop it first")
        if with_files and plan.conflicts:
            raise SandboxError(f"changed since by another hand: {', '.join(plan.conflicts)}; nothing was put back")
        if with_files and plan.changes:
            await to_the_end(self._put_back(plan))
        if plan.turn_id:
            before, now = plans_around(bare(self._history()), plan.turn_id)
            if before != now:  # first, so that who reads on from the rewind finds the plan as it was
                self._emit(PlanChanged(plan=before))
            self._emit(Rewound(turn_id=plan.turn_id))

    async def _put_back(self, plan: Restoration) -> None:
        paths = [change.path for change in plan.changes]
        is_step = plan.action == "restore"
        if plan.path:
            await self._write(plan)
        else:
            await self._checkpoints.restore(plan.source, paths, expected=plan.expected, over=plan.unkept)
        after, changes = "", plan.changes
        try:
            if is_step:
                after = (await self._checkpoints.snapshot()).id
                changes = await self._checkpoints.changes(plan.expected, after, paths)
        finally:  # it was done, whatever comes now
            before = plan.expected if after or not is_step else ""
            event = FilesRestored(
                action=plan.action, calls=plan.calls, files=tuple(paths), changes=changes, before=before, after=after
            )
            self._emit(event)

    async def _write(self, plan: Restoration) -> None:
        if await self._text(plan.path) != plan.before:
            raise SandboxError(f"changed since by another hand: {plan.path}; nothing was put back")
        sandbox = self._sandbox.revealing([plan.path])  # the user takes it back, whatever it holds
        found = await sandbox.read_file(plan.path)
        data = plan.text.encode("utf-8", "surrogateescape")
        await sandbox.write_file(plan.path, data, expect_sha256=found.sha256)

    async def _text(self, path: str) -> str:
        found = await self._sandbox.unmasked().read_file(path, 16_777_216)
        if len(found.data) < found.size_bytes:
            raise SandboxError(f"{path} is too large for a single hunk: take the whole file back")
        return found.data.decode("utf-8", "surrogateescape")

    async def _back(self, action: str, records: list[Record]) -> Restoration:
        return await self._plan(action, records, source=records[0].before, expected=records[-1].after)

    async def _plan(self, action: str, records: list[Record], *, source: str, expected: str) -> Restoration:
        missing = [record for record in records if not record.step.can_undo]
        if missing:
            step = missing[0].step
            raise SandboxError(f"“{step.title or step.tool}” cannot be taken back: {self._why_not(missing[0])}")
        paths = sorted({path for record in records for path in record.paths})
        now = await self._checkpoints.snapshot()
        differing = await self._checkpoints.changes(source, now.id, paths, is_now=True)
        unkept = {change.path for change in differing if not change.is_kept}
        conflicts = {change.path for change in await self._checkpoints.changes(expected, now.id, paths)}
        conflicts |= unkept - _unkept_after(records)  # someone else put something there that cannot be seen
        so_far: set[str] = set()
        for one, next_one in pairwise(records):
            so_far |= set(one.paths)
            if action != "redo" and one.after != next_one.before:
                between = await self._checkpoints.changes(one.after, next_one.before, sorted(so_far))
                restored = await self._checkpoints.changes(next_one.before, source, sorted(so_far))
                conflicts |= {change.path for change in between} & {change.path for change in restored}
        conflicts &= {change.path for change in differing}  # the others are already restored: an undo was interrupted
        changes = await self._checkpoints.changes(expected, source, paths)
        never = self._unkept_at_source(action, records)
        never &= {change.path for change in changes if change.kind is FileChangeKind.DELETED}
        left_out = ({name for record in records for name in record.left_out} | set(now.left_out)) - unkept
        left_out |= never | set(await self._checkpoints.ignored())
        changes = tuple(_over_unkept(each) if each.path in unkept else each for each in changes if each.path not in never)
        return Restoration(
            action,
            tuple(record.step.id for record in records),
            changes,
            tuple(sorted(conflicts - never)),
            tuple(sorted(left_out)),
            source,
            expected,
            unkept=tuple(sorted(unkept)),
        )

    def _unkept_at_source(self, action: str, records: list[Record]) -> set[str]:
        """Return the files that may have existed in the target state although it does not contain them."""
        if action == "redo":
            return _unkept_after(records)
        earlier = takewhile(lambda each: each.step.id != records[0].step.id, self._ledger().records)
        return {*records[0].left_out} | _unkept_after(list(earlier))

    def _why_not(self, record: Record) -> str:
        history = self._history()
        opened = history[0].event if history else None
        copied = opened.parent_seq if isinstance(opened, SessionOpened) else 0
        return _OF_PARENT if record.step.id in {step_id(seq) for seq in range(1, copied + 1)} else _NO_CHECKPOINT

    def _ledger(self) -> Ledger:
        return read_steps(bare(self._history()), self._foreign)


def _unkept_after(records: Sequence[Record]) -> set[str]:
    """Return the files that no checkpoint could store after these steps."""
    last = {change.path: change.is_kept for record in records for change in record.step.changes}
    return {path for path, is_kept in last.items() if not is_kept}


def _over_unkept(change: FileChange) -> FileChange:
    return replace(change, kind=FileChangeKind.MODIFIED)


def _as_unkept(change: FileChange) -> FileChange:
    return FileChange(change.path, FileChangeKind.MODIFIED, is_kept=False)
