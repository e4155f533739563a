"""The one table of commands.  Bindings, palette, slash commands, hints and the help screen are all made from it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from textual.binding import Binding, BindingType

from lmtui.tui.table.around import AROUND
from lmtui.tui.table.chat import CHAT
from lmtui.tui.table.command import KEY_NAMES, Command, Scope, SlashCall
from lmtui.tui.table.dialogs import DIALOGS
from lmtui.tui.table.everywhere import EVERYWHERE
from lmtui.tui.table.guidance import GUIDANCE
from lmtui.tui.table.jobs import JOBS
from lmtui.tui.table.mcp import MCP
from lmtui.tui.table.models import MODELS
from lmtui.tui.table.panes import PANES
from lmtui.tui.table.planning import PLANNING
from lmtui.tui.table.prompt import PROMPT
from lmtui.tui.table.reading import READING
from lmtui.tui.table.sessions import SESSIONS
from lmtui.tui.table.skills import SKILLS
from lmtui.tui.table.window import WINDOW

__all__ = ["COMMANDS", "Command", "Scope", "SlashCall"]

COMMANDS: tuple[Command, ...] = (
    *(EVERYWHERE + AROUND + WINDOW + GUIDANCE + PROMPT + PANES + CHAT + READING + PLANNING + SESSIONS + JOBS),
    *(MCP + SKILLS + MODELS + DIALOGS),
)


_BY_ID = {command.id: command for command in COMMANDS}
_BY_SLASH = {name: command for command in COMMANDS for name in command.slash}


def command(command_id: str) -> Command:
    """Return a command by its id."""
    return _BY_ID[command_id]


def closing(word: str = "close") -> Command:
    """Return the command behind escape under the name that it has on a screen."""
    return replace(_BY_ID["app.stop"], hint=word)


def of_scope(*scopes: Scope) -> tuple[Command, ...]:
    """Return the commands of some scopes in the table's order."""
    return tuple(each for each in COMMANDS if each.scope in scopes)


def bindings(scope: Scope) -> list[BindingType]:
    """Return a scope's keys for a `BINDINGS` of Textual; each has the command's id, so that a keymap can change it."""
    return [
        Binding(",".join(each.keys), each.action, each.title, show=False, priority=each.is_first, id=each.id)
        for each in of_scope(scope)
        if each.keys
    ]


def parse_slash(text: str) -> SlashCall | None:
    """Read a slash command; None for what goes to the model: other text, and absolute paths such as `/usr/bin`."""
    stripped = text.strip()
    if stripped == "quit":
        stripped = "/quit"
    head, _, argument = stripped.partition(" ")
    name = head[1:]
    is_path = "/" in name or "." in name or "\n" in head
    if not head.startswith("/") or not name or is_path:
        return None
    return SlashCall(name, argument.strip(), _BY_SLASH.get(name.lower()))


def complete_slash(text: str) -> list[tuple[str, Command]]:
    """Return the slash commands that begin with what is typed, in the table's order; nothing once an argument follows."""
    if not text.startswith("/") or " " in text or "\n" in text:
        return []
    typed = text[1:].lower()
    found = [(name, each) for each in COMMANDS for name in each.slash if name.startswith(typed)]
    return [(name, each) for index, (name, each) in enumerate(found) if not index or found[index - 1][1] is not each]


def hint_text(commands: Iterable[Command]) -> str:
    """Return a footer's words, such as `enter send · ctrl+j line`."""
    return " · ".join(f"{first_key(each)} {each.hint}" for each in commands if each.hint and each.bound_keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it."""
    keys = each.bound_keys
    return KEY_NAMES.get(keys[0], keys[0]) if keys else ""
