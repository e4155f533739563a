"""The skills of a workspace and its user: which there are, what the model is told about them, what one says when it is read."""

from __future__ import annotations

import asyncio
import itertools
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.ports import PreparedCall, TokenCounter, Toolbox
from lmtui.core.prompt_parts import without_tags
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import FileState
from lmtui.core.tool_scopes import SkillEnded, digest_of
from lmtui.engine.agent import Agent
from lmtui.engine.session import EngineSession
from lmtui.features.call_arguments import read_arguments
from lmtui.features.front_matter import allowed_rules
from lmtui.features.skills import promoted
from lmtui.features.skills.promoted import PromotedTools
from lmtui.features.skills.reader import BrokenSkill, read_skill
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
from lmtui.features.skills.values import PROMOTE_TOOL, PromotedTool, Skill, SkillSource, SkillUse
from lmtui.plain_files import NotPlain
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry
from lmtui.tools.tool import Told

SKILL = "skill"
_AGENT = {"type": "string", "description": "a sub-agent of the list"}
_MOST_TOLD_TOKENS = 1_000


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
        room = _MOST_TOLD_TOKENS
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
FORM = "It begins with ---, name: and description: lines, and --- again."


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
            raise UsageError(f"this is not a skill: {error}", FORM) from error
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
            where = f" They lie in {raw.place.below}/{raw.folder}." if is_reachable else ""
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
