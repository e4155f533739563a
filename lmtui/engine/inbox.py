"""What the user said and that has not been taken up: tasks wait for the turn's end, steering for the next step."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class _Entry:
    text: str
    is_steering: bool


class Inbox:
    """A queue of the user's words, oldest first."""

    def __init__(self) -> None:
        self._entries: list[_Entry] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what waits."""
        return tuple(entry.text for entry in self._entries)

    def put(self, text: str, *, is_steering: bool = False) -> None:
        """Add to the end."""
        self._entries.append(_Entry(text, is_steering))

    def take(self) -> str:
        """Take the oldest."""
        return self._entries.pop(0).text

    def take_steering(self) -> tuple[str, ...]:
        """Take all that goes into the running turn."""
        taken = tuple(entry.text for entry in self._entries if entry.is_steering)
        self._entries = [entry for entry in self._entries if not entry.is_steering]
        return taken

    def drop(self, index: int) -> str:
        """Take one back; an index that is gone gives an empty text."""
        if not 0 <= index < len(self._entries):
            return ""
        return self._entries.pop(index).text
