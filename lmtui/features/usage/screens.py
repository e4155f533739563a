"""Usage in the app: bars by day above one table at a time, for a range of days."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.times import time_text
from lmtui.features.usage.values import (
    RANGE_NAMES,
    SCOPE,
    UsageRange,
    UsageReport,
    UsageReports,
    UsageRow,
    amount_text,
    empty_text,
    row_cells,
    row_name,
    total_text,
)
from lmtui.tui.commands import Command, Scope, bindings, of_scope
from lmtui.tui.lines.styled_text import Line, fit, fit_middle, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import FeatureController, Handler

_TABLES = ("model", "folder", "session", "day")
_RANGES = tuple(UsageRange)
_CELLS = {"requests": 10, "prompt": 8, "cached": 8, "completion": 12, "model time": 14}
_NARROW = ("requests", "prompt", "completion")
_LEAST_NAME = 26
_WIDEST_BAR = 6
_PARTS = " ▁▂▃▄▅▆▇█"
_CHART_ROWS = ((36, 4), (24, 3), (18, 2))  # rows of the screen, and of the bars then


def day_bars(report: UsageReport, most: int) -> tuple[date, date, int, list[int]]:
    """Return the tokens of a report in at most so many bars, each of equally many days.

    Returns:
        The first day, which may be before the range, the last one, the days of a bar, and the tokens of each bar.
    """
    used = {date.fromisoformat(each.name): each.sum.tokens for each in report.tables["day"]}
    first, last = report.first or min(used), max(report.last, *used)
    days = (last - first).days + 1
    size = -(-days // max(1, most))
    tokens = [0] * -(-days // size)
    for day, amount in used.items():
        tokens[-1 - (last - day).days // size] += amount
    return last - timedelta(days=size * len(tokens) - 1), last, size, tokens


def chart_rows(values: Sequence[int], height: int, width: int) -> list[str]:
    """Return values as bars next to each other, `width` cells with the gap, in rows from the top; what is not 0 is seen."""
    most = max(values, default=0)
    eighths = [max(1, round(8 * height * value / most)) if value else 0 for value in values]
    bar, gap = max(1, width - 1), " " if width > 1 else ""
    rows = reversed(range(height))
    return ["".join(_PARTS[min(8, max(0, each - 8 * row))] * bar + gap for each in eighths).rstrip() for row in rows]


class UsageList(ListDialog[UsageRow, None]):
    """Shows a report: its sum, the tokens of its days, and one of its tables."""

    BINDINGS: ClassVar[list[BindingType]] = bindings(SCOPE, Scope.APP)
    NAME, HEADING, SCOPE, CHOOSING = "usage", "Usage", SCOPE, ""

    def __init__(self, usage: UsageReports, chosen: UsageRange) -> None:
        super().__init__()
        self._usage, self._chosen, self._shown = usage, chosen, _TABLES[0]
        self._report: UsageReport | None = None
        self.table.empty_text = "Reading the session logs …"

    def on_mount(self) -> None:
        self._read()

    def on_resize(self) -> None:
        self.call_after_refresh(self._draw)

    def _read(self) -> None:
        self.box.count(f"{RANGE_NAMES[self._chosen]} · by {self._shown}")
        self.run_worker(self._load(self._chosen), group="usage", exclusive=True)

    async def _load(self, chosen: UsageRange) -> None:
        self._report = await self._usage.report(chosen)
        self._draw()

    def _draw(self) -> None:
        report = self._report
        if report is None or not self.is_attached:
            return
        self.box.count(f"{RANGE_NAMES[report.range]} · by {self._shown}")
        rows = report.tables[self._shown]
        more = "" if report.range is UsageRange.ALL else " Press → to count more days."
        self.table.empty_text = "" if rows else empty_text(report) + more
        self.box.show_head(self._head(report) if rows else "")
        self.show(rows if self._shown != "day" else rows[::-1])

    def _head(self, report: UsageReport) -> Content:
        room = max(10, self.table.content_width - 2)
        height = next((rows for screen, rows in _CHART_ROWS if self.app.size.height >= screen), 0)
        *days, size, bars = day_bars(report, room)
        total = Content(total_text(report.total))
        if len(bars) < 2 or not height:
            return total
        chart = "\n".join(chart_rows(bars, height, min(_WIDEST_BAR, room // len(bars))))
        most = f"most {amount_text(max(bars))} in {'a day' if size == 1 else f'{size} days'}"
        first, last = (f"{each:%d %b}".lstrip("0") for each in days)
        axis = f"{first} – {last} · {most}"
        return Content("\n").join((total, Content.styled(chart, "$accent"), Content.styled(axis, "$text-muted")))

    def columns(self, width: int) -> Line:
        """Return the names of the columns."""
        if self._report is None or not self._report.tables["session"]:
            return ()
        names, room = _columns(width)
        return ((pad(self._shown, room) + "".join(f"{name:>{_CELLS[name]}}" for name in names), "muted"),)

    def key(self, row: UsageRow) -> str:
        """Return the day, model, folder or session."""
        return row.name

    def line(self, row: UsageRow, width: int) -> Line:
        """Return a row in aligned columns."""
        names, room = _columns(width)
        cells = dict(zip(_CELLS, row_cells(row.sum), strict=True))
        numbers = "".join(f"{cells[name]:>{_CELLS[name]}}" for name in names)
        if self._shown == "folder":
            name = fit_middle(sanitize_line(folder_text(Path(row.name), Path.home())), room - 1)
        else:
            name = fit(row_name(self._shown, row), room - 1)
        return (pad(name, room), ""), (numbers, "")

    def about(self, row: UsageRow | None) -> tuple[str, Sequence[Command]]:
        """Return all there is to know of a row."""
        if row is None:
            return "", of_scope(SCOPE)
        spent = row.sum
        parts = (
            sanitize_line(row.name) if self._shown != "day" else "",
            sanitize_line(folder_text(Path(row.folder), Path.home())) if row.folder else "",
            f"{amount_text(spent.cached_tokens)} of {amount_text(spent.prompt_tokens)} prompt tokens cached",
            f"{time_text(spent.model_s)} of model time",
            f"{pluralize(spent.turns, 'turn')} of {time_text(spent.turn_s)} in all" if spent.turns else "",
            *(self._report.problems if self._report is not None else ()),
        )
        return " · ".join(each for each in parts if each), of_scope(SCOPE)

    def action_usage_days(self, step: int) -> None:
        """Count more days, or fewer."""
        at = min(len(_RANGES) - 1, max(0, _RANGES.index(self._chosen) + step))
        if self._chosen != _RANGES[at]:
            self._chosen = _RANGES[at]
            self._read()

    def action_usage_table(self) -> None:
        """Show the next table."""
        self._shown = _TABLES[(_TABLES.index(self._shown) + 1) % len(_TABLES)]
        self._draw()


def _columns(width: int) -> tuple[Sequence[str], int]:
    """Return the columns that there is room for, and the cells that are left for the name."""
    names: Sequence[str] = tuple(_CELLS)
    if width - sum(_CELLS.values()) < _LEAST_NAME:
        names = _NARROW
    return names, max(8, width - sum(_CELLS[name] for name in names))


class UsageController(FeatureController):
    """Answers `/usage`."""

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"usage.show": self._show}

    def _show(self, chosen: str) -> None:
        dialog = UsageList(self.host.extensions[UsageReports], UsageRange(chosen))
        _ = self.workbench.app.push_screen(dialog)
