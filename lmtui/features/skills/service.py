"""The skills, promoted tools and sub-agents of a workspace and its user, for sessions, for who only asks and `lmtui skills`."""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from lmtui.command_line import (
    FAILURE,
    NONE,
    OK,
    TRUST_HINT,
    WARNING,
    CheckRow,
    Parser,
    make_parser,
    print_report,
    with_report,
)
from lmtui.core.errors import ToolError, UsageError
from lmtui.core.offers import Offers
from lmtui.core.ports import TokenCounter
from lmtui.core.prompt_parts import SKILLS, PartSource, PromptParts, PromptSource
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import AgentDefinition, AgentDefinitions, ChildKind, FileState
from lmtui.features.service import (
    CommandCall,
    FeatureHost,
    Import,
    SessionServices,
    SkillFiles,
    WorkspaceFeature,
    text_to_import,
)
from lmtui.features.skills.commands import SIGNS, skill_facts, skill_state, tool_facts
from lmtui.features.skills.promoted import PromotedTools
from lmtui.features.skills.reader import BrokenSkill, read_agent
from lmtui.features.skills.shelf import (
    FORM,
    LEAST_TOLD_TOKENS,
    MOST_TOLD_TOKENS,
    SKILL,
    SkillShelf,
    SkillTools,
    list_text,
    remind_of_skills,
)
from lmtui.features.skills.skill_folders import DefinitionFiles, RawFile
from lmtui.features.skills.values import PromotedTool, Skill, Skills
from lmtui.plain_files import list_plain
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ToolRegistry
from lmtui.tools.tool import BroughtTools, Told

_HELD_BACK = ((FileState.WAITING, WARNING, TRUST_HINT), (FileState.REFUSED, NONE, ""))


