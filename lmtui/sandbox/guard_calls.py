"""What the pool and the choice of a backend ask of the guard and of a new supervisor: the layout, the tools, the mounts."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.core.sanitize import sanitize_line
from lmtui.sandbox import replies
from lmtui.sandbox.backend import Backend
from lmtui.sandbox.images import DESCRIPTIONS, digest_of
from lmtui.sandbox.mount_layout import SandboxLayout, from_reply, read_only_in
from lmtui.sandbox.package_indexes import MARKER_BYTES
from lmtui.sandbox.project_tools import (
    MARKERS,
    ProjectTools,
    find_project_tools,
    with_added,
    with_allowed,
    with_repository,
)
from lmtui.sandbox.repository import find_repository
from lmtui.sandbox.supervisor_client import Client, InstanceKind
from lmtui.sandbox.toolchains import AddedFolder

_GUARD_S = 30.0
_READ_S = 10.0
_FREEZING_S = 3.0
_HISTORY_S = 3
_GIT_MEMORY_MB = 512
_TOO_MANY = "your rules deny more files than can be masked (300), or the workspace is too large to find them all"
_FEWER = "Deny whole folders instead, for example Read(secrets/**)."


@dataclass(slots=True)
class OutsideFolders:
    """Folders outside the workspace that commands use: those that settings add, and tools that the user allowed since."""

    added: tuple[AddedFolder, ...] = ()
    allowed: list[Path] = field(default_factory=list)

    @property
    def writable(self) -> list[str]:
        """Return the added folders that commands may change."""
        return [str(folder.path) for folder in self.added if folder.is_writable]


async def open_client(backend: Backend, kind: InstanceKind, layout: SandboxLayout) -> Client:
    """Start a supervisor, and look whether its mounts are those that were asked for.

    Raises:
        SandboxError: it does not start, or has other mounts; nothing of it runs then.
    """
    client = Client(await backend.open(kind, layout))
    try:
        await client.start()
        await check_mounts(client, kind, layout)
    except BaseException:
        await client.close()
        raise
    return client


async def look(guard: Client, masks: MaskExpressions, added: Sequence[str] = ()) -> SandboxLayout:
    """Return what to protect and mask now, in the workspace and in writable added folders.

    Raises:
        SandboxError: not all that a rule denies can be found or masked.
    """
    fields = {"action": "layout", "denied": masks.denied, "secret": masks.secret, "shown": masks.shown}
    layout = SandboxLayout()
    for folder in ("", *added):
        facts, _ = await guard.call("guard", fields | {"folder": folder}, limit_s=_GUARD_S)
        found = from_reply(replies.parse(facts, replies.LayoutReply), folder)
        layout = layout.with_added(found, folder) if folder else found
    if layout.is_cut and masks.denied:
        raise SandboxUnavailable(_TOO_MANY, _FEWER)
    return layout


async def find_tools(guard: Client, workspace: Path, outside: OutsideFolders, masks: MaskExpressions) -> ProjectTools:
    """Return the tools of a project; its files are read inside.

    Raises:
        SandboxError: the guard is gone.
        UsageError: an added folder is too large.
    """

    async def read(name: str) -> tuple[str, str | None]:
        facts, data = await guard.call("read", {"path": name, "max_bytes": MARKER_BYTES}, limit_s=_READ_S)
        return name, None if "error" in facts else data.decode("utf-8", "replace")

    read_ones = await asyncio.gather(*map(read, (*MARKERS, *DESCRIPTIONS)))
    texts = {name: text for name, text in read_ones if text is not None}
    finding = asyncio.to_thread(find_project_tools, workspace, texts), asyncio.to_thread(find_repository, workspace)
    tools = with_repository(*await asyncio.gather(*finding))
    tools = await asyncio.to_thread(with_allowed, tools, outside.allowed, workspace)
    tools = replace(tools, image_digest=digest_of(texts))
    return await asyncio.to_thread(with_added, tools, outside.added, masks) if outside.added else tools


async def check_mounts(client: Client, kind: InstanceKind, layout: SandboxLayout) -> None:
    """Compare from inside what is mounted with what the guard saw: a path may have been exchanged for a link meanwhile.

    Raises:
        SandboxUnavailable: a mask does not work, or something else was mounted.
    """
    fields = {"masked": [path for path, *_ in layout.masked] if kind.is_masked else [], "read_only": read_only_in(kind, layout)}
    if not fields["masked"] and not fields["read_only"]:
        return
    facts, _ = await client.call("compare", fields, limit_s=_GUARD_S)
    found = replies.parse(facts, replies.CompareReply)
    if found.visible:
        raise SandboxUnavailable(f"{sanitize_line(found.visible[0])} cannot be masked, so no command can run", "Try again.")
    if found.replaced:
        raise SandboxUnavailable(f"{sanitize_line(found.replaced[0])} was replaced while the sandbox started", "Try again.")


async def has_git(view: Client, paths: Sequence[str], *, is_denied: bool) -> bool:
    """Tell whether git tracks one of these paths, or a commit has one.

    If searching the history takes longer than 3 s, the answer is `is_denied`.
    """
    listing = {"arguments": ["ls-files", "-z", "--", *paths], "timeout_s": _HISTORY_S, "memory_mb": _GIT_MEMORY_MB}
    facts, data = await view.call("git", listing, limit_s=_GUARD_S)
    if replies.parse(facts, replies.RunReply).exit == 0 and data:
        return True
    history = {**listing, "arguments": ["rev-list", "--all", "--max-count=1", "--", *paths]}
    facts, data = await view.call("git", history, limit_s=_GUARD_S)
    ended = replies.parse(facts, replies.RunReply)
    return is_denied if ended.reason == "timeout" else ended.exit == 0 and bool(data)


async def has_secrets(view: Client, expression: str) -> bool:
    """Tell whether a repository that is larger than the workspace has or had files whose paths match an expression."""
    facts, _ = await view.call("listing", {"what": "secrets", "expression": expression}, limit_s=_GUARD_S)
    return replies.parse(facts, replies.ListingReply).is_cut


async def freeze(client: Client) -> None:
    """Stop every process of an instance; end it if its supervisor cannot do that."""
    try:
        facts, _ = await client.call("freeze", {}, limit_s=_FREEZING_S)
        is_frozen = replies.parse(facts, replies.FrozenReply).is_frozen
    except SandboxError:
        is_frozen = False
    if not is_frozen:
        await client.close()


async def thaw(clients: Sequence[Client]) -> None:
    """Let the processes of instances go on."""
    for client in clients:
        with contextlib.suppress(SandboxError):  # it has ended, with everything in it
            await client.call("thaw", {}, limit_s=_FREEZING_S)
