"""States of a workspace as the port has them: each call goes to the instance that keeps them, and its answer is checked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from lmtui.core.errors import FilesChangedSince, SandboxError
from lmtui.core.ports import Snapshot
from lmtui.core.sanitize import sanitize, sanitize_path
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.sandbox import replies
from lmtui.sandbox.guest.protocol import ProtocolError
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
            pruned, _ = await self._call("prune", replies.PrunedReply, **limits)
            dropped = pruned.dropped
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
        return (await self._call("patch", replies.FoundReply, before=before, after=after))[1]

    async def read(self, snapshot: str, path: str) -> bytes | None:
        reply, data = await self._call("content", replies.FoundReply, tree=snapshot, path=path)
        return data if reply.found else None

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
            facts, data = await client.call("checkpoint", {"action": action, **fields}, content, limit_s=_CALL_S)
        except ProtocolError as error:  # the names of the files do not fit into one request
            raise SandboxError("these are too many files at once", "Take back fewer steps, or single files.") from error
        return replies.parse(facts, shape), data
