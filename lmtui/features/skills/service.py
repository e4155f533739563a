"""The skills, promoted tools and sub-agents of a workspace and its user, for sessions and for who only asks."""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from lmtui.command_line import FAILURE, NONE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.offers import Offers
from lmtui.core.ports import TokenCounter
from lmtui.core.prompt_parts import SKILLS, PartSource, PromptParts, PromptSource
from lmtui.core.sanitize import sanitize_line
from lmtui.core.subagents import AgentDefinition, AgentDefinitions, ChildKind, FileState
from lmtui.core.trust import TrustItem
from lmtui.features.folder_consent import FolderConsent
from lmtui.features.service import FeatureHost, SessionServices, SkillFiles, WorkspaceFeature
from lmtui.features.skills.promoted import PromotedTools
from lmtui.features.skills.reader import BrokenSkill, read_agent
from lmtui.features.skills.shelf import (
    LEAST_TOLD_TOKENS,
    MOST_TOLD_TOKENS,
    SKILL,
    SkillShelf,
    SkillTools,
    list_text,
    ready_one,
    remind_of_skills,
    with_states,
)
from lmtui.features.skills.skill_folders import RawFile, SkillFolder, files_in, skills_trust, trust_text
from lmtui.features.skills.values import PROMOTE_TOOL, Skill, Skills, SkillSource
from lmtui.paths import config_dir
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from lmtui.tools.tool import BroughtTools, Told

_MOST_KEPT = 800
_AGENT_FORM = "It begins with ---, name: and description: lines, and --- again; its instructions follow."
_HELD_BACK = ((FileState.WAITING, WARNING, TRUST_HINT), (FileState.REFUSED, NONE, ""))


def shelf_of(workspace: Path, count_tokens: TokenCounter) -> SkillShelf:
    """Return the skills of a workspace and its user."""
    return SkillShelf(workspace, config_dir(), count_tokens, ToolRegistry().canonical, _form_of)


def _form_of(name: str) -> str:
    """Return how a tool is called that a model is seldom told of."""
    tool = next((tool for tool in ALL_TOOLS if tool.name == name), None)
    if tool is None or name == "skill" or (tool.told is not Told.SELDOM and name != PROMOTE_TOOL):
        return ""
    spec = tool.spec()
    return f"There is a tool {spec.name}: {spec.description} Its arguments: {json.dumps(spec.parameters)}"


