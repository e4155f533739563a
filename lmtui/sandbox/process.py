"""No isolation: the supervisor is a plain child process.  With a shell only where the user named it, else for files alone."""

from __future__ import annotations

import os
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.workspace import CommandLimits
from lmtui.sandbox.backend import INSIDE, Isolation, supervisor_command, this_python
from lmtui.sandbox.host_paths import store_folder
from lmtui.sandbox.inside.settings import Settings
from lmtui.sandbox.layout import Layout
from lmtui.sandbox.link import Lane, Link, spawn
from lmtui.sandbox.project_tools import NO_TOOLS, project_path

_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SHELL", "TMPDIR")


class ProcessBackend:
    """Commands as process trees on the host: they end with their command, and that is all."""

    name = "process"
    network = "on"
    has_shell = True
    is_isolated = False
    has_mounts = False
    is_reduced = False
    image = image_digest = ""
    isolation = Isolation(processes="end with their command", memory="limit per command, watched")

    def __init__(self, workspace: Path, limits: CommandLimits = CommandLimits()) -> None:
        self._workspace = workspace
        self._limits = limits
        self.tools = NO_TOOLS

    async def open(self, lane: Lane, layout: Layout) -> Link:
        """Start a supervisor as a child process; it has no mounts, so `layout` means nothing here.

        Raises:
            SandboxUnavailable: it cannot be started.
        """
        del layout
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment["PATH"] = ":".join([*project_path(str(self._workspace)), environment.get("PATH", os.defpath)])
        extra = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
        settings = Settings(
            root=str(self._workspace),
            has_shell=self.has_shell and lane is Lane.MAIN,
            has_git=self.has_shell,
            git_writes=lane is Lane.GIT,
            is_read_only=lane.is_read_only,
            serves=lane.serves,
            guards=lane is Lane.GUARD,
            store=str(store_folder(self._workspace)) if lane is Lane.CHECKPOINT else "",
            max_processes=self._limits.processes,
            folders=self.tools.added(lane) if lane is Lane.MAIN else [],
            environment={**environment, **extra},
        )
        try:
            return await spawn(supervisor_command(str(this_python()), str(INSIDE.parent), settings), environment)
        except OSError as error:
            raise SandboxUnavailable(f"the file supervisor cannot be started: {error}") from error

    async def close(self) -> None:
        """Do nothing: a lane ends with its link."""


class FilesBackend(ProcessBackend):
    """File tools only, held below the workspace by the kernel; no shell and no git."""

    name = "files"
    network = "none"
    has_shell = False
    isolation = Isolation(
        files="only the workspace, opened below its root", network="no commands", processes="no commands", git="off"
    )
