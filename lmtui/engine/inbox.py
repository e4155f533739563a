"""What the user said and that has not been taken up: tasks wait for the turn's end, steering for the next step."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass

from lmtui.core.events import Envelope, InboxChanged
from lmtui.core.messages import Image
from lmtui.core.prompt_text import FilledPrompt

_COMPACT = "/compact"
_REMINDER, _NOT_TYPED = "reminder", "not typed"
_LIKE_A_COMMAND = re.compile(rf" *(?:!|{_COMPACT})")
_LOST = (
    "This waited when the session ended, and cannot be taken up again as it was; send it again if you still want it: {words}"
)


@dataclass(frozen=True, slots=True)
class UserInput:
    """Something the user said.

    `typed` is the text as it was in the prompt, where that differs; `is_command` a shell command of the user's own, which
    the model hears of with `is_told`; with a `tool` it is a call of that one, and the text holds its arguments.  With
    `is_compaction` the conversation is to be summed up, and the text says what matters most.  With `is_reminder` lmtui itself
    says it, not the user.  A `prompt` is that of a command's file: it is in place of the text once its commands have run;
    the text `is_from_file` then.
    """

    text: str
    typed: str = ""
    images: tuple[Image, ...] = ()
    is_steering: bool = False
    is_command: bool = False
    is_told: bool = True
    is_compaction: bool = False
    is_reminder: bool = False
    tool: str = ""
    prompt: FilledPrompt | None = None
    is_from_file: bool = False

    @property
    def shown(self) -> str:
        """Return it as a list shows it and a log keeps it: commands begin with `!` or `/compact`, and nothing else does."""
        if self.tool:
            return self.typed
        if self.is_command:
            gap = " " if self.text.startswith("!") else ""
            return ("!" if self.is_told else "!!") + gap + self.text
        if self.is_compaction:
            return f"{_COMPACT} {self.text}".rstrip()
        return f" {self.text}" if _LIKE_A_COMMAND.match(self.text) else self.text

    @property
    def kind(self) -> str:
        """Return what it is where `shown` does not tell (`InboxChanged.kinds`)."""
        if self.is_reminder:
            return _REMINDER
        if self.tool:
            return "call"
        if self.prompt is not None:
            return "file"
        return "pictures" if self.images else _NOT_TYPED if self.is_from_file or self.typed not in ("", self.text) else ""


def read_said(shown: str, kind: str = "") -> UserInput | None:
    """Return what gave `UserInput.shown` and `UserInput.kind`, but for its `typed`; None where they do not hold all of it."""
    if kind not in ("", _REMINDER, _NOT_TYPED):
        return None
    if shown.startswith(_COMPACT):
        return UserInput(shown.removeprefix(_COMPACT).strip(), is_compaction=True)
    if shown.startswith("!"):
        is_told = not shown.startswith("!!")
        return UserInput(shown.removeprefix("!" if is_told else "!!").strip(), is_command=True, is_told=is_told)
    text = shown[1:] if _LIKE_A_COMMAND.match(shown) else shown
    return UserInput(text, is_reminder=kind == _REMINDER, is_from_file=kind == _NOT_TYPED)


def left_waiting(past: Sequence[Envelope]) -> tuple[tuple[UserInput, ...], tuple[str, ...]]:
    """Return what waited when a session ended, oldest first, and notices of what cannot be taken up again."""
    last = next((each.event for each in reversed(past) if isinstance(each.event, InboxChanged)), InboxChanged())
    entries = list(zip(last.queued, itertools.chain(last.kinds, itertools.repeat("")), strict=False))
    read = [(shown, read_said(shown, kind)) for shown, kind in entries]
    lost = (_LOST.format(words=shown.strip() or "only pictures") for shown, said in read if said is None)
    return tuple(said for _, said in read if said is not None), tuple(lost)


class Inbox:
    """A queue of the user's words, oldest first; after an interrupt what was in it is held back until the user says so."""

    def __init__(self) -> None:
        self._entries: list[UserInput] = []
        self._held: list[UserInput] = []

    def __bool__(self) -> bool:
        return bool(self._entries)

    @property
    def texts(self) -> tuple[str, ...]:
        """Return what waits, held back or not."""
        return tuple(entry.shown for entry in self._held + self._entries)

    @property
    def is_paused(self) -> bool:
        """Tell whether something is held back."""
        return bool(self._held)

    def as_event(self, agent: str) -> InboxChanged:
        """Return the event that says what waits; after a resume it waits again."""
        entries = self._held + self._entries
        kinds = tuple(entry.kind for entry in entries)
        return InboxChanged(
            agent=agent,
            queued=self.texts,
            is_paused=self.is_paused,
            kinds=kinds if any(kinds) else (),
            next_step=tuple(at for at, entry in enumerate(entries) if entry.is_steering),
        )

    def put(self, said: UserInput) -> None:
        """Add to the end."""
        self._entries.append(said)

    def take(self) -> UserInput:
        """Take the oldest that is not held back."""
        return self._entries.pop(0)

    def take_steering(self) -> UserInput | None:
        """Take the oldest that goes into the running turn, None where there is none."""
        said = next((entry for entry in self._entries if entry.is_steering), None)
        if said is not None:
            self._entries.remove(said)
        return said

    def drop(self, index: int) -> str:
        """Take one back as it was typed; an index that is gone gives an empty text."""
        if not 0 <= index < len(self._held) + len(self._entries):
            return ""
        is_held = index < len(self._held)
        said = self._held.pop(index) if is_held else self._entries.pop(index - len(self._held))
        return said.typed or said.shown

    def hold(self, said: UserInput) -> None:
        """Hold back what was taken already."""
        self._held.append(said)

    def pause(self) -> None:
        """Hold back what waits now."""
        self._held, self._entries = self._held + self._entries, []

    def go_on(self) -> None:
        """Hold nothing back any more."""
        self._held, self._entries = [], self._held + self._entries
