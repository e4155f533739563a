"""An app on a real terminal: clipboard, mouse, focus, sleep, and one theme at a time.

The terminal may go away: what is written to a window that was closed is dropped, so that leaving never waits for it.
"""

from __future__ import annotations

import asyncio
import base64
import codecs
import contextlib
import io
import os
import selectors
import shutil
import subprocess
from collections.abc import Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from textual import constants, events, on
from textual.actions import ActionParseResult
from textual.app import App
from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.linux_driver import LinuxDriver
from textual.theme import Theme

from lmtui import paths
from lmtui.paths import without_keys
from lmtui.tui import themes
from lmtui.tui.options import StartOptions
from lmtui.tui.terminal_input import TerminalInput, through_tmux
from lmtui.tui.themes import filters_without_color

if TYPE_CHECKING:
    from lmtui.tui.terminal_notifier import TerminalNotifier


LARGEST_OSC_BYTES = 74_994
PROGRAM_LIMIT_S = 3.0


Program = tuple[str, ...]


def clipboard_program(environ: Mapping[str, str] = os.environ, which: Callable[[str], str | None] = shutil.which) -> Program:
    """Return what puts a text into the clipboard here; empty for nothing, then the terminal alone is asked."""
    is_remote = bool(environ.get("SSH_CONNECTION") or environ.get("SSH_TTY"))
    candidates: list[Program] = []
    if not is_remote:
        if environ.get("WAYLAND_DISPLAY"):
            candidates.append(("wl-copy",))
        if environ.get("DISPLAY"):
            candidates += [("xclip", "-selection", "clipboard"), ("xsel", "--clipboard", "--input")]
        candidates += [("pbcopy",), ("clip.exe",)]
    if environ.get("TMUX"):
        candidates.append(("tmux", "load-buffer", "-w", "-"))
    return next((each for each in candidates if which(each[0])), ())


def osc_52(text: str, *, is_in_tmux: bool = False) -> str:
    """Return the sequence that sets the terminal's clipboard; empty where the text is too large for terminals to take."""
    data = text.encode("utf-8", "replace")
    if len(data) > LARGEST_OSC_BYTES:
        return ""
    plain = f"\x1b]52;c;{base64.b64encode(data).decode()}\x07"
    return plain + through_tmux(plain) if is_in_tmux else plain


