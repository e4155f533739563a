"""What commands did in an overlay over the workspace: two states of just the paths that they touched, before and after.

An overlay keeps what was written in an upper folder (Linux: Documentation/filesystems/overlayfs.rst).  What was deleted is what
the lower folder has and the merged one does not, so that no extended attribute has to be read.
"""

from __future__ import annotations

import errno
import os
import posixpath
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from .beneath import Refused, Root, explain, is_protected, shown
from .checkpoints import ABSENT, MAX_NAMED, Store
from .protocol import Message
from .quarantine import make_accessible

UPPER, LOWER = "/overlay/upper", "/overlay/lower"
_USUAL_MODES = (0o644, 0o755, 0o664, 0o775)
_CACHES = frozenset(("__pycache__", ".mypy_cache", ".ruff_cache", ".pytest_cache"))
_MOST_PATHS, _MOST_FOLDERS, _MOST_SIZES = 20_000, 1_000, 2_000
_INDEX = "lmtui.effect.index"
_NO_FOLDER = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.EXDEV)  # nothing, a file, a link, or behind a link


def effect(store: Store, since_ns: int, base: str = "") -> Message:
    """Return the states of the touched paths `before` and `after`, and what no state can hold; the caller holds the lock.

    `special` is what cannot be kept: files that are too large or unreadable, pipes, sockets, devices, repositories, what git
    reserves as a name, folders that cannot be read or are too many.  Of folders without files, `made` are new,
    `emptied` had some, and `removed` are gone, inner ones first.  `caches` counts what only caches got.  `late` has the times
    (ctime, ns) of touched paths whose lower side changed, or was moved there with a folder, after `since_ns`.
    `renamed` has the former paths of files that moved as they are, by their new ones; `modes` the permission bits
    that are others than before.
    With a `base`, a state of the whole workspace, that is `before`, and `after` is it with what the overlay touched in it; then
    `late` is empty.

    Raises:
        Refused: too many files were touched to follow.
    """
    found = _Touched(store)
    found.walk("")
    before = base or _tree_of(store, found.paths, LOWER)
    after = _tree_of(store, found.paths, store.root.path, base)
    found.special |= _refused(store, found.paths, after)
    found.removed.sort(key=len, reverse=True)
    for folders in (found.made, found.emptied, found.removed):
        found.special |= {f"{path}/" for path in folders[_MOST_FOLDERS:]}
    special = sorted(found.special)
    return {
        "before": before,
        "after": after,
        "special": [shown(path) for path in special[:MAX_NAMED]],
        "special_total": len(special),
        "made": found.made[:_MOST_FOLDERS],
        "emptied": found.emptied[:_MOST_FOLDERS],
        "removed": found.removed[:_MOST_FOLDERS],
        "caches": found.caches,
        "renamed": _renamed(store, before, after) if found.has_gone and not base else {},
        "sizes": found.sizes(),
        "modes": found.modes,
        "late": {} if base else {path: at for path, at in found.lower_ns.items() if at > since_ns},
    }


def _refused(store: Store, paths: list[str], after: str) -> set[str]:
    """Return the paths that exist and that a state lacks: git refuses names that some file system reserves."""
    listed = store.git("ls-tree", "-r", "-z", "--name-only", after).decode("utf-8", "surrogateescape").split("\0")
    return set(_held(paths, store.root.path)).difference(listed)


def _renamed(store: Store, before: str, after: str) -> dict[str, str]:
    """Return the former paths of the files that are as they were at another path (git-diff-tree: raw output format)."""
    listed = store.git("diff-tree", "-r", "-z", "-M100%", "--diff-filter=R", before, after)
    fields = listed.decode("utf-8", "replace").split("\0")
    return dict(zip(fields[2::3], fields[1::3], strict=False))


def with_content(store: Store, base: str, path: str, content: bytes = b"") -> Message:
    """Return a state that is as another, but for the content of one file; its mode stays.  The caller holds the lock."""
    mode = store.git("ls-tree", "-z", base, "--", path).decode("utf-8", "replace").partition(" ")[0] or "100644"
    oid = store.git("hash-object", "-w", "--stdin", data=content).decode().strip()
    return {"tree": _with(store, base, f"{mode} {oid}\t{path}\0")}


