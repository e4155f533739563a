"""The front matter of a Markdown file as flat `key: value` lines.

Files in the wild are seldom YAML to the letter (`argument-hint: [file] [count]`), so each line is taken for itself.
"""

from __future__ import annotations

from dataclasses import dataclass

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class FrontLines:
    """What stands before the text, keys in small letters, and the text behind it; `problem` where the front has no end."""

    fields: dict[str, str]
    body: str
    problem: str = ""


def read_front(text: str) -> FrontLines:
    """Split a text; without a first line of `---` all of it is body."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return FrontLines({}, text.strip())
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not end:
        return FrontLines({}, text.strip(), "its front matter has no end, a second line of ---")
    fields: dict[str, str] = {}
    key = ""
    for line in lines[1:end]:
        if line[:1] in (" ", "\t", "-") and key:
            is_item = line.lstrip().startswith("-")
            more = _plain(line.strip().removeprefix("-").strip())
            fields[key] = f"{fields[key]}{', ' if is_item else ' '}{more}".strip(", ")
            continue
        name, colon, value = line.partition(":")
        if colon and name.strip() and not line.startswith("#"):
            key = name.strip().lower()
            fields[key] = _plain(value.strip())
    return FrontLines(fields, "\n".join(lines[end + 1 :]).strip())


def _plain(value: str) -> str:
    """Return a value without the quotes around it, or the signs of a text over several lines."""
    if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'":
        return value[1:-1]
    return "" if value in (">", "|", ">-", "|-") else value
