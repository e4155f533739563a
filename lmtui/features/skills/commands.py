"""Commands of skills: list them, use one, promote a function."""

from __future__ import annotations

from collections.abc import Iterable

from lmtui.commands.command import Begin, Command, CommandContext, OpenView, Result, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.skills import promote_call, skill_call, skill_lines

SCOPE = "skills"


async def use_skill(context: CommandContext, argument: str) -> Result:
    """List the skills, or have one followed."""
    skills = context.host.extensions.skills
    name, words = skill_call(argument)

    async def lines() -> Iterable[str]:
        return skill_lines(await skills.found(), skills.promoted())

    if not name:
        return OpenView("skills.show", text=lines, instead="`/skill NAME`; `lmtui skills` lists them")
    used = await skills.use(name)
    return Begin(lambda session: session.skills.begin(used, words))


async def promote(_context: CommandContext, argument: str) -> Begin:
    """Ask whether a Python function may become a tool."""
    path, function, name = promote_call(argument)
    return Begin(lambda session: session.skills.promote(path, function, name))


COMMANDS: tuple[Command, ...] = (
    Command("skills.show", Scope.WORKBENCH, "Skills", "List skills, or use one.", slash=("skill", "skills"),
        argument="[name text]", values="skills", handler=use_skill),
    Command("skills.promote", Scope.WORKBENCH, "Promote function",
        "Make a Python function a tool of this folder, after you approve it.", slash=("promote",),
        argument="FILE FUNCTION [name]", handler=promote, instead=SCREEN),
    Command("skills.read", SCOPE, "Read", "Read the selected skill, or the code of the selected tool.", ("enter",), "read"),
    Command("skills.use", SCOPE, "Use", "Insert the selected skill into the prompt.", ("u",), "use"),
    Command("skills.remove", SCOPE, "Remove", "Remove the selected tool; files are not changed.", ("d",), "remove tool"),
)  # fmt: skip
