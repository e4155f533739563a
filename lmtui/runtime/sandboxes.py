"""A workspace's sandbox as the settings want it."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterable, Mapping
from pathlib import Path

from lmtui.config import Config
from lmtui.core.hosts import SHOWN_TOOLS
from lmtui.core.interpreter import Interpreter
from lmtui.core.rules import Effect
from lmtui.core.serving import GuardedLauncher
from lmtui.core.web import Web
from lmtui.extensions.html_markdown import to_markdown
from lmtui.extensions.web_client import WebClient
from lmtui.runtime.limits import command_limits
from lmtui.runtime.process import drop_path_entries_below
from lmtui.runtime.rules import rules_in_force
from lmtui.sandbox.interpreter import LaneInterpreter
from lmtui.sandbox.project_tools import can_show
from lmtui.sandbox.select import select_sandbox
from lmtui.sandbox.workspace_sandbox import WorkspaceSandbox

_NETWORK = {"off": "none"}


async def open_sandbox(workspace: Path, config: Config, environ: Mapping[str, str] = os.environ) -> WorkspaceSandbox:
    """Return the sandbox, which the caller closes; it starts when it is first used.

    Raises:
        UsageError: a setting names something that cannot be.
    """
    drop_path_entries_below(workspace)
    return await select_sandbox(
        workspace,
        backend=config.sandbox,
        network=_NETWORK.get(config.network, config.network),
        image=config.image,
        runtime=config.sandbox_runtime,
        toolchains=[*_folders(config.toolchains), *await asyncio.to_thread(_shown_by_rules, workspace, config)],
        hosts=config.network_hosts,
        variables={name: environ[name] for name in config.pass_env if name in environ},
        limits=command_limits(config),
        added=config.add_dirs,
    )


def _shown_by_rules(workspace: Path, config: Config) -> list[Path]:
    """Return the folders of tools that rules allow to show; one that is gone or cannot be shown is passed over.  Blocks."""
    rules = [rule for rule in rules_in_force(config, workspace) if rule.tool == SHOWN_TOOLS and rule.pattern != "*"]
    refused = {rule.pattern for rule in rules if rule.effect is not Effect.ALLOW}
    allowed = [Path(rule.pattern) for rule in rules if rule.effect is Effect.ALLOW and rule.pattern not in refused]
    return [folder for folder in allowed if can_show(folder, workspace)]


def _folders(paths: Iterable[str]) -> list[Path]:
    return [Path(path).expanduser() for path in paths]


def interpreter_of(config: Config, sandbox: WorkspaceSandbox) -> Interpreter:
    """Return the Python of one session; it reaches the hosts that commands reach without asking."""

    async def launcher() -> GuardedLauncher | None:
        return sandbox.launcher

    hosts = {"on": ("*",), "proxy": config.network_hosts}.get(config.network, ())
    return LaneInterpreter(launcher, hosts)


def web_of(config: Config) -> Web:
    """Return the way to the web: what commands may not reach is not fetched either."""
    return WebClient(config.network, config.network_hosts, to_markdown)