class SkillsService(WorkspaceFeature):
    """Gives sessions the skills, what the model is told about them, and the tools that they bring."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._agents = AgentFiles(host.workspace, host.count_tokens)
        self._shelf = SkillShelf(host.workspace, host.count_tokens)
        self._shelf.sessions = lambda: host.sessions
        self.trust = (self._shelf.files.trust, self._agents.files.trust)
        extensions.add(Skills, self._shelf)
        extensions.add(SkillFiles, SkillFiles(self._shelf.add))
        extensions.add(AgentDefinitions, AgentDefinitions(self._agents.named))
        told_agents = self._agents if host.config.has_sub_agents else None
        guide = SkillsGuide(extensions.get(PromptSource), self._shelf.told, told_agents)
        extensions.add(PromptSource, guide)

    async def prepare(self) -> None:
        """Read the promoted tools."""
        _ = await asyncio.to_thread(self._shelf.promoted)

    def equip(self, session: SessionServices, sandbox: WorkspaceSandbox) -> None:
        """Add the skills and what keeps functions as tools."""
        del sandbox
        session.features.add(Skills, self._shelf)
        session.points.before_request.append(remind_of_skills)
        session.features.add(PromotedTools, self._shelf.tools)

    def tools(self, own: ToolRegistry, kind: ChildKind | None = None) -> Sequence[BroughtTools]:
        """Return the promoted tools, which sub-agents do not get."""
        found, sources = SkillTools(own, self._shelf.tools, self._agents.ready), (self._shelf.tools.known, self._agents.ready)
        return [BroughtTools(found.offer, found.prepare, sources=sources)] if kind is None else ()

    def told(self) -> Mapping[str, Told]:
        """Return when the model learns of its tools: who has none still finds the list by it."""
        return {SKILL: Told.ALWAYS}

    async def check(self, *, is_offline: bool) -> Sequence[CheckRow]:
        """Tell how many there are and what they cost; what is broken, or wrong in part, has its own row."""
        del is_offline
        return [*await self._skill_rows(), *await self._agent_rows()]

    async def _skill_rows(self) -> list[CheckRow]:
        skills, (_, tokens) = await self._shelf.found(), await self._shelf.told()
        tools = self._shelf.promoted()
        counts = {"ready": len(_ready(skills)), "promoted tools": sum(not tool.problem for tool in tools)}
        told = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        row = CheckRow("skills", OK, f"{told}; {tokens:,} tokens in each request") if told else CheckRow("skills", NONE, "none")
        broken = [CheckRow("skills", FAILURE, f"{tool.name}: {tool.problem}") for tool in tools if tool.problem]
        return [row, *_rows("skills", skills, FAILURE), *broken]

    async def _agent_rows(self) -> list[CheckRow]:
        """Name the sub-agents that are defined; nothing where there are none."""
        found, (_, tokens) = await self._agents.found(), await self._agents.told(MOST_TOLD_TOKENS // 2)
        ready = ", ".join(_ready(found))
        rows = [CheckRow(AGENTS, OK, f"{ready}; {tokens:,} tokens in each request")] if ready else []
        return [*rows, *_rows(AGENTS, found, WARNING)]


def _ready(found: Sequence[Skill] | Sequence[AgentDefinition]) -> list[str]:
    return [each.name for each in found if each.state is FileState.READY]


def _rows(name: str, found: Sequence[Skill] | Sequence[AgentDefinition], broken: str) -> Iterator[CheckRow]:
    """Yield the rows about files of which something cannot be used, or is wrong."""
    for state, mark, hint in _HELD_BACK:
        if names := ", ".join(sanitize_line(each.name) for each in found if each.state is state):
            yield CheckRow(name, mark, f"{state}: {names}", hint)
    for each in found:
        if each.state is FileState.HIDDEN:
            yield CheckRow(name, NONE, f"{each.place} is hidden: {each.problem}")
        if each.state is FileState.BROKEN:
            yield CheckRow(name, broken, each.problem, FORM)
        if each.warnings:
            yield CheckRow(name, WARNING, f"{each.place}: {'; '.join(each.warnings)}")


AGENTS = "sub-agents"
_HEAD = "Sub-agents with instructions of their own; name one that fits as `agent` in `delegate`, or in a task of `decompose`:"
_MORE = "and {count} more: a name that there is not lists them all"


class AgentFiles:
    """The definitions of sub-agents in the files of a workspace and its user; `ready` is told to the model."""

    def __init__(self, workspace: Path, count_tokens: TokenCounter) -> None:
        self._count_tokens = count_tokens
        self.files = DefinitionFiles[AgentDefinition](workspace, "agents", "sub-agent", _parsed)
        self.ready: list[tuple[str, str]] = []
        self.problems: tuple[str, ...] = ()

    async def found(self) -> Sequence[AgentDefinition]:
        """Return every definition that is there now, by name; what is broken, hidden or waits too."""
        return [each for _, each in await asyncio.to_thread(self.files.found)]

    async def told(self, most_tokens: int) -> tuple[str, int]:
        """Return what the model is told about them in so many tokens, and what that costs; `ready` is up to date then."""
        found = await self.found()
        self.ready[:] = [(each.name, each.description) for each in found if each.state is FileState.READY]
        self.problems = tuple(each.problem for each in found if each.state is FileState.BROKEN)
        return list_text(_HEAD, _MORE, self.ready, most_tokens, self._count_tokens)

    async def named(self, name: str) -> AgentDefinition:
        """Return a definition; see `AgentDefinitions`."""
        return (await asyncio.to_thread(self.files.ready, name))[1]


def _parsed(raw: RawFile) -> AgentDefinition:
    try:
        return read_agent(raw.content, raw.name, raw.shown, ToolRegistry().canonical)
    except BrokenSkill as error:
        return AgentDefinition(raw.name, "", raw.shown, state=FileState.BROKEN, problem=f"{raw.shown}: {error}")


# A third of what instructions get, which are counted in characters: a twentieth of the window.
_TOKENS_PER_CHAR = 1 / 3 / 3.5


class SkillsGuide:
    """Implements `PromptSource` over another.

    `told` returns the list of skills in at most so many tokens, and its price; `agents`, if any, have half of that room.
    """

    def __init__(
        self,
        base: PromptSource | None,
        told: Callable[[int], Awaitable[tuple[str, int]]],
        agents: AgentFiles | None = None,
    ) -> None:
        self._base, self._told, self._agents = base, told, agents

    async def read(self, limit_chars: int) -> PromptParts:
        most_tokens = max(LEAST_TOLD_TOKENS, min(MOST_TOLD_TOKENS, int(limit_chars * _TOKENS_PER_CHAR)))
        agents, price = await self._agents.told(most_tokens // 2) if self._agents is not None else ("", 0)
        skills, tokens = await self._told(most_tokens - price)
        found = await self._base.read(limit_chars) if self._base is not None else PromptParts()
        lists = [(name, cost) for name, text, cost in (("skills", skills, tokens), (AGENTS, agents, price)) if text]
        return replace(
            found,
            skills="\n\n".join(filter(None, (skills, agents))),
            sources=(*found.sources, *(PartSource(SKILLS, *each) for each in lists)),
            problems=(*found.problems, *(self._agents.problems if self._agents is not None else ())),
        )


def skills_parser() -> Parser:
    """Return the parser of `lmtui skills`."""
    doc = "List the skills of a folder and your own, with their prices in tokens, or print one as the model reads it."
    parser = make_parser("skills", doc, "lmtui skills show find-bug")
    parser.add_argument("action", nargs="?", choices=("list", "show"), default="list")
    parser.add_argument("name", nargs="?", metavar="NAME", help="show: which one")
    return with_report(parser)


async def skills(call: CommandCall) -> int:
    """Print every skill, or one of them; 1 where one is broken."""
    arguments = call.arguments
    shelf = SkillShelf(call.workspace.workspace, call.workspace.count_tokens)
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
        yield f"{SIGNS[skill.state][0]} {skill.name:<24} {skill.source!s:<12} {skill_state(skill)}"
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
