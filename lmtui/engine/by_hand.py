"""The form of calls as the user sets it, for the model in use: it holds at once and the next time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from lmtui.core.events import Event
from lmtui.core.messages import CallForm
from lmtui.core.model_events import CallFormChanged
from lmtui.core.profiles import BY_HAND, LEARNED
from lmtui.core.sessions import CallsInUse

if TYPE_CHECKING:
    from lmtui.engine.desk import Desk

_YOU = "you set it"


class CallsByHand:
    """Implements `core.sessions.Calls` for one agent.

    Args:
        desk: returns the agent.
        emit: takes the event by which the form changes; must not raise.
    """

    def __init__(self, desk: Callable[[], Desk], emit: Callable[[Event], None]) -> None:
        self._desk = desk
        self._emit = emit

    def in_use(self) -> CallsInUse:
        """Return the form in use, and why."""
        calling = self._desk().model.calling
        return CallsInUse(calling.form, calling.why, calling.is_by_hand)

    def use(self, form: CallForm | None) -> None:
        """Set the form by hand, or let it be chosen again."""
        model = self._desk().model
        if form is not None:
            model.keep(call_form=form, source=BY_HAND, note=_YOU)
            self._emit(CallFormChanged(agent=self._desk().agent, form=str(form), why=_YOU, is_by_hand=True))
            return
        model.keep(call_form=None, source=LEARNED, note="")
        change = model.calling.let_go(model.served)
        self._emit(CallFormChanged(agent=self._desk().agent, form=str(change.form), why=change.why, lets_go=True))
