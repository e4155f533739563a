"""The app and its colours: the first theme, another one, and a user's own that is being edited."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from lmtui import paths
from lmtui.tui import themes
from lmtui.tui.modals.results import Choice
from lmtui.tui.no_color import filters_without_color
from lmtui.tui.terminal_app import TerminalApp

if TYPE_CHECKING:
    from lmtui.tui.theme_watch import ThemeWatch


class ThemedApp(TerminalApp):
    """Holds one theme at a time; a broken one is said and changes nothing."""

    _theme_watch: ThemeWatch | None = None

    def get_theme_variable_defaults(self) -> dict[str, str]:
        """Return what our widgets use before a theme of ours is in force."""
        return themes.default_variables()

    def use_first_theme(self, name: str) -> None:
        """Begin with a theme: the one that is chosen, else one that the terminal can show."""
        try:
            theme = themes.find_theme(name or themes.first_theme(os.environ))
        except themes.ThemeError as error:
            theme = themes.built_in_theme()
            self.call_after_refresh(lambda text=str(error): self.tell(text, is_good=False))
        self.register_theme(theme)
        self.theme = theme.name
        self._leave_out_colors()

    def use_theme(self, name: str) -> None:
        """Change the colours."""
        try:
            theme = themes.find_theme(name)
        except themes.ThemeError as error:
            self.tell(str(error), is_good=False)
            return
        is_saved_again = theme.name == self.theme
        self.register_theme(theme)
        self.theme = theme.name
        if is_saved_again:
            self.refresh_css()
        self._watch_own_file()
        self._leave_out_colors()

    def follow_theme_file(self, make: Callable[[Callable[[str], None]], ThemeWatch]) -> None:
        """From now on show the user's own theme anew whenever it is saved; `make` makes what watches its file."""
        self._theme_watch = make(self.use_theme)
        self._watch_own_file()

    def leave_theme_file(self) -> None:
        """Watch no file any more."""
        if self._theme_watch is not None:
            self._theme_watch.watch(None)

    def _watch_own_file(self) -> None:
        if self._theme_watch is not None:
            file = themes.theme_files().get(self.theme)
            self._theme_watch.watch(file if file is not None and file.parent != paths.themes_dir() else None)

    def _leave_out_colors(self) -> None:
        if self.no_color:
            self._filters = filters_without_color(self._filters, self.available_themes[self.theme])


def theme_choices() -> list[Choice]:
    """Return the themes to choose from.  Reads their files."""
    return [Choice(name, name, themes.kind_text(file)) for name, file in themes.theme_files().items()]
