"""All sessions of the workspace: state, title, last line, age, changes; open, new, search, rename, delete."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from datetime import datetime
from typing import ClassVar

from textual import on
from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, OptionList, Static
from textual.widgets.option_list import Option

from lmtui.core.clean import clean_line
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import SessionHost, SessionSummary
from lmtui.tui.commands import Scope, bindings, hint_text, of_scope
from lmtui.tui.lines.text import fit
from lmtui.tui.modals.questions import AskText, Confirm
from lmtui.tui.modals.results import Picked
from lmtui.tui.widgets.bars import HEIGHTS
from lmtui.tui.wording import age_text, count_text

STATES = {
    "waits": ("◐", "$warning"),
    "writing": ("●", "$accent"),
    "done": ("✓", "$success"),
    "interrupted": ("–", "$text-muted"),
    "error": ("✗", "$error"),
    "limit": ("✗", "$warning"),
    "blocked": ("✗", "$warning"),
    "new": ("○", "$text-muted"),
}
AGE_CELLS = 8
CHANGES_CELLS = 12
TITLE_SHARE = 0.36


class Switcher(ModalScreen[Picked | None]):
    """Lists the sessions; reading them happens in a thread."""

    CSS_PATH = "../dialogs.tcss"
    VERTICAL_BREAKPOINTS = HEIGHTS
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.APP), *bindings(Scope.SWITCHER)]

    SCOPE: ClassVar[Scope] = Scope.SWITCHER

    def __init__(
        self,
        host: SessionHost,
        *,
        active_id: str,
        now: Callable[[], datetime],
        rename: Callable[[str, str], Awaitable[None]],
        delete: Callable[[str], Awaitable[None]],
    ) -> None:
        super().__init__()
        self._host, self._active_id, self._now = host, active_id, now
        self._rename, self._delete = rename, delete
        self._summaries: list[SessionSummary] = []
        self._search = Input(placeholder="search in everything that was said", compact=True, id="switcher-search")
        self._search.cursor_blink = False
        self._search.display = False
        self._options = OptionList(compact=True, markup=False)

    def compose(self) -> ComposeResult:
        """Lay out title, search and list."""
        with Vertical(classes="box wide"):
            yield Static("SESSIONS", classes="box-title", markup=False)
            yield self._search
            yield self._options
            yield Static(f"{hint_text(of_scope(Scope.SWITCHER))} · esc close", classes="hint", markup=False)

    def on_mount(self) -> None:
        """Read the sessions."""
        self._options.focus()
        self._read("")

    def _read(self, words: str) -> None:
        self.run_worker(self._load(words), group="switcher", exclusive=True)

    async def _load(self, words: str) -> None:
        try:
            summaries = await asyncio.to_thread(self._host.sessions, words)
        except LmtuiError as error:
            self.notify(error.full_text(), severity="error", markup=False)
            return
        self._show(summaries)

    def _show(self, summaries: Sequence[SessionSummary]) -> None:
        self._summaries = list(summaries)
        options = self._options
        width = max(40, options.content_size.width or 76)
        options.clear_options()
        if not summaries:
            options.add_option(Option(Content.styled("no session yet", "$text-muted"), disabled=True))
            return
        options.add_options([Option(summary_line(each, self._now(), width), id=each.id) for each in summaries])
        ids = [each.id for each in summaries]
        options.highlighted = ids.index(self._active_id) if self._active_id in ids else 0

    @on(Input.Submitted, "#switcher-search")
    def _searched(self) -> None:
        self._options.focus()

    @on(Input.Changed, "#switcher-search")
    def _type(self, event: Input.Changed) -> None:
        self._read(event.value.strip())

    @on(OptionList.OptionSelected)
    def _chosen(self, event: OptionList.OptionSelected) -> None:
        if event.option_id:
            _ = self.dismiss(Picked(event.option_id))

    def action_sessions_open(self) -> None:
        """Open the marked session."""
        marked = self._marked()
        if marked:
            _ = self.dismiss(Picked(marked.id))

    def action_sessions_new(self) -> None:
        """Ask for a new session."""
        _ = self.dismiss(Picked(""))

    def action_sessions_search(self) -> None:
        """Show the search."""
        self._search.display = True
        self._search.focus()

    def action_sessions_rename(self) -> None:
        """Ask for the marked session's title."""
        marked = self._marked()
        if marked:
            self.run_worker(self._ask_title(marked))

    async def _ask_title(self, marked: SessionSummary) -> None:
        title = await self.app.push_screen_wait(AskText("Title", value=marked.title))
        if title:
            await self._try(self._rename(marked.id, title))

    def action_sessions_delete(self) -> None:
        """Ask, then delete the marked session."""
        marked = self._marked()
        if marked:
            self.run_worker(self._ask_delete(marked))

    async def _ask_delete(self, marked: SessionSummary) -> None:
        text = f"{clean_line(marked.title) or marked.id}\nIts log is deleted; files it changed stay as they are."
        if await self.app.push_screen_wait(Confirm("Delete this session?", text)):
            await self._try(self._delete(marked.id))

    async def _try(self, work: Awaitable[None]) -> None:
        """Do something to a session and list them anew; one that another lmtui holds is told, not fatal."""
        try:
            await work
        except LmtuiError as error:
            self.app.notify(clean_line(error.full_text()), severity="error", markup=False)
        self._read(self._search.value.strip())

    def action_close_or_stop(self) -> None:
        """Leave the search, or close."""
        if self._search.display and self._search.has_focus:
            self._search.value, self._search.display = "", False
            self._options.focus()
        else:
            _ = self.dismiss(None)

    def _marked(self) -> SessionSummary | None:
        index = self._options.highlighted
        return self._summaries[index] if index is not None and index < len(self._summaries) else None


def summary_line(summary: SessionSummary, now: datetime, width: int) -> Content:
    """Return one session in aligned columns: state, title, last line, age, changed files."""
    sign, color = STATES.get(summary.state, ("○", "$text-muted"))
    changes = count_text(summary.changed_files, "change") if summary.changed_files else "–"
    title_cells = max(12, int(width * TITLE_SHARE))
    last_cells = max(0, width - title_cells - AGE_CELLS - CHANGES_CELLS - 8)
    title = fit(clean_line(summary.title) or "(nothing said yet)", title_cells)
    last = fit(f"{summary.state}: {clean_line(summary.last_line)}" if summary.last_line else summary.state, last_cells)
    return Content.assemble(
        (f"{sign} ", color),
        (title.ljust(title_cells + 2), "$text"),
        (last.ljust(last_cells + 2), color if summary.state == "waits" else "$text-muted"),
        (age_text(summary.updated, now).rjust(AGE_CELLS), "$text-muted"),
        (changes.rjust(CHANGES_CELLS), "$text-muted"),
    )
