"""What the first frame needs: the options, the keys of the prompt and of the app, and how keys are bound and shown."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import Command, CommandTable, Scope, key_name

PROMPT: tuple[Command, ...] = (
    Command("prompt.send", Scope.PROMPT, "Send", "Send the message, or queue it until the current turn ends.", ("enter",),
        "send"),
    Command("prompt.newline", Scope.PROMPT, "New line", "Insert a new line.", ("ctrl+j", "shift+enter", "alt+enter"),
        "new line"),
    Command("prompt.complete", Scope.PROMPT, "Complete", "Accept the selected completion.", ("tab",)),
    Command("prompt.steer", Scope.PROMPT, "Steer", "Send before the agent's next step instead of after its turn.", ("ctrl+s",),
        "steer"),
    Command("prompt.search", Scope.PROMPT, "Search history", "Search earlier messages for what you typed.", ("ctrl+r",),
        "history"),
    Command("prompt.undo", Scope.PROMPT, "Undo typing", "Undo the last edit.", ("ctrl+underscore",), runs="undo"),
    Command("prompt.redo", Scope.PROMPT, "Redo typing", "Redo the last undone edit.", ("ctrl+y",), runs="redo"),
    Command("prompt.take_back", Scope.WORKBENCH, "Edit queued message", "Move the last queued message back into the prompt.",
        ("alt+up",), "take back", is_first=True),
    Command("prompt.drop", Scope.WORKBENCH, "Drop queued message", "Delete the last queued message.", ("alt+x",), "drop",
        is_first=True),
    Command("prompt.unfold", Scope.WORKBENCH, "Unfold paste", "Replace a folded paste with its text.", ("alt+v",), "unfold",
        is_first=True),
    Command("prompt.image", Scope.WORKBENCH, "Paste image", "Paste the image from the clipboard into the prompt.", ("alt+i",),
        "image", is_first=True),
    Command("prompt.editor", Scope.WORKBENCH, "Open editor", "Edit the prompt in your editor (VISUAL or EDITOR).", ("ctrl+g",),
        "editor", is_first=True),
    Command("plan.toggle", Scope.PROMPT, "Toggle plan mode", "Switch plan mode on or off, from the next tool call.",
        ("shift+tab",), "plan mode", runs="screen.run_command('plan.toggle')"),
)  # fmt: skip


EARLY = CommandTable((*BASIC, *PROMPT))


def bindings_of(commands: Iterable[Command]) -> list[BindingType]:
    """Return keys for a `BINDINGS` of Textual; each has its command's id, so that a keymap can change it."""
    return [
        Binding(",".join(each.keys), each.action, each.title, show=False, priority=each.is_first, id=each.id)
        for each in commands
        if each.keys
    ]


def hint_text(commands: Iterable[Command]) -> str:
    """Return a footer's words, such as `Enter send · Ctrl+J line`."""
    return " · ".join(f"{first_key(each)} {each.hint}" for each in commands if each.hint and each.bound_keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it: `Ctrl+P`, `F2`, `y`."""
    keys = each.bound_keys
    return key_name(keys[0]) if keys else ""
