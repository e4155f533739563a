"""What a kind of sandbox has to do: start a supervisor for an instance, and tell what it isolates; those that need no engine.

Landlock is for machines without containers and namespaces.  What a folder grants is granted below it, so `.git` cannot be made
read-only inside the workspace: what a command changed there is moved aside after it (`guest/guard.py`).
"""

from __future__ import annotations

import asyncio
import compileall
import contextlib
import hashlib
import os
import secrets
import shutil
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Protocol

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.workspace import CommandLimits
from lmtui.paths import HOME_INSIDE, PROXY_INSIDE, STORE_INSIDE, state_dir
from lmtui.plain_files import path_outside
from lmtui.sandbox.guest import confinement, forward
from lmtui.sandbox.guest.settings import Settings, read_table
from lmtui.sandbox.host_paths import make_for_owner, new_folder, remove_locked, store_folder
from lmtui.sandbox.images import DEFAULT_IMAGE
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.project_tools import NO_TOOLS, ProjectTools, project_path
from lmtui.sandbox.proxy import SOCKET_NAME
from lmtui.sandbox.supervisor_client import InstanceKind, Link, spawn
from lmtui.sandbox.toolchains import AddedFolder

_MOUNT = Path("/sys/fs/cgroup")
_OWN_PROCESSES = 16  # bubblewrap itself, the supervisor, and a keeper for each of some commands at once
_OWN_MEMORY_MB = 512  # the supervisor's, and that of pages that nobody counts
_JOIN_S = 30.0  # within it the process that a group is made for joins it
_JOIN = 'for group in $1; do echo $$ > "$group/cgroup.procs" || exit 125; done; shift; exec "$@"'


def in_control_group(arguments: Sequence[str], limits: CommandLimits, mount: Path = _MOUNT) -> list[str]:
    """Return the command that runs `arguments` in groups with these limits; the same arguments where none can be made.

    Groups of instances that have ended are removed on the way.
    """
    groups = [group for base, values in _bases(mount, limits) if (group := _make(base, values))]
    if not groups:
        return list(arguments)
    return ["/bin/sh", "-c", _JOIN, "sh", " ".join(map(str, groups)), *arguments]


def _bases(mount: Path, limits: CommandLimits) -> list[tuple[Path, dict[str, str]]]:
    """Return the folders where groups may be made, with the values that each knows."""
    processes = str(limits.processes + _OWN_PROCESSES)
    memory_bytes = str((limits.memory_mb + limits.tmp_mb + _OWN_MEMORY_MB) << 20)
    if (mount / "pids" / "cgroup.procs").exists():  # version 1: a hierarchy for each kind
        kinds = {"pids": {"pids.max": processes}, "memory": {"memory.limit_in_bytes": memory_bytes}}
        own = {kind: _below_own(mount / kind, kind) for kind in kinds}
        return [(own[kind], values) for kind, values in kinds.items() if _is_usable(own[kind])]
    base = mount if os.geteuid() == 0 else _below_own(mount, "").parent  # in a user's session a group next to it may be made
    try:
        offered = (base / "cgroup.subtree_control").read_text(encoding="ascii").split()
    except OSError:
        return []
    values = {"pids": ("pids.max", processes), "memory": ("memory.max", memory_bytes)}
    chosen = dict(values[kind] for kind in values if kind in offered)
    return [(base, chosen)] if chosen and _is_usable(base) else []


def _below_own(hierarchy: Path, kind: str) -> Path:
    """Return this process's own group of a kind (empty: version 2), so that what limits it limits the instance as well."""
    with contextlib.suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
            _, kinds, path = line.split(":", 2)
            if kind in kinds.split(",") and (hierarchy / path.lstrip("/")).is_dir():
                return hierarchy / path.lstrip("/")
    return hierarchy


def _is_usable(base: Path) -> bool:
    return os.access(base, os.W_OK | os.X_OK) and os.access(base / "cgroup.procs", os.W_OK)


def _make(base: Path, limits: dict[str, str]) -> Path | None:
    _remove_unused(base)
    group = base / f"lmtui-{os.getpid()}-{int(time.monotonic())}-{secrets.token_hex(4)}"
    try:
        group.mkdir()
        for name, value in limits.items():
            (group / name).write_text(value, encoding="ascii")
    except OSError:
        with contextlib.suppress(OSError):
            group.rmdir()
        return None  # read-only in here: the limits inside still hold
    return group


