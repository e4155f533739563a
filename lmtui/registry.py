"""The features of lmtui, one line each.  Without its line and its folder a feature is gone, and the program does without it.

What a feature brings is said in `lmtui/features/NAME/feature.py`, as places in its folder (`module:name`) that are imported
when they are needed: nothing below `lmtui.features` imports a feature, and none imports another.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

FEATURES = (
    "instructions",
    "skills",
    "slash_commands",
    "hooks",
    "mcp",
    "web_tools",
    "memory",
    "jobs",
    "checks",
    "effects",
    "attempts",
    "pipeline",
    "batch",
    "projects",
    "usage",
    "otel",
)


@dataclass(frozen=True, slots=True)
class Subcommand:
    """`lmtui NAME …`, as `lmtui --help` has it, and the place of what it does; that of its parser ends in `_parser`.

    At the place of one that `is_task` is a function of the arguments that returns what the model is told to do.
    """

    usage: str
    place: str
    is_task: bool = False

    @property
    def name(self) -> str:
        return self.usage.partition(" ")[0]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feature:
    """What a feature brings; `name` is that of its folder, and put in by `features`.

    `service` is the class of its `features.service.WorkspaceFeature`, if it has one.  `flags` are those of the command line for
    its settings, as argparse takes them; the settings themselves are in `lmtui/config.py`, with the feature's name.  `events`
    are the modules of the types that are in a log because of it, `routes` what it adds to the host's API, `tools` what it adds
    for the model, and `controller` (a `tui.workbench_api.FeatureController`) what opens its screens.  `look` is a function that
    adds what it finds to a `core.folders.KnownProject`; `imports` returns what it can take over from earlier programs
    (`features.service.Import`).  One that `has_commands` keeps its slash commands and keys as `COMMANDS` in its `commands.py`.
    """

    name: str = ""
    service: str = ""
    flags: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    events: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    subcommands: tuple[Subcommand, ...] = ()
    has_commands: bool = False
    controller: str = ""
    routes: str = ""
    look: str = ""
    imports: str = ""

    def load(self, place: str) -> Any:  # Any: the caller says what it takes
        """Import what a place in its folder names."""
        return load(f"lmtui.features.{self.name}.{place}")


@functools.cache
def features() -> tuple[Feature, ...]:
    """Return what each feature brings, in their order: what is behind may use what those before it give to a session."""
    return tuple(replace(load(f"lmtui.features.{name}.feature:FEATURE"), name=name) for name in FEATURES)


def load(place: str) -> Any:  # Any: the caller says what it takes
    """Import what a place names: a module, or what `:NAME` is in it."""
    module, _, name = place.partition(":")
    found = importlib.import_module(module)
    return getattr(found, name) if name else found
