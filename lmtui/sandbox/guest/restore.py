"""Putting files back from a checkpoint: all of them, and only where nobody else has changed them meanwhile."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Collection
from contextlib import suppress

from . import beneath, effects
from .beneath import Refused, create_file
from .checkpoints import ABSENT, MAX_NAMED, Store, TreeEntry
from .files import make_folders
from .protocol import Message

_LINK = "120000"
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


_Stamp = tuple[int, int, int] | None


def restore(
    store: Store, source: str, expected: str, paths: list[str], over: Collection[str] = (), *, since_ns: int = 0
) -> Message:
    """Make `paths` as `source` has them.  `conflicts` names those that are not as `expected` has them; nothing is done then.

    A file that is as `source` has it already stays, so that a restore that was killed can be done again.  Of those in `over`
    the present state may be one that no state can hold.  The caller holds the store's lock.  A failure in the middle leaves
    whole files only, and says which could not be done.  After a restore that began at `since_ns` and was killed, the rest is
    done; nothing, where no file is as `source` has it (`begun` counts those that are), or one that is not has changed since: it
    was put back.
    """
    wanted = store.entries(expected, source, paths)
    unkept = {path for path in over if path in wanted and store.is_unkept(path)}
    for parent in {path.rpartition("/")[0] for path in wanted}:
        _open_up(store, parent)
    stamps = {path: _stamp(store, path) for path in wanted}
    going = {path for path, (_, entry) in wanted.items() if entry.mode == ABSENT}
    done = {path for path, (_, entry) in wanted.items() if _is_as_expected(store, path, entry, going)}
    if since_ns and not done:
        return {"conflicts": [], "begun": 0}
    wanted = {path: entries for path, entries in wanted.items() if path not in done}
    conflicts = {
        path
        for path, (now, _) in wanted.items()
        if path not in unkept and not _is_as_expected(store, path, now, going, since_ns)
    }
    if conflicts:
        return {"conflicts": sorted(conflicts)[:MAX_NAMED]}
    contents = _contents(store, wanted)
    coming = [path for path in wanted if path not in going]
    store.begin_drafts(list({path.rpartition("/")[0] for path in coming}))
    drafts = {path: f"{store.draft_prefix}{number}.tmp" for number, path in enumerate(coming)}
    try:
        _write_drafts(store, {path: wanted[path][1] for path in coming}, drafts, contents)
        if raced := [path for path in wanted if _stamp(store, path) not in (None, stamps[path])]:
            return {"conflicts": sorted(raced)[:MAX_NAMED]}
        gone = [path for path in wanted if path in going]
        failed = [path for path in gone if not _put(store, path, "", stamps[path])]
        for parent in {path.rpartition("/")[0] for path in gone}:
            _remove_empty(store, parent)
        failed += [path for path in coming if not _put(store, path, drafts[path], stamps[path])]
    finally:
        store.discard_drafts()
    if failed:
        raise Refused(f"could not be put back: {', '.join(failed[:MAX_NAMED])}")
    return {"conflicts": [], "begun": len(done)}


def _stamp(store: Store, path: str) -> _Stamp:
    """Return what tells whether a file or a link was written, None where neither is."""
    with suppress(OSError):
        info = os.stat(path, dir_fd=store.root.fd, follow_symlinks=False)
        if not stat.S_ISDIR(info.st_mode):
            return info.st_ino, info.st_size, info.st_mtime_ns  # ctime is its other names' too
    return None


def _open_up(store: Store, folder: str) -> None:
    """Give the owner access to a folder and its parents: a step may have removed it."""
    made = ""
    for part in [part for part in folder.split("/") if part]:
        made = f"{made}/{part}" if made else part
        with suppress(OSError, Refused), store.root.opened(made, _FOLDER | os.O_NOFOLLOW) as (fd, real):
            mode = os.fstat(fd).st_mode
            if real == made and stat.S_ISDIR(mode) and mode & 0o700 != 0o700:
                os.chmod(f"/proc/self/fd/{fd}", stat.S_IMODE(mode) | 0o700)


def _is_as_expected(store: Store, path: str, now: TreeEntry, going: set[str], since_ns: int = 0) -> bool:
    """Tell whether what is at a path can be what is expected there: a file, or nothing (a folder whose files all go, too).

    A file that changed after `since_ns` is not, whatever it holds.
    """
    if (above := store.not_a_folder_above(path)) is not None:
        return now.mode == ABSENT and above in going  # behind a link there is nothing of ours
    try:
        info = os.stat(path, dir_fd=store.root.fd, follow_symlinks=False)
    except (FileNotFoundError, NotADirectoryError):
        return now.mode == ABSENT
    except OSError as error:
        raise Refused(beneath.explain(error, path)) from error
    if now.mode != ABSENT:
        return not 0 < since_ns < info.st_ctime_ns and _is_content(store, path, info, now)
    if not stat.S_ISDIR(info.st_mode):
        return False
    with store.root.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as (folder, _):
        inside = [
            f"{path}/{root[2:]}/{name}".replace("//", "/")
            for root, _, files, _ in os.fwalk(".", dir_fd=folder)
            for name in files
        ]
    return going.issuperset(inside)


def _is_content(store: Store, path: str, info: os.stat_result, now: TreeEntry) -> bool:
    """Tell whether a file or a link is just what a state has: its kind, its executable bit, its content."""
    if stat.S_ISLNK(info.st_mode):
        return now.mode == _LINK and _hash(os.fsencode(os.readlink(path, dir_fd=store.root.fd))) == now.oid
    is_executable = bool(info.st_mode & 0o100)
    if not store.can_hold(path) or now.mode != ("100755" if is_executable else "100644"):
        return False
    with store.root.opened(path, os.O_RDONLY | os.O_NOFOLLOW) as (fd, _), os.fdopen(os.dup(fd), "rb") as file:
        return _hash(file.read()) == now.oid


def _hash(content: bytes) -> str:
    """Return git's name for a content: the SHA-1 of its kind, size and bytes (gitformat-pack)."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content), usedforsecurity=False).hexdigest()


