"""One Markdown file that defines a sub-agent: YAML between two lines of `---`, then its instructions.

The keys are those of Claude Code (https://code.claude.com/docs/en/sub-agents).  Imported at the first look at such a file, as
the YAML parser takes a while.
"""

from __future__ import annotations

from collections.abc import Callable

from lmtui.core.agent_definitions import AgentDefinition
from lmtui.core.clean import clean_line
from lmtui.extensions.skill_file import MAX_DESCRIPTION_CHARS, BrokenSkill, plain_name, read_front_matter, words_of
from lmtui.extensions.skill_tools import allowed_rules

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
        plain_name(given or clean_line(stem)),
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
    return clean_line(" ".join(value.replace("\\n", " ").split())) if isinstance(value, str) else ""
