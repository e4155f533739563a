"""The keys that the first frame needs, those of the prompt and of the app, and how keys are bound and shown."""

from __future__ import annotations

from collections.abc import Iterable

from textual.binding import Binding, BindingType

from lmtui.commands.basic_commands import BASIC
from lmtui.commands.command import KEY_NAMES, Command, CommandTable, Scope

PROMPT: tuple[Command, ...] = (
    Command(
        "prompt.send", Scope.PROMPT, "Send", "Send what is typed, or queue it behind the running turn.", ("enter",), "send",
    ),
    Command("prompt.newline", Scope.PROMPT, "New line", "Begin another line.", ("ctrl+j", "shift+enter"), "line"),
    Command("prompt.complete", Scope.PROMPT, "Complete", "Take the marked line of the list above the prompt.", ("tab",)),
    Command(
        "prompt.steer", Scope.PROMPT, "Say it now", "Send before the agent's next step instead of after its turn.", ("ctrl+s",),
        "say now",
    ),
    Command(
        "prompt.search", Scope.PROMPT, "Search history", "Find what you sent before; what is typed is looked for.", ("ctrl+r",),
        "history",
    ),
    Command("prompt.undo", Scope.PROMPT, "Undo typing", "Take back what was typed last.", ("ctrl+underscore",), runs="undo"),
    Command("prompt.redo", Scope.PROMPT, "Redo typing", "Type again what was taken back.", ("ctrl+y",), runs="redo"),
    Command(
        "prompt.take_back", Scope.WORKBENCH, "Take back", "Take the last queued text back into the prompt.", ("alt+up",),
        "take back", is_first=True,
    ),
    Command("prompt.drop", Scope.WORKBENCH, "Drop", "Drop the last queued text.", ("alt+x",), "drop", is_first=True),
    Command(
        "prompt.unfold", Scope.WORKBENCH, "Unfold paste", "Put the text of a folded paste in place of its token.", ("alt+v",),
        "unfold", is_first=True,
    ),
    Command(
        "prompt.image", Scope.WORKBENCH, "Paste picture", "Put the picture in the clipboard into the prompt.", ("alt+i",),
        "picture", is_first=True,
    ),
    Command(
        "prompt.editor", Scope.WORKBENCH, "Editor", "Write the prompt in your own editor.", ("ctrl+g",), "editor",
        is_first=True,
    ),
    Command(
        "plan.toggle", Scope.PROMPT, "Plan mode on or off", "Only read and plan from the next call on, or go back.",
        ("shift+tab",), "plan mode", runs="screen.run_command('plan.toggle')",
    ),
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
    """Return a footer's words, such as `enter send · ctrl+j line`."""
    return " · ".join(f"{first_key(each)} {each.hint}" for each in commands if each.hint and each.bound_keys)


def first_key(each: Command) -> str:
    """Return the first key of a command as a person reads it."""
    keys = each.bound_keys
    return KEY_NAMES.get(keys[0], keys[0]) if keys else ""
