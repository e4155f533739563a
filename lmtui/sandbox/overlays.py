"""Commands over a workspace that stays as it is: what they did is looked at first, then kept or dropped."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import shutil
import time
from collections.abc import AsyncIterator, Callable, Collection, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from lmtui.core.errors import FilesChangedSince, SandboxError
from lmtui.core.line_diff import hunk_spans, merge, split_lines, with_hunks
from lmtui.core.permissions.decide import decide, decide_all
from lmtui.core.permissions.path_patterns import is_secret_path
from lmtui.core.permissions.rules import Access, Mode, Rule, Verdict
from lmtui.core.ports import Checkpoints, KeptChanges, Sandbox, Snapshot
from lmtui.core.sanitize import sanitize_path
from lmtui.core.workspace import MAX_SHOWN_BYTES, CommandEffect, FileChange, FileChangeKind
from lmtui.paths import WORKSPACE_FOLDER, kept_dir, patches_dir, workspace_state_dir
from lmtui.sandbox import replies
from lmtui.sandbox.guest.files import READ_OUTSIDE, RUN_OUTSIDE, plain_name
from lmtui.sandbox.host_paths import remove_locked, unused_folders
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.pool import SandboxPool, new_overlay_folder
from lmtui.sandbox.project_tools import ENVIRONMENTS
from lmtui.sandbox.supervisor_client import Client, InstanceKind, to_the_end
from lmtui.sandbox.workspace_guard import files_are_newer
from lmtui.sandbox.workspace_states import SandboxCheckpoints

V = TypeVar("V", bound=Sandbox)
_EFFECT_S = 190.0
EMPTY_STATE = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"  # git's name for a tree without files (gitformat-pack)
_NOTE, _PATCH_NAME, _MOMENTS = "keep.json", "patch-name", "moments.json"
_MOST_PATCHES = 64
_MOST_MERGED = 200
_MERGED = "[{path} had changed in the meantime; both changes were merged]"
_LEAST_FREE_BYTES, _LOOK_S = 1 << 30, 0.5
_LITTLE_ROOM = "less than 1 GB is left on the disk of the overlay"
_FULL = f"it was stopped: {_LITTLE_ROOM}; nothing was kept"
_OUTPUTS, _MOST_OUTPUTS, _PIECE_CHARS = "outputs.json", 5_000, 20_000
# What builds, tests and coverage write again each time.
_BUILT = re.compile(
    r"(?:^|/)(?:(?:build|dist|target|obj|coverage|htmlcov|\.nyc_output|\.next|\.nuxt|\.hypothesis|\.[a-z]+[-_]cache)/"
    r"|\.coverage(?:\.[^/]*)?\Z|coverage\.\w+\Z|lcov\.info\Z|junit[^/]*\.xml\Z)"
)
_NEVER_OUTPUT = RUN_OUTSIDE | READ_OUTSIDE | {*ENVIRONMENTS, "node_modules", ".git", WORKSPACE_FOLDER}
_NOT_UNDONE = "steps in an overlay cannot be undone one by one; drop the overlay's changes instead"


def free_bytes(folder: Path) -> int:
    """Return how much room there is on the disk of a folder."""
    return shutil.disk_usage(folder).free


def full_disk(workspace: Path) -> str:
    """Return an error if the disk has no space for overlays over a workspace, else an empty string.  Blocks (disk)."""
    folder = kept_dir("overlays", workspace)
    free = free_bytes(next(each for each in (folder, *folder.parents) if each.exists()))
    return f"{_LITTLE_ROOM}s: {folder}" if free <= _LEAST_FREE_BYTES else ""


@asynccontextmanager
async def _watched(client: Client, folder: Path) -> AsyncIterator[None]:
    """End what runs in an overlay before it fills the disk: nobody was asked about it.

    Raises:
        SandboxError: that happened.
    """
    is_full = False

    async def watch() -> None:
        nonlocal is_full
        while not is_full:
            is_full = await asyncio.to_thread(free_bytes, folder) <= _LEAST_FREE_BYTES
            await (client.close() if is_full else asyncio.sleep(_LOOK_S))

    watching = asyncio.create_task(watch())
    try:
        yield
    except SandboxError as error:
        raise SandboxError(_FULL) if is_full else error from error
    finally:
        watching.cancel()


class Moment(NamedTuple):
    """A time by the clock of files (ns), and the state of the workspace then, empty where none can be kept."""

    at_ns: int
    state: str


class Moments:
    """When an overlay began, the moment that its next files are touched in, and those of the touched files.

    They are written down for the patch that outlives a kill.
    """

    def __init__(self, folder: Path, states: SandboxCheckpoints) -> None:
        self._file, self._states = folder / _MOMENTS, states
        self.birth: Moment | None = None
        self.now: Moment | None = None
        self.touched: dict[str, Moment] = {}

    async def note(self) -> Moment:
        """Note the workspace as it is now; what it changes in from now on has a later time."""
        began_ns = time.time_ns()  # some file systems take times from this clock, others from the one that lags behind
        await files_are_newer(began_ns)
        state = ""
        with suppress(SandboxError):  # then no file that is changed meanwhile can be merged
            state = (await self._states.snapshot()).id
        self.now = Moment(began_ns, state)
        self.birth = self.birth or self.now
        return self.now

    def write(self) -> None:
        """Note for the next start when the overlay began, and when the files were touched."""
        assert self.birth is not None
        _write_note(self._file, {"birth": self.birth, "touched": self.touched})

    def read(self) -> None:
        """Take what a process that was killed had noted; without a note every file counts as changed since."""
        self.now = self.birth = Moment(0, "")
        with suppress(TypeError, KeyError):
            note = _read_note(self._file)
            self.birth = Moment(*note["birth"])
            self.touched = {path: Moment(*each) for path, each in note["touched"].items()}


class OverlayInstances:
    """The supervisors of one overlay, each opened for one use: those that look see the overlay as it is at that moment.

    Where one `stays`, commands and file tools share it, with a private `/tmp`; else all overlays have the same `/tmp`.
    """

    def __init__(self, pool: SandboxPool, moments: Moments, folder: Path, *, stays: bool) -> None:
        self._pool, self._moments, self.folder, self._stays = pool, moments, folder, stays
        self._noting, self._opening = asyncio.Lock(), asyncio.Lock()
        self._layout = SandboxLayout()
        self._began = self._ended = self._running = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._stack = AsyncExitStack()
        self._main: Client | None = None

    def version(self) -> int | None:
        """Return a number that stays the same while nothing writes to the overlay, None while something may."""
        return self._ended if self._ended == self._began else None

    @asynccontextmanager
    async def client(self, kind: InstanceKind, *, writes: bool = True, is_fresh: bool = False) -> AsyncIterator[Client]:
        """Yield a supervisor of the workspace with the overlay over it; if it `is_fresh`, its home and `/tmp` are new.

        Raises:
            SandboxUnavailable: overlays cannot be made here.
        """
        async with self._noting:
            if self._moments.now is None:
                await self._moments.note()
                self._moments.write()
        writes = writes and kind is InstanceKind.MAIN
        self._began += writes
        try:
            async with self._client(kind, is_fresh=is_fresh and writes) as client:
                yield client
        finally:
            self._ended += writes

    @asynccontextmanager
    async def _client(self, kind: InstanceKind, *, is_fresh: bool) -> AsyncIterator[Client]:
        if kind is not InstanceKind.MAIN or not self._stays:
            layout = await self._pool.overlay_layout(kind, self.folder, shares_scratch=not is_fresh)
            opened = self._pool.overlay_client(kind, layout)
            async with opened as client, _watched(client, self.folder):
                yield client
            return
        async with self._opening:
            wanted = await self._pool.overlay_layout(kind, self.folder, shares_scratch=False)
            is_covered = self._main is not None and self._main.is_alive and self._layout.covers(wanted, kind)
            if not is_covered or is_fresh:
                await self._idle.wait()  # no command ends because another needs a new supervisor
                await self._stack.aclose()
                opened = self._pool.overlay_client(kind, wanted)
                self._main, self._layout = await self._stack.enter_async_context(opened), wanted
                await self._stack.enter_async_context(_watched(self._main, self.folder))
            self._running += 1
            self._idle.clear()
        assert self._main is not None
        try:
            yield self._main
        finally:
            self._running -= 1
            if not self._running:
                self._idle.set()

    async def refresh(self) -> None:
        """End the supervisor that stays once nothing runs in it; the next call opens a new one."""
        async with self._opening:
            await self._idle.wait()
            await to_the_end(self._stack.aclose())

    async def close(self) -> None:
        """End the supervisor that stays, and what runs in it."""
        if self._running and self._main is not None:
            await self._main.close()
        async with self._opening:
            await self._stack.aclose()


class OverlayCheckpoints:
    """SandboxCheckpoints of a workspace as an overlay shows it; implements `core.ports.Checkpoints`.

    A state is that of the real workspace when the first was kept, with what the overlay touched in it.
    """

    def __init__(self, instances: OverlayInstances, real: SandboxCheckpoints) -> None:
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
        del is_now
        return await self._real.changes(before, after, paths)

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        """Raise `SandboxError`: an overlay is kept or dropped."""
        del source, paths, expected, over
        raise SandboxError(_NOT_UNDONE)


async def _looked(instances: OverlayInstances, base: str = "", since_ns: int = 0) -> replies.EffectReply:
    async with instances.client(InstanceKind.CHECKPOINT) as client:
        fields = {"action": "effect", "base": base, "since_ns": since_ns}
        return (await client.ask(replies.EffectReply, "checkpoint", fields, limit_s=_EFFECT_S))[0]


class WorkspaceOverlay(Generic[V]):
    """One overlay over a workspace; implements `core.ports.CommandOverlay`.

    Args:
        pool: the supervisors of the workspace.
        real: the workspace as it is, in which kept files are made; `checkpoints` are its states.
        view: returns the workspace as the supervisors of an overlay show it.
        stays: the supervisor of its commands and file tools does, until it is closed.
        folder: of an overlay that a killed process left, None for a new one.
    """

    def __init__(
        self,
        pool: SandboxPool,
        real: Sandbox,
        checkpoints: SandboxCheckpoints,
        view: Callable[[OverlayInstances, Checkpoints], V],
        *,
        stays: bool,
        folder: Path | None = None,
    ) -> None:
        self._pool, self._real, self._checkpoints = pool, real, checkpoints
        self._folder = folder or new_overlay_folder(pool.workspace)
        self._moments = Moments(self._folder, checkpoints)
        self._instances = OverlayInstances(pool, self._moments, self._folder, stays=stays)
        if folder is not None:
            self._moments.read()
        self.checkpoints = OverlayCheckpoints(self._instances, checkpoints)
        self.sandbox = view(self._instances, self.checkpoints)

    async def begin_call(self) -> None:
        before = self._moments.now
        now = await self._moments.note()
        if before is not None and before.state != now.state:  # what is seen of a changed lower file is not certain
            await self.refresh()

    def note_touched(self, paths: Collection[str]) -> None:
        if self._moments.now is not None:
            self._moments.touched = dict.fromkeys(paths, self._moments.now) | self._moments.touched
            self._moments.write()

    async def effect(self) -> CommandEffect:
        moment, touched = self._moments.birth, self._moments.touched
        if moment is None or await asyncio.to_thread(_is_untouched, self._folder / "upper"):
            return CommandEffect("", "")
        reply = await _looked(self._instances, since_ns=min(each.at_ns for each in (moment, *touched.values())))
        late = [path for path, at in reply.late.items() if at > touched.get(path, moment).at_ns]
        before, changes, lost = await self._as_seen(reply, moment, late)
        modes = {path: mode for path, mode in reply.modes.items() if path not in late}
        lost += [f"{path} (mode {mode:o})" for path, mode in reply.modes.items() if path in late]
        changes += tuple(
            FileChange(path, FileChangeKind.MODIFIED) for path in sorted(modes.keys() - {each.path for each in changes})
        )
        return CommandEffect(
            before=before,
            after=reply.after,
            changes=changes,
            special=tuple(map(sanitize_path, (*reply.special, *lost))),
            special_total=reply.special_total + len(lost),
            made=tuple(reply.made),
            emptied=tuple(reply.emptied),
            removed=tuple(reply.removed),
            caches=reply.caches,
            renamed=reply.renamed,
            sizes=reply.sizes,
            modes=modes,
        )

    async def _as_seen(
        self, reply: replies.EffectReply, birth: Moment, late: Sequence[str]
    ) -> tuple[str, tuple[FileChange, ...], list[str]]:
        """Return the state before, what is different from it, and the deleted files that no state has: files are as they were
        when they were touched.

        One that no state has, as git ignores it, is as it is now; or if that is `late`, it is not in the state before: then
        nothing can be kept at its place.
        """
        before = reply.before
        found = await self._checkpoints.changes(before, reply.after)
        moments = {each.path: self._moments.touched.get(each.path, birth) for each in found}
        for moment in set(moments.values()):
            of_moment = [path for path in moments if moments[path] == moment]
            before = await self._checkpoints.with_entries(before, moment.state or EMPTY_STATE, of_moment, late)
        changes = found if before == reply.before else await self._checkpoints.changes(before, reply.after)
        deleted = {each.path for each in found if each.kind is FileChangeKind.DELETED}
        return before, changes, sorted(deleted.difference(each.path for each in changes))

    async def keep(self, effect: CommandEffect, units: Collection[int] | None, rules: Sequence[Rule]) -> KeptChanges:
        choice = effect.chosen(units)
        decision = decide_all("write", Access.WRITE, (*choice.paths, *choice.made, *choice.removed), Mode.AUTO, tuple(rules))
        if decision.verdict is Verdict.DENY:
            raise SandboxError(f"{decision.why}; nothing was kept")
        after = effect.after
        for path, hunks in choice.hunks.items():
            after = await self._with_hunks(effect, after, path, hunks)
        note: dict[str, Any] = {"paths": [*choice.paths], "before": effect.before, "after": after}  # Any: JSON
        note |= {"made": [*choice.made], "removed": [*choice.removed]}
        note["modes"] = {path: effect.modes[path] for path in choice.paths if path in effect.modes}
        before = await self._checkpoints.snapshot()
        began = await self._pool.workspace_guard.begin()
        try:
            merged = await to_the_end(self._keep_merged(note))
        finally:
            findings = await to_the_end(self._pool.workspace_guard.end(began))
        moment, paths = await self._moments.note(), choice.paths
        with suppress(SandboxError):  # what somebody changed since is not in it
            state = moment.state and await self._checkpoints.with_entries(moment.state, note["after"], paths, paths)
            moment = moment._replace(state=state)
        self._moments.touched.update(dict.fromkeys(choice.paths, moment))
        self._moments.write()
        notes = (*findings.notes, *(_MERGED.format(path=sanitize_path(path)) for path in merged))
        return KeptChanges(before, Snapshot(moment.state) if moment.state else None, notes)

    async def keep_outputs(self, effect: CommandEffect, rules: Sequence[Rule]) -> tuple[CommandEffect, Sequence[str]]:
        folders = (*effect.made, *effect.removed)
        wanted = [path for path in (*effect.paths, *folders, *effect.special) if _may_be_output(path, rules)]
        ignored = await self._ignored([f"{path}/" if path in folders else path for path in wanted])
        file = workspace_state_dir(self._pool.workspace) / _OUTPUTS
        known = (await asyncio.to_thread(_read_note, file)).get("paths", []) if ignored else []
        of_kind = {kind: {each.path for each in effect.changes if each.kind is kind} for kind in FileChangeKind}
        free, deleted = {*known, *of_kind[FileChangeKind.ADDED], *folders, *effect.special}, of_kind[FileChangeKind.DELETED]
        free |= {path for path in ignored - deleted if _BUILT.search(path)}
        outputs, rest = effect.split(ignored & free)
        if outputs.is_empty:
            return effect, ()
        notes = [f"[cannot be kept: {', '.join(outputs.special)}]"] if outputs.special else []
        if outputs.can_keep:
            try:
                notes += (await self.keep(outputs, None, rules)).notes
            except SandboxError as error:
                return rest, (*notes, f"[{error.full_text()}]")
            now = [path for path in dict.fromkeys((*known, *outputs.paths)) if path not in deleted]
            await asyncio.to_thread(_write_note, file, {"paths": now[-_MOST_OUTPUTS:]})
        return rest, notes

    async def _ignored(self, paths: Sequence[str]) -> set[str]:
        """Return those of the paths (folders end in `/`) that git ignores in the workspace as it is, and does not track.

        Git quotes odd names, so that these count as not ignored.
        """
        found: set[str] = set()
        piece: list[str] = []
        for path in (*paths, ""):
            if piece and (not path or sum(map(len, piece)) > _PIECE_CHARS):
                listed = await self._real.run_git(["check-ignore", "--", *piece])
                found.update(listed.data.decode("utf-8", "replace").split("\n") if not listed.exit_code else ())
                piece = []
            piece.append(f"./{path}")  # a leading colon means something to git
        return {path.rstrip("/") for path in paths if f"./{path}" in found}

    async def _with_hunks(self, effect: CommandEffect, after: str, path: str, hunks: Collection[int]) -> str:
        """Return a state that has only some hunks of the change of a file."""
        sides = [await self._checkpoints.read(state, path) for state in (effect.before, effect.after)]
        old, new = (split_lines(decoded(side)) for side in sides)
        spans = hunk_spans(next(each.diff for each in effect.changes if each.path == path))
        return await self._checkpoints.with_content(
            after, path, with_hunks(old, new, spans, hunks).encode("utf-8", "surrogateescape")
        )

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
                        verb = "was" if len(error.paths) == 1 else "were"
                        why = f"{', '.join(map(sanitize_path, error.paths))} {verb} changed meanwhile in the same place"
                        raise FilesChangedSince(f"{why}; nothing was kept", error.paths) from error
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
            note["after"] = await self._checkpoints.with_content(note["after"], path, text.encode("utf-8", "surrogateescape"))
        return True

    def outlive_kill(self, name: str) -> Path:
        (self._folder / _PATCH_NAME).write_text(name, encoding="utf-8")
        return patches_dir(self._pool.workspace) / f"{name}.patch"

    async def save_patch(self, effect: CommandEffect, name: str) -> Path:
        return await _save_patch(self._pool.workspace, self._checkpoints, name, effect.before, effect.after)

    async def refresh(self) -> None:
        await self._instances.refresh()

    async def close(self) -> None:
        await to_the_end(self._instances.close())
        await to_the_end(asyncio.to_thread(remove_locked, self._folder))


def _may_be_output(path: str, rules: Sequence[Rule]) -> bool:
    """Tell whether a file may be kept unasked if git ignores it: no rule is about it, and nobody runs, obeys or hides it."""
    parts = [plain_name(part) for part in path.split("/") if part]
    is_special = not _NEVER_OUTPUT.isdisjoint(parts) or is_secret_path(path) or is_secret_path(parts[-1])
    return not is_special and decide("write", Access.WRITE, path, Mode.AUTO, tuple(rules)).verdict is Verdict.ALLOW


def _read_note(file: Path) -> dict[str, Any]:  # Any: JSON
    """Return what `_write_note` wrote; nothing where that cannot be read."""
    with suppress(OSError, ValueError, TypeError):
        return dict(json.loads(file.read_text(encoding="utf-8")))
    return {}


def _is_untouched(upper: Path) -> bool:
    """Tell whether nothing was ever written to an overlay; False where that cannot be seen."""
    with suppress(OSError):
        return not any(upper.iterdir())
    return False


def decoded(data: bytes | None) -> str:
    """Return the text of a file; encoded in the same way it is just its bytes."""
    return (data or b"").decode("utf-8", "surrogateescape")


async def _save_patch(workspace: Path, states: SandboxCheckpoints, name: str, before: str, after: str) -> Path:
    patch, file = await states.patch(before, after), patches_dir(workspace) / f"{name}.patch"
    file.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    await asyncio.to_thread(file.write_bytes, patch)
    for old in sorted(file.parent.glob("*.patch"), key=lambda each: each.stat().st_mtime_ns)[:-_MOST_PATCHES]:
        old.unlink(missing_ok=True)
    return file


def _write_note(path: Path, note: Mapping[str, object]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    draft = path.with_suffix(".new")
    draft.write_text(json.dumps(note), encoding="utf-8")
    draft.replace(path)


async def _keep(real: Sandbox, states: SandboxCheckpoints, note: Mapping[str, Any]) -> None:  # Any: JSON
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
    workspace: Path, real: Sandbox, states: SandboxCheckpoints, adopt: Callable[[Path], WorkspaceOverlay[V]]
) -> str:
    """Finish keeping what processes that were killed had begun to keep, and drop their overlays; return what happened.

    What waited in the overlay of a try mode, which `adopt` opens again, is saved as a patch.
    """
    told: list[str] = []
    for old in await asyncio.to_thread(list, unused_folders(kept_dir("overlays", workspace))):
        note: dict[str, Any] = {}  # Any: JSON
        try:
            note = json.loads((old / _NOTE).read_text(encoding="utf-8"))
            again = {"expected": note["before"], "since_ns": (old / _NOTE).stat().st_mtime_ns}
            what = "not kept: lmtui was killed"  # none of it was, or all was undone since
            if not note["paths"] or await states.finish_restoring(note["after"], note["paths"], **again):
                await _keep(real, states, note)
                what = "half kept when lmtui was killed; the rest is kept now"
            told.append(f"a command's changes were {what}")
        except FileNotFoundError:
            pass
        except (SandboxError, ValueError, KeyError, OSError) as error:
            told.append(f"a command's changes were half kept when lmtui was killed, and the rest cannot be kept: {error}")
            with suppress(SandboxError, OSError, KeyError):
                file = await _save_patch(workspace, states, f"half-kept-{old.name}", note["before"], note["after"])
                told.append(f"all of them are saved as a patch: {file}")
        try:
            name, overlay = (old / _PATCH_NAME).read_text(encoding="utf-8"), adopt(old)
            if not (effect := await overlay.effect()).is_empty:
                file = await overlay.save_patch(effect, Path(name).name)
                missing = f"; not in it: {', '.join(map(sanitize_path, effect.special))}" if effect.special else ""
                saved = "the unmerged changes of a killed session are saved as a patch"
                told.append(f"{saved}: git apply {shlex.quote(str(file))}{missing}")
        except FileNotFoundError:
            pass
        except (SandboxError, ValueError, OSError) as error:
            told.append(f"could not save the unmerged changes of a killed session: {error}")
        await asyncio.to_thread(remove_locked, old)
    return "; ".join(told)
