"""One SKILL.md: YAML between two lines of `---`, then Markdown (https://agentskills.io/specification).

Imported at the first look at a skill, as the YAML parser takes a while.  What is wrong and harmless is a warning; a front
matter that cannot be read is an error with its line.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import yaml

from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import AgentDefinition
from lmtui.features.front_matter import allowed_rules
from lmtui.tools.text import read_words

MAX_NAME_CHARS, MAX_DESCRIPTION_CHARS = 64, 1024
_MAX_FRONT_CHARS, _MAX_BRACKETS = 4_096, 64  # more than these, the parser takes a second for
_NAME = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*\Z")
_ODD = re.compile(r"[^\w.:+-]")
_LIMITS = ("allowed-tools", "allowed_tools", "tools")
_FENCE = re.compile(r"---[ \t]*\Z")
_PLAIN_VALUE = re.compile(r"(?P<key>[A-Za-z][\w-]*): +(?P<value>[^\s\"'\[{>|&*!%#@`].*)\Z")


class BrokenSkill(Exception):
    """The front matter cannot be read; the text says why, `line` where (from 1)."""

    def __init__(self, line: int, why: str) -> None:
        super().__init__(why)
        self.line = line


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
        BrokenSkill: it has no front matter, or one that is not YAML, or no description.
    """
    found, body = read_front_matter(data)
    description = sanitize_line(_text(found.get("description"))).strip()
    if not description:
        raise BrokenSkill(2, "it has no description")
    name, warnings = _name(sanitize_line(_text(found.get("name"))).strip(), sanitize_line(folder))
    if len(description) > MAX_DESCRIPTION_CHARS:
        warnings.append(f"its description has more than {MAX_DESCRIPTION_CHARS:,} characters")
    key = next((key for key in _LIMITS if key in found), "")
    allowed = words_of(found[key]) if key else None
    if allowed == "":
        warnings.append(f"its {key} names no tool, so none may be called with it")
    if not body:
        warnings.append("it says nothing below its front matter")
    return SkillFile(name, description[:MAX_DESCRIPTION_CHARS], body, allowed, tuple(warnings))


def read_front_matter(data: bytes) -> tuple[Mapping[str, object], str]:
    """Return the front matter of a Markdown file, each value a text or a list of texts, and the text below it.

    Raises:
        BrokenSkill: it has no front matter, or one that is not YAML.
    """
    lines = sanitize(read_words(data)).split("\n")
    if not _FENCE.match(lines[0]):
        raise BrokenSkill(1, "it does not begin with a line of ---")
    end = next((number for number, line in enumerate(lines[1:], 1) if _FENCE.match(line)), 0)
    if not end:
        raise BrokenSkill(1, "its front matter has no end, a second line of ---")
    return _front(lines[1:end]), "\n".join(lines[end + 1 :]).strip()


def _front(lines: list[str]) -> Mapping[str, object]:
    """Return the front matter; a value with an unquoted colon, which many have, is taken as it was meant."""
    text = "\n".join(lines)
    if len(text) > _MAX_FRONT_CHARS:
        raise BrokenSkill(2, f"its front matter has more than {_MAX_FRONT_CHARS:,} characters")
    if text.count("[") + text.count("{") > _MAX_BRACKETS:
        raise BrokenSkill(2, f"its front matter has more than {_MAX_BRACKETS} brackets")
    try:
        return _yaml(text)
    except BrokenSkill as error:
        try:
            return _yaml("\n".join(map(_quoted, lines)))
        except BrokenSkill:
            raise error from None


def _yaml(text: str) -> Mapping[str, object]:
    """Return the keys of a YAML text with their texts and lists of texts; nothing is made of it but that."""
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line if error.problem_mark else 0
        raise BrokenSkill(line + 2, sanitize_line(str(error.problem or "no YAML"))) from error
    except (yaml.YAMLError, RecursionError) as error:
        raise BrokenSkill(2, sanitize_line(str(error))[:200] or "no YAML") from error
    if not isinstance(root, yaml.MappingNode):
        raise BrokenSkill(2, "its front matter is not a list of `key: value` lines")
    return {key.value: _value(value) for key, value in root.value if isinstance(key, yaml.ScalarNode)}


def _value(node: object) -> object:
    if isinstance(node, yaml.SequenceNode):
        return [each.value for each in node.value if isinstance(each, yaml.ScalarNode)]
    return node.value if isinstance(node, yaml.ScalarNode) else None


def _quoted(line: str) -> str:
    """Return a line with its value in quotes, where it is a plain one."""
    match = _PLAIN_VALUE.match(line)
    if match is None:
        return line
    value = match["value"].rstrip().replace("'", "''")
    return f"{match['key']}: '{value}'"


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


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


def words_of(value: object) -> str:
    """Return the words for tools as one text; a list is taken too, and what is neither names none."""
    if isinstance(value, list):
        return " ".join(_text(each) for each in value).strip()
    return _text(value).strip()


__all__ = ["BrokenSkill", "read_agent"]

_TOOLS, _DENIED = "tools", ("disallowedTools", "disallowed-tools", "disallowed_tools")
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
        BrokenSkill: it has no front matter, or one that is not YAML, or no description, or no instructions.
    """
    found, body = read_front_matter(data)
    description, given = _line(found.get("description")), _line(found.get("name"))
    if not description:
        raise BrokenSkill(2, "it has no description")
    if not body:
        raise BrokenSkill(2, "it has no instructions below its front matter")
    warnings = [] if given else ["it has no name, so it goes by its file's"]
    allowed: tuple[str, ...] | None = None
    wrong: tuple[str, ...] = ()
    if _TOOLS in found:
        allowed, wrong = allowed_rules(words_of(found[_TOOLS]), canonical, _TOOLS)
        warnings += [] if allowed else ["its tools name no tool here, so it may call none"]
    key = next((key for key in _DENIED if key in found), "")
    denied, unknown = allowed_rules(words_of(found[key]), canonical, key) if key else ((), ())
    warnings += [*wrong, *unknown, *(f"its {name} is not read" for name in _UNREAD if name in found)]
    model = _line(found.get("model"))
    return AgentDefinition(
        plain_name(given or sanitize_line(stem)),
        description[:MAX_DESCRIPTION_CHARS],
        place,
        body,
        allowed,
        denied,
        "" if model.lower() == _INHERIT else model,
        warnings=tuple(warnings),
    )


def _line(value: object) -> str:
    """Return a text in one line; many descriptions have line breaks in them that are written as a backslash and n."""
    return sanitize_line(" ".join(value.replace("\\n", " ").split())) if isinstance(value, str) else ""
