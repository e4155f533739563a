"""Putting files back from a checkpoint: all of them, and only where nobody else has changed them meanwhile."""

from __future__ import annotations

import errno
import hashlib
import os
import stat
from collections.abc import Callable, Collection
from contextlib import suppress
from typing import NamedTuple

from . import beneath, effects, linux
from .beneath import Refused, create_file
from .checkpoints import ABSENT, MAX_NAMED, Store, TreeEntry
from .files import make_folders
from .protocol import Message

_CANNOT = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP)
_LINK = "120000"
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY


class _Draft(NamedTuple):
    """A file written next to the place where it will be, or the name to which one that goes is moved first.

    `now` is what is expected in its place, None where it may be anything.
    """

    parent: str
    name: str
    temporary: str
    now: TreeEntry | None
    is_going: bool

    @property
    def path(self) -> str:
        """Return the path of the place."""
        return f"{self.parent}/{self.name}" if self.parent else self.name


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
    by_folder: dict[str, list[tuple[_Draft, TreeEntry]]] = {}
    store.begin_drafts(list({path.rpartition("/")[0] for path in wanted}))
    for number, (path, (now, entry)) in enumerate(wanted.items()):
        parent, _, name = path.rpartition("/")
        draft = _Draft(parent, name, f"{store.draft_prefix}{number}.tmp", None if path in unkept else now, entry.mode == ABSENT)
        by_folder.setdefault(parent, []).append((draft, entry))
    try:
        for parent, entries in by_folder.items():
            _write_drafts(store, parent, entries, contents)
        drafts = [draft for entries in by_folder.values() for draft, _ in entries]
        raced = _put_in_place(store, sorted(drafts, key=lambda draft: not draft.is_going))
    finally:
        store.discard_drafts()
    for parent in {draft.parent for draft in drafts if draft.is_going and not raced}:
        _remove_empty(store, parent)
    return {"conflicts": raced, "begun": len(done)}


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
    if (above := _not_a_folder_above(store, path)) is not None:
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


def _not_a_folder_above(store: Store, path: str) -> str | None:
    """Return the first link or file in the place of a folder above a path."""
    parts = path.split("/")
    for end in range(1, len(parts)):
        above = "/".join(parts[:end])
        try:
            mode = os.stat(above, dir_fd=store.root.fd, follow_symlinks=False).st_mode
        except OSError:
            return None
        if not stat.S_ISDIR(mode):
            return above
    return None


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


def _write_drafts(store: Store, parent: str, entries: list[tuple[_Draft, TreeEntry]], contents: dict[str, bytes]) -> None:
    """Write the files of one folder next to their places."""
    if all(draft.is_going for draft, _ in entries):
        return
    make_folders(store.root, parent, makes_way=True)
    with store.root.opened(parent, _FOLDER) as (folder, _):
        for draft, entry in entries:
            if draft.is_going:
                continue
            try:
                if entry.mode == _LINK:
                    os.symlink(os.fsdecode(contents[entry.oid]), draft.temporary, dir_fd=folder)
                else:
                    mode = _mode(store, folder, draft.name, draft.path, entry)
                    create_file(folder, draft.temporary, contents[entry.oid], mode)
            except OSError as error:
                raise Refused(beneath.explain(error, draft.path)) from error


def _mode(store: Store, folder: int, name: str, path: str, entry: TreeEntry) -> int:
    """Return the permission bits: git keeps one of them, the rest are the present file's or those that were seen last."""
    executable = 0o111 if entry.mode == "100755" else 0
    try:
        info = os.stat(name, dir_fd=folder, follow_symlinks=False)
    except OSError:
        known = store.modes().get(path)
        return known if known is not None and bool(known & 0o100) == bool(executable) else 0o644 | executable
    is_usual = stat.S_ISREG(info.st_mode) and info.st_mode & 0o400
    kept = stat.S_IMODE(info.st_mode) & 0o777 if is_usual else store.modes().get(path, 0o644)
    return kept | (executable & kept >> 2) | (executable & 0o100) if executable else kept & ~0o111


