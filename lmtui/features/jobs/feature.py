"""Jobs: tasks that run by themselves at their time, and sessions that wait for one."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:WorkspaceJobs",
    tools=("tools:GET_TIME", "tools:WAIT"),
    subcommands=(
        Subcommand('submit "TASK" [--at|--every|--daily|--hourly|--cron|--startup]', "subcommands:submit"),
        Subcommand("jobs", "subcommands:jobs"),
        Subcommand("scheduler", "subcommands:scheduler"),
    ),
    routes="routes:ROUTES",
    has_commands=True,
    imports="subcommands:imports",
    controller="screens:JobController",
)
