"""Long work: room made in the model's window by hand, the session's budget, and deep work under one."""

from __future__ import annotations

from lmtui.core.errors import UsageError
from lmtui.core.long_words import begin_deep, budget_words, set_budget
from lmtui.core.permissions import Mode
from lmtui.tui.stage import Handler, Stage


class LongWorkPart:
    """Answers the commands of long work."""

    def __init__(self, stage: Stage) -> None:
        self._stage = stage

    def handlers(self) -> dict[str, Handler]:
        """Return what answers the commands."""
        return {"room.make": self._make_room, "budget.show": self._budget, "deep.begin": self._deep}

    def _make_room(self, focus: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        active.session.waiting.make_room(focus)

    def _budget(self, words: str) -> None:
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        try:
            if words.strip():
                set_budget(active.session.budget, words)
        except UsageError as error:
            self._stage.say(error.full_text(), "error")
            return
        self._stage.say(budget_words(active.session.budget))

    def _deep(self, words: str) -> None:
        """Give the session a budget and let it plan first; the plan is then carried out under the budget."""
        active = self._stage.desk.active
        if active is None:
            self._stage.say("no session yet")
            return
        try:
            task = begin_deep(active.session.budget, words)
        except UsageError as error:
            self._stage.say(error.full_text(), "error")
            return
        active.session.set_mode(Mode.PLAN)
        active.session.submit(task)