def run_program(program: Program, text: str) -> bool:
    """Give a text to a clipboard program; False where it failed.  Blocks, for a limited time: call it in a thread."""
    data = text.encode("utf-16-le" if program[0] == "clip.exe" else "utf-8", "replace")
    try:
        done = subprocess.run(
            program,
            input=data,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=PROGRAM_LIMIT_S,
            check=False,
            env=without_keys(os.environ),
            start_new_session=True,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def keep_in_file(text: str, folder: Path) -> Path:
    """Write what no clipboard takes to a file that only the user can read, and return its path.

    Raises:
        OSError: it cannot be written.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    path = folder / f"copied-{os.urandom(4).hex()}.txt"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
        _ = file.write(text.encode("utf-8", "replace"))
    return path


def size_text(text: str) -> str:
    """Return how much was copied, in words."""
    lines = text.count("\n") + 1
    return f"{lines:,} lines" if lines > 1 else f"{len(text):,} characters"


def copy_by_program(program: Program, text: str, *, has_osc: bool, folder: Path) -> tuple[str, bool]:
    """Do what may take time and return what to say, and whether it worked.  Blocks: call it in a thread.

    `has_osc` tells that the terminal was asked already; terminals do not answer, so that counts as done.
    """
    if (program and run_program(program, text)) or has_osc:
        return f"Copied {size_text(text)}", True
    try:
        path = keep_in_file(text, folder)
    except OSError as error:
        return f"Could not copy, or write a file: {error.strerror or error}", False
    return f"Too large for the clipboard ({size_text(text)}); saved as {path}", True


_LEAVE_S = 0.05


class LastingOutput(io.TextIOBase):
    """Writes to a terminal for as long as it is there.

    Textual writes in a thread that ends at the first error; its queue then fills up, and who writes waits for ever.
    """

    def __init__(self, file: TextIO) -> None:
        self._file = file

    def write(self, text: str, /) -> int:
        """Write, or drop the text where the terminal is gone."""
        with contextlib.suppress(OSError):
            _ = self._file.write(text)
        return len(text)

    def flush(self) -> None:
        """Send what was written, if the terminal is there."""
        with contextlib.suppress(OSError):
            self._file.flush()

    def fileno(self) -> int:
        """Return the terminal's file descriptor."""
        return self._file.fileno()


class TerminalDriver(LinuxDriver):
    """Textual's own driver with an output that outlives the terminal."""

    def __init__(self, app: App[object], **options: Any) -> None:  # Any: Textual's own
        super().__init__(app, **options)
        self._wake_reader = self._wake_writer = -1
        self._input = TerminalInput()
        if self._file is not None:
            self._file = cast("io.TextIOWrapper", LastingOutput(self._file))

    def write(self, data: str) -> None:
        """Write to the terminal, or drop what comes while it is given away (an editor is open)."""
        if self._writer_thread is not None and self._writer_thread.is_alive():
            super().write(data)

    def run_input_thread(self) -> None:
        """Wait for input and pass it on; asleep until something comes, where Textual's own looks ten times a second."""
        decode = codecs.getincrementaldecoder("utf-8")("replace").decode
        self._wake_reader, self._wake_writer = os.pipe()
        with selectors.DefaultSelector() as selector:
            selector.register(self.fileno, selectors.EVENT_READ)
            selector.register(self._wake_reader, selectors.EVENT_READ)
            while not self.exit_event.is_set():
                ready = {key.fd for key, _ in selector.select(self._input.wait_s)}
                if self._wake_reader in ready:
                    _ = os.read(self._wake_reader, 64)
                if self.fileno in ready:
                    data = b""
                    with contextlib.suppress(OSError):  # the terminal is gone
                        data = os.read(self.fileno, 4096)
                    if not data:
                        selector.unregister(self.fileno)
                    for message in self._input.feed(text) if (text := decode(data)) else ():
                        self.process_message(message)
                for message in self._input.tick():
                    self.process_message(message)

    def disable_input(self) -> None:
        """Take no more input; the thread that waits for it is woken to see that."""
        thread, self._key_thread = self._key_thread, None
        while thread is not None and thread.is_alive():  # a signal may have begun and ended another one meanwhile
            self.exit_event.set()
            with contextlib.suppress(OSError):
                _ = os.write(self._wake_writer, b"x")
            thread.join(_LEAVE_S)
        for number in {self._wake_reader, self._wake_writer} - {-1}:
            os.close(number)
        self._wake_reader = self._wake_writer = -1
        self.exit_event.clear()
        super().disable_input()

    def _sigcont_application(self, *_: object) -> None:
        """Take the terminal again after a sleep; the kernel sends the same signal where a terminal is closed."""
        if self._must_signal_resume:
            super()._sigcont_application()
            self._loop.call_soon_threadsafe(partial(self._app.refresh, layout=True))

    def use_mouse(self, *, is_on: bool) -> None:
        """Take the mouse, or leave it to the terminal."""
        if is_on:
            self._mouse = True
            self._enable_mouse_support()
        else:
            self._disable_mouse_support()
            self._mouse = False


class ThemedApp(App[int]):
    """What every screen of the app may ask of the terminal.  One theme is held; a broken one is said and changes nothing."""

    has_mouse: bool = True
    notifier: TerminalNotifier | None = None

    def __init__(self, options: StartOptions, now: Callable[[], datetime]) -> None:
        self._first_theme: Theme | None
        self._first_theme, problem = _first_theme(options.theme)
        super().__init__()
        self.options, self.now = options, now
        self.is_leaving = False
        self.next_folder = ""  # where lmtui is started again once it has left
        self.next_session = ""  # one of the host's to attach to there
        self.register_theme(self._first_theme)
        # The style sheet was made with its colours just now: nothing has to be made again, as setting `theme` would.
        self.set_reactive(App.theme, self._first_theme.name)
        self.set_class(self._first_theme.dark, "-dark-mode")
        self.set_class(not self._first_theme.dark, "-light-mode")
        self._first_theme = None
        self._leave_out_colors()
        if problem:
            self.call_after_refresh(lambda: self.tell(problem, is_good=False))

    def get_driver_class(self) -> type[Driver]:
        """Return what draws: the driver that outlives its terminal."""
        return super().get_driver_class() if constants.DRIVER else TerminalDriver

    def copy_to_clipboard(self, text: str) -> None:
        """Copy, say so, and end a selection by the mouse, so that the next ctrl+c interrupts again."""
        self._clipboard = text
        self.screen.clear_selection()
        self.run_worker(self._copy(text), group="clipboard", exclusive=True)

    def on_virtual_line_view_copied(self, event: object) -> None:
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
        words = "lmtui uses the mouse again" if self.has_mouse else "the terminal uses the mouse; /mouse gives it back to lmtui"
        self.tell(words)

    def action_suspend(self) -> None:
        """Go to sleep until the shell's `fg`; where no shell could say that, say so."""
        is_job = os.getpgrp() != os.getsid(0)  # of a shell; a program that leads its session nobody could bring back
        if self._driver is not None and self._driver.can_suspend and is_job:
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

    @on(events.AppFocus)
    @on(events.AppBlur)
    def _note_focus(self, event: events.AppFocus | events.AppBlur) -> None:
        if self.notifier is not None:
            self.notifier.focus_changed(is_in_front=isinstance(event, events.AppFocus))

    async def on_event(self, event: events.Event) -> None:
        """Take note of every key, and go on; who types is there, whatever the terminal last said of its focus."""
        if isinstance(event, events.Key):
            if self.notifier is not None:
                self.notifier.key_pressed()
            self.app_focus = True
            if self.focused is None:
                self.focus_prompt()
            take_letter = getattr(self.screen, "take_letter", None)
            if take_letter is not None and take_letter(event):  # before the next key is looked at: it may mean something here
                return
        await super().on_event(event)

    def focus_prompt(self) -> None:
        """Let what is typed go to the prompt."""

    def write_to_terminal(self, text: str) -> None:
        """Write a control sequence of ours."""
        if text and self._driver is not None:
            self._driver.write(text)

    async def _copy(self, text: str) -> None:
        sequence = osc_52(text, is_in_tmux=bool(os.environ.get("TMUX")))
        self.write_to_terminal(sequence)
        has_osc, folder = bool(sequence), paths.state_dir() / "copied"
        said, is_good = await asyncio.to_thread(copy_by_program, clipboard_program(), text, has_osc=has_osc, folder=folder)
        self.tell(said, is_good=is_good)

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
        self._leave_out_colors()

    def _leave_out_colors(self) -> None:
        if self.no_color:
            self._filters = filters_without_color(self._filters, self.available_themes[self.theme])


def _first_theme(name: str) -> tuple[Theme, str]:
    """Return the theme to begin with (the one that is chosen, else one that the terminal can show) and what was wrong."""
    try:
        return themes.find_theme(name or themes.first_theme(os.environ)), ""
    except themes.ThemeError as error:
        return themes.built_in_theme(), str(error)
