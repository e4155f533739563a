"""Where things go that a command made and that programs outside would run: `.lmagent/quarantine`, packed.

Works on the host, on paths that a supervisor named: each component is opened without following links.  Blocks.
"""

from __future__ import annotations

import os
import shutil
import stat
import tarfile
import time
from pathlib import Path

from lmtui.core.clean import clean_line
from lmtui.core.errors import SandboxError
from lmtui.paths import workspace_dir

_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MAX_NAME = 40
_MAX_PACKED_BYTES = 64 << 20
_MAX_PACKED_FILES = 20_000


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
        packed = _packed(folder / target)
    except FileNotFoundError:
        return ""
    except OSError as error:
        what = f"a command made {shown}, and it could not be set aside: {error.strerror}"
        raise SandboxError(what, "Look at it before you run git there or open the folder in an editor.") from error
    finally:
        for fd in fds:
            os.close(fd)
    return str(packed.relative_to(workspace))


def _packed(path: Path) -> Path:
    """Turn what was moved into an archive; what is too large stays as it is."""
    archive = path.with_name(f"{path.name}.tar.gz")
    try:
        if _size_bytes(path) > _MAX_PACKED_BYTES:
            return path
        with tarfile.open(archive, "x:gz", compresslevel=1, format=tarfile.PAX_FORMAT) as file:
            file.add(path, arcname=path.name)
        archive.chmod(0o600)
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()
    except (OSError, tarfile.TarError):
        archive.unlink(missing_ok=True)
        return path
    return archive


def _size_bytes(path: Path) -> int:
    """Return how much there is, making folders readable on the way."""
    total, left = path.lstat().st_size, _MAX_PACKED_FILES
    if stat.S_ISDIR(path.lstat().st_mode):
        path.chmod(0o700)
    for folder, inner, names in os.walk(path):
        for name in inner:
            if not Path(folder, name).is_symlink():
                Path(folder, name).chmod(0o700)
        for name in names:
            if stat.S_ISREG(Path(folder, name).lstat().st_mode):
                Path(folder, name).chmod(0o600)
        total += sum(Path(folder, name).lstat().st_size for name in names)
        left -= len(names)
        if left < 0 or total > _MAX_PACKED_BYTES:
            return _MAX_PACKED_BYTES + 1
    return total


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
