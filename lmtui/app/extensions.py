"""Joins extensions with the sessions of a workspace: MCP servers, skills and sub-agents.

Nothing starts before the first session is opened, and nothing here waits for a server, but for the one case that it says.
"""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from lmtui.config import Config
from lmtui.core.events import Envelope, Level, Notice, TurnStarted
from lmtui.core.hooks import Hooks, NoHooks
from lmtui.core.instruction_values import WHOLE_CHARS, Instructions, InstructionSource
from lmtui.core.mcp import McpServers, ServerState, changes_text
from lmtui.core.ports import TokenCounter, Toolbox
from lmtui.core.programs import GuardedLauncher
from lmtui.core.prompt_text import PromptFile, PromptFiles
from lmtui.core.sanitize import sanitize_line
from lmtui.core.skills import PROMOTE_TOOL, PromotedTool, Skill
from lmtui.core.subagents import AgentDefinition, ChildKind
from lmtui.core.trust import Trust, TrustItem, check_shown
from lmtui.core.window import bytes_by_four
from lmtui.engine.session import EngineSession
from lmtui.features import folder_consent
from lmtui.features.hooks.hook_config import HookEnvironment, HookFiles, odd_matchers, read_hooks
from lmtui.features.hooks.service import HookRunner, SessionHooks, hooks_trust
from lmtui.features.instructions.instruction_files import InstructionFiles, unread_files
from lmtui.features.mcp import server_trust
from lmtui.features.mcp.mcp_config import read_servers
from lmtui.features.mcp.server_pool import McpRoom
from lmtui.features.mcp.server_trust import ServersTrust
from lmtui.features.mcp.toolbox import AllPrompts, McpToolbox
from lmtui.features.skills import skill_folders
from lmtui.features.skills.service import MOST_TOLD_TOKENS, SkillShelf, SkillToolbox
from lmtui.features.skills.skill_folders import SkillsTrust
from lmtui.features.skills.subagent_files import AgentFiles, AgentToolbox, SkillsGuide
from lmtui.features.slash_commands.prompt_files import MarkdownPrompts, commands_trust
from lmtui.models.tokens import count_tokens
from lmtui.paths import config_dir, sessions_dir
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.store import rule_store as store_trust
from lmtui.tools.registry import ALL_TOOLS, SELDOM, ToolRegistry

_TOLD = {
    ServerState.FAILED: "MCP server {name} does not run: {problem}  {hint}",
    ServerState.CHANGED: "MCP server {name} offers other tools than you accepted ({changes}): held back until you take them. "
    "`lmtui mcp list` shows what differs, y in /mcp takes them.",
    ServerState.WAITING: "MCP server {name} waits for your yes: `lmtui config trust`.",
    ServerState.LOGIN: "MCP server {name} waits for your login: `lmtui mcp login {name}`.",
}


class ServerNotes:
    """Says once of each server why a session has to do without it.

    Args:
        servers: the servers of the workspace.
        session: where it is said.
    """

    def __init__(self, servers: McpServers, session: EngineSession) -> None:
        self._servers = servers
        self._session = session
        self._told: dict[str, ServerState] = {}

    def follow(self) -> None:
        """Say it from the first turn on: before that nobody reads what is said."""
        leave: list[Callable[[], None]] = []

        def begin(envelope: Envelope) -> None:
            if isinstance(envelope.event, TurnStarted):
                leave.pop()()
                self._session.when_closed.append(self._servers.listen(self._look))
                _ = asyncio.get_running_loop().call_soon(self._look)

        leave.append(self._session.subscribe(begin))

    def _look(self) -> None:
        for server in self._servers.servers():
            if self._told.get(server.name) is server.state or self._session.is_closed:
                continue
            self._told[server.name] = server.state
            if words := _TOLD.get(server.state):
                text = words.format(
                    name=sanitize_line(server.name),
                    problem=sanitize_line(server.problem),
                    hint=sanitize_line(server.hint),
                    changes=changes_text(server.changes),
                )
                self._session.emit(Notice(level=Level.WARNING, text=text.strip()))


def shelf_of(workspace: Path, count_tokens: TokenCounter) -> SkillShelf:
    """Return the skills of a workspace and its user."""
    tools = ToolRegistry()
    return SkillShelf(workspace, config_dir(), count_tokens, tools.canonical, _form_of)


async def read_skills(workspace: Path) -> tuple[list[Skill], list[PromotedTool], tuple[str, int]]:
    """Return the skills and promoted tools that are there now, and what the model is told about them with its price."""
    shelf = shelf_of(workspace, count_tokens)
    return list(await shelf.found()), list(shelf.promoted()), await shelf.told()


async def read_skill(workspace: Path, name: str) -> str:
    """Return a skill as the model gets it.

    Raises:
        ToolError: there is none, or it may not be read.
    """
    return (await shelf_of(workspace, count_tokens).use(name)).text


def agents_of(workspace: Path, count_tokens: TokenCounter) -> AgentFiles:
    """Return the sub-agents that a workspace and its user define."""
    return AgentFiles(workspace, config_dir(), count_tokens, ToolRegistry().canonical)


