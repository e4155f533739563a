"""All open sessions side by side, live: see what each does, go to one, answer what it waits for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.screen import Screen

from lmtui.core import events
from lmtui.core.clean import clean_line, clean_path
from lmtui.core.events import ROOT, Envelope
from lmtui.core.sessions import SessionSummary
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.desk import Desk
from lmtui.tui.lines.tiles import Tile, Tiles
from lmtui.tui.live_summary import live_state, waits_for
from lmtui.tui.modals.results import Picked
from lmtui.tui.router import Feed
from lmtui.tui.summary import activity_text
from lmtui.tui.timers import call_after
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Bar
from lmtui.tui.widgets.fit import Part
from lmtui.tui.widgets.verbs import Verbs

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

    def __init__(self, desk: Desk, ask: Callable[[Feed], None], *, now: Callable[[], datetime]) -> None:
        super().__init__()
        self._desk, self._ask, self._now = desk, ask, now
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
        self._ends = [feed.session.subscribe(self._happened) for feed in self._desk.feeds.values()]
        self._draw(self._desk.active.session.id if self._desk.active is not None else "")

    def on_unmount(self) -> None:
        """Follow them no more."""
        for end in self._ends:
            end()

    def _happened(self, envelope: Envelope) -> None:
        event = envelope.event
        is_own = event.agent == ROOT  # sub-agents may write at once, and their words would be mixed
        if is_own and isinstance(event, events.TextDelta):
            self._streams[envelope.session] = (self._streams.get(envelope.session, "") + event.text)[-STREAM_CHARS:]
        elif is_own and isinstance(event, events.MessageAdded | events.TurnEnded):
            self._streams.pop(envelope.session, None)
        if not self._is_due:
            self._is_due = True
            call_after(self, LIVE_S, self._draw)

    def _draw(self, at: str = "") -> None:
        self._is_due = False
        desk, now = self._desk, self._now()
        tiles = [self._tile(feed, now) for feed in desk.feeds.values()]
        tiles.sort(key=lambda tile: (tile.state != "waits", tile.state != "writing"))
        tiles += [_asleep(each, is_marked=each.id in desk.marks) for each in desk.parked.values()]
        waiting = sum(tile.state == "waits" for tile in tiles)
        running = sum(tile.state == "writing" for tile in tiles)
        counts = f"{len(tiles)} open · {running} at work" + (f" · {waiting} waiting" if waiting else "")
        self._head.show([Part("SESSIONS", "bold"), Part(counts, "$text-muted", 1)], [])
        self._tiles.show(tiles, at)

    def _tile(self, feed: Feed, now: datetime) -> Tile:
        facts, session_id = feed.facts, feed.session.id
        wanted = waits_for(facts)
        note = f"waits for you: {wanted}" if wanted else activity_text(facts, now)
        stream = self._streams.get(session_id, "")
        lines = [*last_lines(feed.session.history()), *(clean_line(each) for each in stream.splitlines() if each.strip())]
        return Tile(
            session_id,
            facts.title,
            live_state(facts),
            note,
            tuple(line[:LINE_CHARS] for line in lines[-MOST_LINES:]),
            is_marked=session_id in self._desk.marks,
            is_active=feed is self._desk.active,
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
        current, feeds = self._tiles.current, self._desk.feeds
        here = feeds.get(current.id) if current is not None else None
        waiting = [feed for feed in (here, *feeds.values()) if feed is not None and feed.facts.approvals]
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
            case events.MessageAdded(text=text) if text.strip():
                found += [clean_line(line) for line in reversed(text.strip().splitlines()) if line.strip()]
            case events.ToolCallStarted(tool=tool, title=title):
                found.append(clean_path(f"● {tool} {title}"))
            case _:
                continue
        if len(found) >= MOST_LINES:
            break
    return found[:MOST_LINES][::-1]


def _asleep(summary: SessionSummary, *, is_marked: bool) -> Tile:
    last = (clean_line(summary.last_line),) if summary.last_line else ()
    return Tile(summary.id, clean_line(summary.title), summary.state, "open, not read yet", last, is_marked)
