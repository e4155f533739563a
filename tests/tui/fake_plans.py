"""The plans of a scripted session: real transitions over its own events, and rules that nobody keeps."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lmtui.core.agent_events import PlanProposed
from lmtui.core.events import Envelope, Event
from lmtui.core.permissions.rules import Rule
from lmtui.core.plan import Plan
from lmtui.core.plan_mode import Grants, PlanMode, after, approve, grants_of, reject, revise
from lmtui.core.proposals import Proposal


class FakePlans:
    """What waits, and the answers that were given."""

    def __init__(
        self, history: Callable[[], Sequence[Envelope]], emit: Callable[[Event], None], rules: Callable[[], list[Rule]]
    ) -> None:
        self._history = history
        self._emit = emit
        self._rules = rules
        self.answers: list[tuple[str, object]] = []

    @property
    def state(self) -> PlanMode:
        state = PlanMode()
        for envelope in self._history():
            state = after(state, envelope.event)
        return state

    @property
    def open(self) -> PlanProposed | None:
        return self.state.asked

    def grants(self, proposal: Proposal) -> Grants:
        return grants_of(proposal, tuple(self._rules()))

    def approve(
        self, proposal_id: str, edited: Proposal | None = None, *, rules: tuple[str, ...] = (), by: str = "user"
    ) -> None:
        self.answers.append(("approve", rules))
        self._take(approve(self.state, Plan(), edited=edited, rules=rules, by=by))

    def revise(self, proposal_id: str, words: str) -> None:
        self.answers.append(("revise", words))
        self._take(revise(self.state, words))

    def reject(self, proposal_id: str, words: str = "") -> None:
        self.answers.append(("reject", words))
        self._take(reject(self.state, words))

    def _take(self, events: Sequence[Event]) -> None:
        for event in events:
            self._emit(event)
