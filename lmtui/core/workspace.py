"""What tools and front ends see of a workspace through its sandbox: values only, all paths relative to its root."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from enum import StrEnum
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Protocol

from lmtui.core.errors import SandboxError
from lmtui.core.line_diff import hunk_spans
from lmtui.core.remote_marks import kept_back, mirrored, open_to_network
from lmtui.core.sanitize import pluralize, sanitize_line, sanitize_path


@dataclass(frozen=True, slots=True)
class BackgroundCommand:
    """A command that stays; it runs while `exit_code` is None.  `why` tells how it ended where that was not by itself."""

    id: str
    command: str
    elapsed_s: float
    exit_code: int | None = None
    why: str = ""

    @property
    def state(self) -> str:
        """Return how it is, in a few words."""
        if self.exit_code is None:
            return f"running for {self.elapsed_s:.0f} s"
        return f"{self.why or f'ended, exit code {self.exit_code}'} after {self.elapsed_s:.0f} s"


class BackgroundCommands(Protocol):
    """Commands that stay, of one session; all methods raise `SandboxError` without a such command."""

    @kept_back
    def watch(self, on_change: Callable[[], None]) -> None:
        """Call `on_change` whenever one starts or ends."""

    @open_to_network
    @mirrored
    def commands(self) -> Sequence[BackgroundCommand]:
        """Return all that were started, the oldest first."""

    async def start(self, command: str) -> BackgroundCommand:
        """Start a command; it ends with the session at the latest."""

    @open_to_network
    async def read(self, identity: str, wait_s: float = 0.0) -> tuple[str, BackgroundCommand]:
        """Return what a command said since the last time; with `wait_s`, wait so long for something or for its end."""

    async def send(self, identity: str, text: str) -> None:
        """Send a command input."""

    @open_to_network
    async def stop(self, identity: str) -> BackgroundCommand:
        """Stop a command and all that it started; one that has ended is left as it is."""

    @kept_back
    async def close(self) -> None:
        """Stop all of them."""


@dataclass(frozen=True, slots=True)
class DirEntry:
    """One entry of a folder.

    `path` is relative to the workspace with `/`, in an added folder absolute; `kind` is file, dir, link or other.
    """

    path: str
    kind: str
    size_bytes: int = 0


@dataclass(frozen=True, slots=True)
class ExecResult:
    """How a command ended.

    `output` is stdout and stderr together, decoded and cleaned, head and tail kept where it was long; `total_bytes` is what
    the command wrote in all; `saved_path` names the file inside the sandbox with more of it, if it was cut.  `data` is what it
    wrote as it is, empty if it was cut.  `exit_code` is 124 after a timeout and 137 when killed (by memory too).
    `quarantined` are paths that were moved to `.lmagent/quarantine` or put back, because programs outside would run them;
    `notable` those that other programs read as instructions or settings.  `notes` are for people and models: what lmtui has to
    say of the command, which is never part of the output.
    """

    exit_code: int
    output: str
    total_bytes: int
    elapsed_ms: int
    is_timed_out: bool = False
    saved_path: str = ""
    quarantined: tuple[str, ...] = ()
    notable: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    data: bytes = b""

    def entries(self) -> list[str]:
        """Return what git listed with `-z`; nothing where it failed.

        Raises:
            SandboxError: it is too long to be read.
        """
        if not self.data and self.total_bytes:
            raise SandboxError("git lists more than lmtui reads at once")
        return [each.decode("utf-8", "replace") for each in self.data.split(b"\0") if each] if not self.exit_code else []

    @property
    def text(self) -> str:
        """Return the output with the notes, to be shown."""
        return "\n".join(filter(None, (self.output.rstrip("\n"), *self.notes)))


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one command may take: seconds (by default, and at most where the model asks for more), memory, file sizes.

    `processes` (threads count) is for all commands of a workspace at once.  `tmp_mb` is the size of the private /tmp, where the
    home folder and all caches are.
    """

    timeout_s: int = 120
    max_timeout_s: int = 600
    memory_mb: int = 2048
    processes: int = 1024
    tmp_mb: int = 1024
    file_mb: int = 4096


@dataclass(frozen=True, slots=True)
class FileContent:
    """A file: its bytes (from the start, at most what was asked for), its whole size, permission bits and a content hash.

    `sha256` is over the whole file and empty where the file is larger than what was read.
    """

    data: bytes
    size_bytes: int
    mode: int
    sha256: str


@dataclass(frozen=True, slots=True)
class GrepMatch:
    """One line found: `line` counts from 1; `is_context` marks lines around a match."""

    path: str
    line: int
    text: str
    is_context: bool = False


