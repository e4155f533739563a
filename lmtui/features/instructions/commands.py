"""Commands of the instructions: show them and the persona, draft an AGENTS.md."""

from __future__ import annotations

from lmtui.commands.command import Begin, Command, CommandContext, Output, Scope
from lmtui.commands.session_commands import SCREEN
from lmtui.core.instruction_values import WHOLE_CHARS, guidance_lines, init_task, persona_lines


async def show_instructions(context: CommandContext, _: str) -> Output:
    """Show which instructions are read."""
    return Output(guidance_lines(await context.host.guide.read(WHOLE_CHARS)), "INSTRUCTIONS")


async def show_persona(context: CommandContext, _: str) -> Output:
    """Show who the agent is told to be."""
    return Output(persona_lines(await context.host.guide.read(WHOLE_CHARS)), "PERSONA")


async def draft_instructions(_context: CommandContext, focus: str) -> Begin:
    """Have the model draft an AGENTS.md."""
    return Begin(lambda session: session.submit(init_task(focus), typed=f"/init {focus}"))


COMMANDS: tuple[Command, ...] = (
    Command("guidance.show", Scope.WORKBENCH, "Instructions",
        "Show which instruction files are read, such as AGENTS.md, and their size.", slash=("instructions",),
        handler=show_instructions, instead="`lmtui doctor`"),
    Command("guidance.persona", Scope.WORKBENCH, "Persona", "Show the persona that the agent is given.", slash=("soul",),
        handler=show_persona, instead=SCREEN),
    Command("guidance.draft", Scope.WORKBENCH, "Draft AGENTS.md", "Ask the model to draft an AGENTS.md for this folder.",
        slash=("init",), argument="[focus]", handler=draft_instructions, instead=SCREEN),
)  # fmt: skip
