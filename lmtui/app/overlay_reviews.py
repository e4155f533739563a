"""Changes in an overlay that the user reviews, and keeps as a step of a session: those of an attempt, or of a patch."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from pathlib import Path
from typing import Protocol

from lmtui.core import events
from lmtui.core.attempt_values import Attempt, AttemptState
from lmtui.core.errors import FilesChangedSince, SandboxError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.workspace import CommandEffect, EffectPart
from lmtui.engine.file_changes import to_the_end
from lmtui.engine.session import EngineSession
from lmtui.engine.trial import kept_in_part, with_tracked
from lmtui.features.service import Ended, FeatureHost
from lmtui.sandbox.overlays import WorkspaceOverlay
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_PATCH = ".lmtui-review.patch"
_APPLY = f"git apply --whitespace=nowarn {_PATCH}; code=$?; rm -f {_PATCH}; exit $code"


class ReviewedAttempts(Protocol):
    """What a review asks of the attempts that it is about."""

    task: str

    def listed(self) -> Sequence[Attempt]:
        """Return the attempts."""

    async def keep(self, attempt: Attempt, units: Collection[int] | None = None) -> Sequence[str]:
        """Keep the changes of an attempt."""

    async def drop(self, number: int) -> None:
        """Delete the changes of an attempt."""


async def keep_as_step(
    session: EngineSession,
    host: FeatureHost,
    effect: CommandEffect,
    units: Collection[int] | None,
    *,
    keep: Callable[[], Awaitable[Sequence[str]]],
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
    before = await checkpoints.snapshot()
    notes = await keep()
    after = await checkpoints.snapshot()
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
    return notes


class AttemptReview:
    """The effect of an attempt; implements `core.sessions.EffectReview`.  What is kept is a step of a session."""

    def __init__(
        self, attempts: ReviewedAttempts, attempt: Attempt, effect: CommandEffect, session: EngineSession, host: FeatureHost
    ) -> None:
        self._attempts, self._attempt, self._effect = attempts, attempt, effect
        self._session, self._host = session, host

    async def parts(self) -> Sequence[EffectPart]:
        """Return all parts, including those kept already: keeping them again changes nothing."""
        return await with_tracked(self._effect.parts, await self._host.sandbox())

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Keep some units, or all with None, and record that in the session; return notes."""
        number = self._attempt.number
        told = f"The user kept these changes of attempt {number} at this task: {self._attempts.task}"

        async def keep() -> Sequence[str]:
            try:
                return await self._attempts.keep(self._attempt, units)
            except FilesChangedSince as error:
                if other := self._other_in_use():
                    raise SandboxError(f"attempt {other} is in use: /undo it first") from error
                raise

        about = ("attempts", _use_title(number), told)
        return await to_the_end(keep_as_step(self._session, self._host, self._effect, units, keep=keep, about=about))

    def _other_in_use(self) -> int:
        """Return the number of another attempt whose changes were kept and not undone, 0 if there is none."""
        steps = self._session.changes.steps() if self._session.changes is not None else ()
        kept = {each.title for each in steps if not each.is_undone}
        used = [each.number for each in self._attempts.listed() if each.state is AttemptState.USED]
        return next((each for each in used if each != self._attempt.number and _use_title(each) in kept), 0)

    async def drop(self) -> None:
        """Discard the attempt."""
        await self._attempts.drop(self._attempt.number)


def _use_title(number: int) -> str:
    return f"/attempts use {number}"


class PatchReview:
    """The changes of a patch, applied in an overlay; implements `core.sessions.EffectReview`.

    Args:
        patch: a file in git's form; it stays.
        title: of the step that is kept.
        session: takes the step.
        host: of the workspace.
        ended: called with what became of it: `kept`, `kept in part` or `rejected`.
    """

    def __init__(self, patch: Path, title: str, session: EngineSession, host: FeatureHost, ended: Ended) -> None:
        self._patch, self._title = patch, title
        self._session, self._host, self._ended = session, host, ended
        self._overlay: WorkspaceOverlay[WorkspaceSandbox] | None = None
        self._effect: CommandEffect | None = None

    async def parts(self) -> Sequence[EffectPart]:
        """Return what the patch would change.

        Raises:
            SandboxError: it does not fit the files as they are now.
        """
        overlay, effect = await self._applied()
        del overlay
        return await with_tracked(effect.parts, await self._host.sandbox())

    async def keep(self, units: Collection[int] | None) -> Sequence[str]:
        """Keep some units, or all with None, and record that in the session; return notes."""
        overlay, effect = await self._applied()
        about = ("batch", self._title, f"The user kept these changes: {self._title}")

        async def keep() -> Sequence[str]:
            return await overlay.keep(effect, units)

        notes = await to_the_end(keep_as_step(self._session, self._host, effect, units, keep=keep, about=about))
        await self._close()
        await self._ended("kept" if units is None else "kept in part")
        return notes

    async def drop(self) -> None:
        """Drop the changes; the patch stays."""
        await self._close()
        await self._ended("rejected")

    async def _applied(self) -> tuple[WorkspaceOverlay[WorkspaceSandbox], CommandEffect]:
        if self._overlay is not None and self._effect is not None:
            return self._overlay, self._effect
        data = await asyncio.to_thread(_read, self._patch)
        async with contextlib.AsyncExitStack() as on_failure:
            overlay = (await self._host.sandbox()).overlay(stays=True)
            on_failure.push_async_callback(overlay.close)
            await overlay.sandbox.write_file(_PATCH, data)
            ended = await overlay.sandbox.run_command(_APPLY)
            if ended.exit_code != 0:
                why = sanitize_line(ended.output.strip().partition("\n")[0])
                raise SandboxError(f"its files have changed since: {why}", "Undo the other change first, or do the task again.")
            effect = await overlay.effect()
            on_failure.pop_all()
        self._overlay, self._effect = overlay, effect
        return overlay, effect

    async def _close(self) -> None:
        overlay, self._overlay, self._effect = self._overlay, None, None
        if overlay is not None:
            await overlay.close()


def _read(patch: Path) -> bytes:
    try:
        return patch.read_bytes()
    except OSError as error:
        raise SandboxError(f"{patch} cannot be read: {error.strerror}") from error
