"""Reviews of overlay changes, from an attempt or a patch; what the user keeps becomes a step of a session."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Sequence
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
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_PATCH, _MOST_NAMED = ".lmtui-review.patch", 5
_APPLY = f"git apply --whitespace=nowarn {_PATCH}; code=$?; rm -f {_PATCH}; exit $code"


async def keep_as_step(
    session: EngineSession,
    host: FeatureHost,
    effect: CommandEffect,
    units: Collection[int] | None,
    *,
    keep: Callable[[], Awaitable[KeptChanges]],
    about: tuple[str, str, str],
) -> Sequence[str]:
    """Keep changes and record that as a step of a session that can be undone; return notes.

    Args:
        session: takes the step; no turn may run in it.
        host: of the workspace.
        effect: the changes.
        units: which of them, all with None.
        keep: makes them real.
        about: the name of the tool, the title of the step, and what the model is told.

    Raises:
        SandboxError: a turn is running, or files have changed since; nothing was kept.
    """
    if session.is_running:
        raise SandboxError("a turn is running and may change the same files", "Stop it, or wait for it to end.")
    tool, title, told = about
    checkpoints, call_id = (await host.sandbox()).checkpoints, f"{tool}_{secrets.token_hex(6)}"
    done = await keep()
    before, after = done.before, done.after or await checkpoints.snapshot()
    assert before is not None
    changes = await checkpoints.changes(before.id, after.id, effect.paths, is_now=True)
    files, kept = tuple(each.path for each in changes), effect.lines()
    result = "\n".join([told, *(kept if units is None else [kept_in_part(effect, units)])])
    for event in (
        events.ToolCallStarted(call_id=call_id, tool=tool, arguments={}, title=title, by="user"),
        events.CheckpointCreated(call_id=call_id, checkpoint=before.id, left_out=before.left_out),
        events.FilesChanged(call_id=call_id, files=files, changes=changes, before=before.id, after=after.id),
        events.ToolCallFinished(call_id=call_id, tool=tool, ok=True, result=result, elapsed_ms=0, summary="kept"),
    ):
        session.emit(event)
    return done.notes


class PatchReview:
    """The changes of a patch, applied in an overlay; implements `core.sessions.EffectReview`.

    Args:
        patch: a patch file for git; it is not deleted.
        title: of the step.
        session: gets the step.
        host: of the workspace.
        ended: called with the decision: `accepted`, `partly accepted` or `rejected`.
    """

    def __init__(self, patch: Path, title: str, session: EngineSession, host: FeatureHost, ended: Ended) -> None:
        self._patch, self._title = patch, title
        self._session, self._host, self._ended = session, host, ended
        self._seen: list[str] | None = None

    async def parts(self) -> Sequence[EffectPart]:
        async with self._applied() as (_, effect):
            self._seen = [each.diff for each in effect.ordered]
            return await with_tracked(effect.parts, await self._host.sandbox())

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Keep some units, or all with None, and record that in the session; return notes.

        Raises:
            SandboxError: it does not apply to the current files; nothing was kept.
        """
        async with self._applied() as (overlay, effect):
            if units is not None and self._seen != [each.diff for each in effect.ordered]:
                raise SandboxError("its files have changed since you opened the review", "Open the review again.")

            async def keep() -> KeptChanges:
                return await overlay.keep(effect, units, self._session.rules)

            about = ("batch", self._title, f"The user kept these changes: {self._title}")
            notes = await to_the_end(keep_as_step(self._session, self._host, effect, units, keep=keep, about=about))
        await self._ended("accepted" if units is None else "partly accepted")
        return notes

    async def drop(self) -> None:
        await self._ended("rejected")

    @contextlib.asynccontextmanager
    async def _applied(self) -> AsyncIterator[tuple[WorkspaceOverlay[WorkspaceSandbox], CommandEffect]]:
        """Yield an overlay with the patch applied, and its effect."""
        data = await asyncio.to_thread(_read, self._patch)
        overlay = (await self._host.sandbox()).overlay(stays=True)
        try:
            await overlay.sandbox.write_file(_PATCH, data)
            ended = await overlay.sandbox.run_command(_APPLY)
            if ended.exit_code != 0:
                why = _conflicts(ended.output)
                raise SandboxError(f"it no longer applies: {why}", "Undo the other change first, or rerun the task.")
            yield overlay, await overlay.effect()
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
