"""Usage in the app: what the days cost, in bars on one scale, above the models, sessions and folders."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path

from textual.content import Content

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import time_text
from lmtui.features.usage.values import (
    RANGE_NAMES,
    UsageRange,
    UsageReport,
    UsageReports,
    UsageRow,
    UsageSum,
    amount_text,
    empty_text,
    row_name,
)
from lmtui.tui.commands import Command
from lmtui.tui.lines.styled_text import Line, Span, pad
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog, content_of
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import FeatureController, Handler

_TABLES = ("model", "session", "folder")
_RANGES = tuple(UsageRange)
_BAR_CELLS, _LEAST_SCALE, _LABEL_CELLS, _AMOUNT_CELLS = 20, 20, 9, 7
_CHART_ROWS = ((40, 10), (30, 7), (24, 4))  # rows of the screen, and of the days then
_PARTS: tuple[tuple[str, Span], ...] = (
    ("from cache", ("█", "muted")), ("read", ("▆", "code")), ("written", ("█", "accent")),
)  # fmt: skip


def sums_by_day(report: UsageReport, most: int) -> list[tuple[date, UsageSum]]:
    """Return the sums of at most so many parts of a report, each of equally many days, with the first day of each."""
    used = {date.fromisoformat(each.name): each.sum for each in report.tables["day"]}
    first, last = report.first or min(used), max(report.last, *used)
    days = (last - first).days + 1
    size = -(-days // most)
    count = -(-days // size)
    start = last - timedelta(days=size * count - 1)
    found = [(start + timedelta(days=size * at), UsageSum()) for at in range(count)]
    for day, spent in used.items():
        at = (day - start).days // size
        found[at] = found[at][0], found[at][1] + spent
    return found


def day_lines(report: UsageReport, rows: int, width: int) -> list[Line]:
    """Return a bar for each day, or for several days where there are more than rows: all on the scale of the longest."""
    days, room = sums_by_day(report, rows), max(_LEAST_SCALE, width - _LABEL_CELLS - _AMOUNT_CELLS)
    most = max(spent.tokens for _, spent in days) or 1
    has_months = (days[-1][0] - days[0][0]).days >= len(days)
    legend = [span for name, (sign, role) in _PARTS for span in ((f"   {sign * 2} ", role), (name, "muted"))]
    found: list[Line] = [(("Tokens by day", "strong"), *legend)]
    for day, spent in days:
        label = f"{day:%d %b}" if has_months else f"{day:%a %d}"
        parts = spent.cached_tokens, spent.prompt_tokens - spent.cached_tokens, spent.completion_tokens
        bars: list[Span] = []
        used = 0
        for amount, (_, (sign, role)) in zip(parts, _PARTS, strict=True):
            cells = max(round(room * amount / most), int(amount > 0))
            used += cells
            bars.append((sign * cells, role))
        amount_shown = amount_text(spent.tokens) if spent.tokens else "–"
        blank = " " * max(0, room - used)
        found.append(((pad(label, _LABEL_CELLS), "muted"), *bars, (f"{blank}{amount_shown:>{_AMOUNT_CELLS}}", "")))
    return found


class UsageList(ListDialog[tuple[str, UsageRow], None]):
    """Shows a report: its sums, the tokens of its days, and its tables."""

    NAME, HEADING, TAB, CHOOSING = "usage", "Usage", "usage.show", ""
    COLUMNS = (
        Column(), Column(most=_BAR_CELLS, from_width=90), Column("turns", 6, is_right=True, from_width=70),
        Column("read", 8, is_right=True), Column("written", 8, is_right=True), Column("cache", 6, is_right=True),
        Column("model time", 14, is_right=True, from_width=60),
    )  # fmt: skip
    VERBS = (("switch", "range"),)

    def __init__(self, usage: UsageReports, chosen: UsageRange) -> None:
        super().__init__()
        self._usage, self._chosen = usage, chosen
        self._report: UsageReport | None = None
        self.table.empty_text = "Reading the session logs …"

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw_head)

    async def rows(self) -> Sequence[tuple[str, UsageRow] | str]:
        """Read the logs."""
        self.box.count(RANGE_NAMES[self._chosen])
        report = self._report = await self._usage.report(self._chosen)
        more = "" if report.range is UsageRange.ALL else " Press Space to count other days."
        self.table.empty_text = empty_text(report) + more
        self._draw_head()
        found: list[tuple[str, UsageRow] | str] = []
        for table in _TABLES:
            listed = sorted(report.tables[table], key=lambda row: -row.sum.tokens)
            found += [f"{table.capitalize()}s", *((table, row) for row in listed)] if listed else []
        return found

    def _draw_head(self) -> None:
        report = self._report
        if report is None or not self.is_attached or not report.tables["session"]:
            self.box.show_head("")
            return
        total = report.total
        figures = (
            (amount_text(total.prompt_tokens), "tokens read"), (amount_text(total.completion_tokens), "written"),
            (f"{total.cached_share:.0%}", "from cache"), (pluralize(total.requests, "request"), ""),
            (time_text(total.model_s), "of model time"),
        )  # fmt: skip
        texts = [Content.assemble((number, "bold"), (f" {word}" * bool(word), "$text-muted")) for number, word in figures]
        rows = next((rows for screen, rows in _CHART_ROWS if self.app.size.height >= screen), 0)
        chart = day_lines(report, rows, self.table.content_width) if rows and self._chosen is not UsageRange.TODAY else []
        self.box.show_head(Content("\n\n").join([Content("   ").join(texts), *([content_of(chart)] if chart else [])]))

    def key(self, row: tuple[str, UsageRow]) -> tuple[str, str]:
        """Return the table, and the model, folder or session."""
        return row[0], row[1].name

    def cells(self, row: tuple[str, UsageRow]) -> Sequence[Cell]:
        """Return a row with its share of the most."""
        table, spent = row[0], row[1].sum
        most = max((each[1].sum.tokens for each in self.all_rows if not isinstance(each, str) and each[0] == table), default=1)
        filled = round(_BAR_CELLS * spent.tokens / max(1, most))
        bar: Line = (("━" * filled, "accent"), (" " * (_BAR_CELLS - filled), ""))
        folder = sanitize_line(folder_text(Path(row[1].name), Path.home()))
        cached = f"{spent.cached_share:.0%}" if spent.cached_tokens else "–"
        numbers = amount_text(spent.prompt_tokens), amount_text(spent.completion_tokens), cached, time_text(spent.model_s)
        return f"  {folder if table == 'folder' else row_name(table, row[1])}", bar, str(spent.turns), *numbers

    def about(self, row: tuple[str, UsageRow] | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a row."""
        if row is None:
            return "", self.verbs()
        spent = row[1].sum
        turns = f"{pluralize(spent.turns, 'turn')}, {time_text(spent.turn_s)}" if spent.turns else ""
        folder = sanitize_line(folder_text(Path(row[1].folder), Path.home())) if row[1].folder else ""
        problems = self._report.problems if self._report is not None else ()
        return " · ".join(filter(None, (sanitize_line(row[1].name), folder, turns, *problems))), self.verbs()

    def do_switch(self, _: tuple[str, UsageRow] | None) -> None:
        """Count more days, after all of them today."""
        self._chosen = _RANGES[(_RANGES.index(self._chosen) + 1) % len(_RANGES)]


class UsageController(FeatureController):
    """Answers `/usage`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"usage.show": self._show}

    def _show(self, chosen: str) -> None:
        dialog = UsageList(self.host.extensions[UsageReports], UsageRange(chosen or UsageRange.WEEK))
        _ = self.workbench.app.push_screen(dialog)
