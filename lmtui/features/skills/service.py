"""The skills, promoted tools and sub-agents of a workspace and its user, for sessions, for who only asks and `lmtui skills`."""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
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
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.offers import Offers
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.ports import PreparedCall, TokenCounter, Toolbox
from lmtui.core.prompt_parts import SKILLS, PartSource, PromptParts, PromptSource, without_tags
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import AgentDefinition, AgentDefinitions, ChildKind, FileState
from lmtui.core.tool_scopes import SkillEnded, digest_of
from lmtui.engine.agent import Agent
from lmtui.engine.session import EngineSession
from lmtui.features.call_arguments import read_arguments
from lmtui.features.front_matter import allowed_rules
from lmtui.features.service import (
    CommandCall,
    FeatureHost,
    Import,
    SessionServices,
    SkillFiles,
    WorkspaceFeature,
    text_to_import,
)
from lmtui.features.skills import promoted
from lmtui.features.skills.commands import skill_lines
from lmtui.features.skills.promoted import PromotedTools
from lmtui.features.skills.reader import BrokenSkill, read_agent, read_skill
from lmtui.features.skills.skill_folders import (
    MAX_SKILL_BYTES,
    DefinitionFiles,
    RawFile,
    add_skill,
    digest,
    files_beside,
    key_of,
    read_beside,
)
from lmtui.features.skills.values import PROMOTE_TOOL, PromotedTool, Skill, Skills, SkillSource, SkillUse
from lmtui.plain_files import NotPlain, list_plain
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from lmtui.tools.tool import BroughtTools, Told

SKILL = "skill"
_AGENT = {"type": "string", "description": "a sub-agent of the list"}
_MOST_TOOL_TOKENS = 1_000


class SkillTools:
    """The promoted tools for one conversation; in a small set of tools nothing of skills is told.

    While there are `agents`, `delegate` of our `own` tools has an argument more.
    """

    def __init__(self, own: Toolbox, tools: PromotedTools, agents: Sequence[object] = ()) -> None:
        self._own, self._tools, self._agents = own, tools, agents

    def offer(self, tool_set: ToolSet, window_tokens: int) -> tuple[ToolSpec, ...]:
        """Return the promoted tools as far as there is room; the others are called all the same."""
        del window_tokens
        if tool_set not in (ToolSet.FULL, ToolSet.ALL):
            return ()
        own = self._own.specs(tool_set) if self._agents else ()
        told = [_with_agent(spec) for spec in own if spec.name == "delegate"]
        room = _MOST_TOOL_TOKENS
        for tool in self._tools.all():
            room -= tool.tokens if not tool.problem else 0
            if not tool.problem and room >= 0:
                told.append(ToolSpec(tool.name, tool.description, tool.parameters))
        return tuple(told)

    def prepare(self, name: str, arguments: str) -> PreparedCall | None:
        """Check a call of one of them; None for other names."""
        wanted = name.strip().lower().replace("-", "_")
        if not wanted.startswith(PROMOTED):
            return None
        tool = self._tools.named(wanted)
        return promoted.prepare(tool, read_arguments(tool.name, arguments))


def _with_agent(spec: ToolSpec) -> ToolSpec:
    properties = spec.parameters["properties"]
    assert isinstance(properties, dict)
    return replace(spec, parameters={**spec.parameters, "properties": {**properties, "agent": _AGENT}})


LEAST_TOLD_TOKENS, MOST_TOLD_TOKENS, MOST_BODY_TOKENS = 300, 3_000, 5_000
_DESCRIPTION_CHARS = (1_024, 500, 250, 100)  # as much of each as there is room for in the list
_HEAD = "Skills; read one that fits with `skill` before you begin:"
_MORE = "and {count} more: call `skill` without a name"
_FORM = "It begins with ---, name: and description: lines, and --- again."


