"""What the controllers of the workbench may ask of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from textual.app import App

from lmtui.core.errors import LmtuiError
from lmtui.tui.widgets.bars import Part, SayLine, Tone

if TYPE_CHECKING:
    from lmtui.core.sessions import SessionHost
    from lmtui.tui.open_sessions import OpenSessions
    from lmtui.tui.router import EventHandlers, SessionView
    from lmtui.tui.widgets.panes import Panes
    from lmtui.tui.widgets.prompt import Prompt
    from lmtui.tui.widgets.start_page import StartPage

Handler = Callable[[str], Awaitable[None] | None]
Found = TypeVar("Found")


class WorkbenchApi(Protocol):
    """The main screen as its controllers see it.  A controller takes it and gives `handlers()` by command id.

    A handler opens a view or acts on a pane; it gets what followed its slash command (an empty text from a key or the palette).
    """

    prompt: Prompt
    start: StartPage
    say_line: SayLine
    pane: str
    branch: str
    now: Callable[[], datetime]

    @property
    def app(self) -> App[Any]:
        """Return the app, for screens, workers and the clipboard."""

    @property
    def active(self) -> SessionView | None:
        """Return the session on screen; before the first frame there is none."""

    @property
    def sessions(self) -> OpenSessions:
        """Return the open sessions."""

    @property
    def panes(self) -> Panes:
        """Return the panes."""

    @property
    def typed_text(self) -> str:
        """Return what is in the prompt, where the keys go there."""

    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a line above the prompt."""

    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""

    def leave_for(self, action: str) -> None:
        """Do what a key does that a question left the keys for."""

    def draw_focus(self) -> None:
        """Say where the keys go now."""

    def go_to(self, pane: str) -> None:
        """Show a pane and give it the focus."""

    def place_dock(self, x: int, cells: int) -> None:
        """Keep the prompt and what floats over the chat within the chat's columns."""

    def draw(self) -> None:
        """Draw all state of the session on screen."""

    def call_after_refresh(self, callback: Callable[[], None]) -> bool:
        """Call something once the screen was drawn."""

    async def action_run_command(self, command_id: str) -> None:
        """Run a command as at its key."""


def wanted_session(workbench: WorkbenchApi) -> SessionView | None:
    """Return the session on screen; say so where there is none."""
    if workbench.active is None:
        workbench.say("no session yet")
    return workbench.active


async def tried(workbench: WorkbenchApi, work: Awaitable[Found], tone: Tone = "error") -> Found | None:
    """Return what something gives; where it fails, say why above the prompt and return None."""
    try:
        return await work
    except LmtuiError as error:
        workbench.say(error.full_text(), tone)
        return None


class FeatureController:
    """What a feature adds to the workbench, once the host is there.

    `header` is what the header says of it, `hint` what the key row says while the session rests.
    """

    header: Part | None = None
    hint: Part | None = None

    def __init__(self, workbench: WorkbenchApi, host: SessionHost) -> None:
        self.workbench, self.host = workbench, host

    def handlers(self) -> dict[str, Handler]:
        """Return what opens its views, by command id."""
        return {}

    def event_handlers(self) -> EventHandlers:
        """Return what is called with each event of a type, of all sessions that are open."""
        return {}

    def start(self) -> None:
        """Begin what runs without a command; a session was opened."""

    def open_session(self, session_id: str) -> None:
        """Open a session in the workbench; why that is not possible is said there."""
        work = tried(self.workbench, self.workbench.sessions.open(session_id))
        _ = self.workbench.app.run_worker(work, group="open")
