"""Attempts: several tries at one task in overlays, compared on a screen; their results by model."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    subcommands=(Subcommand("eval --history", "subcommands:eval_history"),),
    has_commands=True,
    controller="screens:AttemptController",
)
