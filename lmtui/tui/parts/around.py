"""What stands around the panes: the settings, what fills the window, how prompts were read, what the screen costs."""

from __future__ import annotations

from collections.abc import Callable

from lmtui.core.settings import SettingRow
from lmtui.tui.meter import Meter
from lmtui.tui.modals.settings import SettingsScreen
from lmtui.tui.modals.window import CacheScreen, WindowScreen
from lmtui.tui.stage import Handler, Stage


class AroundPart:
    """Opens them.  `use_theme` takes a theme by its name at once."""

    def __init__(self, stage: Stage, meter: Meter, use_theme: Callable[[str], None]) -> None:
        self._stage = stage
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
        host = self._stage.desk.host
        if host is not None:
            _ = self._stage.app.push_screen(SettingsScreen(host.settings, self._changed))

    def _changed(self, row: SettingRow) -> None:
        if row.name == "theme" and row.text:
            self._use_theme(row.text)

    def _show_window(self) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        _ = self._stage.app.push_screen(WindowScreen(active.session, active.facts))

    def _show_cache(self) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        _ = self._stage.app.push_screen(CacheScreen(active.session.history()))
