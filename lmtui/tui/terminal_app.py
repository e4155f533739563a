"""The app and its terminal: which driver draws, the clipboard, and who has the mouse."""

from __future__ import annotations

import asyncio

from textual.app import App
from textual.driver import Driver

from lmtui import paths
from lmtui.tui import clipboard


class TerminalApp(App[int]):
    """What every screen of the app may ask of the terminal."""

    has_mouse: bool = True
    frames_drawn: int = 0

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

    def on_copying_surface_copied(self, event: object) -> None:
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
        words = "the mouse is the app's again" if self.has_mouse else "the mouse is the terminal's; alt+m takes it back"
        self.tell(words)

    def tell(self, text: str, *, is_good: bool = True) -> None:
        """Say something on the screen that is on top: in its own line of words where it has one."""
        say = getattr(self.screen, "say", None)
        if say is not None:
            say(text, "info" if is_good else "error")
        else:
            self.notify(text, severity="information" if is_good else "error", markup=False)

    async def _copy(self, text: str) -> None:
        route = clipboard.find_route()
        sequence = clipboard.osc_52(text, is_in_tmux=route.is_in_tmux)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        has_osc, folder = bool(sequence), paths.state_dir() / "copied"
        said, is_good = await asyncio.to_thread(clipboard.copy_by_program, route, text, has_osc=has_osc, folder=folder)
        self.tell(said, is_good=is_good)
