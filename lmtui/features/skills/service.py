"""The skills, promoted tools and sub-agents of a workspace and its user, for sessions and for who only asks."""

from __future__ import annotations

import asyncio
import difflib
import hashlib
import json
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from pathlib import Path

from lmtui.command_line import FAILURE, NONE, OK, TRUST_HINT, WARNING, CheckRow
from lmtui.core.errors import ToolError
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
    ANSWERED,
    LEAST_TOLD_TOKENS,
    MOST_TOLD_TOKENS,
    SKILL,
    SkillShelf,
    SkillTools,
    list_text,
    remind_of_skills,
)
from lmtui.features.skills.skill_folders import SkillFolder, skills_trust
from lmtui.features.skills.values import PROMOTE_TOOL, Skill, Skills, SkillSource
from lmtui.paths import config_dir
from lmtui.plain_files import LINKED, NotPlain, is_linked, list_plain, read_plain
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from lmtui.tools.tool import BroughtTools, Told

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
        working = {
            "ready": _names(skills, FileState.READY),
            "promoted tools": [tool.name for tool in tools if not tool.problem],
        }
        told = ", ".join(f"{len(names)} {kind}" for kind, names in working.items() if names)
        text = f"{told}; {tokens:,} tokens in each request"
        rows = [CheckRow("skills", OK, text) if told else CheckRow("skills", NONE, "none")]
        for state, mark, hint in (*_HELD_BACK, (FileState.HIDDEN, NONE, "")):
            if names := _names(skills, state):
                rows.append(CheckRow("skills", mark, f"{state}: {', '.join(names)}", hint))
        rows += [CheckRow("skills", FAILURE, skill.problem) for skill in skills if skill.state is FileState.BROKEN]
        rows += [
            CheckRow("skills", WARNING, f"{skill.place}: {'; '.join(skill.warnings)}") for skill in skills if skill.warnings
        ]
        return rows + [CheckRow("skills", FAILURE, f"{tool.name}: {tool.problem}") for tool in tools if tool.problem]

    async def _agent_rows(self) -> list[CheckRow]:
        """Name the sub-agents that are defined; nothing where there are none."""
        found, (_, tokens) = await self._agents.found(), await self._agents.told(MOST_TOLD_TOKENS // 2)
        names = {state: ", ".join(each.name for each in found if each.state is state) for state in FileState}
        ready = names[FileState.READY]
        rows = [CheckRow("sub-agents", OK, f"{ready}; {tokens:,} tokens in each request")] if ready else []
        rows += [
            CheckRow("sub-agents", mark, f"{state}: {names[state]}", hint) for state, mark, hint in _HELD_BACK if names[state]
        ]
        for each in found:
            if each.state is FileState.HIDDEN:
                rows.append(CheckRow("sub-agents", NONE, f"{each.place} is hidden: {each.problem}"))
            elif each.problem:
                rows.append(CheckRow("sub-agents", WARNING, each.problem, _AGENT_FORM))
            if each.warnings:
                rows.append(CheckRow("sub-agents", WARNING, f"{each.place}: {'; '.join(each.warnings)}"))
        return rows


def _names(skills: Sequence[Skill], state: FileState) -> list[str]:
    return [sanitize_line(skill.name) for skill in skills if skill.state is state]


KIND = "sub-agent"
FOLDERS = (".lmagent/agents", ".claude/agents")
_MAX_BYTES, _MOST_FILES = 262_144, 200
_SHOWN_CHARS = 120
_HEAD = "Sub-agents with instructions of their own; name one that fits as `agent` in `delegate`, or in a task of `decompose`:"
_MORE = "and {count} more: a name that there is not lists them all"
_TRUST = "Only the user's yes lets it be used: `lmtui config trust`, or /trust on the screen."


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
        self._parsed = lru_cache(_MOST_FILES)(partial(_parsed, canonical))
        self.trust = FolderConsent(workspace, "agents", lambda: self._brought(self._of_folder()))
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
        found, wanted = await self.found(), _key(name)
        named = sorted(
            (each for each in found if _key(each.name) == wanted), key=lambda each: each.state is not FileState.READY
        )
        if named and named[0].state is FileState.READY:
            return named[0]
        names = [each.name for each in found if each.state is FileState.READY]
        there = f"There are: {', '.join(names)}." if names else "There are none."
        if named:
            why = named[0].problem or f"{named[0].place} {named[0].state}"
            raise ToolError(f"the sub-agent {named[0].name} cannot be used: {why}", f"{_TRUST} {there}")
        close = difflib.get_close_matches(wanted, names, n=1)
        raise ToolError(f"no sub-agent {name[:60]!r}", f"Did you mean {close[0]}? {there}" if close else there)

    def _look(self) -> list[AgentDefinition]:
        own = self._of_folder()  # once: what is trusted is what is used
        answers = self.trust.answers()
        state = next((ANSWERED.get(answers.get(item.digest, "")) for item in self._brought(own)), None) or FileState.WAITING
        found = [replace(each, state=state) if each.state is FileState.READY else each for each, _ in own]
        found += [each for place in self._places if place.source is SkillSource.USER for each, _ in self._in(place)]
        first: dict[str, AgentDefinition] = {}
        for number, each in enumerate(found):
            if each.state is FileState.READY and (before := first.setdefault(_key(each.name), each)) is not each:
                found[number] = replace(each, state=FileState.HIDDEN, problem=f"the one in {before.place} goes before it")
        return sorted(found, key=lambda each: each.name)

    def _of_folder(self) -> list[tuple[AgentDefinition, bytes]]:
        return [each for place in self._places if place.source is SkillSource.FOLDER for each in self._in(place)]

    def _in(self, place: SkillFolder) -> Iterator[tuple[AgentDefinition, bytes]]:
        """Yield what the Markdown files of a place define, each with its bytes.  Blocks; no link in a place is followed."""
        if place.source is SkillSource.FOLDER and is_linked(place.root, place.below):
            yield _broken("*", place.shown, LINKED), b""
        names = [name for name, kind in list_plain(place.root, place.below) if kind != "folder" and name.endswith(".md")]
        for name in names[:_MOST_FILES]:
            shown = sanitize_line(f"{place.shown}/{name}")
            try:
                data = read_plain(place.root, "/".join(filter(None, (place.below, name))), _MAX_BYTES + 1) or b""
            except NotPlain as error:
                yield _broken(name, shown, f"it was not read: {error}"), b""
                continue
            if len(data) > _MAX_BYTES:
                yield _broken(name, shown, f"it has more than {_MAX_BYTES:,} bytes"), b""
                continue
            yield self._parsed(data, name, shown), data

    def _brought(self, own: Sequence[tuple[AgentDefinition, bytes]]) -> list[TrustItem]:
        whole = [(each, data) for each, data in own if each.state is FileState.READY]
        marks = (f"{each.place}\0{hashlib.sha256(data).hexdigest()}" for each, data in whole)
        digest = hashlib.sha256("\0".join(marks).encode("utf-8", "surrogatepass")).hexdigest()
        return [
            TrustItem(KIND, each.place, sanitize_line(f"{each.name}: {each.description[:_SHOWN_CHARS]}"), digest)
            for each, _ in whole
        ]


def _parsed(canonical: Callable[[str], str], data: bytes, name: str, shown: str) -> AgentDefinition:
    try:
        return read_agent(data, name.removesuffix(".md"), shown, canonical)
    except BrokenSkill as error:
        return _broken(name, shown, f"line {error.line}: {error}")


def _broken(name: str, shown: str, why: str) -> AgentDefinition:
    return AgentDefinition(
        sanitize_line(name.removesuffix(".md")), "", shown, state=FileState.BROKEN, problem=f"{shown}: {why}"
    )


def _key(name: str) -> str:
    return name.strip().lower().replace("_", "-").replace(" ", "-")


# A third of what instructions get, which are counted in characters: a twentieth of the window.
AGENTS = "sub-agents"
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
