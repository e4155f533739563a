"""What tool calls changed, exactly, and the ways back.

The workspace's state is kept before a call and compared after it.  Plans are made from a session's steps and their
checkpoints, shown, and then applied as they are.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise, takewhile

from lmtui.core import events
from lmtui.core.errors import SandboxError
from lmtui.core.events import ROOT, step_id
from lmtui.core.line_diff import hunk_spans, merge, split_lines
from lmtui.core.permissions.rules import Access
from lmtui.core.plan import Plan
from lmtui.core.ports import Checkpoints, Sandbox, Snapshot, ToolResult
from lmtui.core.workspace import FileChange, FileChangeKind, Restoration, Step
from lmtui.engine.agent import Agent
from lmtui.engine.entries import bare
from lmtui.engine.tasks import to_the_end

CHANGERS = (Access.WRITE, Access.EXECUTE)


async def snapshot_before(agent: Agent, call_id: str, access: Access) -> Snapshot | None:
    """Keep the state before a call that may change files; None without a need or no way, and the user is told once."""
    if access not in CHANGERS or agent.services.checkpoints is None:
        return None
    try:
        await agent.services.workspace.look()
        before = await agent.services.checkpoints.snapshot()
    except SandboxError as error:
        problem = f"What changes now cannot be undone: {error.full_text()}"
        if problem != agent.checkpoint_problem:  # the next call tries again, and only what is new is told
            agent.checkpoint_problem = problem
            agent.notify(problem)
        return None
    agent.checkpoint_problem = ""
    created = events.CheckpointCreated(agent=agent.id, call_id=call_id, checkpoint=before.id)
    agent.emit(replace(created, left_out=before.left_out, left_out_total=before.left_out_total))
    if before.dropped:
        text = f"{before.dropped} old checkpoints were dropped: the store is bounded in size and age."
        agent.notify(text, events.Level.INFO)
    return before


async def record_changes(agent: Agent, call_id: str, before: Snapshot | None, result: ToolResult) -> tuple[str, ...]:
    """Report what a call changed and return it: from comparing states, else from the tool.

    The turn's files also get what the tool wrote and no state has, because git ignores it or it is in a submodule.
    """
    changes, after_id = result.changes, ""
    if before is not None and agent.services.checkpoints is not None:
        try:
            after = await agent.services.checkpoints.snapshot()
            changes, after_id = await agent.services.checkpoints.changes(before.id, after.id, is_now=True), after.id
        except SandboxError as error:
            agent.notify(f"This step cannot be undone: {error.full_text()}")
    paths = tuple(change.path for change in changes)
    written = (change.path for change in result.changes if not change.path.endswith("/"))
    agent.turn.files.update(dict.fromkeys((*paths, *written)))
    if changes:
        ids = (before.id, after_id) if before is not None and after_id else ("", "")
        workspace = agent.services.workspace
        told = events.FilesChanged(agent=agent.id, call_id=call_id, files=paths, changes=changes)
        agent.emit(replace(told, before=ids[0], after=ids[1], is_tried=workspace.is_tried))
        if workspace.is_tried:
            with contextlib.suppress(SandboxError):  # the review says why it cannot be seen
                agent.emit(replace(await workspace.changed(paths), agent=ROOT))
    return paths


@dataclass(frozen=True, slots=True)
class Record:
    """A step with the checkpoints around it (empty where there are none) and what the first of them does not hold."""

    step: Step
    before: str
    after: str
    left_out: tuple[str, ...] = ()

    @property
    def paths(self) -> list[str]:
        """Return the files that it changed."""
        return [change.path for change in self.step.changes]


@dataclass(slots=True)
class Ledger:
    """Every step of a session, oldest first; `undone` are the ids taken back and not redone, the last taken back last."""

    records: list[Record] = field(default_factory=list)
    undone: list[str] = field(default_factory=list)
    turns: list[str] = field(default_factory=list)

    def standing(self) -> list[Record]:
        """Return what is not taken back."""
        return [record for record in self.records if record.step.id not in self.undone]

    def redoable(self) -> list[Record]:
        """Return what may be done again, the next first: nothing once something else was changed."""
        latest = takewhile(lambda record: record.step.id in self.undone, reversed(self.records))
        return list(latest)[::-1]

    def of_turn_on(self, turn_id: str) -> list[Record]:
        """Return what is of a turn and those after it."""
        if turn_id not in self.turns:
            return []
        later = set(self.turns[self.turns.index(turn_id) :])
        return [record for record in self.standing() if record.step.turn_id in later]


def plans_around(history: Sequence[events.Envelope], turn_id: str) -> tuple[Plan, Plan]:
    """Return plan, todos and task state as they was when a turn began, and as they are now."""
    before = now = Plan()
    for event in (envelope.event for envelope in history if envelope.event.agent == events.ROOT):
        if isinstance(event, events.PlanChanged):
            now = event.plan
        elif isinstance(event, events.TurnStarted) and event.turn_id == turn_id:
            before = now
    return before, now


def read_steps(history: Sequence[events.Envelope], foreign: int = 0) -> Ledger:
    """Return the ledger of a session's events.

    The first `foreign` of them came from a log that is not ours: they tell what was changed, but name no checkpoints, which
    are this user's and may hold anything.
    """
    ledger = Ledger()
    calls: dict[str, events.ToolCallStarted] = {}
    kept: dict[str, events.CheckpointCreated] = {}
    for envelope in (*map(_without_checkpoints, history[:foreign]), *history[foreign:]):
        match envelope.event:
            case events.TurnStarted(turn_id=turn_id):
                ledger.turns.append(turn_id)
            case events.ToolCallStarted() as event:
                calls[event.call_id] = event
            case events.CheckpointCreated() as event:
                kept[event.call_id] = event
            case events.FilesChanged(is_tried=False) as event:
                call, checkpoint = calls.get(event.call_id), kept.get(event.call_id)
                what = (call.turn_id, call.tool, call.title) if call else ("", "", "")
                ledger.records.append(_record(envelope, event, what, checkpoint.left_out if checkpoint else ()))
            case events.FilesRestored() as event:
                _take_restored(ledger, envelope, event)
            case events.Rewound(turn_id=turn_id) if turn_id in ledger.turns:
                del ledger.turns[ledger.turns.index(turn_id) :]
    return ledger


def _without_checkpoints(envelope: events.Envelope) -> events.Envelope:
    event = envelope.event
    if isinstance(event, events.FilesChanged | events.FilesRestored):
        return replace(envelope, event=replace(event, before="", after=""))
    return envelope


def _record(
    envelope: events.Envelope,
    event: events.FilesChanged | events.FilesRestored,
    what: tuple[str, str, str],
    left_out: tuple[str, ...] = (),
) -> Record:
    """Return the record of a step: `what` is its turn, its tool and its title."""
    can_undo = bool(event.before and event.after)
    step = Step(step_id(envelope.seq), *what, envelope.time, event.changes, can_undo=can_undo)
    return Record(step, event.before, event.after, left_out)


def _take_restored(ledger: Ledger, envelope: events.Envelope, event: events.FilesRestored) -> None:
    if event.action in ("undo", "rewind"):
        known = {record.step.id for record in ledger.records}
        ledger.undone += [each for each in event.calls if each in known and each not in ledger.undone]
    elif event.action == "redo":
        ledger.undone = [each for each in ledger.undone if each not in event.calls]
    else:
        what = (ledger.turns[-1] if ledger.turns else "", "restore", ", ".join(event.files[:3]))
        ledger.records.append(_record(envelope, event, what))


def take_back(diff: str, index: int, old: str, new: str, now: str) -> str:
    """Return the text of now with one hunk taken back of `diff`, which leads from `old` to `new`.

    Raises:
        SandboxError: no such hunk, or its lines are not as it left them.
    """
    hunks, lines = hunk_spans(diff), split_lines(new)
    if not 0 <= index < len(hunks):
        raise SandboxError(f"the change has no hunk {index + 1}")
    hunk, present = hunks[index], split_lines(now)
    changed = lines[hunk.new_start : hunk.new_end]
    places = _places(changed, present)
    if hunk.new_start not in places and len(places) > len(_places(changed, lines)):
        raise SandboxError("this hunk's lines were copied since: revert the whole file, or edit it")
    before = [*lines[: hunk.new_start], *split_lines(old)[hunk.old_start : hunk.old_end], *lines[hunk.new_end :]]
    back = merge(lines, present, before)
    if back is None or back == now:
        raise SandboxError("this hunk's lines were changed since: revert the whole file, or edit it")
    return back


def _places(part: list[str], lines: list[str]) -> list[int]:
    """Return where lines occur one after the other in others, whatever their ends."""
    part, lines = ([line.rstrip("\r\n") for line in each] for each in (part, lines))
    starts = (at for at in range(len(lines) - len(part) + 1) if lines[at : at + 1] == part[:1])
    return [at for at in starts if lines[at : at + len(part)] == part]


_NO_CHECKPOINT = "no checkpoint was made for it"
_OF_PARENT = "it belongs to the session that this one was forked from"


@dataclass(frozen=True, slots=True)
class SessionChanges:
    """What one session changed; implements `core.sessions.Changes`.

    `history` returns the session's events, `emit` takes what was done.  `is_running` tells whether a turn is under way; nothing
    is put back then.  The first `foreign` of the events were in a log that is not ours; nothing that they tell of is put back.
    """

    checkpoints: Checkpoints
    sandbox: Sandbox
    history: Callable[[], Sequence[events.Envelope]]
    emit: Callable[[events.Event], None]
    is_running: Callable[[], bool]
    foreign: int = 0

    def steps(self) -> Sequence[Step]:
        ledger = self._ledger()
        return [replace(record.step, is_undone=record.step.id in ledger.undone) for record in ledger.records]

    async def total(self) -> tuple[FileChange, ...]:
        records = [record for record in self._ledger().records if record.before]
        if not records:
            return ()
        now = await self.checkpoints.snapshot()
        paths = sorted({path for record in records for path in record.paths})
        return await self.checkpoints.changes(records[0].before, now.id, paths, is_now=True)

    async def of_turn(self, turn_id: str) -> tuple[FileChange, ...]:
        records = [record for record in self._ledger().standing() if record.step.turn_id == turn_id]
        if not all(record.step.can_undo for record in records):  # no checkpoints: what each step told
            return tuple(change for record in records for change in record.step.changes)
        if not records:
            return ()
        paths = sorted({path for record in records for path in record.paths})
        changes = await self.checkpoints.changes(records[0].before, records[-1].after, paths)
        unkept = _unkept_after(records)
        bare = {path: FileChange(path, FileChangeKind.MODIFIED, is_kept=False) for path in unkept}
        return tuple(bare.get(change.path, change) for change in changes)

    async def plan_undo(self, count: int = 1) -> Restoration:
        standing = self._ledger().standing()
        if not standing:
            raise SandboxError("nothing to undo in this session")
        return await self._plan("undo", standing[-max(1, count) :])

    async def plan_redo(self, count: int = 1) -> Restoration:
        records = self._ledger().redoable()[: max(1, count)]
        if not records:
            raise SandboxError("there is nothing to redo: nothing is taken back, or something else was changed since")
        return await self._plan("redo", records)

    async def plan_restore(self, step_id: str, path: str, hunk: int | None = None) -> Restoration:
        record = next((each for each in self._ledger().records if each.step.id == step_id), None)
        change = next((each for each in record.step.changes if each.path == path), None) if record else None
        if record is None or change is None:
            raise SandboxError(f"{path} was not changed in that step")
        if not record.before:
            raise SandboxError(f"{path} cannot be put back: {self._why_not(record)}")
        now = await self.checkpoints.snapshot()
        if hunk is None:
            changes = await self.checkpoints.changes(now.id, record.before, [path])
            if not changes:
                raise SandboxError(f"{path} is as it was before that step")
            differing = await self.checkpoints.changes(record.before, now.id, [path], is_now=True)
            unkept = tuple(each.path for each in differing if not each.is_kept)
            return Restoration("restore", (step_id,), changes, source=record.before, expected=now.id, unkept=unkept)
        text = await self._text(path)
        sides = [await self.checkpoints.read(state, path) or b"" for state in (record.before, record.after)]
        old, new = (side.decode("utf-8", "surrogateescape") for side in sides)
        back = await asyncio.to_thread(take_back, change.diff, hunk, old, new, text)
        return Restoration("restore", (step_id,), (change,), expected=now.id, path=path, before=text, text=back)

    async def plan_rewind(self, turn_id: str) -> Restoration:
        ledger = self._ledger()
        if turn_id not in ledger.turns:
            raise SandboxError("that turn is not part of the conversation any more")
        records = ledger.of_turn_on(turn_id)
        if all(record.step.can_undo for record in records):
            plan = await self._plan("rewind", records) if records else Restoration("rewind", (), ())
        else:  # the conversation can go back all the same
            plan = Restoration("rewind", (), (), left_out=tuple(sorted({path for each in records for path in each.paths})))
        return replace(plan, turn_id=turn_id)

    async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
        if self.is_running():
            raise SandboxError("a turn is under way: stop it first")
        if with_files and plan.conflicts:
            raise SandboxError(f"changed in the meantime: {', '.join(plan.conflicts)}; nothing was changed")
        if with_files and plan.changes:
            await to_the_end(self._put_back(plan))
        if plan.turn_id:
            before, now = plans_around(bare(self.history()), plan.turn_id)
            if before != now:  # first, so that who reads on from the rewind finds the plan as it was
                self.emit(events.PlanChanged(plan=before))
            self.emit(events.Rewound(turn_id=plan.turn_id))

    async def _put_back(self, plan: Restoration) -> None:
        paths = [change.path for change in plan.changes]
        is_step = plan.action == "restore"
        if plan.path:
            await self._write(plan)
        else:
            await self.checkpoints.restore(plan.source, paths, expected=plan.expected, over=plan.unkept)
        after, changes = "", plan.changes
        try:
            if is_step:
                after = (await self.checkpoints.snapshot()).id
                changes = await self.checkpoints.changes(plan.expected, after, paths)
        finally:  # it was done, whatever comes now
            before = plan.expected if after or not is_step else ""
            restored = events.FilesRestored(action=plan.action, calls=plan.calls, files=tuple(paths))
            self.emit(replace(restored, changes=changes, before=before, after=after))

    async def _write(self, plan: Restoration) -> None:
        if await self._text(plan.path) != plan.before:
            raise SandboxError(f"changed in the meantime: {plan.path}; nothing was changed")
        sandbox = self.sandbox.revealing([plan.path])  # the user takes it back, whatever it holds
        found = await sandbox.read_file(plan.path)
        data = plan.text.encode("utf-8", "surrogateescape")
        await sandbox.write_file(plan.path, data, expect_sha256=found.sha256)

    async def _text(self, path: str) -> str:
        found = await self.sandbox.unmasked().read_file(path, 16_777_216)
        if len(found.data) < found.size_bytes:
            raise SandboxError(f"{path} is too large for a single hunk: revert the whole file")
        return found.data.decode("utf-8", "surrogateescape")

    async def _plan(self, action: str, records: list[Record]) -> Restoration:
        source, expected = records[0].before, records[-1].after
        if action == "redo":
            source, expected = expected, source
        missing = [record for record in records if not record.step.can_undo]
        if missing:
            step = missing[0].step
            raise SandboxError(f"“{step.title or step.tool}” cannot be taken back: {self._why_not(missing[0])}")
        paths = sorted({path for record in records for path in record.paths})
        now = await self.checkpoints.snapshot()
        differing = await self.checkpoints.changes(source, now.id, paths, is_now=True)
        unkept = {change.path for change in differing if not change.is_kept}
        conflicts = {change.path for change in await self.checkpoints.changes(expected, now.id, paths)}
        conflicts |= unkept - _unkept_after(records)  # someone else put something there that cannot be seen
        so_far: set[str] = set()
        for one, next_one in pairwise(records):
            so_far |= set(one.paths)
            if action != "redo" and one.after != next_one.before:
                between = await self.checkpoints.changes(one.after, next_one.before, sorted(so_far))
                restored = await self.checkpoints.changes(next_one.before, source, sorted(so_far))
                conflicts |= {change.path for change in between} & {change.path for change in restored}
        conflicts &= {change.path for change in differing}  # the others are already restored: an undo was interrupted
        changes = await self.checkpoints.changes(expected, source, paths)
        never = self._unkept_at_source(action, records)
        never &= {change.path for change in changes if change.kind is FileChangeKind.DELETED}
        left_out = ({name for record in records for name in record.left_out} | set(now.left_out)) - unkept
        left_out |= never | set(await self.checkpoints.ignored())
        modified = FileChangeKind.MODIFIED
        shown = [replace(each, kind=modified) if each.path in unkept else each for each in changes]
        return Restoration(
            action,
            tuple(record.step.id for record in records),
            tuple(each for each in shown if each.path not in never),
            tuple(sorted(conflicts - never)),
            tuple(sorted(left_out)),
            source,
            expected,
            unkept=tuple(sorted(unkept)),
        )

    def _unkept_at_source(self, action: str, records: list[Record]) -> set[str]:
        """Return the files that may have existed in the target state without being in it."""
        if action == "redo":
            return _unkept_after(records)
        earlier = takewhile(lambda each: each.step.id != records[0].step.id, self._ledger().records)
        return {*records[0].left_out} | _unkept_after(list(earlier))

    def _why_not(self, record: Record) -> str:
        history = self.history()
        opened = history[0].event if history else None
        copied = opened.parent_seq if isinstance(opened, events.SessionOpened) else 0
        return _OF_PARENT if record.step.id in {step_id(seq) for seq in range(1, copied + 1)} else _NO_CHECKPOINT

    def _ledger(self) -> Ledger:
        return read_steps(bare(self.history()), self.foreign)


def _unkept_after(records: Sequence[Record]) -> set[str]:
    """Return the files that no checkpoint could store after these steps."""
    last = {change.path: change.is_kept for record in records for change in record.step.changes}
    return {path for path, is_kept in last.items() if not is_kept}
