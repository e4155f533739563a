"""A screen at the right of the conversation, which goes on beside it; where there is no room for both it fills everything."""

from __future__ import annotations

from textual.color import Color
from textual.screen import Screen

from lmtui.tui.widgets.columns import Columns


class BesideChat(Screen[None]):
    """Shows something next to the conversation.  `panes` are those of the conversation; without them it fills the screen."""

    DEFAULT_CSS = """
    BesideChat.-beside > * { background: $surface; }
    BesideChat.-beside VirtualLineView { background: $surface; }
    """

    def __init__(self, panes: Columns | None = None) -> None:
        super().__init__()
        self._panes = panes
        self._fills = False
        self._left = 0

    def on_mount(self) -> None:
        """Make room beside the conversation."""
        if self._panes is not None:
            self._panes.make_room(self, is_wanted=True)
        self._place()

    def on_unmount(self) -> None:
        """Give the room back."""
        if self._panes is not None:
            self._panes.make_room(self, is_wanted=False)

    def on_resize(self) -> None:
        """Keep to the place that there is."""
        self._place()

    def action_zoom(self) -> None:
        """Fill the screen, or go back next to the conversation."""
        self._fills = not self._fills
        self._place()

    @property
    def columns(self) -> int:
        """Return how wide the screen's own part is, in cells."""
        return self.app.size.width - self._left

    def _place(self) -> None:
        room = self._panes.room_beside if self._panes is not None and not self._fills else 0
        self.set_class(room > 0, "-beside")
        self._left = self.app.size.width - room if room else 0
        for number, child in enumerate(self.children):  # what is left of them shows the conversation
            child.styles.margin = (int(number == 0 and room > 0), 0, 0, self._left)
        if room:
            self.styles.background = Color(0, 0, 0, 0)
        else:
            self.styles.clear_rule("background")