def _remove_unused(base: Path) -> None:
    """Remove groups whose instance has ended; one in use cannot be removed, and one that is new may be about to be joined."""
    for group in base.glob("lmtui-*-*-*"):
        with contextlib.suppress(OSError, ValueError):
            if time.monotonic() - int(group.name.split("-")[2]) > _JOIN_S:
                group.rmdir()


FULL = ("docker", "podman", "bubblewrap")  # those with a container or namespaces around each instance, in which it has mounts
GUEST = Path(__file__).parent / "guest"
FOLDER_INSIDE = "/opt/lmtui"
_ENVIRONMENT = {"HOME": HOME_INSIDE, **dict(read_table("environment"))}
# Without a network, tools do not try again.
_OFFLINE = {"PIP_RETRIES": "0", "npm_config_fetch_retries": "0", "CARGO_NET_RETRY": "0", "UV_HTTP_RETRIES": "0"}


@dataclass(frozen=True, slots=True)
class Options:
    """What a backend is made with.

    `variables` are what commands get next to the usual environment.
    """

    network: str = "none"
    variables: tuple[tuple[str, str], ...] = ()
    image: str = DEFAULT_IMAGE
    limits: CommandLimits = CommandLimits()
    added: tuple[AddedFolder, ...] = ()

    @property
    def own_network(self) -> str:
        """Return the network that a backend has itself: with a proxy it has none."""
        return "on" if self.network == "on" else "none"


