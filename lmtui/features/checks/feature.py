"""Checks: the commands that decide whether a change is right, run after steps and before a turn ends; goals."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:ChecksService",
    flags={
        "--verify": {
            "dest": "verify",
            "metavar": "auto|off|PROFILE|COMMAND",
            "help": "how to check changes: auto (default) finds the project's commands, off runs none; or a profile or command",
        },
        "--goal": {"dest": "goal", "metavar": "COMMAND", "help": "work until this command exits with 0, within the budget"},
    },
    subcommands=(Subcommand("check", "service:check"),),
    has_commands=True,
)
