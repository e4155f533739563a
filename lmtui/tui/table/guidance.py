"""Commands of what people bring in words: instructions, persona."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

GUIDANCE: tuple[Command, ...] = (
    Command(
        "guidance.show", Scope.WORKBENCH, "Instructions", "See which AGENTS.md and the like are read, and what they cost.",
        (), "", ("instructions",), runs="call('guidance.show')",
    ),
    Command(
        "guidance.persona", Scope.WORKBENCH, "Persona", "See who the agent is told to be.",
        (), "", ("soul",), runs="call('guidance.persona')",
    ),
    Command(
        "guidance.draft", Scope.WORKBENCH, "Draft AGENTS.md", "Have the model draft an AGENTS.md from this folder.",
        (), "", ("init",), "[what matters]", runs="call('guidance.draft')",
    ),
    Command(
        "prompts.show", Scope.WORKBENCH, "Commands of files", "Choose one of the slash commands that are Markdown files.",
        (), "", ("commands",), runs="call('prompts.show')",
    ),
)  # fmt: skip
