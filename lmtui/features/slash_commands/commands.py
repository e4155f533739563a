"""The command that lists the slash commands that are Markdown files."""

from __future__ import annotations

from lmtui.commands.basic_commands import prompt_file_lines
from lmtui.commands.command import Command, CommandContext, OpenView, Scope


async def show_prompt_files(context: CommandContext, _: str) -> OpenView:
    """List the slash commands that are Markdown files or prompts of MCP servers."""
    return OpenView("prompts.show", text=lambda: prompt_file_lines(context))


COMMANDS: tuple[Command, ...] = (
    Command("prompts.show", Scope.WORKBENCH, "Markdown commands",
        "List the slash commands that are Markdown files, and choose one.", slash=("commands",), handler=show_prompt_files,
        is_rare=True, instead="`lmtui doctor`"),
)  # fmt: skip
