"""Where the calls of a session work: in the workspace or, in try mode, in an overlay over it.

Commands that would be asked about run in an overlay first too; the question is then about what they did.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
import secrets
import shlex
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from lmtui.core.errors import SandboxError
from lmtui.core.events import (
    CheckpointCreated,
    Event,
    FilesChanged,
    Level,
    Notice,
    OverlayChanged,
    ToolCallFinished,
    ToolCallStarted,
)
from lmtui.core.model_events import Reminder
from lmtui.core.permissions.decide import decide_all
from lmtui.core.permissions.rules import Access, Decision, Mode, Rule, Verdict
from lmtui.core.ports import Checkpoints, CommandOverlay, KeptChanges, PreparedCall, Preview, Sandbox, ToolContext, ToolResult
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import NO_TRIAL
from lmtui.core.workspace import EFFECT_TOOL, CommandEffect, EffectKind, EffectPart, kept_text
from lmtui.engine.tasks import to_the_end

_MOST_LOOKED_UP, _MOST_NAMED = 500, 20
GROWING_S = 10.0
NO_OVERLAYS = "No overlay could be created, so commands run read-only first and need approval to write: {why}"
HELD_BACK = "it tried to change files or reach a host"
WAS_HELD_BACK = re.compile("Read-only file system|EROFS|Could not resolve host|[Nn]ame resolution|ENOTFOUND|EAI_AGAIN")
UNSEEN = "what it changes cannot be shown, and may not be undone: {why}"


@contextlib.asynccontextmanager
async def growing_effect(context: ToolContext, overlay: CommandOverlay) -> AsyncIterator[None]:
    """Show next to the output of a long command what it has changed so far."""
    watching = asyncio.create_task(_watch(context, overlay))
    try:
        yield
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)


async def _watch(context: ToolContext, overlay: CommandOverlay) -> None:
    wait_s, told = GROWING_S, ""
    while True:
        await asyncio.sleep(wait_s)
        wait_s *= 1.5
        with contextlib.suppress(SandboxError):  # the look after the command says what is wrong
            kinds = Counter(str(part.kind) for part in (await overlay.effect()).parts)
            said = ", ".join(f"{count} {kind}" for kind, count in kinds.items())
            if said not in ("", told):
                told = said
                context.on_output(f"[so far in the overlay: {said}]\n")


@dataclass(frozen=True, slots=True)
class KeptEffect:
    """Keeping what a command did in an overlay, as a call that can be asked about; implements `core.ports.PreparedCall`."""

    command: PreparedCall
    overlay: CommandOverlay
    effect: CommandEffect
    result: ToolResult
    took_s: float
    rules: Callable[[], Sequence[Rule]]

    @property
    def tool(self) -> str:
        return EFFECT_TOOL

    @property
    def arguments(self) -> Mapping[str, object]:
        return self.command.arguments

    @property
    def title(self) -> str:
        return self.command.title

    @property
    def access(self) -> Access:
        return Access.WRITE

    @property
    def subjects(self) -> tuple[str, ...]:
        return (*self.effect.paths, *self.effect.made)

    async def preview(self, context: ToolContext) -> Preview:
        text = "\n".join((self.command.subjects[0], "", *self.effect.lines()))
        parts = await with_tracked(self.effect.parts, context.sandbox)
        hunks = sum(part.hunks for part in parts)
        ended = f"{self.result.summary or 'exit 0'} in {self.took_s:.1f} s"
        diff = "".join(each.diff for each in self.effect.ordered)
        return Preview(text, diff, limits=ended, hunks=hunks, parts=parts)

    async def run(self, context: ToolContext) -> ToolResult:
        try:
            kept = await self.overlay.keep(self.effect, context.hunks, self.rules())
        except SandboxError as error:
            return dropped(self.result, self.effect, error.full_text())
        text = "\n".join((self.result.text, *kept.notes))
        if context.hunks is None:
            return replace(self.result, text=text)
        said = ", ".join(filter(None, (self.result.summary, kept_text(self.effect.parts, context.hunks))))
        return replace(self.result, text=f"{text}\n{kept_in_part(self.effect, context.hunks)}", summary=said)


async def with_tracked(parts: Sequence[EffectPart], sandbox: Sandbox) -> tuple[EffectPart, ...]:
    """Return the parts of an effect; marks changed or deleted files that git does not track, none without a repository."""
    old = [part.path for part in parts if part.kind in (EffectKind.DELETED, EffectKind.CHANGED)][:_MOST_LOOKED_UP]
    if not old:
        return tuple(parts)
    try:
        listed = await sandbox.run_git(["ls-files", "-z", "--", *old])
        known = frozenset(listed.entries())
    except SandboxError:
        return tuple(parts)
    is_known = listed.exit_code != 0
    return tuple(
        replace(part, is_tracked=is_known or part.path in known or part.path.endswith("/")) if part.path in old else part
        for part in parts
    )


def kept_in_part(effect: CommandEffect, units: Collection[int]) -> str:
    """Return the note to the model about an effect that was kept in part."""
    choice = effect.chosen(units)
    gone = frozenset(f"{path}/" for path in (*choice.made, *choice.removed))
    kept: list[str] = []
    left: list[str] = []
    for part in effect.parts:
        name = f"{part.kind} {sanitize_line(part.path)}"
        if part.path in choice.hunks:
            kept.append(f"{name} ({len(choice.hunks[part.path])} of {part.hunks} hunks)")
        else:
            (kept if part.path in choice.paths or part.path in gone else left).append(name)
    said = f"[the user kept: {_joined(kept)}"
    return f"{said}; not kept: {_joined(left)}]" if left else f"{said}]"


def _joined(names: Sequence[str]) -> str:
    left = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {left} more" if left > 0 else "")


def _named(paths: Sequence[str]) -> str:
    return _joined([sanitize_line(path) for path in paths])


def decide_effect(effect: CommandEffect, mode: Mode, rules: tuple[Rule, ...]) -> Decision:
    """Return what rules say of an effect: kept where they allow all of it, dropped where they forbid some."""
    paths = (*effect.paths, *effect.made, *effect.removed)
    decision = decide_all("write", Access.WRITE, paths, mode, rules)
    if decision.verdict is not Verdict.ASK:
        return decision
    parts = effect.parts
    deleted = sum(each.kind is EffectKind.DELETED for each in parts)
    has_files = any(not each.path.endswith("/") for each in parts)
    changed = pluralize(len(parts), "file" if has_files else "folder")
    why = f"it ran in an overlay; keeping it would change {changed}{f', {deleted} of them deleted' if deleted else ''}"
    return Decision(Verdict.ASK, why, takes_no_rule=True)


def dropped(result: ToolResult, effect: CommandEffect, why: str) -> ToolResult:
    """Return the result of a command whose effect was not kept."""
    named = "; ".join(effect.lines())
    return replace(result, text=f"{result.text}\n[{why}, so none of this was kept: {named}]", ok=False, summary="not kept")


_MERGE_TOOL = "merge"
_IS_RUNNING = "A turn is running. Wait for it to end, or stop it, then merge."
_MERGED = "The user merged changes that you made in try mode into the folder: {names}.{rest}"
_DROPPED = (
    "The user dropped the changes that you made in try mode ({names}). The files are as in the folder again: reread them."
)
_GONE = "Changes that you made in try mode and the user did not merge are not in the folder: reread the files. {where}"


@dataclass(slots=True)
class SessionWorkspace:
    """The workspace that the calls of a session work on: the `real` one or, in try mode, an overlay that stays.

    Implements `core.sessions.Trial` over the unmerged changes of that overlay.  `states` are the checkpoints of the workspace,
    `name` is that of the patch to which unmerged changes are saved at the end.  `is_running` tells whether a turn is under way;
    nothing is merged then.  `emit` takes what is done with the overlay and must not raise; `rules` returns those in force.

    `waiting` is how many files in the overlay are not merged, `kept_as` their patch after a kill.
    """

    real: Sandbox
    states: Checkpoints | None
    name: str
    mode: Callable[[], Mode]
    is_running: Callable[[], bool]
    emit: Callable[[Event], None]
    rules: Callable[[], Sequence[Rule]]
    waiting: int = 0
    kept_as: str = ""
    _patch: str = ""  # where what waits in the overlay is saved after a kill
    _overlay: CommandOverlay | None = None
    _seen: CommandEffect | None = None

    @property
    def is_tried(self) -> bool:
        """Tell whether calls work in the overlay."""
        return self.mode() is Mode.TRY

    @property
    def sandbox(self) -> Sandbox:
        """Return the workspace for calls."""
        return self._opened().sandbox if self.is_tried else self.real

    @property
    def checkpoints(self) -> Checkpoints | None:
        """Return the states of what calls see, None where none can be kept."""
        return self._opened().checkpoints if self.is_tried and self.states is not None else self.states

    def _opened(self) -> CommandOverlay:
        if self._overlay is None:
            self._overlay = self.real.overlay(stays=True)
            self._patch = str(self._overlay.outlive_kill(self.name))
        return self._overlay

    async def look(self) -> None:
        """Note what a call in try mode sees of the workspace."""
        if self.is_tried and self.states is not None:
            await self._opened().begin_call()

    async def changed(self, paths: Collection[str]) -> OverlayChanged:
        """Take note that a call changed files in the overlay, and return what waits there now."""
        self._opened().note_touched(paths)
        return OverlayChanged(files=len((await self._effect()).parts), kept_as=self._patch)

    async def _effect(self) -> CommandEffect:
        """Return what would be merged; without what the user changed meanwhile.

        Raises:
            SandboxError: nothing waits, or it cannot be seen.
        """
        if self._overlay is None:
            raise SandboxError("nothing to merge: try mode has changed no files")
        return await self._overlay.effect()

    async def _close_overlay(self) -> None:
        """Drop the overlay; the next call in try mode gets a new one."""
        overlay, self._overlay = self._overlay, None
        if overlay is not None:
            await overlay.close()

    async def problem(self) -> str:
        try:
            return "" if (await self.real.status()).has_overlays else NO_TRIAL
        except SandboxError as error:
            return error.full_text()

    async def parts(self) -> Sequence[EffectPart]:
        """Return the parts that would be merged now."""
        self._seen = await self._effect()
        return await with_tracked(self._seen.parts, self.real)

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        self._check_idle()
        return await to_the_end(self._keep(units))

    async def _keep(self, units: Collection[int] | None) -> Sequence[str]:
        seen = self._seen or await self._effect()
        if self._overlay is None:
            return ()
        kept, paths = await self._overlay.keep(seen, units, self.rules()), seen.chosen(units).paths
        await self._tell_merged(paths, kept)
        left = await self._effect()
        if left.is_empty and not self.is_running():  # it would hide what is changed in the folder from now on
            await self._close_overlay()
        self.emit(OverlayChanged(files=len(left.parts), kept_as=self._patch))
        rest = "" if left.is_empty else f" Not merged yet: {_named([part.path for part in left.parts])}."
        self.emit(Reminder(text=_MERGED.format(rest=rest, names=_named(paths))))
        return kept.notes

    async def _tell_merged(self, paths: Sequence[str], kept: KeptChanges) -> None:
        """Record a merge as a step of the user."""
        states, call_id = self.states, f"merge_{secrets.token_hex(4)}"
        title = pluralize(len(paths), "file")
        self.emit(
            ToolCallStarted(call_id=call_id, tool=_MERGE_TOOL, arguments={"paths": [*paths]}, title=title, by="user_alone")
        )
        if kept.before is not None and kept.after is not None and states is not None:
            before, after = kept.before, kept.after
            self.emit(CheckpointCreated(call_id=call_id, checkpoint=before.id, left_out=before.left_out))
            changes = await states.changes(before.id, after.id, is_now=True)
            files = tuple(each.path for each in changes)
            self.emit(FilesChanged(call_id=call_id, files=files, changes=changes, before=before.id, after=after.id))
        notes = "\n".join(kept.notes)
        self.emit(ToolCallFinished(call_id=call_id, tool=_MERGE_TOOL, ok=True, result=notes, elapsed_ms=0, summary="merged"))

    async def drop(self) -> None:
        self._check_idle()
        paths = (await self._effect()).paths
        self._check_idle()
        await self._close_overlay()
        self.emit(OverlayChanged(files=0))
        self.emit(Reminder(text=_DROPPED.format(names=_named(paths))))

    async def close(self) -> None:
        """Save unmerged changes as a patch, say where, and drop them."""
        overlay = self._overlay
        if overlay is None:
            return
        try:
            effect = await self._effect()
            if not effect.is_empty:
                file = await overlay.save_patch(effect, self.name)
                missing = f"; not in it: {_named(effect.special)}" if effect.special else ""
                files = pluralize(len(effect.paths), "file")
                text = f"{files} not merged. To apply the changes: git apply {shlex.quote(str(file))}{missing}"
                self.emit(OverlayChanged(files=0, patch=str(file)))
                self.emit(Notice(level=Level.WARNING, text=text))
                self.emit(Reminder(text=_GONE.format(where="The user has a patch with them.")))
        except (SandboxError, OSError) as error:
            self.emit(Notice(level=Level.ERROR, text=f"Could not save the unmerged changes of try mode: {error}"))
        finally:
            await self._close_overlay()

    def resume(self) -> None:
        """Say that the overlay of an earlier run is gone, if it had unmerged changes."""
        if self.waiting:
            files = pluralize(self.waiting, "file")
            where = self.kept_as or "see .lmagent/patches"
            text = f"lmtui was killed with {files} not merged. The changes are saved as a patch: {where}"
            self.emit(Notice(level=Level.WARNING, text=text))
            self.emit(OverlayChanged(files=0))
            self.emit(Reminder(text=_GONE.format(where="").rstrip()))

    def _check_idle(self) -> None:
        if self.is_running():
            raise SandboxError(_IS_RUNNING)
