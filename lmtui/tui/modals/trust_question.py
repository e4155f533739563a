"""The question about a folder that brings settings, rules, hooks or own servers: all of them are listed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path

from textual.content import Content

from lmtui.core.errors import LmtuiError
from lmtui.core.look_alikes import warning
from lmtui.core.sanitize import escape_invisible_line, pluralize, sanitize_line
from lmtui.core.sessions import SessionHost
from lmtui.core.tool_servers import Reach, ToolServers
from lmtui.core.trust import TrustItem, outcome_text
from lmtui.tui.commands import Scope
from lmtui.tui.lines.page_view import PageView, whole_text
from lmtui.tui.lines.styled_text import Line, fit, pad
from lmtui.tui.modals.approval_text import titled
from lmtui.tui.modals.consent import ConsentDialog, Question, YesNo
from lmtui.tui.modals.picker import Picker
from lmtui.tui.modals.results import Choice
from lmtui.tui.wording import folder_text
from lmtui.tui.workbench_api import Handler, WorkbenchApi

MOST_KIND_CELLS = 18


def item_lines(items: Sequence[TrustItem], width: int) -> list[Line]:
    """Return every item: what kind, where it is, and its text, all of it."""
    found: list[Line] = []
    source = ""
    kind_cells = min(MOST_KIND_CELLS, max((len(sanitize_line(item.kind)) for item in items), default=0))
    for item in items:
        if item.source != source:
            source = item.source
            found += [*([()] if found else []), *whole_text(escape_invisible_line(source), width, "strong")]
        room = max(8, width - kind_cells - 4)
        lines = [*whole_text(escape_invisible_line(item.words), room), *whole_text(warning((item.words,)), room, "bad")]
        lines = [line for line in lines if line]
        kinds = [sanitize_line(item.kind), *([""] * (len(lines) - 1))]
        found += [
            ((f"  {pad(fit(kind, kind_cells), kind_cells)}  ", "muted"), *line) for kind, line in zip(kinds, lines, strict=True)
        ]
    return found


class TrustedQuestion(YesNo):
    """Lists what is trusted, and takes it back."""

    def __init__(self, host: SessionHost) -> None:
        self._items = tuple(host.trust.trusted())
        folder = sanitize_line(folder_text(host.workspace, Path.home()))
        super().__init__(f"Trusted in {folder}: {pluralize(len(self._items), 'item')}", "", no="close")
        self.body = PageView(lambda width: item_lines(self._items, width))

    def notes(self) -> Content:
        """Return what taking it back means."""
        text = "Once revoked, nothing from it is used until you trust it again. A change to any of these asks again."
        return Content.styled(text, "$text-muted")

    def words(self) -> Mapping[str, str]:
        """Return what a yes does."""
        return {**super().words(), "confirm.yes": "revoke"}


LOOK_S = 0.5
NOTE = (
    "They can run programs, contact servers or weaken approvals. Until you trust them, they are ignored; "
    "a change to any of them asks again."
)


class TrustQuestion(Question[bool | None]):
    """Lists what waits.  The result is None where it was left without an answer."""

    scopes = (Scope.TRUST,)
    guarded = ("trust.yes",)
    decisions = ("trust.yes", "trust.no", "trust.reach")

    def __init__(self, host: SessionHost) -> None:
        self._items = _open_items(host)
        self._page = PageView(lambda width: item_lines(self._items, width))
        super().__init__(self._page)
        self._host = host
        self._error = ""
        self._is_asked_again = not host.trust.waiting()

    def begin(self) -> None:
        """Look now and then whether another lmtui was answered meanwhile."""
        self.dialog.run_worker(self._watch(), group="trust-look")

    async def _watch(self) -> None:
        trust = self._host.trust
        while True:
            await asyncio.sleep(LOOK_S)
            if await asyncio.to_thread(trust.refused if self._is_asked_again else trust.waiting):  # it reads the folder
                continue
            is_trusted = trust.answered_elsewhere()  # takes the answer up: that is the loop's to do
            if is_trusted is None or (self._is_asked_again and not is_trusted) or self.dialog.app.screen is not self.dialog:
                continue
            said = "this folder is trusted" if is_trusted else "this folder is not trusted"
            self.dialog.app.notify(f"{said}: another lmtui was answered", markup=False)
            _ = self.dialog.dismiss(is_trusted)
            return

    def headline(self, width: int) -> Content:
        """Return which folder, and how much it brings."""
        folder = sanitize_line(folder_text(self._host.workspace, Path.home()))
        return titled(f"Trust what {folder} brings?", pluralize(len(self._items), "item"), "$text-muted", width)

    def notes(self) -> Content:
        """Return what trust means."""
        return Content.styled(self._error, "$error") if self._error else Content.styled(NOTE, "$text-muted")

    def preferred(self) -> str:
        """Return the answer that is chosen first: nothing is trusted by Enter alone."""
        return "trust.no"

    def left_out(self) -> Collection[str]:
        """Return the choice of where a server runs, where there is none."""
        return () if any(item.server for item in self._items) else ("trust.reach",)

    def handlers(self) -> Mapping[str, Callable[[], object]]:
        """Return what each answer does."""
        return {
            "trust.yes": lambda: self._answer(is_trusted=True),
            "trust.no": lambda: self._answer(is_trusted=False),
            "trust.reach": self._ask_reach,
        }

    def _answer(self, *, is_trusted: bool) -> None:
        try:
            self._host.trust.answer(self._items, is_trusted=is_trusted)
        except LmtuiError as error:
            self._error = sanitize_line(error.full_text())
            self.dialog.draw()
            return
        _ = self.dialog.dismiss(is_trusted)

    def _ask_reach(self) -> None:
        """Let the user choose where a server runs, whatever its entry says."""
        if any(item.server for item in self._items):
            self.dialog.run_worker(self._choose_reach(), group="trust-reach", exclusive=True)

    async def _choose_reach(self) -> None:
        servers = [item for item in self._items if item.server]
        choices = [Choice(item.server, sanitize_line(item.server), sanitize_line(item.text)) for item in servers]
        is_one = len(choices) == 1
        name = servers[0].server if is_one else await self.dialog.app.push_screen_wait(Picker("Which server?", choices))
        if not name:
            return
        ways = [Choice(reach.name, str(reach)) for reach in Reach]
        title = f"Where does {sanitize_line(name)} run?"
        if (way := await self.dialog.app.push_screen_wait(Picker(title, ways, note="kept for you alone"))) is None:
            return
        try:
            self._host.extensions[ToolServers].choose_reach(name, Reach[way])
        except LmtuiError as error:
            self._error = sanitize_line(error.full_text())
        self._items = _open_items(self._host)
        self._page.show(lambda width: item_lines(self._items, width))
        self._page.scroller.to_edge(is_end=False)  # what changed may stand above
        self.dialog.read_again()


def _open_items(host: SessionHost) -> tuple[TrustItem, ...]:
    """Return what can be answered: what waits, or else what was refused."""
    return tuple(host.trust.waiting() or host.trust.refused())


class TrustController:
    """Answers the command of trust."""

    def __init__(self, workbench: WorkbenchApi) -> None:
        self._workbench = workbench

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"trust.show": lambda _: self._show()}

    def _show(self) -> None:
        """Ask about what waits or was refused; where there is nothing of it, show what is trusted."""
        host = self._workbench.sessions.host
        if host is None:
            return
        items = tuple(host.trust.waiting() or host.trust.refused())
        trusted = host.trust.trusted()
        if items:
            question = TrustQuestion(host)
            _ = self._workbench.app.push_screen(ConsentDialog(question), lambda answer: self._answered(items, answer))
        elif trusted:
            self._list(TrustedQuestion(host), host)
        elif ToolServers in host.extensions and host.extensions[ToolServers].problems():
            self._workbench.say(
                "nothing here waits for trust, but a file of servers cannot be read: /mcp says which", "warning"
            )
        else:
            self._workbench.say("this folder brings nothing that needs your trust")

    def _answered(self, items: Sequence[TrustItem], is_trusted: bool | None) -> None:
        if is_trusted is not None:
            self._workbench.say(outcome_text(items, is_trusted=is_trusted))

    def _list(self, question: TrustedQuestion, host: SessionHost) -> None:
        def answered(is_revoked: bool | None) -> None:
            try:
                if is_revoked:
                    host.trust.revoke()
                    self._workbench.say("Trust revoked. Its servers stop; open sessions keep its hooks and settings.")
            except LmtuiError as error:
                self._workbench.say(error.full_text(), "error")

        _ = self._workbench.app.push_screen(ConsentDialog(question), answered)
