"""All commands of the full screen: those of every front end, and the keys of its panes and dialogs."""

from __future__ import annotations

from dataclasses import replace

from textual.binding import BindingType

from lmtui.commands.command import Command, CommandTable, Scope
from lmtui.commands.table import COMMANDS as SHARED
from lmtui.tui.dialog_keys import (
    CHAT,
    DIALOGS,
    JOBS,
    LAYOUT,
    MCP,
    MODELS,
    PANES,
    PLANNING,
    READING,
    SESSIONS,
    SKILLS,
    WINDOW,
)
from lmtui.tui.key_bindings import PROMPT, bindings_of, first_key, hint_text

__all__ = ["COMMANDS", "Command", "Scope", "bindings", "closing", "command", "first_key", "hint_text", "key_of", "of_scope"]

TABLE = CommandTable((
    *(*SHARED.commands, *LAYOUT, *WINDOW, *PROMPT, *PANES, *CHAT, *READING, *PLANNING, *SESSIONS, *JOBS),
    *(*MCP, *SKILLS, *MODELS, *DIALOGS),
))  # fmt: skip
COMMANDS = TABLE.commands


def command(command_id: str) -> Command:
    """Return a command by its id."""
    return TABLE.by_id(command_id)


def key_of(command_id: str) -> str:
    """Return the first key of a command as a person reads it."""
    return first_key(command(command_id))


def closing(word: str = "close") -> Command:
    """Return the command behind escape under the name that it has on a screen."""
    return replace(command("app.stop"), hint=word)


def of_scope(*scopes: Scope) -> tuple[Command, ...]:
    """Return the commands of some scopes in the table's order."""
    return tuple(each for each in COMMANDS if each.scope in scopes)


def bindings(scope: Scope) -> list[BindingType]:
    """Return a scope's keys for a `BINDINGS` of Textual."""
    return bindings_of(of_scope(scope))
