"""What the host's API tells of usage."""

from __future__ import annotations

from typing import Any, Literal

from lmtui.features.usage.values import UsageReports, usage_json, usage_range
from lmtui.host.endpoints import ApiContext, Endpoint, route
from lmtui.host.wire import Wire

ROUTES: list[Endpoint] = []


class UsageTotals(Wire):
    """Totals over sessions, in the form of `lmtui usage --json`."""

    range: str
    first: str | None
    last: str
    total: dict[str, Any]
    days: list[dict[str, Any]]
    models: list[dict[str, Any]]
    folders: list[dict[str, Any]]
    sessions: list[dict[str, Any]]
    problems: list[str]


@route(ROUTES, "GET", "/v1/usage")
async def usage(api: ApiContext, range_: Literal["today", "7d", "30d", "all"] = "today") -> UsageTotals:
    """Totals over sessions.

    Folders that clients may not use are counted and not named.
    """
    runtime = await api.runtime()
    found = usage_json(await runtime.extensions[UsageReports].report(usage_range(range_)))
    folders = {str(each) for each in api.hub.folders}
    for table in ("folders", "sessions"):
        found[table] = [row for row in found[table] if row["folder"] in folders]
    return UsageTotals.model_validate(found)
