"""Checkpoints of one workspace, as the port says: each operation is a call to the lane that holds the store."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.errors import SandboxError
from lmtui.core.ports import Snapshot
from lmtui.core.sanitize import sanitize, sanitize_path
from lmtui.core.workspace import FileChange, FileChangeKind
from lmtui.sandbox import replies
from lmtui.sandbox.inside.protocol import ProtocolError
from lmtui.sandbox.link import InstanceKind
from lmtui.sandbox.pool import SandboxPool

_CALL_S = 190.0
_MAX_DIFF_CHARS = 65_536
_MAX_CHANGES = 20_000
_MAX_STORE_BYTES = 2 << 30
_MAX_AGE_S = 30 * 86_400.0
_KINDS = {"A": FileChangeKind.ADDED, "D": FileChangeKind.DELETED}


class SandboxCheckpoints:
    """Keeps and restores states; implements `core.ports.Checkpoints`."""

    def __init__(self, lanes: SandboxPool) -> None:
        self._lanes = lanes
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
        """Return what ignore rules keep out of every state, at most 50 names; folders end in `/`."""
        reply, _ = await self._call("ignored", replies.LeftOutReply)
        return tuple(map(sanitize_path, reply.left_out))

    async def changes(
        self, before: str, after: str, paths: Sequence[str] = (), *, is_now: bool = False
    ) -> tuple[FileChange, ...]:
        """Return the difference between two states, as far as asked for."""
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
                diff=sanitize(patch)[:_MAX_DIFF_CHARS] if patch else "",
                is_kept=status != "U",
            )
            for path, status, added, removed, patch in files
        )

    async def read(self, snapshot: str, path: str) -> bytes | None:
        """Return a file as a state has it, None where it does not."""
        reply, data = await self._call("content", replies.FoundReply, tree=snapshot, path=path)
        return data if reply.found else None

    async def restore(self, source: str, paths: Sequence[str], *, expected: str, over: Sequence[str] = ()) -> None:
        """Make files as `source` has them, if all of them are now as `expected` has them, or unkept and in `over`.

        Raises:
            SandboxError: some are not, named in the text; nothing was changed then.
        """
        fields = {"source": source, "expected": expected, "paths": list(paths), "over": list(over)}
        reply, _ = await self._call("restore", replies.RestoredReply, **fields)
        if reply.conflicts:
            names = ", ".join(map(sanitize_path, reply.conflicts))
            raise SandboxError(f"changed since by another hand: {names}; nothing was put back")

    async def _call(self, action: str, shape: type[replies.R], **fields: object) -> tuple[replies.R, bytes]:
        client = await self._lanes.client(InstanceKind.CHECKPOINT)
        try:
            facts, data = await client.call("checkpoint", {"action": action, **fields}, limit_s=_CALL_S)
        except ProtocolError as error:  # the names of the files do not fit into one request
            raise SandboxError("these are too many files at once", "Take back fewer steps, or single files.") from error
        return replies.parse(facts, shape), data
