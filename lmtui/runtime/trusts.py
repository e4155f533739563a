"""Several things that wait for trust as one: one question, one answer, each keeps its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from lmtui.core.trust import Trust, TrustItem, check_shown
from lmtui.core.window import bytes_by_four
from lmtui.extensions import folder_yes, mcp_memory, skills_trust
from lmtui.extensions.hooks import hooks_trust
from lmtui.extensions.hooks_config import read_hooks
from lmtui.extensions.mcp_config import read_servers
from lmtui.extensions.mcp_trust import ServersTrust
from lmtui.extensions.prompt_files import commands_trust
from lmtui.extensions.skills_trust import SkillsTrust
from lmtui.runtime.skills import agents_of
from lmtui.store import trust as store_trust


class Together:
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
    return Together(servers, hooks_trust(workspace), commands_trust(workspace), SkillsTrust(workspace), agents)


def trusted_folders() -> Mapping[str, tuple[str, ...]]:
    """Return every folder of which something was trusted, by name, with the kinds of what; some may have changed since."""
    kinds = (
        ("settings", store_trust.trusted_folders()),
        ("MCP servers", mcp_memory.folders_with_yes()),
        ("hooks", folder_yes.folders_with_yes("hooks")),
        ("commands", folder_yes.folders_with_yes("commands")),
        ("skills", skills_trust.folders_with_yes()),
        ("sub-agents", folder_yes.folders_with_yes("agents")),
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
