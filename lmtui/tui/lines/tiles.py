"""Open sessions side by side, a tile each: title, state, what it waits for, its last lines.  One surface for all of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Unpack

from textual import events
from textual.message import Message

from lmtui.tui.lines.base import LineView
from lmtui.tui.lines.session_list import MARK, STATES
from lmtui.tui.lines.surface import WidgetOptions
from lmtui.tui.lines.text import Line, crop, fill, fit, fit_middle, row, width_of

_LEAST_CELLS = 38
_LEAST_ROWS, _MOST_ROWS = 6, 16
_HEAD_ROWS = 2


@dataclass(frozen=True, slots=True)
class Tile:
    """One session: `note` is what goes on or what it waits for, `lines` are the last that it said, oldest first."""

    id: str
    title: str
    state: str
    note: str
    lines: tuple[str, ...] = ()
    is_marked: bool = False
    is_active: bool = False


class Tiles(LineView, can_focus=True, inherit_bindings=False):
    """Shows tiles; the cursor is on one of them."""

    empty_text = "no session is open"

    class Chosen(Message):
        """The tile under the cursor is wanted."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self.tiles: Sequence[Tile] = ()
        self.cursor = 0

    @property
    def current(self) -> Tile | None:
        """Return the tile under the cursor."""
        return self.tiles[self.cursor] if self.cursor < len(self.tiles) else None

    @property
    def across(self) -> int:
        """Return how many tiles stand side by side: about as many as below each other."""
        return max(1, min(math.ceil(math.sqrt(len(self.tiles))), self.content_width // _LEAST_CELLS))

    @property
    def rows_each(self) -> int:
        """Return how many rows a tile takes, the blank one below it included: as many as there is room for all."""
        bands = -(-len(self.tiles) // self.across) if self.tiles else 1
        return max(_LEAST_ROWS, min(_MOST_ROWS, self.size.height // bands))

    def show(self, tiles: Sequence[Tile], at: str = "") -> None:
        """Show tiles; the cursor stays on its own, or goes to `at`."""
        wanted = at or (self.current.id if self.current is not None else "")
        if list(tiles) == list(self.tiles) and not at:
            return
        self.tiles = tiles
        self.cursor = next((index for index, tile in enumerate(tiles) if tile.id == wanted), 0)
        self.redraw()
        if at:
            self.call_after_refresh(self._reveal)

    def move(self, across: int, down: int) -> None:
        """Move the cursor by tiles."""
        target = self.cursor + across + down * self.across
        if 0 <= target < len(self.tiles):
            self.cursor = target
            self._reveal()
            self.redraw()

    def choose(self) -> None:
        """Tell that the tile is wanted."""
        if self.tiles:
            self.post_message(self.Chosen())

    def line_total(self) -> int:
        """Return how many lines all tiles take."""
        return -(-len(self.tiles) // self.across) * self.rows_each if self.tiles else 0

    def line_at(self, line: int) -> Line:
        """Return a line across the tiles that stand side by side."""
        band, at = divmod(line, self.rows_each)
        across = self.across
        cells = self.content_width // across
        found: Line = ()
        for index in range(band * across, min(len(self.tiles), (band + 1) * across)):
            part = self._part(index, at, cells - 2)
            found = (*found, *part, (" " * max(0, cells - width_of(part)), ""))
        return found

    def width_changed(self) -> None:
        """Lay out anew."""
        self.redraw()

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a tile; on the one that has it, open it."""
        band = (event.y + self.scroll_offset.y) // self.rows_each
        index = band * self.across + min(self.across - 1, event.x // max(1, self.content_width // self.across))
        if 0 <= index < len(self.tiles):
            if index == self.cursor:
                self.choose()
            self.cursor = index
            self.redraw()

    def _reveal(self) -> None:
        top = self.cursor // self.across * self.rows_each
        if top < self.scroll_offset.y or top + self.rows_each > self.scroll_offset.y + self.size.height:
            self.jump(top)

    def _part(self, index: int, at: int, width: int) -> Line:
        tile = self.tiles[index]
        is_here = index == self.cursor
        if at >= self.rows_each - 1:
            return ()
        lead: Line = (("▎ ", "accent"),) if is_here else (("  ", ""),)
        room = max(8, width - 2)
        sign, role = STATES.get(tile.state, STATES["new"])
        if at == 0:
            mark = f"{MARK} " if tile.is_marked else ""
            name: Line = ((f"{sign} ", role), (mark, "accent"), (fit(tile.title or "(nothing said yet)", room - 4), "strong"))
            here: Line = (("on screen", "muted"),) if tile.is_active else ()
            head = row(name, here, room)
            return (*lead, *(fill(head, room, "cursor") if is_here else head))
        if at == 1:
            return (*lead, (fit_middle(tile.note, room), role if tile.state in ("waits", "writing") else "muted"))
        shown = tile.lines[-(self.rows_each - 1 - _HEAD_ROWS) :]
        text = shown[at - _HEAD_ROWS] if at - _HEAD_ROWS < len(shown) else ""
        return (*lead, *crop(((text, "muted" if tile.state != "writing" else ""),), room))
