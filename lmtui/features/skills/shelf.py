"""The skills of a workspace and its user: which there are, what the model is told about them, what one says when it is read."""

from __future__ import annotations

import asyncio
import difflib
import itertools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.messages import ToolSet, ToolSpec
from lmtui.core.permissions.decide import PROMOTED
from lmtui.core.ports import PreparedCall, TokenCounter, Toolbox
from lmtui.core.prompt_parts import without_tags
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.subagents import AgentDefinition, FileState
from lmtui.core.tool_scopes import SkillEnded, SkillUsed, digest_of
from lmtui.engine.agent import Agent
from lmtui.engine.session import EngineSession
from lmtui.features.call_arguments import read_arguments
from lmtui.features.folder_consent import ALLOWED, REFUSED
from lmtui.features.front_matter import allowed_rules
from lmtui.features.skills import promoted
from lmtui.features.skills.promoted import PromotedTools
from lmtui.features.skills.reader import BrokenSkill, read_skill
from lmtui.features.skills.skill_folders import (
    MAX_SKILL_BYTES,
    RawFile,
    add_skill,
    digest,
    files_beside,
    places,
    read_beside,
    skills_in,
    skills_trust,
)
from lmtui.features.skills.values import PROMOTE_TOOL, PromotedTool, Skill, SkillSource, SkillUse
from lmtui.plain_files import NotPlain

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
_TRUST = "Only the user's yes lets it be used: `lmtui trust`, or /trust on the screen. "
_FORM = "It begins with ---, name: and description: lines, and --- again."
_ANSWERED = {ALLOWED: FileState.READY, REFUSED: FileState.REFUSED}
_MOST_KEPT = 1_500
Defined = TypeVar("Defined", Skill, AgentDefinition)


@dataclass(frozen=True, slots=True)
class _Found:
    skill: Skill
    raw: RawFile
    body: str = ""


