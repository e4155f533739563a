"""Sums up what sessions cost, and is `lmtui usage`."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime

from lmtui.command_line import Parser, make_parser, say, with_report
from lmtui.core.offers import Offers
from lmtui.core.times import LocalZone
from lmtui.features.service import CommandCall, FeatureHost, WorkspaceFeature
from lmtui.features.usage.usage_logs import UsageLogs
from lmtui.features.usage.values import (
    TABLES,
    UsageRange,
    UsageReport,
    UsageReports,
    usage_json,
    usage_lines,
    usage_range,
    usage_report,
)


class UsageService(WorkspaceFeature):
    """Implements `UsageReports`."""

    def __init__(self, host: FeatureHost, extensions: Offers) -> None:
        super().__init__(host, extensions)
        self._logs = UsageLogs()
        extensions.add(UsageReports, self)

    async def report(self, chosen: UsageRange = UsageRange.WEEK) -> UsageReport:
        return await asyncio.to_thread(_report, self._logs, chosen)


def _report(logs: UsageLogs, chosen: UsageRange, folder: str = "") -> UsageReport:
    """Return a report of all folders, or of one.  Blocks."""
    found, problems = logs.read()
    counted = [each for each in found if folder in ("", each.folder)]
    return usage_report(counted, chosen, datetime.now(UTC), LocalZone(), problems)


def usage_parser() -> Parser:
    """Return the parser of `lmtui usage`."""
    doc = "Show tokens, requests and time of your sessions in all folders, or of one with --workspace.\n"
    doc += "Days begin at midnight in your time zone."
    parser = make_parser("usage", doc, "lmtui usage --range 30d --by model")
    parser.add_argument(
        "--range", metavar="|".join(UsageRange), default=str(UsageRange.WEEK), help="days to count (default: 7d)"
    )
    parser.add_argument("--by", choices=TABLES, default="", help="show only this table, with all of its rows")
    return with_report(parser)


async def usage(call: CommandCall) -> int:
    """Print the report."""
    folder = str(call.workspace.workspace) if call.arguments.workspace else ""
    report = await asyncio.to_thread(_report, UsageLogs(), usage_range(call.arguments.range), folder)
    if call.arguments.json:
        print(json.dumps(usage_json(report), ensure_ascii=False, indent=2))
    else:
        say("\n".join(usage_lines(report, call.arguments.by)))
    return 0
