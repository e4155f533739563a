"""What the first frame needs: the options, the keys of the prompt and of the app, and how keys are bound and shown."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import Command, CommandTable, Scope, key_name


def commands_in(
    scope: str, *rows: tuple[str, ...], runs: str = "", is_first: bool = False, is_rare: bool = False
) -> tuple[Command, ...]:
    """Return the commands of a place: of each its id, title, help, keys with blanks between, hint and action.

    What is empty at the end of a row may be left out.  `runs` is the action of the rows that name none, made from their `id`
    and its last part, the `step`.
    """
    found: list[Command] = []
    for command_id, title, text, *rest in rows:
        keys, hint, action = (*rest, "", "", "")[:3]
        action = action or runs.format(id=command_id, step=command_id.partition(".")[2])
        found.append(
            Command(command_id, scope, title, text, tuple(keys.split()), hint, is_first=is_first, is_rare=is_rare, runs=action)
        )
    return tuple(found)


PROMPT: tuple[Command, ...] = (
    *commands_in(Scope.PROMPT,
        ("prompt.send", "Send", "Send the message, or queue it until the current turn ends.", "enter", "send"),
        ("prompt.newline", "New line", "Insert a new line.", "ctrl+j shift+enter", "new line"),
        ("prompt.complete", "Complete", "Accept the selected completion.", "tab"),
        ("prompt.steer", "Send now", "Send before the agent's next step, not after its turn.", "ctrl+s", "send now"),
        ("prompt.search", "Search history", "Search earlier messages for what you typed.", "ctrl+r", "history"),
        ("prompt.undo", "Undo typing", "Undo the last edit; Ctrl+Y redoes it.", "ctrl+underscore", "", "undo")),
    *commands_in(Scope.WORKBENCH,
        ("prompt.take_back", "Edit queued message", "Move the last queued message back into the prompt.", "alt+up",
            "edit"),
        ("prompt.image", "Paste image", "Paste the image from the clipboard into the prompt.", "", "image"),
        ("prompt.editor", "Open editor", "Edit the prompt in your editor (VISUAL or EDITOR).", "ctrl+g",
            "editor"), is_first=True, is_rare=True),
    Command("plan.toggle", Scope.PROMPT, "Toggle plan mode", "Switch plan mode on or off, from the next tool call.",
        ("shift+tab",), "plan mode", runs="screen.run_command('plan.toggle')"),
)  # fmt: skip


EARLY = CommandTable((*BASIC, *PROMPT))


def bindings_of(commands: Iterable[Command]) -> list[BindingType]:
    """Return keys for a `BINDINGS` of Textual; each has its command's id, so that a keymap can change it."""
    return [
        Binding(",".join(way.bound_keys), way.action, way.title, show=False, priority=way.is_first, id=each.id)
        for each in commands
        for way in each.ways
        if way.bound_keys
    ]


def hint_text(commands: Iterable[Command]) -> str:
    """Return a footer's words, such as `Enter send · Ctrl+J line`."""
    ways = (way for each in commands if each.hint for way in each.ways)
    return " · ".join(f"{first_key(way)} {way.hint}" for way in ways if way.hint and way.bound_keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it: `Ctrl+P`, `F2`, `y`."""
    keys = each.bound_keys
    return key_name(keys[0]) if keys else ""
