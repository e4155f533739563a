"""Every setting with its value and where that came from; a change goes into the user's own file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import ClassVar

from rich.cells import cell_len
from textual.binding import BindingType
from textual.screen import Screen

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SettingRow, SettingsControls
from lmtui.tui.commands import Command, Scope, bindings, of_scope
from lmtui.tui.lines.styled_text import Line, fit, fit_middle, pad
from lmtui.tui.modals.context_window import CacheScreen, WindowScreen
from lmtui.tui.modals.list_dialog import ListDialog, shown_group
from lmtui.tui.modals.picker import WIDE_ROW, AskText, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.perf_overlay import PerfOverlay
from lmtui.tui.router import SessionView
from lmtui.tui.workbench_api import Handler, WorkbenchApi

LEAST_NAME, GROUP_CELLS, VALUE_CELLS, MUCH_ROOM = 12, 13, 30, 100
HIGHER = ("flag", "environment", ".env", ".lmagent")


class SettingsScreen(ListDialog[SettingRow, None]):
    """Lists the settings and changes them; calls `changed` with each one that was changed."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.SETTINGS)]
    NAME, HEADING, SCOPE = "settings", "Settings", Scope.SETTINGS
    FILTER, FILTERS_AT_ONCE = "Type to filter", True

    def __init__(self, settings: SettingsControls, changed: Callable[[SettingRow], None]) -> None:
        super().__init__()
        self._settings, self._changed = settings, changed
        self.noun = "setting"

    def on_mount(self) -> None:
        """List the settings."""
        rows = self._settings.rows()
        groups = sorted(dict.fromkeys(row.group for row in rows), key=lambda group: group == "General")
        self.show([row for group in groups for row in rows if row.group == group])

    def key(self, row: SettingRow) -> str:
        """Return the setting's name."""
        return row.name

    def text(self, row: SettingRow) -> str:
        """Return what is searched."""
        return f"{row.label} {row.name} {row.group} {row.doc}"

    def line(self, row: SettingRow, width: int) -> Line:
        """Return a setting in aligned columns."""
        cells = max(cell_len(each.label or each.name) for each in self.all_rows) + 2
        return setting_line(row, shown_group(self.table.rows, row), cells, width)

    def about(self, row: SettingRow | None) -> tuple[str, Sequence[Command]]:
        """Return what a setting is for."""
        return help_text(row) if row is not None else "", of_scope(Scope.SETTINGS)

    def act(self) -> None:
        """Ask for another value of the marked setting."""
        if self.current is not None:
            self.run_worker(self._ask(self.current), group="settings", exclusive=True)

    def action_settings_reset(self) -> None:
        """Remove the marked setting from the user's own file."""
        if self.current is not None:
            self.run_worker(self._put(self.current.name, None), group="settings", exclusive=True)

    async def _ask(self, row: SettingRow) -> None:
        if row.choices:
            choices = [Choice(each, each) for each in row.choices]
            text = await self.app.push_screen_wait(Picker(row.label or row.name, choices, chosen=row.text, note=row.doc))
        else:
            hint = "with commas between" if row.is_list else row.doc
            text = await self.app.push_screen_wait(
                AskText(row.label or row.name, value=sanitize_line(row.text), placeholder=hint)
            )
        if text is not None:
            await self._put(row.name, text)

    async def _put(self, name: str, text: str | None) -> None:
        try:
            row = await asyncio.to_thread(self._settings.change, name, text)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        self.show([row if each.name == name else each for each in self.all_rows], name)
        self._changed(row)
        is_overruled = any(each in row.source for each in HIGHER)
        saved = f"{name} = {sanitize_line(row.value)}  ·  saved in your config.toml"
        self.say(after_words(row) if is_overruled else saved, "$text")


def after_words(row: SettingRow) -> str:
    """Return what is in force where something stronger than the user's file says it."""
    return f"kept, but {row.name} = {sanitize_line(row.value)} holds: it comes from {sanitize_line(row.source)}"


def help_text(row: SettingRow) -> str:
    """Return what a setting is for, where its value came from and what else it may be."""
    parts = [row.doc, f"{row.name}, from {sanitize_line(row.source)}"]
    parts += [f"one of {', '.join(row.choices)}"] if row.choices else []
    parts += [f"environment: {', '.join(row.variables)}"] if row.variables else []
    return "  ·  ".join(parts)


def setting_line(row: SettingRow, group: str, label_cells: int, width: int) -> Line:
    """Return a setting in aligned columns: group, name, value (bold where it was changed), and what it is for."""
    group_cells = GROUP_CELLS if width > WIDE_ROW else 0
    label_cells = min(label_cells, max(LEAST_NAME, width // 2))
    value_cells = VALUE_CELLS if width >= MUCH_ROOM else max(8, width - group_cells - label_cells)
    doc_cells = max(0, width - group_cells - label_cells - value_cells)
    value = pad(fit_middle(sanitize_line(row.value), value_cells - 2), value_cells)
    return (
        (pad(fit(group, group_cells), group_cells), "muted"),
        (pad(fit(row.label or row.name, label_cells - 2), label_cells), ""),
        (value, "muted" if row.source == "default" else "strong"),
        (fit(row.doc, doc_cells), "muted"),
    )


class SettingsController:
    """Opens them.  `use_theme` takes a theme by its name at once."""

    def __init__(self, workbench: WorkbenchApi, meter: PerfOverlay, use_theme: Callable[[str], None]) -> None:
        self._workbench = workbench
        self._meter = meter
        self._use_theme = use_theme

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {
            "settings.show": lambda _: self._show_settings(),
            "window.show": lambda _: self._show(lambda view: WindowScreen(view.session, view.state)),
            "cache.show": lambda _: self._show(lambda view: CacheScreen(view.session.history())),
            "perf.toggle": lambda _: self._meter.toggle(),
        }

    def _show_settings(self) -> None:
        host = self._workbench.sessions.host
        if host is not None:
            _ = self._workbench.app.push_screen(SettingsScreen(host.settings, self._changed))

    def _changed(self, row: SettingRow) -> None:
        if row.name == "theme" and row.text:
            self._use_theme(row.text)

    def _show(self, screen: Callable[[SessionView], Screen[None]]) -> None:
        if self._workbench.active is None:
            self._workbench.say("no session yet")
            return
        _ = self._workbench.app.push_screen(screen(self._workbench.active))
