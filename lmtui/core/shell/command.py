"""What a shell command consists of, as plain values, and the checks before any grammar sees it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from lmtui.core.clean import reveal

MAX_BYTES = 4096
MAX_COMMANDS = 20
MAX_WORDS = 200
_MAX_PIPES = 200


def word_set(text: str) -> frozenset[str]:
    """Return the blank-separated words of a text: how the tables of programs and options are written."""
    return frozenset(text.split())


@dataclass(frozen=True, slots=True)
class Risk:
    """A word that makes a command do more than its program's plain use: its place among the words, and why.

    A place behind the last word stands for what is missing (a script that would come from standard input): only a rule
    without wildcards covers that.
    """

    index: int
    why: str


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


def glob_risks(command: SimpleCommand) -> Iterator[Risk]:
    """Yield the patterns that may stand for a file named like an option."""
    for index, pattern in enumerate(command.globs):
        if pattern[:1] in ("*", "?") and index > 0:
            yield Risk(index, f"{command.words[index]} may stand for a file named like an option")


@dataclass(frozen=True, slots=True)
class ParsedCommand:
    """A whole command line: its simple commands in order, or in `problem` why it was not understood (then it has none)."""

    commands: tuple[SimpleCommand, ...] = ()
    problem: str = ""


class NotUnderstood(Exception):
    """A command uses something that is not on the list of what may pass unasked; the text says what."""


def is_small(text: str) -> bool:
    """Tell whether the grammar can read a text within a few milliseconds."""
    return len(text) <= MAX_BYTES and len(text.encode("utf-8", "replace")) <= MAX_BYTES and text.count("|") <= _MAX_PIPES


def objection(text: str) -> str:
    """Return why a text is not even given to the grammar, else an empty string."""
    if not is_small(text):
        return f"it is longer than {MAX_BYTES} bytes or has more than {_MAX_PIPES} pipes"
    for char in text:
        if char in "\n\t" or " " <= char <= "~":
            continue
        if not char.isprintable() or char == "\u2800" or reveal(char) != char:
            return f"it holds the character U+{ord(char):04X}"
    return "" if text.strip() else "it is empty"
