"""States and listings of a workspace as the ports have them: what the instances answer is hostile, and checked here."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from lmtui.core.errors import FilesChangedSince, SandboxError
from lmtui.core.ports import Snapshot
from lmtui.core.sanitize import sanitize, sanitize_path
from lmtui.core.workspace import DirEntry, FileChange, FileChangeKind, GitState
from lmtui.sandbox import replies
from lmtui.sandbox.guest import beneath
from lmtui.sandbox.guest.listing import MAX_BYTES
from lmtui.sandbox.guest.protocol import ProtocolError
from lmtui.sandbox.host_paths import relative_path
from lmtui.sandbox.pool import SandboxPool
from lmtui.sandbox.supervisor_client import InstanceKind

_CALL_S = 190.0
_MAX_DIFF_CHARS = 65_536
_MAX_CHANGES = 20_000
_MAX_STORE_BYTES = 2 << 30
_MAX_AGE_S = 30 * 86_400.0
_LONE_RETURN = re.compile(r"\r(?!\n)")  # what follows it must not look like the head of a hunk
_KINDS = {"A": FileChangeKind.ADDED, "D": FileChangeKind.DELETED}


class SandboxCheckpoints:
    """Keeps and restores states; implements `core.ports.Checkpoints`."""

    def __init__(self, pool: SandboxPool) -> None:
        self._pool = pool
        self._is_pruned = False

    async def snapshot(self) -> Snapshot:
        """Keep the state of now; the first time also drop states that are too old, or too much for the store."""
        reply, _ = await self._call("snapshot", replies.SnapshotReply)
        dropped = 0
        if not self._is_pruned:
            self._is_pruned = True
            limits = {"max_bytes": _MAX_STORE_BYTES, "max_age_s": _MAX_AGE_S}
            dropped = (await self._call("prune", replies.CountReply, **limits))[0].count
        return Snapshot(reply.tree, tuple(map(sanitize_path, reply.left_out)), reply.left_out_total, dropped)

    async def ignored(self) -> tuple[str, ...]:
        reply, _ = await self._call("ignored", replies.LeftOutReply)
        return tuple(map(sanitize_path, reply.left_out))

    async def changes(
        self, before: str, after: str, paths: Sequence[str] = (), *, is_now: bool = False
    ) -> tuple[FileChange, ...]:
        if before == after:
            return ()
        fields = {"before": before, "after": after, "paths": list(paths), "is_now": is_now}
        reply, _ = await self._call("changes", replies.ChangesReply, **fields, skip=0)
        files = list(reply.files)
        while reply.files and len(files) < reply.total:
            if len(files) >= _MAX_CHANGES:
                raise SandboxError(f"{reply.total:,} files changed: more than {_MAX_CHANGES:,} are not followed")
            reply, _ = await self._call("changes", replies.ChangesReply, **fields, skip=len(files))
            files += reply.files
        return tuple(
            FileChange(
                path=path,
                kind=_KINDS.get(status, FileChangeKind.MODIFIED),
                added_lines=max(0, added),
                removed_lines=max(0, removed),
                diff=diff[:_MAX_DIFF_CHARS],
                is_kept=status != "U",
                is_cut=len(diff) > _MAX_DIFF_CHARS or (not diff and max(added, removed) > 0),
            )
            for path, status, added, removed, patch in files
            for diff in (sanitize(_LONE_RETURN.sub("␍", patch)),)
        )

    async def patch(self, before: str, after: str) -> bytes:
        """Return the difference of two states as `git apply` takes it."""
        return (await self._call("patch", replies.YesReply, before=before, after=after))[1]

    async def read(self, snapshot: str, path: str) -> bytes | None:
        reply, data = await self._call("content", replies.YesReply, tree=snapshot, path=path)
        return data if reply.is_so else None

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        await self._restored(source=source, expected=expected, paths=list(paths), over=list(over))

    async def finish_restoring(self, source: str, paths: Sequence[str], *, expected: str, since_ns: int) -> bool:
        """Do the rest of a restore that a killed process began; False where no file had been restored: none is now."""
        return await self._restored(source=source, expected=expected, paths=list(paths), since_ns=since_ns) > 0

    async def _restored(self, **fields: object) -> int:
        """Return how many of the files were as wanted before it."""
        reply, _ = await self._call("restore", replies.RestoredReply, **fields)
        if reply.conflicts:
            names = ", ".join(map(sanitize_path, reply.conflicts))
            text = f"changed in the meantime: {names}; nothing was changed"
            raise FilesChangedSince(text, tuple(reply.conflicts))
        return reply.begun

    async def with_content(self, state: str, path: str, content: bytes) -> str:
        """Return a state that is as another, but for the content of one file."""
        return (await self._call("with_content", replies.StateReply, content, base=state, path=path))[0].tree

    async def with_entries(self, state: str, source: str, paths: Sequence[str], late: Sequence[str]) -> str:
        """Return a state that is as another, but for some files, which are as `source` has them; see `effects.with_entries`."""
        fields = {"base": state, "source": source, "paths": list(paths), "late": list(late)}
        return (await self._call("with_entries", replies.StateReply, **fields))[0].tree

    async def remove_folders(self, folders: Sequence[str]) -> None:
        """Remove folders that have nothing in them any more, inner ones first."""
        await self._call("remove_folders", replies.RestoredReply, paths=list(folders))

    async def set_modes(self, modes: Mapping[str, int]) -> None:
        """Give files their permission bits."""
        await self._call("set_modes", replies.RestoredReply, modes=dict(modes))

    async def _call(
        self, action: str, shape: type[replies.R], content: bytes = b"", /, **fields: object
    ) -> tuple[replies.R, bytes]:
        client = await self._pool.client(InstanceKind.CHECKPOINT)
        try:
            return await client.ask(shape, "checkpoint", {"action": action, **fields}, content, limit_s=_CALL_S)
        except ProtocolError as error:  # the names of the files do not fit into one request
            raise SandboxError("these are too many files at once", "Take back fewer steps, or single files.") from error


_LIST_S = 30.0
_ENTRY = re.compile(r"([dflo])(\d{1,20}) (.+)", re.DOTALL | re.ASCII)
_LETTER_KINDS = {"d": "dir", "f": "file", "l": "link", "o": "other"}
_STATES = {"!!": GitState.IGNORED, "??": GitState.UNTRACKED}
_STATES |= dict.fromkeys(("DD", "AU", "UD", "UA", "DU", "AA", "UU"), GitState.CONFLICTED)
_LETTERS = {"R": GitState.RENAMED, "A": GitState.ADDED, "D": GitState.DELETED}


class SandboxListing:
    """Lists what is in a workspace, however much it is."""

    def __init__(self, pool: SandboxPool) -> None:
        self._pool = pool

    async def folder(self, path: str) -> Sequence[DirEntry]:
        """Return the entries of a folder, folders first; `.git` and `.lmagent` are left out."""
        folder = relative_path(path, self._pool.workspace).rstrip("/")
        _, data = await self._call("folder", path=folder, depth=0, max_entries=MAX_BYTES)
        prefix = f"{folder}/" if folder else ""  # as it was asked for: links may lead elsewhere
        found = await asyncio.to_thread(read_entries, data)
        return [replace(each, path=prefix + each.path.rpartition("/")[2]) for each in found]

    async def paths(self, max_paths: int) -> tuple[Sequence[str], bool]:
        """Return every file that ignore rules do not leave out, sorted, and whether there are more.

        A folder that is not a repository is walked without the names that are never meant; `.gitignore` holds there, too.
        """
        reply, data = await self._call("paths", max_paths=max_paths)
        found = await asyncio.to_thread(_paths, data)
        return found[:max_paths], reply.is_cut or len(found) > max_paths

    async def git_status(self) -> Mapping[str, GitState]:
        """Return what differs from the last commit and what is ignored; nothing without a repository."""
        _, data = await self._call("status")
        return await asyncio.to_thread(_states, data)

    async def _call(self, what: str, **fields: object) -> tuple[replies.ListingReply, bytes]:
        client = await self._pool.client(InstanceKind.VIEW)
        return await client.ask(replies.ListingReply, "listing", {"what": what, **fields}, limit_s=_LIST_S)


def _records(data: bytes) -> list[str]:
    """Return records; a name that is not UTF-8 keeps its bytes as surrogates, so that it can be opened."""
    if len(data) > MAX_BYTES:
        raise SandboxError("the sandbox sent a listing that is too long")
    return data.decode("utf-8", "surrogateescape").split("\0") if data else []


def read_entries(data: bytes) -> list[DirEntry]:
    """Return what a listing of a folder says: a letter for the kind, the size, and the path or the name of each entry."""
    found: list[DirEntry] = []
    for record in _records(data):
        entry = _ENTRY.fullmatch(record)
        if entry is None or not _is_inside(entry[3]):
            raise SandboxError("the sandbox sent a listing with a name that cannot be")
        found.append(DirEntry(entry[3], _LETTER_KINDS[entry[1]], int(entry[2])))
    return found


def _paths(data: bytes) -> list[str]:
    return sorted({path for path in _records(data) if _is_inside(path)})


def _states(data: bytes) -> dict[str, GitState]:
    return {path: state for path, state in _read_states(iter(_records(data))) if _is_inside(path)}


def _read_states(records: Iterator[str]) -> Iterator[tuple[str, GitState]]:
    """Read git's own form (git-status(1), porcelain format version 1 with `-z`): two letters, a space, a path."""
    for record in records:
        code, path = record[:2], record[3:].rstrip("/")
        if "R" in code or "C" in code:
            next(records, "")  # the name that it had
        by_letter = (state for letter, state in _LETTERS.items() if letter in code)
        yield path, _STATES.get(code) or next(by_letter, GitState.MODIFIED)


def _is_inside(path: str) -> bool:
    if not path or path[0] == "/" or path[-1] == "/":
        return False
    if path.isascii() and "/." not in path and path[0] != ".":
        return len(path) <= beneath.MAX_PATH_BYTES
    return ".." not in path.split("/") and not beneath.is_protected(path)
