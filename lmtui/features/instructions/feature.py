"""Instructions: AGENTS.md and its relatives, the persona, the user's profile."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="instruction_files:InstructionsService",
    flags={
        "--append-system-prompt": {
            "dest": "append_system_prompt",
            "metavar": "TEXT",
            "help": "extra instructions for the model, added to those of the folder",
        }
    },
    has_commands=True,
)
