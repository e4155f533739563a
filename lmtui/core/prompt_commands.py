"""Arguments put into the commands of a prompt file, so that what was typed stays words whatever the file's own quotes are.

Where quotes are plain the words are written into the command, so that rules and `allowed-tools` see them.  Elsewhere (`$(…)`,
`${…}`, here-documents) `$1` stays, and the shell itself is given the words: only it knows how it reads that.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

_PLACE = re.compile(r"\$(?:(?P<all>ARGUMENTS)\b|(?P<one>[1-9])(?![0-9]))")
_HARD = re.compile(r"\$[({\['\"]|<<|[<>]\(|\(\(|`")  # behind these others than plain quoting rules may hold
_HARD_IN_QUOTES = re.compile(r"\$[({\[]|`")
_SPECIAL_IN_QUOTES = re.compile(r'([\\"$`])')
_BEFORE_COMMENT = " \t\n;&|()<>"


class _NotPlain(Exception):
    """A command's quotes cannot be followed here."""


def fill_command(command: str, arguments: str, words: Sequence[str]) -> tuple[str, bool]:
    """Return a command with its arguments, and whether it has a place for any.

    `$1` to `$9` are single words and `$ARGUMENTS` all, each quoted; in double quotes `$ARGUMENTS` is what was typed, in one.
    In single quotes and comments, or behind a backslash, nothing is put in, as in a shell.
    """
    if _PLACE.search(command) is None:
        return command, False
    try:
        filled = "".join(_Filling(command, arguments, words).pieces())
    except _NotPlain:
        return f"set -- {shlex.join(words)}; ARGUMENTS={shlex.quote(arguments)}; {command}", True
    return filled, filled != command


class _Filling:
    """Goes once over a command with plain quotes."""

    def __init__(self, command: str, arguments: str, words: Sequence[str]) -> None:
        self._command, self._arguments, self._words = command, arguments, words
        self._at = 0

    def pieces(self) -> list[str]:
        """Return the pieces of the filled command.

        Raises:
            _NotPlain: its quotes are not plain.
        """
        found: list[str] = []
        quote = ""
        while self._at < len(self._command):
            char = self._command[self._at]
            if quote == "'":
                quote = "" if char == "'" else quote
                found.append(self._take(1))
            elif (_HARD_IN_QUOTES if quote else _HARD).match(self._command, self._at):
                raise _NotPlain
            elif char == "\\" or self._command.startswith("$$", self._at):
                found.append(self._take(2))
            elif match := _PLACE.match(self._command, self._at):
                self._at = match.end()
                found.append(self._in_quotes(match) if quote else self._bare(match))
            elif not quote and char == "#" and (not self._at or self._command[self._at - 1] in _BEFORE_COMMENT):
                found.append(self._take(len(self._command)))
            else:
                if char == '"' or (char == "'" and not quote):
                    quote = "" if quote else char
                found.append(self._take(1))
        if quote:
            raise _NotPlain
        return found

    def _take(self, count: int) -> str:
        start = self._at
        self._at += count
        return self._command[start : self._at]

    def _in_quotes(self, match: re.Match[str]) -> str:
        text = self._arguments if match["all"] else self._word(match["one"])
        return _SPECIAL_IN_QUOTES.sub(r"\\\1", text)

    def _bare(self, match: re.Match[str]) -> str:
        if match["all"]:
            return shlex.join(self._words)
        word = self._word(match["one"])
        is_descriptor = word.isdigit() and self._command[self._at : self._at + 1] in ("<", ">")  # `2>` is not the word 2
        return f"'{word}'" if is_descriptor else shlex.quote(word)

    def _word(self, number: str) -> str:
        place = int(number) - 1
        return self._words[place] if place < len(self._words) else ""
