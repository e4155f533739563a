"""The window of a model: what fills it, in parts, and what the user may do with a part.  Values only."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.remote_marks import open_to_network

ASSUMED_WINDOW_TOKENS = 8192
IMAGE_TOKENS = 1000


def bytes_by_four(text: str) -> int:
    """Return the size in bytes by four: the tokens of a text where nothing is known of the tokenizer."""
    return (len(text.encode("utf-8", "replace")) + 3) // 4


@dataclass(frozen=True, slots=True)
class WindowItem:
    """One message or result.  `id` names it where something can be done with it, else it is empty.

    `reread_tokens` are those from here to the end: what the server reads again when this changes.  `state` is empty, `folded`
    (only its beginning is sent) or `left out` (a line is sent in its place); `is_pinned`: it is never taken out to make room.
    """

    id: str
    title: str
    tokens: int
    reread_tokens: int = 0
    state: str = ""
    is_pinned: bool = False


@dataclass(frozen=True, slots=True)
class WindowPart:
    """A part of what the model is sent with every request: `tokens` is an estimate, `count` how many of them there are."""

    name: str
    tokens: int
    count: int = 0
    items: tuple[WindowItem, ...] = ()


class WindowUse(Protocol):
    """What fills the model's window, and the user's hand on it."""

    @open_to_network
    def parts(self) -> Sequence[WindowPart]:
        """Return the parts of the next request, in the order in which they are sent."""

    @open_to_network
    def read_s(self, tokens: int) -> float:
        """Return how many seconds the model needs to read so many tokens, 0 where its speed is not known yet."""

    @open_to_network
    def fold(self, item_id: str) -> None:
        """Send only the beginning of a result from the next request on."""

    @open_to_network
    def leave_out(self, item_id: str) -> None:
        """Send a line in place of a result from the next request on."""

    @open_to_network
    def bring_back(self, item_id: str) -> None:
        """Send a result whole again."""

    @open_to_network
    def pin(self, item_id: str, *, is_pinned: bool = True) -> None:
        """Keep something when room is made, or do not any more."""