class Backend(Protocol):
    """One way to run supervisors for one workspace.

    `has_mounts`: names that are protected are mounted read-only.  `is_isolated` without it: commands are confined by less than
    namespaces; each of them is asked about.  `tools` are shown in instances opened afterwards.  `image` is a container's, empty
    elsewhere.
    """

    name: str
    network: str
    is_isolated: bool
    has_mounts: bool
    isolation: tuple[str, ...]
    tools: ProjectTools
    image: str

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor; `layout` says what is mounted over the workspace, where the backend has mounts.

        Raises:
            SandboxUnavailable: it cannot be started; the text says why and the hint what to do.
        """

    async def close(self) -> None:
        """Let go of everything that is not part of a link."""


def isolation_of(options: Options, files: str, processes: str, **more: str) -> tuple[str, ...]:
    """Return what instances with their own mounts keep apart, or what is different in them, a line each for the user."""
    texts = {
        "files": files,
        "network": "none" if options.own_network == "none" else "",
        "processes": processes,
        "memory": f"{options.limits.memory_mb:,} MB per command, watched",
        "cpu": "all cores, at a low priority",
        "git": ".git and .lmagent read-only",
    }
    return tuple(f"{name}: {text or 'not isolated'}" for name, text in (texts | more).items())


def settings_of(
    kind: InstanceKind,
    options: Options,
    root: str,
    tools: ProjectTools,
    own: Sequence[str],
    *,
    variables: Mapping[str, str] | None = None,
    path: Sequence[str] = (),
    has_proxy: bool = False,
) -> Settings:
    """Return what a confined instance may do, of whichever kind it is.

    The PATH of its environment is for the programs that the supervisor starts itself: it has no folder of the workspace or of
    the project's tools.
    Commands find the project's own programs first; where they run without a question, because they only read, what has the name
    of a program of the system is that program.  Nothing is on PATH where an instance runs none.

    Args:
        kind: what the instance is for.
        options: what its backend is made with.
        root: where it has the workspace.
        tools: what it shows.
        own: the folders of the programs that the supervisor starts itself.
        variables: what programs get next to the usual environment.
        path: the folders of the system's programs for commands, where these are others.
        has_proxy: whether its way out is a proxy.
    """
    shown, project, system = tools.path, project_path(root), path or own
    repository = tools.repository
    usual = {"PATH": ":".join(own), "GIT_CONFIG_GLOBAL": repository.config or f"{FOLDER_INSIDE}/guest/gitconfig"}
    offline = _OFFLINE if options.own_network == "none" and not has_proxy else {}
    proxied = forward.environment() if has_proxy else {}
    path = [*shown, *system, *project] if kind is InstanceKind.READ else [*project, *shown, *system]
    return Settings(
        root=root,
        commands_path=":".join(path) if kind.is_masked else "",
        has_shell=kind.has_shell,
        is_read_only=kind.is_read_only,
        serves=kind.serves,
        guards=kind is InstanceKind.GUARD,
        has_git=kind.runs_git,
        git_writes=kind.writes_git,
        git_config=repository.config,
        git_dir=str(repository.git_dir or ""),
        git_top=str(repository.top or ""),
        git_problem=repository.problem,
        store=STORE_INSIDE if kind is InstanceKind.CHECKPOINT else "",
        is_confined=True,
        max_processes=options.limits.processes,
        max_file_mb=options.limits.file_mb,
        folders=tools.added(kind),
        writable=tools.added(kind, is_writable=True),
        proxy=f"{PROXY_INSIDE}/{SOCKET_NAME}" if has_proxy else "",
        environment=_ENVIRONMENT | usual | offline | dict(variables or {}) | proxied,
    )


def supervisor_command(python: str, folder: str, settings: Settings) -> list[str]:
    """Return the arguments that start the supervisor, whose package lies in `folder`."""
    start = f"import sys; sys.path.append({folder!r}); from guest.supervisor import main; main()"
    return [python, "-I", "-S", "-B", "-c", start, settings.to_json()]


def guest_folder() -> Path:
    """Return the folder of the supervisor's package, a copy with its bytecode: an upgrade of lmtui leaves it alone.

    It is the folder of the original where no copy can be made.  Blocks, the first time of a version for 0.2 s.
    """
    return _copied(GUEST, state_dir() / "guest")


@cache
def _version(guest: Path) -> str:
    files = [each for each in sorted(guest.rglob("*")) if each.is_file() and each.suffix != ".pyc"]
    digest = hashlib.sha256(b"".join(each.read_bytes() for each in files)).hexdigest()[:16]
    return f"{digest}-{sys.implementation.cache_tag}"


def _copied(guest: Path, kept: Path) -> Path:
    copy = kept / _version(guest)
    if not copy.exists():
        with contextlib.suppress(OSError):  # one of another process is as good
            kept.mkdir(parents=True, exist_ok=True, mode=0o700)
            with tempfile.TemporaryDirectory(dir=kept) as made:
                shutil.copytree(guest, f"{made}/new/guest")
                compileall.compile_dir(f"{made}/new", quiet=2)
                Path(made, "new").rename(copy)
    return copy if copy.exists() else guest.parent


def this_python() -> Path:
    """Return the real executable of this Python, outside of any virtual environment."""
    return Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()


_PASSED_ON = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TZ", "SHELL", "TMPDIR")


class ProcessBackend:
    """Commands as process trees on the host: they end with their command, and that is all."""

    name = "process"
    network = "on"
    is_isolated = False
    has_mounts = False
    image = ""

    def __init__(self, workspace: Path, options: Options = Options()) -> None:
        self._workspace, self._options = workspace, options
        self.tools = NO_TOOLS
        own = {"network": "", "memory": "limit per command, watched", "cpu": "", "git": ""}
        self.isolation = isolation_of(options, "", "end with their command", **own)

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor as a child process; it has no mounts, so `layout` means nothing here."""
        del layout
        environment = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
        environment["PATH"] = path_outside(self._workspace) or os.defpath
        extra = {"TERM": "dumb", "PAGER": "cat", "GIT_PAGER": "cat", "GIT_TERMINAL_PROMPT": "0"}
        root = str(self._workspace)
        settings = settings_of(kind, self._options, root, self.tools, ()).with_values(
            is_confined=False,
            has_shell=kind is InstanceKind.MAIN,
            has_git=True,
            store=str(store_folder(self._workspace)) if kind is InstanceKind.CHECKPOINT else "",
            folders=self.tools.added(kind) if kind is InstanceKind.MAIN else [],
            writable=[],
            environment={**environment, **extra},
            commands_path=":".join([*project_path(root), environment["PATH"]]),
        )
        folder = await asyncio.to_thread(guest_folder)
        return await spawn(supervisor_command(str(this_python()), str(folder), settings), environment)

    async def close(self) -> None:
        """Do nothing: an instance ends with its link."""


ETC_FILES, _SYSTEM, _FOR_NETWORK = (
    [path for kind, path in read_table("system_files") if kind == wanted] for wanted in ("etc", "system", "network")
)
_HINT = "Use Docker or bubblewrap; Landlock has to be in the kernel (5.19 or later) and switched on (lsm=…,landlock)."
_SCOPING_ABI = 6
_FOLDER_PREFIX = "lmtui-landlock-"


