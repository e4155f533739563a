"""Trust in the app: the question about what the folder brings, what is trusted by now, and what an answer changes when."""

from __future__ import annotations

from collections.abc import Sequence

from lmtui.core.trust import TrustItem, kinds_text, part_by_time
from lmtui.tui.commands import command, first_key
from lmtui.tui.modals.trust import TrustQuestion
from lmtui.tui.modals.trusted import Trusted
from lmtui.tui.stage import Handler, Stage


class TrustPart:
    """Answers the command of trust."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the command."""
        return {"trust.show": lambda _: self._show()}

    def _show(self) -> None:
        """Ask about what waits or was refused; where there is nothing of it, show what is trusted."""
        host = self._stage.desk.host
        if host is None:
            return
        items = tuple(host.trust.waiting() or host.trust.refused())
        trusted = host.trust.trusted()
        if items:
            question = TrustQuestion(host, now=self._stage.now)
            _ = self._stage.app.push_screen(question, lambda answer: self._answered(items, answer))
        elif trusted:
            _ = self._stage.app.push_screen(Trusted(host), self._taken_back)
        elif host.extensions.mcp.problems():
            self._stage.say("nothing here waits for trust, but a file of servers cannot be read: /mcp says which", "warning")
        else:
            self._stage.say("this folder brings nothing that needs your trust")

    def _answered(self, items: Sequence[TrustItem], is_trusted: bool | None) -> None:
        if is_trusted:
            self._stage.say(trusted_words(items))
        elif is_trusted is False:
            self._stage.say("not trusted: none of it holds; /trust asks again")

    def _taken_back(self, is_done: bool | None) -> None:
        if is_done:
            self._stage.say(taken_back_words())


def trusted_words(items: Sequence[TrustItem]) -> str:
    """Return what of the items that were trusted just now holds at once, and what from the next session on."""
    now, later = part_by_time(items)
    key = first_key(command("session.new"))
    parts = [f"hold now: {kinds_text(now)}"] if now else []
    parts += [f"from the next session on ({key} opens one): {kinds_text(later)}"] if later else []
    return f"trusted; {'; '.join(parts)}"


def taken_back_words() -> str:
    """Return what holds once trust was taken back."""
    key = first_key(command("session.new"))
    return f"taken back: its servers end now; hooks and settings hold on in sessions that are open ({key} opens one without)"
