"""The commands that have a name or that more than one front end runs, and how one is run."""

from __future__ import annotations

import asyncio
import functools

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import AskYes, Begin, CommandContext, CommandTable, OpenView, Output, Result
from lmtui.commands.session_commands import MORE_SESSIONS, SCREEN, SESSIONS
from lmtui.commands.work_commands import WORK
from lmtui.core.errors import UsageError
from lmtui.core.prompt_text import AS_WORDS, PromptFiles, nearest
from lmtui.core.sanitize import sanitize_line
from lmtui.registry import features


@functools.cache
def command_table() -> CommandTable:
    """Return the commands, those of the features last; loads the modules of these."""
    of_features = (command for each in features() if each.has_commands for command in each.load("commands:COMMANDS"))
    return CommandTable((*BASIC, *SESSIONS, *WORK, *MORE_SESSIONS, *of_features))


async def run_unasked(context: CommandContext, text: str) -> Begin | Output:
    """Run a slash command where nobody can be asked and no view can be shown.

    Raises:
        UsageError: it needs a screen; see `run_typed` for others.
    """
    match result := await run_typed(context, text):
        case Begin() | Output():
            return result
        case None:
            return Output(("done",))
    instead = result.instead if isinstance(result, OpenView | AskYes) else ""
    raise UsageError(f"{sanitize_line(text.split(maxsplit=1)[0])} needs a screen", f"Use {instead or SCREEN}. {AS_WORDS}")


async def run_typed(context: CommandContext, text: str) -> Result:
    """Run what was typed: a command of ours, or one that is a Markdown file.

    Raises:
        UsageError: the command is unknown, or cannot be used.
        LmtuiError: it is not possible now, or a server's that lacks an argument or is not given.
    """
    call = context.commands.parse(text)
    if call is not None and (command := call.command) is not None:
        if command.handler is None:
            return OpenView(command.id, call.argument, instead=command.instead)
        return await command.handler(context, call.argument)
    offers = context.host.extensions
    prompt = await offers[PromptFiles].read(text) if PromptFiles in offers else None
    if prompt is not None:
        return Begin(lambda session: session.waiting.begin(prompt, text.strip()))
    name = text.split(maxsplit=1)[0][1:]
    files = await asyncio.to_thread(offers[PromptFiles].found) if PromptFiles in offers else ()
    broken = next((file for file in files if file.name == name), None)
    if broken is not None:
        why = sanitize_line(f"{broken.source}: {broken.problem}")
        raise UsageError(f"/{sanitize_line(name)} cannot be used: {why}", AS_WORDS)
    near = nearest(name, [*context.commands.names, *(file.name for file in files)])
    raise UsageError(f"no command /{sanitize_line(name)}", f"{near} {AS_WORDS}".strip())
