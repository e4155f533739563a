"""The question about a folder that brings settings, rules, hooks or servers of its own: all of them are listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import ClassVar

from textual.binding import BindingType
from textual.content import Content

from lmtui.core.clean import clean_line
from lmtui.core.counting import counted
from lmtui.core.errors import LmtuiError
from lmtui.core.mcp import Reach
from lmtui.core.sessions import SessionHost
from lmtui.core.trust import TrustItem
from lmtui.tui.commands import Command, Scope, bindings, closing, of_scope
from lmtui.tui.lines.page_view import PageView
from lmtui.tui.modals.approval_words import titled
from lmtui.tui.modals.consent import Consent
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.modals.trust_items import item_lines
from lmtui.tui.modals.trusted import Trusted
from lmtui.tui.screens.viewer import Viewer
from lmtui.tui.wording import folder_text

LOOK_S = 0.5
NOTE = (
    "They could run programs, reach servers or loosen what asks. Until you trust them, they are ignored; "
    "a change to any of them asks again."
)


class TrustQuestion(Consent[bool | None]):
    """Lists what waits.  The result is None where it was left without an answer."""

    BINDINGS: ClassVar[list[BindingType]] = [*bindings(Scope.TRUST), *bindings(Scope.APP), *bindings(Scope.MOVING)]

    SCOPE: ClassVar[Scope] = Scope.TRUST
    GUARDED: ClassVar[tuple[str, ...]] = ("trust.yes",)

    def __init__(self, host: SessionHost, *, now: Callable[[], datetime]) -> None:
        self._items = _open_items(host)
        self._page = PageView(lambda width: item_lines(self._items, width))
        super().__init__(self._page, now)
        self._host = host
        self._error = ""
        self._is_asked_again = not host.trust.waiting()
        self._has_trusted = bool(host.trust.trusted())

    def on_mount(self) -> None:
        """Look now and then whether another lmtui was answered meanwhile."""
        super().on_mount()
        self.run_worker(self._watch(), group="trust-look")

    async def _watch(self) -> None:
        trust = self._host.trust
        while True:
            await asyncio.sleep(LOOK_S)
            if await asyncio.to_thread(trust.refused if self._is_asked_again else trust.waiting):  # it reads the folder
                continue
            is_trusted = trust.answered_elsewhere()  # takes the answer up: that is the loop's to do
            if is_trusted is None or (self._is_asked_again and not is_trusted) or self.app.screen is not self:
                continue
            said = "this folder is trusted" if is_trusted else "this folder is not trusted"
            self.app.notify(f"{said}: another lmtui was answered", markup=False)
            _ = self.dismiss(is_trusted)
            return

    def headline(self, width: int) -> Content:
        """Return which folder, and how much it brings."""
        folder = clean_line(folder_text(self._host.workspace, Path.home()))
        return titled(f"Trust what {folder} brings?", counted(len(self._items), "item"), "$text-muted", width)

    def notes(self) -> Content:
        """Return what trust means."""
        return Content.styled(self._error, "$error") if self._error else Content.styled(NOTE, "$text-muted")

    def choices(self) -> Sequence[Command]:
        """Return the answers."""
        is_left_out = {"trust.list": not self._has_trusted, "trust.reach": not any(item.server for item in self._items)}
        found = [each for each in of_scope(Scope.TRUST) if not is_left_out.get(each.id)]
        return [*found, closing("ask again later")]

    def action_trust_yes(self) -> None:
        """Trust what is listed."""
        if self.answer_counts():
            self._answer(is_trusted=True)

    def action_trust_no(self) -> None:
        """Go on without it."""
        self._answer(is_trusted=False)

    def _answer(self, *, is_trusted: bool) -> None:
        try:
            self._host.trust.answer(self._items, is_trusted=is_trusted)
        except LmtuiError as error:
            self._error = clean_line(error.full_text())
            self.draw()
            return
        _ = self.dismiss(is_trusted)

    def action_trust_reach(self) -> None:
        """Let the user choose where a server runs, whatever its entry says."""
        if any(item.server for item in self._items):
            self.run_worker(self._choose_reach(), group="trust-reach", exclusive=True)

    async def _choose_reach(self) -> None:
        servers = [item for item in self._items if item.server]
        choices = [Choice(item.server, clean_line(item.server), clean_line(item.text)) for item in servers]
        is_one = len(choices) == 1
        name = servers[0].server if is_one else await self.app.push_screen_wait(Picker("WHICH SERVER?", choices))
        if not name:
            return
        ways = [Choice(reach.name, str(reach)) for reach in Reach]
        title = f"WHERE DOES {clean_line(name)} RUN?"
        if (way := await self.app.push_screen_wait(Picker(title, ways, note="kept for you alone"))) is None:
            return
        try:
            self._host.extensions.mcp.choose_reach(name, Reach[way])
        except LmtuiError as error:
            self._error = clean_line(error.full_text())
        self._items = _open_items(self._host)
        self._page.show(lambda width: item_lines(self._items, width))
        self._page.move_to_edge(is_end=False)  # what changed may stand above
        self._has_seen_end = False
        self._fit_later()

    def action_trust_list(self) -> None:
        """Show what is trusted by now."""
        if self._has_trusted:
            _ = self.app.push_screen(Trusted(self._host), self._taken_back)

    def _taken_back(self, is_done: bool | None) -> None:
        if is_done:
            self._error = "Taken back: close this and look again (/trust)."
            self.draw()

    def action_trust_look(self) -> None:
        """Show the file that they come from, or let one be chosen."""
        sources = list(dict.fromkeys(item.source for item in self._items))
        if len(sources) == 1:
            self._show(sources[0])
            return
        choices = [Choice(str(number), clean_line(source)) for number, source in enumerate(sources)]
        picker = Picker("LOOK AT", choices)
        _ = self.app.push_screen(picker, lambda number: self._show(sources[int(number)]) if number is not None else None)

    def _show(self, source: str) -> None:
        _ = self.app.push_screen(Viewer(self._host, source))

    def action_close_or_stop(self) -> None:
        """Leave it open: the question comes again."""
        _ = self.dismiss(None)


def _open_items(host: SessionHost) -> tuple[TrustItem, ...]:
    """Return what can be answered: what waits, or else what was refused."""
    return tuple(host.trust.waiting() or host.trust.refused())