class SkillsService(WorkspaceFeature):
    """Gives sessions the skills, what the model is told about them, and the tools that they bring."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        workspace, count_tokens = host.workspace, host.count_tokens
        self._agents = AgentFiles(workspace, config_dir(), count_tokens, ToolRegistry().canonical)
        self._shelf = shelf_of(workspace, count_tokens)
        self._shelf.sessions = lambda: host.sessions
        self.trust = (skills_trust(workspace), self._agents.trust)
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
        return [*rows, *_rows(AGENTS, found, WARNING, _AGENT_FORM)]


def _ready(found: Sequence[Skill] | Sequence[AgentDefinition]) -> list[str]:
    return [each.name for each in found if each.state is FileState.READY]


def _rows(name: str, found: Sequence[Skill] | Sequence[AgentDefinition], broken: str, form: str = "") -> Iterator[CheckRow]:
    """Yield the rows about files of which something cannot be used, or is wrong."""
    for state, mark, hint in _HELD_BACK:
        if names := ", ".join(sanitize_line(each.name) for each in found if each.state is state):
            yield CheckRow(name, mark, f"{state}: {names}", hint)
    for each in found:
        if each.state is FileState.HIDDEN:
            yield CheckRow(name, NONE, f"{each.place} is hidden: {each.problem}")
        if each.state is FileState.BROKEN:
            yield CheckRow(name, broken, each.problem, form)
        if each.warnings:
            yield CheckRow(name, WARNING, f"{each.place}: {'; '.join(each.warnings)}")


KIND, AGENTS = "sub-agent", "sub-agents"
FOLDERS = (".lmagent/agents", ".claude/agents")
_HEAD = "Sub-agents with instructions of their own; name one that fits as `agent` in `delegate`, or in a task of `decompose`:"
_MORE = "and {count} more: a name that there is not lists them all"


class AgentFiles:
    """The definitions of sub-agents in the files of a workspace and its user.

    Args:
        workspace: the folder in work.
        settings: the user's folder for settings.
        count_tokens: prices what the model is told.
        canonical: returns our name of a tool, raises `ToolError` where there is none.
    """

    def __init__(self, workspace: Path, settings: Path, count_tokens: TokenCounter, canonical: Callable[[str], str]) -> None:
        self._places = [
            *(SkillFolder(SkillSource.FOLDER, workspace, folder, folder) for folder in FOLDERS),
            SkillFolder(SkillSource.USER, settings / "agents", "", str(settings / "agents")),
            SkillFolder(SkillSource.USER, Path.home() / FOLDERS[1], "", f"~/{FOLDERS[1]}"),
        ]
        self._count_tokens = count_tokens
        self._parsed = lru_cache(_MOST_KEPT)(partial(_parsed, canonical))
        self.trust = FolderConsent(workspace, "agents", lambda: _brought(self._read(SkillSource.FOLDER)))
        self.ready: list[tuple[str, str]] = []
        self.problems: tuple[str, ...] = ()

    async def found(self) -> Sequence[AgentDefinition]:
        """Return every definition that is there now, by name; what is broken, hidden or waits too."""
        return await asyncio.to_thread(self._look)

    async def told(self, most_tokens: int) -> tuple[str, int]:
        """Return what the model is told about them in so many tokens, and what that costs; `ready` is up to date then."""
        found = await self.found()
        self.ready[:] = [(each.name, each.description) for each in found if each.state is FileState.READY]
        self.problems = tuple(each.problem for each in found if each.state is FileState.BROKEN)
        return list_text(_HEAD, _MORE, self.ready, most_tokens, self._count_tokens)

    async def named(self, name: str) -> AgentDefinition:
        """Return a definition; see `AgentDefinitions`."""
        return ready_one("sub-agent", await self.found(), name)

    def _look(self) -> list[AgentDefinition]:
        own = self._read(SkillSource.FOLDER)  # once: what is trusted is what is used
        answers = self.trust.answers()
        answer = next((answers.get(item.digest) for item in _brought(own)), None)
        return [each for _, each in with_states([*own, *self._read(SkillSource.USER)], lambda _: answer)]

    def _read(self, source: SkillSource) -> list[tuple[RawFile, AgentDefinition]]:
        """Return what the files of some places define.  Blocks."""
        places = (place for place in self._places if place.source is source)
        return [(raw, self._parsed(raw)) for place in places for raw in files_in(place)]


def _brought(own: Sequence[tuple[RawFile, AgentDefinition]]) -> list[TrustItem]:
    """Return what the definitions of a folder wait for: one yes to all of them as they are."""
    whole = [(raw, each) for raw, each in own if each.state is FileState.READY]
    marks = (f"{raw.shown}\0{hashlib.sha256(raw.data or b'').hexdigest()}" for raw, _ in whole)
    digest = hashlib.sha256("\0".join(marks).encode("utf-8", "surrogatepass")).hexdigest()
    return [TrustItem(KIND, each.place, trust_text(each.name, each.description), digest) for _, each in whole]


def _parsed(canonical: Callable[[str], str], raw: RawFile) -> AgentDefinition:
    why = raw.problem
    if raw.data is not None:
        try:
            return read_agent(raw.data, raw.name, raw.shown, canonical)
        except BrokenSkill as error:
            why = f"line {error.line}: {error}"
    return AgentDefinition(raw.name, "", raw.shown, state=FileState.BROKEN, problem=f"{raw.shown}: {why}")


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
