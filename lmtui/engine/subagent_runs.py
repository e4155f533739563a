"""Sub-agents at work: each gets a brief and its own context, does its task, and what it reports is checked on the disk."""

from __future__ import annotations

import asyncio
import contextlib
import posixpath
import re
from collections import deque
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from lmtui.core.agent_events import AgentFinished, AgentStarted
from lmtui.core.errors import SandboxError, ToolError
from lmtui.core.events import MessageAdded, TurnReason
from lmtui.core.hosts import Web
from lmtui.core.messages import Role, ToolSet, ToolSpec
from lmtui.core.permissions.decide import SkillScope, decide_all
from lmtui.core.permissions.rules import MCP, Access, Effect, Rule, Verdict, parse_rule
from lmtui.core.ports import Limits, PreparedCall, Toolbox
from lmtui.core.prompt_parts import without_tags
from lmtui.core.sessions import AgentRunner, run_in_place
from lmtui.core.subagents import (
    AgentDefinition,
    AgentDefinitions,
    Brief,
    ChildKind,
    ChildResult,
    Report,
    ReportStatus,
    cut,
    results_text,
)
from lmtui.core.task_state import missing, path_of
from lmtui.core.tool_scopes import SkillTracker
from lmtui.engine.agent import Agent, AgentState, TurnState
from lmtui.engine.completion import SHARE, guidance_chars
from lmtui.engine.context import Conversation
from lmtui.engine.entries import Entry
from lmtui.engine.model_roles import override_model
from lmtui.engine.turn import TurnResult, work

MAX_DATA_CHARS = 8_000
MAX_INLINED_FILES, MAX_INLINED_BYTES = 3, 8_000
_MAX_PARENT_CHARS = 400
_WORD = re.compile(r"\w{3,}")


def brief_text(brief: Brief, parent_objective: str, data: str, before: str) -> str:
    """Return a task as the first words to a sub-agent.

    Args:
        brief: the task.
        parent_objective: what the agent that sends it works on.
        data: what of the parent's results belongs to it.
        before: what came of the tasks that it depends on.
    """
    wanted = brief.deliverable
    paths = f" at {', '.join(wanted.paths)}" if wanted.paths else ""
    form = f" as {wanted.format}" if wanted.format else ""
    parts = [
        f"Your task: {brief.objective.strip()}",
        f"Deliverable: a {wanted.type}{paths}{form}. {wanted.description}".strip(),
    ]
    if brief.constraints:
        parts.append("Hold to this:\n" + "\n".join(f"- {each}" for each in brief.constraints))
    if parent_objective:
        parts.append(f"It is a part of: {cut(parent_objective, _MAX_PARENT_CHARS)}")
    if before:
        parts.append(f"What came of the tasks before:\n{before}")
    if data:
        parts.append(f"Context:\n{data}")
    return "\n\n".join(parts)


def data_for(hint: str, entries: Sequence[Entry]) -> str:
    """Return those results of the parent's calls that have the words of a hint, best first, bounded; empty without a hint."""
    words = {word.lower() for word in _WORD.findall(hint)}
    if not words:
        return ""
    results = [entry for entry in entries if entry.message.role is Role.TOOL and entry.is_ok]
    scored = [(_score(words, entry), place, entry) for place, entry in enumerate(results)]
    found: list[str] = []
    left = MAX_DATA_CHARS
    for score, _, entry in sorted(scored, key=lambda each: (-each[0], -each[1])):
        text = cut(f"[{entry.title}]\n{entry.message.text}", left)
        if score == 0 or left < len(entry.title) + 100:
            break
        found.append(text)
        left -= len(text) + 2
    return "\n\n".join(found)


def _score(words: set[str], entry: Entry) -> int:
    text = f"{entry.title} {entry.message.text[:20_000]}".lower()
    return sum(word in text for word in words)


_ALWAYS = "report_result"
_SERVERS = "mcp_"
_FORM = '<instructions from="sub-agent {name}">\n{text}\n</instructions>'
_CUT = "\n[cut here: {count:,} more characters]"