class SkillShelf:
    """Implements `Skills` over the files of a workspace and its user; `sessions` returns those that are open."""

    def __init__(self, workspace: Path, count_tokens: TokenCounter) -> None:
        self._workspace, self._count_tokens = workspace, count_tokens
        self.files = DefinitionFiles[Skill](workspace, "skills", SKILL, self._parse)
        self._used: dict[str, SkillUse] = {}
        self.sessions: Callable[[], Iterable[EngineSession]] = tuple
        self.tools = PromotedTools(workspace, count_tokens)

    async def found(self) -> Sequence[Skill]:
        return [skill for _, skill in await asyncio.to_thread(self.files.found)]

    async def told(self, most_tokens: int = LEAST_TOLD_TOKENS) -> tuple[str, int]:
        """Return what the model is told about the skills in so many tokens, and what that costs."""
        return list_text(_HEAD, _MORE, await self._ready(), most_tokens, self._count_tokens)

    async def listing(self) -> str:
        ready = [_line(*each) for each in await self._ready()]
        tools = await asyncio.to_thread(self.promoted)
        ready += [f"- {tool.name} (a tool): {tool.description}" for tool in tools if not tool.problem]
        return "\n".join(ready) or "No skills found."

    async def _ready(self) -> list[tuple[str, str]]:
        return [(skill.name, skill.description) for skill in await self.found() if skill.state is FileState.READY]

    async def use(self, name: str) -> SkillUse:
        raw, skill = await asyncio.to_thread(self.files.ready, name, 40)
        text = await asyncio.to_thread(self._text, raw, skill)
        used = self._used[skill.name] = SkillUse(skill.name, text, skill.source, skill.allowed)
        return used

    async def read_file(self, name: str, file: str) -> str:
        raw, skill = await asyncio.to_thread(self.files.ready, name, 40)
        try:
            data = await asyncio.to_thread(read_beside, raw.place, raw.folder, file, MAX_SKILL_BYTES + 1)
        except (NotPlain, OSError) as error:
            raise ToolError(f"{file[:100]} of skill {skill.name} cannot be read: {error}") from error
        if data is None:
            there = ", ".join(await asyncio.to_thread(files_beside, raw.place, raw.folder)) or "none"
            raise ToolError(f"skill {skill.name} has no file {file[:100]!r}", f"Its files: {sanitize_line(there)}.")
        if b"\0" in data:
            raise ToolError(f"{file[:100]} of skill {skill.name} is not text")
        cut = f"\n[cut here: this is its first {MAX_SKILL_BYTES:,} bytes]" if len(data) > MAX_SKILL_BYTES else ""
        return sanitize(data[:MAX_SKILL_BYTES].decode("utf-8", "replace")) + cut

    def promoted(self) -> Sequence[PromotedTool]:
        return self.tools.all()

    def remove(self, name: str) -> bool:
        return self.tools.remove(name)

    async def in_use(self, session_id: str) -> Sequence[str]:
        return self._session(session_id).followed

    def begin(self, session_id: str, name: str, words: str) -> None:
        said = words.strip() or f"Follow the skill {name}."
        if (used := self._used.get(name)) is None:
            raise ToolError(f"the skill {name[:60]!r} was not read", "Ask for it again.")
        text = f"{said}\n\n{used.text}"
        self._session(session_id).emit(used.event(digest_of(text)))
        self._session(session_id).submit(text, typed=said)

    def end(self, session_id: str, name: str = "") -> None:
        for each in self._session(session_id).followed:
            if name in ("", each):
                self._session(session_id).emit(SkillEnded(skill=each))

    def ask_to_promote(self, session_id: str, path: str, function: str, name: str = "") -> None:
        arguments = json.dumps({"path": path, "function_name": function, "tool_name": name})
        self._session(session_id).run_tool(PROMOTE_TOOL, arguments, f" /promote {path} {function} {name}".rstrip())

    def _session(self, session_id: str) -> EngineSession:
        return next(each for each in self.sessions() if each.id == session_id)

    async def add(self, text: str, is_for_all: bool) -> str:
        """Keep a new SKILL.md that the user has read, for this folder or for all of theirs, and return its place.

        In a workspace it alone is trusted with that.

        Raises:
            UsageError: it is not a skill, there is one of that name, or it cannot be written.
        """
        return await asyncio.to_thread(self._add, text, is_for_all)

    def _add(self, text: str, is_for_all: bool) -> str:
        data = text.encode("utf-8", "replace")
        try:
            name = read_skill(data, "skill").name
        except BrokenSkill as error:
            raise UsageError(f"this is not a skill: {error}", _FORM) from error
        if (same := next((each for _, each in self.files.found() if key_of(each.name) == key_of(name)), None)) is not None:
            raise UsageError(f"a skill named {same.name} already exists: {same.place}", "Give this one another name.")
        source = SkillSource.USER if is_for_all else SkillSource.FOLDER
        raw = add_skill(next(place for place in self.files.places if place.source is source), self._workspace, name, data)
        if not is_for_all:
            self.files.trust.keep([digest(raw)])
        return raw.shown

    def _parse(self, raw: RawFile) -> Skill:
        """Return a skill as its file has it."""
        try:
            file = read_skill(raw.content, raw.folder)
        except BrokenSkill as error:
            problem = f"{raw.shown}: {error}"
            return Skill(raw.name, "", raw.place.source, raw.shown, FileState.BROKEN, problem=problem)
        allowed, wrong = allowed_rules(file.allowed, ToolRegistry().canonical) if file.allowed is not None else (None, ())
        return Skill(
            file.name,
            file.description,
            raw.place.source,
            raw.shown,
            tokens=self._count_tokens(f"{_line(file.name, file.description)}\n"),
            body_tokens=self._count_tokens(file.body),
            allowed=allowed,
            warnings=(*file.warnings, *wrong),
        )

    def _text(self, raw: RawFile, skill: Skill) -> str:
        """Return what the model gets of a skill: its words, its files, and the tools that it names."""
        whole = read_skill(raw.content, raw.folder).body
        body, cut = self._fitting(without_tags(whole))
        parts = [f'<skill name="{skill.name}">\n{body}\n</skill>']
        if cut:
            parts.append(f"[cut here: {cut:,} more characters; `skill` with file SKILL.md gives all of it]")
        if files := files_beside(raw.place, raw.folder):
            is_reachable = raw.place.source is SkillSource.FOLDER and not raw.place.below.startswith(".lmagent")  # for commands
            where = f" They are in {raw.place.below}/{raw.folder}." if is_reachable else ""
            parts.append(f"Files of it, read with `skill` and file: {sanitize_line(', '.join(files))}.{where}")
        parts += _forms(skill, whole)
        if skill.allowed is not None:
            parts.append(f"While it is in use, only these tools may be called: {', '.join(skill.allowed) or 'none'}.")
        return "\n".join(parts)

    def _fitting(self, body: str) -> tuple[str, int]:
        """Return as much of a body as is told, and how many characters are left out."""
        room = len(body)
        while (tokens := self._count_tokens(body[:room])) > MOST_BODY_TOKENS:
            room = min(room - 1, int(room * MOST_BODY_TOKENS / tokens))
        return (body, 0) if room == len(body) else (body[:room].rstrip(), len(body) - room)


