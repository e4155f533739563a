"""`lmtui skills`: the skills of a folder and its user, whose each is, what it costs, where it stands; or one as it is read."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from lmtui.config import Loaded
from lmtui.core.clean import clean
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.skill_words import skill_facts, skill_state, tool_facts
from lmtui.core.skills import PromotedTool, Skill, SkillState
from lmtui.runtime.skills import read_skill, read_skills

SIGNS = {
    SkillState.READY: "✓",
    SkillState.BROKEN: "✗",
    SkillState.HIDDEN: "–",
    SkillState.REFUSED: "–",
    SkillState.WAITING: "!",
}


async def report(workspace: Path, loaded: Loaded, arguments: argparse.Namespace) -> int:
    """Print every skill, or one of them; 1 where one is broken."""
    del loaded  # no setting is about skills
    if arguments.action == "show":
        return await _show(workspace, arguments)
    skills, tools, (_, told) = await read_skills(workspace)
    if arguments.json:
        found = {"skills": [as_json(each) for each in skills], "tools": [_tool_json(each) for each in tools], "tokens": told}
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(skills, tools, told)
    return 1 if any(skill.state is SkillState.BROKEN for skill in skills) else 0


def as_json(skill: Skill) -> dict[str, object]:
    """Return a skill as one JSON object."""
    return {
        "name": skill.name,
        "description": skill.description,
        "state": skill.state.name.lower(),
        "source": skill.source.name.lower(),
        "place": skill.place,
        "tokens": skill.tokens,
        "body_tokens": skill.body_tokens,
        "allowed_tools": skill.allowed,
        "problem": skill.problem,
        "warnings": skill.warnings,
    }


def _tool_json(tool: PromotedTool) -> dict[str, object]:
    return {
        "name": tool.name,
        "description": tool.description,
        "function": tool.function,
        "origin": tool.origin,
        "parameters": tool.parameters,
        "tokens": tool.tokens,
        "problem": tool.problem,
    }


def _print(skills: list[Skill], tools: list[PromotedTool], told: int) -> None:
    for skill in skills:
        print(f"{SIGNS[skill.state]} {skill.name:<24} {skill.source!s:<12} {skill_state(skill)}")
        for line in skill_facts(skill):
            print(f"    {line}")
    for tool in tools:
        print(f"{'✗' if tool.problem else '✓'} {tool.name:<24} {'tool':<12} {tool.tokens:,} tokens")
        for line in tool_facts(tool):
            print(f"    {line}")
    print(f"What the model is told of skills before one is read: {told:,} tokens.")


async def _show(workspace: Path, arguments: argparse.Namespace) -> int:
    if not arguments.name:
        raise UsageError("which skill?", "Write `lmtui skills show NAME`; `lmtui skills` lists them.")
    try:
        text = await read_skill(workspace, arguments.name)
    except ToolError as error:
        raise UsageError(str(error), error.hint) from error
    print(json.dumps({"name": arguments.name, "text": text}, ensure_ascii=False) if arguments.json else clean(text))
    return 0
