"""All open sessions side by side, live: see what each does, go to one, answer what it waits for."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Unpack

from textual import events, on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.message import Message
from textual.screen import Screen

from lmtui.core import events as session_events
from lmtui.core.events import ROOT, Envelope
from lmtui.core.sanitize import sanitize_line, sanitize_path
from lmtui.core.sessions import SessionSummary
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.line_view import VirtualLineView
from lmtui.tui.lines.styled_text import Line, LineSource, crop, fill, fit, fit_middle, row, width_of
from lmtui.tui.modals.results import Picked
from lmtui.tui.modals.switcher import MARK, STATES
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.router import SessionView
from lmtui.tui.summary import activity_text, live_state, waits_for
from lmtui.tui.timing import WidgetOptions, call_after
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar, Part, Verbs

_LEAST_CELLS = 38
_LEAST_ROWS, _MOST_ROWS = 6, 16
_HEAD_ROWS = 2


@dataclass(frozen=True, slots=True)
class Tile:
    """One session: `note` is what continues or what it waits for, `lines` are the last that it said, oldest first."""

    id: str
    title: str
    state: str
    note: str
    lines: tuple[str, ...] = ()
    is_marked: bool = False
    is_active: bool = False


class TileLines(LineSource):
    """Tiles side by side and below each other, as lines; `cursor` is on one of them, `height` the rows there is room for."""

    def __init__(self) -> None:
        self.tiles: Sequence[Tile] = ()
        self.cursor = 0
        self.height = 0

    @property
    def across(self) -> int:
        """Return how many tiles are side by side: about as many as below each other."""
        return max(1, min(math.ceil(math.sqrt(len(self.tiles))), self.width // _LEAST_CELLS))

    @property
    def rows_each(self) -> int:
        """Return how many rows a tile takes, the blank one below it included: as many as there is room for all."""
        bands = -(-len(self.tiles) // self.across) if self.tiles else 1
        return max(_LEAST_ROWS, min(_MOST_ROWS, self.height // bands))

    def total(self) -> int:
        """Return how many lines all tiles take."""
        return -(-len(self.tiles) // self.across) * self.rows_each if self.tiles else 0

    def line(self, number: int) -> Line:
        """Return a line across the tiles that are side by side."""
        band, at = divmod(number, self.rows_each)
        across = self.across
        cells = self.width // across
        found: Line = ()
        for index in range(band * across, min(len(self.tiles), (band + 1) * across)):
            part = self._part(index, at, cells - 2)
            found = (*found, *part, (" " * max(0, cells - width_of(part)), ""))
        return found

    def index_at(self, column: int, line: int) -> int:
        """Return which tile is at a cell of a line."""
        return line // self.rows_each * self.across + min(self.across - 1, column // max(1, self.width // self.across))

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


class Tiles(VirtualLineView, can_focus=True, inherit_bindings=False):
    """Shows tiles; the cursor is on one of them."""

    empty_text = "no session is open"
    source: TileLines

    class Chosen(Message):
        """The tile under the cursor is wanted."""

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(TileLines(), **options)

    @property
    def current(self) -> Tile | None:
        """Return the tile under the cursor."""
        source = self.source
        return source.tiles[source.cursor] if source.cursor < len(source.tiles) else None

    def show(self, tiles: Sequence[Tile], at: str = "") -> None:
        """Show tiles; the cursor stays on its own, or goes to `at`."""
        wanted = at or (self.current.id if self.current is not None else "")
        if list(tiles) == list(self.source.tiles) and not at:
            return
        self.source.tiles = tiles
        self.source.cursor = next((index for index, tile in enumerate(tiles) if tile.id == wanted), 0)
        self.redraw()
        if at:
            self.call_after_refresh(self._reveal)

    def move(self, across: int, down: int) -> None:
        """Move the cursor by tiles."""
        target = self.source.cursor + across + down * self.source.across
        if 0 <= target < len(self.source.tiles):
            self.source.cursor = target
            self._reveal()
            self.redraw()

    def action_select(self) -> None:
        """Tell that the tile is wanted."""
        if self.source.tiles:
            self.post_message(self.Chosen())

    def on_resize(self) -> None:
        """Take up the height too."""
        self.source.height = self.size.height

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on a tile; on the one that has it, open it."""
        index = self.source.index_at(event.x, event.y + self.scroll_offset.y)
        if 0 <= index < len(self.source.tiles):
            if index == self.source.cursor:
                self.action_select()
            self.source.cursor = index
            self.redraw()

    def _reveal(self) -> None:
        rows = self.source.rows_each
        top = self.source.cursor // self.source.across * rows
        if top < self.scroll_offset.y or top + rows > self.scroll_offset.y + self.size.height:
            self.jump(top)


LIVE_S = 0.25
MOST_LINES = 16
LOOK_BACK = 200
LINE_CHARS = 300
STREAM_CHARS = 2000


