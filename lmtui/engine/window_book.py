"""What is kept of one agent's requests to tell when room is needed, and which tools fit."""

from __future__ import annotations

from dataclasses import dataclass, field

from lmtui.engine.budget import Budget
from lmtui.engine.ledger import PrefixLedger

FULL, LEAN = "full", "lean"


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

    def another(self) -> WindowBook:
        """Return one for another conversation with the same model."""
        other = WindowBook(self.budget.another(), self.tools, self.threshold_tokens, asks_for_summaries=self.asks_for_summaries)
        other.chosen_for = self.chosen_for
        return other

    def __post_init__(self) -> None:
        self.ledger = PrefixLedger(self.budget.size)
