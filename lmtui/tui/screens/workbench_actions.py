"""What can be done in the panes of the workbench: go there, list, read, compare, copy."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Awaitable, Callable
from datetime import datetime
from typing import TYPE_CHECKING

from textual import on
from textual.screen import Screen
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.results import AllAnswered, Choice, Dismissed
from lmtui.tui.open_sessions import OpenSessions
from lmtui.tui.widgets.bars import WIDE_CELLS
from lmtui.tui.widgets.prompt import Prompt

if TYPE_CHECKING:
    from lmtui.core.sessions import Answer, Changes, Restoration
    from lmtui.tui.controllers.file_controller import FileController
    from lmtui.tui.controllers.pane_controller import PaneController
    from lmtui.tui.lazy_imports import LazyImports
    from lmtui.tui.lines.file_tree import FileTree
    from lmtui.tui.lines.tool_log import ToolLog
    from lmtui.tui.router import SessionView
    from lmtui.tui.widgets.panes import Panes
    from lmtui.tui.workbench_api import Handler, Tone


class ApprovalActions(Screen[None]):
    """The part of the workbench that brings questions up.  `dialogs` are there soon after the first frame."""

    def __init__(self, desk: OpenSessions, now: Callable[[], datetime]) -> None:
        super().__init__()
        self.desk = desk
        self.dialogs: LazyImports | None = None
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
        """Return what is in the prompt, where the keys go there."""

    @abstractmethod
    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""

    def bring_back(self) -> None:
        """Show the questions again that made room for words, once these are sent or taken back."""
        if self._behind_words:
            self._postponed -= self._behind_words
            self._behind_words.clear()
            self.call_after_refresh(self.sync_approval)

    def _waiting_key(self) -> str:
        return self.dialogs.key_of("session.next_waiting") if self.dialogs is not None else ""

    def _is_writing(self) -> bool:
        """Tell whether words are written that a question made room for: none takes the keys until these are gone."""
        self._behind_words &= {each for feed in self.desk.feeds.values() for each in feed.facts.approvals}
        return bool(self._behind_words and self.typed_words())

    def next_waiting(self) -> None:
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

    def ask_approval(self, feed: SessionView) -> None:
        """Show the first question of a session, whatever is open, also one that was left for later."""
        self._postponed -= set(feed.facts.approvals)
        self._behind_words.clear()
        if self.dialogs is not None and not self._sync_shown():
            self._ask(feed)

    def _ask(self, feed: SessionView) -> None:
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

    def _decide(self, feed: SessionView, approval_id: str, result: Answer | AllAnswered | Dismissed | None) -> None:
        if result is not None and not isinstance(result, Dismissed):
            self.follow_chat()
        match result:
            case Dismissed.STOP:
                feed.session.interrupt()
            case Dismissed.TYPING:
                self._postponed.add(approval_id)
                self._behind_words.add(approval_id)
                key = self._waiting_key()
                self.say(f"the question waits until this is sent, or taken back; {key} brings it back at once")
            case Dismissed():
                self._postponed.add(approval_id)
                self.say(f"left waiting; {self._waiting_key()} brings the question back")
            case AllAnswered():
                for each in result.approval_ids:
                    feed.session.answer(each, result.answer)
            case None:
                pass
            case _:
                feed.session.answer(approval_id, result)
        self.call_after_refresh(self.sync_approval)


STOPPING = "stopping …"


class SessionActions(ApprovalActions):
    """The part of the workbench that acts on sessions; the layout is the subclass's."""

    def __init__(self, desk: OpenSessions, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self._has_failed_to_open = False

    @abstractmethod
    def clear_error(self) -> None:
        """Put an error away that is repaired."""

    @abstractmethod
    def send_unsent(self) -> None:
        """Send what was typed before there was a session."""

    async def open_session(self, session_id: str = "") -> SessionView | None:
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

    def say_status(self) -> None:
        """Say where one is."""
        active, dialogs = self.desk.active, self.dialogs
        if active is not None and dialogs is not None:
            self.say(dialogs.status_text(active.facts, active.session.id))

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


TURN_CELLS = 56


class ChangeActions(SessionActions):
    """The part of the workbench that looks back."""

    prompt: Prompt

    def show_changes(self, path: str = "", *, is_whole: bool = False) -> None:
        """Show what the session changed, with the cursor on a file; `is_whole`: all of it by file, not step by step."""
        active, dialogs = self.desk.active, self.dialogs
        if active is None or dialogs is None:
            return
        files = self.desk.host.files if self.desk.host is not None else None
        turns = dialogs.turns_of(active.session.history())
        sources = dialogs.change_sources(active.session.changes, dict(active.facts.changes), files, turns)
        view = dialogs.change_view.SESSION if is_whole else None
        _ = self.app.push_screen(dialogs.changes(sources, self.restore, path, view))

    def rewind(self) -> None:
        """Let a turn be chosen, then ask how to go back to before it."""
        changes = self._changes()
        if changes is not None:
            self.run_worker(self._rewind(changes), group="restore", exclusive=True)

    async def _rewind(self, changes: Changes) -> None:
        active, dialogs = self.desk.active, self.dialogs
        assert active is not None
        assert dialogs is not None
        turns = dialogs.turns_of(active.session.history())
        if not turns:
            self.say("nothing was said yet, so there is nothing to go back to")
            return
        touched = {turn.id: sum(step.turn_id == turn.id for step in changes.steps()) for turn in turns}
        choices = [
            Choice(
                turn.id,
                fit(sanitize_line(turn.text.strip()), TURN_CELLS),
                f"{turn.time.astimezone():%H:%M}" + (f"  {pluralize(touched[turn.id], 'step')}" if touched[turn.id] else ""),
            )
            for turn in reversed(turns)
        ]
        turn_id = await self.app.push_screen_wait(dialogs.picker("REWIND TO BEFORE …", choices))
        text = next((turn.text for turn in turns if turn.id == turn_id), "")
        if turn_id is not None:
            what = fit(sanitize_line(text.strip()), TURN_CELLS)
            if await self.restore(changes.plan_rewind(turn_id), what) and not self.prompt.text.strip():
                self.prompt.replace_text(text)  # what was said can be said again, in other words

    async def restore(self, plan: Awaitable[Restoration], what: str) -> bool:
        """Show a plan, and do what it says if the answer is yes; True if it was done."""
        changes, dialogs = self._changes(), self.dialogs
        if changes is None or dialogs is None:
            return False
        try:
            planned = await plan
            if not (planned.changes or planned.calls or planned.conflicts or planned.turn_id):
                self._tell("nothing would change")
                return False
            way = await self.app.push_screen_wait(dialogs.restore(planned, what, now=self.now))
            if way == "look":
                self.show_changes(planned.conflicts[0], is_whole=True)
            if way not in ("all", "talk"):
                return False
            await changes.apply(planned, with_files=way == "all")
        except LmtuiError as error:
            self._tell(error.full_text(), is_error=True)
            return False
        return True

    def _tell(self, text: str, *, is_error: bool = False) -> None:
        """Say something where the user looks: above the prompt, or over the screen that is open."""
        if self.app.screen is self:
            self.say(text, "error" if is_error else "info")
        else:
            self.app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)

    def _changes(self) -> Changes | None:
        active, dialogs = self.desk.active, self.dialogs
        if active is None or dialogs is None:
            self.say("no session yet")
            return None
        if active.session.changes is None:
            self.say(dialogs.no_changes, "warning")
        return active.session.changes

    def show_rules(self) -> None:
        """Show every permission rule of the session."""
        active, dialogs = self.desk.active, self.dialogs
        if active is not None and dialogs is not None:
            files = self.desk.host.files if self.desk.host is not None else None
            _ = self.app.push_screen(dialogs.rules(active.session, files=files))


