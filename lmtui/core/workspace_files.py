"""What front ends may ask of the workspace's files: to list, read and find them, and to be told when folders change."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from lmtui.core.rules import Rule
from lmtui.core.workspace import DirEntry, FileChange, FileContent

MAX_PATHS = 200_000
MAX_SHOWN_BYTES = 16_777_216


class GitState(StrEnum):
    """How a file stands to the last commit; a folder that is untracked or ignored as a whole stands for all below it."""

    MODIFIED = "modified"
    ADDED = "added"
    DELETED = "deleted"
    RENAMED = "renamed"
    CONFLICTED = "conflicted"
    UNTRACKED = "untracked"
    IGNORED = "ignored"


@dataclass(frozen=True, slots=True)
class FoldersChanged:
    """Something changed in folders that are watched; `""` is the workspace itself.

    `has_git_changed`: git's own state did (a commit, a staged file).  `problem` says why folders are not watched any more.
    """

    folders: frozenset[str] = frozenset()
    has_git_changed: bool = False
    problem: str = ""


FolderListener = Callable[[FoldersChanged], None]


class Files(Protocol):
    """The files of a workspace, seen through its sandbox: no link that leads out is followed.

    All paths are relative to the workspace, raw as they are on the disk: what shows one cleans it first.  The coroutines
    raise `SandboxError` with a text fit for the user.
    """

    async def paths(self) -> Sequence[str]:
        """Return every file that ignore rules do not leave out, at most `MAX_PATHS`."""

    @property
    def paths_note(self) -> str:
        """Return what the paths returned last leave out, in words, else an empty string."""

    async def unmatched(self, rules: Sequence[Rule]) -> Sequence[Rule]:
        """Return the rules about paths that match no file or folder, ignored ones included."""

    async def git_status(self) -> Mapping[str, GitState]:
        """Return what git tells of files that differ or are ignored; nothing where there is no repository."""

    async def git_changes(self) -> Sequence[FileChange]:
        """Return what differs from the last commit, untracked files too, by path; at most 500 files."""

    async def list(self, path: str) -> Sequence[DirEntry]:
        """List one folder, folders first; `""` is the workspace itself."""

    async def read(self, path: str, max_bytes: int = MAX_SHOWN_BYTES) -> FileContent:
        """Return a file's bytes from the start, at most 16 MiB, and its whole size."""

    async def real_path(self, path: str) -> Path:
        """Return where a file really is on this machine, for a program of the user's; it is below the workspace."""

    def changed(self, listener: FolderListener) -> Callable[[], None]:
        """Call `listener` on the event loop when watched folders changed, at most five times a second; the result ends it."""

    def watch(self, folders: Iterable[str]) -> None:
        """Watch just these folders (not what is below them) from now on, and git's state."""
