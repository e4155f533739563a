"""Where things go that a command made and that programs outside would run: `.lmagent/quarantine`, under a name of its own.

Works on the host, on paths that a supervisor named: each component is opened without following links.  Blocks.
"""

from __future__ import annotations

import os
import stat
import time
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import SandboxError
from lmtui.paths import workspace_dir

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40


def set_aside(workspace: Path, path: bytes) -> str:
    """Move `path` (relative to the workspace) away and return where to, relative to the workspace; nothing if it is gone.

    Raises:
        SandboxError: it cannot be moved; the text says what the user should look at.
    """
    parent, _, name = path.rpartition(b"/")
    shown = clean_line(path.decode("utf-8", "replace"))
    label = "".join(char if char.isalnum() and char.isascii() else "-" for char in name.decode("utf-8", "replace")).strip("-")
    target = f"{label[:_MAX_NAME] or 'unnamed'}-{time.strftime('%Y%m%d-%H%M%S')}-{time.time_ns() % 1_000_000_000:09d}"
    folder = workspace_dir(workspace) / "quarantine"
    fds: list[int] = []
    try:
        folder.mkdir(exist_ok=True)
        fds.append(os.open(folder, _FOLDER))
        fds.append(_open_folder(workspace, parent))
        _move(fds[1], name, fds[0], target)
    except FileNotFoundError:
        return ""
    except OSError as error:
        what = f"a command made {shown}, and it could not be set aside: {error.strerror}"
        raise SandboxError(what, "Look at it before you run git there or open the folder in an editor.") from error
    finally:
        for fd in fds:
            os.close(fd)
    return str((folder / target).relative_to(workspace))


def _open_folder(workspace: Path, path: bytes) -> int:
    here = os.open(workspace, _FOLDER)
    for part in path.split(b"/") if path else ():
        try:
            inner = os.open(part, _FOLDER, dir_fd=here)
        finally:
            os.close(here)
        here = inner
    return here


def _move(parent: int, name: bytes, folder: int, target: str) -> None:
    try:
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)
    except PermissionError:  # its mode, or its folder's, forbids it; who made it could have set that
        _open_up(parent)
        if stat.S_ISDIR(os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode):
            inner = os.open(name, _FOLDER, dir_fd=parent)
            try:
                _open_up(inner)
            finally:
                os.close(inner)
        os.rename(name, target, src_dir_fd=parent, dst_dir_fd=folder)


def _open_up(fd: int) -> None:
    Path(f"/proc/self/fd/{fd}").chmod(stat.S_IMODE(os.fstat(fd).st_mode) | 0o700)