class PaneActions(ChangeActions):
    """The part of the workbench that answers the panes."""

    def __init__(self, desk: OpenSessions, now: Callable[[], datetime]) -> None:
        super().__init__(desk, now)
        self.panes: Panes | None = None
        self.pane = "chat"
        self.files_part: FileController | None = None
        self.agent_part: PaneController | None = None
        self.prompt = Prompt(placeholder="what should be done?")

    @abstractmethod
    def draw(self) -> None:
        """Draw all facts of the session on screen."""

    def own_handlers(self) -> dict[str, Handler]:
        """Return what the screen itself answers."""
        return {
            "session.next_waiting": lambda _: self.next_waiting(),
            "session.status": lambda _: self.say_status(),
            "changes.show": self.show_changes,
            "undo.rewind": lambda _: self.rewind(),
            "rules.show": lambda _: self.show_rules(),
            "pane.files": lambda _: self.go_to("files"),
            "pane.plan": lambda _: self.go_to("plan"),
            "pane.log": lambda _: self.go_to("log"),
            "pane.chat": lambda _: self.go_to("chat"),
        }

    @property
    def has_tabs(self) -> bool:
        """Tell whether the side panes are hidden and named in the header instead."""
        return self.app.size.width < WIDE_CELLS

    def go_to(self, pane: str) -> None:
        """Show a pane where the panes share the screen, and give it the focus; from the chat itself, back to the prompt."""
        widget = self._pane_widget(pane)
        is_there = (widget.has_focus and widget is not self.prompt) if pane == "chat" else pane == self.pane
        self.pane = "chat" if is_there else pane
        self.set_class(self.pane != "chat", "-side")
        for each in ("files", "plan", "log"):
            self.set_class(each == self.pane, f"-{each}")
        if self.panes is not None and pane in self.panes.layout_of_user.hidden and not self.has_tabs:
            self.panes.use_layout(self.panes.layout_of_user.shown(pane))
        target = self.prompt if is_there else self._pane_widget(pane)
        target.focus()
        self.draw()

    def _pane_widget(self, pane: str) -> Widget:
        return (self.panes.pane(pane) if self.panes is not None else None) or self.prompt

    @on(Prompt.Paged)
    def _page(self, event: Prompt.Paged) -> None:
        if self.panes is not None:
            self.panes.page_chat(event.pages)

    def on_file_tree_listing_wanted(self, event: FileTree.ListingWanted) -> None:
        """List a folder for the tree."""
        if self.files_part is not None:
            self.files_part.load(event.path)

    def on_file_tree_states_wanted(self, event: FileTree.StatesWanted) -> None:
        """Look at git again, and after a step at what is not watched."""
        if self.files_part is not None:
            self.files_part.read_git()
            if event.is_step_end:
                self.files_part.step_ended()

    def on_file_tree_file_chosen(self, event: FileTree.FileChosen) -> None:
        """Show a file."""
        if self.files_part is not None:
            self.files_part.open_file(event.path)

    def host_is_there(self) -> None:
        """Ask for what could not be had before."""
        if self.files_part is not None:
            self.files_part.start()

    def on_tool_log_opened(self, event: ToolLog.Opened) -> None:
        """Show a call in the conversation."""
        if self.agent_part is not None:
            self.run_worker(self.agent_part.show(event.agent, event.call_id), group="agents")

    def action_files_diff(self) -> None:
        """Show how the session changed the file under the cursor."""
        active = self.desk.active
        if self.panes is None or active is None or not self.panes.files.has_focus:
            return
        path = self.panes.files.current_path
        if path in active.facts.changes:
            self.show_changes(path)

    def action_lines_copy(self) -> None:
        """Copy what the cursor is on."""
        text = self.panes.copied_text() if self.panes is not None else ""
        if text:
            self.app.copy_to_clipboard(text)

    async def forget_panes(self, session_id: str) -> None:
        """Take away the panes of a session that is gone."""
        if self.panes is not None:
            await self.panes.forget(session_id)

    @on(Prompt.Changed)
    def _bring_questions_back(self) -> None:
        if not self.prompt.text:
            self.bring_back()

    def follow_chat(self) -> None:
        """Show the end of the conversation on screen."""
        if self.panes is not None:
            self.panes.follow_chat()

    def typed_words(self) -> str:
        """Return what is in the prompt, where the keys go there."""
        return self.prompt.text if self.focused is self.prompt else ""

    def type_on(self, text: str) -> None:
        """Write what was typed over a question into the prompt."""
        _ = self.prompt.insert(text)
        self.prompt.focus()
