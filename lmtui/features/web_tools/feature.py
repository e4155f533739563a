"""Pages of the web."""

from __future__ import annotations

from lmtui.registry import Feature

FEATURE = Feature(
    service="lmtui.features.web_tools.fetcher:WebService",
    tools=("lmtui.features.web_tools.tools:FETCH", "lmtui.features.web_tools.tools:SEARCH"),
)
