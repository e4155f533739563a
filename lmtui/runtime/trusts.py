"""Several things that wait for trust as one: one question, one answer, each keeps its own."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from lmtui.core.trust import Trust, TrustItem
from lmtui.extensions.hooks import hooks_trust
from lmtui.extensions.mcp_trust import ServersTrust
from lmtui.extensions.prompt_files import commands_trust
from lmtui.extensions.skills_trust import SkillsTrust


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

    def answer(self, *, is_trusted: bool) -> None:
        """Keep the answer in each that has something to answer: what waits, or where nothing does, what was refused."""
        open_parts = [part for part in self._parts if part.waiting()] or [part for part in self._parts if part.refused()]
        for part in open_parts:
            part.answer(is_trusted=is_trusted)


def servers_trust(workspace: Path) -> Trust:
    """Return what the folder's MCP servers, hooks, commands and skills wait for, for who only asks and starts none."""
    servers = ServersTrust(workspace, lambda: None)
    return Together(servers, hooks_trust(workspace), commands_trust(workspace), SkillsTrust(workspace))
