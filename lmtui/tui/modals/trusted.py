"""What of the folder is trusted, all of it listed, and the way to take it back."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.errors import LmtuiError
from lmtui.core.sessions import SessionHost
from lmtui.tui.commands import Scope, bindings, closing, of_scope
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.modals.questions import Confirm
from lmtui.tui.modals.trust_items import item_lines
from lmtui.tui.widgets.verbs import Verbs
from lmtui.tui.wording import folder_text

FRAME_ROWS = 11
NOTE = "A change to any of these asks again.  `lmtui config trust --list` names your other folders."


class Trusted(ModalScreen[bool]):
    """Lists what is trusted.  The result tells whether it was taken back."""

    CSS_PATH = "../dialogs.tcss"
    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TRUSTED), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.TRUSTED

    def __init__(self, host: SessionHost) -> None:
        super().__init__()
        self._host = host
        self._items = tuple(host.trust.trusted())
        self._page = PageView(lambda width: item_lines(self._items, width))
        self._note = Static(NOTE, classes="consent-notes", markup=False)
        self._verbs = Verbs()

    def compose(self) -> ComposeResult:
        """Lay out the list between its title and what can be done."""
        folder = clean_line(folder_text(self._host.workspace, Path.home()))
        with Vertical(classes="box reading"):
            yield Static(f"TRUSTED IN {folder}", classes="box-title", markup=False)
            yield self._page
            yield self._note
            yield self._verbs

    def on_mount(self) -> None:
        """Let the keys scroll."""
        self._page.focus()
        self._verbs.show([*of_scope(Scope.TRUSTED), closing()])
        self.watch(self._page, "virtual_size", self._fit, init=False)

    def on_resize(self) -> None:
        """Give the text its rows."""
        self.call_after_refresh(self._fit)

    def _fit(self) -> None:
        self._page.styles.height = max(1, min(self.size.height - FRAME_ROWS, self._page.line_total()))

    def action_trusted_revoke(self) -> None:
        """Ask, then take all of it back."""
        self.run_worker(self._ask(), group="trusted", exclusive=True)

    async def _ask(self) -> None:
        text = f"{counted(len(self._items), 'item')}: none of it holds any more until you trust it again."
        if not await self.app.push_screen_wait(Confirm("Take back your trust in this folder?", text)):
            return
        try:
            self._host.trust.revoke()
        except LmtuiError as error:
            self._note.update(Content.styled(clean_line(error.full_text()), "$error"))
            return
        _ = self.dismiss(result=True)

    def action_close_or_stop(self) -> None:
        """Close."""
        _ = self.dismiss(result=False)
