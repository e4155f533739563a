"""Effects: a command runs in an overlay over the folder, and what it did is kept or dropped."""

from __future__ import annotations

from lmtui.registry import Feature, Subcommand

FEATURE = Feature(subcommands=(Subcommand("try -- COMMAND", "subcommands:try_run"),))
