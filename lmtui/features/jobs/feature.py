"""Jobs: tasks that run by themselves at their time, and sessions that wait for one."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

_SUBCOMMANDS = "lmtui.features.jobs.subcommands"
FEATURE = Feature(
    service="lmtui.features.jobs.service:WorkspaceJobs",
    tools=("lmtui.features.jobs.tools:GET_TIME", "lmtui.features.jobs.tools:WAIT"),
    subcommands=(
        Subcommand('submit "TASK" [--at|--every|--daily|--hourly|--cron|--startup]', f"{_SUBCOMMANDS}:submit"),
        Subcommand("jobs", f"{_SUBCOMMANDS}:jobs"),
        Subcommand("scheduler", f"{_SUBCOMMANDS}:scheduler"),
    ),
    routes="lmtui.features.jobs.routes:ROUTES",
    has_commands=True,
    imports="lmtui.features.jobs.subcommands:imports",
    controller="lmtui.features.jobs.screens:JobController",
)