def instructions_text(definition: AgentDefinition, limit_chars: int) -> str:
    """Return the instructions of a definition as a sub-agent is told them, the end of long ones left out and said to be."""
    text = without_tags(definition.instructions)
    if len(text) > limit_chars:
        text = text[:limit_chars].rstrip() + _CUT.format(count=len(text) - limit_chars)
    return _FORM.format(name=definition.name, text=text)


def scopes_of(definition: AgentDefinition) -> tuple[SkillScope, ...]:
    """Return what a definition leaves to be called; nothing where it does not say."""
    allowed = _rules(definition, definition.allowed if definition.allowed is not None else ("*",), Effect.ALLOW)
    denied = tuple(rule for rule in _rules(definition, definition.denied, Effect.DENY) if rule.pattern == "*")
    is_limited = definition.allowed is not None or denied
    return (SkillScope(definition.name, allowed, is_agent=True, denied=denied),) if is_limited else ()


def denied_rules(definition: AgentDefinition) -> tuple[Rule, ...]:
    """Return the rules that take some calls of a tool away; whole tools are left out of the scope."""
    return tuple(rule for rule in _rules(definition, definition.denied, Effect.DENY) if rule.pattern != "*")


class NarrowedToolbox:
    """Implements `core.ports.Toolbox` over another: of its tools those that a definition names, and the one that reports."""

    def __init__(self, base: Toolbox, scope: SkillScope) -> None:
        self._base, self._scope = base, scope

    def specs(self, tools: ToolSet = ToolSet.FULL, *, sees: bool = False) -> tuple[ToolSpec, ...]:
        return tuple(spec for spec in self._base.specs(tools, sees=sees) if self._is_left(spec.name))

    def prepare(self, name: str, arguments: str) -> PreparedCall:
        prepared = self._base.prepare(name, arguments)
        if not self._is_left(prepared.tool):
            there = ", ".join(spec.name for spec in self.specs(ToolSet.ALL))
            raise ToolError(f"{prepared.tool} is not a tool of the {self._scope.source}", f"Its tools: {there}.")
        return prepared

    def _is_left(self, tool: str) -> bool:
        """Tell whether a tool may be called; who may call one of a server's may look for it."""
        is_search = tool.startswith(_SERVERS) and not tool.startswith(MCP)
        has_servers = any(rule.tool.startswith((MCP, "*")) for rule in self._scope.rules)
        return tool == _ALWAYS or bool(self._scope.rules_for(tool)) or (is_search and has_servers)


def _rules(definition: AgentDefinition, texts: Iterable[str], effect: Effect) -> tuple[Rule, ...]:
    return tuple(parse_rule(text, effect, f"sub-agent {definition.name}") for text in texts)


class AgentSlots:
    """Hands out places in the order in which they were asked for.

    Args:
        count: tells how many there are; it may change, and counts as 1 at least.
    """

    def __init__(self, count: Callable[[], int]) -> None:
        self._count = count
        self._taken = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def one(self) -> AsyncGenerator[None]:
        """Hold a place; wait until one is free."""
        await self._take()
        try:
            yield
        finally:
            self._give()

    @asynccontextmanager
    async def lent(self) -> AsyncGenerator[None]:
        """Let others have the place that is held, and wait for one at the end; who fails or is stopped does not wait."""
        self._give()
        has_one = False
        try:
            yield
            await self._take()
            has_one = True
        finally:
            if not has_one:
                self._taken += 1  # whoever holds it is about to give it back

    async def _take(self) -> None:
        if self._taken < max(1, self._count()) and not self._waiting:
            self._taken += 1
            return
        ready = asyncio.get_running_loop().create_future()
        self._waiting.append(ready)
        try:
            await ready
        except asyncio.CancelledError:
            if ready.done() and not ready.cancelled():
                self._give()
            else:
                self._waiting.remove(ready)
            raise

    def _give(self) -> None:
        self._taken -= 1
        while self._waiting and self._taken < max(1, self._count()):
            ready = self._waiting.popleft()
            if not ready.done():
                self._taken += 1
                ready.set_result(None)


