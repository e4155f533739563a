"""`lmtui skills`: the skills that are there, with their prices, or one as the model reads it."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator, Sequence
from functools import partial

from lmtui.command_line import Parser, make_parser, print_report, with_report
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.sanitize import sanitize
from lmtui.core.subagents import FileState
from lmtui.features.service import CommandCall, FeatureHost, Import, SkillFiles, text_to_import
from lmtui.features.skills.commands import skill_facts, skill_state, tool_facts
from lmtui.features.skills.service import shelf_of
from lmtui.features.skills.shelf import SkillShelf
from lmtui.features.skills.values import PromotedTool, Skill
from lmtui.plain_files import list_plain


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
    found = {"skills": [*map(skill_json, found_skills)], "tools": [*map(_tool_json, tools)], "tokens": told}
    print_report(found, _lines(found_skills, tools, told), is_json=arguments.json)
    return 1 if any(skill.state is FileState.BROKEN for skill in found_skills) else 0


def skill_json(skill: Skill) -> dict[str, object]:
    """Return a skill as one JSON object."""
    names = ("name", "description", "place", "tokens", "body_tokens", "problem", "warnings")
    kinds = {"state": skill.state.name.lower(), "source": skill.source.name.lower(), "allowed_tools": skill.allowed}
    return {name: getattr(skill, name) for name in names} | kinds


def _tool_json(tool: PromotedTool) -> dict[str, object]:
    names = ("name", "description", "function", "origin", "parameters", "tokens", "problem")
    return {name: getattr(tool, name) for name in names}


def _lines(skills: Sequence[Skill], tools: Sequence[PromotedTool], told: int) -> Iterator[str]:
    for skill in skills:
        yield f"{SIGNS[skill.state]} {skill.name:<24} {skill.source!s:<12} {skill_state(skill)}"
        yield from (f"    {line}" for line in skill_facts(skill))
    for tool in tools:
        yield f"{'✗' if tool.problem else '✓'} {tool.name:<24} {'tool':<12} {tool.tokens:,} tokens"
        yield from (f"    {line}" for line in tool_facts(tool))
    yield f"What the model is told about skills before one is read: {told:,} tokens."


async def _show(shelf: SkillShelf, arguments: argparse.Namespace) -> int:
    if not arguments.name:
        raise UsageError("which skill?", "Write `lmtui skills show NAME`; `lmtui skills` lists them.")
    try:
        text = (await shelf.use(arguments.name)).text
    except ToolError as error:
        raise UsageError(str(error), error.hint) from error
    print(json.dumps({"name": arguments.name, "text": text}, ensure_ascii=False) if arguments.json else sanitize(text))
    return 0


def imports(host: FeatureHost) -> list[Import]:
    """Return the skills in `.lao/skills`, one Markdown file each."""
    folder, add, is_for_all = ".lao/skills", host.extensions[SkillFiles].add, False
    names = [name for name, kind in list_plain(host.workspace, folder) if kind == "file" and name.endswith(".md")]
    texts = {name: text_to_import(host.workspace, f"{folder}/{name}") for name in names}
    return [Import(f"skill from {folder}/{name}", partial(add, text, is_for_all)) for name, text in texts.items()]
