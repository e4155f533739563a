"""Slash commands that are Markdown files, or prompts of MCP servers: values, and how one becomes a prompt.  Pure.

The body is gone over once: what arguments and commands bring in is text, whatever it looks like.
"""

from __future__ import annotations

import difflib
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.messages import Image
from lmtui.core.remote_marks import mirrored, open_to_network

_MENTION = re.compile(
    r'(?<![\w@.\-/])@(?:"(?P<quoted>[^"\n]+)"(?P<range>:\d{1,9}(?:-\d{1,9})?)?|(?P<plain>[^\s"\'`<>()\[\]{},;]+))'
)
_RANGE = re.compile(r":(\d{1,9})(?:-(\d{1,9}))?\Z")
_RESOURCE = re.compile(r"(?P<server>[A-Za-z0-9_-]{1,32}):(?P<uri>[A-Za-z][A-Za-z0-9+.-]*:.+)")
_PLAIN = re.compile(r"[^\s\"'`<>()\[\]{},;]+")


@dataclass(frozen=True, slots=True)
class Mention:
    """One of them: `first` and `last` are lines from 1, both 0 for the whole file."""

    path: str
    first: int = 0
    last: int = 0

    @property
    def resource(self) -> tuple[str, str] | None:
        """Return the server and the address, where it may be a resource."""
        found = _RESOURCE.fullmatch(self.path)
        return (found["server"], found["uri"]) if found else None


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return what a text mentions, each once, in its order."""
    return tuple(found for found in dict.fromkeys(map(_read, _MENTION.finditer(text))) if found.path)


def without_mentions(text: str) -> str:
    """Return a text without the names in it that are a file's, and not the user's words."""
    return _MENTION.sub("@", text)


def mention_text(path: str) -> str:
    """Return how a path is mentioned, in quotes where it needs them."""
    is_plain = _PLAIN.fullmatch(path) is not None and not _RANGE.search(path) and path == path.rstrip(".:!?")
    return f"@{path}" if is_plain else f'@"{path}"'


def _read(match: re.Match[str]) -> Mention:
    quoted = match["quoted"]
    text = f"{quoted}{match['range'] or ''}" if quoted else match["plain"].rstrip(".:!?")
    lines = _RANGE.search(text) if (not quoted or match["range"]) and not _RESOURCE.fullmatch(text) else None
    path = text[: lines.start()] if lines else text
    if lines is None:
        return Mention(path)
    first = max(1, int(lines[1]))
    return Mention(path, first, max(first, int(lines[2] or first)))


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
                typed = self._arguments if match["all"] else _word(self._words, match["one"])
                found.append(_SPECIAL_IN_QUOTES.sub(r"\\\1", typed) if quote else self._bare(match))
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

    def _bare(self, match: re.Match[str]) -> str:
        if match["all"]:
            return shlex.join(self._words)
        word = _word(self._words, match["one"])
        is_descriptor = word.isdigit() and self._command[self._at : self._at + 1] in ("<", ">")  # `2>` is not the word 2
        return f"'{word}'" if is_descriptor else shlex.quote(word)


AS_WORDS = "To send it as text, put a space before it."


def slash_call(text: str) -> tuple[str, str] | None:
    """Return the name and the argument of a slash command.

    None for text: what begins with anything else, a space too, and a first word that is a path, such as `/usr/bin` or `/a.txt`.
    """
    if not text.startswith("/"):
        return None
    head, *rest = text.split(maxsplit=1)
    name = head[1:]
    return (name, rest[0].strip() if rest else "") if name and "/" not in name and "." not in name else None


def nearest(name: str, names: Iterable[str]) -> str:
    """Return which name was meant, as it is typed, in a sentence; empty where none is near."""
    close = difflib.get_close_matches(name.lower(), list(names), n=1)
    return f"Did you mean /{close[0]}?" if close else ""


_PARTS = re.compile(r"!`(?P<command>[^`\n]+)`|\$(?:(?P<all>ARGUMENTS)\b|(?P<one>[1-9])(?![0-9]))")
_NAME = re.compile(r"/(?P<name>[^\s/.]+)(?:\s+(?P<arguments>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a prompt: text, or a command whose output takes its place.

    `is_foreign`: a server says it, so it is bounded as the result of a tool, and nothing is looked for in it.
    """

    text: str
    is_command: bool = False
    is_foreign: bool = False


