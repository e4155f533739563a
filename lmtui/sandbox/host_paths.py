"""Paths as models and users write them, made relative to the workspace; and which folders can be a workspace at all."""

from __future__ import annotations

import fcntl
import os
import posixpath
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from lmtui.core.errors import SandboxError, SandboxUnavailable, UsageError
from lmtui.paths import MOUNT_POINT, SCRATCH, kept_dir
from lmtui.plain_files import forget_programs
from lmtui.sandbox.guest.effects import discard

LINK_INSIDE = "/opt/lmtui/link"


def scratch_parents(targets: Iterable[str]) -> list[str]:
    """Return the folders in the private file systems that have mounts below them.

    Each gets a read-only file own system: else a command could rename a parent of the workspace, and put another
    folder at its path.
    """
    found: dict[str, None] = {}
    for target in map(Path, targets):
        for base in map(Path, SCRATCH):
            if base in target.parents and target.parent != base:
                found[str(base / target.relative_to(base).parts[0])] = None
    return list(found)


def store_folder(workspace: Path) -> Path:
    """Make and return the folder of a workspace's checkpoints.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    return make_for_owner(kept_dir("checkpoints", workspace), workspace)


def make_for_owner(folder: Path, workspace: Path) -> Path:
    """Make and return a folder; who owns the workspace owns it, as instances run as its owner.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    with creating(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        owner = workspace.stat()
        if os.geteuid() == 0 and folder.stat().st_uid != owner.st_uid:
            os.chown(folder, owner.st_uid, owner.st_gid)
    return folder


@contextmanager
def creating(path: Path) -> Iterator[Path]:
    """Say what could not be created where that fails in a `with` block."""
    try:
        yield path
    except OSError as error:
        what, hint = f"could not create {path}: {error.strerror}", "Free disk space, or make sure that you can write there."
        raise SandboxUnavailable(what, hint) from error


_locks: dict[Path, int] = {}


def lock_folder(folder: Path) -> bool:
    """Mark a folder as in use by this process, with a locked file next to it; False where another process does.

    A lock ends with its process, whatever number that has: in containers all have the same.

    Raises:
        OSError: the file cannot be made.
    """
    fd = os.open(f"{folder}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(fd)
        return False
    _locks[folder] = fd
    return True


def remove_locked(folder: Path) -> None:
    """Remove a folder that this process has locked, if it is there, and the lock.  Blocks."""
    discard(str(folder))
    if (fd := _locks.pop(folder, None)) is not None:
        Path(f"{folder}.lock").unlink(missing_ok=True)
        os.close(fd)


def new_folder(base: Path, prefix: str = "") -> Path:
    """Make and return a folder that is this process's; those of processes that have ended are removed.  Blocks.

    Raises:
        OSError: it cannot be made.
    """
    base.mkdir(parents=True, exist_ok=True)
    for left in unused_folders(base, prefix):
        remove_locked(left)
    folder = base / f"{prefix}{secrets.token_hex(8)}"
    lock_folder(folder)
    folder.mkdir(mode=0o700)
    return folder


def unused_folders(base: Path, prefix: str = "") -> Iterator[Path]:
    """Lock and yield the folders in a folder whose process has ended, and remove locks without a folder.  Blocks."""
    found = list(base.glob(f"{prefix}*")) if base.is_dir() else []
    for folder in (each.with_suffix("") if each.suffix == ".lock" else each for each in found):
        with suppress(OSError):
            if folder not in _locks and lock_folder(folder):
                if folder.is_dir():
                    yield folder
                else:
                    remove_locked(folder)


def relative_path(path: str, workspace: Path) -> str:
    """Return a path relative to the workspace.  The real check is the supervisor's; this one gives early, clear answers.

    Raises:
        SandboxError: it is absolute and outside.
    """
    if not path.startswith("/"):
        return path[2:] if path.startswith("./") else path
    for root in (MOUNT_POINT, str(workspace)):
        if path == root:
            return ""
        if path.startswith(root.rstrip("/") + "/"):
            return path[len(root.rstrip("/")) :].lstrip("/")
    raise SandboxError(f"{path}: path is outside the workspace", "The user can add a folder: --add-dir DIR.")


SAVED_OUTPUT = re.compile(r"(/[^\0]*/lmtui-output-\w+)/([0-9a-f]{12}\.txt)")  # as `sandbox/guest/capture.py` names it


def locate(path: str, workspace: Path, added: Iterable[str]) -> tuple[str, str]:
    """Return the added folder that a path is in (empty: the workspace; or that of saved outputs), and the path relative to it.

    Raises:
        SandboxError: it is absolute, and in neither.
    """
    whole = posixpath.normpath(f"{workspace}/{path}") if path.startswith("../") else path
    for folder in sorted(added, key=len, reverse=True):
        if whole == folder or whole.startswith(f"{folder}/"):
            return folder, whole[len(folder) :].lstrip("/")
    saved = SAVED_OUTPUT.fullmatch(path)
    return (saved[1], saved[2]) if saved else ("", relative_path(path, workspace))


def check_workspace(path: Path) -> Path:
    """Return the resolved folder if it can be a workspace; from then on no folder in it is on this process's PATH.  Blocks.

    Raises:
        UsageError: it is missing, no folder, `/`, the home folder or above it, or cannot be written.
    """
    hint = "Choose a project folder with --workspace DIR."
    try:
        resolved = path.expanduser().resolve(strict=True)
    except (OSError, RuntimeError) as error:
        raise UsageError(f"the workspace {path} does not exist", hint) from error
    if not resolved.is_dir():
        raise UsageError(f"the workspace {resolved} is not a folder", hint)
    home = Path.home().resolve()
    if resolved == Path(resolved.anchor):
        raise UsageError("the workspace cannot be the whole file system (/)", hint)
    if resolved == home or resolved in home.parents:
        raise UsageError(f"the workspace cannot be the home folder or a folder above it ({resolved})", hint)
    if not os.access(resolved, os.W_OK | os.X_OK):
        raise UsageError(f"the workspace {resolved} cannot be written to", hint)
    if any((resolved / name).is_symlink() for name in (".git", ".lmagent")):
        raise UsageError(f"the workspace {resolved} has a .git or .lmagent that is a symbolic link", "Replace it by a folder.")
    forget_programs(resolved)
    return resolved