def _forms(skill: Skill, body: str) -> Iterator[str]:
    """Yield how the tools are called that a skill names and the model is not told of by itself."""
    seldom = {tool.name: tool for tool in ALL_TOOLS if tool.name == PROMOTE_TOOL or tool.told is Told.SELDOM}
    named = [rule.partition("(")[0].lower() for rule in skill.allowed or () if not rule.startswith(PROMOTED)]
    for name in dict.fromkeys((*named, *re.findall(r"`([a-z_]+)`", body))):
        if name in seldom and name != SKILL:
            spec = seldom[name].spec()
            yield f"There is a tool {spec.name}: {spec.description} Its arguments: {json.dumps(spec.parameters)}"


def remind_of_skills(agent: Agent) -> None:
    """Tell the model which skills the user ended, and those in use whose text it may have lost."""
    skills, told = agent.state.skills, []
    if skills.ended:
        names = ", ".join(skills.ended)
        told.append(f"[The user ended the skill {names}: do not follow it any longer; its tool limits are gone.]")
    if skills.is_lost and (lost := dict.fromkeys(each.name for each in skills.in_use if each.stays)):
        names = ", ".join(lost)
        told.append(f"[In use: the skill {names}. Read it again with `skill` if you need its text.]")
    if told:
        agent.remind("\n".join(told), "skill")


