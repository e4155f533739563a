"""What the workbench does about changes and rules: shows them, asks before anything goes back, passes the answers on."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import TYPE_CHECKING

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.errors import LmtuiError
from lmtui.tui.lines.text import fit
from lmtui.tui.modals.results import Choice
from lmtui.tui.screens.session_actions import SessionActions

if TYPE_CHECKING:
    from lmtui.core.sessions import Changes, Restoration
    from lmtui.tui.widgets.prompt import Prompt

TURN_CELLS = 56


class ChangeActions(SessionActions):
    """The part of the workbench that looks back."""

    prompt: Prompt

    def action_changes_show(self) -> None:
        """Show what the session changed, by step and by file."""
        self.show_changes()

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

    def action_undo_last(self) -> None:
        """Take back what the last step did."""
        self.undo("")

    def action_undo_again(self) -> None:
        """Do again what was taken back last."""
        self.redo("")

    def undo(self, argument: str) -> None:
        """Ask whether the last steps are taken back; `argument` is how many, as it was typed."""
        count, changes = self._count(argument), self._changes()
        if count and changes is not None:
            what = "the last step" if count == 1 else f"the last {count} steps"
            self.run_worker(self.restore(changes.plan_undo(count), what), group="restore", exclusive=True)

    def redo(self, argument: str) -> None:
        """Ask whether what was taken back last is done again."""
        count, changes = self._count(argument), self._changes()
        if count and changes is not None:
            what = "what was undone last" if count == 1 else f"the last {count} steps undone"
            self.run_worker(self.restore(changes.plan_redo(count), what), group="restore", exclusive=True)

    def action_undo_rewind(self) -> None:
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
                fit(clean_line(turn.text.strip()), TURN_CELLS),
                f"{turn.time.astimezone():%H:%M}" + (f"  {counted(touched[turn.id], 'step')}" if touched[turn.id] else ""),
            )
            for turn in reversed(turns)
        ]
        turn_id = await self.app.push_screen_wait(dialogs.picker("REWIND TO BEFORE …", choices))
        text = next((turn.text for turn in turns if turn.id == turn_id), "")
        if turn_id is not None:
            what = fit(clean_line(text.strip()), TURN_CELLS)
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
            self.app.notify(clean_line(text), severity="error" if is_error else "information", markup=False)

    def _count(self, argument: str) -> int:
        typed = argument.strip() or "1"
        count = int(typed[:9]) if typed.isascii() and typed.isdigit() else 0
        if count:
            return count
        self.say(f"how many steps? {clean_line(argument)!r} is no number", "error")
        return 0

    def _changes(self) -> Changes | None:
        active, dialogs = self.desk.active, self.dialogs
        if active is None or dialogs is None:
            self.say("no session yet")
            return None
        if active.session.changes is None:
            self.say(dialogs.no_changes, "warning")
        return active.session.changes

    def action_rules_show(self) -> None:
        """Show every permission rule of the session."""
        active, dialogs = self.desk.active, self.dialogs
        if active is not None and dialogs is not None:
            files = self.desk.host.files if self.desk.host is not None else None
            _ = self.app.push_screen(dialogs.rules(active.session, files=files))
