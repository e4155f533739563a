"""`lmtui skills`: the skills that are there, with their prices, or one as the model reads it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence

from lmtui.command_line import Parser, make_parser, say, with_report
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.sanitize import sanitize
from lmtui.core.subagents import FileState
from lmtui.features.service import CommandCall
from lmtui.features.skills.commands import skill_facts, skill_state, tool_facts
from lmtui.features.skills.service import shelf_of
from lmtui.features.skills.shelf import SkillShelf
from lmtui.features.skills.values import PromotedTool, Skill


def skills_parser() -> Parser:
    """Return the parser of `lmtui skills`."""
    doc = "List the skills of a folder and your own, with their prices in tokens, or print one as the model reads it."
    parser = make_parser("skills", doc, "lmtui skills show find-bug")
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="show: which one")
    return with_report(parser)


SIGNS = {
    FileState.READY: "✓",
    FileState.BROKEN: "✗",
    FileState.HIDDEN: "–",
    FileState.REFUSED: "–",
    FileState.WAITING: "!",
}


async def skills(call: CommandCall) -> int:
    """Print every skill, or one of them; 1 where one is broken."""
    arguments = call.arguments
    shelf = shelf_of(call.workspace.workspace, call.workspace.count_tokens)
    if arguments.action == "show":
        return await _show(shelf, arguments)
    found_skills, tools, (_, told) = await shelf.found(), shelf.promoted(), await shelf.told()
    if arguments.json:
        found = {
            "skills": [skill_json(each) for each in found_skills],
            "tools": [_tool_json(each) for each in tools],
            "tokens": told,
        }
        print(json.dumps(found, indent=2, ensure_ascii=False))
    else:
        _print(found_skills, tools, told)
    return 1 if any(skill.state is FileState.BROKEN for skill in found_skills) else 0


def skill_json(skill: Skill) -> dict[str, object]:
    """Return a skill as one JSON object."""
    names = ("name", "description", "place", "tokens", "body_tokens", "problem", "warnings")
    kinds = {"state": skill.state.name.lower(), "source": skill.source.name.lower(), "allowed_tools": skill.allowed}
    return {name: getattr(skill, name) for name in names} | kinds


def _tool_json(tool: PromotedTool) -> dict[str, object]:
    names = ("name", "description", "function", "origin", "parameters", "tokens", "problem")
    return {name: getattr(tool, name) for name in names}


def _print(skills: Sequence[Skill], tools: Sequence[PromotedTool], told: int) -> None:
    for skill in skills:
        say(f"{SIGNS[skill.state]} {skill.name:<24} {skill.source!s:<12} {skill_state(skill)}")
        for line in skill_facts(skill):
            say(f"    {line}")
    for tool in tools:
        say(f"{'✗' if tool.problem else '✓'} {tool.name:<24} {'tool':<12} {tool.tokens:,} tokens")
        for line in tool_facts(tool):
            say(f"    {line}")
    say(f"What the model is told about skills before one is read: {told:,} tokens.")


async def _show(shelf: SkillShelf, arguments: argparse.Namespace) -> int:
    if not arguments.name:
        raise UsageError("which skill?", "Write `lmtui skills show NAME`; `lmtui skills` lists them.")
    try:
        text = (await shelf.use(arguments.name)).text
    except ToolError as error:
        raise UsageError(str(error), error.hint) from error
    print(json.dumps({"name": arguments.name, "text": text}, ensure_ascii=False) if arguments.json else sanitize(text))
    return 0
