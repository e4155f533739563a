"""Batches: many tasks, each in its own overlay, using all servers of the pool."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:BatchService",
    subcommands=(Subcommand("batch [FILE|--glob PATTERN TASK]", "subcommands:batch"),),
    has_commands=True,
    controller="screens:BatchController",
)
