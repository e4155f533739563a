"""Which panes are there and how large they are: hide, resize, zoom, and keep it."""

from __future__ import annotations

import asyncio
from pathlib import Path

from lmtui.tui.layout import STEP_CELLS, STEP_PERCENT, Layout, LayoutError, read_layout, save_layout
from lmtui.tui.stage import Handler, Stage


class LayoutPart:
    """Arranges the panes.  `folder` is where the layout is kept."""

    def __init__(self, stage: Stage, folder: Path) -> None:
        self._stage = stage
        self._folder = folder

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands of the layout."""
        return {
            "layout.files": lambda _: self._toggle("files"),
            "layout.plan": lambda _: self._toggle("plan"),
            "layout.log": lambda _: self._toggle("log"),
            "layout.zoom": lambda _: self._zoom(),
            "layout.wider": lambda _: self._resize(STEP_CELLS),
            "layout.narrower": lambda _: self._resize(-STEP_CELLS),
            "layout.taller": lambda _: self._stretch(STEP_PERCENT),
            "layout.lower": lambda _: self._stretch(-STEP_PERCENT),
            "layout.reset": lambda _: self.use(Layout()),
        }

    async def use(self, layout: Layout) -> None:
        """Arrange the panes so, and keep it."""
        panes = self._stage.panes
        if panes is None or panes.layout_of_user == layout:
            return
        panes.use_layout(layout)
        await self.keep(layout)

    async def restore(self) -> None:
        """Arrange the panes as they were kept; a broken file is said."""
        panes = self._stage.panes
        if panes is not None:
            try:
                panes.use_layout(await asyncio.to_thread(read_layout, self._folder))
            except LayoutError as error:
                self._stage.say(str(error), "error")

    async def keep(self, layout: Layout) -> None:
        """Write the layout down."""
        try:
            await asyncio.to_thread(save_layout, self._folder, layout)
        except OSError as error:
            self._stage.say(f"the layout could not be kept: {error}", "warning")

    async def _toggle(self, pane: str) -> None:
        panes = self._stage.panes
        if panes is None:
            return
        if panes.has_focus_in(pane):
            self._stage.prompt.focus()
        await self.use(panes.layout_of_user.toggled(pane))

    def _zoom(self) -> None:
        panes = self._stage.panes
        if panes is not None:
            panes.zoom(panes.focused_pane())

    async def _resize(self, cells: int) -> None:
        panes = self._stage.panes
        if panes is not None:
            column = "side" if panes.focused_pane() in ("plan", "log") else "files"
            await self.use(panes.layout_of_user.with_width(column, panes.width_of(column) + cells))

    async def _stretch(self, percent: int) -> None:
        panes = self._stage.panes
        if panes is not None:
            sign = -1 if panes.focused_pane() == "log" else 1
            await self.use(panes.layout_of_user.with_plan(panes.layout_of_user.plan_percent + sign * percent))
