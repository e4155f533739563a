"""What a front end may do about a plan that waits for a person.  Nothing here does I/O."""

from __future__ import annotations

from typing import Protocol

from lmtui.core.plan_events import PlanProposed
from lmtui.core.proposal_grants import Grants
from lmtui.core.proposals import Proposal


class Plans(Protocol):
    """The plans of a session.  An answer to one that is not open any more is ignored.

    All answers raise `ToolError` where they cannot be: nothing is said, or an edited plan cannot be carried out.
    """

    @property
    def open(self) -> PlanProposed | None:
        """Return the plan that waits for an answer."""

    def grants(self, proposal: Proposal) -> Grants:
        """Return what a plan's own files and commands would be allowed with it."""

    def approve(
        self, proposal_id: str, edited: Proposal | None = None, *, rules: tuple[str, ...] = (), by: str = "user"
    ) -> None:
        """Approve the open plan, as it stands or as it was edited, and have it carried out.

        Of `rules` those hold for this session that `grants` names for it.  `by` is user, or flag.
        """

    def revise(self, proposal_id: str, words: str) -> None:
        """Say what should be different; the model proposes again."""

    def reject(self, proposal_id: str, words: str = "") -> None:
        """Drop the open plan; plan mode stays as it is."""
