"""Files mentioned in a text: `@path`, `@folder/`, `@path:10-20`, `@"a path with spaces"`; and resources of MCP servers:
`@server:file:///a.md`.  Reading them is the engine's.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

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

    @property
    def looks_meant(self) -> bool:
        """Tell whether it can hardly be anything but a path (`@name` may be a person or a decorator)."""
        return "/" in self.path or bool(self.first)


def find_mentions(text: str) -> tuple[Mention, ...]:
    """Return what a text mentions, each once, in its order."""
    return tuple(found for found in dict.fromkeys(map(_read, _MENTION.finditer(text))) if found.path)


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
