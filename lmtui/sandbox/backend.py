"""What a kind of sandbox has to do: start a supervisor for a lane, and tell what it isolates."""

from __future__ import annotations

import compileall
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Protocol

from lmtui.core.workspace import CommandLimits
from lmtui.paths import HOME_INSIDE, SCRATCH, STORE_INSIDE
from lmtui.sandbox.inside.settings import Settings
from lmtui.sandbox.layout import Layout
from lmtui.sandbox.link import Lane, Link
from lmtui.sandbox.project_tools import ProjectTools, project_path
from lmtui.sandbox.toolchains import programs

FULL = ("docker", "podman", "bubblewrap")  # those with a container or namespaces around each lane, in which it has mounts
INSIDE = Path(__file__).parent / "inside"
FOLDER_INSIDE = "/opt/lmtui"
_OFFLINE = {"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "CARGO_NET_RETRY": "0", "UV_HTTP_RETRIES": "0"}


@dataclass(frozen=True, slots=True)
class Isolation:
    """What a backend keeps apart, one line each for the user; an empty text means that it does not."""

    files: str = ""
    network: str = ""
    processes: str = ""
    memory: str = ""
    cpu: str = ""
    git: str = ""

    def facts(self) -> tuple[str, ...]:
        """Return the lines, those that isolate nothing saying so."""
        names = ("files", "network", "processes", "memory", "cpu", "git")
        return tuple(f"{name}: {getattr(self, name) or 'not isolated'}" for name in names)


class Backend(Protocol):
    """One way to run supervisors for one workspace.

    `has_mounts`: names that are protected are mounted read-only.  `is_reduced`: commands are confined, but by less than
    namespaces; each of them is to be asked about.  `tools` are shown in lanes that are opened afterwards.  `image` is that of
    a container, empty elsewhere; `image_digest` is not empty if it was built from the project's description.
    """

    name: str
    network: str
    has_shell: bool
    is_isolated: bool
    has_mounts: bool
    is_reduced: bool
    isolation: Isolation
    tools: ProjectTools
    image: str
    image_digest: str

    async def open(self, lane: Lane, layout: Layout) -> Link:
        """Start a supervisor; `layout` says what is mounted over the workspace, where the backend has mounts.

        Raises:
            SandboxUnavailable: it cannot be started; the text says why and the hint what to do.
        """

    async def close(self) -> None:
        """Let go of everything that is not part of a link."""


def cores_text(cores: int) -> str:
    """Return how many cores commands get, for the user."""
    return f"{cores} core{'s' * (cores > 1)}" if cores else "all cores, at a low priority"


def environment_inside(path: str, extra: Mapping[str, str], *, has_network: bool) -> dict[str, str]:
    """Return all of the environment that commands in an isolated lane get; without a network, tools do not try again."""
    return ({} if has_network else _OFFLINE) | {
        "PATH": path,
        "HOME": HOME_INSIDE,
        "USER": "lmtui",
        "LOGNAME": "lmtui",
        "LANG": "C.UTF-8",
        "TERM": "dumb",
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.fsmonitor",
        "GIT_CONFIG_VALUE_0": "false",
        "GIT_CONFIG_GLOBAL": f"{FOLDER_INSIDE}/inside/gitconfig",
        **extra,
    }


def commands_path(lane: Lane, root: str, toolchains: Sequence[Path], tools: ProjectTools, system: Sequence[str]) -> str:
    """Return PATH: the project's own programs first.

    Where commands run without a question, because they only read, what has the name of a program of the system is that program.
    """
    shown, project = [*programs(toolchains), *tools.path], project_path(root)
    return ":".join([*shown, *system, *project] if lane is Lane.READ else [*project, *shown, *system])


def settings_of(lane: Lane, limits: CommandLimits, root: str, tools: ProjectTools, store: str = STORE_INSIDE) -> Settings:
    """Return what a confined lane may do, of whichever kind it is; the environment is the kind's own."""
    return Settings(
        root=root,
        environment={},
        has_shell=lane.has_shell,
        is_read_only=lane.is_read_only,
        serves=lane.serves,
        guards=lane is Lane.GUARD,
        has_git=lane in (Lane.GIT, Lane.VIEW),
        git_writes=lane is Lane.GIT,
        store=store if lane is Lane.CHECKPOINT else "",
        is_confined=True,
        max_processes=limits.processes,
        max_file_mb=limits.file_mb,
        folders=tools.added(lane),
        writable=tools.added(lane, is_writable=True),
    )


def scratch_of(lane: Lane) -> list[str]:
    """Return the folders of a lane with mounts of its own that are emptied after each command."""
    return list(SCRATCH) if lane is Lane.READ else []


def supervisor_command(python: str, folder: str, settings: Settings) -> list[str]:
    """Return the arguments that start the supervisor, whose package lies in `folder`."""
    _compile_once()
    start = f"import sys; sys.path.append({folder!r}); from inside.supervisor import main; main()"
    return [python, "-I", "-S", "-B", "-c", start, settings.to_json()]


@cache
def _compile_once() -> None:
    """Leave bytecode beside the supervisor's modules: inside they cannot be written, and compiling takes 30 ms each start."""
    if not sys.dont_write_bytecode:
        compileall.compile_dir(INSIDE, quiet=2)


def this_python() -> Path:
    """Return the real executable of this Python, outside of any virtual environment."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
