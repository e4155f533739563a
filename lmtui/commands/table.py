"""The commands that have a name or that more than one front end runs, and how one is run."""

from __future__ import annotations

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import CommandContext, CommandTable, OpenView, Result
from lmtui.commands.extension_commands import GUIDANCE, JOBS, MCP, SKILLS, run_prompt_file
from lmtui.commands.session_commands import MORE_SESSIONS, SESSIONS
from lmtui.commands.work_commands import PANES_AND_CHANGES, PLAN_AND_MODEL, SCREEN_ONLY, WINDOW

COMMANDS = CommandTable((
    *(BASIC + SESSIONS + PANES_AND_CHANGES + SCREEN_ONLY + WINDOW + GUIDANCE + PLAN_AND_MODEL),
    *(MORE_SESSIONS + JOBS + MCP + SKILLS),
))  # fmt: skip


async def run_typed(context: CommandContext, text: str) -> Result:
    """Run what was typed: a command of ours, or one that is a Markdown file.

    Raises:
        LmtuiError: there is no such command, or it cannot be done.
    """
    call = context.commands.parse(text)
    if call is None or call.command is None:
        return await run_prompt_file(context, text)
    if call.command.handler is None:
        return OpenView(call.command.id, call.argument, instead=call.command.instead)
    return await call.command.handler(context, call.argument)
