"""States of the workspace, kept by content in a bare git store outside it that reads nothing of the workspace's own git.

A snapshot is a tree object.  Ignored files, files over a size, and repositories of their own are left out and named.
What a state is made of: gitformat-index and gitformat-pack of git's documentation; only git itself reads and writes them.
"""

from __future__ import annotations

import fcntl
import json
import os
import posixpath
import re
import shutil
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from .beneath import Refused, Root, is_protected, shown
from .protocol import Message

MAX_NAMED = 50
_DIFF = ("diff-tree", "-r", "--no-renames", "--no-ext-diff", "--no-textconv", "--no-color")
ABSENT = "000000"  # the mode of what a state lacks (git-diff-tree: raw output format)
_MAX_CHANGES = 2000
_MAX_LIMITS = 1000  # paths that go onto a command line
_MAX_PATCH_BYTES = 524_288
_MAX_WHOLE_PATCH_BYTES = 33_554_432
_MAX_NAMES_BYTES = 262_144  # as they travel
_FACTS_BYTES = 40
_DRAFTS = "lmtui.drafts"
_APART = " apart"
LONGEST_S = 180.0
_LOCK_S = 20.0
_GIT_S = 120.0
_MANY = 200
_NOT_TEXT = re.compile(r"[\ud800-\udfff]")  # bytes of a name that are not UTF-8, as Python holds them
_REFS_HEADER = "# pack-refs with: peeled fully-peeled sorted \n"
_TEMPLATE = Path(__file__).with_name("store")
_FILES = {name: (_TEMPLATE / name).read_text("utf-8") for name in ("config", "HEAD", "info/attributes", "info/exclude")}


class TreeEntry(NamedTuple):
    """A file as a state has it: git's mode (`100644`, `100755`, `120000` for a link) and the hash of its content."""

    mode: str
    oid: str


