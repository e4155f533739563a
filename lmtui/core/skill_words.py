"""Skills and promoted tools in words for the user, and what they type after `/skill` and `/promote`."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.clean import clean_line
from lmtui.core.errors import UsageError
from lmtui.core.skills import PromotedTool, Skill, SkillState, SkillUsed

_PROMOTE_FORM = "Write /promote FILE FUNCTION [NAME]."


def skill_state(skill: Skill) -> str:
    """Return where a skill stands, with its prices: in each request, and once it is read."""
    if skill.state is SkillState.READY:
        return f"{skill.tokens:,} tokens told, {skill.body_tokens:,} read"
    return str(skill.state)


def skill_facts(skill: Skill) -> tuple[str, ...]:
    """Return what there is to know of a skill, a line each."""
    allowed = f"only these tools while it is in use: {', '.join(skill.allowed) or 'none'}" if skill.allowed is not None else ""
    needs_yes = skill.state in (SkillState.WAITING, SkillState.REFUSED)
    way_out = "It holds once you trust it: /trust, or `lmtui config trust`" if needs_yes else ""
    lines = (skill.description, f"from {skill.place}", allowed, way_out, skill.problem, *skill.warnings)
    return tuple(clean_line(line) for line in lines if line)


def tool_facts(tool: PromotedTool) -> tuple[str, ...]:
    """Return what there is to know of a promoted tool, a line each."""
    lines = (tool.description, f"{tool.function} of {tool.origin}, as it was when you said yes", tool.problem)
    return tuple(clean_line(line) for line in lines if line)


def skill_lines(skills: Sequence[Skill], tools: Sequence[PromotedTool]) -> list[str]:
    """Return all of them as plain lines."""
    lines: list[str] = []
    for skill in skills:
        lines += [f"{skill.name}: {skill.source}, {skill_state(skill)}", *(f"  {line}" for line in skill_facts(skill))]
    for tool in tools:
        lines += [f"{tool.name}: a tool, {tool.tokens:,} tokens", *(f"  {line}" for line in tool_facts(tool))]
    return lines or ["No skills here."]


def skill_used_words(event: SkillUsed) -> str:
    """Return that a skill is in use, and what it leaves to be called, in a line."""
    limits = f", until the turn ends only with {', '.join(event.allowed) or 'no tools'}" if event.is_limited else ""
    return clean_line(f"skill {event.skill} ({event.source}){limits}")


def skill_call(argument: str) -> tuple[str, str]:
    """Return the name and the words of what follows `/skill`."""
    name, _, words = argument.strip().partition(" ")
    return name, words.strip()


def promote_call(argument: str) -> tuple[str, str, str]:
    """Return file, function and name of what follows `/promote`.

    Raises:
        UsageError: it is something else.
    """
    parts = argument.split()
    if len(parts) not in (2, 3):
        raise UsageError("which function of which file should become a tool?", _PROMOTE_FORM)
    return parts[0].removeprefix("@"), parts[1], parts[2] if len(parts) == 3 else ""
