"""What models cost: tokens, requests and time by day, model, folder and session."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:UsageService",
    subcommands=(Subcommand("usage [--range today|7d|30d|all]", "service:usage"),),
    has_commands=True,
    routes="routes:ROUTES",
    controller="screens:UsageController",
)
