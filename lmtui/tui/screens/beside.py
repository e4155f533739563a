"""The side pane: a screen at the right of the conversation, or in its place."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from textual import events
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.color import Color
from textual.content import Content
from textual.style import Style
from textual.widget import Widget
from textual.widgets import Static

from lmtui.core.sanitize import sanitize_line
from lmtui.tui.commands import Command, Scope, bindings, command
from lmtui.tui.key_bindings import first_key
from lmtui.tui.modals.results import ClosedOnce
from lmtui.tui.widgets.bars import Bar, Part
from lmtui.tui.widgets.columns import Columns
from lmtui.tui.widgets.prompt import Prompt

TABS = ("Changes", "File", "Output")
HEADER_FROM_ROWS, TITLE_FROM_ROWS, ROOMY_FROM_ROWS = 9, 13, 24
MOST_KEYS = 8
_ALWAYS = (("app.palette", "commands"), ("app.help", "help"))


def key_part(which: str | Command, rank: int = 0, verb: str = "") -> Part:
    """Return a key and what it does; a click on it does that."""
    each = command(which) if isinstance(which, str) else which
    if not each.bound_keys:
        return Part("", "", rank)
    text = Content.assemble(
        {"↑": "↑↓", "↓": "↑↓", "→": "←→"}.get(first_key(each), first_key(each)), (f" {verb or each.hint}", "$text-muted")
    )
    return Part(text.stylize(Style.from_meta({"verb": each.action})), "", rank)


def keys_of(scope: str) -> list[BindingType]:
    """Return the keys of a side pane for a `BINDINGS`: its own, those of all side panes, and those that move."""
    return bindings(*dict.fromkeys((scope, Scope.TEXT, Scope.SIDE, Scope.APP, Scope.MOVING)))


def tab_part(name: str, action: str, *, is_here: bool) -> Part:
    """Return a tab; a click on it does the action, which shows it."""
    text = Content.styled(name, "bold underline $accent" if is_here else "$text")
    return Part(text if is_here else text.stylize(Style.from_meta({"verb": action})))


class BesideChat(ClosedOnce[bool | None]):
    """Shows something next to the conversation, below the tabs of all that is there and above the keys that count now.

    `panes` are those of the conversation, which know what the other tabs would show; without them it fills the screen.
    """

    CSS_PATH = Path(__file__).parents[1] / "dialogs.tcss"
    tab: str = ""

    def __init__(self, panes: Columns | None = None) -> None:
        super().__init__()
        self.fills = False
        self._panes = panes
        self.end: Callable[[], object] = lambda: None  # called when the screen goes
        self._left = 0
        self._tabs, self._keys = Bar(id="side-tabs"), Bar(id="side-keys")
        self._tab_note: Sequence[Part] = ()
        self._said = Static("", id="changes-note", markup=False)

    def say_below(self, text: str, style: str = "$warning") -> None:
        """Say something below what is shown, nothing for an empty text."""
        self._said.display = bool(text)
        self._said.update(Content.styled(sanitize_line(text), style))

    def compose(self) -> ComposeResult:
        yield self._tabs
        yield from self.content()
        yield self._keys

    def content(self) -> Iterable[Widget]:
        """Return what is between the tabs and the keys."""
        return ()

    def on_mount(self) -> None:
        if self._panes is not None:
            self._panes.make_room(self, is_wanted=True)
        self._place()

    def on_unmount(self) -> None:
        _ = self.end()
        if self._panes is not None:
            self._panes.make_room(self, is_wanted=False)

    def on_resize(self) -> None:
        self._place()

    def take_letter(self, event: events.Key) -> bool:
        """Go, and put a letter that means nothing here into the prompt; False for other keys and where text is typed."""
        letter, focused = event.character or "", self.focused
        is_typed = focused is not None and focused.check_consume_key(event.key, event.character)
        if self._panes is None or is_typed or not letter.isalpha() or event.key in self.active_bindings:
            return False
        self._leave_for_prompt(self._panes).insert(letter)
        return True

    def on_paste(self, event: events.Paste) -> None:
        """Go, and let the prompt take a paste that no field here took."""
        if self._panes is not None:
            event.stop()
            _ = self._leave_for_prompt(self._panes).post_message(events.Paste(event.text))

    def _leave_for_prompt(self, panes: Columns) -> Prompt:
        prompt = panes.screen.query_one(Prompt)
        panes.screen.set_focus(prompt)
        panes.make_room(self, is_wanted=False, keeps_focus=True)
        _ = self.dismiss(None)
        return prompt

    def action_close_or_stop(self) -> None:
        _ = self.dismiss(None)

    def action_zoom(self) -> None:
        """Fill the screen, or go back next to the conversation."""
        self.fills = not self.fills
        self._place()

    def action_next_tab(self, step: int) -> None:
        """Show the next tab that has content, or the one before."""
        tabs = self.tabs()
        at = tabs.index(self.tab) + step if self.tab in tabs else 0
        if tabs and (name := tabs[at % len(tabs)]) != self.tab:
            self.action_side_tab(name)

    def action_side_tab(self, name: str) -> None:
        """Show another tab; the changes that are there already fill the screen, or go back."""
        if name == self.tab == "Changes":
            self.action_zoom()
        make = self._panes.side_tabs[name]() if self._panes is not None and name != self.tab else None
        if make is not None and self._panes is not None:
            screen = make()
            screen.fills = self.fills
            self._panes.make_room(screen, is_wanted=True)  # before this one gives it back, so that nothing moves
            _ = self.app.switch_screen(screen)
        elif name == "Changes" != self.tab:
            self.app.notify("No file was changed.", markup=False)

    @property
    def columns(self) -> int:
        """Return how wide the screen's own part is, in cells."""
        return self.app.size.width - self._left

    @property
    def is_beside(self) -> bool:
        """Tell whether the conversation is next to it."""
        return self.has_class("-docked")

    def draw_tabs(self, note: Sequence[Part] = ()) -> None:
        """Draw the tabs, a note, and how to close."""
        self._tab_note = note
        self._tabs.show(self.tab_parts(), [*note, key_part("app.stop", verb="close")])

    def tabs(self) -> list[str]:
        """Return the names of the tabs that have content."""
        tabs = self._panes.side_tabs if self._panes is not None else {}
        return [name for name in TABS if name == self.tab or (name in tabs and tabs[name]() is not None)]

    def tab_parts(self) -> list[Part]:
        """Return the tabs that have content."""
        return [tab_part(name, f"side_tab('{name}')", is_here=name == self.tab) for name in self.tabs()]

    def show_keys(self, commands: Iterable[Command]) -> None:
        """Say what the keys do here; the last ones are dropped first if space is short."""
        has_room = self._panes is not None and self._panes.room_beside
        zoom = [key_part("side.zoom", 2, "next to chat" if self.fills else "")] if has_room else []
        tabs = [command("side.tab")] if len(self.tab_parts()) > 1 else []
        ways = [way for each in (*commands, *tabs) for way in each.ways if way.hint and way.bound_keys]
        left = [key_part(way, rank + 3) for rank, way in enumerate(ways)]
        left = [*left[: MOST_KEYS - 1], *zoom]
        self._keys.show(left, [key_part(command(each), 1, verb) for each, verb in _ALWAYS])

    def placed(self) -> None:
        """Take note that it is next to the conversation now, or not any more."""

    def _place(self) -> None:
        size = self.app.size
        room = self._panes.room_beside if self._panes is not None and not self.fills else 0
        self.set_class(room > 0, "-docked")
        self._left = size.width - room if room else 0
        is_roomy = size.height >= ROOMY_FROM_ROWS
        self._tabs.display = size.height >= TITLE_FROM_ROWS
        self._tabs.styles.height, self._tabs.styles.padding = 1 + is_roomy, (int(is_roomy), 1, 0, 1)
        top = next((child for child in self.children if child.display), None)
        for child in self.children:  # what is left of them, and above them, shows the workbench
            left = self._left if child is not self._keys else 0
            child.styles.margin = (int(child is top and size.height >= HEADER_FROM_ROWS), 0, 0, left)
        self.styles.background = Color(0, 0, 0, 0)
        self.draw_tabs(self._tab_note)
        self.placed()
