"""What tools and front ends see of a workspace through its sandbox: values only, all paths relative to its root."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


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
    the command wrote in all; `saved_path` names the file inside the sandbox with more of it, if it was cut.  `exit_code` is
    124 after a timeout and 137 when killed (by memory too).  `changed` are workspace paths changed meanwhile, as far as known.
    `quarantined` are paths that were moved to `.lmagent/quarantine` or put back, because programs outside would run them;
    `notable` those that other programs read as instructions or settings.  Both are also said at the end of the output.
    """

    exit_code: int
    output: str
    total_bytes: int
    elapsed_ms: int
    is_timed_out: bool = False
    saved_path: str = ""
    changed: tuple[str, ...] = ()
    quarantined: tuple[str, ...] = ()
    notable: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CommandLimits:
    """What one command may take: seconds (by default, and at most where the model asks for more), memory, file sizes.

    `cores` and `processes` (threads count) are for all commands of a workspace at once; 0 cores means all of them.  `tmp_mb`
    is the size of the private /tmp, where the home folder and all caches are.
    """

    timeout_s: int = 120
    max_timeout_s: int = 600
    memory_mb: int = 2048
    cores: int = 0
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
    that only read do not see these.  `folder` is the workspace as commands see it.  `warnings` are what the user can mend.
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
    masks_git: bool = False
    folder: str = ""
    warnings: tuple[str, ...] = ()


class FileChangeKind(StrEnum):
    """What happened to a file."""

    ADDED = "added"
    MODIFIED = "modified"
    DELETED = "deleted"


@dataclass(frozen=True, slots=True)
class FileChange:
    """One changed file: `path` relative to the workspace, line counts, and a unified diff (cut at 64 KiB, empty for binary).

    It is not `is_kept` if no checkpoint can store its new state (too large, unreadable, a pipe); the old state is stored.
    """

    path: str
    kind: FileChangeKind
    added_lines: int = 0
    removed_lines: int = 0
    diff: str = ""
    is_kept: bool = True
