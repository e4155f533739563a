"""The front of a Markdown file that a user or a folder brings: its fields, and what they allow.  Pure."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.permissions.rules import MCP, Effect, Rule, checked, parse_rule
from lmtui.core.sanitize import sanitize_line

_FENCE = "---"


@dataclass(frozen=True, slots=True)
class FrontLines:
    """What is before the text, keys in small letters, and the text behind it; `problem` is the first, in a `line` from 1."""

    fields: dict[str, str]
    body: str
    problem: str = ""
    line: int = 0


def read_front(text: str) -> FrontLines:
    """Split a text; without a first line of `---` all of it is body."""
    lines = text.split("\n")
    if lines[0].rstrip() != _FENCE:
        return FrontLines({}, text.strip())
    end = next((number for number, line in enumerate(lines[1:], 1) if line.rstrip() == _FENCE), 0)
    if not end:
        return FrontLines({}, text.strip(), "its front matter has no end, a second line of ---", 1)
    fields: dict[str, list[str]] = {}
    key, odd = "", 0
    for number, line in enumerate(lines[1:end], 2):
        name, colon, value = line.partition(":")
        if line.startswith((" ", "\t", "-", "]", "}")) and key:
            is_item = line.lstrip().startswith("-")
            more = line.strip().removeprefix("-").strip()
            fields[key] += [", ", _plain(more)] if is_item else [" ", more]
        elif colon and _plain(name.strip()).strip() and not line.startswith(("#", " ", "\t", "-")):
            key = _plain(name.strip()).strip().lower()
            fields[key] = [value.strip() if value.strip() not in _BLOCKS else ""]
        elif line.strip() and not line.startswith("#"):
            odd = odd or number
    problem = "expected `key: value` or a list item" if odd else ""
    found = {name: _plain("".join(pieces).strip(", ")) for name, pieces in fields.items()}
    return FrontLines(found, "\n".join(lines[end + 1 :]).strip(), problem, odd)


_BLOCKS = (">", "|", ">-", "|-")


def _plain(value: str) -> str:
    """Return a value without the quotes around it."""
    quote = value[:1] if len(value) > 1 and value[0] == value[-1] and value[0] in "\"'" else ""
    inner = value[1:-1].replace("''", "") if quote == "'" else re.sub(r"\\.", "", value[1:-1])
    if not quote or quote in inner:
        return value
    return value[1:-1].replace("''", "'") if quote == "'" else re.sub(r'\\(["\\])', r"\1", value[1:-1])


_WORD = re.compile(r"(?<![^\s,])[^\s,()]+(?:\([^()]*\))?(?![^\s,])")
_IN_QUOTES = re.compile(r"""\([^()]*\)|(?<![^\s,])(["'])(.*?)\1(?![^\s,])""")
_KNOWN_ELSEWHERE = {
    "multiedit": "edit",
    "notebookedit": "edit",
    "webfetch": "fetch",
    "websearch": "web_search",
    "task": "delegate",
    "agent": "delegate",
    "todowrite": "todo_add",
    "todoread": "todo_list",
    "skill": "skill",
}


def allowed_rules(
    text: str, canonical: Callable[[str], str], key: str = "allowed-tools"
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the rules that a skill names, in our words, and what is wrong with it.

    What is not understood names nothing: that leaves less to be called, never more.

    Args:
        text: the words, or a list of YAML or JSON on one line.
        canonical: returns our name of a tool, and raises `ToolError` where there is none.
        key: the key that they are behind, for the warnings.
    """
    rules: list[str] = []
    warnings: list[str] = []
    text = _IN_QUOTES.sub(lambda found: found[2] if found[1] else found[0], text.strip().strip("[]"))
    for word in _WORD.findall(text):
        try:
            rules.append(str(_rule(word, canonical)))
        except (ToolError, UsageError):
            warnings.append(f"its {key} name {sanitize_line(word)[:60]}, which is not a tool here")
    if _WORD.sub("", text).strip(" ,\t\n"):
        warnings.append(f"its {key} cannot be read to the end")
    return tuple(dict.fromkeys(rules)), tuple(dict.fromkeys(warnings))


def _rule(word: str, canonical: Callable[[str], str]) -> Rule:
    name, bracket, rest = word.partition("(")
    pattern = rest.removesuffix(")").strip() or "*"
    if name.startswith((MCP, PROMOTED)):
        return parse_rule(name if not bracket else f"{name}({pattern})", Effect.ALLOW, "")
    if name == "*":
        return Rule(Effect.ALLOW, "*")
    own = _KNOWN_ELSEWHERE.get(name.lower()) or canonical(name)
    if own == "shell" and pattern.endswith(":*"):
        pattern = f"{pattern.removesuffix(':*')} *"
    return checked(Rule(Effect.ALLOW, own, pattern))
