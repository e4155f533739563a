"""Commands of the prompt."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

PROMPT: tuple[Command, ...] = (
    Command(
        "prompt.send", Scope.PROMPT, "Send", "Send what is typed, or queue it behind the running turn.",
        ("enter",), "send",
    ),
    Command("prompt.newline", Scope.PROMPT, "New line", "Begin another line.", ("ctrl+j", "shift+enter"), "line"),
    Command("prompt.complete", Scope.PROMPT, "Complete", "Complete the slash command that is begun.", ("tab",)),
    Command(
        "prompt.steer", Scope.PROMPT, "Say it now", "Send before the agent's next step instead of after its turn.",
        ("ctrl+s",), "say now",
    ),
    Command(
        "prompt.take_back", Scope.PROMPT, "Take back", "Take the last queued text back into the prompt.",
        ("ctrl+r",), "take back",
    ),
)  # fmt: skip
