"""Every permission rule in force, where it comes from, and the way to take it back."""

from __future__ import annotations

from collections.abc import Callable
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.errors import LmtuiError
from lmtui.core.permissions.rules import SOURCES, Rule
from lmtui.core.sanitize import escape_invisible_line, sanitize, sanitize_line
from lmtui.core.sessions import Session
from lmtui.core.workspace import Files
from lmtui.tui.commands import Scope, bindings, closing, command, first_key, of_scope
from lmtui.tui.lines.styled_text import fit_middle, pad
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.widgets.bars import Verbs

GROUPS = {
    "deny": ("DENY", "$error", "never happens"),
    "ask": ("ASK", "$warning", "always asks first"),
    "allow": ("ALLOW", "$success", "happens without asking"),
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


class Rules(ModalScreen[None]):
    """Lists the rules of a session by what they say."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.RULES), *bindings(Scope.APP)]

    SCOPE: ClassVar[Scope] = Scope.RULES

    def __init__(
        self, session: Session, confirm: Callable[[str, str], Confirm] = Confirm, *, files: Files | None = None
    ) -> None:
        super().__init__()
        self._session, self._confirm, self._files = session, confirm, files
        self._rules: list[Rule] = []
        self._unmatched: frozenset[Rule] = frozenset()
        self._options = OptionList(compact=True, markup=False)
        self._state = Static("", id="rules-state", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the list."""
        with Vertical(classes="box wide", id="rules-box"):
            yield Static("RULES", classes="box-title", markup=False)
            yield self._options
            yield self._state
            yield self._verbs

    def on_mount(self) -> None:
        """List the rules."""
        self._options.focus()
        self.call_after_refresh(self._fill)
        if self._files is not None and self._session.rules:
            self.run_worker(self._look_for_files(self._files), group="unmatched", exclusive=True)

    async def _look_for_files(self, files: Files) -> None:
        self._unmatched = frozenset(await files.unmatched(self._session.rules))
        if self._unmatched and self.is_attached:
            self._fill()

    def on_resize(self) -> None:
        """Lay the columns out for the width."""
        self.call_after_refresh(self._fill)

    def _fill(self) -> None:
        options, marked = self._options, self._options.highlighted
        width = max(30, options.content_size.width)
        self._rules = [rule for effect in GROUPS for rule in self._session.rules if rule.effect == effect]
        options.clear_options()
        seen = ""
        for index, rule in enumerate(self._rules):
            if rule.effect != seen:
                seen = rule.effect
                options.add_option(Option(_heading(seen, is_first=not index), disabled=True))
            options.add_option(Option(rule_line(rule, width, is_unmatched=rule in self._unmatched), id=str(index)))
        options.display = bool(self._rules)
        self._verbs.show([*(of_scope(Scope.RULES) if self._rules else ()), closing()])
        if self._rules:
            first = next(at for at in range(options.option_count) if not options.get_option_at_index(at).disabled)
            options.highlighted = min(max(marked or 0, first), options.option_count - 1)
        else:
            self._say(EMPTY, "$text-muted")

    @on(OptionList.OptionHighlighted)
    def _show_whole(self, event: OptionList.OptionHighlighted) -> None:
        rule = self._rules[int(event.option_id)] if event.option_id else None
        if rule is not None:
            note = f"  ·  {_UNMATCHED}" if rule in self._unmatched else ""
            self._say(f"{escape_invisible_line(str(rule))}  ·  {sanitize_line(rule.source)}{note}", "$text-muted")

    def action_rules_revoke(self) -> None:
        """Ask, then revoke the marked rule."""
        marked = self._options.highlighted
        option_id = self._options.get_option_at_index(marked).id if marked is not None else None
        if option_id is not None:
            self.run_worker(self._ask(self._rules[int(option_id)]), group="rules", exclusive=True)

    async def _ask(self, rule: Rule) -> None:
        text = f"{escape_invisible_line(str(rule))}  ({sanitize_line(rule.source)})\n{after_words(rule)}"
        if not await self.app.push_screen_wait(self._confirm("Revoke this rule?", text)):
            return
        try:
            self._session.revoke(rule)
        except LmtuiError as error:
            self._say(error.full_text(), "$error")
            return
        self._fill()
        self._say(f"revoked: {escape_invisible_line(str(rule))}.  {after_words(rule)}", "$warning")

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(None)

    def _say(self, text: str, style: str) -> None:
        self._state.update(Content.styled(sanitize(text), style))


def after_words(rule: Rule) -> str:
    """Return what revoking does, and for a rule that is elsewhere where it is to be changed."""
    if rule.source in KEPT:
        return "It is gone for good."
    return (
        f"It stops for this session only: to be rid of it, change {rule.effect} in the settings (lmtui config show says where)."
    )


def rule_line(rule: Rule, width: int, *, is_unmatched: bool = False) -> Content:
    """Return a rule and where it came from in aligned columns."""
    source = sanitize_line(rule.source) + (f", {_UNMATCHED}" if is_unmatched else "")
    room = max(12, width - len(source) - 4)
    return Content.assemble(
        (f"  {pad(fit_middle(escape_invisible_line(str(rule)), room), room)}", "$text"), (f"  {source}", "$text-muted")
    )


def _heading(effect: str, *, is_first: bool) -> Content:
    word, color, meaning = GROUPS[effect]
    return Content.assemble(("" if is_first else "\n", ""), (word, f"bold {color}"), (f"  {meaning}", "$text-muted"))
