"""Batches: many tasks, each in its own overlay, using all servers of the pool."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="lmtui.features.batch.service:BatchService",
    subcommands=(Subcommand("batch [FILE|--glob PATTERN TASK]", "lmtui.features.batch.subcommands:batch"),),
    has_commands=True,
    controller="lmtui.features.batch.screens:BatchController",
)
