"""The columns of the main screen: how wide each is, which are shown, and which one fills all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

Hideable = Literal["files", "plan", "log"]
LEAST_CELLS, MOST_CELLS = 16, 120
LEAST_PLAN, MOST_PLAN = 10, 90
STEP_CELLS, STEP_PERCENT = 4, 10
FILES_CELLS, SIDE_CELLS, CHAT_CELLS = 28, 36, 80
FILES_BESIDE_CELLS, NARROW_CHAT_CELLS = 26, 60  # while something is open at the right of the chat
FINDER_CELLS = 60
TEAM_CELLS, TEAM_FROM_CELLS = 76, 160  # of the right column while several sub-agents are in it
BESIDE_CELLS = CHAT_CELLS + SIDE_CELLS
BOTH_CELLS = BESIDE_CELLS + FILES_CELLS
SIDE_PANES = ("plan", "log")


@dataclass(frozen=True, slots=True)
class PaneLayout:
    """Which panes are hidden, how wide the columns at the sides are in cells (0: by the screen), and the plan's share of
    the right one in percent.
    """

    __pydantic_config__: ClassVar = {"extra": "forbid"}
    hidden: tuple[Hideable, ...] = ()
    files_cells: int = 0
    side_cells: int = 0
    plan_percent: int = 40

    def toggled(self, pane: Hideable) -> PaneLayout:
        """Return the layout with a pane hidden, or shown again."""
        return self.shown(pane) if pane in self.hidden else replace(self, hidden=(*self.hidden, pane))

    def shown(self, pane: str) -> PaneLayout:
        return replace(self, hidden=tuple(each for each in self.hidden if each != pane))

    def with_width(self, column: str, cells: int) -> PaneLayout:
        """Return the layout with the `files` or the `side` column of a width, within bounds."""
        width = max(LEAST_CELLS, min(MOST_CELLS, cells))
        return replace(self, files_cells=width) if column == "files" else replace(self, side_cells=width)

    def with_plan(self, percent: int) -> PaneLayout:
        """Return the layout with another share for the plan, within bounds."""
        return replace(self, plan_percent=max(LEAST_PLAN, min(MOST_PLAN, percent)))


def column_cells(
    layout: PaneLayout, width: int, *, front: str, has_files: bool, has_side: bool, has_team: bool = False
) -> tuple[int, int]:
    """Return how wide the columns of the files and of plan and log are next to the chat, 0 for one that is not there.

    The chat keeps its least width; with `has_team` the right one grows where there is room.
    Where only one column fits it is that of the pane in `front`, else the right one.
    """
    if width < BESIDE_CELLS:
        return 0, 0
    room = width - CHAT_CELLS
    is_files_first = width < BOTH_CELLS and (front == "files" or not has_side) and has_files
    cells = {"files": 0, "side": 0}
    usual_side = TEAM_CELLS if has_team and width >= TEAM_FROM_CELLS else SIDE_CELLS
    for column in ("files", "side") if is_files_first else ("side", "files"):
        own, usual = (layout.files_cells, FILES_CELLS) if column == "files" else (layout.side_cells, usual_side)
        wanted = min(own, room) if own else usual
        if (has_files if column == "files" else has_side) and LEAST_CELLS <= wanted <= room:
            cells[column] = wanted
            room -= wanted
        if width < BOTH_CELLS and any(cells.values()):
            break
    return cells["files"], cells["side"]


class Columns(Horizontal):
    """Files, conversation, and plan above log.  What does not fit next to the chat is laid over it while it is in front.

    The files come with the session's first message, and so does the right column; both stay, so that nothing moves in a turn.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.layout_of_user = PaneLayout()
        self.files_pane, self.chat_pane = Vertical(id="files-pane", classes="pane"), Vertical(id="chat-pane")
        self.plan_pane, self.log_pane = Vertical(id="plan-pane", classes="pane"), Vertical(id="log-pane", classes="pane")
        self.side_pane = Vertical(self.plan_pane, self.log_pane, id="side-pane")
        self.containers: dict[str, Widget] = {
            "files": self.files_pane, "chat": self.chat_pane, "plan": self.plan_pane, "log": self.log_pane
        }  # fmt: skip
        self.front = "chat"
        self.arranged: Callable[[int, int], None] = lambda _x, _width: None
        self.is_finding = False  # the files float over the chat, wide enough for their names
        self._shown = False, False, 0
        self.side_tabs: dict[str, Callable[[], Callable[[], Any] | None]] = {}  # what makes each tab's screen; None: no content
        self._beside: dict[Widget, Widget | None] = {}  # what is at the right, and what had the focus before
        self._zoomed = ""

    @property
    def plan_rows(self) -> int:
        """Return how many rows there are to plan and watch, 0 for none."""
        return 0

    @property
    def has_begun(self) -> bool:
        """Tell whether the session that is shown has its first message."""
        return self._shown[0]

    def use_layout(self, layout: PaneLayout) -> None:
        """Hide and size the panes."""
        self.layout_of_user = layout
        self.place_columns()

    def begin(self, *, has_begun: bool, has_team: bool) -> None:
        """Show the columns from a session's first message on; `has_team`: there are several sub-agents."""
        if (has_begun, has_team, self.plan_rows) != self._shown:
            self._shown = has_begun, has_team, self.plan_rows
            self.place_columns()

    def bring_to_front(self, pane: str) -> None:
        """Show a pane where not all fit: next to the chat, or over its right part; `chat` puts the one that is there away."""
        if pane != self.front:
            self.front = pane
            self.place_columns()

    @property
    def is_chat_alone(self) -> bool:
        """Tell whether nothing is opened next to the conversation, or over it."""
        return self.front == "chat" and not self._beside and not self._zoomed

    @property
    def room_beside(self) -> int:
        """Return how many cells there are for something next to a conversation of its least width, 0 for too few."""
        width = self.app.size.width
        if width < BESIDE_CELLS:
            return 0
        return width - NARROW_CHAT_CELLS - (FILES_BESIDE_CELLS if width >= BOTH_CELLS else 0)

    def make_room(self, wanted_by: Widget, *, is_wanted: bool, keeps_focus: bool = False) -> None:
        """Give the right side to something else, or take it back; a pane that gives way has the focus again then.

        `keeps_focus`: the focus stays where it is.
        """
        others, before = [each for each in self._beside if each is not wanted_by], self._beside.pop(wanted_by, None)
        if is_wanted:
            self._beside[wanted_by] = self._beside[others[0]] if others else before or self.screen.focused
        self.place_columns()
        if not self._beside and before is not None and not keeps_focus:
            self.call_after_refresh(before.focus)

    def is_over(self, pane: str) -> bool:
        """Tell whether a pane is laid over the chat."""
        return (self.files_pane if pane == "files" else self.side_pane).has_class("-over")

    def place_columns(self) -> None:
        """Show, hide and size the panes for the width that there is."""
        layout, front, width = self.layout_of_user, self.front, self.app.size.width
        hidden, (has_begun, has_team, _) = set(layout.hidden) - {front}, self._shown
        files_cells, side_cells = column_cells(
            layout,
            width,
            front=front,
            has_files=front == "files" or (has_begun and "files" not in hidden),
            has_side=front in SIDE_PANES or (has_begun and not hidden >= set(SIDE_PANES)),
            has_team=has_team,
        )
        room = self.room_beside if self._beside else 0
        if room:
            files_cells, side_cells = (FILES_BESIDE_CELLS if files_cells and width >= BOTH_CELLS else 0), 0
        self.styles.padding = (0, room, 0, 0)
        self.set_class(width < CHAT_CELLS, "-narrow")
        for pane, cells, is_front in (
            (self.files_pane, files_cells, front == "files"),
            (self.side_pane, side_cells, front in SIDE_PANES),
        ):
            pane.set_class(bool(cells), "-docked")
            pane.set_class(is_front and not cells and not room, "-over")
            _set_width(pane, 0 if self._zoomed else cells)
        is_wide = self.is_finding and not (room or self._zoomed) and width >= CHAT_CELLS
        self.files_pane.set_class(is_wide and files_cells > 0, "-finding")
        for space in self.query("#files-space"):  # keeps the place of the files while they float over the chat
            _set_width(space, files_cells if is_wide else 0)
            space.display = is_wide and files_cells > 0
        if is_wide:
            _set_width(self.files_pane, FINDER_CELLS)
        is_over = self.side_pane.has_class("-over")
        is_plan_shown = front == "plan" or (self.plan_rows > 0 and "plan" not in hidden and not is_over)
        self.plan_pane.set_class(not is_plan_shown, "-hidden")
        self.log_pane.set_class("log" in hidden or (is_over and front == "plan"), "-hidden")
        self._share_height(is_both=is_plan_shown and not self.log_pane.has_class("-hidden"))
        if self._zoomed:
            self.arranged(0, width)
        else:
            self.arranged(files_cells, width - files_cells - side_cells - room)

    def _share_height(self, *, is_both: bool) -> None:
        percent = self.layout_of_user.plan_percent
        is_own = percent != PaneLayout().plan_percent
        plan, log = self.plan_pane.styles, self.log_pane.styles
        plan.height = "1fr" if not is_both else f"{percent}fr" if is_own else max(2, self.plan_rows) + 1
        plan.max_height = "60%" if is_both and not is_own else None
        log.height = f"{100 - percent}fr" if is_both and is_own else None

    def zoom(self, pane: str) -> None:
        """Let one pane fill all, or end that; an empty name ends it."""
        self._zoomed = "" if self._zoomed else pane
        containers = self.containers
        wanted = {containers[self._zoomed]} if self._zoomed else set()
        if self._zoomed in ("plan", "log"):
            wanted.add(self.side_pane)
        for each in (*containers.values(), self.side_pane):
            each.set_class(each in wanted, "-zoomed")
            each.set_class(bool(wanted) and each not in wanted, "-aside")
        self.set_class(bool(self._zoomed), "-zoom")
        self.place_columns()

    def focused_pane(self) -> str:
        """Return the pane that has the focus; the conversation where none has."""
        return next((name for name in self.containers if self.has_focus_in(name)), "chat")

    def has_focus_in(self, pane: str) -> bool:
        focused = self.screen.focused
        return focused is not None and self.containers[pane] in focused.ancestors_with_self

    def width_of(self, column: str) -> int:
        """Return how wide a column is, in cells."""
        return (self.files_pane if column == "files" else self.side_pane).outer_size.width

    @property
    def plan_share(self) -> int:
        """Return the plan's share of the right column in percent, as it is on screen."""
        return round(100 * self.plan_pane.outer_size.height / max(1, self.side_pane.outer_size.height))

    def on_resize(self) -> None:
        self.place_columns()


def _set_width(pane: Widget, cells: int) -> None:
    styles = pane.styles
    styles.width = cells or None
    styles.min_width = cells or None
    styles.max_width = cells or None
