"""The app and its terminal: which driver draws, the clipboard, and who has the mouse."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from textual import events
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver

from lmtui import paths
from lmtui.tui import clipboard

if TYPE_CHECKING:
    from lmtui.tui.attention import Attention


class TerminalApp(App[int]):
    """What every screen of the app may ask of the terminal."""

    has_mouse: bool = True
    attention: Attention | None = None
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

    def action_suspend(self) -> None:
        """Go to sleep until the shell's `fg`; where no shell could say that, say so."""
        if self._driver is not None and self._driver.can_suspend and self.has_job_control():
            self.action_suspend_process()
        else:
            self.tell("no shell is there that could wake lmtui again, so it does not go to sleep", is_good=False)

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
        if self.attention is not None:
            self.attention.focus_changed(is_in_front=True)

    def on_app_blur(self, _: events.AppBlur) -> None:
        """Take note that it is not."""
        if self.attention is not None:
            self.attention.focus_changed(is_in_front=False)

    async def on_event(self, event: events.Event) -> None:
        """Take note of every key, and go on; who types is there, whatever the terminal last said of its focus."""
        if isinstance(event, events.Key):
            if self.attention is not None:
                self.attention.key_pressed()
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
        route = clipboard.find_route()
        sequence = clipboard.osc_52(text, is_in_tmux=route.is_in_tmux)
        if sequence and self._driver is not None:
            self._driver.write(sequence)
        has_osc, folder = bool(sequence), paths.state_dir() / "copied"
        said, is_good = await asyncio.to_thread(clipboard.copy_by_program, route, text, has_osc=has_osc, folder=folder)
        self.tell(said, is_good=is_good)
