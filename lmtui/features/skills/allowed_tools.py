"""The words of `allowed-tools` as rules: `Read Grep Bash(git:*)` and `Read, Bash(git add *)` are both met in the wild."""

from __future__ import annotations

import re
from collections.abc import Callable

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.permissions.rules import MCP, Effect, Rule, checked, parse_rule
from lmtui.core.sanitize import sanitize_line
from lmtui.core.skills import PROMOTED

_WORD = re.compile(r"(?<![^\s,])[^\s,()]+(?:\([^()]*\))?(?![^\s,])")
_KNOWN_ELSEWHERE = {
    "multiedit": "edit",
    "notebookedit": "edit",
    "webfetch": "fetch",
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
        text: the words.
        canonical: returns our name of a tool, and raises `ToolError` where there is none.
        key: the key that they are behind, for the warnings.
    """
    rules: list[str] = []
    warnings: list[str] = []
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
