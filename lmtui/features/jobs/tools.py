"""Waiting for a time: the turn ends, and the session continues by itself then."""

from __future__ import annotations

import json
from datetime import datetime

from lmtui.core.errors import ToolError, UsageError
from lmtui.core.ports import ToolContext, ToolResult
from lmtui.core.times import LocalZone, read_moment, span_s
from lmtui.tools.tool import Arguments, EmptyArguments, SessionTool, argument


async def _get_time(_: EmptyArguments, context: ToolContext) -> ToolResult:
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


GET_TIME = SessionTool(
    name="get_time",
    description="Tell the time.",
    arguments=EmptyArguments,
    run=_get_time,
    title=lambda _: "",
    aliases=("time", "current_time", "get_current_time"),
)


class WaitArguments(Arguments):
    """Until when, and for what."""

    until: str = argument(also=("time", "for", "duration", "seconds"))
    reason: str = argument("", also=("why", "message"), is_told=False)


async def _wait(arguments: WaitArguments, context: ToolContext) -> ToolResult:
    now = context.now()
    try:
        until = _until(arguments.until.strip(), now)
        context.agent.wait(until, arguments.reason)
    except UsageError as error:
        raise ToolError(str(error), error.hint) from error
    return ToolResult(f"The session sleeps now and continues at {until.isoformat(timespec='seconds')}.", arguments.until[:40])


def _until(text: str, now: datetime) -> datetime:
    """Return the moment that a text names: a time, or how long from now (digits alone are seconds).

    Raises:
        UsageError: it names none.
    """
    is_bare = text.isascii() and text.isdigit()
    try:
        seconds = span_s(f"{text}s" if is_bare else text)
    except UsageError:
        return read_moment(text, now, LocalZone())
    return read_moment(f"in {seconds}s", now, LocalZone())


WAIT = SessionTool(
    name="wait",
    description="Sleep until an ISO time, or for 90s, 30m, 2h.",
    arguments=WaitArguments,
    run=_wait,
    title=lambda arguments: arguments.until,
    aliases=("wait_until", "sleep"),
)
