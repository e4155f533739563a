"""The pipeline: from a plan file to reviewed and committed work, by tasks that are checked one by one."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="service:PipelineService",
    tools=("tools:PIPELINE",),
    subcommands=(
        Subcommand("pipeline run|status|…", "subcommands:pipeline"),
        Subcommand('ideate "TOPIC"', "subcommands:ideate", is_task=True),
    ),
    has_commands=True,
    look="service:look_at",
    controller="screens:PipelineController",
)
