"""The settings with their sources.  A changed one goes into the user's own file."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence

from textual.screen import Screen

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import sanitize_line
from lmtui.core.sessions import SettingRow, SettingsControls
from lmtui.tui.commands import Command, Scope
from lmtui.tui.lines.styled_text import Span, fit_middle
from lmtui.tui.modals.list_dialog import Cell, Column, ListDialog
from lmtui.tui.modals.picker import AskText, Picker, shown_group
from lmtui.tui.modals.results import Choice
from lmtui.tui.modals.usage_tabs import ContextList, TraceList
from lmtui.tui.router import SessionView
from lmtui.tui.workbench_api import Handler, WorkbenchApi, tried, wanted_session

VALUE_CELLS = 28
HIGHER = ("flag", "environment", ".env", ".lmagent")


class SettingsScreen(ListDialog[SettingRow, None]):
    """Lists the settings and changes them; calls `changed` with each one that was changed."""

    NAME, HEADING, SCOPE, CHOOSING = "settings", "Settings", Scope.SETTINGS, "change"
    FILTER, FILTERS_AT_ONCE = "Type to filter", True
    COLUMNS = (Column("", 13, from_width=60), Column("", 40), Column("", VALUE_CELLS), Column())

    def __init__(self, settings: SettingsControls, changed: Callable[[SettingRow], None]) -> None:
        super().__init__()
        self._settings, self._changed = settings, changed
        self.noun = "setting"

    def on_mount(self) -> None:
        rows = self._settings.rows()
        groups = sorted(dict.fromkeys(row.group for row in rows), key=lambda group: group == "General")
        self.show([row for group in groups for row in rows if row.group == group])

    def key(self, row: SettingRow) -> str:
        """Return the setting's name."""
        return row.name

    def text(self, row: SettingRow) -> str:
        """Return what is searched."""
        return f"{row.label} {row.name} {row.group} {row.doc}"

    def cells(self, row: SettingRow) -> Sequence[Cell]:
        """Return a setting in columns: group, name, value (bold where it was changed), and what it is for."""
        meaning = re.search(rf"; {re.escape(row.value.removesuffix('.0'))}: (.+)", row.doc)
        shown = meaning[1] if meaning else sanitize_line(row.value)
        value: Span = (fit_middle(shown, VALUE_CELLS), "muted" if row.source == "default" else "strong")
        return (shown_group(self.table.rows, row), "muted"), row.label or row.name, value, (row.doc, "muted")

    def about(self, row: SettingRow | None) -> tuple[str, Sequence[Command]]:
        """Return what a setting is for."""
        return help_text(row) if row is not None else "", self.verbs()

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
            text = await self._ask_text(row, row.text)
        while text is not None and (problem := await self._put(row.name, text)) and not row.choices:
            text = await self._ask_text(row, text, problem)

    async def _ask_text(self, row: SettingRow, text: str, problem: str = "") -> str | None:
        hint = "with commas between" if row.is_list else row.doc
        title, value = row.label or row.name, sanitize_line(text)
        asked = AskText(title, value=value, placeholder=hint, problem=problem, is_secret=row.is_secret)
        return await self.app.push_screen_wait(asked)

    async def _put(self, name: str, text: str | None) -> str:
        """Change a setting; return why it cannot have that value, which is said, or an empty text."""
        try:
            row = await asyncio.to_thread(self._settings.change, name, text)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return error.full_text()
        self.show([row if each.name == name else each for each in self.all_rows], name)
        self._changed(row)
        is_overruled = any(each in row.source for each in HIGHER)
        done = "saved in" if text is not None else "removed from"
        saved = f"{name} = {sanitize_line(row.value)}  ·  {done} your config.toml"
        self.say(after_words(row) if is_overruled else saved, "$text")
        return ""


def after_words(row: SettingRow) -> str:
    """Return what is in force where something stronger than the user's file says it."""
    return f"kept, but {row.name} = {sanitize_line(row.value)} holds: it comes from {sanitize_line(row.source)}"


def help_text(row: SettingRow) -> str:
    """Return what a setting is for, where its value came from and what else it may be."""
    parts = [row.doc, f"{row.name}, from {sanitize_line(row.source)}"]
    parts += [f"one of {', '.join(row.choices)}"] if row.choices else []
    parts += [f"environment: {', '.join(row.variables)}"] if row.variables else []
    return "  ·  ".join(parts)


class SettingsController:
    """Opens them.  `use_theme` takes a theme by its name at once."""

    def __init__(self, workbench: WorkbenchApi, use_theme: Callable[[str], None]) -> None:
        self._workbench = workbench
        self._use_theme = use_theme

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {
            "settings.show": lambda _: self._show_settings(),
            "window.show": lambda _: self._show(lambda view: ContextList(view.session, view.state)),
            "cache.show": lambda _: self._show(lambda view: TraceList(view.session.history())),
        }

    def _show_settings(self) -> None:
        host = self._workbench.sessions.host
        if host is not None:
            _ = self._workbench.app.push_screen(SettingsScreen(host.settings, self._changed))

    def _changed(self, row: SettingRow) -> None:
        if row.name == "theme" and row.text:
            self._use_theme(row.text)

    def keep_theme(self, name: str) -> None:
        """Keep a theme in the user's settings."""
        host = self._workbench.sessions.host
        if host is not None:
            work = tried(self._workbench, self._keep(host.settings, name))
            _ = self._workbench.app.run_worker(work, group="settings-theme", exclusive=True)

    async def _keep(self, settings: SettingsControls, name: str) -> None:
        row = await asyncio.to_thread(settings.change, "theme", name)
        if row.text != name:
            self._workbench.say(after_words(row))

    def _show(self, screen: Callable[[SessionView], Screen[None]]) -> None:
        if (active := wanted_session(self._workbench)) is not None:
            _ = self._workbench.app.push_screen(screen(active))
