"""How many requests a task has taken, over the turns that belong to it: one that a crash cut off and “go on” took up again."""

from __future__ import annotations

from dataclasses import dataclass

from lmtui.core.events import Event, MessageAdded, TurnEnded, TurnStarted
from lmtui.core.messages import Role
from lmtui.core.wait_events import WaitSet
from lmtui.engine.completion import goes_on
from lmtui.engine.repair import CUT_OFF


@dataclass(slots=True)
class TaskSteps:
    """Counts the answers of a task, from the agent's events; live and on replay alike."""

    count: int = 0
    _is_cut_off: bool = False
    _awaits_words: bool = False

    def apply(self, event: Event) -> None:
        """Take up an event of the agent."""
        match event:
            case TurnStarted():
                self._awaits_words = True
            case MessageAdded(role=Role.USER, text=text) if self._awaits_words:
                self._awaits_words = False
                if not (self._is_cut_off and goes_on(text)):
                    self.count = 0
            case MessageAdded(role=Role.ASSISTANT):
                self.count += 1
            case WaitSet():  # what it does when it wakes is a new stretch
                self.count = 0
            case TurnEnded(error=error):
                self._is_cut_off = error == CUT_OFF
            case _:
                pass
