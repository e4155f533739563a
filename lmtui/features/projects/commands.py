"""Commands of projects: list them, go to one."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import Command, CommandContext, OpenView, Scope
from lmtui.core.folders import NO_PROJECTS, Projects, project_lines


async def show_projects(context: CommandContext, _: str) -> OpenView:
    """List the projects."""

    async def lines() -> Iterable[str]:
        found = [*project_lines(await context.host.extensions[Projects].read(), context.now())]
        return (*found, "open one with `lmtui projects use NAME` in a shell") if found else (NO_PROJECTS,)

    return OpenView("projects.show", text=lines)


COMMANDS: tuple[Command, ...] = (
    Command("projects.show", Scope.WORKBENCH, "Projects", "List the folders that you work in, and go to another.",
        slash=("projects",), handler=show_projects, instead="`lmtui projects`"),
)  # fmt: skip
