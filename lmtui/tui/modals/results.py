"""What dialogs give back."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmtui.core.sessions import Answer


class Dismissed(StrEnum):
    """How an approval was left without an answer."""

    LATER = "later"
    TYPING = "typing"
    STOP = "stop"


@dataclass(frozen=True, slots=True)
class AllAnswered:
    """One answer to several approvals, each of which was shown: once or no."""

    approval_ids: tuple[str, ...]
    answer: Answer


class Chosen(StrEnum):
    """What the first screen led to."""

    SERVER = "server"
    DEMO = "demo"


@dataclass(frozen=True, slots=True)
class Picked:
    """What was decided about sessions: an id, or an empty one for a new session."""

    session_id: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One line to choose: `id` is the result, `text` is shown and searched, `note` is dim next to it."""

    id: str
    text: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class GridWanted:
    """All open sessions are wanted side by side."""
