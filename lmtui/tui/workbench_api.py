"""What the parts of the workbench that answer commands may ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Literal, Protocol

from textual.app import App

if TYPE_CHECKING:
    from lmtui.tui.open_sessions import OpenSessions
    from lmtui.tui.widgets.panes import Panes
    from lmtui.tui.widgets.prompt import Prompt

Tone = Literal["info", "warning", "error"]
Handler = Callable[[str], Awaitable[None] | None]


class WorkbenchApi(Protocol):
    """The main screen as its parts see it.  A part is a class that takes a stage and gives `handlers()` by command id.

    A handler opens a view or acts on a pane; it gets what followed its slash command (an empty text from a key or the palette).
    """

    desk: OpenSessions
    panes: Panes | None
    prompt: Prompt
    pane: str
    now: Callable[[], datetime]

    @property
    def app(self) -> App[Any]:
        """Return the app, for screens, workers and the clipboard."""

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a line above the prompt."""

    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""

    def go_to(self, pane: str) -> None:
        """Show a pane and give it the focus."""

    async def action_run_command(self, command_id: str) -> None:
        """Run a command as at its key."""

    def draw(self) -> None:
        """Draw all facts of the session on screen."""
