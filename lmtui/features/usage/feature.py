"""What models cost: tokens, requests and time by day, model, folder and session."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="lmtui.features.usage.service:UsageService",
    subcommands=(Subcommand("usage [--range today|7d|30d|all]", "lmtui.features.usage.service:usage"),),
    has_commands=True,
    routes="lmtui.features.usage.routes:ROUTES",
    controller="lmtui.features.usage.screens:UsageController",
)
