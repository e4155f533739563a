"""Looks back: what a session changed, the ways to restore it, and the rules in force."""

from __future__ import annotations

from collections.abc import Awaitable

from lmtui.commands.work_commands import NO_CHANGES
from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.sessions import Changes, Restoration
from lmtui.tui.lines.styled_text import fit
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.modals.rule_list import Rules
from lmtui.tui.modals.undo import restore_dialog
from lmtui.tui.router import SessionView
from lmtui.tui.screens.changes_screen import ChangeSources, ChangesScreen, ChangeView, turns_of
from lmtui.tui.workbench_api import Handler, WorkbenchApi

TURN_CELLS = 56


class ChangeController:
    """Answers the commands about changes and rules."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {
            "changes.show": self.show,
            "undo.rewind": lambda _: self._rewind(),
            "rules.show": lambda _: self._show_rules(),
        }

    def show(self, path: str = "", *, is_whole: bool = False) -> None:
        """Show what the session changed, with the cursor on a file; `is_whole`: all of it by file, not step by step."""
        active, host = self._workbench.active, self._workbench.sessions.host
        if active is not None:
            files = host.files if host is not None else None
            turns = turns_of(active.session.history())
            sources = ChangeSources(active.session.changes, dict(active.state.changes), files, turns)
            view = ChangeView.SESSION if is_whole else None
            _ = self._workbench.app.push_screen(ChangesScreen(sources, self.restore, path, view))

    async def restore(self, plan: Awaitable[Restoration], what: str) -> bool:
        """Show a plan, and do what it says if the answer is yes; True if it was done."""
        active = self._workbench.active
        changes = active.session.changes if active is not None else None
        if changes is None:
            return False
        try:
            planned = await plan
            if not (planned.changes or planned.calls or planned.conflicts or planned.turn_id):
                self._tell("nothing would change")
                return False
            way = await self._workbench.app.push_screen_wait(restore_dialog(planned, what, now=self._workbench.now))
            if way == "look":
                self.show(planned.conflicts[0], is_whole=True)
            if way not in ("all", "talk"):
                return False
            await changes.apply(planned, with_files=way == "all")
        except LmtuiError as error:
            self._tell(error.full_text(), is_error=True)
            return False
        return True

    def _rewind(self) -> None:
        """Let a turn be chosen, then ask how to go back to before it."""
        active = self._workbench.active
        if active is None:
            self._workbench.say("no session yet")
        elif active.session.changes is None:
            self._workbench.say(NO_CHANGES, "warning")
        else:
            work = self._choose_turn(active, active.session.changes)
            _ = self._workbench.app.run_worker(work, group="restore", exclusive=True)

    async def _choose_turn(self, active: SessionView, changes: Changes) -> None:
        turns = turns_of(active.session.history())
        if not turns:
            self._workbench.say("no messages yet, so there is nothing to rewind to")
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
        turn_id = await self._workbench.app.push_screen_wait(Picker("REWIND TO BEFORE …", choices))
        text = next((turn.text for turn in turns if turn.id == turn_id), "")
        if turn_id is not None:
            what = fit(sanitize_line(text.strip()), TURN_CELLS)
            prompt = self._workbench.prompt
            if await self.restore(changes.plan_rewind(turn_id), what) and not prompt.text.strip():
                prompt.replace_text(text)  # what was said can be said again, in other words

    def _show_rules(self) -> None:
        active, host = self._workbench.active, self._workbench.sessions.host
        if active is not None:
            files = host.files if host is not None else None
            _ = self._workbench.app.push_screen(Rules(active.session, files=files))

    def _tell(self, text: str, *, is_error: bool = False) -> None:
        """Say something where the user looks: above the prompt, or over the screen that is open."""
        app = self._workbench.app
        if len(app.screen_stack) == 1:
            self._workbench.say(text, "error" if is_error else "info")
        else:
            app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)
