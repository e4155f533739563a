"""The mounts over the workspace in an instance: read-only paths and masked paths.

The paths come from the guard (`guest/guard.py`), which walks the workspace from inside; nothing here looks at it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.permissions.rules import MaskExpressions
from lmtui.paths import WORKSPACE_FOLDER, state_dir, workspace_dir
from lmtui.plain_files import is_plain_folder, own_folder
from lmtui.sandbox import replies
from lmtui.sandbox.host_paths import creating
from lmtui.sandbox.supervisor_client import InstanceKind

# lmtui's own folders that no command reads: what was set aside, and logs, which hold what was read by permission.
_OWN = ("quarantine", "sessions")


NO_RULES = MaskExpressions()


@dataclass(frozen=True, slots=True)
class SandboxLayout:
    """The paths to protect and to mask now.

    `read_only` are paths with device and inode.  `masked` are paths with whether each is a folder, and its inode (a file that
    replaces another needs its own mask); those that a rule denies are in `denied` too.  `objects` is the folder of git's
    objects; with `hides_objects` it is masked as well, because it holds a masked file.  `is_cut`: not everything was seen, or
    there is more than can be masked.  `stamp` changes when git's own files do.  Paths in writable added folders are whole
    paths; an instance that does not show these folders has no `has_added`.  `overlay` is the folder of an overlay over the
    workspace, with `upper` and `work` in it; `scratch` is the folder mounted as `/tmp`, empty for a private one.
    """

    read_only: tuple[tuple[str, int, int], ...] = ()
    masked: tuple[tuple[str, bool, int], ...] = ()
    denied: frozenset[str] = frozenset()
    has_git: bool = False
    objects: str = ""
    hides_objects: bool = False
    is_cut: bool = False
    stamp: str = ""
    has_added: bool = True
    overlay: str = ""
    scratch: str = ""
    shown: str = ""  # the expression for secret files that are not masked
    network: str = ""  # that of another instance, which this one shares

    def without(self, revealed: frozenset[str]) -> SandboxLayout:
        """Return the layout with some secret files shown; what a rule denies stays masked."""
        shown = revealed - self.denied
        return replace(self, masked=tuple(each for each in self.masked if each[0] not in shown))

    def covers(self, other: SandboxLayout, kind: InstanceKind) -> bool:
        """Tell whether an instance with this layout still protects, masks, shows and reaches all that `other` asks for."""
        is_masked = not kind.is_masked or (set(other.masked) <= set(self.masked) and self.shown == other.shown)
        is_connected = other.network in ("", self.network)
        objects = not kind.is_masked or not other.hides_objects or self.hides_objects
        is_protected = {each for each in other.read_only if _is_added(each)} <= set(self.read_only)
        return is_masked and is_connected and objects and is_protected and (self.has_git or not other.has_git)

    def with_added(self, other: SandboxLayout, folder: str) -> SandboxLayout:
        """Return the layout with that of a writable added folder."""
        return replace(
            self,
            read_only=(*self.read_only, *((f"{folder}/{path}", device, inode) for path, device, inode in other.read_only)),
            masked=(*self.masked, *((f"{folder}/{path}", is_folder, inode) for path, is_folder, inode in other.masked)),
            denied=self.denied | {f"{folder}/{path}" for path in other.denied},
            is_cut=self.is_cut or other.is_cut,
        )

    def without_added(self) -> SandboxLayout:
        """Return the layout of the workspace alone."""
        return replace(
            self,
            read_only=tuple(each for each in self.read_only if not _is_added(each)),
            masked=tuple(each for each in self.masked if not _is_added(each)),
            denied=frozenset(path for path in self.denied if not path.startswith("/")),
            has_added=False,
        )


def _is_added(entry: tuple[str, int, int]) -> bool:
    return entry[0].startswith("/")


def from_reply(reply: replies.LayoutReply, folder: str = "", *, is_writable: bool = True) -> SandboxLayout:
    """Return what the guard found in the workspace, or in an added folder.

    Raises:
        SandboxUnavailable: `.git` or `.lmagent` is a symbolic link, which cannot be mounted.
    """
    for name, kind in ((".git", reply.git), (WORKSPACE_FOLDER, reply.lmagent)):
        path = f"{folder}/{name}" if folder else name
        if not is_writable:
            continue
        if kind == "link":
            raise SandboxUnavailable(f"{path} is a symbolic link; it must be a folder", "Replace the link with a folder.")
        if folder and name == WORKSPACE_FOLDER and kind != "folder":
            raise SandboxUnavailable(f"{path} cannot be made, so {folder} cannot be writable", "Add it without :rw.")
    return SandboxLayout(
        read_only=tuple((_path(path), device, inode) for path, device, inode in reply.read_only if is_writable),
        masked=tuple((_path(path), is_folder, inode) for path, is_folder, _, inode in reply.masked),
        denied=frozenset(_path(path) for path, _, is_denied, _ in reply.masked if is_denied),
        has_git=reply.git != "none",
        objects=".git/objects" if reply.git == "folder" else "",
        is_cut=reply.is_cut,
        stamp=reply.stamp,
    )


def _path(told: str) -> str:
    return os.fsdecode(bytes.fromhex(told))


def mounts(workspace: Path, kind: InstanceKind, layout: SandboxLayout) -> Iterator[tuple[Path, str]]:
    """Yield what is mounted read-only over the workspace and writable added folders: the source, and the path in the workspace.

    A path in an added folder is a whole one.

    Raises:
        SandboxUnavailable: the mask files cannot be created.
    """
    if kind is InstanceKind.GUARD:
        return
    yield workspace_dir(workspace), WORKSPACE_FOLDER
    for path, *_ in read_only_in(kind, layout):
        yield workspace / path, path
    if not kind.is_masked:
        return
    file, folder, empty = mask_sources()
    for name in _OWN:
        yield empty, f"{WORKSPACE_FOLDER}/{name}"
    if layout.hides_objects:
        modules = str(Path(layout.objects).with_name("modules"))  # those of submodules
        yield folder, layout.objects
        if is_plain_folder(workspace, modules):
            yield folder, modules
    for path, is_folder, _ in layout.masked:
        yield folder if is_folder else file, path


def read_only_in(kind: InstanceKind, layout: SandboxLayout) -> tuple[tuple[str, int, int], ...]:
    """Return what is read-only in an instance: git folders, and for programs what others outside would run."""
    if kind.runs_programs:
        return layout.read_only
    return tuple(each for each in layout.read_only if each[0] == ".git" and not kind.writes_git)


def make_own_folders(workspace: Path, *, is_mounted: bool) -> None:
    """Create lmtui's folder in a workspace, and its subfolders that are mounted; the workspace's owner owns them.

    Raises:
        SandboxUnavailable: they cannot be made.
    """
    own = workspace_dir(workspace)
    owner = workspace.stat()
    for folder in (own, *(own / name for name in _OWN if is_mounted)):
        with creating(folder), own_folder(folder, makes=True) as opened:
            if os.geteuid() == 0 and owner.st_uid != 0 and os.fstat(opened).st_uid == 0:
                os.fchown(opened, owner.st_uid, owner.st_gid)


def mask_sources() -> tuple[Path, Path, Path]:
    """Return an empty file and an empty folder that nobody can read, and an empty folder that everybody can.

    Raises:
        SandboxUnavailable: they cannot be made.
    """
    base = state_dir() / "masks"
    file, folder, empty = base / "file", base / "folder", base / "empty"
    with creating(base):
        base.mkdir(parents=True, exist_ok=True, mode=0o711)
        file.touch(mode=0)
        folder.mkdir(exist_ok=True, mode=0)
        empty.mkdir(exist_ok=True, mode=0o555)
    return file, folder, empty


def link_folder(root: str) -> Path:
    """Return a folder with a link `workspace` to where an instance has the workspace: images link `/workspace` to it.

    Raises:
        SandboxUnavailable: it cannot be made.
    """
    folder = state_dir() / "links" / hashlib.sha256(os.fsencode(root)).hexdigest()[:24]
    with creating(folder):
        folder.mkdir(parents=True, exist_ok=True, mode=0o755)
        with contextlib.suppress(FileExistsError):
            (folder / "workspace").symlink_to(root)
    return folder
