"""Slash commands that are Markdown files, or prompts of MCP servers: values, and how one becomes a prompt.  Pure.

The body is gone over once: what arguments and commands bring in is text, whatever it looks like.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lmtui.core.pictures import Image
from lmtui.core.prompt_commands import fill_command

_PARTS = re.compile(r"!`(?P<command>[^`\n]+)`|\$(?:(?P<all>ARGUMENTS)\b|(?P<one>[1-9])(?![0-9]))")
_NAME = re.compile(r"/(?P<name>[^\s/.]+)(?:\s+(?P<arguments>.*))?\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Piece:
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
    def label(self) -> str:
        """Return how it is typed."""
        return f"/{self.name} {self.argument_hint}".rstrip()


@dataclass(frozen=True, slots=True)
class FilledPrompt:
    """A prompt file with its arguments put in; its commands have not run yet.  `images` are pictures of a server's prompt."""

    file: PromptFile
    pieces: tuple[Piece, ...] = ()
    images: tuple[Image, ...] = ()


class PromptFiles(Protocol):
    """The slash commands that a workspace and its user bring."""

    def found(self) -> Sequence[PromptFile]:
        """Return every file as it is now, by name, also what cannot be used.  Blocks (small files)."""

    async def read(self, text: str) -> FilledPrompt | None:
        """Return the prompt that a typed text calls up, None where it is no such command.

        Raises:
            LmtuiError: it is a server's, and lacks an argument, or the server does not give it.
        """


class PromptsInUse(Protocol):
    """The way of such a command into a session."""

    def begin(self, prompt: FilledPrompt, typed: str) -> None:
        """Take up a task that a file says, behind the running turn; `typed` is what the user typed."""


def split_arguments(text: str) -> tuple[str, ...]:
    """Return the words of an argument text: quotes hold words together, and one that is not closed is a letter."""
    try:
        return tuple(shlex.split(text))
    except ValueError:
        return tuple(text.split())


def fill(file: PromptFile, arguments: str) -> FilledPrompt:
    """Put arguments into a file's text.

    `$ARGUMENTS` is all of them as they were typed, `$1` to `$9` are single words, empty where there are fewer.  Inside a
    command each stays a word (`core.prompt_commands`).  Where the text has no place for arguments, they stand behind it.
    """
    words = split_arguments(arguments)
    pieces: list[Piece] = []
    last, is_used = 0, False
    for match in _PARTS.finditer(file.body):
        pieces.append(Piece(file.body[last : match.start()]))
        last = match.end()
        if match["command"]:
            command, has_any = fill_command(match["command"], arguments, words)
            pieces.append(Piece(command, is_command=True))
            is_used = is_used or has_any
        else:
            pieces.append(Piece(arguments if match["all"] else _word(words, match["one"])))
            is_used = True
    pieces.append(Piece(file.body[last:]))
    if arguments.strip() and not is_used:
        pieces.append(Piece(f"\n\n{arguments}"))
    return FilledPrompt(file, tuple(piece for piece in pieces if piece.text))


def find_prompt(files: Sequence[PromptFile], text: str) -> FilledPrompt | None:
    """Return the prompt that a typed text calls up, None where it is no such command."""
    match = _NAME.match(text.strip())
    if match is None:
        return None
    file = next((each for each in files if each.name == match["name"] and not each.problem), None)
    return fill(file, (match["arguments"] or "").strip()) if file is not None else None


def _word(words: Sequence[str], number: str) -> str:
    place = int(number) - 1
    return words[place] if place < len(words) else ""
