"""The folders that the user works in: which there are, how their plans are, and going to another."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:ProjectsService",
    subcommands=(Subcommand("projects [scan|add|remove|needs-action|use]", "service:projects"),),
)
