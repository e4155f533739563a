"""Pages of the web."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="fetcher:WebService",
    tools=("tools:FETCH", "tools:SEARCH"),
)
