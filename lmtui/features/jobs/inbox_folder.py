"""`.lmagent/inbox/`: other programs leave tasks there as plain text, `NAME.task`; each becomes one job.

A file goes only once its job is in the table, a growing one is waited for, one that cannot be read becomes `NAME.failed` with
the reason in `NAME.failed.txt` next to it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import time
from collections.abc import Callable
from pathlib import Path

from lmtui.core.sanitize import sanitize_line
from lmtui.features.jobs.values import MAX_TEXT_CHARS
from lmtui.plain_files import open_own, own_folder

SUFFIX = ".task"
QUIET_S = 1.0
_MOST_BYTES = 4 * MAX_TEXT_CHARS
_Signature = tuple[int, int, int]


class InboxFolder:
    """The inbox of one workspace; `problems` are lines for the user, which who reads them takes out.

    Args:
        folder: where the files are; it need not be there.
        add: makes a job of a text; the second is unique to the file, and adding it twice makes one job.  Raises `JobsError`.
        may_read: tells whether this folder's tasks are the user's: what an untrusted workspace brings is nobody's task.
    """

    def __init__(self, folder: Path, add: Callable[[str, str], object], may_read: Callable[[], bool]) -> None:
        self._folder, self._add, self.may_read = folder, add, may_read
        self.problems: list[str] = []
        self._has_warned = False  # that the folder is untrusted
        self._ignored: set[tuple[str | int, ...]] = set()  # files that cannot be moved, as they were then

    def has_news(self) -> bool:
        """Tell whether a file lies there that was not dealt with."""
        return bool(self._names()) and (self.may_read() or not self._has_warned)

    def take(self) -> None:
        """Make jobs of the files that are whole, in the order of their names.

        Raises:
            JobsError: a job could not be added; its file stays.
        """
        names = self._names()
        if names and not self.may_read():
            if not self._has_warned:
                count = f"{len(names)} tasks wait" if len(names) > 1 else "1 task waits"
                self.problems.append(f"{count} in .lmagent/inbox: this folder's inbox is not trusted (lmtui trust)")
            self._has_warned = True
            return
        for name in names:
            self._take(self._folder / name)

    def _names(self) -> list[str]:
        try:
            with own_folder(self._folder) as folder, os.scandir(folder) as entries:
                names = [entry.name for entry in entries if entry.name.endswith(SUFFIX) and not entry.name.startswith(".")]
        except OSError:
            return []
        return sorted(name for name in names if _state(self._folder / name) not in self._ignored)

    def _take(self, path: Path) -> None:
        try:
            signature, text = _read(path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._fail(path, str(error) if isinstance(error, ValueError) else error.strerror or "it cannot be opened")
            return
        if not text:
            return
        digest = hashlib.sha256(repr((signature, text)).encode()).hexdigest()
        self._add(text, f"inbox {_as_text(path.name)} {digest[:16]}")
        try:
            with own_folder(self._folder) as folder:
                if _signature(os.lstat(path.name, dir_fd=folder)) == signature:  # else another file comes next
                    os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._ignored.add(_state(path))
            self._tell(path, f"was added as a job, but not deleted: {sanitize_line(error.strerror or 'it cannot be removed')}")

    def _fail(self, path: Path, why: str) -> None:
        failed = path.with_suffix(".failed")
        try:
            with own_folder(self._folder) as folder:
                os.rename(path.name, failed.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            self._ignored.add(_state(path))
            why = f"{why}, and it cannot be renamed"
        else:  # what fails here is told in any case
            with contextlib.suppress(OSError), open(f"{failed}.txt", "w", encoding="utf-8", opener=open_own) as file:
                file.write(f"{why}\n")
        self._tell(path, f"is not a task: {sanitize_line(why)}")

    def _tell(self, path: Path, text: str) -> None:
        self.problems.append(f".lmagent/inbox/{sanitize_line(_as_text(path.name))} {text}")


def _read(path: Path) -> tuple[_Signature, str]:
    """Return a file's text, an empty one while it may still grow: where it was written to within the last second.

    Raises:
        OSError: it cannot be read.
        ValueError: it is not text; the message says why.
    """
    with open(path, "rb", buffering=0, opener=open_own) as file:
        found = os.fstat(file.fileno())
        signature = _signature(found)
        if abs(time.time() - found.st_mtime) < QUIET_S:
            return signature, ""
        if found.st_size > _MOST_BYTES:
            raise ValueError(f"it is larger than {_MOST_BYTES} bytes")
        data = os.read(file.fileno(), _MOST_BYTES)
    try:
        text = data.decode("utf-8-sig").strip()
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error
    if not text:
        raise ValueError("it is empty")
    if len(text) > MAX_TEXT_CHARS:
        raise ValueError(f"it has more than {MAX_TEXT_CHARS} characters")
    return signature, text


def _as_text(name: str) -> str:
    """Return a file's name as text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "replace")


def _state(path: Path) -> tuple[str | int, ...]:
    """Return what is another once a file, or who may do what with it, is."""
    try:
        found = path.lstat()
    except OSError:
        return (path.name,)
    return (path.name, *_signature(found), found.st_ctime_ns)


def _signature(found: os.stat_result) -> _Signature:
    return found.st_ino, found.st_size, found.st_mtime_ns
