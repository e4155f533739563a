"""What happens to files, as events; see `core.events` for what holds of all of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from lmtui.core.events import Event
from lmtui.core.workspace import FileChange


def step_id(seq: int) -> str:
    """Return the id of the step that the event with this place in its session tells of."""
    return f"step_{seq}"


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesChanged(Event):
    """Files of the workspace changed through a tool call.  `files` are their paths, `changes` says more of each.

    `before` and `after` are the checkpoints around the call, empty where none could be made: then it cannot be undone.
    """

    kind: ClassVar[str] = "files_changed"
    call_id: str
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointCreated(Event):
    """The state of the workspace was kept before a tool call that may change files.

    `checkpoint` is its id (the hash of a git tree), `left_out` names files that it does not hold (too large, or repositories
    of their own), at most 50 of `left_out_total`.
    """

    kind: ClassVar[str] = "checkpoint_created"
    call_id: str
    checkpoint: str
    left_out: tuple[str, ...] = ()
    left_out_total: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesRestored(Event):
    """The user put files back.  `action` is undo, redo, restore or rewind; `calls` are the steps it is about (`step_id`)."""

    kind: ClassVar[str] = "files_restored"
    action: str
    calls: tuple[str, ...]
    files: tuple[str, ...]
    changes: tuple[FileChange, ...] = ()
    before: str = ""
    after: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewound(Event):
    """The conversation goes on from before turn `turn_id`: it and what came after it is no longer sent to the model."""

    kind: ClassVar[str] = "rewound"
    turn_id: str
