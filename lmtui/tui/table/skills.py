"""Commands of skills: from the main screen, and in their list."""

from __future__ import annotations

from lmtui.tui.table.command import Command, Scope

SKILLS: tuple[Command, ...] = (
    Command(
        "skills.show", Scope.WORKBENCH, "Skills", "See which skills there are, or have one followed.",
        (), "", ("skill", "skills"), "[name words]", runs="call('skills.show')", values="skills",
    ),
    Command(
        "skills.promote", Scope.WORKBENCH, "Promote", "Let a Python function become a tool of this folder, once you said yes.",
        (), "", ("promote",), "FILE FUNCTION [name]", runs="call('skills.promote')",
    ),
    Command("skills.read", Scope.SKILLS, "Read", "Read the marked skill, or the marked tool's program.", ("enter",), "read"),
    Command("skills.use", Scope.SKILLS, "Use", "Write the marked skill into the prompt, for your words to it.", ("u",), "use"),
    Command("skills.remove", Scope.SKILLS, "Remove", "Forget the marked tool; files are not touched.", ("d",), "remove tool"),
)  # fmt: skip
