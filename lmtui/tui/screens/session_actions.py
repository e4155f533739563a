"""What can be done with sessions from the workbench: switch, name, choose the mode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from lmtui.core.errors import LmtuiError
from lmtui.core.rules import Mode
from lmtui.tui.desk import Desk
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.approval_actions import ApprovalActions
from lmtui.tui.wording import MODE_NOTES

if TYPE_CHECKING:
    from lmtui.tui.router import Feed

STOPPING = "stopping …"


class SessionActions(ApprovalActions):
    """The part of the workbench that acts on sessions; the layout is the subclass's."""

    def __init__(self, desk: Desk, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self._has_failed_to_open = False

    @abstractmethod
    def clear_error(self) -> None:
        """Put an error away that is mended."""

    @abstractmethod
    def send_unsent(self) -> None:
        """Send what was typed before there was a session."""

    async def open_session(self, session_id: str = "") -> Feed | None:
        """Open a session and put it on screen; None where it could not be opened, which is said."""
        try:
            feed = await self.desk.open(session_id)
        except LmtuiError as error:
            self.say(error.full_text(), "error")
            self._has_failed_to_open = True
            return None
        if self._has_failed_to_open:
            self._has_failed_to_open = False
            self.clear_error()
        self.send_unsent()
        return feed

    def interrupt(self) -> bool:
        """Stop the running turn of the session on screen; False where none runs."""
        active = self.desk.active
        if active is None or not active.session.is_running:
            return False
        active.session.interrupt()
        self.say(STOPPING)
        return True

    def action_session_new(self) -> None:
        """Start afresh."""
        if self.desk.host is not None:
            self.run_worker(self.open_session(), group="open-session")

    def action_session_id(self) -> None:
        """Show the session's id."""
        active = self.desk.active
        self.say(f"session {active.session.id}" if active else "no session yet")

    def action_session_rename(self) -> None:
        """Ask for a title."""
        active, dialogs = self.desk.active, self.dialogs
        if active is not None and dialogs is not None:
            _ = self.app.push_screen(dialogs.ask_text("Title of this session", value=active.facts.title), self._rename)

    def _rename(self, title: str | None) -> None:
        if title and self.desk.active is not None:
            self.desk.active.session.rename(title)

    def action_session_status(self) -> None:
        """Say where one stands."""
        active, dialogs = self.desk.active, self.dialogs
        if active is None or dialogs is None:
            self.say("no session yet")
            return
        self.say(dialogs.status_text(active.facts, active.session.id))

    def action_mode_choose(self) -> None:
        """Let a mode be chosen."""
        active, dialogs = self.desk.active, self.dialogs
        if dialogs is None:
            return
        choices = [Choice(mode.value, mode.value, note) for mode, note in MODE_NOTES.items()]
        chosen = active.session.mode.value if active else ""
        _ = self.app.push_screen(dialogs.picker("PERMISSION MODE", choices, chosen=chosen), self.set_mode)

    def set_mode(self, name: str | None) -> None:
        """Change the mode of the session on screen; a wrong name is said."""
        if name is None or self.desk.active is None:
            return
        if name not in set(Mode):
            self.say(f"no mode {name!r}; there are {', '.join(Mode)}", "error")
            return
        self.desk.active.session.set_mode(Mode(name))

    async def delete_session(self, session_id: str) -> None:
        """Delete a session; the one on screen gives way to a new one."""
        host = self.desk.host
        if host is None:
            return
        was_active = self.desk.active is not None and self.desk.active.session.id == session_id
        await host.archive.delete(session_id)
        self.desk.forget(session_id)
        await self.forget_panes(session_id)
        if was_active:
            await self.open_session()

    async def close_session(self, session_id: str) -> None:
        """Close a session; the one on screen gives way to another that is open, else to a new one."""
        feed = self.desk.feeds.get(session_id)
        was_active = feed is not None and feed is self.desk.active
        before = [each for each in self.desk.order if each < session_id]
        self.desk.forget(session_id)
        if feed is not None:
            await feed.session.close()
            await self.forget_panes(session_id)
        if was_active:
            await self.open_session(next(iter([*before[-1:], *self.desk.order]), ""))

    @abstractmethod
    async def forget_panes(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
