"""Commands over a workspace that stays as it is: what they did is looked at first, then kept or dropped."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import shutil
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from lmtui.core.errors import FilesChangedSince, SandboxError
from lmtui.core.line_diff import hunk_spans, merge, split_lines, with_hunks
from lmtui.core.ports import Checkpoints, Sandbox, Snapshot
from lmtui.core.sanitize import sanitize_path
from lmtui.core.workspace import MAX_SHOWN_BYTES, CommandEffect, FileChange, FileChangeKind
from lmtui.paths import overlays_dir, patches_dir
from lmtui.sandbox import replies
from lmtui.sandbox.guest.effects import discard
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.spare_overlay import new_overlay_folder
from lmtui.sandbox.supervisor_client import Client, InstanceKind, to_the_end

V = TypeVar("V", bound=Sandbox)
_EFFECT_S = 190.0
_NOTE, _PATCH_NAME = "keep.json", "patch-name"
_MOST_PATCHES = 64
_MOST_MERGED = 200
_MERGED = "[{path} had changed in the meantime; both changes were merged]"
_LEAST_FREE_BYTES, _LOOK_S = 1 << 30, 0.5
_LITTLE_ROOM = "less than 1 GB is left on the disk of the overlay"
_FULL = f"it was stopped: {_LITTLE_ROOM}; nothing was kept"
_NOT_UNDONE = "steps in an overlay cannot be undone one by one; drop the overlay's changes instead"


class States(Checkpoints, Protocol):
    """What an overlay needs of the checkpoint store."""

    async def patch(self, before: str, after: str) -> bytes:
        """Return the difference of two states as `git apply` takes it."""

    async def remove_folders(self, folders: Sequence[str]) -> None:
        """Remove folders that have nothing in them any more, inner ones first."""

    async def set_modes(self, modes: Mapping[str, int]) -> None:
        """Give files their permission bits."""

    async def with_content(self, state: str, path: str, content: bytes) -> str:
        """Return a state that is as another, but for the content of one file."""

    async def with_entries(self, state: str, source: str, paths: Sequence[str]) -> str:
        """Return a state that is as another, but for some files, which are as `source` has them, if it has them."""


def free_bytes(folder: Path) -> int:
    """Return how much room there is on the disk of a folder."""
    return shutil.disk_usage(folder).free


def full_disk(workspace: Path) -> str:
    """Return an error if the disk has no space for overlays over a workspace, else an empty string.  Blocks (disk)."""
    folder = overlays_dir(workspace)
    free = free_bytes(next(each for each in (folder, *folder.parents) if each.exists()))
    return f"{_LITTLE_ROOM}s: {folder}" if free <= _LEAST_FREE_BYTES else ""


@asynccontextmanager
async def _watched(client: Client, folder: Path) -> AsyncIterator[None]:
    """End what runs in an overlay before it fills the disk: nobody was asked about it.

    Raises:
        SandboxError: that happened.
    """
    is_full = asyncio.Event()
    watching = asyncio.create_task(_end_when_full(client, folder, is_full))
    try:
        yield
    except SandboxError as error:
        if is_full.is_set():
            raise SandboxError(_FULL) from error
        raise
    finally:
        watching.cancel()


async def _end_when_full(client: Client, folder: Path, is_full: asyncio.Event) -> None:
    while not is_full.is_set():
        if await asyncio.to_thread(free_bytes, folder) <= _LEAST_FREE_BYTES:
            is_full.set()
            await client.close()
        await asyncio.sleep(_LOOK_S)


class OverlayInstances:
    """The supervisors of one overlay, each opened for one use: those that look see the overlay as it is at that moment.

    Args:
        pool: the supervisors of the workspace.
        folder: the overlay's.
        stays: commands and file tools share one that stays, with a private `/tmp`; else all overlays have the same `/tmp`.
    """

    def __init__(self, pool: SandboxPool, folder: Path, *, stays: bool) -> None:
        self._pool = pool
        self._stays = stays
        self.folder = folder
        self._began = self._ended = 0
        self._opening = asyncio.Lock()
        self._stack = AsyncExitStack()
        self._main: Client | None = None

    def version(self) -> int | None:
        """Return a number that stays the same while nothing writes to the overlay, None while something may."""
        return self._ended if self._ended == self._began else None

    @asynccontextmanager
    async def client(self, kind: InstanceKind, *, writes: bool = True) -> AsyncIterator[Client]:
        """Yield a supervisor of the workspace with the overlay over it; `writes` is False for read-only use.

        Raises:
            SandboxUnavailable: overlays cannot be made here.
        """
        if kind is not InstanceKind.MAIN or not writes:
            async with self._client(kind) as client:
                yield client
            return
        self._began += 1
        try:
            async with self._client(kind) as client:
                yield client
        finally:
            self._ended += 1

    @asynccontextmanager
    async def _client(self, kind: InstanceKind) -> AsyncIterator[Client]:
        if kind is not InstanceKind.MAIN or not self._stays:
            async with self._pool.overlay_client(kind, self.folder) as client, _watched(client, self.folder):
                yield client
            return
        async with self._opening:
            if self._main is None or not self._main.is_alive:
                await self._stack.aclose()
                self._main = await self._stack.enter_async_context(
                    self._pool.overlay_client(kind, self.folder, shares_scratch=False)
                )
                await self._stack.enter_async_context(_watched(self._main, self.folder))
        yield self._main

    async def close(self) -> None:
        """End the supervisor that stays."""
        async with self._opening:
            await self._stack.aclose()


class OverlayCheckpoints:
    """States of a workspace as an overlay shows it; implements `core.ports.Checkpoints`.

    A state is that of the real workspace when the first was kept, with what the overlay touched in it.
    """

    def __init__(self, instances: OverlayInstances, real: States) -> None:
        self._instances = instances
        self._real = real
        self._base = ""
        self._last: tuple[int, Snapshot] | None = None
        self.ignored, self.read = real.ignored, real.read

    async def snapshot(self) -> Snapshot:
        """Store the current state; return the last one if nothing was written since."""
        version = self._instances.version()
        if self._last is not None and self._last[0] == version:
            return self._last[1]
        self._base = self._base or (await self._real.snapshot()).id
        reply = await _looked(self._instances, self._base)
        found = Snapshot(reply.after, tuple(map(sanitize_path, reply.special)), reply.special_total)
        self._last = (version, found) if version is not None else None
        return found

    async def changes(
        self, before: str, after: str, paths: Sequence[str] = (), *, is_now: bool = False
    ) -> tuple[FileChange, ...]:
        """Return the difference between two states."""
        del is_now
        return await self._real.changes(before, after, paths)

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        """Refuse: an overlay is kept or dropped.

        Raises:
            SandboxError: always.
        """
        del source, paths, expected, over
        raise SandboxError(_NOT_UNDONE)


async def _looked(instances: OverlayInstances, base: str = "") -> replies.EffectReply:
    async with instances.client(InstanceKind.CHECKPOINT) as client:
        facts, _ = await client.call("checkpoint", {"action": "effect", "base": base}, limit_s=_EFFECT_S)
        return replies.parse(facts, replies.EffectReply)


class WorkspaceOverlay(Generic[V]):
    """One overlay over a workspace; implements `core.ports.CommandOverlay`.

    Args:
        pool: the supervisors of the workspace.
        real: the workspace as it is, in which kept files are made.
        checkpoints: its states.
        view: returns the workspace as the supervisors of an overlay show it.
        stays: the supervisor of its commands and file tools does, until it is closed.
        folder: of an overlay that a killed process left, None for a new one.
    """

    def __init__(
        self,
        pool: SandboxPool,
        real: Sandbox,
        checkpoints: States,
        view: Callable[[OverlayInstances, Checkpoints], V],
        *,
        stays: bool,
        folder: Path | None = None,
    ) -> None:
        self._pool = pool
        self._real = real
        self._checkpoints = checkpoints
        self._stays = stays
        self._folder = folder or (new_overlay_folder(pool.workspace) if stays else pool.instances.spare.take())
        self._instances = OverlayInstances(pool, self._folder, stays=stays)
        self.checkpoints = OverlayCheckpoints(self._instances, checkpoints)
        self.sandbox = view(self._instances, self.checkpoints)

    async def effect(self, seen: Mapping[str, str] | None = None) -> CommandEffect:
        """Return what would be different; commands that still run may go on.

        Raises:
            SandboxError: it cannot be seen, or more files were touched than can be followed.
        """
        if await asyncio.to_thread(_is_untouched, self._folder / "upper"):
            return CommandEffect("", "")
        reply = await _looked(self._instances)
        before = await self._as_seen(reply.before, seen) if seen else reply.before
        changes = await self._checkpoints.changes(before, reply.after)
        rest = reply.modes.keys() - {each.path for each in changes}
        changes += tuple(FileChange(path, FileChangeKind.MODIFIED) for path in sorted(rest))
        return CommandEffect(
            before=before,
            after=reply.after,
            changes=changes,
            special=tuple(map(sanitize_path, reply.special)),
            special_total=reply.special_total,
            made=tuple(reply.made),
            emptied=tuple(reply.emptied),
            removed=tuple(reply.removed),
            caches=reply.caches,
            renamed=reply.renamed,
            sizes=reply.sizes,
            modes=reply.modes,
        )

    async def _as_seen(self, before: str, seen: Mapping[str, str]) -> str:
        """Return a state that has files as they were in other states, if they were changed since."""
        now = (await self._checkpoints.snapshot()).id
        for state in dict.fromkeys(seen.values()):
            changed = await self._checkpoints.changes(state, now, [path for path in seen if seen[path] == state])
            if changed:
                before = await self._checkpoints.with_entries(before, state, [each.path for each in changed])
        return before

    async def keep(self, effect: CommandEffect, units: Collection[int] | None = None) -> tuple[str, ...]:
        """Make some units of an effect real (see `CommandEffect.chosen`); return notes on what was merged or quarantined.

        Raises:
            SandboxError: some were changed meanwhile in the same place (the text names them); nothing was changed then.
        """
        choice = effect.chosen(units)
        after = effect.after
        for path, hunks in choice.hunks.items():
            after = await self._with_hunks(effect, after, path, hunks)
        note: dict[str, Any] = {"paths": [*choice.paths], "before": effect.before, "after": after}  # Any: JSON
        note |= {"made": [*choice.made], "removed": [*choice.removed]}
        note["modes"] = {path: effect.modes[path] for path in choice.paths if path in effect.modes}
        client = partial(self._pool.client, InstanceKind.MAIN, is_for_one_file=True)
        began = await self._pool.workspace_guard.begin(await client(), keeps_copies=False)
        try:
            merged = await to_the_end(self._keep_merged(note))
        finally:
            findings = await to_the_end(self._pool.workspace_guard.end(client, began, keeps_copies=False))
        return (*findings.notes, *(_MERGED.format(path=sanitize_path(path)) for path in merged))

    async def _with_hunks(self, effect: CommandEffect, after: str, path: str, hunks: Collection[int]) -> str:
        """Return a state that has only some hunks of the change of a file."""
        sides = [await self._checkpoints.read(state, path) for state in (effect.before, effect.after)]
        old, new = (split_lines(decoded(side)) for side in sides)
        spans = hunk_spans(next(each.diff for each in effect.changes if each.path == path))
        return await self._checkpoints.with_content(after, path, encoded(with_hunks(old, new, spans, hunks)))

    async def _keep_merged(self, note: dict[str, Any]) -> list[str]:  # Any: JSON
        """Make an effect real, merged with what was changed meanwhile; return the files that were merged.

        What is to be done is written down first, so that the next start finishes what a killed process began.
        """
        merged: list[str] = []
        file = self._folder / _NOTE
        try:
            while True:
                await asyncio.to_thread(_write_note, file, note)
                try:
                    await _keep(self._real, self._checkpoints, note)
                except FilesChangedSince as error:
                    if len(merged) > _MOST_MERGED or not await self._merge(note, error.paths):
                        raise FilesChangedSince(_conflict(error.paths), error.paths) from error
                    merged += error.paths
                else:
                    file.unlink()
                    return list(dict.fromkeys(merged))
        except SandboxError:  # the user is told
            file.unlink(missing_ok=True)
            raise

    async def _merge(self, note: dict[str, Any], paths: Sequence[str]) -> bool:  # Any: JSON
        """Expect the files as they are now, and want the changes of both sides in them; False where that cannot be."""
        for path in paths:
            before, after = [await self._checkpoints.read(note[state], path) for state in ("before", "after")]
            try:
                now = (await self._real.read_file(path, MAX_SHOWN_BYTES)).data
            except SandboxError:
                return False
            if before in (None, now) or after is None or any(b"\0" in side for side in (before, after, now)):
                return False
            sides = [split_lines(decoded(side)) for side in (before, after, now)]
            text = await asyncio.to_thread(merge, *sides)
            if text is None:
                return False
            note["before"] = await self._checkpoints.with_content(note["before"], path, now)
            note["after"] = await self._checkpoints.with_content(note["after"], path, encoded(text))
        return True

    def outlive_kill(self, name: str) -> Path:
        """Let the next start save a patch of this name if this process is killed, and return its file."""
        (self._folder / _PATCH_NAME).write_text(name, encoding="utf-8")
        return self._patch_file(name)

    async def save_patch(self, effect: CommandEffect, name: str) -> Path:
        """Write an effect as a patch of this name, and return its file; the newest 64 patches stay."""
        patch = await self._checkpoints.patch(effect.before, effect.after)
        file = self._patch_file(name)
        await asyncio.to_thread(_write_patch, file, patch)
        return file

    def _patch_file(self, name: str) -> Path:
        return patches_dir(self._pool.workspace) / f"{name}.patch"

    async def refresh(self) -> None:
        """Show the workspace as it is now; what commands left in `/tmp` is gone."""
        await to_the_end(self._instances.close())

    async def close(self) -> None:
        """End what runs there and drop what was not kept; idempotent."""
        await to_the_end(self._instances.close())
        await to_the_end(asyncio.to_thread(discard, str(self._folder)))
        if not self._stays:
            await self._pool.instances.spare.give_back(self._folder)


def _is_untouched(upper: Path) -> bool:
    """Tell whether nothing was ever written to an overlay; False where that cannot be seen."""
    try:
        with os.scandir(upper) as entries:
            return next(entries, None) is None
    except OSError:
        return False


def _conflict(paths: Sequence[str]) -> str:
    names = ", ".join(map(sanitize_path, paths))
    return f"{names} {'was' if len(paths) == 1 else 'were'} changed meanwhile in the same place; nothing was kept"


def decoded(data: bytes | None) -> str:
    """Return the text of a file, such that `encoded` returns just its bytes."""
    return (data or b"").decode("utf-8", "surrogateescape")


def encoded(text: str) -> bytes:
    """Return the bytes of a text that was `decoded`."""
    return text.encode("utf-8", "surrogateescape")


def _write_patch(file: Path, patch: bytes) -> None:
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    file.write_bytes(patch)
    for old in sorted(file.parent.glob("*.patch"), key=lambda each: each.stat().st_mtime_ns)[:-_MOST_PATCHES]:
        old.unlink(missing_ok=True)


def _write_note(path: Path, note: Mapping[str, object]) -> None:
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)


async def _keep(real: Sandbox, states: States, note: Mapping[str, Any]) -> None:  # Any: JSON
    """Make an effect real; what is so already stays, so that it can be done again."""
    if note["paths"]:
        await states.restore(note["after"], note["paths"], expected=note["before"])
    if note["removed"]:
        await states.remove_folders(note["removed"])
    for folder in note["made"]:
        await real.make_directory(folder)
    if note["modes"]:
        await states.set_modes(note["modes"])


async def finish_interrupted(
    workspace: Path, real: Sandbox, states: States, adopt: Callable[[Path], WorkspaceOverlay[V]]
) -> str:
    """Finish keeping what processes that were killed had begun to keep, and drop their overlays; return what happened.

    What waited in the overlay of a try mode, which `adopt` opens again, is saved as a patch.
    """
    told: list[str] = []
    for old in await asyncio.to_thread(_abandoned, workspace):
        try:
            await _keep(real, states, json.loads((old / _NOTE).read_text(encoding="utf-8")))
            told.append("a command's changes were half kept when lmtui was killed; the rest is kept now")
        except FileNotFoundError:
            pass
        except (SandboxError, ValueError, KeyError, OSError) as error:
            told.append(f"a command's changes were half kept when lmtui was killed, and the rest cannot be kept: {error}")
        try:
            told += await _saved(adopt(old), (old / _PATCH_NAME).read_text(encoding="utf-8"))
        except FileNotFoundError:
            pass
        except (SandboxError, ValueError, OSError) as error:
            told.append(f"could not save the unmerged changes of a killed session: {error}")
        await asyncio.to_thread(discard, str(old))
    return "; ".join(told)


async def _saved(overlay: WorkspaceOverlay[V], name: str) -> list[str]:
    """Save what waits in an overlay as a patch, and return where it is."""
    effect = await overlay.effect()
    if effect.is_empty:
        return []
    file = await overlay.save_patch(effect, Path(name).name)
    missing = f"; not in it: {', '.join(map(sanitize_path, effect.special))}" if effect.special else ""
    return [f"the unmerged changes of a killed session are saved as a patch: git apply {shlex.quote(str(file))}{missing}"]


def _abandoned(workspace: Path) -> list[Path]:
    """Return the overlays of processes that are gone."""
    base = overlays_dir(workspace)
    found = list(base.iterdir()) if base.is_dir() else []
    return [old for old in found if not Path("/proc", old.name.partition("-")[0]).exists()]
