"""Every setting with its value and where that came from; a change goes into the user's own file."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize, sanitize_line
from lmtui.core.sessions import SettingRow, SettingsControls
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.styled_text import fit, fit_middle, pad
from lmtui.tui.modals.context_window import CacheScreen, WindowScreen
from lmtui.tui.modals.picker import AskText, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.perf_overlay import PerfOverlay
from lmtui.tui.widgets.bars import Verbs
from lmtui.tui.workbench_api import Handler, WorkbenchApi

LEAST_NAME, MOST_NAME = 12, 18
HIGHER = ("flag", "environment", ".env", ".lmagent")


class SettingsScreen(ModalScreen[None]):
    """Lists the settings.  `changed` is told about each one that was changed."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.SETTINGS), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.SETTINGS

    def __init__(self, settings: SettingsControls, changed: Callable[[SettingRow], None]) -> None:
        super().__init__()
        self._settings, self._changed = settings, changed
        self._rows: dict[str, SettingRow] = {}
        self._told = ""
        self._filter = Input(placeholder="type to narrow", compact=True, select_on_focus=False)
        self._filter.cursor_blink = False
        self._options = OptionList(compact=True, markup=False)
        self._options.can_focus = False
        self._state = Static("", id="settings-state", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(classes="box wide", id="settings-box"):
            yield Static("SETTINGS", classes="box-title", markup=False)
            yield self._filter
            yield self._options
            yield self._state
            yield self._verbs

    def on_mount(self) -> None:
        """List the settings."""
        self._rows = {row.name: row for row in self._settings.rows()}
        self._verbs.show([*of_scope(Scope.SETTINGS), closing()])
        self.call_after_refresh(self._fill)

    def on_resize(self) -> None:
        """Lay the columns out for the width."""
        self.call_after_refresh(self._fill)

    @on(Input.Changed)
    def _narrow(self) -> None:
        self._fill()

    def _fill(self, marked: str = "") -> None:
        options = self._options
        width = max(30, options.content_size.width)
        words = self._filter.value.lower().split()
        found = [row for row in self._rows.values() if all(word in f"{row.name} {row.doc}".lower() for word in words)]
        marked = marked or self._marked_name()
        options.clear_options()
        options.add_options([Option(setting_line(row, width), id=row.name) for row in found])
        names = [row.name for row in found]
        options.highlighted = names.index(marked) if marked in names else 0 if names else None
        if not found:
            self._say("no setting has these words", "$text-muted")

    def _marked_name(self) -> str:
        options = self._options
        return options.get_option_at_index(options.highlighted).id or "" if options.highlighted is not None else ""

    @on(OptionList.OptionHighlighted)
    def _show_help(self, event: OptionList.OptionHighlighted) -> None:
        row = self._rows.get(event.option_id or "")
        if row is not None and row.name != self._told:
            self._told = ""
            self._say(help_text(row), "$text-muted")

    @on(OptionList.OptionSelected)
    def _clicked(self) -> None:
        self.action_settings_change()

    def action_settings_change(self) -> None:
        """Ask for another value of the marked setting."""
        row = self._rows.get(self._marked_name())
        if row is not None:
            self.run_worker(self._ask(row), group="settings", exclusive=True)

    def action_settings_reset(self) -> None:
        """Take the marked setting out of the user's own file."""
        row = self._rows.get(self._marked_name())
        if row is not None:
            self.run_worker(self._put(row.name, None), group="settings", exclusive=True)

    def action_settings_up(self) -> None:
        """Mark the setting before."""
        self._options.action_cursor_up()

    def action_settings_down(self) -> None:
        """Mark the next setting."""
        self._options.action_cursor_down()

    async def _ask(self, row: SettingRow) -> None:
        if row.choices:
            choices = [Choice(each, each) for each in row.choices]
            text = await self.app.push_screen_wait(Picker(row.name.upper(), choices, chosen=row.text, note=row.doc))
        else:
            hint = "with commas between" if row.is_list else row.doc
            text = await self.app.push_screen_wait(AskText(row.name, value=sanitize_line(row.text), placeholder=hint))
        if text is not None:
            await self._put(row.name, text)

    async def _put(self, name: str, text: str | None) -> None:
        try:
            row = await asyncio.to_thread(self._settings.change, name, text)
        except LmtuiError as error:
            self._told = name
            self._say(error.full_text(), "$error")
            return
        self._rows[name], self._told = row, name
        self._fill(name)
        self._changed(row)
        is_overruled = any(each in row.source for each in HIGHER)
        self._say(
            after_words(row) if is_overruled else f"{name} = {sanitize_line(row.value)}  ·  kept in the user's config.toml",
            "$text",
        )

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    def _say(self, text: str, style: str) -> None:
        self._state.update(Content.styled(sanitize(text), style))


def after_words(row: SettingRow) -> str:
    """Return what is in force where something stronger than the user's file says it."""
    return f"kept, but {row.name} = {sanitize_line(row.value)} holds: it comes from {sanitize_line(row.source)}"


def help_text(row: SettingRow) -> str:
    """Return what a setting is for, where its value came from and what else it may be."""
    parts = [row.doc, f"from {sanitize_line(row.source)}"]
    parts += [f"one of {', '.join(row.choices)}"] if row.choices else []
    parts += [f"environment: {', '.join(row.variables)}"] if row.variables else []
    return "  ·  ".join(parts)


def setting_line(row: SettingRow, width: int) -> Content:
    """Return a setting in aligned columns: name, value, source."""
    name_cells = MOST_NAME if width >= 2 * MOST_NAME + LEAST_NAME else LEAST_NAME
    source_cells = max(8, min(30, width // 4))
    room = max(8, width - name_cells - source_cells - 4)
    is_default = row.source == "default"
    return Content.assemble(
        (pad(fit(row.name, name_cells), name_cells), "$text"),
        ("  " + pad(fit_middle(sanitize_line(row.value), room), room), "$text-muted" if is_default else "$text"),
        ("  " + fit_middle(sanitize_line(row.source), source_cells), "$text-muted"),
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
            "window.show": lambda _: self._show_window(),
            "cache.show": lambda _: self._show_cache(),
            "perf.toggle": lambda _: self._meter.toggle(),
        }

    def _show_settings(self) -> None:
        host = self._workbench.sessions.host
        if host is not None:
            _ = self._workbench.app.push_screen(SettingsScreen(host.settings, self._changed))

    def _changed(self, row: SettingRow) -> None:
        if row.name == "theme" and row.text:
            self._use_theme(row.text)

    def _show_window(self) -> None:
        active = self._workbench.active
        if active is None:
            self._workbench.say("no session yet")
            return
        _ = self._workbench.app.push_screen(WindowScreen(active.session, active.facts))

    def _show_cache(self) -> None:
        active = self._workbench.active
        if active is None:
            self._workbench.say("no session yet")
            return
        _ = self._workbench.app.push_screen(CacheScreen(active.session.history()))
