"""What the controllers of the workbench may ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from lmtui.core.errors import LmtuiError
from lmtui.tui.screens.workbench import Workbench
from lmtui.tui.widgets.bars import Part

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost

Handler = Callable[[str], Awaitable[None] | None]


WorkbenchApi = Workbench
"""The main screen as its controllers see it.  A controller takes it and gives `handlers()` by command id.

A handler opens a view or acts on a pane; it gets what followed its slash command (an empty text from a key or the palette).
"""


class FeatureController:
    """What a feature adds to the workbench, once the host is there."""

    def __init__(self, workbench: WorkbenchApi, host: SessionHost) -> None:
        self.workbench, self.host = workbench, host

    def handlers(self) -> dict[str, Handler]:
        """Return what opens its views, by command id."""
        return {}

    def header_part(self) -> Part | None:
        """Return what the header says of it."""

    def hint_part(self) -> Part | None:
        """Return what the key row says of it while the session rests."""

    def start(self) -> None:
        """Begin what runs without a command; a session was opened."""

    def open_session(self, session_id: str) -> None:
        """Open a session in the workbench; why that is not possible is said there."""
        _ = self.workbench.app.run_worker(self._opened(session_id), group="open")

    async def _opened(self, session_id: str) -> None:
        try:
            _ = await self.workbench.sessions.open(session_id)
        except LmtuiError as error:
            self.workbench.say(error.full_text(), "error")
