"""What is claimed to be on the disk, looked at through the sandbox: nothing is believed, and nothing is guessed."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable

from lmtui.core.errors import SandboxError, SandboxUnavailable
from lmtui.core.ports import Sandbox

_MOST_ENTRIES = 10_000


def path_of(text: str) -> str:
    """Return a path relative to the workspace, empty for one that leads out of it."""
    normal = posixpath.normpath(text.strip().removeprefix("/workspace/")) if text.strip() else ""
    return "" if normal.startswith(("/", "..")) or normal == "." else normal


async def missing(sandbox: Sandbox, paths: Iterable[str]) -> list[str]:
    """Return those of the paths that are not there, in their order; a sandbox that cannot tell accuses nobody.

    Folders are listed once each, so that hundreds of files cost few calls.
    """
    wanted = {path: path_of(path) for path in dict.fromkeys(paths)}
    folders = dict.fromkeys(posixpath.dirname(normal) for normal in wanted.values() if normal)
    there: set[str] = set()
    for folder in folders:
        try:
            there.update(entry.path for entry in await sandbox.unmasked().list_directory(folder, 1, _MOST_ENTRIES))
        except SandboxUnavailable:
            return []
        except SandboxError:
            continue
    return [path for path, normal in wanted.items() if normal and normal not in there and not await _is_file(sandbox, normal)]


async def _is_file(sandbox: Sandbox, path: str) -> bool:
    """Tell whether a file is there that its folder's listing leaves out."""
    try:
        await sandbox.unmasked().read_file(path, 1)
    except SandboxError:
        return False
    return True
