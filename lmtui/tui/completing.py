"""What is being completed in the prompt, and what is offered for it: commands, their arguments, paths, the history."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from lmtui.commands.command import CommandTable
from lmtui.core.prompt_text import PromptFile, mention_text
from lmtui.core.sanitize import sanitize_line, sanitize_path

if TYPE_CHECKING:  # it loads the rest of MCP's types before the first frame
    from lmtui.core.tool_servers import Resource

PROMPT_FILES = "prompt files"
_MOST_RESOURCES = 20
_BEGUN = re.compile(r'(?<![\w@.\-/])@(?:"(?P<quoted>[^"\n]*)|(?P<plain>[^\s"\'`<>()\[\]{},;]*))\Z')


CompletionKind = Literal["name", "value", "path", "past"]
"""Of a slash command, of what it takes, of a file or folder, of what was sent before."""


@dataclass(frozen=True, slots=True)
class CompletionRequest:
    """What is completed: the part of a line from `start` to `end`; `source` names the values of an argument."""

    kind: CompletionKind
    query: str
    row: int = 0
    start: int = 0
    end: int = 0
    source: str = ""


@dataclass(frozen=True, slots=True)
class Offer:
    """One line of the list: what it shows, what is said of it, and what it puts in place of what was typed.

    `goes_on`: more is typed behind it (an argument, what is in a folder).
    """

    label: str
    note: str
    text: str
    goes_on: bool = False


@dataclass(slots=True)
class Completing:
    """The state of the list: what is wanted, what is offered, which line is marked (-1 for none).

    `commands` are those that can be typed, none before the first frame.
    """

    wanted: CompletionRequest | None = None
    offers: Sequence[Offer] = ()
    marked: int = -1
    values: dict[str, Sequence[tuple[str, str]]] = field(default_factory=dict)
    commands: CommandTable = field(default_factory=lambda: CommandTable(()))

    @property
    def is_open(self) -> bool:
        """Tell whether something is offered."""
        return bool(self.offers)

    @property
    def offer(self) -> Offer | None:
        """Return the marked line."""
        return self.offers[self.marked] if 0 <= self.marked < len(self.offers) else None

    def show(self, wanted: CompletionRequest | None, offers: Sequence[Offer]) -> None:
        """Offer these; the first is marked, but for an argument of which nothing is typed yet."""
        is_hint = wanted is not None and wanted.kind == "value" and not wanted.query
        self.wanted, self.offers, self.marked = wanted, offers, -1 if is_hint or not offers else 0

    def move(self, step: int) -> None:
        """Mark another line, round and round."""
        if self.offers:
            self.marked = (self.marked + step) % len(self.offers) if self.marked >= 0 or step > 0 else len(self.offers) - 1

    def is_typed_whole(self, line: str) -> bool:
        """Tell whether what is offered is there already, so that there is nothing to take."""
        wanted = self.wanted
        return wanted is not None and any(
            offer.text.rstrip() == line[wanted.start : wanted.end].rstrip() for offer in self.offers
        )


def wanted_at(text: str, row: int, column: int, commands: CommandTable) -> CompletionRequest | None:
    """Return what is completed where the cursor is: a slash command, its argument or a path; None for other text."""
    if text.startswith("/") and "\n" not in text:
        if " " not in text:
            return CompletionRequest("name", text[1:], 0, 0, len(text))
        call = commands.parse(text)
        if call is not None and call.command is not None and call.command.values:
            start = text.index(" ") + 1
            return CompletionRequest("value", text[start:].strip(), 0, start, len(text), call.command.values)
    begun = _BEGUN.search(text.split("\n", row + 1)[row][:column])
    if begun is None:
        return None
    query = begun["quoted"] if begun["quoted"] is not None else begun["plain"]
    return CompletionRequest("path", query.removeprefix("./"), row, begun.start(), column)


def name_offers(query: str, commands: CommandTable, files: Sequence[tuple[str, str]] = ()) -> list[Offer]:
    """Return the slash commands that begin so, and those of `files` (each with its arguments, and a note)."""
    own = [_named_offer(f"{name} {each.argument}".rstrip(), each.help) for name, each in commands.complete(f"/{query}")]
    named = [each for each in files if _begins(each[0].lower().partition(" ")[0], query.lower())]
    return own + [_named_offer(label, note) for label, note in named]


def _begins(name: str, query: str) -> bool:
    """Tell whether a name, or what is behind its folder or owner (as in `project:plan`), begins so."""
    return name.startswith(query) or name.rpartition(":")[2].startswith(query)


def prompt_values(files: Sequence[PromptFile]) -> list[tuple[str, str]]:
    """Return the slash commands that are files as values: how each is typed, and what it does."""
    usable = [file for file in files if not file.problem]
    return [(file.label.removeprefix("/"), sanitize_line(file.description or file.source)) for file in usable]


def _named_offer(label: str, note: str) -> Offer:
    name, _, hint = label.partition(" ")
    return Offer(sanitize_line(f"/{label}"), note, f"/{name} " if hint else f"/{name}", goes_on=bool(hint))


def value_offers(query: str, values: Sequence[tuple[str, str]]) -> list[Offer]:
    """Return the values (each with a note) that hold what was typed, those first that begin so."""
    wanted = query.lower()
    holding = [each for each in values if wanted in each[0].lower()]
    found = sorted(holding, key=lambda each: not each[0].lower().startswith(wanted))
    return [Offer(sanitize_line(value), sanitize_line(note), value) for value, note in found]


def resource_offers(query: str, resources: Sequence[Resource]) -> list[Offer]:
    """Return the resources of servers that hold what was typed; of a template, what is before its first gap."""
    wanted = query.lower()
    found: list[Offer] = []
    for each in resources:
        address = f"{each.server}:{each.uri}"
        if not wanted or not (wanted in address.lower() or wanted in each.title.lower()):
            continue
        head = address.partition("{")[0]
        text = f"@{head}" if each.is_template else mention_text(address)
        found.append(Offer(sanitize_path(address), sanitize_line(each.title or "resource"), text, goes_on=each.is_template))
    return found[:_MOST_RESOURCES]


def past_offers(texts: Sequence[str]) -> list[Offer]:
    """Return earlier texts, one line each."""
    return [Offer(sanitize_line(text)[:300], "", text) for text in texts]


def path_offer(path: str, notes: Mapping[str, str]) -> Offer:
    """Return a file, or a folder (its path ends in `/`) that can be gone into."""
    mention = mention_text(path)
    is_folder = path.endswith("/")
    text = mention[:-1] if is_folder and mention.endswith('"') else mention
    return Offer(sanitize_path(path), notes.get(path, ""), text, is_folder)
