"""Reviews of overlay changes, from an attempt or a patch; what the user keeps becomes a step of a session."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path

from lmtui.core import events
from lmtui.core.errors import SandboxError
from lmtui.core.ports import KeptChanges
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import CommandEffect, EffectPart
from lmtui.engine.file_changes import to_the_end
from lmtui.engine.session import EngineSession
from lmtui.engine.trial import kept_in_part, with_tracked
from lmtui.features.service import Ended, FeatureHost
from lmtui.plain_files import NotPlain, read_plain
from lmtui.sandbox.guest.protocol import MAX_UPLOAD_BYTES

_PATCH, _MOST_NAMED = ".lmtui-review.patch", 5
_APPLY = f"git apply --whitespace=nowarn {_PATCH}; code=$?; rm -f {_PATCH}; exit $code"


Keep = Callable[[Collection[int] | None], Awaitable[KeptChanges]]
"""Makes some units of changes real, or all with None."""


@dataclass(slots=True)
class OverlayReview:
    """Changes in an overlay, kept in parts as a step of a session that can be undone; implements `core.workspace.EffectReview`.

    `open_overlay` yields the changes and what keeps them; `seen` are the diffs that the user saw.  `tool` and `title` name the
    step, `told` is what the model is told.  `ended` is called with the decision: `accepted`, `partly accepted` or `rejected`.
    """

    session: EngineSession
    host: FeatureHost
    open_overlay: Callable[[], AbstractAsyncContextManager[tuple[CommandEffect, Keep]]]
    tool: str
    title: str
    told: str
    ended: Ended
    seen: Sequence[str] | None = None

    async def parts(self) -> Sequence[EffectPart]:
        async with self.open_overlay() as (effect, _):
            self.seen = [each.diff for each in effect.ordered]
            return await with_tracked(effect.parts, await self.host.sandbox())

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Keep some units, or all with None, and record that in the session; return notes.

        Raises:
            SandboxError: a turn is running, files have changed since, or a patch no longer applies; nothing was kept.
        """
        async with self.open_overlay() as (effect, keep):
            if units is not None and self.seen != [each.diff for each in effect.ordered]:
                raise SandboxError("its files have changed since you opened the review", "Open the review again.")
            notes = await to_the_end(self._keep(effect, keep, units))
        await self.ended("accepted" if units is None else "partly accepted")
        return notes

    async def drop(self) -> None:
        await self.ended("rejected")

    async def _keep(self, effect: CommandEffect, keep: Keep, units: Collection[int] | None) -> Sequence[str]:
        if self.session.is_running:
            raise SandboxError("a turn is running and may change the same files", "Stop it, or wait for it to end.")
        checkpoints, call_id = (await self.host.sandbox()).checkpoints, f"{self.tool}_{secrets.token_hex(6)}"
        done = await keep(units)
        before, after = done.before, done.after or await checkpoints.snapshot()
        assert before is not None
        changes = await checkpoints.changes(before.id, after.id, effect.paths, is_now=True)
        files, kept = tuple(each.path for each in changes), effect.lines()
        result = "\n".join([self.told, *(kept if units is None else [kept_in_part(effect, units)])])
        for event in (
            events.ToolCallStarted(call_id=call_id, tool=self.tool, arguments={}, title=self.title, by="user"),
            events.CheckpointCreated(call_id=call_id, checkpoint=before.id, left_out=before.left_out),
            events.FilesChanged(call_id=call_id, files=files, changes=changes, before=before.id, after=after.id),
            events.ToolCallFinished(call_id=call_id, tool=self.tool, ok=True, result=result, elapsed_ms=0, summary="kept"),
        ):
            self.session.emit(event)
        return done.notes


@contextlib.asynccontextmanager
async def applied_patch(patch: Path, session: EngineSession, host: FeatureHost) -> AsyncIterator[tuple[CommandEffect, Keep]]:
    """Yield the changes of a patch, applied in an overlay, and what keeps them; the file stays."""
    data = await asyncio.to_thread(_read, patch)
    overlay = (await host.sandbox()).overlay(stays=True)
    try:
        await overlay.sandbox.write_file(_PATCH, data)
        ended = await overlay.sandbox.run_command(_APPLY)
        if ended.exit_code != 0:
            why = _conflicts(ended.output)
            raise SandboxError(f"it no longer applies: {why}", "Undo the other change first, or rerun the task.")
        effect = await overlay.effect()
        yield effect, lambda units: overlay.keep(effect, units, session.rules)
    finally:
        await overlay.close()


def _conflicts(output: str) -> str:
    """Return why a patch does not apply, from git's messages."""
    lines = [line.removeprefix("error: ") for line in output.strip().splitlines() if line.startswith("error: ")]
    failed = [line.removeprefix("patch failed: ") for line in lines if line.startswith("patch failed: ")]
    others = [line for line in lines if not line.startswith("patch failed: ") and not line.endswith(": patch does not apply")]
    found = [*(f"{place.rpartition(':')[0]} at line {place.rpartition(':')[2]}" for place in failed), *others]
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return sanitize_line("; ".join(found[:_MOST_NAMED]) or output.strip().partition("\n")[0]) + more


def _read(patch: Path) -> bytes:
    """Return the content of a patch; only of a regular file, as a cloned folder may have links."""
    try:
        data = read_plain(patch.parent, patch.name, MAX_UPLOAD_BYTES + 1)
    except NotPlain as error:
        raise SandboxError(f"{patch} cannot be read: {error}") from error
    if data is None:
        raise SandboxError(f"{patch} is missing", "Rerun the task: lmtui batch resume --retry-failed")
    return data
