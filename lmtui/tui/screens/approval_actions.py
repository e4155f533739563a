"""What the workbench does about approvals: shows them, takes them away when they are answered, passes the answers on."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING

from textual.screen import Screen

from lmtui.tui.commands import command, first_key
from lmtui.tui.desk import Desk
from lmtui.tui.modals.results import AllAnswered, Left

if TYPE_CHECKING:
    from lmtui.core.sessions import Answer
    from lmtui.tui.dialogs import Dialogs
    from lmtui.tui.router import Feed
    from lmtui.tui.stage import Tone


class ApprovalActions(Screen[None]):
    """The part of the workbench that brings questions up.  `dialogs` are there soon after the first frame."""

    def __init__(self, desk: Desk, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.desk = desk
        self.dialogs: Dialogs | None = None
        self.now = now
        self._postponed: set[str] = set()
        self._behind_words: set[str] = set()

    @abstractmethod
    def say(self, text: str, tone: Tone = "info") -> None:
        """Show a line above the prompt."""

    @abstractmethod
    def follow_chat(self) -> None:
        """Show the end of the conversation on screen."""

    @abstractmethod
    def typed_words(self) -> str:
        """Return what stands in the prompt, where the keys go there."""

    @abstractmethod
    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""

    def bring_back(self) -> None:
        """Show the questions again that made room for words, once these are sent or taken back."""
        if self._behind_words:
            self._postponed -= self._behind_words
            self._behind_words.clear()
            self.call_after_refresh(self.sync_approval)

    def _is_writing(self) -> bool:
        """Tell whether words are written that a question made room for: none takes the keys until these are gone."""
        self._behind_words &= {each for feed in self.desk.feeds.values() for each in feed.facts.approvals}
        return bool(self._behind_words and self.typed_words())

    def action_session_next_waiting(self) -> None:
        """Go to the next session that waits, this one's own question first."""
        self._postponed.clear()
        self._behind_words.clear()
        router = self.desk.router
        waiting = router.waiting() if router is not None else []
        if router is None or not waiting:
            self.say("no session waits for you")
            return
        if self.desk.active not in waiting:
            router.show(waiting[0])
        self.sync_approval()

    @property
    def is_asked(self) -> bool:
        """Tell whether a question is up and has the keys."""
        dialogs = self.dialogs
        return dialogs is not None and any(isinstance(each, dialogs.approval) for each in self.app.screen_stack)

    def on_screen_suspend(self) -> None:
        """Say where the keys go."""
        self.on_descendant_focus()

    @abstractmethod
    def on_descendant_focus(self) -> None:
        """Say where the keys go now."""

    def sync_approval(self) -> None:
        """Show the question of the session on screen, bring the one that is up to date, or put away one that is answered."""
        active, dialogs = self.desk.active, self.dialogs
        if dialogs is None or self._sync_shown() or self.app.screen is not self or active is None:
            return
        self._ask(active)

    def ask_approval(self, feed: Feed) -> None:
        """Show the first question of a session, whatever is open, also one that was left for later."""
        self._postponed -= set(feed.facts.approvals)
        self._behind_words.clear()
        if self.dialogs is not None and not self._sync_shown():
            self._ask(feed)

    def _ask(self, feed: Feed) -> None:
        dialogs = self.dialogs
        open_ids = [each for each in feed.facts.approvals if each not in self._postponed]
        if open_ids and dialogs is not None and not self._is_writing():
            request = feed.facts.approvals[open_ids[0]]
            shown = dialogs.approval_of(request, feed.facts, now=self.now)
            shown.type_on, shown.was_typing = self.type_on, bool(self.typed_words())
            _ = self.app.push_screen(shown, lambda result: self._decide(feed, request.approval_id, result))

    def _sync_shown(self) -> bool:
        """Keep an approval that is up in line with what is open; False where none is up."""
        dialogs = self.dialogs
        assert dialogs is not None
        shown = next((each for each in self.app.screen_stack if isinstance(each, dialogs.approval)), None)
        if shown is None:
            return False
        top = self.app.screen
        if any(shown.request.approval_id in feed.facts.approvals for feed in self.desk.feeds.values()):
            shown.draw()
        elif top is shown:
            _ = shown.dismiss(None)
        elif isinstance(top, dialogs.beside_approval):
            _ = top.dismiss(None)
            self.call_after_refresh(self.sync_approval)
        return True

    def _decide(self, feed: Feed, approval_id: str, result: Answer | AllAnswered | Left | None) -> None:
        if result is not None and not isinstance(result, Left):
            self.follow_chat()
        match result:
            case Left.STOP:
                feed.session.interrupt()
            case Left.TYPING:
                self._postponed.add(approval_id)
                self._behind_words.add(approval_id)
                key = first_key(command("session.next_waiting"))
                self.say(f"the question waits until this is sent, or taken back; {key} brings it back at once")
            case Left():
                self._postponed.add(approval_id)
                self.say(f"left waiting; {first_key(command('session.next_waiting'))} brings the question back")
            case AllAnswered():
                for each in result.approval_ids:
                    feed.session.answer(each, result.answer)
            case None:
                pass
            case _:
                feed.session.answer(approval_id, result)
        self.call_after_refresh(self.sync_approval)