_STEPS = 60


def _no_tools(kind: ChildKind, *, can_send: bool) -> Toolbox:
    raise NotImplementedError(f"no tools for {kind} agents ({can_send=})")


@dataclass(frozen=True, slots=True)
class TeamParts:
    """What the sub-agents of a session are made of.

    `toolbox` returns the tools of a kind of agent, with or without those that send others; `limits` are those of each agent,
    `parallel` tells how many may work at once.  With a `max_depth` of 0 there are none.  `definitions` are those that the user
    and the folder define.  `keep_brief` and `keep_result` keep what an agent was told and what came of it.
    """

    toolbox: Callable[..., Toolbox] = _no_tools
    limits: Limits = field(default_factory=lambda: Limits(max_iterations=_STEPS))
    parallel: Callable[[], int] = lambda: 1
    max_depth: int = 0
    keep_brief: Callable[..., None] = lambda *_, **__: None
    keep_result: Callable[[str, ChildResult], None] = lambda *_: None
    definitions: AgentDefinitions | None = None


class Team:
    """Those that are at work now, by their ids, and how many there were so far (a replay counts them again).

    The server does not have the models of `missing_models`, which definitions name.
    """

    def __init__(self, parts: TeamParts) -> None:
        self.parts = parts
        self.agents: dict[str, Agent] = {}
        self.places = AgentSlots(parts.parallel)
        self.count = 0
        self.missing_models: set[str] = set()
        self.run_agent: AgentRunner = run_in_place

    def can_send(self, depth: int) -> bool:
        """Tell whether an agent at a depth may have others work for it."""
        return depth < self.parts.max_depth

    def spawn(self, parent: Agent, agent_id: str, kind: ChildKind, definition: AgentDefinition | None = None) -> Agent:
        """Return a new agent: with the parent's model, sandbox, rules and approvals, and nothing of its conversation.

        A definition adds instructions, and takes tools away.
        """
        depth, model = parent.state.depth + 1, parent.state.model
        prompt = _prompt(parent, kind, definition)
        scopes = (*parent.state.skills.scopes, *(scopes_of(definition) if definition else ()))
        toolbox = self.parts.toolbox(kind, can_send=self.can_send(depth))
        for scope in scopes:  # what its definition, and those of the agents above it, leave
            toolbox = NarrowedToolbox(toolbox, scope) if scope.is_agent else toolbox
        state = AgentState(
            agent=agent_id,
            depth=depth,
            is_narrow=kind is ChildKind.EXPLORE or parent.state.is_narrow,
            mode=parent.state.mode,
            rules=(*parent.state.rules, *(denied_rules(definition) if definition else ())),
            model=replace(model, tool_set=ToolSet.LEAN if model.tool_set is ToolSet.LONG else model.tool_set),
            sandbox=parent.state.sandbox,
            skills=SkillTracker(scopes),
        )
        services = replace(
            parent.services,
            toolbox=toolbox,
            limits=self.parts.limits,
            features=parent.services.features.only(Web),
        )
        access = parent.model
        agent = Agent(
            state,
            services,
            Conversation(agent_id, lambda _: prompt, parent.conversation.picture),
            replace(access, known=access.known.another(), window=access.window.another(), has_spare_slot=bool),
            turn=TurnState(parent.turn.id),
        )
        self.agents[agent_id] = agent
        return agent


def _prompt(parent: Agent, kind: ChildKind, definition: AgentDefinition | None) -> str:
    """Return the system prompt of a sub-agent; it begins with the same bytes for every task."""
    fixed = Path(__file__).with_name("prompts").joinpath(f"{kind}_child.md").read_text(encoding="utf-8").strip()
    told = instructions_text(definition, guidance_chars(parent.state.model.window_tokens)) if definition else ""
    return "\n\n".join(part for part in (fixed, told, parent.conversation.prompt.newest.instructions) if part)


