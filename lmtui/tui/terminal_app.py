"""An app on a real terminal: clipboard, mouse, focus, sleep, and one theme at a time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

from textual import events
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.theme import Theme

from lmtui import paths
from lmtui.tui import terminal, themes
from lmtui.tui.options import StartOptions
from lmtui.tui.themes import filters_without_color

if TYPE_CHECKING:
    from lmtui.tui.terminal_notifier import TerminalNotifier


class TerminalApp(App[int]):
    """What every screen of the app may ask of the terminal."""

    has_mouse: bool = True
    notifier: TerminalNotifier | None = None
    frames_drawn: int = 0
    has_job_control: Callable[[], bool] = staticmethod(lambda: False)

    @property
    def bytes_written(self) -> int:
        """Return how much was written to the terminal so far, 0 where the driver does not count."""
        return getattr(self._driver, "bytes_written", 0)

    def post_display_hook(self) -> None:
        """Count the frames."""
        self.frames_drawn += 1

    def get_driver_class(self) -> type[Driver]:
        """Return what draws: where it is Textual's usual driver, the one that outlives its terminal."""
        usual = super().get_driver_class()
        if usual.__name__ != "LinuxDriver":
            return usual
        from lmtui.tui.terminal import TerminalDriver  # noqa: PLC0415  (no such module as termios on every system)

        return TerminalDriver

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, say so, and end a selection by the mouse, so that the next ctrl+c interrupts again."""
        self._clipboard = text
        self.screen.clear_selection()
        self.run_worker(self._copy(text), group="clipboard", exclusive=True)

    def on_virtual_line_view_copied(self, event: object) -> None:
        """Copy what was selected in a pane."""
        text = getattr(event, "text", "")
        if text.strip():
            self.copy_to_clipboard(text)

    def action_mouse(self) -> None:
        """Leave the mouse to the terminal, or take it back."""
        turn = getattr(self._driver, "use_mouse", None)
        self.has_mouse = not self.has_mouse
        if turn is not None:
            turn(is_on=self.has_mouse)
        draw = getattr(self.screen, "draw", None)
        if draw is not None:
            draw()
        words = "lmtui uses the mouse again" if self.has_mouse else "the terminal uses the mouse; Alt+M gives it back to lmtui"
        self.tell(words)

    def action_suspend(self) -> None:
        """Go to sleep until the shell's `fg`; where no shell could say that, say so."""
        if self._driver is not None and self._driver.can_suspend and self.has_job_control():
            self.action_suspend_process()
        else:
            self.tell("cannot suspend: no shell could resume lmtui", is_good=False)

    def tell(self, text: str, *, is_good: bool = True) -> None:
        """Say something on the screen that is on top: in its own line of words where it has one."""
        say = getattr(self.screen, "say", None)
        if say is not None:
            say(text, "info" if is_good else "error")
        else:
            self.notify(text, severity="information" if is_good else "error", markup=False)

    async def run_action(
        self,
        action: str | ActionParseResult,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run an action; one of the widget in focus does nothing where no widget has it (another window is in front)."""
        is_of_focus = isinstance(action, str) and action.startswith("focused.")
        if is_of_focus and self.focused is None:
            return False
        return await super().run_action(action, default_namespace, namespaces)

    def on_app_focus(self, _: events.AppFocus) -> None:
        """Take note that the window is in front."""
        if self.notifier is not None:
            self.notifier.focus_changed(is_in_front=True)

    def on_app_blur(self, _: events.AppBlur) -> None:
        """Take note that it is not."""
        if self.notifier is not None:
            self.notifier.focus_changed(is_in_front=False)

    async def on_event(self, event: events.Event) -> None:
        """Take note of every key, and go on; who types is there, whatever the terminal last said of its focus."""
        if isinstance(event, events.Key):
            if self.notifier is not None:
                self.notifier.key_pressed()
            self.app_focus = True
            if self.focused is None:
                self.focus_prompt()
        await super().on_event(event)

    def focus_prompt(self) -> None:
        """Let what is typed go to the prompt."""

    def write_to_terminal(self, text: str) -> None:
        """Write a control sequence of ours."""
        if self._driver is not None:
            self._driver.write(text)

    async def _copy(self, text: str) -> None:
        route = terminal.find_route()
        sequence = terminal.osc_52(text, is_in_tmux=route.is_in_tmux)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        has_osc, folder = bool(sequence), paths.state_dir() / "copied"
        said, is_good = await asyncio.to_thread(terminal.copy_by_program, route, text, has_osc=has_osc, folder=folder)
        self.tell(said, is_good=is_good)


class ThemedApp(TerminalApp):
    """Holds one theme at a time; a broken one is said and changes nothing."""

    def __init__(self, options: StartOptions, now: Callable[[], datetime]) -> None:
        self._first_theme: Theme | None
        self._first_theme, problem = _first_theme(options.theme)
        super().__init__()
        self.options, self.now = options, now
        self.is_leaving = False
        self._watch_theme_file: Callable[[Path | None], None] = lambda _: None
        self.register_theme(self._first_theme)
        # The style sheet was made with its colours just now: nothing has to be made again, as setting `theme` would.
        self.set_reactive(App.theme, self._first_theme.name)
        self.set_class(self._first_theme.dark, "-dark-mode")
        self.set_class(not self._first_theme.dark, "-light-mode")
        self._first_theme = None
        self._leave_out_colors()
        if problem:
            self.call_after_refresh(lambda: self.tell(problem, is_good=False))

    def leave_now(self, return_code: int) -> None:
        """Close everything and end the app."""

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

    def follow_theme_file(self, watch: Callable[[Path | None], None]) -> None:
        """From now on show the user's own theme again whenever it is saved; `watch` gets its file, or None."""
        self._watch_theme_file = watch
        self._watch_own_file()

    def leave_theme_file(self) -> None:
        """Watch no file any more."""
        self._watch_theme_file(None)

    def _watch_own_file(self) -> None:
        file = themes.theme_files().get(self.theme)
        self._watch_theme_file(file if file is not None and file.parent != paths.themes_dir() else None)

    def _leave_out_colors(self) -> None:
        if self.no_color:
            self._filters = filters_without_color(self._filters, self.available_themes[self.theme])


def _first_theme(name: str) -> tuple[Theme, str]:
    """Return the theme to begin with (the one that is chosen, else one that the terminal can show) and what was wrong."""
    try:
        return themes.find_theme(name or themes.first_theme(os.environ)), ""
    except themes.ThemeError as error:
        return themes.built_in_theme(), str(error)