def list_text(
    head: str, more: str, items: Sequence[tuple[str, str]], most_tokens: int, count_tokens: TokenCounter
) -> tuple[str, int]:
    """Return a list of names and descriptions in at most so many tokens, and what it costs; `more` counts what is left out."""
    if not items:
        return "", 0
    lines: list[str] = []
    for chars in _DESCRIPTION_CHARS:
        lines = [_line(*item, chars) for item in items]
        text = "\n".join((head, *lines))
        if (tokens := count_tokens(text)) <= most_tokens:
            return text, tokens
    sums = itertools.accumulate(count_tokens(f"{line}\n") for line in lines)
    most = sum(each <= most_tokens for each in sums)  # about: a text has not the tokens of its lines to the last one
    for count in range(most, -1, -1):
        rest = [more.format(count=len(lines) - count)] if count < len(lines) else []
        text = "\n".join((head, *lines[:count], *rest))
        tokens = count_tokens(text)
        if tokens <= most_tokens:
            return text, tokens
    return "", 0


def _line(name: str, description: str, most_chars: int = _DESCRIPTION_CHARS[-1]) -> str:
    """Return a skill or a sub-agent as the model is told about it."""
    words = without_tags(description)
    if len(words) > most_chars:
        words = f"{words[:most_chars].rsplit(' ', 1)[0]}…"
    return f"- {name}: {words}"


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
        skills, (_, tokens), tools = await self._shelf.found(), await self._shelf.told(), self._shelf.promoted()
        agents, (_, price) = await self._agents.found(), await self._agents.told(MOST_TOLD_TOKENS // 2)
        counts = {"ready": len(_ready(skills)), "promoted tools": sum(not tool.problem for tool in tools)}
        words = ", ".join(f"{count} {kind}" for kind, count in counts.items() if count)
        ready = ", ".join(_ready(agents))
        return [
            CheckRow("skills", OK, f"{words}; {tokens:,} tokens in each request"),
            *_rows("skills", skills, FAILURE),
            *(CheckRow("skills", FAILURE, f"{tool.name}: {tool.problem}") for tool in tools if tool.problem),
            *([CheckRow(AGENTS, OK, f"{ready}; {price:,} tokens in each request")] if ready else []),
            *_rows(AGENTS, agents, WARNING),
        ]


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
            yield CheckRow(name, broken, each.problem, _FORM)
        if each.warnings:
            yield CheckRow(name, WARNING, f"{each.place}: {'; '.join(each.warnings)}")


AGENTS = "sub-agents"
_AGENTS_HEAD = (
    "Sub-agents with instructions of their own; name one that fits as `agent` in `delegate`, or in a task of `decompose`:"
)
_MORE_AGENTS = "and {count} more: an unknown name lists them all"


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
        return list_text(_AGENTS_HEAD, _MORE_AGENTS, self.ready, most_tokens, self._count_tokens)

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
    told_text = f"What the model is told about skills before one is read: {told:,} tokens."
    print_report(found, [*skill_lines(found_skills, tools), told_text], is_json=arguments.json)
    return 1 if any(skill.state is FileState.BROKEN for skill in found_skills) else 0


def skill_json(skill: Skill) -> dict[str, object]:
    """Return a skill as one JSON object."""
    names = ("name", "description", "place", "tokens", "body_tokens", "problem", "warnings")
    kinds = {"state": skill.state.name.lower(), "source": skill.source.name.lower(), "allowed_tools": skill.allowed}
    return {name: getattr(skill, name) for name in names} | kinds


def _tool_json(tool: PromotedTool) -> dict[str, object]:
    names = ("name", "description", "function", "origin", "parameters", "tokens", "problem")
    return {name: getattr(tool, name) for name in names}


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
    """Return the skills in `.lao/skills`, one Markdown file each or one folder with a `SKILL.md`."""
    folder, add, is_for_all = ".lao/skills", host.extensions[SkillFiles].add, False
    listed = list_plain(host.workspace, folder)
    names = [name for name, kind in listed if kind == "file" and name.endswith(".md")]
    names += [f"{name}/SKILL.md" for name, kind in listed if kind == "folder"]
    texts = {name: text_to_import(host.workspace, f"{folder}/{name}") for name in names}
    return [Import(f"skill from {folder}/{name}", partial(add, text, is_for_all)) for name, text in texts.items() if text]