_STATUS_OF = {
    TurnReason.DONE: ReportStatus.OK,
    TurnReason.WAITING: ReportStatus.PARTIAL,
    TurnReason.LIMIT: ReportStatus.PARTIAL,
    TurnReason.UNFINISHED: ReportStatus.PARTIAL,
    TurnReason.BLOCKED: ReportStatus.BLOCKED,
}
_MAX_FILES, _MAX_ENTRIES = 50, 10_000


class SubAgents:
    """Sends sub-agents for one agent.

    Args:
        team: the session's.
        parent: the agent that sends them.
    """

    def __init__(self, team: Team, parent: Agent) -> None:
        self._team = team
        self._parent = parent

    async def run(self, briefs: Sequence[Brief]) -> Sequence[ChildResult]:
        definitions = self._team.parts.definitions
        wanted = {brief.agent for brief in briefs if brief.agent}
        if wanted and definitions is None:
            raise ToolError("no sub-agents are defined here", "Call it again without `agent`.")
        named = {name: await definitions.named(name) for name in wanted} if definitions is not None else {}
        tasks: dict[str, asyncio.Task[ChildResult]] = {}
        own = self._team.places.lent() if self._parent.state.depth else contextlib.nullcontext()
        async with own, asyncio.TaskGroup() as group:
            for brief in briefs:
                tasks[brief.task_id] = group.create_task(self._in_turn(brief, tasks, named.get(brief.agent)))
        return [task.result() for task in tasks.values()]

    async def _in_turn(
        self, brief: Brief, tasks: Mapping[str, asyncio.Task[ChildResult]], definition: AgentDefinition | None
    ) -> ChildResult:
        """Do a task once those that it depends on are done and a place is free."""
        before = [await asyncio.shield(tasks[task_id]) for task_id in brief.depends_on]
        failed = [result.task_id for result in before if not result.status.is_usable]
        if failed:
            why = f"not begun: {', '.join(failed)}, which it depends on, did not succeed"
            return ChildResult("", Report(ReportStatus.SKIPPED, error=why), task_id=brief.task_id)
        async with self._team.places.one():
            return await self._send(brief, before, definition)

    async def _send(self, brief: Brief, before: Sequence[ChildResult], definition: AgentDefinition | None) -> ChildResult:
        """Have one agent do one task, from its start to its end in the log."""
        parent, team = self._parent, self._team
        agent_id, started = f"agent_{team.count + 1}", parent.services.monotonic()
        parent.emit(
            AgentStarted(agent=agent_id, parent=parent.id, title=brief.title, work=str(brief.kind), turn_id=parent.turn.id)
        )
        agent, turn_result = team.spawn(parent, agent_id, brief.kind, definition), TurnResult()
        result = ChildResult(agent_id, Report(ReportStatus.ERROR, error="it was stopped"), task_id=brief.task_id)
        try:
            text = await self._words(brief, before)
            team.parts.keep_brief(agent_id, brief, text, parent=parent.id, depth=agent.state.depth)
            agent.children = SubAgents(team, agent).run if team.can_send(agent.state.depth) else None
            if definition is not None:
                await self._take_up(agent, definition)
            await team.run_agent(agent_id, work(agent, turn_result, partial(_tell, agent, text)))
            status = _STATUS_OF.get(turn_result.reason, ReportStatus.ERROR)
            last_words = Report(status, turn_result.text, error=turn_result.error)
            result = await self._checked(brief, agent, agent.turn.report or last_words)
        finally:
            del team.agents[agent_id]
            parent.turn.files.update(agent.turn.files)
            team.parts.keep_result(agent_id, result)
            parent.emit(
                AgentFinished(
                    agent=agent_id,
                    outcome=_outcome(result, turn_result),
                    summary=result.report.summary or result.report.error,
                    steps=turn_result.iterations,
                    usage=turn_result.usage,
                    elapsed_s=round(parent.services.monotonic() - started, 3),
                )
            )
        return result

    async def _take_up(self, agent: Agent, definition: AgentDefinition) -> None:
        """Let an agent ask the model that its definition names; what is not as the definition has it is said.

        Its parent's model is asked where the server does not have that one, which is said once in a session.
        """
        model, missing = definition.model, self._team.missing_models
        if model and model not in missing:
            await override_model(agent, model, f"the sub-agent {definition.name}")
            missing.update({model} if model != agent.state.model.main.model else ())
        if len(definition.instructions) > guidance_chars(self._parent.state.model.window_tokens):
            text = (
                f"The instructions of the sub-agent {definition.name} were cut: they take more than {SHARE:.0%} of the window."
            )
            agent.notify(text)

    async def _words(self, brief: Brief, before: Sequence[ChildResult]) -> str:
        talk = self._parent.conversation
        told = "\n\n".join([results_text(before), *await self._texts(before)]) if before else ""
        data = await asyncio.to_thread(data_for, brief.data_hint, talk.entries.copy()) if brief.data_hint else ""
        return brief_text(brief, talk.last_task, data, told)

    async def _texts(self, before: Sequence[ChildResult]) -> list[str]:
        """Return the first small files that came of tasks, as far as they may be read unasked."""
        agent = self._parent
        found: list[str] = []
        for path in dict.fromkeys(path for result in before for path in result.report.artifacts):
            if len(found) == MAX_INLINED_FILES:
                break
            try:
                # rules hold for what a link leads to
                paths = tuple(dict.fromkeys((path, *await agent.services.sandbox.real_paths([path]))))
                if decide_all("read", Access.READ, paths, agent.state.mode, agent.all_rules()).verdict is not Verdict.ALLOW:
                    continue
                content = await agent.services.sandbox.read_file(path, MAX_INLINED_BYTES)
            except SandboxError:
                continue
            if content.size_bytes < MAX_INLINED_BYTES and b"\0" not in content.data:
                found.append(f'<file path="{path}">\n{content.data.decode("utf-8", "replace")}\n</file>')
        return found

    async def _checked(self, brief: Brief, agent: Agent, report: Report) -> ChildResult:
        """Return a report with what is really there: a claim that does not hold makes of `ok` a `partial`."""
        wanted = brief.deliverable.paths if brief.deliverable.type in ("file", "files") else ()
        claimed = list(dict.fromkeys((*wanted, *report.artifacts)))[:_MAX_FILES]
        gone = set(await missing(self._parent.services.sandbox, claimed))
        found = {path: "" if path in gone else path_of(path) for path in claimed}
        found = {path: normal or _by_name(path, agent.turn.files) for path, normal in found.items()}
        lost = [path for path, known in found.items() if not known]
        there = dict.fromkeys((*filter(None, found.values()), *agent.turn.files))
        status, error = report.status, report.error
        if lost and status is ReportStatus.OK:
            status, error = ReportStatus.PARTIAL, f"not on the disk: {', '.join(lost)}"
        artifacts = tuple(there)[:_MAX_FILES]
        return ChildResult(agent.id, Report(status, report.summary, artifacts, report.data, error), tuple(lost), brief.task_id)


async def _tell(agent: Agent, text: str) -> None:
    agent.emit(MessageAdded(agent=agent.id, role=Role.USER, text=text, turn_id=agent.turn.id))


def _outcome(result: ChildResult, turn_result: TurnResult) -> str:
    if turn_result.reason in (TurnReason.INTERRUPTED, TurnReason.LIMIT, TurnReason.UNFINISHED):
        return str(turn_result.reason)
    return {ReportStatus.OK: "done", ReportStatus.PARTIAL: "partial", ReportStatus.BLOCKED: "blocked"}.get(
        result.status, "failed"
    )


def _by_name(path: str, files: Mapping[str, None]) -> str:
    """Return the file that the agent changed and that has the name of one that is not where it was said to be."""
    name = posixpath.basename(path)
    return next((each for each in files if posixpath.basename(each) == name), "")
