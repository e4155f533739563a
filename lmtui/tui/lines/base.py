"""The base of the line panes: scrolling, following, keys and the wheel over `surface` and `copying`.

A pane follows its end while the reader is there and never moves a reader who is not.  Keys come from the app's table:
the actions here are what they call.
"""

from __future__ import annotations

from textual import events
from textual.message import Message

from lmtui.tui.lines.copying import CopyingSurface

_WHEEL_LINES = 3


class LineView(CopyingSurface, can_focus=True, inherit_bindings=False):
    """A pane of lines that can be scrolled, followed and read out."""

    class FollowChanged(Message):
        """The pane began or stopped to follow its end."""

        def __init__(self, view: LineView, *, is_following: bool) -> None:
            super().__init__()
            self.view = view
            self.is_following = is_following

        @property
        def control(self) -> LineView:
            """Return the pane."""
            return self.view

    def scroll_lines(self, lines: int) -> None:
        """Scroll by some lines as the reader asked, at once."""
        self.jump(self.scroll_offset.y + lines)
        self.note_place()

    def note_place(self) -> None:
        """Follow the end from now on if the reader is there, else stay."""
        self.set_following(self.scroll_offset.y >= self.max_scroll_y)

    def set_following(self, is_following: bool) -> None:
        """Follow the end, or stop."""
        if is_following != self.is_following:
            self.is_following = is_following
            self.post_message(self.FollowChanged(self, is_following=is_following))

    def hold_still(self) -> None:
        """Follow the end no more."""
        self.set_following(False)

    def move_cursor(self, rows: int) -> None:
        """Move the cursor by rows (scroll, where there is none)."""
        self.scroll_lines(rows)

    def move_to_edge(self, is_end: bool) -> None:
        """Go to the first or the last line."""
        self.jump(self.max_scroll_y if is_end else 0)
        self.note_place()

    def choose(self) -> None:
        """Act on what the cursor is on."""

    def action_cursor_up(self) -> None:
        """Go one row up."""
        self.move_cursor(-1)

    def action_cursor_down(self) -> None:
        """Go one row down."""
        self.move_cursor(1)

    def action_page_up(self) -> None:
        """Scroll one page up, a line kept."""
        self.scroll_lines(-max(1, self.size.height - 1))

    def action_page_down(self) -> None:
        """Scroll one page down, a line kept."""
        self.scroll_lines(max(1, self.size.height - 1))

    def action_home(self) -> None:
        """Go to the beginning."""
        self.move_to_edge(is_end=False)

    def action_end(self) -> None:
        """Go to the end and follow it."""
        self.move_to_edge(is_end=True)

    def action_select(self) -> None:
        """Act on what the cursor is on."""
        self.choose()

    def on_mouse_scroll_up(self, event: events.MouseScrollUp) -> None:
        """Scroll up by the wheel."""
        self._wheel(event, -_WHEEL_LINES)

    def on_mouse_scroll_down(self, event: events.MouseScrollDown) -> None:
        """Scroll down by the wheel."""
        self._wheel(event, _WHEEL_LINES)

    def _wheel(self, event: events.MouseEvent, lines: int) -> None:
        if event.ctrl or event.shift:
            return
        event.stop()
        event.prevent_default()
        self.scroll_lines(lines)

    def scrolled_by_bar(self) -> None:
        """Take note that the reader moved the scroll bar."""
        self.note_place()

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        """Redraw at the new place."""
        super().watch_scroll_y(old_value, new_value)
        if self.is_vertical_scrollbar_grabbed:
            self.scrolled_by_bar()