async def read_agents(workspace: Path) -> tuple[Sequence[AgentDefinition], int]:
    """Return the definitions that are there now, and what the model is told about them costs at most."""
    agents = agents_of(workspace, count_tokens)
    return await agents.found(), (await agents.told(MOST_TOLD_TOKENS // 2))[1]


def _form_of(name: str) -> str:
    """Return how a tool is called that a model is seldom told of."""
    if name not in (*SELDOM, PROMOTE_TOOL) or name == "skill":
        return ""
    spec = next(tool.spec() for tool in ALL_TOOLS if tool.name == name)
    return f"There is a tool {spec.name}: {spec.description} Its arguments: {json.dumps(spec.parameters)}"


class CompositeTrust:
    """Implements `core.trust.Trust` over its parts."""

    def __init__(self, *parts: Trust) -> None:
        self._parts = parts

    def waiting(self) -> Sequence[TrustItem]:
        """Return what waits in any of them."""
        return tuple(item for part in self._parts for item in part.waiting())

    def refused(self) -> Sequence[TrustItem]:
        """Return what was refused in any of them."""
        return tuple(item for part in self._parts for item in part.refused())

    def trusted(self) -> Sequence[TrustItem]:
        """Return what is trusted in any of them."""
        return tuple(item for part in self._parts for item in part.trusted())

    def revoke(self) -> None:
        """Forget every answer in each."""
        for part in self._parts:
            part.revoke()

    def answered_elsewhere(self) -> bool | None:
        """Take up what another lmtui was answered; None while any of them still waits."""
        answers = [answer for part in self._parts if (answer := part.answered_elsewhere()) is not None]
        return None if not answers or self.waiting() else all(answers)

    def answer(self, shown: Sequence[TrustItem], *, is_trusted: bool) -> None:
        """Keep the answer in each that has something to answer: what waits, or where nothing does, what was refused.

        Raises:
            ConfigError: something is another by now, or an answer cannot be kept; before the first is kept where that can be.
        """
        waiting = [(part, items) for part in self._parts if (items := part.waiting())]
        open_parts = waiting or [(part, items) for part in self._parts if (items := part.refused())]
        check_shown([item for _, items in open_parts for item in items], shown)
        for part, _ in open_parts:
            part.answer(shown, is_trusted=is_trusted)


def servers_trust(workspace: Path) -> Trust:
    """Return what the folder's MCP servers, hooks, commands, skills and sub-agents wait for, for who only asks."""
    servers = ServersTrust(workspace, lambda: None)
    agents = agents_of(workspace, bytes_by_four).trust
    return CompositeTrust(servers, hooks_trust(workspace), commands_trust(workspace), SkillsTrust(workspace), agents)


def trusted_folders() -> Mapping[str, tuple[str, ...]]:
    """Return every folder of which something was trusted, by name, with the kinds of what; some may have changed since."""
    kinds = (
        ("settings", store_trust.trusted_folders()),
        ("MCP servers", server_trust.folders_with_yes()),
        ("hooks", folder_consent.folders_with_yes("hooks")),
        ("commands", folder_consent.folders_with_yes("commands")),
        ("skills", skill_folders.folders_with_yes()),
        ("sub-agents", folder_consent.folders_with_yes("agents")),
    )
    names = sorted({folder for _, folders in kinds for folder in folders})
    return {name: tuple(kind for kind, folders in kinds if name in folders) for name in names}


def revoke_trust(folder: Path) -> bool:
    """Forget every answer for what a folder brings; return whether anything of it was trusted.

    Raises:
        ConfigError: it cannot be kept.
    """
    is_any = str(folder) in trusted_folders() or bool(servers_trust(folder).trusted())
    if store_trust.read_trust(folder).digest:
        store_trust.write_trust(folder, store_trust.TrustAnswer())
    servers_trust(folder).revoke()
    return is_any


def folder_problems(workspace: Path) -> tuple[str, ...]:
    """Return what of the files that name servers and hooks cannot be read, so that nobody can be asked about it."""
    return (*read_servers(workspace).problems, *read_hooks(workspace).problems)


def hooks_of(workspace: Path, session_id: str, sandbox: WorkspaceSandbox) -> Hooks:
    """Return the hooks of a session as the files name them now.  Blocks (three small files)."""

    async def lane() -> HookRunner:
        status = await sandbox.status()
        return HookRunner(sandbox.launcher if status.has_shell else None, status.folder or str(workspace))

    log = sessions_dir(workspace) / f"{session_id}.jsonl"
    around, tools = HookEnvironment(session_id, str(log), str(workspace)), ToolRegistry().names()
    found = SessionHooks(workspace, around, lane, os.environ, tools=tools)
    return found if found.problems() or found.has_any else NoHooks()


def prompt_files(workspace: Path) -> Sequence[PromptFile]:
    """Return the slash commands that are Markdown files, for who only asks.  Blocks."""
    return MarkdownPrompts(workspace, ToolRegistry().canonical).found()


def hook_files(workspace: Path) -> HookFiles:
    """Return what the files name, for who only asks.  Blocks."""
    files = read_hooks(workspace)
    return replace(files, problems=(*files.problems, *odd_matchers(files.entries, ToolRegistry().names())))


def hooks_hold(workspace: Path, files: HookFiles) -> bool:
    """Tell whether the user said yes to a folder's hooks as they are.  Blocks."""
    return hooks_trust(workspace).holds(files.digest)


__all__ = ["guide_of", "own_instructions", "read_guidance", "unread_files"]


def guide_of(
    workspace: Path,
    count_tokens: Callable[[str], int],
    skills: SkillShelf | None = None,
    own: str = "",
    agents: AgentFiles | None = None,
) -> InstructionSource:
    """Return who reads the instructions, the persona and the user's profile, and the lists of skills and of sub-agents.

    `own` are instructions that the user gave next to the files.
    """
    files = InstructionFiles(workspace, config_dir(), count_tokens, own)
    return SkillsGuide(files, skills.told, agents) if skills is not None else files


def own_instructions(config: Config) -> str:
    """Return the user's own instructions, and which folders there are next to the workspace."""
    folders = [
        f"- {Path(each.removesuffix(':rw')).expanduser().resolve()} ({'writable' if each.endswith(':rw') else 'read-only'})"
        for each in config.add_dirs
    ]
    about = (
        "You may also use these folders, by their whole paths in tools and commands:\n" + "\n".join(folders) if folders else ""
    )
    return "\n\n".join(each for each in (config.append_system_prompt, about) if each)


async def read_guidance(workspace: Path) -> Instructions:
    """Return what is there now, with its price in tokens."""
    return await guide_of(workspace, count_tokens).read(WHOLE_CHARS)


_FIRST_MEETING_S = 10.0


class SessionExtensions:
    """What a workspace and its user bring to every session.

    Args:
        workspace: the folder that is worked in.
        sandbox: returns its sandbox.
        count_tokens: prices what the model is told.
        is_attended: somebody is there; else a session waits for servers that were never met before.
        is_on: servers are started.
        has_agents: the model may send sub-agents.
    """

    def __init__(
        self,
        workspace: Path,
        sandbox: Callable[[], Awaitable[WorkspaceSandbox]],
        count_tokens: TokenCounter,
        *,
        is_attended: bool,
        is_on: bool = True,
        has_agents: bool = True,
        instructions: str = "",
    ) -> None:
        async def launcher() -> GuardedLauncher | None:
            return (await sandbox()).launcher

        self._room = McpRoom(workspace, launcher, os.environ, count_tokens)
        self.agents = agents_of(workspace, count_tokens)
        servers = ServersTrust(workspace, self._room.look_again)
        self.trust: Trust = CompositeTrust(
            servers, hooks_trust(workspace), commands_trust(workspace), SkillsTrust(workspace), self.agents.trust
        )
        self.prompts: PromptFiles = AllPrompts(MarkdownPrompts(workspace, ToolRegistry().canonical), self._room, is_on=is_on)
        self.skills = shelf_of(workspace, count_tokens)
        self.guide: InstructionSource = guide_of(
            workspace, count_tokens, self.skills, instructions, self.agents if has_agents else None
        )
        self._is_attended, self._is_on = is_attended, is_on
        self._toolboxes: dict[str, tuple[McpToolbox, SkillToolbox]] = {}

    @property
    def mcp(self) -> McpServers:
        """Return the MCP servers."""
        return self._room

    def secrets(self) -> tuple[str, ...]:
        """Return the values in entries of servers that look like secrets, as far as the files are read."""
        return self._room.secrets()

    async def prepare(self) -> None:
        """Start the servers, and wait for what a session cannot begin without.

        A server that ran before is told about from memory and waited for when it is called.  One that is met for the first time
        has no tools to tell of yet: where nobody is there to see it come, the session waits for it a while.
        """
        _ = await asyncio.to_thread(self.skills.promoted)
        if not self._is_on:
            return
        await self._room.loaded()
        if not self._is_attended and self._room.is_unknown():
            await self._room.settle(_FIRST_MEETING_S)

    def toolbox(self, session_id: str, own: ToolRegistry) -> Toolbox:
        """Return the tools of a session: its own, those of skills, those of servers."""
        skills = SkillToolbox(AgentToolbox(own, self.agents), self.skills.tools)
        self._toolboxes[session_id] = McpToolbox(skills, self._room, own.has), skills
        return self._toolboxes[session_id][0]

    def for_child(self, own: ToolRegistry, kind: ChildKind) -> Toolbox:
        """Return the tools of a sub-agent: one that works has those of servers too, one that explores changes nothing."""
        return own if kind is ChildKind.EXPLORE else McpToolbox(own, self._room, own.has, is_begun=True)

    def follow(self, session: EngineSession) -> None:
        """Let a session's tools know how far its conversation is."""
        servers, skills = self._toolboxes.pop(session.id, (None, None))
        if servers is not None and skills is not None:
            servers.begin_with(session.history())
            _ = session.subscribe(servers.follow)
            _ = session.subscribe(skills.follow)
        if not self._is_attended:
            ServerNotes(self._room, session).follow()

    async def close(self) -> None:
        """End every server."""
        await self._room.close()
