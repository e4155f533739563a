"""Looks back: what a session changed, how it is restored, and the rules in force."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence

from textual.content import Content

from lmtui.commands.work_commands import NO_CHANGES
from lmtui.core.errors import LmtuiError
from lmtui.core.permissions.rules import SOURCES, Rule
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize_line, sanitize_path
from lmtui.core.sessions import Session
from lmtui.core.workspace import Changes, Restoration
from lmtui.tui.commands import Command, Scope, key_of
from lmtui.tui.lines.diff_view import DiffView
from lmtui.tui.lines.patch import MINUS, patches_of
from lmtui.tui.lines.styled_text import Line, StyleRole, fit, fit_middle, join_roles, pad
from lmtui.tui.lines.transcript import names_text
from lmtui.tui.modals.approval_text import titled
from lmtui.tui.modals.consent import ConsentDialog, Question
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm, Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.router import SessionView
from lmtui.tui.screens.changes_screen import ChangeSources, ChangesScreen, ChangeView, Turn, turns_of
from lmtui.tui.workbench_api import Handler, WorkbenchApi, wanted_session

TURN_CELLS = 56


GROUPS: dict[str, StyleRole] = {"deny": "bad", "ask": "warn", "allow": "good"}
KEPT = frozenset(SOURCES.values())
EMPTY = f"No rules yet. {key_of('request.always')} in an approval adds one."


class Rules(ListDialog[Rule | str, None]):
    """Lists the rules of a session by what they say."""

    NAME, HEADING, TAB, CHOOSING = "rules", "Rules", "rules.show", ""
    VERBS = (("delete", "revoke"),)

    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    async def rows(self) -> Sequence[Rule | str]:
        """Return the rules below what they do."""
        rows: list[Rule | str] = []
        for effect in GROUPS:
            rules = [rule for rule in self._session.rules if rule.effect == effect]
            rows += ["", effect, *rules] if rules else []
        return rows[1:]

    def key(self, row: Rule | str) -> str:
        """Return what a rule says and where it is from."""
        return "" if isinstance(row, str) else f"{row.effect} {row} {row.source}"

    def line(self, row: Rule | str, width: int) -> Line:
        """Return a rule, or the heading of those with the same effect."""
        if isinstance(row, str):
            return ((row.capitalize(), join_roles("strong", GROUPS[row])),) if row else ()
        source = sanitize_line(row.source)
        room = max(12, width - len(source) - 4)
        return (f"  {pad(fit_middle(escape_invisible_line(str(row)), room), room)}", ""), (f"  {source}", "muted")

    def about(self, row: Rule | str | None) -> tuple[str, Sequence[Command]]:
        """Return a rule whole."""
        if row is None or isinstance(row, str):
            return EMPTY, ()
        return f"{escape_invisible_line(str(row))}  ·  {sanitize_line(row.source)}", self.verbs()

    async def do_delete(self, rule: Rule) -> None:
        """Ask, then revoke a rule."""
        text = f"{escape_invisible_line(str(rule))}  ({sanitize_line(rule.source)})\n{after_words(rule)}"
        if await self.app.push_screen_wait(Confirm("Revoke this rule?", text)):
            self._session.revoke(rule)
            self.show(await self.rows())
            self.say(f"revoked: {escape_invisible_line(str(rule))}. {after_words(rule)}", "$warning")


def after_words(rule: Rule) -> str:
    """Return what revoking does, and for a rule that is elsewhere where it is to be changed."""
    if rule.source in KEPT:
        return "It is gone for good."
    return f"For this session only. To remove it, edit {rule.effect} in the settings."


_VERBS = {"undo": "undo", "redo": "redo", "restore": "revert", "rewind": "rewind"}
_DONE = {"undo": "Undone · /redo does it again", "redo": f"Redone · {key_of('undo.last')} undo"}


class RestoreQuestion(Question[str | None]):
    """Shows a plan.  One with conflicts cannot be agreed to; a rewind may leave the files as they are.

    A yes needs no reading: what was undone can be done again.
    """

    scopes = (Scope.RESTORE,)
    guarded = ("restore.yes", "restore.talk")
    decisions = ("restore.yes", "restore.look", "restore.talk", "restore.no")
    takes_side = True
    needs_reading = False

    def __init__(self, plan: Restoration, what: str) -> None:
        self._diff = DiffView()
        super().__init__(self._diff)
        self._plan, self._what = plan, what
        self._diff.empty_text = "No file changes."

    def begin(self) -> None:
        """Show what would change."""
        self._diff.show_patches(patches_of(self._plan.changes))

    def headline(self, width: int) -> Content:
        """Return what would be done, and how much of it."""
        changes, verb = self._plan.changes, _VERBS.get(self._plan.action, sanitize_line(self._plan.action)).capitalize()
        added, removed = sum(each.added_lines for each in changes), sum(each.removed_lines for each in changes)
        counts = f"{pluralize(len(changes), 'file')}  +{added} {MINUS}{removed}" if changes else "no files"
        return titled(" ".join(filter(None, (verb, sanitize_path(self._what)))) + "?", counts, "$text-muted", width)

    def notes(self) -> Content:
        """Return what is against it, and what it leaves out."""
        lines: list[Content] = []
        if len(self._plan.changes) == 1:
            lines.append(Content.styled(sanitize_path(self._plan.changes[0].path), "$text-muted"))
        for lead, names, after, style in (
            ("Refused: changed in the meantime: ", self._plan.conflicts, "", "$error"),
            ("Replaced, and their current content is lost: ", self._plan.unkept, "", "$warning"),
            ("Left alone: ", self._plan.left_out, " (not tracked)", "$text-muted"),
        ):
            if names:
                lines.append(Content.styled(f"{lead}{names_text(names)}{after}", style))
        return Content("\n").join(lines)

    def left_out(self) -> Collection[str]:
        """Return the ids of the answers that mean nothing here."""
        talk = () if self._plan.action == "rewind" else ("restore.talk",)
        return *talk, "restore.yes" if self._plan.conflicts else "restore.look"

    def words(self) -> Mapping[str, str]:
        """Return the word for what would be done."""
        return {"restore.yes": _VERBS.get(self._plan.action, "yes")}

    def values(self) -> Mapping[str, str | None]:
        """Return what each answer gives: what is put back, or None for nothing."""
        return {"restore.yes": "all", "restore.talk": "talk", "restore.look": "look", "restore.no": None}


class ChangeController:
    """Answers the commands about changes and rules."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench

    def handlers(self) -> dict[str, Handler]:
        """Return what answers each command."""
        return {"changes.show": self.show, "undo.rewind": lambda _: self._rewind(), "rules.show": lambda _: self._show_rules()}

    def show(self, path: str = "", *, is_whole: bool = False) -> None:
        """Show what the session changed, at a file; `is_whole`: all of it by file, not turn by turn."""
        if self._workbench.active is not None:
            _ = self._workbench.app.push_screen(self._screen(path, is_whole=is_whole))

    def tab(self) -> Callable[[], ChangesScreen] | None:
        """Return what shows the changes, where there are some."""
        active = self._workbench.active
        return self._screen if active is not None and active.state.changes else None

    def _screen(self, path: str = "", *, is_whole: bool = False) -> ChangesScreen:
        active, host = self._workbench.active, self._workbench.sessions.host
        assert active is not None
        session, files = active.session, host.files if host is not None else None

        def read() -> ChangeSources:
            turns = turns_of(session.history())
            return ChangeSources(
                session.changes,
                dict(active.state.changes),
                files,
                turns,
                lambda: session.is_running,
                self._workbench.now,
            )

        view = ChangeView.SESSION if is_whole or path else None
        panes = self._workbench.panes
        return ChangesScreen(read, self.restore, self._comment, path=path, view=view, panes=panes, listen=session.subscribe)

    def _comment(self, text: str) -> None:
        """Put what was written about a hunk into the prompt, on a separate line."""
        prompt = self._workbench.prompt
        prompt.insert(f"{text}\n", prompt.document.end)
        self._tell(f"{text.partition(' ')[0]} is in the prompt")

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
            way = await self._workbench.app.push_screen_wait(ConsentDialog(RestoreQuestion(planned, what)))
            if way == "look":
                self.show(planned.conflicts[0], is_whole=True)
            if way not in ("all", "talk"):
                return False
            await changes.apply(planned, with_files=way == "all")
            if planned.action in _DONE:
                self._tell(_DONE[planned.action])
        except LmtuiError as error:
            self._tell(error.full_text(), is_error=True)
            return False
        return True

    def _rewind(self) -> None:
        """Let a turn be chosen, then ask how to go back to before it."""
        if (active := wanted_session(self._workbench)) is None:
            return
        if active.session.changes is None:
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

        def choice(turn: Turn) -> Choice:
            steps = f"  {pluralize(touched[turn.id], 'step')}" if touched[turn.id] else ""
            text = fit(sanitize_line(turn.text.strip()), TURN_CELLS)
            return Choice(turn.id, text, f"{turn.time.astimezone():%H:%M}{steps}")

        choices = [choice(turn) for turn in reversed(turns)]
        turn_id = await self._workbench.app.push_screen_wait(Picker("Rewind to before …", choices))
        text = next((turn.text for turn in turns if turn.id == turn_id), "")
        if turn_id is not None:
            what = fit(sanitize_line(text.strip()), TURN_CELLS)
            prompt = self._workbench.prompt
            if await self.restore(changes.plan_rewind(turn_id), what) and not prompt.text.strip():
                prompt.replace_text(text)  # what was said can be said again, in other words

    def _show_rules(self) -> None:
        if (active := self._workbench.active) is not None:
            _ = self._workbench.app.push_screen(Rules(active.session))

    def _tell(self, text: str, *, is_error: bool = False) -> None:
        """Say something where the user looks: above the prompt, or over the screen that is open."""
        app = self._workbench.app
        if len(app.screen_stack) == 1:
            self._workbench.say(text, "error" if is_error else "info")
        else:
            app.notify(sanitize_line(text), severity="error" if is_error else "information", markup=False)
