"""Commands that apply everywhere; loaded before the first frame, so this imports nothing heavy."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from lmtui.commands.command import Command, CommandContext, Leave, OpenView, Scope
from lmtui.core.prompt_text import PromptFiles
from lmtui.core.sanitize import sanitize_line


async def show_help(context: CommandContext, _: str) -> OpenView:
    """Show every key and command."""

    async def lines() -> Iterable[str]:
        named = [each for each in context.commands.commands if each.slash and each.handler is not None]
        return [
            *(f"/{each.slash[0]} {each.argument}".rstrip() + f": {each.help}" for each in named),
            *await prompt_file_lines(context),
            "!command runs a shell command; !!command hides it from the model",
            "a line that ends in a backslash continues on the next; three backticks begin and end several lines",
            "ctrl+c stops the agent; press it again to quit",
        ]

    return OpenView("app.help", text=lines)


async def prompt_file_lines(context: CommandContext) -> list[str]:
    """Return the commands that are Markdown files or prompts of MCP servers."""
    lines = []
    offers = context.host.extensions
    for file in await asyncio.to_thread(offers[PromptFiles].found) if PromptFiles in offers else ():
        runs = "" if file.may_run else " (its commands need trust: `lmtui trust`)"
        words = sanitize_line(file.problem or file.description)
        lines.append(f"{sanitize_line(file.label)}: {words}{runs}, from {sanitize_line(file.source)}")
    return lines


async def leave(_context: CommandContext, _: str) -> Leave:
    """Leave the program."""
    return Leave()


BASIC: tuple[Command, ...] = (
    Command("app.palette", Scope.APP, "Command palette", "Find and run any command.", ("ctrl+p",), "everything", is_fixed=True,
        is_first=True, runs="app.run_command('app.palette')"),
    Command("app.help", Scope.APP, "Help", "Show all keys and commands.", ("f1", "question_mark"), "keys", ("help",),
        is_fixed=True, runs="app.run_command('app.help')", handler=show_help, instead="`lmtui --help`"),
    Command("app.stop", Scope.APP, "Stop or close", "Stop the agent, or close what is open.", ("escape",), "stop",
        is_fixed=True),
    Command("app.interrupt", Scope.APP, "Interrupt", "Stop the agent, as escape does.", ("ctrl+c",),
        is_fixed=True, is_rare=True),
    Command("app.leave", Scope.APP, "Quit", "Quit lmtui; asks first if an agent is working.", ("ctrl+q",), "quit",
        ("exit",), aliases={"quit": ""}, is_fixed=True, is_first=True, handler=leave, instead="`lmtui` (or `lmtui --plain`)"),
    Command("app.suspend", Scope.APP, "Suspend", "Suspend lmtui and return to the shell; `fg` resumes it.", ("ctrl+z",),
        is_fixed=True, is_first=True, is_rare=True),
    Command("app.focus", Scope.APP, "Next or previous pane", "Focus the next or previous pane.", ("tab", "shift+tab"),
        is_fixed=True, runs="app.focus_{next|previous}", is_rare=True),
    Command("app.theme", Scope.APP, "Theme", "Choose a color theme.", slash=("theme",), argument="[name]", values="themes",
        runs="app.run_command('app.theme')"),
    Command("app.mouse", Scope.APP, "Toggle mouse", "Leave the mouse to the terminal for selecting text, or take it back.",
        hint="mouse", slash=("mouse",), is_rare=True),
)  # fmt: skip
