"""The app and its colours: the first theme, another one, and a user's own that is being edited."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TYPE_CHECKING

from textual.app import App
from textual.theme import Theme

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

    def __init__(self, theme_name: str) -> None:
        self._first_theme: Theme | None
        self._first_theme, problem = _first_theme(theme_name)
        super().__init__()
        self.register_theme(self._first_theme)
        # The style sheet was made with its colours just now: nothing is to be made anew, as setting `theme` would.
        self.set_reactive(App.theme, self._first_theme.name)
        self.set_class(self._first_theme.dark, "-dark-mode")
        self.set_class(not self._first_theme.dark, "-light-mode")
        self._first_theme = None
        self._leave_out_colors()
        if problem:
            self.call_after_refresh(lambda: self.tell(problem, is_good=False))

    def get_css_variables(self) -> dict[str, str]:
        """Return the variables of the theme in force; the first one is, before Textual knows of it."""
        theme = self._first_theme or self.current_theme
        self.theme_variables = {**theme.to_color_system().generate(), **theme.variables}
        return self.theme_variables

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


def _first_theme(name: str) -> tuple[Theme, str]:
    """Return the theme to begin with (the one that is chosen, else one that the terminal can show) and what was wrong."""
    try:
        return themes.find_theme(name or themes.first_theme(os.environ)), ""
    except themes.ThemeError as error:
        return themes.built_in_theme(), str(error)


def theme_choices() -> list[Choice]:
    """Return the themes to choose from.  Reads their files."""
    return [Choice(name, name, themes.kind_text(file)) for name, file in themes.theme_files().items()]