def with_entries(store: Store, base: str, source: str, paths: list[str], late: list[str]) -> Message:
    """Return a state that is as another, but for some files, which are as `source` has them.

    Of those that it lacks, the ones in `late` are not in the new state, the others are as in `base`.
    """
    entries = [(path, entry) for path, (_, entry) in store.entries(base, source, paths).items()]
    gone = set(late)
    listed = (f"{entry.mode} {entry.oid}\t{path}\0" for path, entry in entries if entry.mode != ABSENT or path in gone)
    return {"tree": _with(store, base, "".join(listed))}


def _with(store: Store, base: str, entries: str) -> str:
    """Return a state with other entries for some files (git-update-index: --index-info)."""
    if not entries:
        return base
    with _own_index(store, base) as environment:
        store.git("update-index", "-z", "--index-info", data=entries.encode(), more=environment)
        return _written(store, environment)


@contextmanager
def _own_index(store: Store, base: str, **variables: str) -> Iterator[dict[str, str]]:
    """Yield the variables by which git uses an index that is not the store's, with what a state has in it, if one is given.

    The store is locked, so what a killed git left there is ours.
    """
    index = store.folder / _INDEX
    for left in (index, index.with_name(f"{_INDEX}.lock")):
        left.unlink(missing_ok=True)
    environment = {"GIT_INDEX_FILE": str(index), **variables}
    try:
        if base:
            store.git("read-tree", base, more=environment)
        yield environment
    finally:
        index.unlink(missing_ok=True)


def _written(store: Store, environment: dict[str, str]) -> str:
    """Return the state that an index has."""
    tree = store.git("write-tree", more=environment).decode().strip()
    store.remember(tree, is_apart=True)
    return tree


