"""Commands of skills: list them, use one, promote a function."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from lmtui.commands.command import Begin, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.errors import UsageError
from lmtui.core.skills import OFF, Skills, promote_call, skill_call, skill_lines

SCOPE = "skills"


async def use_skill(context: CommandContext, argument: str) -> Result:
    """List the skills, have one followed, or end those in use."""
    skills = context.host.extensions[Skills]
    name, words = skill_call(argument)
    in_use = context.active.skills.in_use if context.active is not None else ()
    if name.lower() == OFF:
        return _end(context, words, in_use)

    async def lines() -> Iterable[str]:
        return skill_lines(await skills.found(), skills.promoted(), in_use)

    if not name:
        return OpenView("skills.show", text=lines, instead="`/skill NAME`; `lmtui skills` lists them")
    used = await skills.use(name)
    return Begin(lambda session: session.skills.begin(used, words))


def _end(context: CommandContext, name: str, in_use: Sequence[str]) -> Output:
    ended = [each for each in in_use if name in ("", each)]
    if not ended:
        raise UsageError(f"the skill {name} is not in use" if name else "no skill is in use", "/skill lists them.")
    context.session.skills.end(name)
    return Output((f"Skill ended: {', '.join(ended)}",))


async def promote(_context: CommandContext, argument: str) -> Begin:
    """Ask whether a Python function may become a tool."""
    path, function, name = promote_call(argument)
    return Begin(lambda session: session.skills.promote(path, function, name))


COMMANDS: tuple[Command, ...] = (
    Command("skills.show", Scope.WORKBENCH, "Skills", "List skills, use one, or end it (off).", slash=("skill", "skills"),
        argument="[name text | off]", values="skills", handler=use_skill),
    Command("skills.promote", Scope.WORKBENCH, "Promote function",
        "Make a Python function a tool of this folder, after you approve it.", slash=("promote",),
        argument="FILE FUNCTION [name]", handler=promote, instead=SCREEN),
    Command("skills.use", SCOPE, "Use", "Insert the selected skill into the prompt.", ("u",), "use"),
    Command("skills.remove", SCOPE, "Remove", "Remove the selected tool; files are not changed.", ("d",), "remove tool"),
)  # fmt: skip
