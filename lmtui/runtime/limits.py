"""How far a turn may go, as the settings say it: the session's own agent, and those that it sends."""

from __future__ import annotations

from dataclasses import replace

from lmtui.config import Config
from lmtui.core.ports import Limits


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
