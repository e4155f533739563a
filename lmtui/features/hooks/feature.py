"""Hooks: programs of the user's that are called when something happens."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="service:HooksService",
    flags={"--no-hooks": {"dest": "hooks", "action": "store_const", "const": "off", "help": "run no hooks"}},
    events=("values",),
)