@dataclass(frozen=True, slots=True)
class SandboxStatus:
    """What runs the tools and what it isolates; `facts` is one line each for the user.

    `asks_each_command`: it is so weak that every shell command asks, whatever the mode and the rules say, unless the user
    named it.  `is_read_only`: a test from inside showed that nothing in the workspace can be changed.  `has_read_only`: there
    is an instance in which commands cannot change anything.  `masks_git`: a masked file is in git's objects too, so commands
    that only read do not see these.  `folder` is the workspace as commands see it.
    With `is_overlay` nothing that is changed there is real, and rules are checked when it is kept.
    """

    backend: str
    network: str
    text: str
    has_shell: bool
    is_weaker: bool = False
    reason: str = ""
    facts: tuple[str, ...] = ()
    asks_each_command: bool = False
    is_read_only: bool = False
    has_read_only: bool = False
    has_overlays: bool = False
    is_overlay: bool = False
    masks_git: bool = False
    folder: str = ""


class FileChangeKind(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file: `path` relative to the workspace, line counts, and a unified diff (empty for binary).

    A diff that is longer than 64 KiB `is_cut`.  The file is not `is_kept` if no checkpoint can store its new state (too large,
    unreadable, a pipe); the old state is stored.
    """

    path: str
    kind: FileChangeKind
    added_lines: int = 0
    removed_lines: int = 0
    diff: str = ""
    is_kept: bool = True
    is_cut: bool = False


MAX_PATHS = 200_000
MAX_SHOWN_BYTES = 16_777_216


class GitState(StrEnum):
    """How a file is to the last commit; a folder that is untracked or ignored as a whole means all below it."""

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

    @open_to_network
    async def paths(self) -> Sequence[str]:
        """Return every file that ignore rules do not leave out, at most `MAX_PATHS`."""

    @property
    @open_to_network
    def paths_note(self) -> str:
        """Return what the paths returned last leave out, in words, else an empty string."""

    @open_to_network
    async def git_status(self) -> Mapping[str, GitState]:
        """Return what git tells of files that differ or are ignored; nothing without a repository."""

    @open_to_network
    async def git_changes(self) -> Sequence[FileChange]:
        """Return what differs from the last commit, untracked files too, by path; at most 500 files."""

    @open_to_network
    async def list(self, path: str) -> Sequence[DirEntry]:
        """List one folder, folders first; `""` is the workspace itself."""

    @open_to_network
    async def read(self, path: str, max_bytes: int = MAX_SHOWN_BYTES) -> FileContent:
        """Return a file's bytes from the start, at most 16 MiB, and its whole size."""

    async def real_path(self, path: str) -> Path:
        """Return where a file really is on this machine, for a program of the user's; it is below the workspace."""

    @open_to_network
    def changed(self, listener: FolderListener) -> Callable[[], None]:
        """Call `listener` on the event loop when watched folders changed, at most five times a second; the result ends it."""

    @open_to_network
    def watch(self, folders: Iterable[str]) -> None:
        """Watch just these folders (not what is below them) from now on, and git's state."""


_MOST_LINES = 20
EFFECT_TOOL = "effect"  # the name that a question about what a command did has


class EffectKind(StrEnum):
    """What happened to a file or folder in an overlay."""

    DELETED = "deleted"
    CHANGED = "changed"
    RENAMED = "renamed"
    CREATED = "created"


_EFFECT_KINDS = {
    FileChangeKind.DELETED: EffectKind.DELETED,
    FileChangeKind.MODIFIED: EffectKind.CHANGED,
    FileChangeKind.ADDED: EffectKind.CREATED,
}


@dataclass(frozen=True, slots=True)
class EffectPart:
    """One file of an effect, or a folder (its path ends in `/`).

    `hunks` is how many hunks of the unified `diff` can be kept one by one, 1 where it is all or nothing: then the diff may be
    empty.  `source` is the former path of a renamed file.  `size_bytes` is the size of the new content, or of a deleted file.
    Not `is_tracked`: git does not track the deleted or changed file.  `mode` has the permission bits if they changed or are
    unusual, else 0.  `is_cut`: the diff is longer than what is shown.
    """

    path: str
    kind: EffectKind
    diff: str = ""
    hunks: int = 1
    added_lines: int = 0
    removed_lines: int = 0
    size_bytes: int = 0
    source: str = ""
    is_tracked: bool = True
    mode: int = 0
    is_cut: bool = False


def units_of(parts: Iterable[EffectPart]) -> tuple[range, ...]:
    """Return the units of each part: the hunks of all parts one after another, counted from 0."""
    ends = [0, *accumulate(part.hunks for part in parts)]
    return tuple(range(start, end) for start, end in pairwise(ends))


def kept_text(parts: Sequence[EffectPart], units: Collection[int]) -> str:
    """Return how many parts some units keep, at least in part."""
    return f"kept {sum(any(unit in units for unit in own) for own in units_of(parts))} of {len(parts)}"


_VERBS = {
    EffectKind.DELETED: "deletes", EffectKind.CHANGED: "changes", EffectKind.RENAMED: "renames", EffectKind.CREATED: "creates",
}  # fmt: skip


def part_line(part: EffectPart) -> str:
    """Return what an effect does to a file or folder, in words."""
    counts = f"  +{part.added_lines} -{part.removed_lines}" if part.added_lines or part.removed_lines else ""
    mode = f"  mode {part.mode:o}" if part.mode else ""
    source = f"{sanitize_path(part.source)} to " if part.source else ""
    cut = "  (the end of its diff is not shown)" if part.is_cut else ""
    return f"{_VERBS[part.kind]} {source}{sanitize_path(part.path)}{counts}{mode}{cut}"


@dataclass(frozen=True, slots=True)
class EffectChoice:
    """The kept part of an effect: whole paths, some hunks (from 0) of the files in `hunks`, and folders."""

    paths: tuple[str, ...]
    hunks: Mapping[str, tuple[int, ...]]
    made: tuple[str, ...]
    removed: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class CommandEffect:
    """What commands did in an overlay: `before` and `after` name the states of the touched paths alone.

    `special` are files that cannot be kept (at most 50 of `special_total`).  Of folders without files, `made` are new,
    `emptied` had some, and `removed` are gone.  `caches` counts the folders in which only caches changed; those are dropped.
    `renamed` has the former paths of files that moved as they are, by their new ones; `sizes` are in bytes, `modes` the
    permission bits that are others than before.
    """

    before: str
    after: str
    changes: tuple[FileChange, ...] = ()
    special: tuple[str, ...] = ()
    special_total: int = 0
    made: tuple[str, ...] = ()
    emptied: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    caches: int = 0
    renamed: Mapping[str, str] = field(default_factory=dict)
    sizes: Mapping[str, int] = field(default_factory=dict)
    modes: Mapping[str, int] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """Tell whether nothing would be different."""
        return not (self.changes or self.special_total or self.made or self.removed)

    @property
    def can_keep(self) -> bool:
        """Tell whether anything of it can be kept."""
        return bool(self.changes or self.made or self.removed)

    def split(self, paths: Collection[str]) -> tuple[CommandEffect, CommandEffect]:
        """Return the part of it that is about some paths, and the rest."""

        def part(*, is_chosen: bool) -> CommandEffect:
            special = tuple(path for path in self.special if (path in paths) is is_chosen)
            return replace(
                self,
                changes=tuple(each for each in self.changes if (each.path in paths) is is_chosen),
                special=special,
                special_total=len(special) + (0 if is_chosen else self.special_total - len(self.special)),
                made=tuple(path for path in self.made if (path in paths) is is_chosen),
                removed=tuple(path for path in self.removed if (path in paths) is is_chosen),
                renamed={new: old for new, old in self.renamed.items() if {new in paths, old in paths} == {is_chosen}},
            )

        return part(is_chosen=True), part(is_chosen=False)

    @property
    def ordered(self) -> list[FileChange]:
        """Return the changes, what is deleted first."""
        return sorted(self.changes, key=lambda each: (each.kind is not FileChangeKind.DELETED, each.path))

    @property
    def paths(self) -> tuple[str, ...]:
        """Return the paths that can be kept, what is deleted first."""
        return tuple(each.path for each in self.ordered)

    def lines(self) -> list[str]:
        """Return what would be different in words, at most 20 parts, what is deleted first."""
        parts = self.parts
        lines = [part_line(part) for part in parts[:_MOST_LINES]]
        left = len(parts) - _MOST_LINES
        lines += [f"and {pluralize(left, 'more file')}"] if left > 0 else []
        return [*lines, *(f"cannot be kept: {sanitize_line(path).strip()}" for path in self.special[:_MOST_LINES])]

    @property
    def parts(self) -> tuple[EffectPart, ...]:
        """Return what can be kept one by one: what is deleted first, then what is changed, renamed and created."""
        found = [*self._file_parts(), *(EffectPart(f"{path}/", EffectKind.CREATED) for path in self.made)]
        deleted = [each.path for each in self.changes if each.kind is FileChangeKind.DELETED]
        bare = (folder for folder in self.removed if not any(path.startswith(f"{folder}/") for path in deleted))
        found += [EffectPart(f"{path}/", EffectKind.DELETED) for path in bare]  # the others go with their files
        order = list(EffectKind)
        return tuple(sorted(found, key=lambda part: (order.index(part.kind), part.path)))

    def _file_parts(self) -> Iterator[EffectPart]:
        sources = frozenset(self.renamed.values())
        for each in self.changes:
            kind = EffectKind.RENAMED if each.path in self.renamed else _EFFECT_KINDS[each.kind]
            if each.path in sources:
                continue
            is_divisible = kind is EffectKind.CHANGED and not each.is_cut
            hunks = max(1, len(hunk_spans(each.diff))) if is_divisible else 1
            size, source = self.sizes.get(each.path, 0), self.renamed.get(each.path, "")
            diff = "" if source else each.diff
            part = EffectPart(each.path, kind, diff, hunks, each.added_lines, each.removed_lines, size, source)
            yield replace(part, mode=self.modes.get(each.path, 0), is_cut=each.is_cut)

    def chosen(self, units: Collection[int] | None) -> EffectChoice:
        """Return what is kept with some units (see `units_of`), all with None."""
        if units is None:
            return EffectChoice(self.paths, {}, (*self.made, *self.emptied), self.removed)
        paths: list[str] = []
        some: dict[str, tuple[int, ...]] = {}
        folders: list[str] = []
        parts = self.parts
        for part, own in zip(parts, units_of(parts), strict=True):
            hunks = tuple(number for number, unit in enumerate(own) if unit in units)
            if not hunks:
                continue
            (folders if part.path.endswith("/") else paths).append(part.path)
            paths += [part.source] if part.source else []
            if len(hunks) < part.hunks:
                some[part.path] = hunks
        made = [path for path in self.made if f"{path}/" in folders]
        is_going = [
            path for path in self.removed if f"{path}/" in folders or any(each.startswith(f"{path}/") for each in paths)
        ]
        return EffectChoice(tuple(paths), some, (*made, *self.emptied), tuple(is_going))


class EffectReview(Protocol):
    """The effect in an overlay, to be kept or dropped part by part.  All methods raise `SandboxError`."""

    @open_to_network
    async def parts(self) -> Sequence[EffectPart]:
        """Return the parts of the effect as it is now: deleted first, then changed, renamed and created."""

    @open_to_network
    async def keep(self, units: Sequence[int] | None) -> Sequence[str]:
        """Keep some units (hunks of all parts returned last, counted from 0), or all with None; return notes."""

    @open_to_network
    async def drop(self) -> None:
        """Drop everything that is not kept."""


@dataclass(frozen=True, slots=True)
class Step:
    """One tool call that changed files.  `is_undone`: it was taken back.  `can_undo`: its checkpoints are there."""

    id: str
    turn_id: str
    tool: str
    title: str
    time: datetime
    changes: tuple[FileChange, ...]
    is_undone: bool = False
    can_undo: bool = True


@dataclass(frozen=True, slots=True)
class Restoration:
    """What an undo, a redo or a restore would do, shown first and then applied unchanged.

    `changes` are what it would change (an added file is one that comes back); `conflicts` are files changed since by another
    hand: with any of them it is refused.  `left_out` are files that the checkpoints never stored.  `unkept` are those of
    `changes` whose current content no checkpoint can store, so it is lost.  For a single hunk `path` is the file, `before` its
    whole text and `text` what it becomes.
    """

    action: str
    calls: tuple[str, ...]
    changes: tuple[FileChange, ...]
    conflicts: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    source: str = ""
    expected: str = ""
    turn_id: str = ""
    path: str = ""
    before: str = ""
    text: str = ""
    unkept: tuple[str, ...] = ()


class Changes(Protocol):
    """What a session changed, and the ways back.  The plans change nothing; `apply` does.

    All but `steps` raise `SandboxError` with a text fit for the user.
    """

    @open_to_network
    def steps(self) -> Sequence[Step]:
        """Return every step that changed files, oldest first."""

    @open_to_network
    async def total(self) -> tuple[FileChange, ...]:
        """Return the difference between the session's beginning and now, by file."""

    @open_to_network
    async def of_turn(self, turn_id: str) -> tuple[FileChange, ...]:
        """Return the difference between a turn's first step and its last, by file; what was taken back does not count."""

    @open_to_network
    async def plan_undo(self, count: int = 1) -> Restoration:
        """Plan to take back the last steps that are not taken back yet."""

    @open_to_network
    async def plan_redo(self, count: int = 1) -> Restoration:
        """Plan to do again what was taken back last."""

    @open_to_network
    async def plan_restore(self, step_id: str, path: str, hunk: int | None = None) -> Restoration:
        """Plan to put one file back to what it was before a step, or only one hunk (from 0) of that step's change to it."""

    @open_to_network
    async def plan_rewind(self, turn_id: str) -> Restoration:
        """Plan to put back all files to what they were before a turn."""

    @open_to_network
    async def apply(self, plan: Restoration, *, with_files: bool = True) -> None:
        """Do what a plan says; for a rewind the conversation goes back too, and the files only with `with_files`."""
