"""What is kept of one agent's requests to tell when room is needed, and which tools fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.core.messages import Message
from lmtui.engine.budget import Budget
from lmtui.engine.context import Conversation
from lmtui.engine.ledger import PrefixLedger

WHOLE = "whole"


class SentSize:
    """How large what a conversation sends is, in our own tokens: counted on from where the count before ended."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._key = (-1, -1)
        self._count = self._tokens = 0

    def uncounted(self, talk: Conversation) -> tuple[Message, ...]:
        """Return the messages that are to be counted."""
        self._budget.check_counter()
        key = (talk.revision, self._budget.generation)
        if key != self._key:
            self._key, self._count, self._tokens = key, 0, 0
            self._budget.hold_only(talk.messages)
        return talk.sent_from(self._count)

    def of(self, talk: Conversation) -> int:
        """Return the size of all messages."""
        messages = self.uncounted(talk)
        self._tokens += sum(map(self._budget.size, messages))
        self._count += len(messages)
        return self._tokens


@dataclass(slots=True)
class WindowBook:
    """What one agent's requests are measured by.  `tools` is the user's choice of a set: auto, full or lean.

    Room is made above `threshold_tokens` (0: by the window alone).  `summaries` counts those that the model was asked for,
    `steps` the answers, `compacted_at` is when room was made last, `little` how often in a row that brought little,
    `generation` the budget's when the ledger sized its messages.
    """

    budget: Budget = field(default_factory=Budget)
    tools: str = "auto"
    threshold_tokens: int = 0
    asks_for_summaries: bool = False
    summaries: int = 0
    steps: int = 0
    generation: int = 0
    compacted_at: int = -1
    little: int = 0
    short_counts: int = 0
    is_told: bool = False
    chosen_for: str | None = None
    ledger: PrefixLedger = field(init=False)
    sent: SentSize = field(init=False)

    def another(self) -> WindowBook:
        """Return one for another conversation with the same model."""
        other = WindowBook(self.budget.another(), self.tools, self.threshold_tokens, asks_for_summaries=self.asks_for_summaries)
        other.chosen_for = self.chosen_for
        return other

    def __post_init__(self) -> None:
        self.ledger = PrefixLedger(self.budget.size)
        self.sent = SentSize(self.budget)
