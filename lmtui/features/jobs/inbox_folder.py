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
    """The inbox of one workspace.

    Args:
        folder: where the files are; it need not be there.
        add: makes a job of a text; the second is unique to the file, and adding it twice makes one job.  Raises `JobsError`.
        may_read: tells whether this folder's tasks are the user's: what an untrusted workspace brings is nobody's task.
        on_problem: gets a line for the user, once.
        monotonic: seconds on a clock that only goes forward.
    """

    def __init__(
        self,
        folder: Path,
        add: Callable[[str, str], object],
        may_read: Callable[[], bool],
        on_problem: Callable[[str], object],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._add = add
        self.may_read = may_read
        self._on_problem = on_problem
        self._monotonic = monotonic
        self._waiting: dict[str, tuple[_Signature, float]] = {}
        self._told: set[str] = set()
        self._stuck: dict[str, tuple[int, ...]] = {}

    def has_news(self) -> bool:
        """Tell whether a file lies there that was not dealt with."""
        return bool(self._names()) and (self.may_read() or "untrusted" not in self._told)

    def take(self) -> None:
        """Make jobs of the files that are whole, in the order of their names.

        Raises:
            JobsError: a job could not be added; its file stays.
        """
        names = self._names()
        self._waiting = {name: seen for name, seen in self._waiting.items() if name in names}
        if names and not self.may_read():
            count = f"{len(names)} tasks wait" if len(names) > 1 else "1 task waits"
            self._tell("untrusted", f"{count} in .lmagent/inbox: this folder's inbox is not trusted (lmtui trust)")
            return
        for name in names:
            self._take(self._folder / name)

    def _names(self) -> list[str]:
        try:
            with own_folder(self._folder) as folder, os.scandir(folder) as entries:
                names = [entry.name for entry in entries]
        except OSError:
            return []
        return sorted(name for name in names if name.endswith(SUFFIX) and not name.startswith(".") and not self._is_stuck(name))

    def _is_stuck(self, name: str) -> bool:
        """Tell whether a file was dealt with as far as that goes, stays all the same, and is the same as then."""
        if name in self._stuck and self._stuck[name] != _state(self._folder / name):
            del self._stuck[name]
        return name in self._stuck

    def _take(self, path: Path) -> None:
        try:
            signature, text = self._read(path)
        except FileNotFoundError:
            return
        except (OSError, ValueError) as error:
            self._fail(path, str(error) if isinstance(error, ValueError) else error.strerror or "it cannot be opened")
            return
        if text:
            digest = hashlib.sha256(repr((signature, text)).encode()).hexdigest()
            self._add(text, f"inbox {_as_text(path.name)} {digest[:16]}")
            self._remove(path, signature)

    def _remove(self, path: Path, signature: _Signature) -> None:
        """Let a file go whose job is in the table; where somebody has put another there, that one comes next."""
        try:
            with own_folder(self._folder) as folder:
                if _signature(os.lstat(path.name, dir_fd=folder)) == signature:
                    os.unlink(path.name, dir_fd=folder)
        except FileNotFoundError:
            return
        except OSError as error:
            self._stuck[path.name] = _state(path)
            self._tell_of(path, f"is a job by now, but stays: {sanitize_line(error.strerror or 'it cannot be removed')}")

    def _read(self, path: Path) -> tuple[_Signature, str]:
        """Return a file's text, an empty one while it may still grow.

        Raises:
            OSError: it cannot be read.
            ValueError: it is not text; the message says why.
        """
        with open(path, "rb", buffering=0, opener=open_own) as file:
            found = os.fstat(file.fileno())
            signature = _signature(found)
            if not self._is_quiet(path.name, signature):
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

    def _is_quiet(self, name: str, signature: _Signature) -> bool:
        """Tell whether a file has been the same for a while."""
        seen, since_s = self._waiting.get(name, (None, 0.0))
        if seen != signature:
            self._waiting[name] = signature, self._monotonic()
            return False
        return self._monotonic() - since_s >= QUIET_S

    def _fail(self, path: Path, why: str) -> None:
        failed = path.with_suffix(".failed")
        try:
            with own_folder(self._folder) as folder:
                os.rename(path.name, failed.name, src_dir_fd=folder, dst_dir_fd=folder)
        except OSError:
            self._stuck[path.name] = _state(path)
            why = f"{why}, and it cannot be put aside"
        else:  # what fails here is told in any case
            with contextlib.suppress(OSError), open(f"{failed}.txt", "w", encoding="utf-8", opener=open_own) as file:
                file.write(f"{why}\n")
        self._tell_of(path, f"is not a task: {sanitize_line(why)}")

    def _tell_of(self, path: Path, text: str) -> None:
        self._tell(path.name, f".lmagent/inbox/{sanitize_line(_as_text(path.name))} {text}")

    def _tell(self, what: str, text: str) -> None:
        if what not in self._told:
            self._told.add(what)
            self._on_problem(text)


def _as_text(name: str) -> str:
    """Return a file's name as text, whatever its bytes are."""
    return os.fsencode(name).decode("utf-8", "replace")


def _state(path: Path) -> tuple[int, ...]:
    """Return what is another once a file, or who may do what with it, is."""
    try:
        found = path.lstat()
    except OSError:
        return ()
    return (*_signature(found), found.st_ctime_ns)


def _signature(found: os.stat_result) -> _Signature:
    return found.st_ino, found.st_size, found.st_mtime_ns
