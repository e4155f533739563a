"""What a shell command consists of, as plain values, and the checks before any grammar sees it."""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.core.clean import reveal

MAX_BYTES = 4096
MAX_COMMANDS = 20


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """One program with its words.  `text` is the command as written, `words` are literal, quotes and escapes resolved.

    `globs` runs beside `words`: the pattern of a word that the shell would expand to file names, empty for the others.
    """

    text: str
    words: tuple[str, ...]
    globs: tuple[str, ...]

    @property
    def program(self) -> str:
        """Return the first word."""
        return self.words[0] if self.words else ""

    def from_word(self, index: int) -> SimpleCommand:
        """Return the command that begins at a later word (what a wrapper runs)."""
        return SimpleCommand(self.text, self.words[index:], self.globs[index:])


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A whole command line: its simple commands in order, or in `problem` why it was not understood (then it has none)."""

    commands: tuple[SimpleCommand, ...] = ()
    problem: str = ""


class NotUnderstood(Exception):
    """A command uses something that is not on the list of what may pass unasked; the text says what."""


def objection(text: str) -> str:
    """Return why a text is not even given to the grammar, else an empty string."""
    if len(text.encode("utf-8", "replace")) > MAX_BYTES:
        return f"it is longer than {MAX_BYTES} bytes"
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if not char.isprintable() or char == "\u2800" or reveal(char) != char:
            return f"it holds the character U+{ord(char):04X}"
    return "" if text.strip() else "it is empty"
