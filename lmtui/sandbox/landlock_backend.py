"""The reduced tier, for machines without containers and namespaces: Landlock, a system call filter and limits.

Everything that a folder grants is granted below it, so `.git` cannot be made read-only inside the workspace: it is kept
before each command and put back after it (`guest/vault.py`).
"""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from lmtui.core.errors import SandboxUnavailable
from lmtui.core.workspace import CommandLimits
from lmtui.sandbox.backend import (
    GUEST,
    Isolation,
    commands_path,
    cores_text,
    environment_inside,
    in_control_group,
    settings_of,
    supervisor_command,
    this_python,
)
from lmtui.sandbox.guest import landlock
from lmtui.sandbox.host_paths import store_folder
from lmtui.sandbox.link import InstanceKind, Link, spawn
from lmtui.sandbox.mount_layout import SandboxLayout
from lmtui.sandbox.project_tools import NO_TOOLS

_SYSTEM = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache",
    "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ca-certificates", "/etc/localtime",
    "/etc/mime.types", "/etc/nsswitch.conf",
)  # fmt: skip
_FOR_NETWORK = ("/etc/resolv.conf", "/etc/hosts", "/etc/services")
_HINT = "Use Docker or bubblewrap; Landlock has to be in the kernel (5.19 or later) and switched on (lsm=…,landlock)."
_SCOPING_ABI = 6
_FOLDER_PREFIX = "lmtui-landlock-"


class LandlockBackend:
    """Commands as children of a supervisor that confined itself; weaker than namespaces, and says so."""

    name = "landlock"
    has_shell = True
    is_isolated = True
    has_mounts = False
    is_reduced = True
    image = image_digest = ""

    def __init__(
        self,
        workspace: Path,
        network: str,
        toolchains: Sequence[Path] = (),
        limits: CommandLimits = CommandLimits(),
    ) -> None:
        self._workspace = workspace
        self.network = network
        self._toolchains = tuple(toolchains)
        self.tools = NO_TOOLS
        self._folders: list[str] = []
        self._limits = limits
        self.isolation = Isolation(
            files=f"only the workspace, and the system read-only; {_about_metadata(workspace)}",
            network="no sockets at all" if network == "none" else "",
            processes=_about_processes(landlock.abi() if sys.platform == "linux" else 0, limits.processes),
            memory=f"{limits.memory_mb:,} MB per command, watched; no private /tmp, only a temporary folder",
            cpu=cores_text(limits.cores),
            git=".git and .lmagent are put back after each command; objects of .git are not guarded",
        )

    async def open(self, kind: InstanceKind, layout: SandboxLayout) -> Link:
        """Start a supervisor that confines itself; it has no mounts, so `layout` means nothing here.

        Raises:
            SandboxUnavailable: the kernel has no Landlock, or too little of it.
        """
        del layout
        version = await asyncio.to_thread(_abi)
        if (why := refusal(version)) is not None:
            raise why
        python, reads = this_python(), [*_SYSTEM, *map(str, self._toolchains), str(GUEST), sys.base_prefix]
        reads += [str(each.source) for each in self.tools.shown]
        system = ["/usr/local/bin", "/usr/bin", "/bin", *self.tools.single_folders]
        path = commands_path(kind, str(self._workspace), self._toolchains, self.tools, system)
        owner = self._workspace.stat()
        folder = await asyncio.to_thread(self._make_folder, owner)
        store = str(store_folder(self._workspace)) if kind is InstanceKind.CHECKPOINT else ""
        git = {"GIT_CONFIG_GLOBAL": str(GUEST / "gitconfig"), "GIT_CONFIG_NOSYSTEM": "1"}
        own = self.tools.without_copies | dict(self.tools.variables) | git | {"TMPDIR": folder, "HOME": f"{folder}/home"}
        has_network = self.network != "none" and kind.runs_programs
        settings = settings_of(kind, self._limits, str(self._workspace), self.tools, store).with_values(
            limits_processes=True,
            cores=self._limits.cores,
            is_landlocked=True,
            landlock_reads=[
                *reads,
                str(self._workspace),
                *(_FOR_NETWORK if has_network else ()),
                *_search_program(),
            ],
            landlock_writes=[*([] if kind.is_read_only else [str(self._workspace)]), folder, *([store] if store else [])],
            has_network=has_network,
            owner=owner.st_uid,
            group=owner.st_gid,
            environment=environment_inside(path, own, has_network=self.network != "none"),
        )
        arguments = supervisor_command(str(python), str(GUEST.parent), settings)
        try:
            return await spawn(in_control_group(arguments, self._limits), {"PATH": path})
        except OSError as error:
            raise SandboxUnavailable(f"the supervisor cannot be started: {error}") from error

    async def close(self) -> None:
        """Remove the temporary folders."""
        for folder in self._folders:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        self._folders.clear()

    def _make_folder(self, owner: os.stat_result) -> str:
        """Make a temporary folder that only the workspace's owner can enter; those of dead processes go."""
        base = Path(tempfile.gettempdir())
        for old in base.glob(f"{_FOLDER_PREFIX}*"):
            pid = old.name.removeprefix(_FOLDER_PREFIX).split("-")[0]
            if not Path("/proc", pid).exists():
                shutil.rmtree(old, ignore_errors=True)
        folder = tempfile.mkdtemp(prefix=f"{_FOLDER_PREFIX}{os.getpid()}-")
        self._folders.append(folder)
        if os.geteuid() == 0:
            os.chown(folder, owner.st_uid, owner.st_gid)
        return folder


def refusal(version: int) -> SandboxUnavailable | None:
    """Return why this version of Landlock is not enough, or nothing."""
    if version >= landlock.OLDEST_ABI:
        return None
    what = f"its version is {version}, {landlock.OLDEST_ABI} is needed" if version else "the kernel has none, or it is off"
    return SandboxUnavailable(f"Landlock cannot be used: {what}", _HINT)


def _abi() -> int:
    if sys.platform != "linux":
        raise SandboxUnavailable(f"Landlock exists only on Linux, this is {platform.system()}", "Use Docker.")
    return landlock.abi()


def _about_metadata(workspace: Path) -> str:
    if os.geteuid() == 0 and workspace.stat().st_uid == 0:
        return "as root, no mode, owner or time of any file can be changed"
    return "modes and times of your other files are not guarded"


def _about_processes(abi: int, most: int) -> str:
    reach = "signals to them refused" if abi >= _SCOPING_ABI else "and can be signalled (this kernel cannot forbid it)"
    return f"end with their command, at most {most}; other processes visible by their number, {reach}"


def _search_program() -> list[str]:
    found = shutil.which("rg")
    return [str(Path(found).resolve())] if found else []
