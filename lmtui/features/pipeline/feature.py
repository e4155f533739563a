"""The pipeline: from a plan file to reviewed and committed work, by tasks that are checked one by one."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(
    service="lmtui.features.pipeline.service:PipelineService",
    tools=("lmtui.features.pipeline.tools:PIPELINE",),
    subcommands=(
        Subcommand("pipeline run|status|…", "lmtui.features.pipeline.subcommands:pipeline"),
        Subcommand('ideate "TOPIC"', "lmtui.features.pipeline.subcommands:ideate", is_task=True),
    ),
    has_commands=True,
    look="lmtui.features.pipeline.service:look_at",
    controller="lmtui.features.pipeline.screens:PipelineController",
)
