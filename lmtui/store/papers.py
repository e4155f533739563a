"""The briefs and results of a session's sub-agents, as JSON in `.lmagent/agents/<session>/<agent>/`.

They are there for people who look on from outside; the log holds everything that lmtui itself needs.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

from lmtui.core.children import Brief, ChildResult
from lmtui.paths import workspace_dir


class AgentPapers:
    """Implements `engine.team.Papers`; what cannot be written is passed over.

    Args:
        workspace: the folder that the agents work in.
        session_id: whose agents they are.
        is_kept: they stay when an agent is done.
    """

    def __init__(self, workspace: Path, session_id: str, *, is_kept: bool) -> None:
        self._home = workspace_dir(workspace)
        self._session_id = session_id
        self._is_kept = is_kept

    def put_brief(self, agent: str, brief: Brief, told: str, *, parent: str, depth: int) -> None:
        """Keep a brief: whose agent it is for, how deep that stands, and the words in which it was told of it."""
        head = {"agent_id": agent, "parent_id": parent, "depth": depth, "session_id": self._session_id}
        made = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        self._write(agent, "brief.json", {**head, **asdict(brief), "told": told, "created_at": made})

    def put_result(self, agent: str, result: ChildResult) -> None:
        """Keep a result, or clear away what was kept of the agent."""
        if self._is_kept:
            self._write(agent, "result.json", {"agent_id": agent, **asdict(result.report), "missing": result.missing})
            return
        with contextlib.suppress(OSError):
            folder = self._folder(agent)
            shutil.rmtree(folder)
            folder.parent.rmdir()
            folder.parent.parent.rmdir()

    def _folder(self, agent: str) -> Path:
        """Return an agent's folder.

        Raises:
            OSError: one of the folders on the way is a link: the workspace may be somebody else's.
        """
        folder = self._home
        for name in ("agents", self._session_id, agent):
            folder /= name
            if folder.is_symlink():
                raise OSError(f"{folder} is a link")
        return folder

    def _write(self, agent: str, name: str, value: dict[str, object]) -> None:
        text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
        with contextlib.suppress(OSError):
            folder = self._folder(agent)
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(folder / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
            with os.fdopen(fd, "w", encoding="utf-8", errors="replace") as file:
                file.write(text)
