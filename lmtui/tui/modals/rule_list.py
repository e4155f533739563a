"""Every permission rule in force, where it comes from, and the way to take it back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from lmtui.core.errors import LmtuiError
from lmtui.core.permissions.rules import SOURCES, Rule
from lmtui.core.sanitize import escape_invisible_line, sanitize_line
from lmtui.core.sessions import Session
from lmtui.core.workspace import Files
from lmtui.tui.commands import Command, Scope, bindings, command, first_key, of_scope
from lmtui.tui.lines.styled_text import Line, fit_middle, pad
from lmtui.tui.modals.list_dialog import ListDialog
from lmtui.tui.modals.picker import Confirm

GROUPS = {
    "deny": ("DENY", "bad", "never happens"),
    "ask": ("ASK", "warn", "always asks first"),
    "allow": ("ALLOW", "good", "happens without asking"),
}
_UNMATCHED = "matches no file"
KEPT = frozenset(SOURCES.values())
EMPTY = f"""\
No rules yet. The mode alone decides what asks ({first_key(command("mode.choose"))}).

Rules come from three places:
  an approval   {first_key(command("approve.session"))} for this session, {first_key(command("approve.always"))} for longer
  settings      allow and deny in config.toml
  the start     --allow "Shell(git status*)"  --deny "Write(keys/**)"

Deny comes before ask, ask before allow, all of them before the mode."""


class Rules(ListDialog[Rule | str, None]):
    """Lists the rules of a session by what they say."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.RULES)]
    NAME, HEADING, SCOPE = "rules", "RULES", Scope.RULES

    def __init__(
        self, session: Session, confirm: Callable[[str, str], Confirm] = Confirm, *, files: Files | None = None
    ) -> None:
        super().__init__()
        self._session, self._confirm, self._files = session, confirm, files
        self._unmatched: frozenset[Rule] = frozenset()

    def on_mount(self) -> None:
        """List the rules."""
        self.call_after_refresh(self._read)
        if self._files is not None and self._session.rules:
            self.run_worker(self._look_for_files(self._files), group="unmatched", exclusive=True)

    async def _look_for_files(self, files: Files) -> None:
        self._unmatched = frozenset(await files.unmatched(self._session.rules))
        if self._unmatched and self.is_attached:
            self._read()

    def _read(self) -> None:
        rows: list[Rule | str] = []
        for effect in GROUPS:
            rules = [rule for rule in self._session.rules if rule.effect == effect]
            rows += ["", effect, *rules] if rules else []
        self.show(rows[1:])

    def key(self, row: Rule | str) -> str:
        """Return what a rule says and where it is from."""
        return "" if isinstance(row, str) else f"{row.effect} {row} {row.source}"

    def line(self, row: Rule | str, width: int) -> Line:
        """Return a rule, or the heading of those with the same effect."""
        if isinstance(row, str):
            return _heading(row) if row else ()
        return rule_line(row, width, is_unmatched=row in self._unmatched)

    def about(self, row: Rule | str | None) -> tuple[str, Sequence[Command]]:
        """Return a rule whole."""
        if row is None or isinstance(row, str):
            return EMPTY, ()
        note = f"  ·  {_UNMATCHED}" if row in self._unmatched else ""
        return f"{escape_invisible_line(str(row))}  ·  {sanitize_line(row.source)}{note}", of_scope(Scope.RULES)

    def action_rules_revoke(self) -> None:
        """Ask, then revoke the marked rule."""
        if isinstance(self.current, Rule):
            self.run_worker(self._ask(self.current), group="rules", exclusive=True)

    async def _ask(self, rule: Rule) -> None:
        text = f"{escape_invisible_line(str(rule))}  ({sanitize_line(rule.source)})\n{after_words(rule)}"
        if not await self.app.push_screen_wait(self._confirm("Revoke this rule?", text)):
            return
        try:
            self._session.revoke(rule)
        except LmtuiError as error:
            self.say(error.full_text(), "$error")
            return
        self._read()
        self.say(f"revoked: {escape_invisible_line(str(rule))}. {after_words(rule)}", "$warning")


def after_words(rule: Rule) -> str:
    """Return what revoking does, and for a rule that is elsewhere where it is to be changed."""
    if rule.source in KEPT:
        return "It is gone for good."
    return (
        f"It stops for this session only: to be rid of it, change {rule.effect} in the settings (lmtui config show says where)."
    )


def rule_line(rule: Rule, width: int, *, is_unmatched: bool = False) -> Line:
    """Return a rule and where it came from in aligned columns."""
    source = sanitize_line(rule.source) + (f", {_UNMATCHED}" if is_unmatched else "")
    room = max(12, width - len(source) - 4)
    return (f"  {pad(fit_middle(escape_invisible_line(str(rule)), room), room)}", ""), (f"  {source}", "muted")


def _heading(effect: str) -> Line:
    word, role, meaning = GROUPS[effect]
    return (word, f"strong {role}"), (f"  {meaning}", "muted")
