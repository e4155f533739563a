"""Commands of the prompt."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

PROMPT: tuple[Command, ...] = (
    Command(
        "prompt.send", Scope.PROMPT, "Send", "Send what is typed, or queue it behind the running turn.",
        ("enter",), "send",
    ),
    Command("prompt.newline", Scope.PROMPT, "New line", "Begin another line.", ("ctrl+j", "shift+enter"), "line"),
    Command("prompt.complete", Scope.PROMPT, "Complete", "Take the marked line of the list above the prompt.", ("tab",)),
    Command(
        "prompt.steer", Scope.PROMPT, "Say it now", "Send before the agent's next step instead of after its turn.",
        ("ctrl+s",), "say now",
    ),
    Command(
        "prompt.search", Scope.PROMPT, "Search history", "Find what you sent before; what is typed is looked for.",
        ("ctrl+r",), "history",
    ),
    Command(
        "prompt.undo", Scope.PROMPT, "Undo typing", "Take back what was typed last.",
        ("ctrl+underscore",), runs="undo",
    ),
    Command(
        "prompt.redo", Scope.PROMPT, "Redo typing", "Type again what was taken back.",
        ("ctrl+y",), runs="redo",
    ),
    Command(
        "prompt.take_back", Scope.WORKBENCH, "Take back", "Take the last queued text back into the prompt.",
        ("alt+up",), "take back", is_first=True, runs="call('prompt.take_back')",
    ),
    Command(
        "prompt.drop", Scope.WORKBENCH, "Drop", "Drop the last queued text.",
        ("alt+x",), "drop", is_first=True, runs="call('prompt.drop')",
    ),
    Command(
        "prompt.unfold", Scope.WORKBENCH, "Unfold paste", "Put the text of a folded paste in place of its token.",
        ("alt+v",), "unfold", is_first=True, runs="call('prompt.unfold')",
    ),
    Command(
        "prompt.image", Scope.WORKBENCH, "Paste picture", "Put the picture in the clipboard into the prompt.",
        ("alt+i",), "picture", is_first=True, runs="call('prompt.image')",
    ),
    Command(
        "prompt.editor", Scope.WORKBENCH, "Editor", "Write the prompt in your own editor.",
        ("ctrl+g",), "editor", is_first=True, runs="call('prompt.editor')",
    ),
)  # fmt: skip
