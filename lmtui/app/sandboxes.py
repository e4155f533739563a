"""A workspace's sandbox as the settings want it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType

from lmtui.app.folder_rules import rules_in_force
from lmtui.config import Config
from lmtui.core.hosts import NETWORK_TOOL, SHOWN_TOOLS, is_covered
from lmtui.core.permissions.rules import Effect, Rule, mask_expressions
from lmtui.core.programs import Interpreter
from lmtui.core.workspace import CommandLimits
from lmtui.sandbox.instance_programs import InstanceLauncher, SandboxInterpreter
from lmtui.sandbox.project_tools import can_show
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox
from lmtui.tools.registry import ALL_TOOLS, ToolRegistry, without_agents
from lmtui.tools.tool import Told

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