class LandlockBackend:
    """Commands as children of a supervisor that confined itself; weaker than namespaces."""

    name = "landlock"
    is_isolated = True
    has_mounts = False
    image = ""

    def __init__(self, workspace: Path, options: Options = Options()) -> None:
        self._workspace, self._options = workspace, options
        self.network = options.own_network
        self.tools = NO_TOOLS
        self._folders: list[Path] = []
        self._abi = confinement.landlock_abi() if sys.platform == "linux" else 0
        limits = options.limits
        can_signal = self._abi < _SCOPING_ABI
        reach = "and can be signalled (this kernel cannot forbid it)" if can_signal else "signals to them refused"
        self.isolation = isolation_of(
            options,
            f"only the workspace, and the system read-only; {_about_metadata(workspace)}",
            f"end with their command, at most {limits.processes}; other processes visible by their number, {reach}",
            network="no sockets at all" if self.network == "none" else "",
            memory=f"{limits.memory_mb:,} MB per command, watched; no private /tmp, only a temporary folder",
            git="changed settings and hooks of .git are moved away after each command; the rest of .git and .lmagent is open",
        )

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor that confines itself; it has no mounts, so `layout` means nothing here."""
        del layout
        if (why := refusal(self._abi)) is not None:
            raise why
        python, reads = this_python(), [*ETC_FILES, *_SYSTEM, str(GUEST), sys.base_prefix]
        reads += [str(each.source) for each in self.tools.shown.values() if each.is_shown_in(kind)]
        system = ("/usr/local/bin", "/usr/bin", "/bin")
        owner = self._workspace.stat()
        folder = str(await asyncio.to_thread(self._make_folder))
        store = str(store_folder(self._workspace)) if kind is InstanceKind.CHECKPOINT else ""
        tools, repository = self.tools, self.tools.repository
        if os.geteuid() == 0 and owner.st_uid != 0:  # who owns the workspace may not read root's settings
            repository = replace(repository, config=str(GUEST / "gitconfig"))
            tools = replace(tools, repository=repository)
        git = {"GIT_CONFIG_GLOBAL": repository.config or str(GUEST / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
        own = git | {"TMPDIR": folder, "HOME": f"{folder}/home"}
        variables = tools.without_copies | tools.variables | own
        has_network = self.network != "none" and kind.has_network
        written = [] if kind.is_read_only else [str(self._workspace)]
        written += [str(repository.common)] if repository.common and kind.writes_git else []
        single = [str(each.source.parent) for each in self.tools.shown.values() if each.target.startswith("/opt/lmtui/bin/")]
        settings = settings_of(
            kind, self._options, str(self._workspace), tools, system, variables=variables, path=(*system, *single)
        ).with_values(
            store=store,
            limits_processes=True,
            is_landlocked=True,
            landlock_reads=[*reads, str(self._workspace), *(_FOR_NETWORK if has_network else ())],
            landlock_writes=[*written, folder, *([store] if store else [])],
            has_network=has_network,
            owner=owner.st_uid,
            group=owner.st_gid,
        )
        arguments = supervisor_command(str(python), str(GUEST.parent), settings)
        return await spawn(in_control_group(arguments, self._options.limits), {"PATH": os.defpath})

    async def close(self) -> None:
        """Remove the temporary folders."""
        for folder in self._folders:
            await asyncio.to_thread(remove_locked, folder)
        self._folders.clear()

    def _make_folder(self) -> Path:
        """Make a temporary folder of the workspace's owner, which `close` removes also where the start was cancelled."""
        self._folders.append(folder := new_folder(Path(tempfile.gettempdir()), _FOLDER_PREFIX))
        return make_for_owner(folder, self._workspace)


def refusal(version: int) -> SandboxUnavailable | None:
    """Return why this version of Landlock is not enough, or nothing."""
    if version >= confinement.OLDEST_ABI:
        return None
    what = f"its version is {version}, {confinement.OLDEST_ABI} is needed" if version else "the kernel has none, or it is off"
    return SandboxUnavailable(f"Landlock cannot be used: {what}", _HINT)


def _about_metadata(workspace: Path) -> str:
    if os.geteuid() == 0 and workspace.stat().st_uid == 0:
        return "as root, no mode, owner or time of any file can be changed"
    return "modes and times of your other files are not guarded"