def _put_in_place(store: Store, drafts: list[_Draft]) -> list[str]:
    """Move what goes aside, and put what comes in its place; return what others changed in this moment.

    What was moved aside is looked at at once, and once more after all of it: who has a file open may still write to it.  Where
    it is not what was expected, all is put back.
    """
    done: list[_Draft] = []
    failed: list[str] = []
    for draft in drafts:
        try:
            with store.root.opened(draft.parent, _FOLDER) as (folder, real):
                if real != draft.parent:
                    raise FileNotFoundError
                is_done = _moved(store, folder, draft, done)
        except (FileNotFoundError, IsADirectoryError, beneath.Missing):  # gone, or a folder was made for files that come back
            is_done = True
            failed += [] if draft.is_going else [draft.path]
        except OSError:
            failed.append(draft.path)
            continue
        if not is_done:
            return _put_back(store, done, draft)
        done.append(draft)
    if failed:
        raise Refused(f"could not be put back: {', '.join(failed[:MAX_NAMED])}")
    late = next((draft for draft in done if not _is_unwritten(store, draft)), None)
    return _put_back(store, done, late) if late is not None else []


def _put_back(store: Store, done: list[_Draft], changed: _Draft) -> list[str]:
    for draft in reversed(done):
        _move_back(store, draft)
    return [changed.path]


def _is_unwritten(store: Store, draft: _Draft) -> bool:
    """Tell whether nobody who had a file open wrote to it after it was moved aside."""
    with suppress(OSError, Refused), store.root.opened(draft.parent, _FOLDER) as (folder, real):
        return real != draft.parent or _is_expected_aside(store, folder, draft)
    return True  # a file came in the place of its folder


def _moved(store: Store, folder: int, draft: _Draft, done: list[_Draft]) -> bool:
    """Move one; False where something else is there than was expected, which is in its place again then."""
    if draft.is_going:
        if stat.S_ISDIR(os.stat(draft.name, dir_fd=folder, follow_symlinks=False).st_mode):
            return True
        os.rename(draft.name, draft.temporary, src_dir_fd=folder, dst_dir_fd=folder)
    elif draft.now is None or draft.now.mode == ABSENT:
        return _come(store, folder, draft, done)
    else:
        _exchange(folder, draft.temporary, draft.name)
    if _is_expected_aside(store, folder, draft):
        return True
    _move_back(store, draft)
    return False


def _come(store: Store, folder: int, draft: _Draft, done: list[_Draft]) -> bool:
    """Put a file where none is expected; a folder whose files are all gone by now makes way."""
    try:
        if draft.now is not None:
            linux.rename(folder, draft.temporary, draft.name, linux.RENAME_NOREPLACE)
            return True
    except FileExistsError:
        if not stat.S_ISDIR(os.stat(draft.name, dir_fd=folder, follow_symlinks=False).st_mode):
            return False
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
    for parent in [each.parent for each in done if f"{each.parent}/".startswith(f"{draft.path}/")]:
        store.discard_drafts_in(parent, store.draft_prefix)
        _remove_empty(store, parent)
    _rename(folder, draft.temporary, draft.name)
    return True


def _exchange(folder: int, temporary: str, name: str) -> None:
    try:
        linux.rename(folder, temporary, name, linux.RENAME_EXCHANGE)
    except OSError as error:
        if error.errno not in _CANNOT:
            raise
        _rename(folder, temporary, name)  # this file system cannot exchange: what was there is not looked at again


def _is_expected_aside(store: Store, folder: int, draft: _Draft) -> bool:
    """Tell whether what was moved aside is what was expected in its place, if anything was."""
    if draft.now is None or draft.now.mode == ABSENT:
        return True
    try:
        info = os.stat(draft.temporary, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return True  # nothing was set aside
    return _is_content(store, f"{draft.parent}/{draft.temporary}" if draft.parent else draft.temporary, info, draft.now)


def _move_back(store: Store, draft: _Draft) -> None:
    """Undo a move, as far as nobody has come in between."""
    with suppress(OSError, Refused), store.root.opened(draft.parent, _FOLDER) as (folder, _):
        if draft.is_going:  # the other name goes with the drafts
            os.link(draft.temporary, draft.name, src_dir_fd=folder, dst_dir_fd=folder, follow_symlinks=False)
        elif draft.now is not None and draft.now.mode != ABSENT:
            linux.rename(folder, draft.temporary, draft.name, linux.RENAME_EXCHANGE)
        else:
            os.rename(draft.name, draft.temporary, src_dir_fd=folder, dst_dir_fd=folder)


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