class SkillShelf:
    """Implements `Skills`.

    Args:
        workspace: the folder in work.
        settings: the user's folder for settings.
        count_tokens: prices what the model is told.
        canonical: returns our name of a tool, raises `ToolError` where there is none.
        form_of: returns how a tool is called that the model is not told of by itself, an empty text for others.

    `sessions` returns those that are open.
    """

    def __init__(
        self,
        workspace: Path,
        settings: Path,
        count_tokens: TokenCounter,
        canonical: Callable[[str], str],
        form_of: Callable[[str], str],
    ) -> None:
        self._workspace = workspace
        self._places = places(workspace, settings, Path.home())
        self._count_tokens, self._canonical, self._form_of = count_tokens, canonical, form_of
        self._read = lru_cache(_MOST_KEPT)(self._fresh)
        self._used: dict[str, SkillUse] = {}
        self.sessions: Callable[[], Iterable[EngineSession]] = tuple
        self.tools = PromotedTools(workspace, count_tokens)

    async def found(self) -> Sequence[Skill]:
        return [each.skill for each in await asyncio.to_thread(self._look)]

    async def told(self, most_tokens: int = LEAST_TOLD_TOKENS) -> tuple[str, int]:
        """Return what the model is told about the skills in so many tokens, and what that costs."""
        ready = [(skill.name, skill.description) for skill in await self.found() if skill.tokens]
        return list_text(_HEAD, _MORE, ready, most_tokens, self._count_tokens)

    async def listing(self) -> str:
        ready = [_line(skill.name, skill.description) for skill in await self.found() if skill.state is FileState.READY]
        tools = await asyncio.to_thread(self.promoted)
        ready += [f"- {tool.name} (a tool): {tool.description}" for tool in tools if not tool.problem]
        return "\n".join(ready) or "No skills found."

    async def use(self, name: str) -> SkillUse:
        found = await asyncio.to_thread(self._named, name)
        skill = found.skill
        text = await asyncio.to_thread(self._text, found)
        used = self._used[skill.name] = SkillUse(skill.name, text, skill.source, skill.allowed)
        return used

    async def read_file(self, name: str, file: str) -> str:
        found = await asyncio.to_thread(self._named, name)
        try:
            data = await asyncio.to_thread(read_beside, found.raw.place, found.raw.folder, file, MAX_SKILL_BYTES + 1)
        except (NotPlain, OSError) as error:
            raise ToolError(f"{file[:100]} of skill {found.skill.name} cannot be read: {error}") from error
        if data is None:
            there = ", ".join(await asyncio.to_thread(files_beside, found.raw.place, found.raw.folder)) or "none"
            raise ToolError(f"skill {found.skill.name} has no file {file[:100]!r}", f"Its files: {sanitize_line(there)}.")
        if b"\0" in data:
            raise ToolError(f"{file[:100]} of skill {found.skill.name} is not text")
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
        self._session(session_id).emit(used_event(used, digest_of(text)))
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

        Raises:
            UsageError: it is not a skill, there is one of that name, or it cannot be written.
        """
        return await asyncio.to_thread(self._add, text, is_for_all)

    def _add(self, text: str, is_for_all: bool) -> str:
        data = text.encode("utf-8", "replace")
        try:
            name = read_skill(data, "skill").name
        except BrokenSkill as error:
            raise UsageError(f"this is not a skill: line {error.line}: {error}", _FORM) from error
        if (same := next((each.skill for each in self._look() if _key(each.skill.name) == _key(name)), None)) is not None:
            raise UsageError(f"a skill named {same.name} already exists: {same.place}", "Give this one another name.")
        source = SkillSource.USER if is_for_all else SkillSource.FOLDER
        return add_skill(next(place for place in self._places if place.source is source), self._workspace, name, data)

    def _look(self) -> list[_Found]:
        answers = skills_trust(self._workspace).answers()
        found = {raw: self._read(raw) for place in self._places for raw in skills_in(place)}
        judged = with_states([(raw, each.skill) for raw, each in found.items()], lambda raw: answers.get(digest(raw)))
        return [
            replace(found[raw], skill=skill if skill.state is FileState.READY else replace(skill, tokens=0))
            for raw, skill in judged
        ]

    def _fresh(self, raw: RawFile) -> _Found:
        """Return a skill as its file has it."""
        if raw.data is None:
            return _Found(_broken(raw, raw.problem), raw)
        try:
            file = read_skill(raw.data, raw.folder)
        except BrokenSkill as error:
            return _Found(_broken(raw, f"line {error.line}: {error}. {_FORM}"), raw)
        allowed, wrong = allowed_rules(file.allowed, self._canonical) if file.allowed is not None else (None, ())
        skill = Skill(
            file.name,
            file.description,
            raw.place.source,
            raw.shown,
            tokens=self._count_tokens(f"{_line(file.name, file.description)}\n"),
            body_tokens=self._count_tokens(file.body),
            allowed=allowed,
            warnings=(*file.warnings, *wrong),
        )
        return _Found(skill, raw, file.body)

    def _named(self, name: str) -> _Found:
        found = self._look()
        skill = ready_one("skill", [each.skill for each in found], name, most=40)
        return next(each for each in found if each.skill is skill)

    def _text(self, found: _Found) -> str:
        """Return what the model gets of a skill: its words, its files, and the tools that it names."""
        skill, raw = found.skill, found.raw
        body, cut = self._fitting(without_tags(found.body))
        parts = [f'<skill name="{skill.name}">\n{body}\n</skill>']
        if cut:
            parts.append(f"[cut here: {cut:,} more characters; `skill` with file SKILL.md gives all of it]")
        if files := files_beside(raw.place, raw.folder):
            is_reachable = raw.place.source is SkillSource.FOLDER and not raw.place.below.startswith(".lmagent")  # for commands
            where = f" They lie in {raw.place.below}/{raw.folder}." if is_reachable else ""
            parts.append(f"Files of it, read with `skill` and file: {sanitize_line(', '.join(files))}.{where}")
        parts += self._forms(skill, found.body)
        if skill.allowed is not None:
            parts.append(f"While it is in use, only these tools may be called: {', '.join(skill.allowed) or 'none'}.")
        return "\n".join(parts)

    def _fitting(self, body: str) -> tuple[str, int]:
        """Return as much of a body as is told, and how many characters are left out."""
        room = len(body)
        while (tokens := self._count_tokens(body[:room])) > MOST_BODY_TOKENS:
            room = min(room - 1, int(room * MOST_BODY_TOKENS / tokens))
        return (body, 0) if room == len(body) else (body[:room].rstrip(), len(body) - room)

    def _forms(self, skill: Skill, body: str) -> Iterable[str]:
        """Yield how the tools are called that the skill names and the model is not told of by itself."""
        named = [rule.partition("(")[0].lower() for rule in skill.allowed or () if not rule.startswith(PROMOTED)]
        for name in dict.fromkeys((*named, *re.findall(r"`([a-z_]+)`", body))):
            if form := self._form_of(name):
                yield form


def used_event(used: SkillUse, digest: str = "") -> SkillUsed:
    """Return the event that says that a skill is in use."""
    is_limited = used.allowed is not None
    return SkillUsed(
        skill=used.name, source=str(used.source), is_limited=is_limited, allowed=used.allowed or (), digest=digest, stays=True
    )


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


def _broken(raw: RawFile, why: str) -> Skill:
    return Skill(raw.name, "", raw.place.source, raw.shown, FileState.BROKEN, problem=f"{raw.shown}: {why}")


def _line(name: str, description: str, most_chars: int = _DESCRIPTION_CHARS[-1]) -> str:
    """Return a skill or a sub-agent as the model is told about it."""
    words = without_tags(description)
    if len(words) > most_chars:
        words = f"{words[:most_chars].rsplit(' ', 1)[0]}…"
    return f"- {name}: {words}"


def with_states(
    found: Sequence[tuple[RawFile, Defined]], answer: Callable[[RawFile], str | None]
) -> list[tuple[RawFile, Defined]]:
    """Return what files define by name: those of the folder wait for a yes, and the first that is ready hides its namesakes."""
    first: dict[str, Defined] = {}
    judged: list[tuple[RawFile, Defined]] = []
    for raw, given in found:
        is_asked = given.state is FileState.READY and raw.place.source is SkillSource.FOLDER
        each = replace(given, state=_ANSWERED.get(answer(raw) or "", FileState.WAITING)) if is_asked else given
        before = first.setdefault(_key(each.name), each) if each.state is FileState.READY else each
        why = f"the one in {before.place} goes before it"
        judged.append((raw, each if before is each else replace(each, state=FileState.HIDDEN, problem=why)))
    return sorted(judged, key=lambda pair: pair[1].name)


def ready_one(kind: str, found: Sequence[Defined], name: str, most: int | None = None) -> Defined:
    """Return the one of a name that can be used.

    Raises:
        ToolError: there is none; the text says why, and which there are, at most so many.
    """
    wanted, ready = _key(name), {_key(each.name): each for each in found if each.state is FileState.READY}
    if wanted in ready:
        return ready[wanted]
    names = [each.name for each in ready.values()]
    there = f"There are: {', '.join(names[:most])}." if names else "There are none."
    if held := next((each for each in found if _key(each.name) == wanted), None):
        why = ", ".join(filter(None, (held.state, held.problem)))
        way_out = _TRUST if held.state in (FileState.WAITING, FileState.REFUSED) else ""
        raise ToolError(f"{kind} {held.name} ({held.place}) cannot be used: {why}", f"{way_out}{there}")
    close = difflib.get_close_matches(wanted, names, n=1)
    raise ToolError(f"no {kind} {name[:60]!r}", f"Did you mean {close[0]}? {there}" if close else there)


def _key(name: str) -> str:
    return name.strip().lstrip("/").lower().replace("_", "-").replace(" ", "-")
