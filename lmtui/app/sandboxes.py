"""A workspace's sandbox as the settings want it, and what `doctor` and `sandbox` look at: backends, image, workspace, disks."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType

from lmtui.app.folder_rules import rules_in_force
from lmtui.config import Config
from lmtui.core.errors import SandboxUnavailable, UsageError
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, is_covered
from lmtui.core.permissions.rules import Effect, Rule, mask_expressions
from lmtui.core.programs import Interpreter
from lmtui.core.workspace import CommandLimits
from lmtui.models.tokens import counter_name
from lmtui.paths import state_dir
from lmtui.sandbox.backend import FULL, Options
from lmtui.sandbox.host_paths import check_workspace
from lmtui.sandbox.images import build_image
from lmtui.sandbox.instance_programs import InstanceLauncher, SandboxInterpreter
from lmtui.sandbox.project_tools import can_show
from lmtui.sandbox.select import BACKENDS, make_backend, prove, select_sandbox, start
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry, without_agents
from lmtui.tools.tool import Told

__all__ = ["FULL", "build_image", "counter_name"]  # what else front ends need, who see no sandbox and no models

_LEAST_MEMORY_MB = 512
_MOST_TMP_MB = 4096
_MOST_TIMEOUT_S = 600


def command_limits(config: Config) -> CommandLimits:
    """Return the limits of commands; what is not set depends on this machine's memory."""
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return CommandLimits(
        timeout_s=config.command_timeout_s,
        max_timeout_s=max(config.command_timeout_s, _MOST_TIMEOUT_S),
        memory_mb=config.command_memory_mb or max(_LEAST_MEMORY_MB, memory_mb // 2),
        tmp_mb=min(_MOST_TMP_MB, memory_mb // 4),
    )


def tools_of(config: Config, workspace: Path, told: Mapping[str, Told] = MappingProxyType({})) -> ToolRegistry:
    """Return the tools of the root agent, described as the features have them `told`."""
    tools = ALL_TOOLS if config.has_sub_agents else without_agents()
    return ToolRegistry(str(workspace), tools, command_limits(config), told)


async def _open_sandbox(workspace: Path, config: Config) -> WorkspaceSandbox:
    rules = await asyncio.to_thread(rules_in_force, config, workspace)
    tools = map(Path, allowed_by(rules, SHOWN_TOOLS))
    return await select_sandbox(
        workspace,
        backend=config.sandbox,
        network="none" if config.network == "off" else config.network,
        image=config.image,
        toolchains=await asyncio.to_thread(lambda: [it for it in tools if can_show(it, workspace)]),
        variables={name: os.environ[name] for name in config.pass_env if name in os.environ},
        limits=command_limits(config),
        added=config.add_dirs,
        masks=mask_expressions(rules),
    )


class CurrentSandbox:
    """The sandbox of the folder and the settings that `wanted` returns; those before it live on until all are closed."""

    def __init__(self, wanted: Callable[[], tuple[Path, Config]]) -> None:
        self._wanted = wanted
        self._opened: list[WorkspaceSandbox] = []
        self._has_current = False
        self._selecting = asyncio.Lock()

    async def get(self) -> WorkspaceSandbox:
        """Return the sandbox; it starts when it is first used.

        Raises:
            UsageError: a setting names something that cannot be.
        """
        async with self._selecting:
            while not self._has_current:
                wanted = self._wanted()
                self._opened.append(await _open_sandbox(*wanted))
                self._has_current = wanted == self._wanted()
            return self._opened[-1]

    def retire(self) -> None:
        """Select again at the next use; whoever still uses the one from before gets an answer."""
        self._has_current = False

    async def close(self) -> None:
        """Close every one that was opened."""
        self._has_current = False
        while self._opened:
            await self._opened.pop(0).close()


def allowed_by(rules: Sequence[Rule], tool: str) -> list[str]:
    """Return the hosts or folders that a rule names and allows, and that no other may refuse."""
    allowed = [rule.pattern for rule in rules if rule.tool == tool and rule.effect is Effect.ALLOW]
    other = [it.pattern for it in rules if it.tool in (tool, "*") and it.effect is not Effect.ALLOW]
    clash = {each for each in allowed for it in other if is_covered(each, [it]) or is_covered(it, [each])}
    return [each for each in allowed if each not in clash and "*" not in (each, *other)]


def interpreter_of(config: Config, rules: Sequence[Rule], sandbox: WorkspaceSandbox) -> Interpreter:
    """Return the Python of one session; it reaches the hosts that a rule names and allows."""

    async def launcher() -> InstanceLauncher | None:
        return sandbox.launcher

    hosts = {"on": ("*",), "proxy": tuple(allowed_by(rules, NETWORK_TOOL))}.get(config.network, ())
    return SandboxInterpreter(launcher, hosts)


_CHECKED = tuple(name for name in BACKENDS if name != "auto")


@dataclass(frozen=True, slots=True)
class BackendReport:
    """One backend: whether it works, if not why and what to do, what it isolates, and how long it took to start."""

    name: str
    works: bool
    why_not: str
    fix: str
    isolation: tuple[str, ...]
    start_ms: int


_FIXES = {
    "docker": "Start the Docker engine, then make the image with `lmtui sandbox image`.",
    "podman": "Start Podman's socket (systemctl --user start podman.socket), then make the image with `lmtui sandbox image`.",
    "landlock": "Use a kernel with Landlock (5.19 or later), or Docker.",
    "bubblewrap": "Allow unprivileged user namespaces (sysctl kernel.unprivileged_userns_clone=1), or use Docker.",
}


async def backend_reports(workspace: Path) -> Sequence[BackendReport]:
    """Try every backend in a workspace, strongest first; nothing of them runs afterwards.

    Raises:
        UsageError: the workspace cannot be one.
    """
    folder = await asyncio.to_thread(check_workspace, workspace)
    return [await _report_of(name, folder) for name in _CHECKED]


async def _report_of(name: str, workspace: Path) -> BackendReport:
    options = Options()
    backend = make_backend(name, workspace, options)
    started = time.monotonic()
    try:
        await prove(backend, options)
        guard, _, client = await start(backend, workspace)
    except SandboxUnavailable as refusal:
        fix = refusal.hint or _FIXES.get(name, "")
        return BackendReport(name, works=False, why_not=str(refusal), fix=fix, isolation=(), start_ms=0)
    else:
        elapsed_ms = int((time.monotonic() - started) * 1000)
        await client.close()
        await guard.close()
        return BackendReport(name, works=True, why_not="", fix="", isolation=backend.isolation, start_ms=elapsed_ms)
    finally:
        await backend.close()


def free_space(workspace: Path) -> Mapping[Path, int]:
    """Return the free bytes of the disks that the workspace and lmtui's own state are on, by folder."""
    folders = [next(each for each in (folder, *folder.parents) if each.exists()) for folder in (workspace, state_dir())]
    return {folder: shutil.disk_usage(folder).free for folder in {each.stat().st_dev: each for each in folders}.values()}


def workspace_problem(workspace: Path) -> UsageError | None:
    """Return why a folder cannot be worked in, None where it can."""
    try:
        check_workspace(workspace)
    except UsageError as error:
        return error
    return None
