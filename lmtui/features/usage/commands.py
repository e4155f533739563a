"""Commands of usage: show it, and count other days."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import Command, CommandContext, OpenView, Scope
from lmtui.features.usage.values import UsageRange, UsageReports, usage_lines, usage_range


async def show_usage(context: CommandContext, argument: str) -> OpenView:
    """Show what the sessions of all folders cost."""
    chosen = usage_range(argument) if argument.strip() else UsageRange.WEEK

    async def lines() -> Iterable[str]:
        return usage_lines(await context.host.extensions[UsageReports].report(chosen))

    return OpenView("usage.show", str(chosen), text=lines)


COMMANDS: tuple[Command, ...] = (
    Command("usage.show", Scope.WORKBENCH, "Usage", "Show tokens, requests and time of all your sessions.",
        slash=("usage",), tab=("Usage", "Days"), argument="[today|7d|30d|all]", handler=show_usage, instead="`lmtui usage`"),
)  # fmt: skip