@dataclass(frozen=True, slots=True)
class PromptFile:
    """A Markdown file that is a slash command of its `name`.

    `allowed` are the only tools that may be called in its turn, as rules, None where it does not say; `model` is who is to
    be asked in it.  `may_run`: its commands may be run, under the permissions.  `problem` is why it cannot be used (something
    else has its name), and `warnings` is what is wrong with one that can.
    """

    name: str
    body: str
    source: str
    description: str = ""
    argument_hint: str = ""
    allowed: tuple[str, ...] | None = None
    model: str = ""
    is_own: bool = True
    may_run: bool = True
    problem: str = ""
    warnings: tuple[str, ...] = ()

    @property
    def commands(self) -> tuple[str, ...]:
        """Return the commands that it runs, before arguments are put in."""
        return tuple(match["command"] for match in _PARTS.finditer(self.body) if match["command"])

    @property
    def whole_name(self) -> str:
        """Return the name by which it can always be typed, whatever else has its name."""
        return f"{'user' if self.is_own else 'project'}:{self.name}"

    @property
    def label(self) -> str:
        """Return how it is typed."""
        return f"/{self.name} {self.argument_hint}".rstrip()


@dataclass(frozen=True, slots=True)
class FilledPrompt:
    """A prompt file with its arguments put in; its commands have not run yet.  `images` are pictures of a server's prompt."""

    file: PromptFile
    pieces: tuple[TextPart, ...] = ()
    images: tuple[Image, ...] = ()


class PromptFiles(Protocol):
    """The slash commands that a workspace and its user bring."""

    @open_to_network
    @mirrored
    def found(self) -> Sequence[PromptFile]:
        """Return every file as it is now, by name, also what cannot be used.  Blocks (small files)."""

    @open_to_network
    async def read(self, text: str) -> FilledPrompt | None:
        """Return the prompt that a typed text calls up, None where it is not such a command.

        Raises:
            LmtuiError: it is a server's, and lacks an argument, or the server does not give it.
        """


def split_arguments(text: str) -> tuple[str, ...]:
    """Return the words of an argument text: quotes hold words together, and one that is not closed is a letter."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def fill(file: PromptFile, arguments: str) -> FilledPrompt:
    """Put arguments into a file's text.

    `$ARGUMENTS` is all of them as they were typed, `$1` to `$9` are single words, empty where there are fewer.  Inside a
    command each stays a word (`core.prompt_commands`).  Where the text has no place for arguments, they are behind it.
    """
    words = split_arguments(arguments)
    pieces: list[TextPart] = []
    last, is_used = 0, False
    for match in _PARTS.finditer(file.body):
        pieces.append(TextPart(file.body[last : match.start()]))
        last = match.end()
        if match["command"]:
            command, has_any = fill_command(match["command"], arguments, words)
            pieces.append(TextPart(command, is_command=True))
            is_used = is_used or has_any
        else:
            pieces.append(TextPart(arguments if match["all"] else _word(words, match["one"])))
            is_used = True
    pieces.append(TextPart(file.body[last:]))
    if arguments.strip() and not is_used:
        pieces.append(TextPart(f"\n\n{arguments}"))
    return FilledPrompt(file, tuple(piece for piece in pieces if piece.text))


def find_prompt(files: Sequence[PromptFile], text: str) -> FilledPrompt | None:
    """Return the prompt that a typed text calls up, None where it is not such a command."""
    match = _NAME.match(text.strip())
    if match is None:
        return None
    file = next((each for each in files if match["name"] in (each.name, each.whole_name) and not each.problem), None)
    return fill(file, (match["arguments"] or "").strip()) if file is not None else None


def _word(words: Sequence[str], number: str) -> str:
    place = int(number) - 1
    return words[place] if place < len(words) else ""
