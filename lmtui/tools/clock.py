"""Telling the time, with its zone."""

from __future__ import annotations

import json

from lmtui.core.permissions import Access
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.tools.tool import Arguments, Tool, always


class GetTimeArguments(Arguments):
    """No arguments."""


async def _get_time(_: GetTimeArguments, context: ToolContext) -> ToolResult:
    now = context.now().astimezone()
    told = {
        "iso": now.isoformat(timespec="seconds"),
        "date": f"{now:%Y-%m-%d}",
        "time": f"{now:%H:%M:%S}",
        "zone": now.tzname() or "UTC",
        "weekday": f"{now:%A}",
        "unix": int(now.timestamp()),
    }
    return ToolResult(json.dumps(told), f"{now:%H:%M}")


GET_TIME = Tool(
    name="get_time",
    description="Tell date, time and zone.",
    arguments=GetTimeArguments,
    run=_get_time,
    access=always(Access.NONE),
    subject=lambda _: "",
    title=lambda _: "",
    aliases=("time", "current_time", "get_current_time"),
)
