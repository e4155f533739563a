"""Batches: many tasks, each in an overlay of its own, on all servers of the pool."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(subcommands=(Subcommand("batch [FILE|--glob PATTERN TASK]", "lmtui.features.batch.subcommands:batch"),))
