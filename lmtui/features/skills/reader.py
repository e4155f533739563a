"""One SKILL.md or sub-agent: `key: value` lines between two of `---`, then Markdown (https://agentskills.io/specification).

What is wrong and harmless is a warning; a front matter that cannot be read is an error with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import AgentDefinition
from lmtui.features.front_matter import FrontLines, allowed_rules, read_front
from lmtui.tools.text import read_words

MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS = 64, 1024
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_ODD = re.compile(r"[^\w.:+-]")
_LIMITS = ("allowed-tools", "allowed_tools", "tools")


class BrokenSkill(Exception):
    """The file cannot be read, or not its front matter; the text says why and in which line (from 1)."""


@dataclass(frozen=True, slots=True)
class SkillFile:
    """What a SKILL.md says; `allowed` are its words for the tools that may be called, None where it does not speak of them."""

    name: str
    description: str
    body: str
    allowed: str | None = None
    warnings: tuple[str, ...] = ()


def read_skill(data: bytes, folder: str) -> SkillFile:
    """Read a SKILL.md that lies in a folder of that name.

    Raises:
        BrokenSkill: its front matter cannot be read, or it has no description.
    """
    front = _front(data)
    description = _line(front, "description")
    if not description:
        raise BrokenSkill("line 2: it has no description")
    name, warnings = _name(_line(front, "name"), sanitize_line(folder))
    if len(description) > MAX_DESCRIPTION_CHARS:
        warnings.append(f"its description has more than {MAX_DESCRIPTION_CHARS:,} characters")
    key = next((key for key in _LIMITS if key in front.fields), "")
    allowed = front.fields[key].strip("[] ") if key else None
    if allowed == "":
        warnings.append(f"its {key} names no tool, so none may be called with it")
    if not front.body:
        warnings.append("it says nothing below its front matter")
    return SkillFile(name, description[:MAX_DESCRIPTION_CHARS], front.body, allowed, tuple(warnings))


def _front(data: bytes) -> FrontLines:
    """Split a Markdown file.

    Raises:
        BrokenSkill: it has no front matter, or one that cannot be read.
    """
    text = sanitize(read_words(data))
    front = read_front(text)
    if not text.startswith("---"):
        raise BrokenSkill("line 1: it does not begin with a line of ---")
    if front.problem:
        raise BrokenSkill(f"line {front.line}: {front.problem}")
    return front


def _line(front: FrontLines, key: str) -> str:
    """Return a value in one line; many descriptions have line breaks in them that are written as a backslash and n."""
    return sanitize_line(" ".join(front.fields.get(key, "").replace("\\n", " ").split()))


def _name(given: str, folder: str) -> tuple[str, list[str]]:
    """Return the name to go by, and what is wrong with the one given."""
    if not given:
        return plain_name(folder), ["it has no name, so it goes by its folder's"]
    if not _NAME.match(given) or len(given) > MAX_NAME_CHARS:
        return plain_name(given), [f"its name {given[:MAX_NAME_CHARS]!r} is not made of a-z, 0-9 and single hyphens"]
    return given, [] if given == folder else [f"its name is not that of its folder, {folder}"]


def plain_name(name: str) -> str:
    """Return a name that can be in quotes: words of any language, the rest as hyphens."""
    return _ODD.sub("-", name[:MAX_NAME_CHARS])


_TOOLS, _DENIED = "tools", ("disallowedtools", "disallowed-tools", "disallowed_tools")
_INHERIT = "inherit"
# What would change how one works, and is not read here.
_UNREAD = ("permissionMode", "maxTurns", "skills", "mcpServers", "hooks", "memory", "background", "isolation")


def read_agent(data: bytes, stem: str, place: str, canonical: Callable[[str], str]) -> AgentDefinition:
    """Read a file.

    Args:
        data: what is in it.
        stem: its name without the ending, for one that gives no name.
        place: the file as the user knows it.
        canonical: returns our name of a tool, and raises `ToolError` where there is none.

    Raises:
        BrokenSkill: its front matter cannot be read, or it has no description or no instructions.
    """
    front = _front(data)
    description, given, model = (_line(front, key) for key in ("description", "name", "model"))
    if not description:
        raise BrokenSkill("line 2: it has no description")
    if not front.body:
        raise BrokenSkill("line 2: it has no instructions below its front matter")
    warnings = [] if given else ["it has no name, so it goes by its file's"]
    allowed: tuple[str, ...] | None = None
    wrong: tuple[str, ...] = ()
    if _TOOLS in front.fields:
        allowed, wrong = allowed_rules(front.fields[_TOOLS], canonical, _TOOLS)
        warnings += [] if allowed else ["its tools name no tool here, so it may call none"]
    words = ", ".join(front.fields[key].strip("[] ") for key in _DENIED if key in front.fields)
    denied, unknown = allowed_rules(words, canonical, "disallowedTools")
    warnings += [*wrong, *unknown, *(f"its {name} is not read" for name in _UNREAD if name.lower() in front.fields)]
    return AgentDefinition(
        plain_name(given or sanitize_line(stem)),
        description[:MAX_DESCRIPTION_CHARS],
        place,
        front.body,
        allowed,
        denied,
        "" if model.lower() == _INHERIT else model,
        warnings=tuple(warnings),
    )
