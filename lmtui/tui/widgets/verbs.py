"""What can be done here: verbs with their keys, each under the mouse too."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Unpack

from textual import events
from textual.content import Content
from textual.geometry import Size
from textual.style import Style
from textual.widget import Widget

from lmtui.tui.commands import Command, first_key
from lmtui.tui.lines.surface import WidgetOptions

GAP = "   "


class Verbs(Widget):
    """Draws commands in one flow; a click on one does it on the screen that it stands on."""

    DEFAULT_CSS = """
    Verbs { height: auto; width: 1fr; }
    """

    def __init__(self, **options: Unpack[WidgetOptions]) -> None:
        super().__init__(**options)
        self._shown: tuple[object, ...] = ()
        self._verbs: list[Content] = []
        self._gap = GAP

    def show(self, commands: Sequence[Command], *, dim: Collection[str] = (), keys_only: bool = False) -> None:
        """Draw these commands; those with an id in `dim`, which do not count yet, are dim."""
        shown = (*commands, *dim, keys_only)
        if shown != self._shown:
            self._shown, self._gap = shown, " " if keys_only else GAP
            self._verbs = [
                _verb(each, is_live=each.id not in dim, keys_only=keys_only)
                for each in commands
                if each.bound_keys and each.hint
            ]
            self.refresh(layout=True)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return how many lines the verbs take."""
        del container, viewport
        return len(self._lines(width))

    def render(self) -> Content:
        """Draw the verbs, none of them broken."""
        return Content("\n").join(self._lines(self.content_size.width))

    async def on_click(self, event: events.Click) -> None:
        """Do what was clicked on."""
        verb = event.style.meta.get("verb")
        if isinstance(verb, str):
            event.stop()
            await self.app.run_action(verb, default_namespace=self.screen)

    def _lines(self, width: int) -> list[Content]:
        rows: list[list[Content]] = [[]]
        for verb in self._verbs:
            if rows[-1] and Content(self._gap).join([*rows[-1], verb]).cell_length > width:
                rows.append([])
            rows[-1].append(verb)
        return [Content(self._gap).join(row) for row in rows]


def verbs_cells(commands: Sequence[Command]) -> int:
    """Return how wide all verbs are on one line."""
    return Content(GAP).join([_verb(each) for each in commands if each.bound_keys and each.hint]).cell_length


def _verb(each: Command, *, is_live: bool = True, keys_only: bool = False) -> Content:
    key = (first_key(each), "bold $accent" if is_live else "$text-muted")
    word = ("" if keys_only else f" {each.hint}", "$text" if is_live else "$text-muted")
    return Content.assemble(key, word).stylize(Style.from_meta({"verb": each.action}))