class Grid(Screen[Picked | None]):
    """Shows a tile for each open session.  `ask` shows the question that one waits with."""

    CSS_PATH = "../dialogs.tcss"
    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.GRID)]

    SCOPE: ClassVar[Scope] = Scope.GRID

    def __init__(self, sessions: OpenSessions, ask: Callable[[SessionView], None], *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._sessions, self._ask, self._now = sessions, ask, now
        self._head, self._tiles, self._verbs = Bar(id="grid-head"), Tiles(id="grid-tiles"), Verbs(id="grid-verbs")
        self._streams: dict[str, str] = {}
        self._ends: list[Callable[[], None]] = []
        self._is_due = False

    def compose(self) -> ComposeResult:
        """Lay out title, tiles and verbs."""
        yield self._head
        yield self._tiles
        yield self._verbs

    def on_mount(self) -> None:
        """Follow every open session."""
        self._tiles.focus()
        self._verbs.show([*of_scope(Scope.GRID), closing()])
        self._ends = [view.session.subscribe(self._happened) for view in self._sessions.views.values()]
        self._draw(self._sessions.active.session.id if self._sessions.active is not None else "")

    def on_unmount(self) -> None:
        """Follow them no more."""
        for end in self._ends:
            end()

    def _happened(self, envelope: Envelope) -> None:
        event = envelope.event
        is_own = event.agent == ROOT  # sub-agents may write at once, and their words would be mixed
        if is_own and isinstance(event, session_events.TextDelta):
            self._streams[envelope.session] = (self._streams.get(envelope.session, "") + event.text)[-STREAM_CHARS:]
        elif is_own and isinstance(event, session_events.MessageAdded | session_events.TurnEnded):
            self._streams.pop(envelope.session, None)
        if not self._is_due:
            self._is_due = True
            call_after(self, LIVE_S, self._draw)

    def _draw(self, at: str = "") -> None:
        self._is_due = False
        sessions, now = self._sessions, self._now()
        tiles = [self._tile(view, now) for view in sessions.views.values()]
        tiles.sort(key=lambda tile: (tile.state != "waits", tile.state != "writing"))
        tiles += [_asleep(each, is_marked=each.id in sessions.marks) for each in sessions.parked.values()]
        waiting = sum(tile.state == "waits" for tile in tiles)
        running = sum(tile.state == "writing" for tile in tiles)
        counts = f"{len(tiles)} open · {running} working" + (f" · {waiting} waiting" if waiting else "")
        self._head.show([Part("Sessions", "bold"), Part(counts, "$text-muted", 1)], [])
        self._tiles.show(tiles, at)

    def _tile(self, view: SessionView, now: datetime) -> Tile:
        state, session_id = view.state, view.session.id
        wanted = waits_for(state)
        note = f"waits for you: {wanted}" if wanted else activity_text(state, now)
        stream = self._streams.get(session_id, "")
        lines = [*last_lines(view.session.history()), *(sanitize_line(each) for each in stream.splitlines() if each.strip())]
        return Tile(
            session_id,
            state.title,
            live_state(state),
            note,
            tuple(line[:LINE_CHARS] for line in lines[-MOST_LINES:]),
            is_marked=session_id in self._sessions.marks,
            is_active=view is self._sessions.active,
        )

    @on(Tiles.Chosen)
    def _chosen(self) -> None:
        self.action_grid_open()

    def action_grid_open(self) -> None:
        """Go to the session."""
        if self._tiles.current is not None:
            _ = self.dismiss(Picked(self._tiles.current.id))

    def action_grid_move(self, across: int, down: int) -> None:
        """Move the cursor."""
        self._tiles.move(across, down)

    def action_grid_answer(self) -> None:
        """Show what the session under the cursor waits with, else the first that waits."""
        current, views = self._tiles.current, self._sessions.views
        here = views.get(current.id) if current is not None else None
        waiting = [view for view in (here, *views.values()) if view is not None and view.state.approvals]
        if waiting:
            self._ask(waiting[0])

    def action_close_or_stop(self) -> None:
        """Go back."""
        _ = self.dismiss(None)


def last_lines(history: Sequence[Envelope]) -> list[str]:
    """Return the last lines of what was said and done, oldest first."""
    found: list[str] = []
    for envelope in reversed(history[-LOOK_BACK:]):
        match envelope.event:
            case session_events.MessageAdded(text=text) if text.strip():
                found += [sanitize_line(line) for line in reversed(text.strip().splitlines()) if line.strip()]
            case session_events.ToolCallStarted(tool=tool, title=title):
                found.append(sanitize_path(f"● {tool} {title}"))
            case _:
                continue
        if len(found) >= MOST_LINES:
            break
    return found[:MOST_LINES][::-1]


def _asleep(summary: SessionSummary, *, is_marked: bool) -> Tile:
    last = (sanitize_line(summary.last_line),) if summary.last_line else ()
    return Tile(summary.id, sanitize_line(summary.title), summary.state, "open, not read yet", last, is_marked)
