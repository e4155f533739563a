"""How far a turn may go, as the settings say it: the session's own agent, and those that it sends."""

from __future__ import annotations

import os
from dataclasses import replace

from lmtui.config import Config
from lmtui.core.ports import Limits
from lmtui.core.workspace import CommandLimits

_LEAST_MEMORY_MB = 512
_MOST_TMP_MB = 4096


def limits_of(config: Config) -> Limits:
    """Return the limits of the session's own agent."""
    return Limits(
        max_iterations=config.max_iterations,
        timeout_s=config.timeout_s,
        max_same_tool_streak=config.max_same_tool_streak,
        max_no_progress_iters=config.max_no_progress_iters,
        max_errors=config.max_errors,
        max_empty_iterations=config.max_empty_iterations,
    )


def child_limits(config: Config) -> Limits:
    """Return the limits of a sub-agent: a budget of its own, loops as the user wants them seen."""
    return replace(
        limits_of(config),
        max_iterations=config.agent_max_iterations,
        max_tokens=config.agent_max_tokens,
        timeout_s=config.agent_timeout_s,
    )


def command_limits(config: Config) -> CommandLimits:
    """Return the limits of commands; what the settings leave open depends on this machine's memory."""
    memory_mb = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") >> 20
    return CommandLimits(
        timeout_s=config.command_timeout_s,
        max_timeout_s=max(config.command_timeout_s, config.command_max_timeout_s),
        memory_mb=config.command_memory_mb or max(_LEAST_MEMORY_MB, memory_mb // 2),
        cores=config.command_cores,
        processes=config.command_processes,
        tmp_mb=config.command_tmp_mb or min(_MOST_TMP_MB, memory_mb // 4),
        file_mb=config.command_file_mb,
    )