class Store:
    """One workspace's store.

    Args:
        folder: where it is; made at its first use.
        root: the workspace.
        max_file_bytes: files over this are left out.

    Raises:
        Refused: git is not installed, or the folder cannot be used.
    """

    def __init__(self, folder: str, root: Root, max_file_bytes: int) -> None:
        program = shutil.which("git")
        if program is None:
            raise Refused("git is not installed here, so nothing can be undone")
        self.root = root
        self.folder = Path(folder)
        self._git = program
        self._max_file_bytes = max_file_bytes
        self._environment = {
            "PATH": os.environ.get("PATH", os.defpath), "LANG": "C.UTF-8", "HOME": "/nonexistent", "GIT_DIR": folder,
            "GIT_WORK_TREE": root.path, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_ATTR_NOSYSTEM": "1",
            "GIT_TERMINAL_PROMPT": "0", "GIT_LITERAL_PATHSPECS": "1", "GIT_CEILING_DIRECTORIES": "/",
        }  # fmt: skip
        self._seen_modes: dict[str, int] = {}
        self.draft_prefix = ""  # of the names of temporary files
        self._prepare()

    @contextmanager
    def locked(self, wait_s: float = _LOCK_S) -> Iterator[None]:
        """Hold the store: two lmtui on one workspace take turns.

        Raises:
            Refused: another one holds it for longer than `wait_s`.
        """
        deadline = time.monotonic() + wait_s
        with (self.folder / "lmtui.lock").open("w") as file:
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except OSError as error:
                    if time.monotonic() > deadline:
                        raise Refused("another lmtui is at the checkpoints of this workspace; try again") from error
                    time.sleep(0.02)
            (self.folder / "index.lock").unlink(missing_ok=True)  # of a git that was killed: the lock above is ours
            self.discard_drafts()
            yield

    def unchanged(self) -> Message | None:
        """Return the last state if nothing differs from it, which needs one look and no more; else None."""
        with suppress(Refused), self.locked(wait_s=0):
            tree = self._last_tree()
            if tree and not self._touched():
                return {"tree": tree, "left_out": [], "left_out_total": 0}
        return None

    def snapshot(self) -> Message:
        """Keep the state of now and return its tree and what it does not hold.  The caller holds the lock."""
        changed: list[str] = []
        left_out: list[str] = []
        gone: list[str] = []
        for path, is_held in self._touched().items():
            if is_held and (self._is_folder(path) or self.not_a_folder_above(path) is not None):
                gone.append(path)  # there is a folder now, or its own folder is none
            elif self.can_hold(path):
                changed.append(path)
            else:
                left_out.append(path)
                gone += [path] if is_held else []
        if changed:
            self.add(changed)
            self._remember_modes()
        if gone:
            self.git("update-index", "-z", "--force-remove", "--stdin", data=_listed(gone))
        tree = "" if changed or gone else self._last_tree()
        if not tree:
            tree = self.git("write-tree").decode().strip()
            self.remember(tree)
        names = sorted(map(shown, left_out))
        return {"tree": tree, "left_out": names[:MAX_NAMED], "left_out_total": len(names)}

    def begin_drafts(self, folders: list[str]) -> None:
        """Record where temporary files are about to be written, so that the next call removes what a kill left."""
        self.draft_prefix = f".lmtui-{os.urandom(6).hex()}-"
        note = json.dumps({"prefix": self.draft_prefix, "folders": folders})
        (self.folder / _DRAFTS).write_text(note, encoding="utf-8")

    def discard_drafts(self) -> None:
        """Remove temporary files that were never moved into place."""
        note = self.folder / _DRAFTS
        if not note.exists():
            return
        with suppress(ValueError, TypeError, KeyError):
            found = json.loads(note.read_text(encoding="utf-8"))
            for parent in found["folders"]:
                self.discard_drafts_in(str(parent), str(found["prefix"]))
        note.unlink(missing_ok=True)

    def discard_drafts_in(self, parent: str, prefix: str) -> None:
        """Remove temporary files from one folder."""
        with suppress(OSError, Refused), self.root.opened(parent, os.O_RDONLY | os.O_DIRECTORY) as (folder, _):
            with os.scandir(folder) as entries:
                names = [each.name for each in entries if each.name.startswith(prefix) and each.name.endswith(".tmp")]
            for name in names:
                os.unlink(name, dir_fd=folder)

    def add(self, paths: list[str], more: dict[str, str] | None = None) -> None:
        """Take these paths of the workspace up into the index, those that are gone out of it; `more` are variables."""
        # Many files at once go into one pack: five times as fast as a file for each.
        packing = ("-c", "core.bigFileThreshold=1") if len(paths) > _MANY else ()
        options = ("-z", "--add", "--remove", "--replace", "--stdin")
        self.git(*packing, "update-index", *options, data=_listed(paths), more=more)

    def entries(self, before: str, after: str, paths: list[str]) -> dict[str, tuple[TreeEntry, TreeEntry]]:
        """Return what differs between two states, by path."""
        listed = self.git("diff-tree", "-r", "-z", "--raw", "--no-renames", before, after)
        fields = listed.decode("utf-8", "replace").split("\0")
        wanted = set(paths)
        found: dict[str, tuple[TreeEntry, TreeEntry]] = {}
        for facts, path in zip(fields[0::2], fields[1::2], strict=False):
            old_mode, new_mode, old, new, _status = facts[1:].split(" ")
            if path in wanted:
                found[path] = (TreeEntry(old_mode, old), TreeEntry(new_mode, new))
        return found

    def changes(self, before: str, after: str, paths: list[str], skip: int, *, is_now: bool = False) -> Message:
        """Return the difference of two states: [path, status, added lines or -1, removed lines, patch] for each file.

        The status is git's letter.  With `is_now` the second state is the present one, and `U` means a file in place of
        which there is something now that no state can hold.

        There are at most 2,000 at once, or what one answer holds, from `skip` on; `total` counts them all.  Only the first
        have patches.
        """
        is_long = len(paths) > _MAX_LIMITS
        limits = ["--", *paths] if paths and not is_long else []
        fields = self.git(*_DIFF, "-z", "--raw", "--numstat", before, after, *limits).decode("utf-8", "replace").split("\0")
        statuses: list[tuple[str, str]] = []
        counts: dict[str, tuple[int, int]] = {}
        position = 0
        while position < len(fields) - 1:
            if fields[position].startswith(":"):
                statuses.append((fields[position + 1], fields[position][-1]))
                position += 2
            else:
                added, removed, path = fields[position].split("\t", 2)
                counts[path] = (-1, -1) if added == "-" else (int(added), int(removed))
                position += 1
        patches = iter(()) if skip or is_long else self._patches(before, after, limits)
        if is_long:
            wanted = set(paths)
            statuses = [each for each in statuses if each[0] in wanted]
        files: list[list[object]] = []
        room, names = _MAX_PATCH_BYTES, 0
        for path, status in statuses[skip : skip + _MAX_CHANGES]:
            patch = "".join(next(patches, "") for _ in range(2 if status == "T" else 1))
            if is_now and status == "D" and self.is_unkept(path):
                files.append([path, "U", 0, 0, ""])
                names += len(json.dumps(path)) + _FACTS_BYTES
                continue
            room -= len(json.dumps(patch))  # as it travels
            names += len(json.dumps(path)) + _FACTS_BYTES
            if files and names > _MAX_NAMES_BYTES:
                break  # the rest is asked for by `skip`
            files.append([path, status, *counts.get(path, (0, 0)), patch if room > 0 else ""])
        return {"files": files, "total": len(statuses)}

    def ignored(self) -> Message:
        """Return what ignore rules keep out of every state: files, and folders that end in `/`."""
        listed = self.git("ls-files", "-z", "-o", "-i", "--exclude-standard", "--directory").decode("utf-8", "replace")
        names = [name for name in listed.split("\0") if name and not is_protected(name)]
        return {"left_out": names[:MAX_NAMED], "left_out_total": len(names)}

    def prune(self, max_bytes: int, max_age_s: float) -> Message:
        """Drop states that are too old, then the oldest while the store is too large; the caller holds the lock.

        What the index knows of files is renewed too: another kind of sandbox may show them as another user's.
        """
        with suppress(Refused):  # it fails where files changed, which is no failure
            self.git("update-index", "-q", "--refresh")
        path = self.folder / "lmtui.snapshots"
        lines = path.read_text(encoding="ascii").splitlines() if path.exists() else []
        oldest = time.time() - max_age_s
        kept = [line for line in lines if float(line.partition(" ")[0]) >= oldest]
        if len(kept) < len(lines):
            self._keep_only(kept)
        while self._size_bytes() > max_bytes and len(kept) > 1:
            kept = kept[len(kept) // 2 :]
            self._keep_only(kept)
        return {"count": len(lines) - len(kept)}

    def content(self, tree: str, path: str) -> bytes | None:
        """Return a file as a state has it, None where it has none."""
        listed = self.git("ls-tree", "-z", tree, "--", path).decode("utf-8", "replace")
        for line in listed.split("\0"):
            facts, _, name = line.partition("\t")
            if name == path and facts.split(" ")[1] == "blob":
                return self.git("cat-file", "blob", facts.split(" ")[2])
        return None

    def patch(self, before: str, after: str) -> bytes:
        """Return the difference of two states as `git apply` takes it, binary files, modes and links included.

        Raises:
            Refused: it is larger than 32 MiB.
        """
        found = self.git(*_DIFF, "-p", "--binary", "--full-index", before, after)
        if len(found) > _MAX_WHOLE_PATCH_BYTES:
            raise Refused("the patch is larger than 32 MiB")
        return found

    def modes(self) -> dict[str, int]:
        """Return the permission bits of files that not everybody may read, as they were seen last."""
        with suppress(OSError, ValueError, TypeError):
            return dict(json.loads((self.folder / "lmtui.modes").read_text(encoding="utf-8")))
        return {}

    def git(self, *arguments: str, data: bytes = b"", more: dict[str, str] | None = None) -> bytes:
        """Run git on the store and return its output; `more` are additional environment variables.

        Raises:
            Refused: it failed; the text is its own.
        """
        environment = self._environment | (more or {})
        try:
            done = subprocess.run(
                [self._git, *arguments], input=data, capture_output=True, env=environment, cwd=environment["GIT_WORK_TREE"],
                timeout=_GIT_S, check=False, close_fds=False,  # none is inheritable; it starts quicker so
            )  # fmt: skip
        except subprocess.TimeoutExpired as error:
            raise Refused(f"the checkpoint store took more than {_GIT_S:.0f} s") from error
        if done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace").strip().splitlines()
            raise Refused(f"the checkpoint store failed: {said[-1] if said else done.returncode}")
        return done.stdout

    def _prepare(self) -> None:
        try:
            for name in ("objects", "refs", "info"):
                (self.folder / name).mkdir(parents=True, exist_ok=True)
            for name, text in _FILES.items():
                path = self.folder / name
                if not path.exists() or path.read_text(encoding="utf-8") != text:
                    path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise Refused(f"the checkpoint store cannot be used: {error.strerror or error}") from error

    def _touched(self) -> dict[str, bool]:
        """Return the paths that differ from the index, and whether it holds them; folders that are repositories end in `/`."""
        listed = self.git("ls-files", "-z", "-t", "-m", "-d", "-o", "--exclude-standard").decode("utf-8", "surrogateescape")
        found = {line[2:]: line[0] != "?" for line in listed.split("\0") if line}
        return {path: is_held for path, is_held in found.items() if not is_protected(path)}

    def can_hold(self, path: str, root: Root | None = None) -> bool:
        """Tell whether a state can hold what is at a path now, of the workspace or of another folder.

        Nothing at all counts, as it is a deletion.
        """
        fd = (root or self.root).fd
        if path.endswith("/") or _NOT_TEXT.search(path):
            return False
        try:
            info = os.stat(path, dir_fd=fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return True
        except OSError:
            return False
        if stat.S_ISLNK(info.st_mode):
            return True
        is_small = stat.S_ISREG(info.st_mode) and info.st_size <= self._max_file_bytes
        if (
            is_small and root is None and info.st_mode & 0o400
        ):  # bits that even its owner cannot read with are not worth restoring
            self._seen_modes[path] = stat.S_IMODE(info.st_mode)
        return is_small and os.access(path, os.R_OK, dir_fd=fd)

    def is_unkept(self, path: str) -> bool:
        """Tell whether a path is or contains something that no state can store (too large, unreadable, a pipe)."""
        try:
            info = os.stat(path, dir_fd=self.root.fd, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True  # its folder cannot be read
        if not stat.S_ISDIR(info.st_mode):
            return not self.can_hold(path)
        with suppress(OSError, Refused), self.root.opened(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW) as (folder, _):
            for inner, _, files, _ in os.fwalk(".", dir_fd=folder):
                if not all(self.can_hold(posixpath.normpath(f"{path}/{inner}/{name}")) for name in files):
                    return True
        return False

    def _is_folder(self, path: str) -> bool:
        try:
            return stat.S_ISDIR(os.stat(path, dir_fd=self.root.fd, follow_symlinks=False).st_mode)
        except OSError:
            return False

    def not_a_folder_above(self, path: str) -> str | None:
        """Return the first link or file in the place of a folder above a path."""
        for above in (path[:at] for at, char in enumerate(path) if char == "/"):
            try:
                mode = os.stat(above, dir_fd=self.root.fd, follow_symlinks=False).st_mode
            except OSError:
                return None
            if not stat.S_ISDIR(mode):
                return above
        return None

    def _remember_modes(self) -> None:
        """Keep the bits of files that are more private than git can tell; those of a file that is gone stay known."""
        before = self.modes()
        after = {path: mode for path, mode in before.items() if path not in self._seen_modes}
        after |= {path: mode for path, mode in self._seen_modes.items() if mode & 0o044 != 0o044}
        if after != before:
            (self.folder / "lmtui.modes").write_text(json.dumps(after), encoding="utf-8")

    def _last_tree(self) -> str:
        """Return the last state of the whole workspace, empty where there is none."""
        try:
            lines = (self.folder / "lmtui.snapshots").read_text(encoding="ascii").splitlines()
        except (OSError, ValueError):
            return ""
        return next((line.partition(" ")[2] for line in reversed(lines) if not line.endswith(_APART)), "")

    def remember(self, tree: str, *, is_apart: bool = False) -> None:
        """Note a state, so that it is kept for its time; one that `is_apart` never was that of the whole workspace."""
        with (self.folder / "lmtui.snapshots").open("a", encoding="ascii") as file:
            file.write(f"{time.time():.0f} {tree}{_APART if is_apart else ''}\n")

    def _keep_only(self, lines: list[str]) -> None:
        draft = self.folder / "lmtui.snapshots.new"
        draft.write_text("".join(f"{line}\n" for line in lines), encoding="ascii")
        draft.replace(self.folder / "lmtui.snapshots")
        trees = sorted({line.split(" ")[1] for line in lines})
        refs = self.folder / "packed-refs"
        refs.write_text("".join([_REFS_HEADER, *(f"{tree} refs/kept/{tree}\n" for tree in trees)]), encoding="ascii")
        self.git("repack", "-a", "-d", "-q")
        self.git("prune", "--expire=now")
        refs.unlink()

    def _size_bytes(self) -> int:
        counted = dict(line.split(": ", 1) for line in self.git("count-objects", "-v").decode().splitlines())
        return (int(counted.get("size", 0)) + int(counted.get("size-pack", 0))) << 10

    def _patches(self, before: str, after: str, limits: list[str]) -> Iterator[str]:
        """Yield the patch of each file in git's order, without git's own header lines; empty past a whole size."""
        whole = self.git(*_DIFF, "-p", before, after, *limits)[:_MAX_PATCH_BYTES].decode("utf-8", "replace")
        for section in ("\n" + whole).split("\ndiff --git ")[1:]:
            start = section.find("\n--- ")
            yield "" if start < 0 else section[start + 1 :].rstrip("\n") + "\n"


def _listed(paths: list[str]) -> bytes:
    """Return paths as git reads them with `-z --stdin`."""
    return "".join(f"{path}\0" for path in paths).encode("utf-8", "surrogateescape")
