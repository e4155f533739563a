"""Commands of skills: list them, use one, promote a function."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

from lmtui.commands.command import Begin, Command, CommandContext, OpenView, Output, Result, Scope
from lmtui.core.errors import UsageError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.subagents import FileState
from lmtui.features.skills.values import OFF, PromotedTool, Skill, Skills

SIGNS: dict[FileState, tuple[str, Literal["good", "warn", "muted", "bad"]]] = {
    FileState.READY: ("✓", "good"),
    FileState.WAITING: ("?", "warn"),
    FileState.REFUSED: ("–", "muted"),
    FileState.HIDDEN: ("–", "muted"),
    FileState.BROKEN: ("✗", "bad"),
}
PROMOTE = "promote"
_PROMOTE_FORM = "Write /promote FILE FUNCTION [NAME]."


async def use_skill(context: CommandContext, argument: str) -> Result:
    """List the skills, have one followed, or end those in use; or make a function a tool."""
    if argument.partition(" ")[0] == PROMOTE:
        return await promote(context, argument.removeprefix(PROMOTE))
    skills = context.host.extensions[Skills]
    name, _, words = (part.strip() for part in argument.strip().partition(" "))
    in_use = await skills.in_use(context.active.id) if context.active is not None else ()
    if name.lower() == OFF:
        ended = [each for each in in_use if words in ("", each)]
        if not ended:
            raise UsageError(f"the skill {words} is not in use" if words else "no skill is in use", "/skill lists them.")
        skills.end(context.session.id, words)
        return Output((f"Skill ended: {', '.join(ended)}",))

    async def lines() -> Iterable[str]:
        return skill_lines(await skills.found(), skills.promoted(), in_use)

    if not name:
        return OpenView("skills.show", text=lines, instead="`/skill NAME`; `lmtui skills` lists them")
    used = await skills.use(name)
    return Begin(lambda session: skills.begin(session.id, used.name, words))


async def skill_names(context: CommandContext) -> Mapping[str, str]:
    """Return the names of the skills that can be used, with what each is for."""
    found = await context.host.extensions[Skills].found()
    return {each.name: each.description for each in found if each.state is FileState.READY}


async def promote(context: CommandContext, argument: str) -> Begin:
    """Ask whether a Python function may become a tool."""
    parts = argument.split()
    if len(parts) not in (2, 3):
        raise UsageError("which function of which file should become a tool?", _PROMOTE_FORM)
    path, function, name = parts[0].removeprefix("@"), parts[1], "".join(parts[2:])
    return Begin(lambda session: context.host.extensions[Skills].ask_to_promote(session.id, path, function, name))


def skill_state(skill: Skill, in_use: Sequence[str] = ()) -> str:
    """Return where a skill is, with its prices: in each request, and once it is read."""
    if skill.state is FileState.READY:
        now = "in use; " if skill.name in in_use else ""
        return f"{now}{skill.tokens:,} tokens in each request, {skill.body_tokens:,} once used"
    return str(skill.state)


def skill_facts(skill: Skill) -> tuple[str, ...]:
    """Return what there is to know of a skill, a line each."""
    allowed = f"only these tools while it is in use: {', '.join(skill.allowed) or 'none'}" if skill.allowed is not None else ""
    needs_yes = skill.state in (FileState.WAITING, FileState.REFUSED)
    way_out = "It works once you trust it: /trust, or `lmtui trust`" if needs_yes else ""
    lines = (skill.description, f"from {skill.place}", allowed, way_out, skill.problem, *skill.warnings)
    return tuple(sanitize_line(line) for line in lines if line)


def tool_facts(tool: PromotedTool) -> tuple[str, ...]:
    """Return what there is to know of a promoted tool, a line each."""
    lines = (tool.description, f"{tool.function} of {tool.origin}, as you approved it", tool.problem)
    return tuple(sanitize_line(line) for line in lines if line)


def skill_lines(skills: Sequence[Skill], tools: Sequence[PromotedTool], in_use: Sequence[str] = ()) -> list[str]:
    """Return all of them in columns."""
    lines: list[str] = []
    for skill in skills:
        lines.append(f"{SIGNS[skill.state][0]} {skill.name:<24} {skill.source!s:<12} {skill_state(skill, in_use)}")
        lines += [f"    {line}" for line in skill_facts(skill)]
    for tool in tools:
        lines.append(f"{'✗' if tool.problem else '✓'} {tool.name:<24} {'tool':<12} {tool.tokens:,} tokens")
        lines += [f"    {line}" for line in tool_facts(tool)]
    return lines or ["No skills here."]


COMMANDS: tuple[Command, ...] = (
    Command("skills.show", Scope.WORKBENCH, "Skills", "List skills, use one, or end it (off).", slash=("skills",),
        aliases={"skill": "", "promote": PROMOTE}, tab=("Extensions", "Skills"),
        argument="[name text | off]", values="skills", names=skill_names, handler=use_skill),
)  # fmt: skip
