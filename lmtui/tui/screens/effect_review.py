"""The page on which the effect in an overlay is applied or dropped, part by part."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import ClassVar

from textual.binding import BindingType
from textual.widget import Widget

from lmtui.core.errors import LmtuiError
from lmtui.core.sanitize import pluralize, sanitize_line
from lmtui.core.workspace import EffectReview
from lmtui.tui.commands import Scope, bindings, command, of_scope
from lmtui.tui.lines.diff_view import split_word
from lmtui.tui.modals.picker import Confirm
from lmtui.tui.screens.beside import BesideChat
from lmtui.tui.widgets.bars import HEIGHTS, WIDTHS, Part
from lmtui.tui.widgets.effect_page import APPLY, DELETE, EffectPage

LOOKING, UNCHANGED = "Loading the changes …", "No changes."


class EffectReviewScreen(BesideChat):
    """Lets parts of an effect be applied; the rest stays in the overlay.  The result: whether something was applied.

    `title` and `about` are shown in the first row: what it is, and of what.
    """

    HORIZONTAL_BREAKPOINTS = WIDTHS
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = bindings(Scope.REVIEW, Scope.EFFECTS, Scope.DIFF, Scope.APP, Scope.MOVING)
    SCOPE: ClassVar[Scope] = Scope.REVIEW

    def __init__(self, review: EffectReview, title: str, about: str = "") -> None:
        super().__init__()
        self.page = EffectPage()
        self.page.changed = self._draw
        self.page.list.empty_text, self.page.diff.empty_text = LOOKING, ""
        self._review, self._title = review, [Part(sanitize_line(title), "bold"), Part(sanitize_line(about), "$text-muted", 2)]
        self._was_kept = False

    def content(self) -> Iterable[Widget]:
        """Return the parts and what is said."""
        return self.page, self._said

    def on_mount(self) -> None:
        self.page.list.focus()
        self._do(self._look)

    def placed(self) -> None:
        """Say what the keys do."""
        self._draw()

    def tab_parts(self) -> list[Part]:
        return self._title

    def action_close_or_stop(self) -> None:
        """Go back to the list, or leave everything in the overlay."""
        if not self.page.leave_diff():
            _ = self.dismiss(self._was_kept)

    def action_answer(self, command_id: str) -> None:
        """Do what a key means."""
        own: dict[str, Callable[[], object]] = {
            "review.keep": lambda: self._do(self._keep),
            "review.drop": self._ask_to_drop,
            "review.refresh": lambda: self._do(self._look),
            "review.switch": lambda: self.page.leave_diff() or self.page.diff.focus(),
        }
        {**self.page.handlers(), **own}[command_id]()

    def action_split(self) -> None:
        """Show old and new side by side, or in one column."""
        self.page.diff.toggle_split()

    async def _look(self) -> None:
        self.page.show(await self._review.parts(), empty_text=UNCHANGED)

    async def _keep(self) -> None:
        decisions = self.page.decisions
        if not decisions.applied:
            self.say_below(self.page.nothing_chosen() if decisions.parts else UNCHANGED)
            return
        notes = await self._review.keep(None if decisions.is_all_applied else decisions.applied)
        self._was_kept = True
        said = " · ".join([f"Applied {decisions.count(APPLY) + decisions.count(DELETE)} of {len(decisions.parts)}", *notes])
        if decisions.is_all_applied:
            self.app.notify(sanitize_line(said), markup=False)
            _ = self.dismiss(result=True)
        else:
            self.say_below(said, "$text-muted")
            await self._look()

    def _ask_to_drop(self) -> None:
        parts = self.page.decisions.parts
        if parts:  # no worker asks: it would end the one that looks or keeps
            text = f"{pluralize(len(parts), 'change')} in the overlay will be lost. Your files stay unchanged."
            _ = self.app.push_screen(Confirm("Discard all?", text), lambda is_sure: self._do(self._drop) if is_sure else None)

    async def _drop(self) -> None:
        await self._review.drop()
        _ = self.dismiss(self._was_kept)

    def _do(self, change: Callable[[], Awaitable[None]]) -> None:
        self.run_worker(self._try(change), group="effects", exclusive=True)

    async def _try(self, change: Callable[[], Awaitable[None]]) -> None:
        try:
            await change()
        except LmtuiError as error:
            self.page.list.empty_text = ""
            self.say_below(error.full_text(), "$error")

    def _draw(self) -> None:
        """Say how much is applied and what the keys do."""
        decisions, source = self.page.decisions, self.page.diff.source
        self.draw_tabs([Part(decisions.said())] if decisions.parts else [])
        words = {
            "review.keep": decisions.verb(),
            "effects.toggle": self.page.toggle_word(),
            "diff.split": split_word(is_split=source.is_split) if source.can_split else "",
            "review.switch": "list" if self.page.is_in_diff else "diff",
        }
        shown = *of_scope(Scope.REVIEW, Scope.EFFECTS), command("diff.split")
        self.show_keys(replace(each, hint=words.get(each.id, each.hint)) for each in shown)