def _contents(store: Store, wanted: dict[str, tuple[TreeEntry, TreeEntry]]) -> dict[str, bytes]:
    """Return the blobs that are wanted, by hash, from one `git cat-file --batch` (its format: `<oid> <type> <size>`)."""
    oids = list(dict.fromkeys(entry.oid for _, entry in wanted.values() if entry.mode != ABSENT))
    if not oids:
        return {}
    data = store.git("cat-file", "--batch", data="".join(f"{oid}\n" for oid in oids).encode())
    found: dict[str, bytes] = {}
    position = 0
    for oid in oids:
        end = data.index(b"\n", position)
        facts = data[position:end].split(b" ")
        if len(facts) != 3 or facts[1] != b"blob":
            raise Refused("a file of this checkpoint was dropped from the store (it is bounded in size and age)")
        size = int(facts[2])
        found[oid] = data[end + 1 : end + 1 + size]
        position = end + 1 + size + 1
    return found


def _write_drafts(store: Store, entries: dict[str, TreeEntry], drafts: dict[str, str], contents: dict[str, bytes]) -> None:
    """Write files next to their places."""
    for parent in {path.rpartition("/")[0] for path in entries}:
        make_folders(store.root, parent, makes_way=True)
    for path, entry in entries.items():
        with store.root.opened(path.rpartition("/")[0], _FOLDER) as (folder, _):
            try:
                if entry.mode == _LINK:
                    os.symlink(os.fsdecode(contents[entry.oid]), drafts[path], dir_fd=folder)
                else:
                    mode = _mode(store, path, entry)
                    create_file(folder, drafts[path], contents[entry.oid], mode)
            except OSError as error:
                raise Refused(beneath.explain(error, path)) from error


def _mode(store: Store, path: str, entry: TreeEntry) -> int:
    """Return the permission bits: git keeps one of them, the rest are the present file's or those that were seen last."""
    executable = 0o111 if entry.mode == "100755" else 0
    try:
        info = os.stat(path, dir_fd=store.root.fd, follow_symlinks=False)
    except OSError:
        known = store.modes().get(path)
        return known if known is not None and bool(known & 0o100) == bool(executable) else 0o644 | executable
    is_usual = stat.S_ISREG(info.st_mode) and info.st_mode & 0o400
    kept = stat.S_IMODE(info.st_mode) & 0o777 if is_usual else store.modes().get(path, 0o644)
    return kept | (executable & kept >> 2) | (executable & 0o100) if executable else kept & ~0o111


def _put(store: Store, path: str, draft: str, stamp: _Stamp) -> bool:
    """Put a draft in its place, or without one remove what is there.

    False where that cannot be, or what was looked at was changed in this moment.
    """
    parent, _, name = path.rpartition("/")
    try:
        with store.root.opened(parent, _FOLDER) as (folder, real):
            if real != parent or _stamp(store, path) not in (None, stamp):
                return real != parent and not draft
            if draft:
                _rename(folder, draft, name)
            else:
                os.unlink(name, dir_fd=folder)
    except (FileNotFoundError, IsADirectoryError, beneath.Missing):  # gone, or a folder was made for files that come back
        return not draft
    except OSError:
        return False
    return True


def _rename(folder: int, temporary: str, name: str) -> None:
    try:
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except IsADirectoryError:  # a folder stands there now, and is empty once its files are gone, or holds what is not kept
        try:
            os.rmdir(name, dir_fd=folder)
        except OSError:
            os.rename(name, f"{name}.replaced-{os.urandom(3).hex()}", src_dir_fd=folder, dst_dir_fd=folder)
        os.rename(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)


def _remove_empty(store: Store, folder: str) -> None:
    while folder:
        parent, _, name = folder.rpartition("/")
        try:
            with store.root.opened(parent, _FOLDER) as (fd, _):
                os.rmdir(name, dir_fd=fd)
        except (OSError, Refused):
            return  # there is something in it, or it is gone
        folder = parent


_EFFECTS = (effects.effect, effects.with_content, effects.with_entries, effects.set_modes, effects.remove_folders)
_FUNCTIONS = (Store.snapshot, Store.ignored, Store.prune, Store.changes, restore, *_EFFECTS)
_ACTIONS: dict[str, Callable[..., Message]] = {each.__name__: each for each in _FUNCTIONS}


def run(store: Store, message: Message, given: bytes = b"") -> Message:
    """Do what a request asks of the store, but for reading one file; `given` is the data next to it.  Runs in a keeper."""
    fields = {name: value for name, value in message.items() if name not in ("id", "op", "action")}
    if (action := _ACTIONS.get(message["action"])) is None:
        raise Refused("the checkpoint store cannot do that")
    with store.locked():
        return action(store, **fields, **({"content": given} if given else {}))