class _Touched:
    """The paths that an upper folder speaks of."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._merged, self._lower, self._upper = store.root, Root(LOWER), Root(UPPER)
        self.paths: list[str] = []
        self.special: set[str] = set()
        self.made: list[str] = []
        self.emptied: list[str] = []
        self.removed: list[str] = []
        self.modes: dict[str, int] = {}
        self.lower_ns: dict[str, int] = {}
        self._folders_ns: dict[str, int] = {}
        self.caches = 0
        self.has_gone = False

    def walk(self, folder: str) -> None:
        """Take up what is in a folder of the upper side, which is one in the merged view too."""
        try:
            upper, merged, lower = (_entries(root, folder) for root in (self._upper, self._merged, self._lower))
        except Refused:  # whatever is in there, it is not gone
            self.special.add(f"{folder}/")
            return
        if not merged and folder and (lower or not self._is_folder_below(folder)):
            (self.emptied if lower else self.made).append(folder)
        for name in sorted(lower.keys() - merged.keys()):
            self._gone(posixpath.join(folder, name), lower[name])
        for name in sorted(upper.keys() & merged.keys()):
            path = posixpath.join(folder, name)
            if is_protected(path):
                self.special.add(f"{path}/" if stat.S_ISDIR(merged[name]) else path)  # a nested repository
            elif name in _CACHES:
                self.caches += 1
            elif stat.S_ISDIR(merged[name]):
                if name in lower and not stat.S_ISDIR(lower[name]):
                    self._add(path)
                self.walk(path)
            else:
                if name in lower and stat.S_ISDIR(lower[name]):
                    self._gone(path, lower[name])
                is_old = stat.S_ISREG(lower.get(name, 0))
                if self._store.can_hold(path) and (not is_old or self._store.can_hold(path, self._lower)):
                    self._add(path)
                    self._note_mode(path, merged[name], lower.get(name, 0))
                else:
                    self.special.add(path)

    def _note_mode(self, path: str, mode: int, before: int) -> None:
        """Note permission bits that are others than before, or than is usual for a new file: git keeps one of them."""
        bits, old = stat.S_IMODE(mode) & 0o777, stat.S_IMODE(before) & 0o777
        is_other = bits != old if stat.S_ISREG(before) else bits not in _USUAL_MODES
        if stat.S_ISREG(mode) and is_other:
            self.modes[path] = bits

    def sizes(self) -> dict[str, int]:
        """Return how large files are now, or were before they were deleted, in bytes."""
        found: dict[str, int] = {}
        for path in self.paths[:_MOST_SIZES]:
            for root in (self._lower, self._merged):
                with suppress(OSError):
                    found[path] = os.stat(path, dir_fd=root.fd, follow_symlinks=False).st_size
        return found

    def _gone(self, path: str, mode: int) -> None:
        if is_protected(path) or path.rpartition("/")[2] in _CACHES:
            return
        if not stat.S_ISDIR(mode):
            if not self._store.can_hold(path, self._lower):
                self.special.add(path)
                return
            self.has_gone = True
            self._add(path)
            return
        self.removed.append(path)
        try:
            entries = _entries(self._lower, path)
        except Refused:
            self.special.add(f"{path}/")
            return
        for name, inner in entries.items():
            self._gone(posixpath.join(path, name), inner)

    def _is_folder_below(self, path: str) -> bool:
        """Tell whether the lower side has a folder there."""
        with suppress(OSError, Refused), self._lower.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW):
            return True
        return False

    def _add(self, path: str) -> None:
        self.paths.append(path)
        with suppress(OSError):
            changed_ns = os.stat(path, dir_fd=self._lower.fd, follow_symlinks=False).st_ctime_ns
            self.lower_ns[path] = max(changed_ns, self._moved_ns(path.rpartition("/")[0]))
        if len(self.paths) > _MOST_PATHS:
            raise Refused(f"more than {_MOST_PATHS:,} files were touched; their effect cannot be shown")

    def _moved_ns(self, folder: str) -> int:
        """Return when a lower folder or one above it was moved: later than its entries changed, unlike with a new entry."""
        if folder and folder not in self._folders_ns:
            info = os.stat(folder, dir_fd=self._lower.fd, follow_symlinks=False)
            own_ns = info.st_ctime_ns if info.st_ctime_ns != info.st_mtime_ns else 0
            self._folders_ns[folder] = max(own_ns, self._moved_ns(folder.rpartition("/")[0]))
        return self._folders_ns.get(folder, 0)


def remove_folders(store: Store, paths: list[str]) -> Message:
    """Remove folders that have nothing in them any more."""
    for folder in paths:
        parent, _, name = folder.rpartition("/")
        with suppress(OSError, Refused), store.root.opened(parent, os.O_RDONLY | os.O_DIRECTORY) as (fd, real):
            if real == parent:
                os.rmdir(name, dir_fd=fd)
    return {"conflicts": []}


def set_modes(store: Store, modes: dict[str, int]) -> Message:
    """Give files their permission bits; one that is gone, or is a link by now, is passed over."""
    for path, mode in modes.items():
        with suppress(OSError, Refused), store.root.opened(path, os.O_RDONLY | os.O_NOFOLLOW) as (fd, real):
            if real == path:
                os.fchmod(fd, mode & 0o777)
    return {"conflicts": []}


def _entries(root: Root, folder: str) -> dict[str, int]:
    """Return the names in a folder with their modes; nothing where it is none.  Whiteouts of an upper folder are left out.

    Raises:
        Refused: there is a folder, and it cannot be read.
    """
    found: dict[str, int] = {}
    try:
        with root.opened(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as (fd, real):
            for name in os.listdir(fd) if real == folder else ():
                with suppress(FileNotFoundError):
                    info = os.stat(name, dir_fd=fd, follow_symlinks=False)
                    if not (stat.S_ISCHR(info.st_mode) and info.st_rdev == 0):
                        found[name] = info.st_mode
    except OSError as error:
        raise Refused(explain(error, folder)) from error
    except Refused as refusal:
        if getattr(refusal.__cause__, "errno", 0) not in _NO_FOLDER:
            raise
    return found


def _tree_of(store: Store, paths: list[str], work_tree: str, base: str = "") -> str:
    """Return a state of these paths as a folder has them, of nothing else without a `base`; what it lacks is not in it."""
    held = paths if base else list(_held(paths, work_tree))
    with _own_index(store, base, GIT_WORK_TREE=work_tree) as environment:
        if held:
            store.add(held, environment)
        return _written(store, environment)


def _held(paths: list[str], work_tree: str) -> Iterator[str]:
    """Yield the paths at which a folder has a file or a link; one that cannot be read is as good as none."""
    root = Root(work_tree)
    for path in paths:
        parent, _, name = path.rpartition("/")
        with suppress(OSError, Refused), root.opened(parent, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as (fd, real):
            info = os.stat(name, dir_fd=fd, follow_symlinks=False)
            if real == parent and (stat.S_ISREG(info.st_mode) or stat.S_ISLNK(info.st_mode)):
                yield path


def discard(folder: str) -> None:
    """Remove an overlay's folder, whatever commands made of the modes in it; no link in it is followed."""
    with suppress(FileNotFoundError):
        for _, folders, _, fd in os.fwalk(folder):
            for name in folders:
                with suppress(OSError):
                    make_accessible(fd, name, 0o700)
    shutil.rmtree(folder, ignore_errors=True)
