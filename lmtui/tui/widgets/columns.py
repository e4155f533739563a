"""The columns of the main screen: how wide each is, which are shown, and which one fills all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

FILES_CELLS, SIDE_CELLS, CHAT_CELLS = 28, 36, 80
FILES_BESIDE_CELLS, NARROW_CHAT_CELLS = 26, 60  # while something is open at the right of the chat
WIDEST_CHAT = 106  # text of 100 cells, and what is around it
TEAM_CELLS, TEAM_FROM_CELLS = 76, 160  # of the right column while several sub-agents are in it
BESIDE_CELLS = CHAT_CELLS + SIDE_CELLS
BOTH_CELLS = BESIDE_CELLS + FILES_CELLS
SIDE_PANES = ("plan", "log")


def column_cells(width: int, *, front: str, has_files: bool, has_side: bool, has_team: bool = False) -> tuple[int, int]:
    """Return how wide the columns of the files and of plan and log are, 0 for one that is not there.

    The chat keeps its least width.  Where one column fits it is that of the pane in `front`, else the right one.
    """
    if width < BESIDE_CELLS:
        return 0, 0
    side = (TEAM_CELLS if has_team and width >= TEAM_FROM_CELLS else SIDE_CELLS) if has_side else 0
    files = FILES_CELLS if has_files and width - CHAT_CELLS - side >= FILES_CELLS else 0
    if width < BOTH_CELLS and has_files and (front == "files" or not has_side):
        files, side = FILES_CELLS, 0
    return files, side


class Columns(Horizontal):
    """Files, conversation, and plan above log.  A column is there from its first content on.

    One that does not fit next to the chat is laid over it while its own key brings it to the front.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's name for it
        super().__init__(id=id)
        self.hidden: set[str] = set()  # as the user wants it, on a wide screen
        self.files_pane, self.chat_pane = Vertical(id="files-pane", classes="pane"), Vertical(id="chat-pane")
        self.plan_pane, self.log_pane = Vertical(id="plan-pane", classes="pane"), Vertical(id="log-pane", classes="pane")
        self.side_pane = Vertical(self.plan_pane, self.log_pane, id="side-pane")
        self.containers: dict[str, Widget] = {
            "files": self.files_pane, "chat": self.chat_pane, "plan": self.plan_pane, "log": self.log_pane
        }  # fmt: skip
        self.front = "chat"
        self.arranged: Callable[[int, int], None] = lambda _x, _width: None
        self.has_begun = self.has_team = False  # a first message; several agents at work
        self._shown: tuple[object, ...] = ()
        self.side_tabs: dict[str, Callable[[], Callable[[], Any] | None]] = {}  # what makes each tab's screen; None: no content
        self._beside: dict[Widget, Widget | None] = {}  # what is at the right, and what had the focus before
        self._zoomed = ""

    @property
    def plan_rows(self) -> int:
        """Return how many rows there are to plan and watch, 0 for none."""
        return 0

    def toggle(self, pane: str) -> None:
        """Hide a pane, or show it again."""
        self.hidden ^= {pane}
        self.front = "chat" if pane == self.front else self.front
        self.place_columns()

    def begin(self, *, has_begun: bool, has_team: bool) -> None:
        """Show the columns that have content; `has_team`: several agents are at work."""
        shown = has_begun, has_team, self.plan_rows
        if shown != self._shown:
            self._shown, self.has_begun, self.has_team = shown, has_begun, has_team
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
        front, width = self.front, self.app.size.width
        hidden = self.hidden - {front}
        has_plan, has_log = self.plan_rows > 0 and "plan" not in hidden, self.has_team and "log" not in hidden
        files_cells, side_cells = column_cells(
            width,
            front=front,
            has_files=front == "files" or (self.has_begun and "files" not in hidden),
            has_side=front in SIDE_PANES or (self.has_begun and (has_plan or has_log)),
            has_team=self.has_team,
        )
        room = self.room_beside if self._beside else 0
        if room:
            files_cells, side_cells = (FILES_BESIDE_CELLS if files_cells and width >= BOTH_CELLS else 0), 0
        self.set_class(width < CHAT_CELLS, "-narrow")
        for pane, cells, is_front in (
            (self.files_pane, files_cells, front == "files"),
            (self.side_pane, side_cells, front in SIDE_PANES),
        ):
            pane.set_class(bool(cells), "-docked")
            pane.set_class(is_front and not cells and not room, "-over")
            styles = pane.styles
            styles.width = styles.min_width = styles.max_width = None if self._zoomed else cells or None
        is_over = self.side_pane.has_class("-over")
        is_plan_shown, is_log_shown = front == "plan" or (has_plan and not is_over), front == "log" or (has_log and not is_over)
        self.plan_pane.set_class(not is_plan_shown, "-hidden")
        self.log_pane.set_class(not is_log_shown, "-hidden")
        plan = self.plan_pane.styles
        is_both, most = is_plan_shown and is_log_shown, "72%" if self.app.size.height >= 40 else "60%"
        plan.height, plan.max_height = (max(2, self.plan_rows) + 1, most) if is_both else ("1fr", None)
        if self._zoomed:
            files_cells, side_cells, room = 0, 0, 0
        cells = width - files_cells - side_cells - room
        is_alone = not (side_cells or room or self.query(".-over"))
        aside = max(0, cells - WIDEST_CHAT) // 2 if is_alone else 0
        self.styles.padding = (0, room + aside, 0, 0 if files_cells else aside)
        self.files_pane.styles.margin = (0, aside + 1, 0, 0) if files_cells and aside else None
        self.arranged(files_cells + aside, cells - 2 * aside)

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

    def on_resize(self) -> None:
        """Lay a pane over the chat that was next to it: never."""
        was_docked = self.front != "chat" and not self.is_over(self.front)
        self.place_columns()
        if was_docked and self.is_over(self.front):
            self.bring_to_front("chat")
